//! Rows T1, T2, T4, T5, T7 and R3: what single requests are answered with, and what servers hear of clients.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use gatelodge_mcp::Revision;
use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SseTestClient, TestGateway, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::rows_kit::{
    ALL, Caller, VERSION, answered, begin_in_session, chunk, count, delete_session, event, modern_answer, open_stream,
    result_of, stateless, until,
};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"read":{},"slow":{},"hang":{},"ask":{},"wipe":{"action":"deny"}},
    "client_requests":{"sampling":"allow"}}"#;
/// What a client says that it can do, spelled as only it would spell it.
const CAPABILITIES: &str = r#"{"roots":{"listChanged":true},"sampling":{"tools":{}} ,"elicitation":{"url":{},"form":{}},"experimental":{"n":1.10}}"#;

fn legacy(hit: &RecordedRequest) -> Option<ResponseScript> {
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "slow") => Some(
            [open_stream(), vec![ScriptStep::Write(chunk(": \n\n")), ScriptStep::Pause(Duration::from_secs(60))]]
                .concat(),
        ),
        ("tools/call", "hang") => Some(vec![ScriptStep::Pause(Duration::from_secs(60))]),
        ("tools/call", "ask") => {
            let question = json!({"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage", "params": {}});
            let text = event(&question) + &event(&result_of(hit, &json!({"content": []})));
            Some(gatelodge_testkit::event_response(&text))
        }
        _ => None,
    }
}

async fn desk() -> (FakeUpstream, TestGateway) {
    let upstream =
        FakeUpstream::start(json!(["read", "slow", "hang", "ask", "wipe"].map(tool_definition)), legacy).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    gw.initialize().await;
    (upstream, gw)
}

fn call(tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

#[tokio::test]
async fn t1_a_batch_is_400_whatever_is_in_it_and_whoever_sends_it() {
    let (upstream, gw) = desk().await;
    let batches = [json!([call("read"), call("wipe")]), json!([call("read")]), json!([])];
    for batch in batches.map(|batch| batch.to_string()) {
        let answer = gw.send_text(&batch).await;
        assert_eq!((answer.status, answer.code()), (400, -32600), "{batch}: {}", answer.body);
        let head = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "read")];
        let answer = gw.post(&head, &batch).await;
        assert_eq!((answer.status, answer.code()), (400, -32600), "{batch}: {}", answer.body);
    }
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-03-26",
        "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
    let session = gw.post(&[], &hello.to_string()).await.header("mcp-session-id").expect("a session").to_owned();
    let batch = json!([call("read"), call("wipe")]).to_string();
    let answer = gw.post(&[("Mcp-Session-Id", &session)], &batch).await;
    assert_eq!((answer.status, answer.code()), (400, -32600), "the revision that had them");
    assert_eq!(upstream.calls().len(), 0);
}

#[tokio::test]
async fn t2_what_wants_no_answer_is_202_without_a_body_and_a_request_never_is() {
    let (upstream, gw) = desk().await;
    let said = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    let unknown = json!({"jsonrpc": "2.0", "id": "nobody asked", "result": {}});
    let question = gw.send(&call("ask")).await.messages().remove(0);
    assert_eq!(question["method"], "sampling/createMessage");
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"role": "assistant"}});
    for message in [said, unknown, reply] {
        let answer = gw.send(&message).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{message}");
        assert_eq!(answer.header("content-length"), Some("0"), "{:?}", answer.headers);
    }
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let head = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "notifications/cancelled")];
    let answer = gw.post(&head, &cancelled.to_string()).await;
    assert_eq!((answer.status, answer.body.as_str()), (202, ""), "nor without a session");
    for (method, params) in [("ping", json!({})), ("tools/list", json!({})), ("tools/call", json!({"name": "none"}))] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = gw.send(&request).await;
        assert_eq!((answer.status, &answer.message()["id"]), (200, &json!(1)), "{method}");
    }
    assert_eq!(upstream.requests().iter().filter(|hit| hit.body.contains("nobody asked")).count(), 0);
}

#[tokio::test]
async fn t2_a_request_that_is_cancelled_is_200_and_its_stream_ends_without_an_answer() {
    let (upstream, gw) = desk().await;
    for tool in ["slow", "hang"] {
        let call = call(tool).to_string();
        let mut calling = begin_in_session(&gw, "POST", "/mcp/desk", "Connection: close\r\n", &call).await;
        until("the call arrives", || upstream.calls_to(tool).len() == 1).await;
        gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})).await;
        let mut raw = Vec::new();
        let reading = tokio::time::timeout(Duration::from_secs(5), calling.read_to_end(&mut raw)).await;
        reading.expect("it ends").expect("in order");
        let raw = String::from_utf8_lossy(&raw);
        assert!(raw.starts_with("HTTP/1.1 200") && raw.contains("text/event-stream"), "{tool}: {raw}");
        assert!(!raw.contains("jsonrpc"), "{tool}: {raw}");
    }
}

#[tokio::test]
async fn t4_a_foreign_origin_is_403_on_every_verb_and_ends_no_session() {
    let (upstream, gw) = desk().await;
    let before = upstream.requests().len();
    for path in ["/mcp/desk", "/mcp"] {
        for origin in ["https://evil.example", "null", "http://127.0.0.1.evil.example"] {
            let origin = [("Origin", origin)];
            assert_eq!(delete_session(&gw, path, &origin).await.status, 403, "{path} {origin:?}");
            let (bearer, session) = (format!("Bearer {}", gw.token.reveal()), gw.session());
            let own = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_str()), ("Accept", "*/*")];
            let headers: Vec<_> = own.iter().chain(&origin).copied().collect();
            for verb in ["GET", "POST"] {
                assert_eq!(gw.send_raw(verb, path, &headers, b"{}").await.status, 403, "{verb} {path} {origin:?}");
            }
        }
    }
    assert_eq!(upstream.requests().len(), before, "before anything is done");
    assert_eq!(gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.status, 200, "it is open");
    assert_eq!(delete_session(&gw, "/mcp/desk", &[]).await.status, 204);
    assert_eq!(gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.status, 404, "now it is not");
}

#[tokio::test]
async fn t5_an_old_session_that_comes_with_a_handshake_does_not_count() {
    let (upstream, gw) = desk().await;
    let live = gw.session();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}})
    .to_string();
    let mut ids = vec![live.clone()];
    for stale in ["never-was", live.as_str(), &"0".repeat(64), "a b"] {
        let answer = gw.post(&[("Mcp-Session-Id", stale)], &hello).await;
        assert_eq!(answer.status, 200, "{stale}: {}", answer.body);
        ids.push(answer.header("mcp-session-id").expect("a session").to_owned());
    }
    assert_eq!(count(&upstream, "initialize"), ids.len());
    for hit in upstream.requests().iter().filter(|hit| hit.method() == "initialize") {
        assert_eq!(hit.header("mcp-session-id"), None, "the server hears nothing of it");
    }
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for id in &ids {
        assert_eq!(gw.post(&[("Mcp-Session-Id", id)], &list).await.status, 200, "each is one of its own");
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[tokio::test]
async fn t7_a_session_that_comes_with_a_stateless_request_is_not_looked_at() {
    let (upstream, gw) = desk().await;
    let other = gw.add_grant("other", POLICY);
    let (own, mut seen) = (gw.session(), Vec::new());
    for session in ["never-was", own.as_str(), ""] {
        let head = [
            ("MCP-Protocol-Version", VERSION),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "read"),
            ("Mcp-Session-Id", session),
        ];
        let body = stateless("tools/call", json!({"name": "read", "arguments": {}}), &json!({}));
        let answer = gw.post(&head, &body).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "{}"), "{session}: {}", answer.body);
        assert_eq!(answer.header("mcp-session-id"), None);
        let bearer = format!("Bearer {}", other.reveal());
        let kinds = [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Accept", "*/*")];
        let headers: Vec<_> = kinds.into_iter().chain(head).collect();
        assert_eq!(gw.send_raw("POST", "/mcp/desk", &headers, body.as_bytes()).await.status, 200, "nor whose it is");
        seen.extend(gw.rows().await.into_iter().filter_map(|row| row.record.revision).last());
    }
    assert!(seen.iter().all(|revision| revision.as_ref() == VERSION), "{seen:?}");
    let sessions: Vec<_> = upstream.calls().iter().map(|hit| hit.header("mcp-session-id").map(str::to_owned)).collect();
    assert!(sessions.iter().all(|session| session.as_deref() != Some(&own)), "{sessions:?}");
}

#[tokio::test]
async fn r3_a_server_hears_that_a_client_can_do_what_the_client_says_and_nothing_else_in_either_era() {
    let old = FakeUpstream::with_tools(&["read"]).await;
    let new = FakeUpstream::start(json!([]), |hit| match hit.method().as_str() {
        "tools/call" => answered(hit, &json!({"resultType": "complete", "content": []})),
        _ => modern_answer(hit, &json!([tool_definition("read")]), &json!({"tools": {}})),
    });
    let new = new.await;
    for own in [CAPABILITIES, "{}"] {
        let declared: Value = serde_json::from_str(own).expect("JSON");
        for upstream in [&old, &new] {
            let gw = TestGateway::with_policy(ALL, upstream).await;
            let hello = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{own},"clientInfo":{{"name":"o","version":"1"}}}}}}"#
            );
            let session = gw.post(&[], &hello).await.header("mcp-session-id").expect("a session").to_owned();
            gw.post(&[("Mcp-Session-Id", &session)], &call("read").to_string()).await;
            let last =
                upstream.requests().into_iter().rev().find(|hit| hit.method() == "initialize").expect("a handshake");
            assert!(last.body.contains(&format!(r#""capabilities":{own}"#)), "as it is written: {}", last.body);
            Caller::of(&gw).ask_as("tools/call", json!({"name": "read", "arguments": {}}), &declared).await;
        }
        let at_modern = new.calls();
        let said: Vec<&str> = at_modern.iter().rev().take(2).map(|hit| hit.body.as_str()).collect();
        let meta = "io.modelcontextprotocol/clientCapabilities";
        assert!(said[1].contains(&format!(r#""{meta}":{own}"#)), "a session's, as it is written: {}", said[1]);
        for hit in at_modern.iter().rev().take(2) {
            assert_eq!(hit.message()["params"]["_meta"][meta], declared, "{}", hit.body);
        }
        let mut hellos = old.requests().into_iter().filter(|hit| hit.method() == "initialize");
        let last = hellos.next_back().expect("a handshake").message();
        assert_eq!(last["params"]["capabilities"], declared, "of a client without a session");
    }
}

#[tokio::test]
async fn a_grant_that_wants_requests_that_stand_alone_opens_no_stream_of_events() {
    let (_, gw) = desk().await;
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
    let caller = SseTestClient::open(&gw).await;
    assert!(!caller.endpoint.is_empty(), "there are handshakes that are new enough");
}

#[tokio::test]
async fn what_is_said_of_a_wrong_head_or_a_foreign_cursor_says_what_to_do() {
    let (_, gw) = desk().await;
    let body = stateless("tools/call", json!({"name": "read", "arguments": {}}), &json!({}));
    let (version, method, name) =
        (("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "read"));
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[version, method], "the `Mcp-Name` header is missing; send it once, with the value of `params.name`"),
        (&[version, method, ("Mcp-Name", "x")], "the `Mcp-Name` header differs from the body"),
        (&[version, method, name, name], "the `Mcp-Name` header occurs more than once"),
        (&[version, name], "the `Mcp-Method` header is missing; send it once, with the value of `method`"),
        (&[method, name], "the `MCP-Protocol-Version` header is missing; send it once, with the value of the revision"),
        (&[version, version, method, name], "the `MCP-Protocol-Version` header occurs more than once"),
    ];
    for (headers, said) in cases {
        let answer = gw.post(headers, &body).await;
        assert_eq!((answer.status, answer.code()), (400, -32020), "{headers:?}");
        let message = answer.message()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(said) && message.contains("send it once"), "{message}");
    }
    let cursor = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "2"}});
    let message = gw.send(&cursor).await.message()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("`params.cursor`") && message.contains("send the request without it"), "{message}");
}

#[tokio::test]
async fn a_notification_that_nobody_knows_is_taken_without_a_word_and_written_down() {
    let (upstream, gw) = desk().await;
    gw.initialize().await;
    let before = upstream.requests().len();
    let unknown = r#"{"jsonrpc":"2.0","method":"notifications/vendor/news","params":{}}"#;
    for name in ["notifications/vendor/news", "vendor/news", "notifications/message"] {
        let answer = gw.send(&json!({"jsonrpc": "2.0", "method": name})).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{name}");
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")), "{name}");
    }
    let wrong = gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": []})).await;
    assert_eq!((wrong.status, wrong.code()), (400, -32602), "what cannot be taken is an error");
    let head = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "notifications/vendor/news")];
    let alone = gw.post(&head, unknown).await;
    assert_eq!((alone.status, alone.code()), (404, -32601), "so is it where requests stand alone");
    assert_eq!(upstream.requests().len(), before, "nobody hears of it");

    let mut caller = SseTestClient::open_initialized(&gw, "2025-11-25").await;
    caller.send(&json!({"jsonrpc": "2.0", "method": "notifications/vendor/news"})).await;
    caller.send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"})).await;
    assert_eq!(caller.next_message().await["id"], "ping", "nor is it answered on a stream");
}
