//! Credentials: the caller's stop at the gate, ours never come back through it.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, event_response, json_response, tool_definition,
};
use serde_json::json;

use super::rows_kit::Log;

const SECRET: &str = "sk-live-Zq8/x+9_marked";
const POLICY: &str = r#"{"version":"1","default":"allow"}"#;

/// An upstream that gives back whatever it was sent, in every way it can.
fn echo(hit: &RecordedRequest) -> Option<ResponseScript> {
    let message = hit.message();
    let seen = hit.header("authorization").unwrap_or_default().to_owned();
    let reply = |result| json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    let text = reply(
        json!({"content": [{"type": "text", "text": format!("you sent {seen}")}], "structuredContent": {"h": seen}}),
    );
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "json") => Some(json_response("200 OK", "", &text)),
        ("tools/call", "events") => {
            let log =
                json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": seen}});
            Some(event_response(&format!("data: {log}\n\ndata: {text}\n\n")))
        }
        ("tools/call", "error") => {
            let error = json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": 1, "message": seen, "data": {"h": seen}}});
            Some(json_response("200 OK", "", &error.to_string()))
        }
        ("tools/call", "status") => Some(json_response(&format!("500 {seen}"), "", &format!("\"{seen}\""))),
        ("tools/call", "garbage") => Some(json_response("200 OK", "", &seen)),
        ("prompts/get", _) => Some(json_response("200 OK", "", &reply(json!({"description": seen, "messages": []})))),
        _ => None,
    }
}

#[tokio::test]
async fn what_we_inject_is_cut_from_every_answer_and_every_row() {
    let tools = ["json", "events", "error", "status", "garbage"].map(tool_definition);
    let upstream = FakeUpstream::start(json!(tools), echo).await;
    let gw = TestGateway::builder()
        .policy(POLICY)
        .secret_header("authorization", &format!("Bearer {SECRET}"), SECRET)
        .log_arguments()
        .start(&upstream)
        .await;
    for name in ["json", "events", "error", "status", "garbage"] {
        let answer = gw.call(name, json!({"note": SECRET, "password": "hunter2"})).await;
        assert!(!answer.body.contains("marked"), "{name}: {}", answer.body);
    }
    let prompt = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "p"}});
    let answer = gw.send(&prompt).await;
    assert!(answer.body.contains("***") && !answer.body.contains("marked"), "{}", answer.body);

    assert!(upstream.calls().iter().all(|hit| hit.header("authorization") == Some(&format!("Bearer {SECRET}"))));
    for row in gw.rows().await {
        let text = serde_json::to_string(&row).expect("json");
        assert!(!text.contains("marked") && !text.contains("hunter2"), "{text}");
    }
    let kept = gw.rows().await.into_iter().find_map(|row| row.record.arguments).expect("arguments");
    assert_eq!(kept.as_ref(), r#"{"note":"***","password":"***"}"#);
}

#[tokio::test]
async fn a_callers_credentials_stop_at_the_gate() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::builder()
        .policy(POLICY)
        .secret_header("x-api-key", "key-1234567", "key-1234567")
        .start(&upstream)
        .await;
    gw.initialize().await;
    let session = gw.session();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read"}}).to_string();
    let odd = [
        ("Cookie", "session=marked"),
        ("Proxy-Authorization", "Basic marked"),
        ("X-Api-Key", "marked"),
        ("Api-Key", "marked"),
        ("X-Auth-Token", "marked"),
        ("X-Amz-Security-Token", "marked"),
        ("Forwarded", "for=marked"),
        ("X-Forwarded-For", "marked"),
        ("X-Real-Ip", "marked"),
        ("Via", "1.1 marked"),
        ("Referer", "http://localhost/marked"),
        ("User-Agent", "marked"),
        ("Accept-Language", "marked"),
        ("Mcp-Param-Secret", "marked"),
        ("Mcp-Name", "marked"),
        ("Last-Event-Id", "marked"),
        ("Traceparent", "marked"),
        ("Te", "trailers"),
        ("Keep-Alive", "marked"),
    ];
    let headers: Vec<_> = odd.into_iter().chain([("Mcp-Session-Id", session.as_str())]).collect();
    assert_eq!(gw.post(&headers, &body).await.status, 200);
    for hit in upstream.requests() {
        let all = format!("{:?}", hit.headers);
        assert!(!all.contains("marked") && !all.contains("glt_") && !all.contains("trailers"), "{all}");
    }
    assert_eq!(upstream.calls()[0].header("x-api-key"), Some("key-1234567"), "ours is the only one");
}

#[tokio::test]
async fn names_that_look_alike_are_logged_without_our_secret() {
    let (log, _noted) = Log::begin();
    let names = ["pay", "PAY"].map(|name| format!("{name}-{SECRET}"));
    let upstream = FakeUpstream::start(json!(names.map(|name| tool_definition(&name))), |_| None).await;
    let gw =
        TestGateway::builder().policy(POLICY).secret_header("authorization", SECRET, SECRET).start(&upstream).await;
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let told = log.text();
    let words = told.lines().find(|line| line.contains("with confusable names are not pinned")).unwrap_or_default();
    assert!(words.contains("PAY-***"), "{told}");
    assert!(!words.contains(SECRET), "{words}");
}
