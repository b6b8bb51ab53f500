//! Limits on requests, streams, sessions and slow readers; concurrent identical work is done once.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{CallOutcome, RecordKind};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, json_response,
    tool_definition,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::support::{request_count, wait_until, wait_until_async};

const POLICY: &str = r#"{"version":"1","default":"allow"}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

async fn start(settings: GatewaySettings, upstream: &FakeUpstream) -> TestGateway {
    TestGateway::builder().policy(POLICY).settings(settings).start(upstream).await
}

fn result_text(hit: &RecordedRequest, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string()
}

/// Calls a tool `times` times concurrently.
async fn concurrent_calls(gw: TestGateway, times: usize) -> (Arc<TestGateway>, Vec<TestResponse>) {
    let gw = Arc::new(gw);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..times {
        let gw = Arc::clone(&gw);
        calls.spawn(async move { gw.call("read", json!({})).await });
    }
    let responses = calls.join_all().await;
    (gw, responses)
}

fn respond_slowly(hit: &RecordedRequest) -> Option<ResponseScript> {
    let pause = ScriptStep::Pause(Duration::from_millis(600));
    let body = match hit.method().as_str() {
        "ping" => result_text(hit, &json!({})),
        "resources/list" => result_text(hit, &json!({"resources": []})),
        _ => return None,
    };
    let mut script = vec![pause];
    script.extend(json_response("200 OK", "", &body));
    Some(script)
}

#[tokio::test]
async fn requests_without_a_policy_decision_count_as_in_flight() {
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), respond_slowly).await;
    let gw = start(GatewaySettings { in_flight_per_grant: 1, ..GatewaySettings::default() }, &upstream).await;
    gw.initialize().await;
    for method in ["ping", "resources/list"] {
        let request = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": method});
        let (first, second) = (request(1), request(2));
        let sending_second = async {
            wait_until("the first request arrives", || request_count(&upstream, method) == 1).await;
            gw.send(&second).await
        };
        let (response, refused) = tokio::join!(gw.send(&first), sending_second);
        assert!(response.message()["result"].is_object(), "{method}: {}", response.body);
        let message = refused.message()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.starts_with("[GATEWAY] too many requests of this grant"), "{method}: {}", refused.body);
        let rows = gw.rows().await;
        assert!(
            rows.iter().any(|row| row.record.kind == RecordKind::Refused && row.record.code.as_deref() == Some("busy"))
        );
    }
    assert_eq!(request_count(&upstream, "ping"), 1, "a refused request is not sent");
}

#[tokio::test]
async fn open_streams_of_a_grant_are_limited() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = start(GatewaySettings { in_flight_per_grant: 1, ..GatewaySettings::default() }, &upstream).await;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let response = gw.post(&[], INITIALIZE).await;
        sessions.push(response.header("mcp-session-id").expect("a session").to_owned());
    }
    let head = |session: &str| {
        format!(
            "GET /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\nConnection: close\r\n\r\n",
            gw.token.reveal()
        )
    };
    let mut first = TcpStream::connect(gw.address).await.expect("a connection");
    first.write_all(head(&sessions[0]).as_bytes()).await.expect("sent");
    first.readable().await.expect("the stream is open");
    let second: TestResponse = gatelodge_testkit::exchange(gw.address, head(&sessions[1]).as_bytes()).await;
    assert_eq!(second.status, 429, "{}", second.body);
    assert!(second.body.contains("too many open streams of this grant"), "{}", second.body);
}

#[tokio::test]
async fn sessions_of_a_grant_are_limited_and_idle_ones_are_closed_here_and_upstream() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let idle = Duration::from_millis(300);
    let gw = start(
        GatewaySettings { max_sessions_per_grant: 1, session_idle_timeout: idle, ..GatewaySettings::default() },
        &upstream,
    )
    .await;
    assert!(gw.post(&[], INITIALIZE).await.header("mcp-session-id").is_some());
    let refused = gw.post(&[], INITIALIZE).await;
    assert!(refused.body.contains("[GATEWAY] too many sessions"), "{}", refused.body);
    assert_eq!(request_count(&upstream, "initialize"), 1, "no upstream session is opened for a refused client");

    // Idle sessions are closed by the real clock.
    tokio::time::sleep(idle * 2).await;
    assert!(gw.post(&[], INITIALIZE).await.header("mcp-session-id").is_some());
    assert!(
        upstream.requests().iter().any(|hit| hit.request_line.starts_with("DELETE")),
        "the upstream session of the first one is closed"
    );
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let large = |hit: &RecordedRequest| {
        let text = "x".repeat(16 << 20);
        let body = result_text(hit, &json!({"content": [{"type": "text", "text": text}]}));
        (hit.method() == "tools/call").then(|| json_response("200 OK", "", &body))
    };
    let upstream = FakeUpstream::start(json!([tool_definition("large")]), large).await;
    let gw =
        start(GatewaySettings { body_timeout: Duration::from_millis(300), ..GatewaySettings::default() }, &upstream)
            .await;
    gw.initialize().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "large"}}).to_string();
    let request = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nAccept: */*\r\nMcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n{body}",
        gw.token.reveal(),
        gw.session(),
        body.len()
    );
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    wait_until_async("the call is recorded", async || {
        let rows = gw.rows().await;
        rows.iter().any(|row| row.record.outcome == Some(CallOutcome::Ok) && row.record.kind == RecordKind::Outcome)
    })
    .await;
    // The task of the connection has ended, although the client still holds the connection open.
    gw.assert_stops_promptly().await;
    drop(stream);
}

#[tokio::test]
async fn concurrent_first_calls_list_the_tools_once() {
    let slow_list = |hit: &RecordedRequest| {
        let body = result_text(hit, &json!({"tools": [tool_definition("read")]}));
        let mut script = vec![ScriptStep::Pause(Duration::from_millis(200))];
        script.extend(json_response("200 OK", "", &body));
        (hit.method() == "tools/list").then_some(script)
    };
    let upstream = FakeUpstream::start(json!([]), slow_list).await;
    let gw = start(GatewaySettings::default(), &upstream).await;
    gw.initialize().await;
    let (_gw, responses) = concurrent_calls(gw, 16).await;
    assert!(responses.iter().all(|response| response.text() == "{}"), "all calls succeed");
    assert_eq!(request_count(&upstream, "tools/list"), 1);
}

#[tokio::test]
async fn concurrent_calls_reopen_a_lost_session_once() {
    let handshakes = AtomicUsize::new(0);
    let forgetful = move |hit: &RecordedRequest| match hit.method().as_str() {
        "initialize" => {
            handshakes.fetch_add(1, Ordering::SeqCst);
            None
        }
        "tools/call" if handshakes.load(Ordering::SeqCst) == 1 => {
            let mut script = vec![ScriptStep::Pause(Duration::from_millis(200))];
            script.extend(json_response("404 Not Found", "", "{}"));
            Some(script)
        }
        _ => None,
    };
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), forgetful).await;
    let gw = start(GatewaySettings::default(), &upstream).await;
    gw.initialize().await;
    let (gw, lost) = concurrent_calls(gw, 8).await;
    assert!(lost.iter().all(|response| response.text().starts_with("[UPSTREAM] ")), "{}", lost[0].body);
    assert_eq!(request_count(&upstream, "initialize"), 2, "one for the client, one after the loss");
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn a_list_is_cancelled_when_its_client_disconnects() {
    let never = |hit: &RecordedRequest| {
        (hit.method() == "resources/list").then(|| vec![ScriptStep::Pause(Duration::from_secs(60))])
    };
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), never).await;
    let gw = start(GatewaySettings::default(), &upstream).await;
    gw.initialize().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"});
    // Dropping the future closes the connection.
    let response = tokio::time::timeout(Duration::from_millis(300), gw.send(&list)).await;
    assert!(response.is_err(), "there is no response");
    wait_until_async("the request is recorded", async || {
        gw.rows().await.iter().any(|row| row.record.method.as_deref() == Some("resources/list"))
    })
    .await;
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn a_large_response_counts_as_in_flight_until_it_is_read() {
    let large = |hit: &RecordedRequest| {
        let text = "x".repeat(24 << 20);
        let body = result_text(hit, &json!({"content": [{"type": "text", "text": text}]}));
        (hit.method() == "tools/call" && hit.tool() == "large").then(|| json_response("200 OK", "", &body))
    };
    let upstream = FakeUpstream::start(json!([tool_definition("large"), tool_definition("read")]), large).await;
    let gw = start(GatewaySettings { in_flight_per_grant: 1, ..GatewaySettings::default() }, &upstream).await;
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "large"}}).to_string();
    let head = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nAccept: */*\r\nMcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n",
        gw.token.reveal(),
        gw.session(),
        body.len()
    );
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).await.expect("sent");
    stream.readable().await.expect("the response has started");
    let refused = gw.call("read", json!({})).await;
    assert!(refused.text().contains("too many requests of this grant"), "{}", refused.body);
    drop(stream);
    wait_until_async("another call is sent", async || gw.call("read", json!({})).await.text() == "{}").await;
}

#[tokio::test]
async fn a_long_uri_of_a_refused_request_is_truncated_in_its_row() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::with_policy(r#"{"version":"1","default":"deny","tools":{"read":{}}}"#, &upstream).await;
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "é".repeat(2_000)}});
    gw.send(&read).await;
    let rows = gw.rows().await;
    let target = rows.iter().rev().find_map(|row| row.record.target.clone()).unwrap_or_default();
    assert_eq!((target.chars().count(), target.ends_with('…')), (513, true), "{target}");
}
