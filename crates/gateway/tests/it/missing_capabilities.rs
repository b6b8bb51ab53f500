//! Servers that ignore the declared capabilities of a client: their requests and tasks do not reach the client.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use gatelodge_store::{CallLogRow, RecordKind};
use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, tool_definition};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::support::{
    ALLOW_ALL, StatelessTestClient, TASKS_EXTENSION, chunk, event, request_count, result_message, result_response,
    stateless_response, stream_headers, wait_until, wait_until_async,
};

/// Server requests during a call of the tool `ask`: method, parameters, and the capability that the client needs.
fn server_requests() -> [(&'static str, Value, Value); 4] {
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

fn all_capabilities() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}, "extensions": {TASKS_EXTENSION: {}}})
}

/// Stateful server that sends a request during a call.
async fn server_that_requests_in_a_stream(method: &'static str, params: Value) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("ask")]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" => {
            let mut script = stream_headers();
            let server_request = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
            script.push(ScriptStep::Write(chunk(&event(&server_request))));
            script.push(ScriptStep::Pause(std::time::Duration::from_millis(300)));
            let result = result_message(hit, &json!({"content": [{"type": "text", "text": "done"}]}));
            script.push(ScriptStep::Write(chunk(&event(&result))));
            script.push(ScriptStep::Write(b"0\r\n\r\n".to_vec()));
            Some(script)
        }
        _ => None,
    })
    .await
}

/// Stateless server that responds `input_required`.
async fn server_that_requires_input(method: &'static str, params: Value) -> FakeUpstream {
    FakeUpstream::start(json!([]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" if hit.message()["params"]["inputResponses"].is_null() => {
            let input_requests = json!({"key": {"method": method, "params": params}});
            result_response(
                hit,
                &json!({"resultType": "input_required", "inputRequests": input_requests, "requestState": "s"}),
            )
        }
        "tools/call" => {
            result_response(hit, &json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}))
        }
        _ => stateless_response(hit, &json!([tool_definition("ask")]), &json!({"tools": {}})),
    })
    .await
}

async fn capability_refusals(gw: &TestGateway) -> Vec<String> {
    let rows = gw.rows().await.into_iter();
    let messages = rows.filter_map(|row| row.record.message).map(|message| message.to_string());
    messages.filter(|why| why.contains("not declared")).collect()
}

#[tokio::test]
async fn stateful_server_request_without_the_capability_is_refused() {
    for (method, params, required) in server_requests() {
        let upstream = server_that_requests_in_a_stream(method, params).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize_with(json!({})).await;
        let response = gw.call("ask", json!({})).await;
        assert_eq!(response.text(), "done");
        assert!(!response.body.contains(method), "the client gets no server request: {}", response.body);
        let error = || upstream.requests().into_iter().map(|hit| hit.message()).find(|message| message["id"] == "q");
        wait_until("the server gets an error", || error().is_some()).await;
        assert_eq!(error().expect("an answer")["error"]["code"], -32601);
        assert_eq!(capability_refusals(&gw).await.len(), 1, "{method}: the refusal is recorded");

        let stateless = StatelessTestClient::new(&gw)
            .request_with_capabilities("tools/call", json!({"name": "ask", "arguments": {}}), &json!({}))
            .await;
        assert_eq!(stateless.text(), "done", "also without a session: {}", stateless.body);

        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize_with(required).await;
        assert!(gw.call("ask", json!({})).await.body.contains(method), "a client with the capability gets the request");
    }
}

#[tokio::test]
async fn stateless_server_request_without_the_capability_is_refused() {
    for (method, params, required) in server_requests() {
        let upstream = server_that_requires_input(method, params).await;
        let gw = TestGateway::builder()
            .policy(ALLOW_ALL)
            .with_server("zoo", &upstream.url(), ALLOW_ALL)
            .start(&upstream)
            .await;
        for (client, name) in
            [(StatelessTestClient::new(&gw), "ask"), (StatelessTestClient::new(&gw).at_aggregate(), "zoo__ask")]
        {
            let call = json!({"name": name, "arguments": {}});
            let refused = client.request_with_capabilities("tools/call", call.clone(), &json!({})).await;
            assert_eq!((refused.status, refused.code()), (400, -32021), "{}", refused.body);
            assert_eq!(refused.message()["error"]["data"], json!({"requiredCapabilities": required}));
            let suspended = client.request_with_capabilities("tools/call", call, &required).await;
            assert_eq!(suspended.message()["result"]["resultType"], "input_required", "{}", suspended.body);
        }
        assert_eq!(capability_refusals(&gw).await.len(), 2, "the refusals are recorded");
        gw.initialize_with(json!({})).await;
        let text = gw.call("ask", json!({})).await.text();
        assert!(text.contains("asked the client for input that it has not declared"), "{text}");
    }
}

/// Server whose tool always creates a task, requested or not.
fn task_server(hit: &RecordedRequest, is_stateless: bool) -> Option<ResponseScript> {
    let task = json!({"taskId": "t1", "status": "working", "createdAt": "2026-11-15T12:00:00Z",
        "lastUpdatedAt": "2026-11-15T12:00:00Z", "ttl": 60000, "ttlMs": 60000, "resultType": "task"});
    match hit.method().as_str() {
        "tools/call" if is_stateless => result_response(hit, &task),
        "tools/call" => result_response(hit, &json!({"task": task})),
        "tasks/cancel" => result_response(hit, &json!({"resultType": "complete"})),
        _ if is_stateless => stateless_response(
            hit,
            &json!([tool_definition("slow")]),
            &json!({"tools": {}, "extensions": {TASKS_EXTENSION: {}}}),
        ),
        _ => None,
    }
}

fn cancellations(upstream: &FakeUpstream) -> usize {
    let hits = upstream.requests();
    hits.iter().filter(|hit| hit.method() == "tasks/cancel" && hit.message()["params"]["taskId"] == "t1").count()
}

#[tokio::test]
async fn unrequested_task_is_refused_and_cancelled() {
    let call = || json!({"name": "slow", "arguments": {}});
    for is_stateless in [false, true] {
        let upstream = FakeUpstream::start(json!([tool_definition("slow")]), move |hit: &RecordedRequest| {
            task_server(hit, is_stateless)
        })
        .await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize().await;
        let text = gw.call("slow", json!({})).await.text();
        let not_translated = "tasks are not translated";
        let expected =
            if is_stateless { not_translated } else { "returned a task to a client that has not declared tasks" };
        assert!(text.contains(expected), "{is_stateless}: {text}");
        wait_until("the task is cancelled upstream", || cancellations(&upstream) == 1).await;
        let refused = StatelessTestClient::new(&gw).request_with_capabilities("tools/call", call(), &json!({})).await;
        if is_stateless {
            assert_eq!((refused.status, refused.code()), (400, -32021), "{}", refused.body);
        } else {
            assert!(refused.text().contains(not_translated), "{}", refused.body);
        }
        wait_until("the task is cancelled upstream", || cancellations(&upstream) == 2).await;
        assert_eq!(capability_refusals(&gw).await.len(), 1, "{is_stateless}");
        // A client that requests a task gets it.
        if is_stateless {
            let task = StatelessTestClient::new(&gw)
                .request_with_capabilities("tools/call", call(), &all_capabilities())
                .await
                .message();
            assert_eq!(task["result"]["taskId"], "t1", "{task}");
        } else {
            let mut with_task = call();
            with_task["task"] = json!({"ttl": 60000});
            let task = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": with_task})).await;
            assert_eq!(task.message()["result"]["task"]["taskId"], "t1", "{}", task.body);
        }
        assert_eq!(request_count(&upstream, "tasks/cancel"), 2, "{is_stateless}");
    }
}

#[tokio::test]
async fn task_cancellation_is_recorded_before_it_is_sent() {
    for is_stateless in [false, true] {
        let release = Arc::new(Notify::new());
        let gate = Arc::clone(&release);
        let upstream = FakeUpstream::start(json!([tool_definition("slow")]), move |hit: &RecordedRequest| {
            let script = task_server(hit, is_stateless)?;
            let waits = (hit.method() == "tasks/cancel").then(|| ScriptStep::WaitFor(Arc::clone(&gate)));
            Some(waits.into_iter().chain(script).collect())
        })
        .await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        StatelessTestClient::new(&gw)
            .request_with_capabilities("tools/call", json!({"name": "slow", "arguments": {}}), &json!({}))
            .await;
        wait_until("the task is cancelled upstream", || cancellations(&upstream) == 1).await;
        let outcome_count = |rows: Vec<CallLogRow>| {
            let intent = rows.iter().find(|row| row.record.method.as_deref() == Some("tasks/cancel"))?;
            assert_eq!((intent.record.kind, intent.record.target.as_deref()), (RecordKind::Intent, Some("t1")));
            let call = intent.record.call;
            Some(rows.iter().filter(|row| row.record.call == call && row.record.kind == RecordKind::Outcome).count())
        };
        assert_eq!(
            outcome_count(gw.rows().await),
            Some(0),
            "{is_stateless}: the intent is recorded, the outcome is not"
        );
        release.notify_one();
        wait_until_async("the outcome is recorded", async || outcome_count(gw.rows().await) == Some(1)).await;
    }
}

#[tokio::test]
async fn tasks_are_not_declared_across_protocol_generations() {
    let capabilities =
        json!({"tools": {}, "tasks": {"list": {}}, "extensions": {TASKS_EXTENSION: {}, "a/b": {"n": 1}}});
    let shared = json!({"a/b": {"n": 1}});
    let assert_shared = |capabilities: &Value, label: &str| {
        assert_eq!((&capabilities["extensions"], &capabilities["tasks"]), (&shared, &Value::Null), "{label}");
    };
    for is_stateless in [false, true] {
        let declared = capabilities.clone();
        let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| match hit.method().as_str() {
            "tools/call" => None,
            _ if is_stateless => stateless_response(hit, &json!([tool_definition("read")]), &declared),
            "initialize" => result_response(
                hit,
                &json!({"protocolVersion": "2025-11-25", "capabilities": declared, "serverInfo": {"name": "s", "version": "1"}}),
            ),
            _ => None,
        })
        .await;
        let single = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        let aggregate = TestGateway::builder().policy(ALLOW_ALL).at_aggregate().start(&upstream).await;
        for (gw, name) in [(single, "read"), (aggregate, "desk__read")] {
            let before = upstream.requests().len();
            let client = if name == "read" {
                StatelessTestClient::new(&gw)
            } else {
                StatelessTestClient::new(&gw).at_aggregate()
            };
            let reply = if is_stateless {
                let initialized = gw.initialize_with(capabilities.clone()).await.message();
                gw.call(name, json!({})).await;
                initialized
            } else {
                client
                    .request_with_capabilities("tools/call", json!({"name": name, "arguments": {}}), &capabilities)
                    .await;
                client.request_with_capabilities("server/discover", json!({}), &capabilities).await.message()
            };
            assert_shared(&reply["result"]["capabilities"], &format!("the client of {name}: {reply}"));
            let hits = upstream.requests().split_off(before);
            let method = if is_stateless { "tools/call" } else { "initialize" };
            let sent = hits.iter().find(|hit| hit.method() == method).expect("a request").message();
            let params = &sent["params"];
            let declared = if is_stateless {
                &params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            } else {
                &params["capabilities"]
            };
            assert_shared(declared, &format!("the server of {name}: {sent}"));
        }
    }
}

#[tokio::test]
async fn task_member_is_unchanged_where_the_revision_has_no_tasks() {
    let upstream = FakeUpstream::start(json!([tool_definition("old")]), |hit: &RecordedRequest| match hit.method().as_str() {
        "initialize" => {
            let revision = hit.message()["params"]["protocolVersion"].clone();
            result_response(
                hit,
                &json!({"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}),
            )
        }
        "tools/call" | "vendor/plan" => result_response(hit, &json!({"task": {"taskId": "t1"}, "content": []})),
        _ => None,
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let plan = json!({"jsonrpc": "2.0", "id": 1, "method": "vendor/plan", "params": {}});
    let response = gw.send(&plan).await;
    assert_eq!(response.message()["result"]["task"]["taskId"], "t1", "{}", response.body);

    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}});
    let session = gw.post(&[], &initialize.to_string()).await.header("mcp-session-id").expect("a session").to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "old", "arguments": {}}});
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-06-18")];
    let response = gw.post(&headers, &call.to_string()).await;
    assert_eq!(response.message()["result"]["task"]["taskId"], "t1", "{}", response.body);
    assert_eq!(cancellations(&upstream), 0);
}

#[tokio::test]
async fn task_result_with_escaped_names_is_detected() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        let result = r#"{"resultType":"t\u0061sk","t\u0061skId":"t1","status":"working"}"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, hit.message()["id"]);
        match hit.method().as_str() {
            "tools/call" => Some(gatelodge_testkit::json_response("200 OK", "", &body)),
            _ => task_server(hit, true),
        }
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let refused = StatelessTestClient::new(&gw)
        .request_with_capabilities("tools/call", json!({"name": "slow", "arguments": {}}), &json!({}))
        .await;
    assert_eq!((refused.status, refused.code()), (400, -32021), "{}", refused.body);
}
