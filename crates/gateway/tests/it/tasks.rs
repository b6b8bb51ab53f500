//! Tasks in both protocol generations: they belong to the grant that created them, and follow the rule of their tool.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use gatelodge_store::{CallOutcome, GrantToken, RecordKind};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, TestResponse, event_response, json_response,
    tool_definition,
};
use serde_json::{Value, json};

use super::support::{STATELESS_REVISION, TASKS_EXTENSION, activate_policy, request_count};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"slow":{
    "limits":[{"counter":"c","window":"day","max":2}],
    "require":[{"conditions":[{"path":"args.n","op":"lte","value":5}]}]},"ask":{}}}"#;
const DENIED: &str = r#"{"version":"1","default":"deny","tools":{"slow":{"action":"deny","reason":"No more."}}}"#;
const HIDDEN: &str = r#"{"version":"1","default":"deny","tools":{"ask":{}}}"#;

fn respond(hit: &RecordedRequest, result: Value) -> Option<ResponseScript> {
    let id = &hit.message()["id"];
    Some(json_response("200 OK", "", &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()))
}

fn task(id: &str) -> Value {
    json!({"taskId": id, "status": "working", "ttl": 60000, "pollInterval": 10, "x": 1.10})
}

/// Stateful server with tasks, which also knows tasks that were not created by these tests.
fn stateful_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let params = hit.message()["params"].clone();
    let event = |message: Value| format!("data: {message}\n\n");
    match hit.method().as_str() {
        "initialize" => {
            let body = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {
                "protocolVersion": params["protocolVersion"], "serverInfo": {"name": "t", "version": "1"},
                "capabilities": {"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}}});
            Some(json_response("200 OK", "mcp-session-id: s\r\n", &body.to_string()))
        }
        "tools/call" if hit.tool() == "ask" => {
            let server_request = |id: u8, method: &str, params: Value| {
                event(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            };
            let result = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": []}});
            let server_requests = [
                server_request(1, "sampling/createMessage", json!({"task": {"ttl": 1000}})),
                server_request(2, "tasks/get", json!({"taskId": params["arguments"]["about"]})),
                event(result),
            ];
            Some(event_response(&server_requests.concat()))
        }
        "tools/call" if params["task"].is_object() => {
            let id = params["arguments"]["id"].as_str().unwrap_or("t1").to_owned();
            respond(hit, json!({"task": task(&id), "_meta": {"k": 1}}))
        }
        "tasks/get" | "tasks/cancel" => respond(hit, task(params["taskId"].as_str().unwrap_or_default())),
        "tasks/list" if params["cursor"].is_null() => {
            respond(hit, json!({"tasks": [task("t1"), task("theirs")], "nextCursor": "2", "_meta": {"p": 1}}))
        }
        "tasks/list" => respond(hit, json!({"tasks": [task("t2"), task("unowned")]})),
        "tasks/result" => {
            let token = json!(hit.message()["params"]["_meta"]["token"]);
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}});
            let status = |id: &str| {
                event(
                    json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {"taskId": id, "status": "working"}}),
                )
            };
            let related = json!({"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}});
            let done =
                json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": [], "_meta": related}});
            Some(event_response(&[event(progress), status("t1"), status("theirs"), event(done)].concat()))
        }
        _ => None,
    }
}

async fn setup_stateful() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([tool_definition("slow"), tool_definition("ask")]), stateful_server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

fn create_task(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params":
        {"name": "slow", "arguments": {"n": 1, "id": id}, "task": {"ttl": 60000}, "_meta": {"progressToken": "mine"}}})
}

fn task_request(method: &str, task: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 6, "method": method, "params": {"taskId": task}})
}

/// The grant `other` with a session of its own.
struct OtherGrant<'a> {
    gw: &'a TestGateway,
    token: GrantToken,
    session: String,
}

impl<'a> OtherGrant<'a> {
    async fn open(gw: &'a TestGateway) -> Self {
        let token = gw.add_grant("other", POLICY);
        let mut other = Self { gw, token, session: String::new() };
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
        other.session = other.send(&initialize).await.header("mcp-session-id").expect("a session").to_owned();
        other
    }

    async fn send(&self, message: &Value) -> TestResponse {
        let bearer = format!("Bearer {}", self.token.reveal());
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Mcp-Session-Id", &self.session),
        ];
        self.gw.send_raw("POST", "/mcp/desk", &headers, message.to_string().as_bytes()).await
    }
}

#[tokio::test]
async fn task_is_created_read_and_cancelled_unchanged() {
    let (upstream, gw) = setup_stateful().await;
    let created = gw.send(&create_task("t1")).await.message();
    assert_eq!(created["result"], json!({"task": task("t1"), "_meta": {"k": 1}}));
    assert_eq!(upstream.calls()[0].message()["params"]["task"], json!({"ttl": 60000}));
    for method in ["tasks/get", "tasks/cancel"] {
        let response = gw.send(&task_request(method, "t1")).await;
        assert_eq!((response.status, &response.message()["result"]), (200, &task("t1")), "{}", response.body);
        assert_eq!(request_count(&upstream, method), 1);
    }
    let rows = gw.rows().await;
    let intent = rows.iter().find(|row| row.record.method.as_deref() == Some("tasks/cancel")).expect("a row");
    let record = &intent.record;
    assert_eq!((record.kind, record.target.as_deref()), (RecordKind::Intent, Some("slow")));
    assert_eq!(record.rule.as_deref(), Some("/tools/slow"), "the rule of the call that created the task");
    let outcome = rows.last().expect("a row");
    assert_eq!((outcome.record.call, outcome.record.outcome), (record.call, Some(CallOutcome::Ok)));
}

#[tokio::test]
async fn task_result_stream_carries_only_messages_of_that_task() {
    let (upstream, gw) = setup_stateful().await;
    gw.send(&create_task("t1")).await;
    let token = upstream.calls()[0].message()["params"]["_meta"]["progressToken"].clone();
    let mut request = task_request("tasks/result", "t1");
    request["params"]["_meta"] = json!({"token": token});
    let response = gw.send(&request).await;
    let messages = response.messages();
    assert_eq!(messages.len(), 3, "{}", response.body);
    assert_eq!(messages[0]["params"]["progressToken"], "mine", "the token of the call that created the task");
    assert_eq!(
        (&messages[1]["method"], &messages[1]["params"]["taskId"]),
        (&json!("notifications/tasks/status"), &json!("t1"))
    );
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t1"}});
    assert_eq!(messages[2]["result"]["_meta"], related);
}

#[tokio::test]
async fn task_of_another_grant_looks_unknown() {
    let (upstream, gw) = setup_stateful().await;
    gw.send(&create_task("t1")).await;
    let other = OtherGrant::open(&gw).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let foreign = other.send(&task_request(method, "t1")).await;
        let unknown = other.send(&task_request(method, "t0")).await;
        assert_eq!((foreign.status, foreign.code()), (200, -32602), "{}", foreign.body);
        assert_eq!(foreign.body.replace("t1", "t0"), unknown.body, "byte for byte");
        assert_eq!(request_count(&upstream, method), 0, "no request is sent upstream");
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!(
            (row.kind, row.target.as_deref(), row.label.as_deref()),
            (RecordKind::Refused, Some("t0"), Some("other"))
        );
    }
    let response = gw.send(&task_request("tasks/get", "t1")).await;
    assert_eq!(response.message()["result"], task("t1"), "the owner still has access");
    other.send(&create_task("t1")).await;
    assert_eq!(other.send(&task_request("tasks/get", "t1")).await.code(), -32602, "the first owner keeps the task");
    assert_eq!(gw.send(&task_request("tasks/get", "t1")).await.message()["result"], task("t1"));
}

#[tokio::test]
async fn task_list_has_only_the_tasks_of_the_grant_from_all_pages() {
    let (_, gw) = setup_stateful().await;
    let other = OtherGrant::open(&gw).await;
    for (id, is_own) in [("t1", true), ("theirs", false), ("t2", true)] {
        let created = if is_own { gw.send(&create_task(id)).await } else { other.send(&create_task(id)).await };
        assert_eq!(created.message()["result"]["task"]["taskId"], id);
    }
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tasks/list"});
    let result = gw.send(&list).await.message()["result"].clone();
    assert_eq!(result, json!({"tasks": [task("t1"), task("t2")], "_meta": {"p": 1}}));
    assert_eq!(other.send(&list).await.message()["result"]["tasks"], json!([task("theirs")]));
    activate_policy(&gw, DENIED);
    assert_eq!(gw.send(&list).await.message()["result"]["tasks"], json!([]), "tasks of a denied tool are not listed");
}

#[tokio::test]
async fn task_request_is_evaluated_by_the_active_rule_of_its_tool_and_not_counted() {
    let (upstream, gw) = setup_stateful().await;
    gw.send(&create_task("t1")).await;
    for _ in 0..5 {
        assert_eq!(
            gw.send(&task_request("tasks/get", "t1")).await.message()["result"],
            task("t1"),
            "reading a task is not counted against the limit of two"
        );
    }
    activate_policy(&gw, DENIED);
    let denied = gw.send(&task_request("tasks/get", "t1")).await;
    assert_eq!(denied.code(), -31000, "{}", denied.body);
    assert!(denied.body.contains("No more."), "{}", denied.body);
    activate_policy(&gw, HIDDEN);
    let hidden = gw.send(&task_request("tasks/get", "t1")).await;
    let unknown = gw.send(&task_request("tasks/get", "t0")).await;
    assert_eq!((hidden.code(), hidden.body.replace("t1", "t0")), (-32602, unknown.body));
    assert_eq!(request_count(&upstream, "tasks/get"), 5);
    activate_policy(&gw, POLICY);
    assert!(!gw.send(&create_task("t2")).await.body.contains("isError"), "the second call of the day is allowed");
    assert!(gw.send(&create_task("t3")).await.body.contains("limit `c`"), "the third call of the day is refused");
}

#[tokio::test]
async fn task_ownership_survives_a_restart_and_expires() {
    let (_, mut gw) = setup_stateful().await;
    gw.send(&create_task("t1")).await;
    gw.restart().await;
    assert_eq!(gw.send(&task_request("tasks/get", "t1")).await.message()["result"], task("t1"));
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tasks/list"});
    gw.restart().await;
    assert_eq!(gw.send(&list).await.message()["result"]["tasks"], json!([task("t1")]));
    gw.clock.advance(Duration::from_secs(25 * 3_600));
    gw.initialize().await;
    assert_eq!(gw.send(&task_request("tasks/get", "t1")).await.code(), -32602);
}

#[tokio::test]
async fn server_may_read_a_client_task_under_the_rule_of_the_original_request() {
    let policy = |sampling: &str| {
        format!(
            r#"{{"version":"1","default":"deny","tools":{{"ask":{{}}}},"client_requests":{{"sampling":"{sampling}"}}}}"#
        )
    };
    let upstream = FakeUpstream::start(json!([tool_definition("ask")]), stateful_server).await;
    let gw = TestGateway::with_policy(&policy("allow"), &upstream).await;
    let server_requests = async |about: &str| -> Vec<Value> {
        let messages = gw.call("ask", json!({"about": about})).await.messages();
        messages.into_iter().filter(|message| message["method"].is_string()).collect()
    };
    let first = server_requests("c1").await;
    assert_eq!(first.len(), 1, "the request about an unknown task is not forwarded: {first:?}");
    assert_eq!(first[0]["params"]["task"], json!({"ttl": 1000}));
    let created = json!({"jsonrpc": "2.0", "id": first[0]["id"], "result": {"task": task("c1")}});
    assert_eq!(gw.send(&created).await.status, 202);
    let second = server_requests("c1").await;
    assert_eq!(second.len(), 2, "{second:?}");
    assert_eq!((&second[1]["method"], &second[1]["params"]["taskId"]), (&json!("tasks/get"), &json!("c1")));
    let task_response = json!({"jsonrpc": "2.0", "id": second[1]["id"], "result": task("c1")});
    assert_eq!(gw.send(&task_response).await.status, 202);
    let forwarded = upstream.requests().pop().expect("an answer").message();
    assert_eq!((&forwarded["id"], &forwarded["result"]), (&json!(2), &task("c1")));
    assert_eq!(server_requests("c2").await.len(), 1, "another task is unknown");
    activate_policy(&gw, &policy("deny"));
    assert_eq!(server_requests("c1").await.len(), 0, "no request is forwarded once the policy denies it");
}

#[tokio::test]
async fn task_methods_are_unknown_at_a_server_without_tasks() {
    let upstream = FakeUpstream::with_tools(&["slow"]).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"] {
        assert_eq!(gw.send(&task_request(method, "t1")).await.code(), -32601, "{method}");
        assert_eq!(request_count(&upstream, method), 0);
    }
    let (_, gw) = setup_stateful().await;
    assert_eq!(
        gw.send(&task_request("tasks/update", "t1")).await.code(),
        -32601,
        "the revision does not have this method"
    );
    let without_task_id = json!({"jsonrpc": "2.0", "id": 6, "method": "tasks/get", "params": {}});
    assert_eq!(gw.send(&without_task_id).await.code(), -32602);
}

#[tokio::test]
async fn observing_grant_may_read_unowned_tasks_but_not_those_of_others() {
    let upstream = FakeUpstream::start(json!([tool_definition("slow")]), stateful_server).await;
    let gw = TestGateway::builder().policy(HIDDEN).observe_only().start(&upstream).await;
    let other = OtherGrant::open(&gw).await;
    other.send(&create_task("theirs")).await;
    assert_eq!(gw.send(&task_request("tasks/get", "theirs")).await.code(), -32602);
    assert_eq!(gw.send(&task_request("tasks/get", "old")).await.message()["result"], task("old"));
    let row = gw.rows().await.into_iter().rev().find(|row| row.record.kind == RecordKind::Intent).expect("a row");
    assert!(row.record.observed);
}

/// A stateless server with tasks.
fn stateless_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let params = hit.message()["params"].clone();
    let created = |id: &str| json!({"resultType": "task", "taskId": id, "status": "working", "ttlMs": null});
    match hit.method().as_str() {
        "server/discover" => respond(
            hit,
            json!({"resultType": "complete", "supportedVersions": [STATELESS_REVISION], "capabilities": {"tools": {}, "extensions": {TASKS_EXTENSION: {}}}}),
        ),
        "tools/list" => respond(hit, json!({"resultType": "complete", "tools": [tool_definition("slow")]})),
        "tools/call" => respond(hit, created("t1")),
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            respond(hit, json!({"resultType": "complete", "taskId": params["taskId"]}))
        }
        "subscriptions/listen" => {
            let id = hit.message()["id"].clone();
            let notification = |task: &str| {
                let params = json!({"taskId": task, "_meta": {"io.modelcontextprotocol/subscriptionId": id}});
                format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}))
            };
            let end = json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}});
            let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
            let params = json!({"notifications": params["notifications"], "_meta": meta});
            let first =
                json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
            Some(event_response(&format!(
                "data: {first}\n\n{}{}data: {end}\n\n",
                notification("t1"),
                notification("theirs")
            )))
        }
        _ => None,
    }
}

async fn setup_stateless() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([]), stateless_server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

/// Sends a stateless request with a token and an `Mcp-Name` header.
async fn send(gw: &TestGateway, token: &GrantToken, method: &str, name: Option<&str>, params: Value) -> TestResponse {
    let capabilities = json!({"extensions": {TASKS_EXTENSION: {}}});
    send_with(gw, token, method, name, params, capabilities).await
}

async fn send_with(
    gw: &TestGateway,
    token: &GrantToken,
    method: &str,
    name: Option<&str>,
    mut params: Value,
    capabilities: Value,
) -> TestResponse {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": STATELESS_REVISION,
        "io.modelcontextprotocol/clientCapabilities": capabilities});
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string();
    let bearer = format!("Bearer {}", token.reveal());
    let mut headers = vec![
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", STATELESS_REVISION),
        ("Mcp-Method", method),
    ];
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    gw.send_raw("POST", "/mcp/desk", &headers, body.as_bytes()).await
}

#[tokio::test]
async fn stateless_task_id_is_in_the_name_header_on_both_legs() {
    let (upstream, gw) = setup_stateless().await;
    let call = json!({"name": "slow", "arguments": {"n": 1}});
    let created = send(&gw, &gw.token, "tools/call", Some("slow"), call).await;
    assert_eq!(created.message()["result"]["resultType"], "task", "{}", created.body);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": "t1", "inputResponses": {}});
        let response = send(&gw, &gw.token, method, Some("t1"), params.clone()).await;
        assert_eq!(response.message()["result"]["taskId"], "t1", "{}", response.body);
        let hit = upstream.requests().pop().expect("a request");
        assert_eq!((hit.header("mcp-method"), hit.header("mcp-name")), (Some(method), Some("t1")));
        for name in [Some("t2"), None] {
            let response = send(&gw, &gw.token, method, name, params.clone()).await;
            assert_eq!((response.status, response.code()), (400, -32020), "{method} {name:?}");
        }
        assert_eq!(request_count(&upstream, method), 1);
    }
    for method in ["tasks/result", "tasks/list"] {
        let response = send(&gw, &gw.token, method, None, json!({"taskId": "t1"})).await;
        assert_eq!((response.status, response.code()), (404, -32601), "the revision does not have this method");
    }
}

#[tokio::test]
async fn stateless_task_of_another_grant_is_unknown_and_cannot_be_subscribed() {
    let (upstream, gw) = setup_stateless().await;
    send(&gw, &gw.token, "tools/call", Some("slow"), json!({"name": "slow", "arguments": {"n": 1}})).await;
    let other = gw.add_grant("other", POLICY);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let foreign = send(&gw, &other, method, Some("t1"), json!({"taskId": "t1"})).await;
        let unknown = send(&gw, &other, method, Some("t0"), json!({"taskId": "t0"})).await;
        assert_eq!((foreign.status, foreign.code()), (200, -32602), "{}", foreign.body);
        assert_eq!(foreign.body.replace("t1", "t0"), unknown.body);
        assert_eq!(request_count(&upstream, method), 0);
    }
    let filter = |ids: Value| json!({"notifications": {"taskIds": ids}});
    for ids in [json!(["t1"]), json!([7])] {
        assert_eq!(send(&gw, &other, "subscriptions/listen", None, filter(ids)).await.code(), -32602);
    }
    assert_eq!(request_count(&upstream, "subscriptions/listen"), 0);
    let events = send(&gw, &gw.token, "subscriptions/listen", None, filter(json!(["t1"]))).await;
    assert!(events.body.contains("t1") && !events.body.contains("theirs"), "{}", events.body);
    let events = send(&gw, &other, "subscriptions/listen", None, json!({})).await;
    assert!(!events.body.contains("notifications/tasks"), "{}", events.body);
}

#[tokio::test]
async fn stateless_client_without_tasks_gets_the_required_capability() {
    let (upstream, gw) = setup_stateless().await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let response = send_with(&gw, &gw.token, method, Some("t1"), json!({"taskId": "t1"}), json!({})).await;
        assert_eq!((response.status, response.code()), (400, -32021), "{}", response.body);
        let expected = json!({"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}});
        assert_eq!(response.message()["error"]["data"], expected);
        assert_eq!(request_count(&upstream, method), 0);
    }
}
