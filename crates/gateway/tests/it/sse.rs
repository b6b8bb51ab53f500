//! Clients by HTTP+SSE, the transport of 2024-11-05: the same road, other wheels.
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

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"hide":["wipe"],
    "client_requests":{"sampling":"allow"}}"#;
const STRICT: &str = r#"{"version":"1","default":"deny","tools":{"other":{}}}"#;

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

fn done(hit: &RecordedRequest) -> Value {
    json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": [{"type": "text", "text": "done"}]}})
}

fn server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let told = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "progress") => {
            let token = &hit.message()["params"]["_meta"]["progressToken"];
            let own = event(&told(json!({"progressToken": token, "progress": 1})));
            Some(event_response(&format!("{own}{}", event(&done(hit)))))
        }
        ("tools/call", "asks") => {
            let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}});
            Some(event_response(&format!("{}{}", event(&asked), event(&done(hit)))))
        }
        ("tools/call", "slow") => {
            let mut script = vec![ScriptStep::Pause(Duration::from_millis(700))];
            script.extend(json_response("200 OK", "", &done(hit).to_string()));
            Some(script)
        }
        ("initialize", _) if hit.body.contains("\"hang\"") => Some(vec![ScriptStep::Pause(Duration::from_secs(20))]),
        _ if hit.request_line.starts_with("GET") => {
            let changed = event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            Some(vec![
                ScriptStep::Write(format!("{head}{changed}").into_bytes()),
                ScriptStep::Pause(Duration::from_secs(20)),
            ])
        }
        _ => None,
    }
}

async fn desk_with(settings: GatewaySettings) -> (FakeUpstream, TestGateway) {
    let tools = ["read", "wipe", "progress", "asks", "slow"].map(tool_definition);
    let upstream = FakeUpstream::start(json!(tools), server).await;
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    (upstream, gw)
}

async fn desk() -> (FakeUpstream, TestGateway) {
    desk_with(GatewaySettings::default()).await
}

async fn wait_for(upstream: &FakeUpstream, found: impl Fn(&RecordedRequest) -> bool) -> RecordedRequest {
    for _ in 0..500 {
        if let Some(hit) = upstream.requests().into_iter().find(|hit| found(hit)) {
            return hit;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing like that reached the upstream: {:#?}", upstream.requests());
}

#[tokio::test]
async fn a_client_lists_and_calls_under_the_policy_in_every_revision_with_a_handshake() {
    let (upstream, gw) = desk().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut caller = SseTestClient::open_initialized(&gw, revision).await;
        assert!(caller.endpoint.starts_with("/mcp/desk?sessionId="), "{}", caller.endpoint);
        let listed = caller.request("1", "tools/list", json!({})).await;
        let names: Vec<_> =
            listed["result"]["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["read", "progress", "asks", "slow"]);
        assert_eq!(caller.call("read", json!({"n": 1})).await["result"]["content"][0]["text"], r#"{"n":1}"#);
        assert_eq!(caller.call("wipe", json!({})).await["error"]["code"], -32602);
    }
    assert!(upstream.calls_to("wipe").is_empty());
    assert_eq!(upstream.calls_to("read").len(), 4);
    let ids: std::collections::HashSet<_> = gw.rows().await.into_iter().map(|row| row.record.revision).collect();
    assert!(ids.len() >= 4, "each call says how it was spoken: {ids:?}");
}

#[tokio::test]
async fn a_connection_of_another_grant_is_not_there_and_stays_undisturbed() {
    let (upstream, gw) = desk().await;
    let mut caller = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    let other = format!("Bearer {}", gw.add_grant("other", POLICY).reveal());
    let own = format!("Bearer {}", gw.token.reveal());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"stolen":1}}}"#;
    let kind = ("Content-Type", "application/json");
    let guessed = format!("/mcp/desk?sessionId={}", "0".repeat(64));
    for (path, auth, status) in [(caller.endpoint.as_str(), &other, 404), (&guessed, &own, 404)] {
        let answer = gw.send_raw("POST", path, &[("Authorization", auth), kind], call.as_bytes()).await;
        assert_eq!(answer.status, status, "{path}");
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")), "{path}");
    }
    assert_eq!(
        gw.send_raw("POST", &caller.endpoint, &[kind], call.as_bytes()).await.status,
        401,
        "an id is no authority"
    );
    assert!(!upstream.requests().iter().any(|hit| hit.body.contains("stolen")));
    assert_eq!(caller.call("read", json!({})).await["result"]["content"][0]["text"], "{}");
}

#[tokio::test]
async fn a_foreign_origin_or_host_is_refused_at_the_stream_and_at_its_address() {
    let (_, gw) = desk().await;
    let caller = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    assert_eq!(caller.post_with(&[("Origin", "http://evil.example")], "{}").await.status, 403);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let foreign = [("Authorization", bearer.as_str()), ("Accept", "text/event-stream"), ("Origin", "null")];
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &foreign, b"").await.status, 403);
    for line in [format!("POST {}", caller.endpoint), "GET /mcp/desk".to_owned()] {
        let head = format!(
            "{line} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nAuthorization: {bearer}\r\nContent-Length: 0\r\n\r\n"
        );
        assert_eq!(gatelodge_testkit::exchange(gw.address, head.as_bytes()).await.status, 421);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_message_comes_as_an_event_and_what_is_wrong_with_its_head_at_once() {
    let (upstream, gw) = desk().await;
    let mut caller = SseTestClient::open(&gw).await;
    let stateless = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    for (body, code) in [
        ("{", -32700),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}"#, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#, -32600),
        (stateless, -32600),
    ] {
        assert_eq!(caller.post(body).await.status, 202, "{body}");
        assert_eq!(caller.next_message().await["error"]["code"], code, "{body}");
    }
    assert!(upstream.requests().is_empty(), "nothing was sent");
    let rejected = gw.rows().await.into_iter().filter(|row| row.record.code.as_deref() == Some("rejected")).count();
    assert_eq!(rejected, 5, "each is written down");

    let hello =
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}});
    caller.request("hello", "initialize", hello).await;
    assert_eq!(caller.post_with(&[("MCP-Protocol-Version", "2025-11-25")], "{}").await.status, 400);
    assert_eq!(caller.post_with(&[("MCP-Protocol-Version", "1999-01-01")], "{}").await.status, 400);
    assert_eq!(caller.post_with(&[("Content-Encoding", "gzip")], "{}").await.status, 415);
    assert_eq!(caller.post_with(&[("Content-Type", "text/plain")], "{}").await.status, 415);
    assert_eq!(caller.post(&" ".repeat((4 << 20) + 1)).await.status, 413);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let auth = ("Authorization", bearer.as_str());
    let events = ("Accept", "text/event-stream");
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &[auth, ("Accept", "application/json")], b"").await.status, 406);
    let lost = [auth, events, ("MCP-Protocol-Version", "2025-11-25")];
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &lost, b"").await.status, 400, "it has agreed on something before");
    assert_eq!(caller.call("read", json!({})).await["result"]["content"][0]["text"], "{}", "the connection goes on");
}

#[tokio::test]
async fn progress_questions_and_what_belongs_to_no_call_come_on_the_one_stream() {
    let (upstream, gw) = desk().await;
    let mut caller = SseTestClient::open_initialized(&gw, "2025-06-18").await;
    assert_eq!(caller.next_message().await["method"], "notifications/tools/list_changed");
    let params = json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": 42}});
    caller.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})).await;
    assert_eq!(caller.next_message().await["params"]["progressToken"], 42);
    assert_eq!(caller.next_message().await["id"], 5);

    caller.send(&json!({"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "asks"}})).await;
    let asked = caller.next_message().await;
    assert_eq!(asked["method"], "sampling/createMessage");
    caller.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"role": "assistant"}})).await;
    let back = wait_for(&upstream, |hit| hit.body.contains("assistant")).await;
    assert_eq!(back.message()["id"], 1, "the upstream sees its own id");

    caller.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "slow"}})).await;
    let sent = wait_for(&upstream, |hit| hit.tool() == "slow").await;
    caller.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    let cancelled = wait_for(&upstream, |hit| hit.method() == "notifications/cancelled").await;
    assert_eq!(cancelled.message()["params"]["requestId"], sent.message()["id"]);
    let rows = gw.rows().await;
    assert!(rows.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)));
}

#[tokio::test]
async fn the_connection_and_its_session_end_together() {
    let (upstream, gw) = desk().await;
    let ended = |hit: &RecordedRequest| hit.request_line.starts_with("DELETE");
    drop(SseTestClient::open_initialized(&gw, "2024-11-05").await);
    wait_for(&upstream, ended).await;

    let (upstream, gw) = desk().await;
    let caller = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    gw.change_grants(|grants| grants.clear());
    caller.wait_for_end().await;
    wait_for(&upstream, ended).await;

    let (upstream, gw) = desk().await;
    let caller = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    let endpoint = caller.endpoint.clone();
    gw.assert_stops_promptly().await;
    caller.wait_for_end().await;
    wait_for(&upstream, ended).await;
    assert!(!endpoint.is_empty());
}

#[tokio::test]
async fn a_handshake_done_anew_ends_the_session_before_it() {
    let (upstream, gw) = desk().await;
    let mut caller = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}});
    caller.request("again", "initialize", hello).await;
    wait_for(&upstream, |hit| hit.request_line.starts_with("DELETE")).await;
    assert_eq!(caller.call("read", json!({})).await["result"]["content"][0]["text"], "{}");
}

#[tokio::test]
async fn a_call_under_way_is_answered_before_the_gateway_stops() {
    let (upstream, gw) = desk().await;
    let mut caller = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    caller.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "slow"}})).await;
    wait_for(&upstream, |hit| hit.tool() == "slow").await;
    gw.gateway.stop();
    while caller.next_message().await["id"] != 7 {}
    caller.wait_for_end().await;
}

#[tokio::test]
async fn a_call_outlives_its_connection_and_is_written_down() {
    let (upstream, gw) = desk().await;
    let caller = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    caller.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "slow"}})).await;
    wait_for(&upstream, |hit| hit.tool() == "slow").await;
    drop(caller);
    wait_for(&upstream, |hit| hit.request_line.starts_with("DELETE")).await;
    let rows = gw.rows().await;
    let outcome = rows.iter().find(|row| row.record.kind == RecordKind::Outcome).expect("an outcome");
    assert_eq!(outcome.record.outcome, Some(CallOutcome::Ok), "the session ended after it");
}

#[tokio::test]
async fn another_policy_counts_at_once_and_the_connection_stays() {
    let (upstream, gw) = desk().await;
    let mut caller = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    assert!(caller.call("read", json!({})).await["result"].is_object());
    gw.change_grants(|grants| {
        let policy =
            gatelodge_policy::parse(STRICT.as_bytes(), gatelodge_policy::DocumentFormat::Json).expect("a policy");
        let version = gatelodge_store::PolicyVersion(2);
        let live = gatelodge_gateway::ActivePolicy { name: "books".parse().expect("a name"), version, policy };
        let live = std::sync::Arc::new(live);
        grants[0].servers.values_mut().for_each(|door| door.policy = Some(live.clone()));
    });
    assert_eq!(caller.call("read", json!({})).await["error"]["code"], -32602);
    // It looks twice a second whether the grant holds; by then it has.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(caller.call("read", json!({})).await["error"]["code"], -32602);
    assert_eq!(upstream.calls_to("read").len(), 1);
}

#[tokio::test]
async fn signs_of_life_come_while_nothing_else_does() {
    let (_, gw) =
        desk_with(GatewaySettings { keep_alive_interval: Duration::from_millis(50), ..GatewaySettings::default() })
            .await;
    let mut caller = SseTestClient::open(&gw).await;
    while !caller.next_line().await.expect("a line").starts_with(':') {}
    assert!(GatewaySettings::default().keep_alive_interval <= Duration::from_secs(15));
}

#[tokio::test]
async fn connections_of_a_grant_and_messages_that_wait_are_bounded() {
    let (_, gw) = desk_with(GatewaySettings { in_flight_per_grant: 2, ..GatewaySettings::default() }).await;
    let (first, second) = (SseTestClient::open(&gw).await, SseTestClient::open(&gw).await);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Accept", "text/event-stream")];
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &headers, b"").await.status, 429);
    drop(second);
    for round in 0.. {
        assert!(round < 100, "a place is given back");
        let mut stream = tokio::net::TcpStream::connect(gw.address).await.expect("a connection");
        let head =
            format!("GET /mcp/desk HTTP/1.1\r\nHost: {}\r\nAuthorization: {bearer}\r\nAccept: */*\r\n\r\n", gw.address);
        let mut first_bytes = [0; 12];
        tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.expect("sent");
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first_bytes).await.expect("an answer");
        if first_bytes.ends_with(b"200") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let hello =
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "hang", "version": "1"}});
    first.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut posts = tokio::task::JoinSet::new();
    let first = std::sync::Arc::new(first);
    for _ in 0..80 {
        let first = std::sync::Arc::clone(&first);
        posts.spawn(async move { first.post(ping).await.status });
    }
    let mut refused = 0;
    while refused < 17 {
        let status = tokio::time::timeout(Duration::from_secs(5), posts.join_next()).await.expect("a refusal");
        assert_eq!(status.expect("a post").expect("a status"), 429, "those that wait have no answer yet");
        refused += 1;
    }
}
