//! Credentials: those of the client are not forwarded, and injected ones never reach the client.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, event_response, json_response, tool_definition,
};
use serde_json::json;

use super::support::CapturedLog;

const SECRET: &str = "sk-live-Zq8/x+9_marked";
const POLICY: &str = r#"{"version":"1","default":"allow"}"#;

/// Upstream that echoes the `authorization` header in results, notifications, errors, statuses and malformed bodies.
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
async fn injected_secret_is_redacted_in_every_response_and_log_row() {
    let tools = ["json", "events", "error", "status", "garbage"].map(tool_definition);
    let upstream = FakeUpstream::start(json!(tools), echo).await;
    let gw = TestGateway::builder()
        .policy(POLICY)
        .secret_header("authorization", &format!("Bearer {SECRET}"), SECRET)
        .log_arguments()
        .start(&upstream)
        .await;
    for name in ["json", "events", "error", "status", "garbage"] {
        let response = gw.call(name, json!({"note": SECRET, "password": "hunter2"})).await;
        assert!(!response.body.contains("marked"), "{name}: {}", response.body);
    }
    let prompt = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "p"}});
    let response = gw.send(&prompt).await;
    assert!(response.body.contains("***") && !response.body.contains("marked"), "{}", response.body);

    assert!(upstream.calls().iter().all(|hit| hit.header("authorization") == Some(&format!("Bearer {SECRET}"))));
    for row in gw.rows().await {
        let text = serde_json::to_string(&row).expect("json");
        assert!(!text.contains("marked") && !text.contains("hunter2"), "{text}");
    }
    let recorded = gw.rows().await.into_iter().find_map(|row| row.record.arguments).expect("arguments");
    assert_eq!(recorded.as_ref(), r#"{"note":"***","password":"***"}"#);
}

#[tokio::test]
async fn client_credentials_are_not_forwarded() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::builder()
        .policy(POLICY)
        .secret_header("x-api-key", "key-1234567", "key-1234567")
        .start(&upstream)
        .await;
    gw.initialize().await;
    let session = gw.session();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read"}}).to_string();
    let client_headers = [
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
    let headers: Vec<_> = client_headers.into_iter().chain([("Mcp-Session-Id", session.as_str())]).collect();
    assert_eq!(gw.post(&headers, &body).await.status, 200);
    for hit in upstream.requests() {
        let all = format!("{:?}", hit.headers);
        assert!(!all.contains("marked") && !all.contains("glt_") && !all.contains("trailers"), "{all}");
    }
    assert_eq!(upstream.calls()[0].header("x-api-key"), Some("key-1234567"), "only the injected key is sent");
}

#[tokio::test]
async fn confusable_tool_names_are_logged_without_the_injected_secret() {
    let (log, _guard) = CapturedLog::start();
    let names = ["pay", "PAY"].map(|name| format!("{name}-{SECRET}"));
    let upstream = FakeUpstream::start(json!(names.map(|name| tool_definition(&name))), |_| None).await;
    let gw =
        TestGateway::builder().policy(POLICY).secret_header("authorization", SECRET, SECRET).start(&upstream).await;
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let log_text = log.text();
    let warning =
        log_text.lines().find(|line| line.contains("with confusable names are not pinned")).unwrap_or_default();
    assert!(warning.contains("PAY-***"), "{log_text}");
    assert!(!warning.contains(SECRET), "{warning}");
}
