//! HTTP statuses and headers of single requests, and the client capabilities that servers receive.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use gatelodge_mcp::Revision;
use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SseTestClient, TestGateway, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::support::{
    ALLOW_ALL, STATELESS_REVISION, StatelessTestClient, chunk, delete_session, event, request_count, result_message,
    result_response, start_in_session, stateless_request, stateless_response, stream_headers, wait_until,
};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"read":{},"slow":{},"hang":{},"ask":{},"wipe":{"action":"deny"}},
    "client_requests":{"sampling":"allow"}}"#;
/// Client capabilities in an unusual spelling that shows any re-encoding.
const CAPABILITIES: &str = r#"{"roots":{"listChanged":true},"sampling":{"tools":{}} ,"elicitation":{"url":{},"form":{}},"experimental":{"n":1.10}}"#;

fn stateful_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "slow") => Some(
            [stream_headers(), vec![ScriptStep::Write(chunk(": \n\n")), ScriptStep::Pause(Duration::from_secs(60))]]
                .concat(),
        ),
        ("tools/call", "hang") => Some(vec![ScriptStep::Pause(Duration::from_secs(60))]),
        ("tools/call", "ask") => {
            let question = json!({"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage", "params": {}});
            let text = event(&question) + &event(&result_message(hit, &json!({"content": []})));
            Some(gatelodge_testkit::event_response(&text))
        }
        _ => None,
    }
}

async fn setup() -> (FakeUpstream, TestGateway) {
    let upstream =
        FakeUpstream::start(json!(["read", "slow", "hang", "ask", "wipe"].map(tool_definition)), stateful_server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    gw.initialize().await;
    (upstream, gw)
}

fn call(tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

#[tokio::test]
async fn batch_is_refused_with_400_in_every_revision() {
    let (upstream, gw) = setup().await;
    let batches = [json!([call("read"), call("wipe")]), json!([call("read")]), json!([])];
    for batch in batches.map(|batch| batch.to_string()) {
        let response = gw.send_text(&batch).await;
        assert_eq!((response.status, response.code()), (400, -32600), "{batch}: {}", response.body);
        let headers =
            [("MCP-Protocol-Version", STATELESS_REVISION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "read")];
        let response = gw.post(&headers, &batch).await;
        assert_eq!((response.status, response.code()), (400, -32600), "{batch}: {}", response.body);
    }
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-03-26",
        "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
    let session = gw.post(&[], &initialize.to_string()).await.header("mcp-session-id").expect("a session").to_owned();
    let batch = json!([call("read"), call("wipe")]).to_string();
    let response = gw.post(&[("Mcp-Session-Id", &session)], &batch).await;
    assert_eq!((response.status, response.code()), (400, -32600), "also in the revision that has batches");
    assert_eq!(upstream.calls().len(), 0);
}

#[tokio::test]
async fn only_notifications_and_responses_are_202_with_an_empty_body() {
    let (upstream, gw) = setup().await;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    let unknown = json!({"jsonrpc": "2.0", "id": "never sent", "result": {}});
    let question = gw.send(&call("ask")).await.messages().remove(0);
    assert_eq!(question["method"], "sampling/createMessage");
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"role": "assistant"}});
    for message in [notification, unknown, reply] {
        let response = gw.send(&message).await;
        assert_eq!((response.status, response.body.as_str()), (202, ""), "{message}");
        assert_eq!(response.header("content-length"), Some("0"), "{:?}", response.headers);
    }
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let headers = [("MCP-Protocol-Version", STATELESS_REVISION), ("Mcp-Method", "notifications/cancelled")];
    let response = gw.post(&headers, &cancelled.to_string()).await;
    assert_eq!((response.status, response.body.as_str()), (202, ""), "also without a session");
    for (method, params) in [("ping", json!({})), ("tools/list", json!({})), ("tools/call", json!({"name": "none"}))] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let response = gw.send(&request).await;
        assert_eq!((response.status, &response.message()["id"]), (200, &json!(1)), "{method}");
    }
    assert_eq!(upstream.requests().iter().filter(|hit| hit.body.contains("never sent")).count(), 0);
}

#[tokio::test]
async fn cancelled_request_is_200_and_its_stream_ends_without_a_response() {
    let (upstream, gw) = setup().await;
    for tool in ["slow", "hang"] {
        let call = call(tool).to_string();
        let mut calling = start_in_session(&gw, "POST", "/mcp/desk", "Connection: close\r\n", &call).await;
        wait_until("the call arrives upstream", || upstream.calls_to(tool).len() == 1).await;
        gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})).await;
        let mut raw = Vec::new();
        let reading = tokio::time::timeout(Duration::from_secs(5), calling.read_to_end(&mut raw)).await;
        reading.expect("the stream ends").expect("readable stream");
        let raw = String::from_utf8_lossy(&raw);
        assert!(raw.starts_with("HTTP/1.1 200") && raw.contains("text/event-stream"), "{tool}: {raw}");
        assert!(!raw.contains("jsonrpc"), "{tool}: {raw}");
    }
}

#[tokio::test]
async fn foreign_origin_is_403_for_every_http_method_and_ends_no_session() {
    let (upstream, gw) = setup().await;
    let before = upstream.requests().len();
    for path in ["/mcp/desk", "/mcp"] {
        for origin in ["https://evil.example", "null", "http://127.0.0.1.evil.example"] {
            let origin = [("Origin", origin)];
            assert_eq!(delete_session(&gw, path, &origin).await.status, 403, "{path} {origin:?}");
            let (bearer, session) = (format!("Bearer {}", gw.token.reveal()), gw.session());
            let session_headers =
                [("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_str()), ("Accept", "*/*")];
            let headers: Vec<_> = session_headers.iter().chain(&origin).copied().collect();
            for http_method in ["GET", "POST"] {
                assert_eq!(
                    gw.send_raw(http_method, path, &headers, b"{}").await.status,
                    403,
                    "{http_method} {path} {origin:?}"
                );
            }
        }
    }
    assert_eq!(upstream.requests().len(), before, "no request is sent upstream");
    assert_eq!(
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.status,
        200,
        "the session is still open"
    );
    assert_eq!(delete_session(&gw, "/mcp/desk", &[]).await.status, 204);
    assert_eq!(
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.status,
        404,
        "the session is deleted"
    );
}

#[tokio::test]
async fn session_header_of_a_handshake_is_ignored() {
    let (upstream, gw) = setup().await;
    let current = gw.session();
    let initialize =
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}})
        .to_string();
    let mut ids = vec![current.clone()];
    for stale in ["never-was", current.as_str(), &"0".repeat(64), "a b"] {
        let response = gw.post(&[("Mcp-Session-Id", stale)], &initialize).await;
        assert_eq!(response.status, 200, "{stale}: {}", response.body);
        ids.push(response.header("mcp-session-id").expect("a session").to_owned());
    }
    assert_eq!(request_count(&upstream, "initialize"), ids.len());
    for hit in upstream.requests().iter().filter(|hit| hit.method() == "initialize") {
        assert_eq!(hit.header("mcp-session-id"), None, "the client's session id is not sent upstream");
    }
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for id in &ids {
        assert_eq!(gw.post(&[("Mcp-Session-Id", id)], &list).await.status, 200, "each handshake opens its own session");
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[tokio::test]
async fn session_header_of_a_stateless_request_is_ignored() {
    let (upstream, gw) = setup().await;
    let other = gw.add_grant("other", POLICY);
    let (session_id, mut revisions) = (gw.session(), Vec::new());
    for session in ["never-was", session_id.as_str(), ""] {
        let headers = [
            ("MCP-Protocol-Version", STATELESS_REVISION),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "read"),
            ("Mcp-Session-Id", session),
        ];
        let body = stateless_request("tools/call", json!({"name": "read", "arguments": {}}), &json!({}));
        let response = gw.post(&headers, &body).await;
        assert_eq!((response.status, response.text().as_str()), (200, "{}"), "{session}: {}", response.body);
        assert_eq!(response.header("mcp-session-id"), None);
        let bearer = format!("Bearer {}", other.reveal());
        let common = [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Accept", "*/*")];
        let headers: Vec<_> = common.into_iter().chain(headers).collect();
        assert_eq!(
            gw.send_raw("POST", "/mcp/desk", &headers, body.as_bytes()).await.status,
            200,
            "also for the session of another grant"
        );
        revisions.extend(gw.rows().await.into_iter().filter_map(|row| row.record.revision).last());
    }
    assert!(revisions.iter().all(|revision| revision.as_ref() == STATELESS_REVISION), "{revisions:?}");
    let sessions: Vec<_> = upstream.calls().iter().map(|hit| hit.header("mcp-session-id").map(str::to_owned)).collect();
    assert!(sessions.iter().all(|session| session.as_deref() != Some(&session_id)), "{sessions:?}");
}

#[tokio::test]
async fn server_receives_exactly_the_capabilities_the_client_declares() {
    let stateful = FakeUpstream::with_tools(&["read"]).await;
    let stateless_upstream = FakeUpstream::start(json!([]), |hit| match hit.method().as_str() {
        "tools/call" => result_response(hit, &json!({"resultType": "complete", "content": []})),
        _ => stateless_response(hit, &json!([tool_definition("read")]), &json!({"tools": {}})),
    });
    let stateless_upstream = stateless_upstream.await;
    for declared_text in [CAPABILITIES, "{}"] {
        let declared: Value = serde_json::from_str(declared_text).expect("JSON");
        for upstream in [&stateful, &stateless_upstream] {
            let gw = TestGateway::with_policy(ALLOW_ALL, upstream).await;
            let initialize = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{declared_text},"clientInfo":{{"name":"o","version":"1"}}}}}}"#
            );
            let session = gw.post(&[], &initialize).await.header("mcp-session-id").expect("a session").to_owned();
            gw.post(&[("Mcp-Session-Id", &session)], &call("read").to_string()).await;
            let last =
                upstream.requests().into_iter().rev().find(|hit| hit.method() == "initialize").expect("a handshake");
            assert!(last.body.contains(&format!(r#""capabilities":{declared_text}"#)), "byte for byte: {}", last.body);
            StatelessTestClient::new(&gw)
                .request_with_capabilities("tools/call", json!({"name": "read", "arguments": {}}), &declared)
                .await;
        }
        let stateless_calls = stateless_upstream.calls();
        let bodies: Vec<&str> = stateless_calls.iter().rev().take(2).map(|hit| hit.body.as_str()).collect();
        let meta = "io.modelcontextprotocol/clientCapabilities";
        assert!(
            bodies[1].contains(&format!(r#""{meta}":{declared_text}"#)),
            "from a session, byte for byte: {}",
            bodies[1]
        );
        for hit in stateless_calls.iter().rev().take(2) {
            assert_eq!(hit.message()["params"]["_meta"][meta], declared, "{}", hit.body);
        }
        let mut handshakes = stateful.requests().into_iter().filter(|hit| hit.method() == "initialize");
        let last = handshakes.next_back().expect("a handshake").message();
        assert_eq!(last["params"]["capabilities"], declared, "from a stateless client");
    }
}

#[tokio::test]
async fn grant_with_a_stateless_minimum_revision_opens_no_sse_stream() {
    let (_, gw) = setup().await;
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Accept", "text/event-stream")];
    gw.change_grants(|grants| grants[0].minimum_revision = Some(Revision::R2026_07_28));
    let refused = gw.send_raw("GET", "/mcp/desk", &headers, b"").await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")), "{}", refused.body);
    assert!(refused.body.contains("requires protocol revision 2026-07-28 or newer"), "{}", refused.body);
    assert!(refused.body.contains("send each request by POST"), "{}", refused.body);
    let row = gw.rows().await.pop().expect("a row").record;
    assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")));
    gw.change_grants(|grants| grants[0].minimum_revision = Some(Revision::R2025_11_25));
    let client = SseTestClient::open(&gw).await;
    assert!(!client.endpoint.is_empty(), "a handshake can agree on 2025-11-25");
}

#[tokio::test]
async fn error_about_a_wrong_header_or_cursor_says_what_to_send() {
    let (_, gw) = setup().await;
    let body = stateless_request("tools/call", json!({"name": "read", "arguments": {}}), &json!({}));
    let (version, method, name) =
        (("MCP-Protocol-Version", STATELESS_REVISION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "read"));
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[version, method], "the `Mcp-Name` header is missing; send it once, with the value of `params.name`"),
        (&[version, method, ("Mcp-Name", "x")], "the `Mcp-Name` header differs from the body"),
        (&[version, method, name, name], "the `Mcp-Name` header occurs more than once"),
        (&[version, name], "the `Mcp-Method` header is missing; send it once, with the value of `method`"),
        (&[method, name], "the `MCP-Protocol-Version` header is missing; send it once, with the value of the revision"),
        (&[version, version, method, name], "the `MCP-Protocol-Version` header occurs more than once"),
    ];
    for (headers, expected) in cases {
        let response = gw.post(headers, &body).await;
        assert_eq!((response.status, response.code()), (400, -32020), "{headers:?}");
        let message = response.message()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(expected) && message.contains("send it once"), "{message}");
    }
    let cursor = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "2"}});
    let message = gw.send(&cursor).await.message()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("`params.cursor`") && message.contains("send the request without it"), "{message}");
}

#[tokio::test]
async fn unknown_notification_is_accepted_recorded_and_not_forwarded() {
    let (upstream, gw) = setup().await;
    gw.initialize().await;
    let before = upstream.requests().len();
    let unknown = r#"{"jsonrpc":"2.0","method":"notifications/vendor/news","params":{}}"#;
    for name in ["notifications/vendor/news", "vendor/news", "notifications/message"] {
        let response = gw.send(&json!({"jsonrpc": "2.0", "method": name})).await;
        assert_eq!((response.status, response.body.as_str()), (202, ""), "{name}");
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")), "{name}");
    }
    let wrong = gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": []})).await;
    assert_eq!((wrong.status, wrong.code()), (400, -32602), "a malformed notification is an error");
    let headers = [("MCP-Protocol-Version", STATELESS_REVISION), ("Mcp-Method", "notifications/vendor/news")];
    let stateless_response = gw.post(&headers, unknown).await;
    assert_eq!(
        (stateless_response.status, stateless_response.code()),
        (404, -32601),
        "a stateless one is an error, too"
    );
    assert_eq!(upstream.requests().len(), before, "nothing is forwarded");

    let mut client = SseTestClient::open_initialized(&gw, "2025-11-25").await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/vendor/news"})).await;
    client.send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"})).await;
    assert_eq!(client.next_message().await["id"], "ping", "an SSE client gets no response to it");
}
