//! HTTP listeners: health and metrics, slow clients, connection and header limits, CORS, and draining on stop.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{CallOutcome, RecordKind};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, exchange, json_response,
    tool_definition,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{wait_until, wait_until_async};

const POLICY: &str = r#"{"version":"1","default":"allow"}"#;

async fn admin(gw: &TestGateway, path: &str, host: &str) -> TestResponse {
    exchange(gw.admin, format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).await
}

#[tokio::test]
async fn health_readiness_and_metrics_are_only_on_the_admin_listener() {
    let upstream = FakeUpstream::with_tools(&["read", "gone"]).await;
    let policy = r#"{"version":"1","default":"deny","tools":{"read":{},"gone":{"action":"deny"}}}"#;
    let gw = TestGateway::with_policy(policy, &upstream).await;
    gw.call("read", json!({})).await;
    gw.call("gone", json!({})).await;
    assert_eq!(admin(&gw, "/healthz", "localhost").await.status, 200);
    assert_eq!(admin(&gw, "/readyz", "localhost").await.status, 200);
    let metrics = admin(&gw, "/metrics", "localhost").await.body;
    for line in
        ["gatelodge_calls_answered_total 1", "gatelodge_calls_refused_total{code=\"denied\"} 1", "gatelodge_sessions 1"]
    {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert_eq!(admin(&gw, "/healthz", "evil.example").await.status, 421);
    assert_eq!(admin(&gw, "/mcp/desk", "localhost").await.status, 404);
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gw.address);
    assert_eq!(exchange(gw.address, request.as_bytes()).await.status, 404);
}

#[tokio::test]
async fn slow_headers_and_bodies_time_out() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let timeout = Duration::from_millis(300);
    let settings = GatewaySettings { header_timeout: timeout, body_timeout: timeout, ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    let request = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: 100\r\n\r\n{{",
        gw.token.reveal()
    );
    for start in ["POST /mcp/desk HTT", &request] {
        let since = Instant::now();
        let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
        stream.write_all(start.as_bytes()).await.expect("sent");
        let mut reply = String::new();
        let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut reply)).await.expect("an end");
        assert!(since.elapsed() < Duration::from_secs(3), "{start}");
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 408"), "{reply}");
    }
    gw.call("read", json!({})).await.text();
}

#[tokio::test]
async fn slow_headers_time_out_on_a_connection_with_earlier_requests() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let settings = GatewaySettings { header_timeout: Duration::from_millis(400), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let complete_request = format!("GET /nothing HTTP/1.1\r\nHost: {}\r\n\r\n", gw.address);
    let mut last = Instant::now();
    for _ in 0..4 {
        // Shorter than `header_timeout`, and longer in sum.
        tokio::time::sleep(Duration::from_millis(150)).await;
        last = Instant::now();
        stream.write_all(complete_request.as_bytes()).await.expect("sent");
        let mut reply = [0; 4_096];
        assert!(stream.read(&mut reply).await.expect("a reply") > 0);
    }
    stream.write_all(b"GET /not").await.expect("sent");
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await.expect("an end");
    assert!(
        last.elapsed() > Duration::from_millis(350),
        "the timeout starts again for each request: {:?}",
        last.elapsed()
    );
    assert!(last.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn more_than_100_headers_are_refused() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::builder().policy(POLICY).start(&upstream).await;
    for (count, status) in [(90, 404), (110, 431)] {
        let headers: String = (0..count).map(|at| format!("X-{at}: 1\r\n")).collect();
        let request = format!("GET /nothing HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n", gw.address);
        assert_eq!(exchange(gw.address, request.as_bytes()).await.status, status, "{count} headers");
    }
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_until_others_end() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let settings = GatewaySettings { max_connections: 2, ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    let open_connections =
        [TcpStream::connect(gw.address).await.expect("one"), TcpStream::connect(gw.address).await.expect("two")];
    let mut third = TcpStream::connect(gw.address).await.expect("three");
    let mut nothing = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(2), third.read_to_end(&mut nothing)).await.expect("closed");
    assert!(nothing.is_empty());
    drop(open_connections);
    let accepted = async { while gw.post(&[], "{}").await.status == 0 {} };
    tokio::time::timeout(Duration::from_secs(5), accepted).await.expect("a connection is accepted again");
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn requests_without_a_token_are_recorded_in_one_row_with_a_count() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    for _ in 0..5 {
        assert_eq!(gw.send_raw("POST", "/mcp/desk", &[], b"{}").await.status, 401);
    }
    gw.gateway.stop();
    let mut rows = Vec::new();
    for _ in 0..100 {
        rows = gw.rows().await;
        if !rows.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((row.record.kind, row.record.count), (RecordKind::Unauthenticated, Some(5)));
    assert!(upstream.requests().is_empty());
}

fn respond_slowly(request: &RecordedRequest) -> Option<ResponseScript> {
    let message = request.message();
    (request.method() == "tools/call").then(|| {
        let reply =
            json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "late"}]}});
        let mut script = vec![ScriptStep::Pause(Duration::from_millis(600))];
        script.extend(json_response("200 OK", "", &reply.to_string()));
        script
    })
}

#[tokio::test]
async fn stopping_waits_for_running_calls_and_accepts_no_new_connections() {
    let upstream = FakeUpstream::start(json!([tool_definition("slow")]), respond_slowly).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    gw.initialize().await;
    let stopping = async {
        wait_until("the call is sent", || !upstream.calls().is_empty()).await;
        gw.gateway.stop();
        wait_until_async("the listener is closed", async || TcpStream::connect(gw.address).await.is_err()).await;
        let is_recorded = gw.rows().await.iter().any(|row| row.record.kind == RecordKind::Outcome);
        assert!(!is_recorded, "the call still runs");
    };
    let (reply, ()) = tokio::join!(gw.call("slow", json!({})), stopping);
    assert_eq!(reply.text(), "late");
    let outcome = gw
        .rows()
        .await
        .into_iter()
        .find_map(|row| row.record.outcome.filter(|_| row.record.kind == RecordKind::Outcome));
    assert_eq!(outcome, Some(CallOutcome::Ok));
}

#[tokio::test]
async fn a_stateful_call_runs_on_and_is_recorded_when_its_client_disconnects() {
    let upstream = FakeUpstream::start(json!([tool_definition("slow")]), respond_slowly).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    gw.initialize().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow"}}).to_string();
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let request = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nAccept: */*\r\nMcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n{body}",
        gw.token.reveal(),
        gw.session(),
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    wait_until("the call is sent", || !upstream.calls().is_empty()).await;
    drop(stream);
    let outcome = async || gw.rows().await.into_iter().find(|row| row.record.kind == RecordKind::Outcome);
    wait_until_async("the outcome is recorded", async || outcome().await.is_some()).await;
    assert_eq!(
        outcome().await.and_then(|row| row.record.outcome),
        Some(CallOutcome::Ok),
        "a stateful client can reconnect, so the call is not cancelled"
    );
}

#[tokio::test]
async fn a_call_that_outlasts_the_drain_time_is_answered_and_recorded() {
    let never_respond = |request: &RecordedRequest| {
        (request.method() == "tools/call").then(|| vec![ScriptStep::Pause(Duration::from_secs(60))])
    };
    let upstream = FakeUpstream::start(json!([tool_definition("slow")]), never_respond).await;
    let settings = GatewaySettings { drain_timeout: Duration::from_millis(300), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    gw.initialize().await;
    let stopping = async {
        wait_until("the call is sent", || !upstream.calls().is_empty()).await;
        gw.assert_stops_promptly().await;
    };
    let (reply, ()) = tokio::join!(gw.call("slow", json!({})), stopping);
    assert!(reply.text().starts_with("[UPSTREAM] the gateway was stopped; the call may have run"), "{}", reply.body);
    assert_eq!(gw.rows().await.pop().expect("a row").record.outcome, Some(CallOutcome::NoValidResponse));
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_passes_preflight_and_can_read_replies() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let settings =
        GatewaySettings { origins: vec!["https://app.example.com".to_owned()], ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    let preflight = [("Origin", "https://app.example.com"), ("Access-Control-Request-Method", "POST")];
    let allowed = gw.send_raw("OPTIONS", "/mcp/desk", &preflight, b"").await;
    assert_eq!(allowed.status, 204, "{}", allowed.body);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert!(allowed.header("access-control-allow-headers").expect("headers").contains("authorization"));
    let reply = gw.post(&[("Origin", "https://app.example.com")], "{").await;
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://app.example.com"));
    let other = gw.send_raw("OPTIONS", "/mcp/desk", &[("Origin", "https://evil.example"), preflight[1]], b"").await;
    assert_eq!((other.status, other.header("access-control-allow-origin")), (403, None));
}

#[tokio::test]
async fn headers_over_64_kib_are_refused() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    gw.call("read", json!({})).await;
    let session = gw.session();
    for (length, status) in [(60_000, 200), (66_000, 431), (200_000, 431)] {
        let long = "x".repeat(length);
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let reply = gw.post(&[("Mcp-Session-Id", &session), ("X-Long", &long)], body).await;
        assert_eq!(reply.status, status, "{length}: {}", reply.body);
    }
}
