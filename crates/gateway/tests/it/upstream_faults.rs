//! Faulty upstreams: every call gets exactly one response, which says whether it may have run, and the next call works.
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on should stop where it is")]

use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::CallOutcome;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, event_response, json_response,
    tool_definition,
};
use serde_json::{Value, json};

const POLICY: &str =
    r#"{"version":"1","default":"deny","tools":{"*":{"limits":[{"counter":"c","window":"day","max":1000}]}}}"#;

fn write(text: &str) -> ScriptStep {
    ScriptStep::Write(text.as_bytes().to_vec())
}

fn result(id: &Value, text: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}}).to_string()
}

/// Server whose tool names select the fault of their calls.
fn faulty_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    if hit.method() != "tools/call" {
        return None;
    }
    let id = &hit.message()["id"];
    let ok = result(id, "fine");
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    Some(match hit.tool().as_str() {
        "reset" => vec![ScriptStep::Close],
        "half_head" => vec![write("HTTP/1.1 200 OK\r\ncontent-ty"), ScriptStep::Close],
        "half_reply" => vec![
            write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"jsonrpc\""),
            ScriptStep::Close,
        ],
        "wrong_id" => json_response("200 OK", "", &result(&json!("another"), "not yours")),
        "wrong_type_of_id" => json_response("200 OK", "", &result(&json!(7), "not yours")),
        "wrong_id_then_right" => {
            event_response(&format!("data: {}\n\ndata: {ok}\n\n", result(&json!("x"), "not yours")))
        }
        "two_replies" => event_response(&format!("data: {ok}\n\ndata: {}\n\n", result(id, "second"))),
        "slow_drip" => {
            let mut steps =
                vec![write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n")];
            for _ in 0..100 {
                steps.extend([write(" "), ScriptStep::Pause(Duration::from_millis(50))]);
            }
            steps
        }
        "endless_stream" => {
            let mut steps = vec![write(stream)];
            for _ in 0..4_000 {
                steps.extend([write(": still here\n\n"), ScriptStep::Pause(Duration::from_millis(2))]);
            }
            steps
        }
        "silent" => vec![ScriptStep::Pause(Duration::from_secs(30))],
        "lost_session" => json_response(
            "404 Not Found",
            "",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}"#,
        ),
        "lost_session_as_text" => {
            vec![write("HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\ngone")]
        }
        "unauthorized" => json_response(
            "401 Unauthorized",
            "www-authenticate: Bearer resource_metadata=\"http://127.0.0.1:1/x\"\r\n",
            "{}",
        ),
        "redirect" => {
            vec![write("HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n")]
        }
        "giant_event" => {
            let mut steps = vec![write(stream), write("data: ")];
            steps.extend((0..70).map(|_| ScriptStep::Write(vec![b'x'; 1 << 20])));
            steps
        }
        "garbage" => json_response("200 OK", "", "<html>no</html>"),
        "garbage_event_then_right" => event_response(&format!("data: nonsense\n\nid: 4\nretry: 0\ndata: {ok}\n\n")),
        "not_json" => vec![write("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nno")],
        "server_error" => vec![write("HTTP/1.1 500 Oops\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nno")],
        "ends_without_reply" => event_response(": nothing\n\n"),
        "empty" => vec![write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n")],
        "batch" => json_response("200 OK", "", &format!("[{ok}]")),
        "compressed" => json_response("200 OK", "content-encoding: gzip\r\n", &ok),
        "not_http" => vec![write("\x00\x01\x02 hello"), ScriptStep::Close],
        _ => return None,
    })
}

const FAULTS: [(&str, &str, CallOutcome); 20] = [
    ("reset", "upstream_gone", CallOutcome::NoValidResponse),
    ("half_head", "upstream_gone", CallOutcome::NoValidResponse),
    ("half_reply", "upstream_gone", CallOutcome::NoValidResponse),
    ("wrong_id", "upstream_gone", CallOutcome::NoValidResponse),
    ("wrong_type_of_id", "upstream_gone", CallOutcome::NoValidResponse),
    ("slow_drip", "upstream_timeout", CallOutcome::Timeout),
    ("endless_stream", "upstream_timeout", CallOutcome::Timeout),
    ("silent", "upstream_timeout", CallOutcome::Timeout),
    ("lost_session", "upstream_gone", CallOutcome::NoValidResponse),
    ("lost_session_as_text", "upstream_gone", CallOutcome::NoValidResponse),
    ("unauthorized", "upstream_gone", CallOutcome::NoValidResponse),
    ("redirect", "upstream_gone", CallOutcome::NoValidResponse),
    ("giant_event", "upstream_gone", CallOutcome::NoValidResponse),
    ("garbage", "upstream_gone", CallOutcome::NoValidResponse),
    ("not_json", "upstream_gone", CallOutcome::NoValidResponse),
    ("server_error", "upstream_gone", CallOutcome::NoValidResponse),
    ("ends_without_reply", "upstream_gone", CallOutcome::NoValidResponse),
    ("empty", "upstream_gone", CallOutcome::NoValidResponse),
    ("compressed", "upstream_gone", CallOutcome::NoValidResponse),
    ("not_http", "upstream_gone", CallOutcome::NoValidResponse),
];

async fn setup() -> (FakeUpstream, TestGateway) {
    let names = ["fine", "wrong_id_then_right", "two_replies", "garbage_event_then_right", "batch"];
    let tools: Vec<Value> = FAULTS.iter().map(|(name, _, _)| *name).chain(names).map(tool_definition).collect();
    let upstream = FakeUpstream::start(json!(tools), faulty_server).await;
    let settings = GatewaySettings { call_timeout: Duration::from_millis(2_500), ..GatewaySettings::default() };
    let gateway = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    (upstream, gateway)
}

#[tokio::test]
async fn every_fault_is_answered_once_recorded_and_charged_and_the_next_call_works() {
    let (upstream, gw) = setup().await;
    for (spent, (fault, code, outcome)) in (1..).zip(FAULTS) {
        let response = gw.call(fault, json!({})).await;

        assert_eq!(response.messages().len(), 1, "{fault}: {}", response.body);
        assert!(response.text().starts_with("[UPSTREAM] "), "{fault}: {}", response.text());
        assert!(response.text().contains("the call may have run; call id "), "{fault}: {}", response.text());
        assert_eq!(response.message()["result"]["_meta"]["gatelodge/refusal"]["code"], code, "{fault}");
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!((row.outcome, row.code.as_deref()), (Some(outcome), Some(code)), "{fault}");
        assert_eq!(upstream.calls_to(fault).len(), 1, "{fault} is not sent twice");
        let fine = gw.call("fine", json!({"n": spent})).await;
        assert_eq!(fine.text(), json!({"n": spent}).to_string(), "after {fault}");
    }
    // Failed calls are charged like successful ones.
    let usage = gw.store.counter_usage.usage().await.expect("a store");
    assert_eq!(usage[0].used.to_string(), (2 * FAULTS.len()).to_string());
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn unrelated_messages_are_dropped_and_the_right_response_arrives_once() {
    let (_, gw) = setup().await;
    for name in ["wrong_id_then_right", "two_replies", "garbage_event_then_right"] {
        let response = gw.call(name, json!({})).await;
        assert_eq!(response.messages().len(), 1, "{name}: {}", response.body);
        assert_eq!(response.text(), "fine", "{name}");
        assert_eq!(response.message()["id"], 7);
    }
    assert!(gw.call("batch", json!({})).await.text().starts_with("[UPSTREAM]"));
    assert_eq!(gw.call("fine", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn lost_session_is_reopened_and_the_call_is_not_repeated() {
    let (upstream, gw) = setup().await;
    for (times, name) in [(2, "lost_session"), (3, "lost_session_as_text")] {
        gw.call(name, json!({})).await;
        let handshakes = upstream.requests().iter().filter(|hit| hit.method() == "initialize").count();
        assert_eq!(handshakes, times, "{name}");
        assert_eq!(upstream.calls_to(name).len(), 1, "{name}");
    }
    assert_eq!(gw.call("fine", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn calls_over_the_in_flight_limit_of_a_hanging_server_are_refused() {
    let hanging_upstream = FakeUpstream::start(json!([tool_definition("silent")]), faulty_server).await;
    let settings =
        GatewaySettings { in_flight_per_server: 2, call_timeout: Duration::from_secs(2), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&hanging_upstream).await;
    gw.initialize().await;
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let calls = async { tokio::join!(gw.call("silent", json!({})), gw.call("silent", json!({}))) };
    let third = async {
        while hanging_upstream.calls().len() < 2 {
            tokio::task::yield_now().await;
        }
        gw.call("silent", json!({})).await
    };
    let (_, third) = tokio::join!(calls, third);
    assert!(third.text().starts_with("[GATEWAY] too many requests to this server"), "{}", third.text());
    assert_eq!(hanging_upstream.calls().len(), 2);
}
