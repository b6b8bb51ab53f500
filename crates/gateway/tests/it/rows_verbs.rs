//! Rows T1, T5, T7 and R2 where they were not shown: batches on every way, sessions and verbs at `/mcp`, and who hangs up
//! there.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatelodge_store::{CallOutcome, RecordKind};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, tool_definition,
};
use serde_json::{Value, json};

use super::rows_kit::{
    ALL, Caller, VERSION, begin_in_session, chunk, count, modern_answer, open_stream, read_for, stateless, until,
};
use super::rows_ways::{Client, Server, ServerKind, Way};

fn call(name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": name, "arguments": {}}})
}

#[tokio::test]
async fn t1_on_every_way_a_batch_is_one_error_and_nothing_of_it_is_sent() {
    let words = || vec![("tools/call", r#""result":{"content":[{"type":"text","text":"done"}]}"#.to_owned())];
    for way in Way::EVERY {
        for revision in ["2025-03-26", "2025-11-25"] {
            let case = format!("{way:?} in {revision}");
            let server =
                Server::start(ServerKind::Legacy, json!([tool_definition("read"), tool_definition("wipe")]), words())
                    .await;
            let policy = r#"{"version":"1","default":"deny","tools":{"read":{},"wipe":{"action":"deny"}}}"#;
            let gw = server.before(TestGateway::builder().policy(policy)).await;
            let mut client = Client::open_in(&gw, way, revision).await;
            let (read, wipe) = (call(&way.name("read")), call(&way.name("wipe")));
            let alone: Value = serde_json::from_str(&stateless(
                "tools/call",
                json!({"name": way.name("read"), "arguments": {}}),
                &json!({}),
            ))
            .expect("JSON");
            let batches = [json!([read, wipe]), json!([wipe]), json!([alone]), json!([]), json!([[read]])];
            for (nth, batch) in batches.into_iter().enumerate() {
                let name = way.name("read");
                let head =
                    [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", name.as_str())];
                let head: &[(&str, &str)] = if way.is_stateless() { &head } else { &[] };
                let heard = client.send(head, &batch.to_string()).await;
                assert_eq!((heard.status.unwrap_or(400), heard.code()), (400, -32600), "{case}: {batch}: {heard:?}");
                assert_eq!((heard.answer()["id"].clone(), heard.texts.len()), (Value::Null, 1), "{case}: {heard:?}");
                let refused =
                    async || gw.rows().await.iter().filter(|row| row.record.kind == RecordKind::Refused).count();
                // It is written down behind the answer.
                for _ in 0..50 {
                    if refused().await > nth {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                assert_eq!(refused().await, nth + 1, "{case}: {batch}: one row");
            }
            assert_eq!(server.count("tools/call"), 0, "{case}");
            assert_eq!(client.call("read", json!({})).await.said(), "done", "{case}: it goes on");
        }
    }
}

async fn two() -> (FakeUpstream, FakeUpstream, TestGateway) {
    let (desk, zoo) = (FakeUpstream::with_tools(&["read"]).await, FakeUpstream::with_tools(&["read"]).await);
    let gw = TestGateway::builder().policy(ALL).at_aggregate().with_server("zoo", &zoo.url(), ALL).start(&desk).await;
    (desk, zoo, gw)
}

/// One request at an address, by a token, in a session or none.
async fn at(gw: &TestGateway, verb: &str, path: &str, token: &str, more: &[(&str, &str)], body: &str) -> TestResponse {
    let bearer = format!("Bearer {token}");
    let mut headers = vec![
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    headers.extend_from_slice(more);
    gw.send_raw(verb, path, &headers, body.as_bytes()).await
}

#[tokio::test]
async fn t5_a_session_of_all_servers_is_found_by_its_id_its_token_and_its_address_and_by_no_other() {
    let (desk, zoo, gw) = two().await;
    gw.initialize().await;
    let own = gw.session();
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}})
    .to_string();
    let other = gw.add_grant("other", ALL);
    let of_desk = at(&gw, "POST", "/mcp/desk", gw.token.reveal(), &[], &hello).await;
    let of_desk = of_desk.header("mcp-session-id").expect("a session").to_owned();
    let heard = (desk.requests().len(), zoo.requests().len());
    let (own, of_desk) = (("Mcp-Session-Id", own.as_str()), ("Mcp-Session-Id", of_desk.as_str()));
    let unknown = ("Mcp-Session-Id", "never-was");
    for (token, path, session) in [
        (&gw.token, "/mcp", unknown),
        (&gw.token, "/mcp", of_desk),
        (&gw.token, "/mcp/desk", own),
        (&gw.token, "/mcp/zoo", own),
        (&other, "/mcp", own),
        (&other, "/mcp", of_desk),
    ] {
        for (verb, body) in [("POST", list), ("GET", ""), ("DELETE", "")] {
            let answer = at(&gw, verb, path, token.reveal(), &[session], body).await;
            assert_eq!(answer.status, 404, "{verb} {path} {session:?}: {}", answer.body);
        }
    }
    for (verb, body) in [("POST", list), ("DELETE", "")] {
        assert_eq!(at(&gw, verb, "/mcp", gw.token.reveal(), &[], body).await.status, 400, "{verb} without a session");
    }
    let revision = [("MCP-Protocol-Version", "2025-11-25")];
    assert_eq!(at(&gw, "GET", "/mcp", gw.token.reveal(), &revision, "").await.status, 400, "nor a stream");
    let old = at(&gw, "GET", "/mcp", gw.token.reveal(), &[], "").await;
    assert_eq!((old.status, old.header("allow")), (405, Some("POST, GET, DELETE")), "{}", old.body);
    let twice = at(&gw, "POST", "/mcp", gw.token.reveal(), &[own, own], list).await;
    assert_eq!(twice.status, 400, "{}", twice.body);
    assert_eq!((desk.requests().len(), zoo.requests().len()), heard, "nothing reaches a server");

    for stale in [unknown, own, of_desk] {
        let fresh = at(&gw, "POST", "/mcp", gw.token.reveal(), &[stale], &hello).await;
        let fresh = fresh.header("mcp-session-id").expect("a session");
        assert!(fresh != stale.1, "a handshake begins anew");
    }
    assert_eq!(at(&gw, "POST", "/mcp", gw.token.reveal(), &[own], list).await.status, 200, "and ends nothing");
    assert_eq!(at(&gw, "DELETE", "/mcp", gw.token.reveal(), &[own], "").await.status, 204);
    for (verb, body) in [("POST", list), ("GET", ""), ("DELETE", "")] {
        assert_eq!(at(&gw, verb, "/mcp", gw.token.reveal(), &[own], body).await.status, 404, "{verb} after its end");
    }
    let ended = |server: &FakeUpstream| server.requests().iter().any(|hit| hit.request_line.starts_with("DELETE"));
    until("its parts are ended", || ended(&desk) && ended(&zoo)).await;
    assert_eq!(at(&gw, "POST", "/mcp/desk", gw.token.reveal(), &[of_desk], list).await.status, 200, "not the other's");
}

#[tokio::test]
async fn t7_the_stateless_revision_has_one_verb_where_all_servers_are_one_and_looks_at_no_session() {
    let (desk, zoo, gw) = two().await;
    gw.initialize().await;
    let own = gw.session();
    let heard = (desk.requests().len(), zoo.requests().len());
    for verb in ["GET", "DELETE"] {
        for session in [None, Some(own.as_str()), Some("never-was")] {
            let mut more = vec![("MCP-Protocol-Version", VERSION)];
            more.extend(session.map(|session| ("Mcp-Session-Id", session)));
            let answer = at(&gw, verb, "/mcp", gw.token.reveal(), &more, "").await;
            assert_eq!(
                (answer.status, answer.header("allow")),
                (405, Some("POST")),
                "{verb} {session:?}: {}",
                answer.body
            );
        }
    }
    for verb in ["PUT", "PATCH"] {
        let answer = at(&gw, verb, "/mcp", gw.token.reveal(), &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST, GET, DELETE")), "{verb}");
    }
    assert_eq!((desk.requests().len(), zoo.requests().len()), heard, "nothing reaches a server");
    let body = stateless("tools/call", json!({"name": "zoo__read", "arguments": {}}), &json!({}));
    for session in ["never-was", own.as_str(), ""] {
        let more = [
            ("MCP-Protocol-Version", VERSION),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "zoo__read"),
            ("Mcp-Session-Id", session),
        ];
        let answer = at(&gw, "POST", "/mcp", gw.token.reveal(), &more, &body).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "{}"), "{session}: {}", answer.body);
        assert_eq!(answer.header("mcp-session-id"), None);
    }
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "{}", "the session is open, and both are served");
}

#[tokio::test]
async fn r2_who_hangs_up_without_a_session_cancels_at_the_server_that_it_called_where_all_servers_are_one() {
    let hung_up = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&hung_up);
    let new = FakeUpstream::start(json!([]), move |hit| match hit.method().as_str() {
        "tools/call" => Some(
            [
                open_stream(),
                vec![ScriptStep::Write(chunk(": here\n\n")), ScriptStep::WaitForHangUp(Arc::clone(&noted))],
            ]
            .concat(),
        ),
        _ => modern_answer(hit, &json!([tool_definition("slow")]), &json!({"tools": {}})),
    });
    let new = new.await;
    // One begins to answer, the other does not.
    let begun = || [open_stream(), vec![ScriptStep::Write(chunk(": here\n\n"))]].concat();
    let hanging = |begun: ResponseScript| {
        move |hit: &RecordedRequest| {
            let script = || [begun.clone(), vec![ScriptStep::Pause(Duration::from_secs(60))]].concat();
            (hit.method() == "tools/call").then(script)
        }
    };
    let zoo = FakeUpstream::start(json!([tool_definition("slow")]), hanging(begun())).await;
    let desk = FakeUpstream::start(json!([tool_definition("slow")]), hanging(Vec::new())).await;
    let builder = TestGateway::builder().policy(ALL).at_aggregate();
    let gw = builder.with_server("zoo", &zoo.url(), ALL).with_server("new", &new.url(), ALL).start(&desk).await;
    let own = Caller::of(&gw).at_all();

    let calling = own.begin("tools/call", json!({"name": "zoo__slow", "arguments": {}})).await;
    until("the call arrives", || zoo.calls().len() == 1).await;
    assert_eq!(count(&zoo, "notifications/cancelled"), 0);
    drop(calling);
    until("it is told", || count(&zoo, "notifications/cancelled") == 1).await;
    let told = zoo.requests().into_iter().find(|hit| hit.method() == "notifications/cancelled").expect("a note");
    assert_eq!(told.message()["params"]["requestId"], zoo.calls()[0].message()["id"], "under the id that it knows");
    assert_eq!(count(&desk, "notifications/cancelled"), 0, "nobody else is");

    let calling = own.begin("tools/call", json!({"name": "new__slow", "arguments": {}})).await;
    until("the call arrives", || new.calls().len() == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!hung_up.load(Ordering::Acquire));
    drop(calling);
    until("its stream is closed", || hung_up.load(Ordering::Acquire)).await;
    let cancelled = async || {
        let rows = gw.rows().await;
        rows.iter().filter(|row| row.record.outcome == Some(CallOutcome::Cancelled)).count()
    };
    for _ in 0..50 {
        if cancelled().await == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(cancelled().await, 2, "and it is written down");

    // With a session it is the other way round.
    gw.initialize().await;
    let mut calling = begin_in_session(&gw, "POST", "/mcp", "", &call("desk__slow").to_string()).await;
    until("the call arrives", || desk.calls().len() == 1).await;
    read_for(&mut calling, Duration::from_millis(100)).await;
    drop(calling);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(count(&desk, "notifications/cancelled"), 0, "that client comes back");
    assert_eq!(cancelled().await, 2);
}
