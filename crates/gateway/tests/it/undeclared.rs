//! Servers that pass over what their client has declared: what they give and ask then reaches nobody.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use gatelodge_store::{CallLogRow, RecordKind};
use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, tool_definition};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::rows_kit::{
    ALL, Caller, EXTENSION, answered, chunk, count, event, modern_answer, open_stream, result_of, until,
};

const EVERYTHING: &str = "everything that there is";

/// What a test's server asks in the middle of, or as the answer to, a call of the tool `ask`.
fn questions() -> [(&'static str, Value, Value); 4] {
    [
        ("elicitation/create", json!({"message": "?", "requestedSchema": {}}), json!({"elicitation": {"form": {}}})),
        (
            "elicitation/create",
            json!({"mode": "url", "message": "?", "url": "https://a.example", "elicitationId": "e"}),
            json!({"elicitation": {"url": {}}}),
        ),
        ("sampling/createMessage", json!({"messages": [], "maxTokens": 1}), json!({"sampling": {}})),
        ("roots/list", json!({}), json!({"roots": {}})),
    ]
}

fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}, "extensions": {EXTENSION: {}}})
}

/// A server with sessions that asks in the middle of a call, and says what it is answered.
async fn asks_in_session(method: &'static str, params: Value) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("ask")]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" => {
            let mut script = open_stream();
            let question = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
            script.push(ScriptStep::Write(chunk(&event(&question))));
            script.push(ScriptStep::Pause(std::time::Duration::from_millis(300)));
            let done = result_of(hit, &json!({"content": [{"type": "text", "text": "done"}]}));
            script.push(ScriptStep::Write(chunk(&event(&done))));
            script.push(ScriptStep::Write(b"0\r\n\r\n".to_vec()));
            Some(script)
        }
        _ => None,
    })
    .await
}

/// One without sessions that asks by its answer.
async fn asks_by_answer(method: &'static str, params: Value) -> FakeUpstream {
    FakeUpstream::start(json!([]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" if hit.message()["params"]["inputResponses"].is_null() => {
            let wanted = json!({"key": {"method": method, "params": params}});
            answered(hit, &json!({"resultType": "input_required", "inputRequests": wanted, "requestState": "s"}))
        }
        "tools/call" => {
            answered(hit, &json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}))
        }
        _ => modern_answer(hit, &json!([tool_definition("ask")]), &json!({"tools": {}})),
    })
    .await
}

async fn refusals(gw: &TestGateway) -> Vec<String> {
    let rows = gw.rows().await.into_iter();
    let said = rows.filter_map(|row| row.record.message).map(|message| message.to_string());
    said.filter(|why| why.contains("not declared")).collect()
}

#[tokio::test]
async fn a_server_with_sessions_that_asks_for_too_much_is_told_so_and_its_client_is_not_asked() {
    for (method, params, required) in questions() {
        let upstream = asks_in_session(method, params).await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        gw.initialize_with(json!({})).await;
        let answer = gw.call("ask", json!({})).await;
        assert_eq!(answer.text(), "done");
        assert!(!answer.body.contains(method), "nobody is asked: {}", answer.body);
        let told = || upstream.requests().into_iter().map(|hit| hit.message()).find(|said| said["id"] == "q");
        until("the server is told", || told().is_some()).await;
        assert_eq!(told().expect("an answer")["error"]["code"], -32601);
        assert_eq!(refusals(&gw).await.len(), 1, "{method}: and it is written");

        let stateless = Caller::of(&gw).ask_as("tools/call", json!({"name": "ask", "arguments": {}}), &json!({})).await;
        assert_eq!(stateless.text(), "done", "nor without a session: {}", stateless.body);

        let gw = TestGateway::with_policy(ALL, &upstream).await;
        gw.initialize_with(required).await;
        assert!(gw.call("ask", json!({})).await.body.contains(method), "who has declared it is asked");
    }
}

#[tokio::test]
async fn a_server_without_sessions_that_asks_for_too_much_is_answered_for_its_client() {
    for (method, params, required) in questions() {
        let upstream = asks_by_answer(method, params).await;
        let gw = TestGateway::builder().policy(ALL).with_server("zoo", &upstream.url(), ALL).start(&upstream).await;
        for (caller, name) in [(Caller::of(&gw), "ask"), (Caller::of(&gw).at_all(), "zoo__ask")] {
            let call = json!({"name": name, "arguments": {}});
            let refused = caller.ask_as("tools/call", call.clone(), &json!({})).await;
            assert_eq!((refused.status, refused.code()), (400, -32021), "{}", refused.body);
            assert_eq!(refused.message()["error"]["data"], json!({"requiredCapabilities": required}));
            let asked = caller.ask_as("tools/call", call, &required).await;
            assert_eq!(asked.message()["result"]["resultType"], "input_required", "{}", asked.body);
        }
        assert_eq!(refusals(&gw).await.len(), 2, "and it is written");
        gw.initialize_with(json!({})).await;
        let text = gw.call("ask", json!({})).await.text();
        assert!(text.contains("asked the client for input that it has not declared"), "{EVERYTHING}: {text}");
    }
}

/// A server whose tool makes a task whatever it is asked for.
fn makes_task(hit: &RecordedRequest, is_modern: bool) -> Option<ResponseScript> {
    let task = json!({"taskId": "t1", "status": "working", "createdAt": "2026-11-15T12:00:00Z",
        "lastUpdatedAt": "2026-11-15T12:00:00Z", "ttl": 60000, "ttlMs": 60000, "resultType": "task"});
    match hit.method().as_str() {
        "tools/call" if is_modern => answered(hit, &task),
        "tools/call" => answered(hit, &json!({"task": task})),
        "tasks/cancel" => answered(hit, &json!({"resultType": "complete"})),
        _ if is_modern => {
            modern_answer(hit, &json!([tool_definition("slow")]), &json!({"tools": {}, "extensions": {EXTENSION: {}}}))
        }
        _ => None,
    }
}

fn cancelled(upstream: &FakeUpstream) -> usize {
    let hits = upstream.requests();
    hits.iter().filter(|hit| hit.method() == "tasks/cancel" && hit.message()["params"]["taskId"] == "t1").count()
}

#[tokio::test]
async fn a_task_that_a_client_did_not_ask_for_is_refused_and_cancelled() {
    let call = || json!({"name": "slow", "arguments": {}});
    for is_modern in [false, true] {
        let upstream = FakeUpstream::start(json!([tool_definition("slow")]), move |hit: &RecordedRequest| {
            makes_task(hit, is_modern)
        })
        .await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        gw.initialize().await;
        let text = gw.call("slow", json!({})).await.text();
        let across = "tasks are not translated";
        let what = if is_modern { across } else { "returned a task to a client that has not declared tasks" };
        assert!(text.contains(what), "{is_modern}: {text}");
        until("the server is told", || cancelled(&upstream) == 1).await;
        let refused = Caller::of(&gw).ask_as("tools/call", call(), &json!({})).await;
        if is_modern {
            assert_eq!((refused.status, refused.code()), (400, -32021), "{}", refused.body);
        } else {
            assert!(refused.text().contains(across), "{}", refused.body);
        }
        until("the server is told", || cancelled(&upstream) == 2).await;
        assert_eq!(refusals(&gw).await.len(), 1, "{is_modern}");
        // Who takes it gets it.
        if is_modern {
            let task = Caller::of(&gw).ask_as("tools/call", call(), &everything()).await.message();
            assert_eq!(task["result"]["taskId"], "t1", "{task}");
        } else {
            let mut own = call();
            own["task"] = json!({"ttl": 60000});
            let task = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": own})).await;
            assert_eq!(task.message()["result"]["task"]["taskId"], "t1", "{}", task.body);
        }
        assert_eq!(count(&upstream, "tasks/cancel"), 2, "{is_modern}");
    }
}

#[tokio::test]
async fn that_a_task_is_cancelled_is_written_before_it_is_sent() {
    for is_modern in [false, true] {
        let told = Arc::new(Notify::new());
        let own = Arc::clone(&told);
        let upstream = FakeUpstream::start(json!([tool_definition("slow")]), move |hit: &RecordedRequest| {
            let script = makes_task(hit, is_modern)?;
            let waits = (hit.method() == "tasks/cancel").then(|| ScriptStep::WaitFor(Arc::clone(&own)));
            Some(waits.into_iter().chain(script).collect())
        })
        .await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        Caller::of(&gw).ask_as("tools/call", json!({"name": "slow", "arguments": {}}), &json!({})).await;
        until("the server is told", || cancelled(&upstream) == 1).await;
        let rows = |rows: Vec<CallLogRow>| {
            let intent = rows.iter().find(|row| row.record.method.as_deref() == Some("tasks/cancel"))?;
            assert_eq!((intent.record.kind, intent.record.target.as_deref()), (RecordKind::Intent, Some("t1")));
            let call = intent.record.call;
            Some(rows.iter().filter(|row| row.record.call == call && row.record.kind == RecordKind::Outcome).count())
        };
        assert_eq!(rows(gw.rows().await), Some(0), "{is_modern}: that it will be sent, and not yet how it ended");
        told.notify_one();
        for _ in 0..250 {
            if rows(gw.rows().await) == Some(1) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(rows(gw.rows().await), Some(1), "{is_modern}: and then how it ended");
    }
}

#[tokio::test]
async fn neither_side_of_a_crossing_is_told_that_the_other_has_tasks() {
    let own = json!({"tools": {}, "tasks": {"list": {}}, "extensions": {EXTENSION: {}, "a/b": {"n": 1}}});
    let shared = json!({"a/b": {"n": 1}});
    let is_shared = |capabilities: &Value, what: &str| {
        assert_eq!((&capabilities["extensions"], &capabilities["tasks"]), (&shared, &Value::Null), "{what}");
    };
    for is_modern in [false, true] {
        let said = own.clone();
        let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| match hit.method().as_str() {
            "tools/call" => None,
            _ if is_modern => modern_answer(hit, &json!([tool_definition("read")]), &said),
            "initialize" => answered(
                hit,
                &json!({"protocolVersion": "2025-11-25", "capabilities": said, "serverInfo": {"name": "s", "version": "1"}}),
            ),
            _ => None,
        })
        .await;
        let one = TestGateway::with_policy(ALL, &upstream).await;
        let all = TestGateway::builder().policy(ALL).at_aggregate().start(&upstream).await;
        for (gw, name) in [(one, "read"), (all, "desk__read")] {
            let before = upstream.requests().len();
            let caller = if name == "read" { Caller::of(&gw) } else { Caller::of(&gw).at_all() };
            let told = if is_modern {
                let welcome = gw.initialize_with(own.clone()).await.message();
                gw.call(name, json!({})).await;
                welcome
            } else {
                caller.ask_as("tools/call", json!({"name": name, "arguments": {}}), &own).await;
                caller.ask_as("server/discover", json!({}), &own).await.message()
            };
            is_shared(&told["result"]["capabilities"], &format!("the client of {name}: {told}"));
            let hits = upstream.requests().split_off(before);
            let method = if is_modern { "tools/call" } else { "initialize" };
            let asked = hits.iter().find(|hit| hit.method() == method).expect("it was").message();
            let params = &asked["params"];
            let declared = if is_modern {
                &params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            } else {
                &params["capabilities"]
            };
            is_shared(declared, &format!("the server of {name}: {asked}"));
        }
    }
}

#[tokio::test]
async fn what_is_called_a_task_where_there_are_none_passes_as_it_is() {
    let upstream = FakeUpstream::start(json!([tool_definition("old")]), |hit: &RecordedRequest| match hit.method().as_str() {
        "initialize" => {
            let revision = hit.message()["params"]["protocolVersion"].clone();
            answered(
                hit,
                &json!({"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}),
            )
        }
        "tools/call" | "vendor/plan" => answered(hit, &json!({"task": {"taskId": "t1"}, "content": []})),
        _ => None,
    })
    .await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    gw.initialize().await;
    let plan = json!({"jsonrpc": "2.0", "id": 1, "method": "vendor/plan", "params": {}});
    let answer = gw.send(&plan).await;
    assert_eq!(answer.message()["result"]["task"]["taskId"], "t1", "{}", answer.body);

    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}});
    let session = gw.post(&[], &hello.to_string()).await.header("mcp-session-id").expect("a session").to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "old", "arguments": {}}});
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-06-18")];
    let answer = gw.post(&headers, &call.to_string()).await;
    assert_eq!(answer.message()["result"]["task"]["taskId"], "t1", "{}", answer.body);
    assert_eq!(cancelled(&upstream), 0);
}

#[tokio::test]
async fn a_task_written_in_other_letters_is_found_all_the_same() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        let result = r#"{"resultType":"t\u0061sk","t\u0061skId":"t1","status":"working"}"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, hit.message()["id"]);
        match hit.method().as_str() {
            "tools/call" => Some(gatelodge_testkit::json_response("200 OK", "", &body)),
            _ => makes_task(hit, true),
        }
    })
    .await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    let refused = Caller::of(&gw).ask_as("tools/call", json!({"name": "slow", "arguments": {}}), &json!({})).await;
    assert_eq!((refused.status, refused.code()), (400, -32021), "{}", refused.body);
}
