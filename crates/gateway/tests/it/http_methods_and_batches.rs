//! Batches over every client transport; HTTP methods, sessions and disconnects at the aggregate endpoint.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatelodge_store::{CallOutcome, RecordKind};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, tool_definition,
};
use serde_json::{Value, json};

use super::support::{
    ALLOW_ALL, STATELESS_REVISION, StatelessTestClient, chunk, read_for, request_count, start_in_session,
    stateless_request, stateless_response, stream_headers, wait_until, wait_until_async,
};
use super::transport_matrix::{ClientTransport, ScriptedServer, ServerKind, TestClient};

fn call(name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": name, "arguments": {}}})
}

#[tokio::test]
async fn batch_is_one_error_over_every_transport_and_is_not_sent() {
    let canned_responses =
        || vec![("tools/call", r#""result":{"content":[{"type":"text","text":"done"}]}"#.to_owned())];
    for transport in ClientTransport::ALL {
        for revision in ["2025-03-26", "2025-11-25"] {
            let case = format!("{transport:?} in {revision}");
            let server = ScriptedServer::start(
                ServerKind::StatefulHttp,
                json!([tool_definition("read"), tool_definition("wipe")]),
                canned_responses(),
            )
            .await;
            let policy = r#"{"version":"1","default":"deny","tools":{"read":{},"wipe":{"action":"deny"}}}"#;
            let gw = server.start_gateway(TestGateway::builder().policy(policy)).await;
            let mut client = TestClient::open_with_revision(&gw, transport, revision).await;
            let (read, wipe) = (call(&transport.exposed_name("read")), call(&transport.exposed_name("wipe")));
            let stateless_call: Value = serde_json::from_str(&stateless_request(
                "tools/call",
                json!({"name": transport.exposed_name("read"), "arguments": {}}),
                &json!({}),
            ))
            .expect("JSON");
            let batches = [json!([read, wipe]), json!([wipe]), json!([stateless_call]), json!([]), json!([[read]])];
            for (nth, batch) in batches.into_iter().enumerate() {
                let name = transport.exposed_name("read");
                let headers = [
                    ("MCP-Protocol-Version", STATELESS_REVISION),
                    ("Mcp-Method", "tools/call"),
                    ("Mcp-Name", name.as_str()),
                ];
                let headers: &[(&str, &str)] = if transport.is_stateless() { &headers } else { &[] };
                let reply = client.send(headers, &batch.to_string()).await;
                assert_eq!((reply.status.unwrap_or(400), reply.code()), (400, -32600), "{case}: {batch}: {reply:?}");
                assert_eq!(
                    (reply.response()["id"].clone(), reply.messages.len()),
                    (Value::Null, 1),
                    "{case}: {reply:?}"
                );
                let refused =
                    async || gw.rows().await.iter().filter(|row| row.record.kind == RecordKind::Refused).count();
                // The row is written after the response.
                wait_until_async("the refusal is recorded", async || refused().await > nth).await;
                assert_eq!(refused().await, nth + 1, "{case}: {batch}: one row");
            }
            assert_eq!(server.count("tools/call"), 0, "{case}");
            assert_eq!(client.call("read", json!({})).await.tool_text(), "done", "{case}: the client is still served");
        }
    }
}

async fn setup() -> (FakeUpstream, FakeUpstream, TestGateway) {
    let (upstream, zoo) = (FakeUpstream::with_tools(&["read"]).await, FakeUpstream::with_tools(&["read"]).await);
    let gw = TestGateway::builder()
        .policy(ALLOW_ALL)
        .at_aggregate()
        .with_server("zoo", &zoo.url(), ALLOW_ALL)
        .start(&upstream)
        .await;
    (upstream, zoo, gw)
}

/// Sends one HTTP request with a token and extra headers.
async fn send(
    gw: &TestGateway,
    http_method: &str,
    path: &str,
    token: &str,
    extra_headers: &[(&str, &str)],
    body: &str,
) -> TestResponse {
    let bearer = format!("Bearer {token}");
    let mut headers = vec![
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    headers.extend_from_slice(extra_headers);
    gw.send_raw(http_method, path, &headers, body.as_bytes()).await
}

#[tokio::test]
async fn aggregate_session_needs_its_own_id_token_and_path() {
    let (upstream, zoo, gw) = setup().await;
    gw.initialize().await;
    let session_id = gw.session();
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let initialize =
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}})
        .to_string();
    let other = gw.add_grant("other", ALLOW_ALL);
    let opened = send(&gw, "POST", "/mcp/desk", gw.token.reveal(), &[], &initialize).await;
    let server_session = opened.header("mcp-session-id").expect("a session").to_owned();
    let requests_before = (upstream.requests().len(), zoo.requests().len());
    let (session, server_session) =
        (("Mcp-Session-Id", session_id.as_str()), ("Mcp-Session-Id", server_session.as_str()));
    let unknown = ("Mcp-Session-Id", "never-was");
    for (token, path, header) in [
        (&gw.token, "/mcp", unknown),
        (&gw.token, "/mcp", server_session),
        (&gw.token, "/mcp/desk", session),
        (&gw.token, "/mcp/zoo", session),
        (&other, "/mcp", session),
        (&other, "/mcp", server_session),
    ] {
        for (http_method, body) in [("POST", list), ("GET", ""), ("DELETE", "")] {
            let response = send(&gw, http_method, path, token.reveal(), &[header], body).await;
            assert_eq!(response.status, 404, "{http_method} {path} {header:?}: {}", response.body);
        }
    }
    for (http_method, body) in [("POST", list), ("DELETE", "")] {
        assert_eq!(
            send(&gw, http_method, "/mcp", gw.token.reveal(), &[], body).await.status,
            400,
            "{http_method} without a session"
        );
    }
    let revision = [("MCP-Protocol-Version", "2025-11-25")];
    assert_eq!(
        send(&gw, "GET", "/mcp", gw.token.reveal(), &revision, "").await.status,
        400,
        "a stream needs a session, too"
    );
    let without_session = send(&gw, "GET", "/mcp", gw.token.reveal(), &[], "").await;
    assert_eq!(
        (without_session.status, without_session.header("allow")),
        (405, Some("POST, GET, DELETE")),
        "{}",
        without_session.body
    );
    let twice = send(&gw, "POST", "/mcp", gw.token.reveal(), &[session, session], list).await;
    assert_eq!(twice.status, 400, "{}", twice.body);
    assert_eq!((upstream.requests().len(), zoo.requests().len()), requests_before, "no request is sent upstream");

    for stale in [unknown, session, server_session] {
        let fresh = send(&gw, "POST", "/mcp", gw.token.reveal(), &[stale], &initialize).await;
        let fresh = fresh.header("mcp-session-id").expect("a session");
        assert!(fresh != stale.1, "a handshake opens a new session");
    }
    assert_eq!(
        send(&gw, "POST", "/mcp", gw.token.reveal(), &[session], list).await.status,
        200,
        "a handshake ends no session"
    );
    assert_eq!(send(&gw, "DELETE", "/mcp", gw.token.reveal(), &[session], "").await.status, 204);
    for (http_method, body) in [("POST", list), ("GET", ""), ("DELETE", "")] {
        assert_eq!(
            send(&gw, http_method, "/mcp", gw.token.reveal(), &[session], body).await.status,
            404,
            "{http_method} after its deletion"
        );
    }
    let ended = |server: &FakeUpstream| server.requests().iter().any(|hit| hit.request_line.starts_with("DELETE"));
    wait_until("its upstream sessions are deleted", || ended(&upstream) && ended(&zoo)).await;
    assert_eq!(
        send(&gw, "POST", "/mcp/desk", gw.token.reveal(), &[server_session], list).await.status,
        200,
        "the session at `/mcp/desk` stays open"
    );
}

#[tokio::test]
async fn stateless_revision_allows_only_post_at_the_aggregate_endpoint() {
    let (upstream, zoo, gw) = setup().await;
    gw.initialize().await;
    let session_id = gw.session();
    let requests_before = (upstream.requests().len(), zoo.requests().len());
    for http_method in ["GET", "DELETE"] {
        for session in [None, Some(session_id.as_str()), Some("never-was")] {
            let mut extra_headers = vec![("MCP-Protocol-Version", STATELESS_REVISION)];
            extra_headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
            let response = send(&gw, http_method, "/mcp", gw.token.reveal(), &extra_headers, "").await;
            assert_eq!(
                (response.status, response.header("allow")),
                (405, Some("POST")),
                "{http_method} {session:?}: {}",
                response.body
            );
        }
    }
    for http_method in ["PUT", "PATCH"] {
        let response = send(&gw, http_method, "/mcp", gw.token.reveal(), &[], "").await;
        assert_eq!((response.status, response.header("allow")), (405, Some("POST, GET, DELETE")), "{http_method}");
    }
    assert_eq!((upstream.requests().len(), zoo.requests().len()), requests_before, "no request is sent upstream");
    let body = stateless_request("tools/call", json!({"name": "zoo__read", "arguments": {}}), &json!({}));
    for session in ["never-was", session_id.as_str(), ""] {
        let extra_headers = [
            ("MCP-Protocol-Version", STATELESS_REVISION),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "zoo__read"),
            ("Mcp-Session-Id", session),
        ];
        let response = send(&gw, "POST", "/mcp", gw.token.reveal(), &extra_headers, &body).await;
        assert_eq!((response.status, response.text().as_str()), (200, "{}"), "{session}: {}", response.body);
        assert_eq!(response.header("mcp-session-id"), None);
    }
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "{}", "the session is still open");
}

#[tokio::test]
async fn stateless_disconnect_at_the_aggregate_endpoint_cancels_at_the_called_server() {
    let hung_up = Arc::new(AtomicBool::new(false));
    let hung_up_flag = Arc::clone(&hung_up);
    let stateless_server = FakeUpstream::start(json!([]), move |hit| match hit.method().as_str() {
        "tools/call" => Some(
            [
                stream_headers(),
                vec![ScriptStep::Write(chunk(": here\n\n")), ScriptStep::WaitForHangUp(Arc::clone(&hung_up_flag))],
            ]
            .concat(),
        ),
        _ => stateless_response(hit, &json!([tool_definition("slow")]), &json!({"tools": {}})),
    });
    let stateless_server = stateless_server.await;
    // `zoo` sends the start of a response, `desk` sends nothing.
    let response_start = || [stream_headers(), vec![ScriptStep::Write(chunk(": here\n\n"))]].concat();
    let never_ending = |response_start: ResponseScript| {
        move |hit: &RecordedRequest| {
            let script = || [response_start.clone(), vec![ScriptStep::Pause(Duration::from_secs(60))]].concat();
            (hit.method() == "tools/call").then(script)
        }
    };
    let zoo = FakeUpstream::start(json!([tool_definition("slow")]), never_ending(response_start())).await;
    let upstream = FakeUpstream::start(json!([tool_definition("slow")]), never_ending(Vec::new())).await;
    let builder = TestGateway::builder().policy(ALLOW_ALL).at_aggregate();
    let gw = builder
        .with_server("zoo", &zoo.url(), ALLOW_ALL)
        .with_server("new", &stateless_server.url(), ALLOW_ALL)
        .start(&upstream)
        .await;
    let client = StatelessTestClient::new(&gw).at_aggregate();

    let connection = client.start_request("tools/call", json!({"name": "zoo__slow", "arguments": {}})).await;
    wait_until("the call arrives upstream", || zoo.calls().len() == 1).await;
    assert_eq!(request_count(&zoo, "notifications/cancelled"), 0);
    drop(connection);
    wait_until("the server receives the cancellation", || request_count(&zoo, "notifications/cancelled") == 1).await;
    let cancellation =
        zoo.requests().into_iter().find(|hit| hit.method() == "notifications/cancelled").expect("a cancellation");
    assert_eq!(
        cancellation.message()["params"]["requestId"],
        zoo.calls()[0].message()["id"],
        "with the upstream request id"
    );
    assert_eq!(request_count(&upstream, "notifications/cancelled"), 0, "no other server is notified");

    let connection = client.start_request("tools/call", json!({"name": "new__slow", "arguments": {}})).await;
    wait_until("the call arrives upstream", || stateless_server.calls().len() == 1).await;
    // Time for a premature hang-up to show.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!hung_up.load(Ordering::Acquire));
    drop(connection);
    wait_until("its stream is closed", || hung_up.load(Ordering::Acquire)).await;
    let cancelled = async || {
        let rows = gw.rows().await;
        rows.iter().filter(|row| row.record.outcome == Some(CallOutcome::Cancelled)).count()
    };
    wait_until_async("both cancellations are recorded", async || cancelled().await == 2).await;

    // In a session a disconnect cancels nothing.
    gw.initialize().await;
    let mut connection = start_in_session(&gw, "POST", "/mcp", "", &call("desk__slow").to_string()).await;
    wait_until("the call arrives upstream", || upstream.calls().len() == 1).await;
    read_for(&mut connection, Duration::from_millis(100)).await;
    drop(connection);
    // Time for a wrong cancellation to arrive.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(request_count(&upstream, "notifications/cancelled"), 0, "the client may resume the stream");
    assert_eq!(cancelled().await, 2);
}
