//! A JSON-RPC error without an id belongs to the only call that waits on its stream or connection.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeSseUpstream, FakeUpstream, RecordedRequest, ScriptStep, SsePostReply, TestGateway, event_response,
    tool_definition,
};
use serde_json::json;

use super::support::wait_until;

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
const ERROR_WITH_NULL_ID: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?","data":{"n":1.10}}}"#;
const ERROR_WITHOUT_ID: &str = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?","data":{"n":1.10}}}"#;

fn settings() -> GatewaySettings {
    GatewaySettings { call_timeout: Duration::from_secs(3), ..GatewaySettings::default() }
}

fn error_without_id(request: &RecordedRequest) -> Option<&'static str> {
    match request.tool().as_str() {
        "null" => Some(ERROR_WITH_NULL_ID),
        "none" => Some(ERROR_WITHOUT_ID),
        _ => None,
    }
}

async fn assert_error_reaches_its_call(gw: &TestGateway) {
    for name in ["null", "none"] {
        let started = Instant::now();
        let reply = gw.call(name, json!({})).await;
        let message = reply.message();
        assert_eq!((&message["id"], &message["error"]["message"]), (&json!(7), &json!("what?")), "{}", reply.body);
        assert_eq!(reply.code(), -32700);
        assert!(reply.body.contains("1.10"), "numbers are passed on as written: {}", reply.body);
        assert!(started.elapsed() < Duration::from_secs(2), "the call does not wait for its timeout");
    }
}

#[tokio::test]
async fn an_error_on_a_response_stream_is_the_result_of_its_call() {
    let server = |request: &RecordedRequest| {
        error_without_id(request).map(|error_without_id| event_response(&format!("data: {error_without_id}\n\n")))
    };
    let upstream = FakeUpstream::start(json!([tool_definition("null"), tool_definition("none")]), server).await;
    let gw = TestGateway::builder().policy(POLICY).settings(settings()).start(&upstream).await;
    assert_error_reaches_its_call(&gw).await;
    assert_eq!(upstream.calls().len(), 2);
}

#[tokio::test]
async fn an_error_on_a_sse_connection_is_the_result_of_the_only_waiting_call() {
    let message_event = |text: &str| ScriptStep::Write(format!("event: message\ndata: {text}\n\n").into_bytes());
    let server = move |request: &RecordedRequest| {
        if request.tool() == "slow" {
            let result = json!({"content": [{"type": "text", "text": "slow"}]});
            let reply = json!({"jsonrpc": "2.0", "id": request.message()["id"], "result": result}).to_string();
            let script = vec![ScriptStep::Pause(Duration::from_millis(1_500)), message_event(&reply)];
            // The other call must not queue behind this POST on the same connection.
            return Some(SsePostReply { status_after_script: true, ..SsePostReply::accept_then(script) });
        }
        error_without_id(request)
            .map(|error_without_id| SsePostReply::accept_then(vec![message_event(error_without_id)]))
    };
    let upstream = FakeSseUpstream::start(&["null", "none", "slow"], server).await;
    let gw = TestGateway::builder().policy(POLICY).settings(settings()).start_at(&upstream.url()).await;
    assert_error_reaches_its_call(&gw).await;

    // With two waiting calls the error cannot be attributed.
    let late = async {
        let is_slow_sent = || upstream.messages("tools/call").iter().any(|request| request.tool() == "slow");
        wait_until("the slow call is sent", is_slow_sent).await;
        gw.call("null", json!({})).await
    };
    let (slow, late) = tokio::join!(gw.call("slow", json!({})), late);
    assert_eq!(slow.text(), "slow");
    assert!(late.text().contains("did not answer in time"), "{}", late.body);
}
