//! An error that names no request: on a stream or a connection on which one call waits, it is that call's.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeSseUpstream, FakeUpstream, RecordedRequest, ScriptStep, SsePostReply, TestGateway, event_response,
    tool_definition,
};
use serde_json::json;

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
const NULL: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?","data":{"n":1.10}}}"#;
const NONE: &str = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?","data":{"n":1.10}}}"#;

fn patient() -> GatewaySettings {
    GatewaySettings { call_timeout: Duration::from_secs(3), ..GatewaySettings::default() }
}

fn fault(hit: &RecordedRequest) -> Option<&'static str> {
    match hit.tool().as_str() {
        "null" => Some(NULL),
        "none" => Some(NONE),
        _ => None,
    }
}

async fn is_the_calls_own(gw: &TestGateway) {
    for name in ["null", "none"] {
        let begun = Instant::now();
        let answer = gw.call(name, json!({})).await;
        let message = answer.message();
        assert_eq!((&message["id"], &message["error"]["message"]), (&json!(7), &json!("what?")), "{}", answer.body);
        assert_eq!(answer.code(), -32700);
        assert!(answer.body.contains("1.10"), "as it is written: {}", answer.body);
        assert!(begun.elapsed() < Duration::from_secs(2), "it did not wait for its time to be over");
    }
}

#[tokio::test]
async fn on_a_stream_of_events_it_is_that_calls_error() {
    let server = |hit: &RecordedRequest| fault(hit).map(|fault| event_response(&format!("data: {fault}\n\n")));
    let upstream = FakeUpstream::start(json!([tool_definition("null"), tool_definition("none")]), server).await;
    let gw = TestGateway::builder().policy(POLICY).settings(patient()).start(&upstream).await;
    is_the_calls_own(&gw).await;
    assert_eq!(upstream.calls().len(), 2);
}

#[tokio::test]
async fn on_a_connection_of_http_and_sse_it_is_that_of_the_one_call_that_waits() {
    let said = |text: &str| ScriptStep::Write(format!("event: message\ndata: {text}\n\n").into_bytes());
    let server = move |hit: &RecordedRequest| {
        if hit.tool() == "slow" {
            let result = json!({"content": [{"type": "text", "text": "slow"}]});
            let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
            let script = vec![ScriptStep::Pause(Duration::from_millis(1_500)), said(&answer)];
            // The other call must not wait for this one's connection.
            return Some(SsePostReply { status_after_script: true, ..SsePostReply::accept_then(script) });
        }
        fault(hit).map(|fault| SsePostReply::accept_then(vec![said(fault)]))
    };
    let upstream = FakeSseUpstream::start(&["null", "none", "slow"], server).await;
    let gw = TestGateway::builder().policy(POLICY).settings(patient()).start_at(&upstream.url()).await;
    is_the_calls_own(&gw).await;

    // Of two that wait, nobody could say whose it is.
    let late = async {
        while !upstream.messages("tools/call").iter().any(|hit| hit.tool() == "slow") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        gw.call("null", json!({})).await
    };
    let (slow, late) = tokio::join!(gw.call("slow", json!({})), late);
    assert_eq!(slow.text(), "slow");
    assert!(late.text().contains("did not answer in time"), "{}", late.body);
}
