//! Tasks in both eras: there for the grant whose call made them, under the rule of the tool that was called.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{DocumentFormat, parse};
use gatelodge_store::{CallOutcome, GrantId, GrantToken, PolicyVersion, RecordKind};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, TestResponse, event_response, json_response,
    tool_definition,
};
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"slow":{
    "limits":[{"counter":"c","window":"day","max":2}],
    "require":[{"conditions":[{"path":"args.n","op":"lte","value":5}]}]},"ask":{}}}"#;
const DENIED: &str = r#"{"version":"1","default":"deny","tools":{"slow":{"action":"deny","reason":"No more."}}}"#;
const HIDDEN: &str = r#"{"version":"1","default":"deny","tools":{"ask":{}}}"#;
const VERSION: &str = "2026-07-28";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn reply(hit: &RecordedRequest, result: Value) -> Option<ResponseScript> {
    let id = &hit.message()["id"];
    Some(json_response("200 OK", "", &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()))
}

fn task(id: &str) -> Value {
    json!({"taskId": id, "status": "working", "ttl": 60000, "pollInterval": 10, "x": 1.10})
}

/// A server of 2025-11-25 with tasks, which knows more of them than those it has just made.
fn legacy(hit: &RecordedRequest) -> Option<ResponseScript> {
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
            let ask = |id: u8, method: &str, params: Value| {
                event(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            };
            let answered = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": []}});
            let asked = [
                ask(1, "sampling/createMessage", json!({"task": {"ttl": 1000}})),
                ask(2, "tasks/get", json!({"taskId": params["arguments"]["about"]})),
                event(answered),
            ];
            Some(event_response(&asked.concat()))
        }
        "tools/call" if params["task"].is_object() => {
            let id = params["arguments"]["id"].as_str().unwrap_or("t1").to_owned();
            reply(hit, json!({"task": task(&id), "_meta": {"k": 1}}))
        }
        "tasks/get" | "tasks/cancel" => reply(hit, task(params["taskId"].as_str().unwrap_or_default())),
        "tasks/list" if params["cursor"].is_null() => {
            reply(hit, json!({"tasks": [task("t1"), task("theirs")], "nextCursor": "2", "_meta": {"p": 1}}))
        }
        "tasks/list" => reply(hit, json!({"tasks": [task("t2"), task("nobody's")]})),
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

async fn desk() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([tool_definition("slow"), tool_definition("ask")]), legacy).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

fn making(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params":
        {"name": "slow", "arguments": {"n": 1, "id": id}, "task": {"ttl": 60000}, "_meta": {"progressToken": "mine"}}})
}

fn asking(method: &str, task: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 6, "method": method, "params": {"taskId": task}})
}

/// Another grant with a session of its own: what it says is said by `other`.
struct Other<'a> {
    gw: &'a TestGateway,
    token: GrantToken,
    session: String,
}

impl<'a> Other<'a> {
    async fn of(gw: &'a TestGateway) -> Self {
        let token = gw.add_grant("other", POLICY);
        let mut other = Self { gw, token, session: String::new() };
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
        other.session = other.send(&hello).await.header("mcp-session-id").expect("a session").to_owned();
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

fn reached(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|hit| hit.method() == method).count()
}

fn put_in_force(gw: &TestGateway, policy: &str) {
    let policy = parse(policy.as_bytes(), DocumentFormat::Json).expect("a policy");
    let live = Arc::new(ActivePolicy { name: "books".parse().expect("a name"), version: PolicyVersion(2), policy });
    gw.change_grants(|grants| {
        let own = grants.iter_mut().find(|grant| grant.id == GrantId("ci".into())).expect("the grant");
        own.servers.values_mut().for_each(|door| door.policy = Some(Arc::clone(&live)));
    });
}

#[tokio::test]
async fn a_task_is_made_asked_for_and_cancelled_as_the_server_has_it() {
    let (upstream, gw) = desk().await;
    let made = gw.send(&making("t1")).await.message();
    assert_eq!(made["result"], json!({"task": task("t1"), "_meta": {"k": 1}}));
    assert_eq!(upstream.calls()[0].message()["params"]["task"], json!({"ttl": 60000}));
    for method in ["tasks/get", "tasks/cancel"] {
        let answer = gw.send(&asking(method, "t1")).await;
        assert_eq!((answer.status, &answer.message()["result"]), (200, &task("t1")), "{}", answer.body);
        assert_eq!(reached(&upstream, method), 1);
    }
    let rows = gw.rows().await;
    let intent = rows.iter().find(|row| row.record.method.as_deref() == Some("tasks/cancel")).expect("a row");
    let record = &intent.record;
    assert_eq!((record.kind, record.target.as_deref()), (RecordKind::Intent, Some("slow")));
    assert_eq!(record.rule.as_deref(), Some("/tools/slow"), "under the rule of the call that made it");
    let outcome = rows.last().expect("a row");
    assert_eq!((outcome.record.call, outcome.record.outcome), (record.call, Some(CallOutcome::Ok)));
}

#[tokio::test]
async fn a_result_brings_what_belongs_to_its_task_and_nothing_of_others() {
    let (upstream, gw) = desk().await;
    gw.send(&making("t1")).await;
    let token = upstream.calls()[0].message()["params"]["_meta"]["progressToken"].clone();
    let mut wanted = asking("tasks/result", "t1");
    wanted["params"]["_meta"] = json!({"token": token});
    let answer = gw.send(&wanted).await;
    let messages = answer.messages();
    assert_eq!(messages.len(), 3, "{}", answer.body);
    assert_eq!(messages[0]["params"]["progressToken"], "mine", "the token of the call that made it");
    assert_eq!(
        (&messages[1]["method"], &messages[1]["params"]["taskId"]),
        (&json!("notifications/tasks/status"), &json!("t1"))
    );
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t1"}});
    assert_eq!(messages[2]["result"]["_meta"], related);
}

#[tokio::test]
async fn row_49_a_task_of_another_grant_is_like_one_that_is_not_there() {
    let (upstream, gw) = desk().await;
    gw.send(&making("t1")).await;
    let other = Other::of(&gw).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let foreign = other.send(&asking(method, "t1")).await;
        let unknown = other.send(&asking(method, "t0")).await;
        assert_eq!((foreign.status, foreign.code()), (200, -32602), "{}", foreign.body);
        assert_eq!(foreign.body.replace("t1", "t0"), unknown.body, "byte for byte");
        assert_eq!(reached(&upstream, method), 0, "the server hears nothing of it");
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!(
            (row.kind, row.target.as_deref(), row.label.as_deref()),
            (RecordKind::Refused, Some("t0"), Some("other"))
        );
    }
    let answer = gw.send(&asking("tasks/get", "t1")).await;
    assert_eq!(answer.message()["result"], task("t1"), "its owner is not disturbed");
    other.send(&making("t1")).await;
    assert_eq!(other.send(&asking("tasks/get", "t1")).await.code(), -32602, "it stays with whom it belongs to");
    assert_eq!(gw.send(&asking("tasks/get", "t1")).await.message()["result"], task("t1"));
}

#[tokio::test]
async fn a_list_shows_only_the_grants_own_tasks_of_all_pages() {
    let (_, gw) = desk().await;
    let other = Other::of(&gw).await;
    for (id, is_own) in [("t1", true), ("theirs", false), ("t2", true)] {
        let made = if is_own { gw.send(&making(id)).await } else { other.send(&making(id)).await };
        assert_eq!(made.message()["result"]["task"]["taskId"], id);
    }
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tasks/list"});
    let result = gw.send(&list).await.message()["result"].clone();
    assert_eq!(result, json!({"tasks": [task("t1"), task("t2")], "_meta": {"p": 1}}));
    assert_eq!(other.send(&list).await.message()["result"]["tasks"], json!([task("theirs")]));
    put_in_force(&gw, DENIED);
    assert_eq!(gw.send(&list).await.message()["result"]["tasks"], json!([]), "nor what it may not ask for any more");
}

#[tokio::test]
async fn a_task_is_judged_by_the_rule_of_its_tool_as_the_policy_stands_now_and_takes_nothing_from_limits() {
    let (upstream, gw) = desk().await;
    gw.send(&making("t1")).await;
    for _ in 0..5 {
        assert_eq!(gw.send(&asking("tasks/get", "t1")).await.message()["result"], task("t1"), "two calls a day");
    }
    put_in_force(&gw, DENIED);
    let denied = gw.send(&asking("tasks/get", "t1")).await;
    assert_eq!(denied.code(), -31000, "{}", denied.body);
    assert!(denied.body.contains("No more."), "{}", denied.body);
    put_in_force(&gw, HIDDEN);
    let hidden = gw.send(&asking("tasks/get", "t1")).await;
    let unknown = gw.send(&asking("tasks/get", "t0")).await;
    assert_eq!((hidden.code(), hidden.body.replace("t1", "t0")), (-32602, unknown.body));
    assert_eq!(reached(&upstream, "tasks/get"), 5);
    put_in_force(&gw, POLICY);
    assert!(!gw.send(&making("t2")).await.body.contains("isError"), "the second call of the day");
    assert!(gw.send(&making("t3")).await.body.contains("limit `c`"), "and there is no third");
}

#[tokio::test]
async fn whose_a_task_is_survives_a_restart_and_ends_with_it() {
    let (_, mut gw) = desk().await;
    gw.send(&making("t1")).await;
    gw.restart().await;
    assert_eq!(gw.send(&asking("tasks/get", "t1")).await.message()["result"], task("t1"));
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tasks/list"});
    gw.restart().await;
    assert_eq!(gw.send(&list).await.message()["result"]["tasks"], json!([task("t1")]));
    gw.clock.advance(Duration::from_secs(25 * 3_600));
    gw.initialize().await;
    assert_eq!(gw.send(&asking("tasks/get", "t1")).await.code(), -32602);
}

#[tokio::test]
async fn a_server_asks_for_a_task_of_the_client_under_the_rule_of_what_it_asked_first() {
    let policy = |sampling: &str| {
        format!(
            r#"{{"version":"1","default":"deny","tools":{{"ask":{{}}}},"client_requests":{{"sampling":"{sampling}"}}}}"#
        )
    };
    let upstream = FakeUpstream::start(json!([tool_definition("ask")]), legacy).await;
    let gw = TestGateway::with_policy(&policy("allow"), &upstream).await;
    let asked = async |about: &str| -> Vec<Value> {
        let messages = gw.call("ask", json!({"about": about})).await.messages();
        messages.into_iter().filter(|message| message["method"].is_string()).collect()
    };
    let first = asked("c1").await;
    assert_eq!(first.len(), 1, "nobody knows of that task: {first:?}");
    assert_eq!(first[0]["params"]["task"], json!({"ttl": 1000}));
    let made = json!({"jsonrpc": "2.0", "id": first[0]["id"], "result": {"task": task("c1")}});
    assert_eq!(gw.send(&made).await.status, 202);
    let second = asked("c1").await;
    assert_eq!(second.len(), 2, "{second:?}");
    assert_eq!((&second[1]["method"], &second[1]["params"]["taskId"]), (&json!("tasks/get"), &json!("c1")));
    let told = json!({"jsonrpc": "2.0", "id": second[1]["id"], "result": task("c1")});
    assert_eq!(gw.send(&told).await.status, 202);
    let back = upstream.requests().pop().expect("an answer").message();
    assert_eq!((&back["id"], &back["result"]), (&json!(2), &task("c1")));
    assert_eq!(asked("c2").await.len(), 1, "another one is not there");
    put_in_force(&gw, &policy("deny"));
    assert_eq!(asked("c1").await.len(), 0, "nor is this, where the client may not be asked any more");
}

#[tokio::test]
async fn a_server_without_tasks_has_no_such_methods() {
    let upstream = FakeUpstream::with_tools(&["slow"]).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"] {
        assert_eq!(gw.send(&asking(method, "t1")).await.code(), -32601, "{method}");
        assert_eq!(reached(&upstream, method), 0);
    }
    let (_, gw) = desk().await;
    assert_eq!(gw.send(&asking("tasks/update", "t1")).await.code(), -32601, "the revision has none");
    let bare = json!({"jsonrpc": "2.0", "id": 6, "method": "tasks/get", "params": {}});
    assert_eq!(gw.send(&bare).await.code(), -32602);
}

#[tokio::test]
async fn who_only_observes_may_ask_for_what_was_made_past_us_but_not_for_what_belongs_to_others() {
    let upstream = FakeUpstream::start(json!([tool_definition("slow")]), legacy).await;
    let gw = TestGateway::builder().policy(HIDDEN).observe_only().start(&upstream).await;
    let other = Other::of(&gw).await;
    other.send(&making("theirs")).await;
    assert_eq!(gw.send(&asking("tasks/get", "theirs")).await.code(), -32602);
    assert_eq!(gw.send(&asking("tasks/get", "old")).await.message()["result"], task("old"));
    let row = gw.rows().await.into_iter().rev().find(|row| row.record.kind == RecordKind::Intent).expect("a row");
    assert!(row.record.observed);
}

/// A stateless server with tasks.
fn modern(hit: &RecordedRequest) -> Option<ResponseScript> {
    let params = hit.message()["params"].clone();
    let made = |id: &str| json!({"resultType": "task", "taskId": id, "status": "working", "ttlMs": null});
    match hit.method().as_str() {
        "server/discover" => reply(
            hit,
            json!({"resultType": "complete", "supportedVersions": [VERSION], "capabilities": {"tools": {}, "extensions": {EXTENSION: {}}}}),
        ),
        "tools/list" => reply(hit, json!({"resultType": "complete", "tools": [tool_definition("slow")]})),
        "tools/call" => reply(hit, made("t1")),
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            reply(hit, json!({"resultType": "complete", "taskId": params["taskId"]}))
        }
        "subscriptions/listen" => {
            let id = hit.message()["id"].clone();
            let told = |task: &str| {
                let params = json!({"taskId": task, "_meta": {"io.modelcontextprotocol/subscriptionId": id}});
                format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}))
            };
            let end = json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}});
            let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
            let params = json!({"notifications": params["notifications"], "_meta": meta});
            let first =
                json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
            Some(event_response(&format!("data: {first}\n\n{}{}data: {end}\n\n", told("t1"), told("theirs"))))
        }
        _ => None,
    }
}

async fn modern_desk() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([]), modern).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

/// Sends a stateless request with a token and a name in the head.
async fn send(gw: &TestGateway, token: &GrantToken, method: &str, name: Option<&str>, params: Value) -> TestResponse {
    let capabilities = json!({"extensions": {EXTENSION: {}}});
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
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": capabilities});
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string();
    let bearer = format!("Bearer {}", token.reveal());
    let mut headers = vec![
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", VERSION),
        ("Mcp-Method", method),
    ];
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    gw.send_raw("POST", "/mcp/desk", &headers, body.as_bytes()).await
}

#[tokio::test]
async fn a_stateless_task_has_its_id_in_the_head_on_both_sides() {
    let (upstream, gw) = modern_desk().await;
    let call = json!({"name": "slow", "arguments": {"n": 1}});
    let made = send(&gw, &gw.token, "tools/call", Some("slow"), call).await;
    assert_eq!(made.message()["result"]["resultType"], "task", "{}", made.body);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": "t1", "inputResponses": {}});
        let answer = send(&gw, &gw.token, method, Some("t1"), params.clone()).await;
        assert_eq!(answer.message()["result"]["taskId"], "t1", "{}", answer.body);
        let hit = upstream.requests().pop().expect("a request");
        assert_eq!((hit.header("mcp-method"), hit.header("mcp-name")), (Some(method), Some("t1")));
        for name in [Some("t2"), None] {
            let answer = send(&gw, &gw.token, method, name, params.clone()).await;
            assert_eq!((answer.status, answer.code()), (400, -32020), "{method} {name:?}");
        }
        assert_eq!(reached(&upstream, method), 1);
    }
    for method in ["tasks/result", "tasks/list"] {
        let answer = send(&gw, &gw.token, method, None, json!({"taskId": "t1"})).await;
        assert_eq!((answer.status, answer.code()), (404, -32601), "the revision has none");
    }
}

#[tokio::test]
async fn a_stateless_task_of_another_grant_is_not_there_nor_can_it_be_listened_to() {
    let (upstream, gw) = modern_desk().await;
    send(&gw, &gw.token, "tools/call", Some("slow"), json!({"name": "slow", "arguments": {"n": 1}})).await;
    let other = gw.add_grant("other", POLICY);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let foreign = send(&gw, &other, method, Some("t1"), json!({"taskId": "t1"})).await;
        let unknown = send(&gw, &other, method, Some("t0"), json!({"taskId": "t0"})).await;
        assert_eq!((foreign.status, foreign.code()), (200, -32602), "{}", foreign.body);
        assert_eq!(foreign.body.replace("t1", "t0"), unknown.body);
        assert_eq!(reached(&upstream, method), 0);
    }
    let filter = |ids: Value| json!({"notifications": {"taskIds": ids}});
    for ids in [json!(["t1"]), json!([7])] {
        assert_eq!(send(&gw, &other, "subscriptions/listen", None, filter(ids)).await.code(), -32602);
    }
    assert_eq!(reached(&upstream, "subscriptions/listen"), 0);
    let heard = send(&gw, &gw.token, "subscriptions/listen", None, filter(json!(["t1"]))).await;
    assert!(heard.body.contains("t1") && !heard.body.contains("theirs"), "{}", heard.body);
    let heard = send(&gw, &other, "subscriptions/listen", None, json!({})).await;
    assert!(!heard.body.contains("notifications/tasks"), "{}", heard.body);
}

#[tokio::test]
async fn a_stateless_client_that_does_not_know_tasks_is_told_what_it_lacks() {
    let (upstream, gw) = modern_desk().await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = send_with(&gw, &gw.token, method, Some("t1"), json!({"taskId": "t1"}), json!({})).await;
        assert_eq!((answer.status, answer.code()), (400, -32021), "{}", answer.body);
        let lacks = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
        assert_eq!(answer.message()["error"]["data"], lacks);
        assert_eq!(reached(&upstream, method), 0);
    }
}
