//! Clients over HTTP+SSE, the transport of 2024-11-05; requests take the same request path as over streamable HTTP.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]

use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{CallOutcome, RecordKind};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SseTestClient, TestGateway, event_response,
    json_response, tool_definition,
};
use serde_json::{Value, json};

use super::support::event;

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"hide":["wipe"],
    "client_requests":{"sampling":"allow"}}"#;
const OTHER_POLICY: &str = r#"{"version":"1","default":"deny","tools":{"other":{}}}"#;

fn result_message(hit: &RecordedRequest) -> Value {
    json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": [{"type": "text", "text": "done"}]}})
}

fn server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let progress = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "progress") => {
            let token = &hit.message()["params"]["_meta"]["progressToken"];
            let progress_event = event(&progress(json!({"progressToken": token, "progress": 1})));
            Some(event_response(&format!("{progress_event}{}", event(&result_message(hit)))))
        }
        ("tools/call", "asks") => {
            let sampling = json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}});
            Some(event_response(&format!("{}{}", event(&sampling), event(&result_message(hit)))))
        }
        ("tools/call", "slow") => {
            let mut script = vec![ScriptStep::Pause(Duration::from_millis(700))];
            script.extend(json_response("200 OK", "", &result_message(hit).to_string()));
            Some(script)
        }
        ("initialize", _) if hit.body.contains("\"hang\"") => Some(vec![ScriptStep::Pause(Duration::from_secs(20))]),
        _ if hit.request_line.starts_with("GET") => {
            let list_changed = event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            let headers = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            Some(vec![
                ScriptStep::Write(format!("{headers}{list_changed}").into_bytes()),
                ScriptStep::Pause(Duration::from_secs(20)),
            ])
        }
        _ => None,
    }
}

async fn setup_with(settings: GatewaySettings) -> (FakeUpstream, TestGateway) {
    let tools = ["read", "wipe", "progress", "asks", "slow"].map(tool_definition);
    let upstream = FakeUpstream::start(json!(tools), server).await;
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    (upstream, gw)
}

async fn setup() -> (FakeUpstream, TestGateway) {
    setup_with(GatewaySettings::default()).await
}

async fn wait_for(upstream: &FakeUpstream, found: impl Fn(&RecordedRequest) -> bool) -> RecordedRequest {
    for _ in 0..500 {
        if let Some(hit) = upstream.requests().into_iter().find(|hit| found(hit)) {
            return hit;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no matching request arrived upstream: {:#?}", upstream.requests());
}

#[tokio::test]
async fn client_lists_and_calls_under_the_policy_in_every_stateful_revision() {
    let (upstream, gw) = setup().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = SseTestClient::open_initialized(&gw, revision).await;
        assert!(client.endpoint.starts_with("/mcp/desk?sessionId="), "{}", client.endpoint);
        let listed = client.request("1", "tools/list", json!({})).await;
        let names: Vec<_> =
            listed["result"]["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["read", "progress", "asks", "slow"]);
        assert_eq!(client.call("read", json!({"n": 1})).await["result"]["content"][0]["text"], r#"{"n":1}"#);
        assert_eq!(client.call("wipe", json!({})).await["error"]["code"], -32602);
    }
    assert!(upstream.calls_to("wipe").is_empty());
    assert_eq!(upstream.calls_to("read").len(), 4);
    let ids: std::collections::HashSet<_> = gw.rows().await.into_iter().map(|row| row.record.revision).collect();
    assert!(ids.len() >= 4, "each row has the revision of its client: {ids:?}");
}

#[tokio::test]
async fn connection_of_another_grant_is_unknown_and_stays_usable() {
    let (upstream, gw) = setup().await;
    let mut client = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    let other = format!("Bearer {}", gw.add_grant("other", POLICY).reveal());
    let progress_event = format!("Bearer {}", gw.token.reveal());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"stolen":1}}}"#;
    let kind = ("Content-Type", "application/json");
    let guessed = format!("/mcp/desk?sessionId={}", "0".repeat(64));
    for (path, auth, status) in [(client.endpoint.as_str(), &other, 404), (&guessed, &progress_event, 404)] {
        let response = gw.send_raw("POST", path, &[("Authorization", auth), kind], call.as_bytes()).await;
        assert_eq!(response.status, status, "{path}");
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")), "{path}");
    }
    assert_eq!(
        gw.send_raw("POST", &client.endpoint, &[kind], call.as_bytes()).await.status,
        401,
        "a session id does not replace a token"
    );
    assert!(!upstream.requests().iter().any(|hit| hit.body.contains("stolen")));
    assert_eq!(client.call("read", json!({})).await["result"]["content"][0]["text"], "{}");
}

#[tokio::test]
async fn foreign_origin_or_host_is_refused_at_the_stream_and_its_endpoint() {
    let (_, gw) = setup().await;
    let client = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    assert_eq!(client.post_with(&[("Origin", "http://evil.example")], "{}").await.status, 403);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let foreign = [("Authorization", bearer.as_str()), ("Accept", "text/event-stream"), ("Origin", "null")];
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &foreign, b"").await.status, 403);
    for line in [format!("POST {}", client.endpoint), "GET /mcp/desk".to_owned()] {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nAuthorization: {bearer}\r\nContent-Length: 0\r\n\r\n"
        );
        assert_eq!(gatelodge_testkit::exchange(gw.address, request.as_bytes()).await.status, 421);
    }
}

#[tokio::test]
async fn message_errors_are_events_and_header_errors_are_statuses() {
    let (upstream, gw) = setup().await;
    let mut client = SseTestClient::open(&gw).await;
    let stateless = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    for (body, code) in [
        ("{", -32700),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}"#, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#, -32600),
        (stateless, -32600),
    ] {
        assert_eq!(client.post(body).await.status, 202, "{body}");
        assert_eq!(client.next_message().await["error"]["code"], code, "{body}");
    }
    assert!(upstream.requests().is_empty(), "no request is sent upstream");
    let rejected = gw.rows().await.into_iter().filter(|row| row.record.code.as_deref() == Some("rejected")).count();
    assert_eq!(rejected, 5, "each refusal is recorded");

    let initialize =
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}});
    client.request("hello", "initialize", initialize).await;
    assert_eq!(client.post_with(&[("MCP-Protocol-Version", "2025-11-25")], "{}").await.status, 400);
    assert_eq!(client.post_with(&[("MCP-Protocol-Version", "1999-01-01")], "{}").await.status, 400);
    assert_eq!(client.post_with(&[("Content-Encoding", "gzip")], "{}").await.status, 415);
    assert_eq!(client.post_with(&[("Content-Type", "text/plain")], "{}").await.status, 415);
    assert_eq!(client.post(&" ".repeat((4 << 20) + 1)).await.status, 413);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let auth = ("Authorization", bearer.as_str());
    let events = ("Accept", "text/event-stream");
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &[auth, ("Accept", "application/json")], b"").await.status, 406);
    let missing_session = [auth, events, ("MCP-Protocol-Version", "2025-11-25")];
    assert_eq!(
        gw.send_raw("GET", "/mcp/desk", &missing_session, b"").await.status,
        400,
        "a client that names a revision needs its session"
    );
    assert_eq!(
        client.call("read", json!({})).await["result"]["content"][0]["text"],
        "{}",
        "the connection is still usable"
    );
}

#[tokio::test]
async fn progress_server_requests_and_notifications_share_the_stream() {
    let (upstream, gw) = setup().await;
    let mut client = SseTestClient::open_initialized(&gw, "2025-06-18").await;
    assert_eq!(client.next_message().await["method"], "notifications/tools/list_changed");
    let params = json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": 42}});
    client.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})).await;
    assert_eq!(client.next_message().await["params"]["progressToken"], 42);
    assert_eq!(client.next_message().await["id"], 5);

    client.send(&json!({"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "asks"}})).await;
    let sampling = client.next_message().await;
    assert_eq!(sampling["method"], "sampling/createMessage");
    client.send(&json!({"jsonrpc": "2.0", "id": sampling["id"], "result": {"role": "assistant"}})).await;
    let forwarded = wait_for(&upstream, |hit| hit.body.contains("assistant")).await;
    assert_eq!(forwarded.message()["id"], 1, "the answer has the server's own id");

    client.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "slow"}})).await;
    let sent = wait_for(&upstream, |hit| hit.tool() == "slow").await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    let cancelled = wait_for(&upstream, |hit| hit.method() == "notifications/cancelled").await;
    assert_eq!(cancelled.message()["params"]["requestId"], sent.message()["id"]);
    let rows = gw.rows().await;
    assert!(rows.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)));
}

#[tokio::test]
async fn connection_and_session_end_together() {
    let (upstream, gw) = setup().await;
    let is_delete = |hit: &RecordedRequest| hit.request_line.starts_with("DELETE");
    drop(SseTestClient::open_initialized(&gw, "2024-11-05").await);
    wait_for(&upstream, is_delete).await;

    let (upstream, gw) = setup().await;
    let client = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    gw.change_grants(|grants| grants.clear());
    client.wait_for_end().await;
    wait_for(&upstream, is_delete).await;

    let (upstream, gw) = setup().await;
    let client = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    let endpoint = client.endpoint.clone();
    gw.assert_stops_promptly().await;
    client.wait_for_end().await;
    wait_for(&upstream, is_delete).await;
    assert!(!endpoint.is_empty());
}

#[tokio::test]
async fn second_handshake_ends_the_previous_session() {
    let (upstream, gw) = setup().await;
    let mut client = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    let initialize =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}});
    client.request("again", "initialize", initialize).await;
    wait_for(&upstream, |hit| hit.request_line.starts_with("DELETE")).await;
    assert_eq!(client.call("read", json!({})).await["result"]["content"][0]["text"], "{}");
}

#[tokio::test]
async fn running_call_is_answered_before_the_gateway_stops() {
    let (upstream, gw) = setup().await;
    let mut client = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    client.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "slow"}})).await;
    wait_for(&upstream, |hit| hit.tool() == "slow").await;
    gw.gateway.stop();
    while client.next_message().await["id"] != 7 {}
    client.wait_for_end().await;
}

#[tokio::test]
async fn call_outlives_its_connection_and_is_recorded() {
    let (upstream, gw) = setup().await;
    let client = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    client.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "slow"}})).await;
    wait_for(&upstream, |hit| hit.tool() == "slow").await;
    drop(client);
    wait_for(&upstream, |hit| hit.request_line.starts_with("DELETE")).await;
    let rows = gw.rows().await;
    let outcome = rows.iter().find(|row| row.record.kind == RecordKind::Outcome).expect("an outcome");
    assert_eq!(outcome.record.outcome, Some(CallOutcome::Ok), "the session ends after the call");
}

#[tokio::test]
async fn changed_policy_applies_at_once_and_the_connection_stays() {
    let (upstream, gw) = setup().await;
    let mut client = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    assert!(client.call("read", json!({})).await["result"].is_object());
    gw.change_grants(|grants| {
        let policy =
            gatelodge_policy::parse(OTHER_POLICY.as_bytes(), gatelodge_policy::DocumentFormat::Json).expect("a policy");
        let version = gatelodge_store::PolicyVersionNumber(2);
        let active = gatelodge_gateway::ActivePolicy { name: "books".parse().expect("a name"), version, policy };
        let active = std::sync::Arc::new(active);
        grants[0].servers.values_mut().for_each(|attachment| attachment.policy = Some(active.clone()));
    });
    assert_eq!(client.call("read", json!({})).await["error"]["code"], -32602);
    // The stream revalidates its grant twice a second; wait until it has done so.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(client.call("read", json!({})).await["error"]["code"], -32602);
    assert_eq!(upstream.calls_to("read").len(), 1);
}

#[tokio::test]
async fn idle_stream_sends_keep_alives() {
    let (_, gw) =
        setup_with(GatewaySettings { keep_alive_interval: Duration::from_millis(50), ..GatewaySettings::default() })
            .await;
    let mut client = SseTestClient::open(&gw).await;
    while !client.next_line().await.expect("a line").starts_with(':') {}
    assert!(GatewaySettings::default().keep_alive_interval <= Duration::from_secs(15));
}

#[tokio::test]
async fn connections_per_grant_and_queued_messages_are_limited() {
    let (_, gw) = setup_with(GatewaySettings { in_flight_per_grant: 2, ..GatewaySettings::default() }).await;
    let (first, second) = (SseTestClient::open(&gw).await, SseTestClient::open(&gw).await);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Accept", "text/event-stream")];
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &headers, b"").await.status, 429);
    drop(second);
    // Closing a connection releases its in-flight guard asynchronously.
    for round in 0.. {
        assert!(round < 100, "the connection's in-flight guard is not released");
        let mut stream = tokio::net::TcpStream::connect(gw.address).await.expect("a connection");
        let request =
            format!("GET /mcp/desk HTTP/1.1\r\nHost: {}\r\nAuthorization: {bearer}\r\nAccept: */*\r\n\r\n", gw.address);
        let mut first_bytes = [0; 12];
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.expect("sent");
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first_bytes).await.expect("an answer");
        if first_bytes.ends_with(b"200") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let initialize =
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "hang", "version": "1"}});
    first.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize})).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut posts = tokio::task::JoinSet::new();
    let first = std::sync::Arc::new(first);
    for _ in 0..80 {
        let first = std::sync::Arc::clone(&first);
        posts.spawn(async move { first.post(ping).await.status });
    }
    for _ in 0..17 {
        let status = tokio::time::timeout(Duration::from_secs(5), posts.join_next()).await.expect("a refusal");
        assert_eq!(status.expect("a post").expect("a status"), 429, "queued messages have no response yet");
    }
}
