//! Rules that also apply at the aggregate endpoint `/mcp`: minimum revision, stream resumption, task ownership, name
//! lengths, and in-flight limits.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_mcp::Revision;
use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, event_response, json_response,
    tool_definition,
};
use serde_json::{Value, json};

use super::support::{
    ALLOW_ALL, CapturedLog, StatelessTestClient, TASKS_EXTENSION, event, read_for, read_until, request_count,
    result_message, result_response, start_in_session, stateless_response, timed_stream, wait_until,
};

fn call(tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

/// Stateful server with tasks. Its tool `talk` sends a notification 400 ms before its result; `slow` takes 900 ms.
fn stateful_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let task = json!({"taskId": "t1", "status": "working", "ttl": 60000});
    match hit.method().as_str() {
        "initialize" => {
            let capabilities =
                json!({"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}});
            let result = json!({"protocolVersion": hit.message()["params"]["protocolVersion"], "capabilities": capabilities,
                "serverInfo": {"name": "old", "version": "1"}});
            Some(json_response("200 OK", "mcp-session-id: s\r\n", &result_message(hit, &result).to_string()))
        }
        "tools/call" if hit.tool() == "talk" => {
            let log_event = event(
                &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "one"}}),
            );
            let result = event(&result_message(hit, &json!({"content": [{"type": "text", "text": "talked"}]})));
            Some(timed_stream(&[(&log_event, Duration::ZERO), (&result, Duration::from_millis(400))]))
        }
        "tools/call" if hit.tool() == "slow" => {
            let mut script = vec![ScriptStep::Pause(Duration::from_millis(900))];
            script.extend(result_response(hit, &json!({"content": [{"type": "text", "text": "slept"}]}))?);
            Some(script)
        }
        "tools/call" if hit.message()["params"]["task"].is_object() => result_response(hit, &json!({"task": task})),
        "tasks/get" | "tasks/cancel" | "tasks/result" => result_response(hit, &task),
        _ => None,
    }
}

async fn setup(settings: GatewaySettings) -> (FakeUpstream, FakeUpstream, TestGateway) {
    let tools = json!([tool_definition("talk"), tool_definition("slow"), tool_definition("read")]);
    let upstream = FakeUpstream::start(tools.clone(), stateful_server).await;
    let zoo = FakeUpstream::start(tools, stateful_server).await;
    let builder = TestGateway::builder().policy(ALLOW_ALL).settings(settings).at_aggregate();
    let gw = builder.with_server("zoo", &zoo.url(), ALLOW_ALL).start(&upstream).await;
    (upstream, zoo, gw)
}

fn handshake(revision: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": revision,
        "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}})
    .to_string()
}

#[tokio::test]
async fn minimum_revision_applies_at_the_aggregate_endpoint() {
    let (upstream, zoo, gw) = setup(GatewaySettings::default()).await;
    let opened = gw.post(&[], &handshake("2025-06-18")).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    assert_eq!(gw.post(&[("Mcp-Session-Id", &session)], &list).await.status, 200);
    let requests_before = (upstream.requests().len(), zoo.requests().len());

    gw.change_grants(|grants| grants[0].minimum_revision = Some(Revision::R2025_11_25));
    let refused = gw.post(&[], &handshake("2025-06-18")).await;
    assert_eq!((refused.status, refused.code(), refused.header("mcp-session-id")), (200, -32602, None));
    let error = refused.message()["error"].clone();
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|message| message.contains("requires protocol revision 2025-11-25 or newer"))
    );
    assert_eq!(error["data"]["supported"], json!(["2026-07-28", "2025-11-25"]));
    let expired = gw.post(&[("Mcp-Session-Id", &session)], &list).await;
    assert_eq!(expired.status, 404, "the client has to initialize again: {}", expired.body);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Accept", "text/event-stream"), ("Mcp-Session-Id", &session)];
    assert_eq!(gw.send_raw("GET", "/mcp", &headers, b"").await.status, 404);
    assert_eq!((upstream.requests().len(), zoo.requests().len()), requests_before, "no request is sent upstream");
    let row =
        gw.rows().await.into_iter().rev().find(|row| row.record.kind == RecordKind::Refused).expect("a row").record;
    assert!(row.message.as_deref().is_some_and(|message| message.contains("2025-11-25 or newer")), "{row:?}");
    assert!(gw.post(&[], &handshake("2025-11-25")).await.header("mcp-session-id").is_some());

    gw.change_grants(|grants| grants[0].minimum_revision = Some(Revision::R2026_07_28));
    assert_eq!(gw.post(&[], &handshake("2025-11-25")).await.code(), -32602);
    assert_eq!(
        StatelessTestClient::new(&gw).at_aggregate().request("tools/list", json!({})).await.status,
        200,
        "the stateless revision meets the minimum"
    );
}

fn last_id(raw: &str) -> &str {
    raw.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().expect("an id")
}

#[tokio::test]
async fn aggregate_client_resumes_only_its_own_stream() {
    let (_, zoo, gw) = setup(GatewaySettings::default()).await;
    gw.initialize().await;
    let mut lost = start_in_session(&gw, "POST", "/mcp", "", &call("zoo__talk").to_string()).await;
    let raw = read_until(&mut lost, "\"one\"", 1).await;
    let id = last_id(&raw).to_owned();
    drop(lost);
    let first = gw.session();
    let last = format!("Last-Event-ID: {id}\r\n");
    let mut resumed = start_in_session(&gw, "GET", "/mcp", &last, "").await;
    let rest = read_until(&mut resumed, "talked", 1).await;
    assert!(!rest.contains("\"one\"") && rest.contains("\"id\":9"), "only the missed events: {rest}");
    assert_eq!(zoo.calls().len(), 1, "the call is sent once");
    for unknown in ["never-was", &format!("{id}0"), ""] {
        let last = format!("Last-Event-ID: {unknown}\r\nConnection: close\r\n");
        let refused =
            read_for(&mut start_in_session(&gw, "GET", "/mcp", &last, "").await, Duration::from_secs(2)).await;
        assert!(refused.starts_with("HTTP/1.1 400"), "{unknown}: {refused}");
    }
    gw.initialize().await;
    assert_ne!(gw.session(), first);
    let last = format!("{last}Connection: close\r\n");
    let refused = read_for(&mut start_in_session(&gw, "GET", "/mcp", &last, "").await, Duration::from_secs(2)).await;
    assert!(refused.starts_with("HTTP/1.1 400"), "another session of the same client: {refused}");
}

#[tokio::test]
async fn task_of_another_grant_is_unknown_at_the_aggregate_endpoint() {
    let (upstream, _, gw) = setup(GatewaySettings::default()).await;
    gw.initialize().await;
    let mut create_task = call("desk__read");
    create_task["params"]["task"] = json!({"ttl": 60000});
    assert_eq!(gw.send(&create_task).await.message()["result"]["task"]["taskId"], "desk__t1");
    let other = gw.add_grant("other", ALLOW_ALL);
    let bearer = format!("Bearer {}", other.reveal());
    let send = async |session: Option<&str>, body: &str| {
        let mut headers =
            vec![("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Accept", "*/*")];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        gw.send_raw("POST", "/mcp", &headers, body.as_bytes()).await
    };
    let session = send(None, &handshake("2025-11-25")).await.header("mcp-session-id").expect("a session").to_owned();
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let task_request = async |task: &str| {
            let body = json!({"jsonrpc": "2.0", "id": 6, "method": method, "params": {"taskId": task}}).to_string();
            send(Some(&session), &body).await
        };
        let (foreign, unknown) = (task_request("desk__t1").await, task_request("desk__t0").await);
        assert_eq!((foreign.status, foreign.code()), (200, -32602), "{}", foreign.body);
        assert_eq!(foreign.body.replace("t1", "t0"), unknown.body, "byte for byte");
        assert_eq!(request_count(&upstream, method), 0, "no request is sent upstream");
    }
    let list = send(Some(&session), r#"{"jsonrpc":"2.0","id":6,"method":"tasks/list"}"#).await;
    assert!(!list.body.contains("desk__t1"), "{}", list.body);
    let get = json!({"jsonrpc": "2.0", "id": 6, "method": "tasks/get", "params": {"taskId": "desk__t1"}});
    assert_eq!(gw.send(&get).await.message()["result"]["taskId"], "desk__t1", "the owner still has access");
}

/// Stateless server: each call creates the task `t1`; subscribers are notified of `t1` and of a task of another client.
fn stateless_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "tools/call" => {
            result_response(hit, &json!({"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": null}))
        }
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            result_response(hit, &json!({"resultType": "complete", "taskId": "t1"}))
        }
        "subscriptions/listen" => {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": hit.message()["id"]});
            let notification = |method: &str, mut params: Value| {
                params["_meta"] = meta.clone();
                event(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
            };
            let filter = hit.message()["params"]["notifications"].clone();
            let events = [
                notification("notifications/subscriptions/acknowledged", json!({"notifications": filter})),
                notification("notifications/tasks", json!({"taskId": "theirs", "status": "working"})),
                notification("notifications/tasks", json!({"taskId": "t1", "status": "completed"})),
            ];
            Some(event_response(&events.concat()))
        }
        _ => stateless_response(
            hit,
            &json!([tool_definition("work")]),
            &json!({"tools": {}, "extensions": {TASKS_EXTENSION: {}}}),
        ),
    }
}

#[tokio::test]
async fn stateless_client_creates_and_subscribes_to_its_own_tasks_at_the_aggregate_endpoint() {
    let upstream = FakeUpstream::start(json!([]), stateless_server).await;
    let zoo = FakeUpstream::start(json!([tool_definition("read")]), stateful_server).await;
    let gw = TestGateway::builder()
        .policy(ALLOW_ALL)
        .at_aggregate()
        .with_server("zoo", &zoo.url(), ALLOW_ALL)
        .start(&upstream)
        .await;
    let client = StatelessTestClient::new(&gw).at_aggregate();
    let made = client.call("desk__work", json!({})).await.message()["result"].clone();
    assert_eq!((&made["resultType"], &made["taskId"]), (&json!("task"), &json!("desk__t1")), "{made}");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let response = client.request(method, json!({"taskId": "desk__t1", "inputResponses": {}})).await;
        assert_eq!(response.message()["result"]["taskId"], "desk__t1", "{method}: {}", response.body);
        let hit = upstream.requests().pop().expect("a request");
        assert_eq!((hit.header("mcp-name"), &hit.message()["params"]["taskId"]), (Some("t1"), &json!("t1")));
    }
    let listen = |ids: Value| json!({"notifications": {"taskIds": ids}});
    let mut stream = client.start_request("subscriptions/listen", listen(json!(["desk__t1"]))).await;
    let received = read_until(&mut stream, "completed", 1).await;
    let messages: Vec<Value> = received
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    assert_eq!(messages[0]["method"], "notifications/subscriptions/acknowledged", "{received}");
    assert_eq!(messages[0]["params"]["notifications"]["taskIds"], json!(["desk__t1"]), "{received}");
    let tasks: Vec<&Value> = messages.iter().filter(|message| message["method"] == "notifications/tasks").collect();
    assert!(tasks.iter().all(|task| task["params"]["taskId"] == "desk__t1"), "{received}");
    assert_eq!(tasks[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 3);
    drop(stream);

    let token = gw.add_grant("other", ALLOW_ALL);
    let other = client.with_token(&token);
    let before = request_count(&upstream, "subscriptions/listen");
    let unknown = other.request("subscriptions/listen", listen(json!(["desk__t0"]))).await;
    assert_eq!((unknown.status, unknown.code()), (200, -32602), "{}", unknown.body);
    assert!(unknown.body.contains("Unknown task: `desk__t0`"), "{}", unknown.body);
    let foreign = other.request("subscriptions/listen", listen(json!(["desk__t1"]))).await;
    assert_eq!(foreign.body.replace("t1", "t0"), unknown.body, "byte for byte");
    for ids in [json!(["t1"]), json!(["none__t1"]), json!([7])] {
        let response = other.request("subscriptions/listen", listen(ids.clone())).await;
        assert_eq!(response.code(), -32602, "{ids}: {}", response.body);
        assert!(response.body.contains("Unknown task"), "{}", response.body);
    }
    assert_eq!(request_count(&upstream, "subscriptions/listen"), before, "no request is sent upstream");
}

#[tokio::test]
async fn overlong_tool_name_is_warned_about_once() {
    let (log, _logged) = CapturedLog::start();
    let names = ["a".repeat(42), "b".repeat(43), "short".to_owned()];
    let upstream = FakeUpstream::with_tools(&names.each_ref().map(String::as_str)).await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).at_aggregate().start(&upstream).await;
    for _ in 0..2 {
        let list = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        assert_eq!(list.message()["result"]["tools"].as_array().map(Vec::len), Some(3), "long names are listed, too");
    }
    let log = log.text();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN") && line.contains("characters")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    let expected = format!("the tool name `desk__{}` has 49 characters, but some clients allow only 48", names[1]);
    assert!(warnings[0].contains(&expected) && warnings[0].contains("/mcp/desk"), "{}", warnings[0]);
}

fn tool_names(response: &Value) -> Vec<String> {
    let tools = response["result"]["tools"].as_array().expect("a list");
    tools.iter().filter(|tool| tool["_meta"].is_null()).map(|tool| tool["name"].to_string()).collect()
}

#[tokio::test]
async fn aggregate_request_counts_once_for_the_grant_and_once_per_server() {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let (upstream, _, gw) = setup(GatewaySettings { in_flight_per_grant: 1, ..GatewaySettings::default() }).await;
    gw.initialize().await;
    assert_eq!(
        tool_names(&gw.send(&list).await.message()).len(),
        6,
        "requests to two servers count once for the grant"
    );
    let slow = call("desk__slow");
    let meanwhile = async {
        wait_until("the call arrives", || upstream.calls().len() == 1).await;
        (gw.send(&list).await, gw.send(&call("zoo__read")).await)
    };
    let (response, (refused, busy)) = tokio::join!(gw.send(&slow), meanwhile);
    assert_eq!(response.text(), "slept");
    assert!(refused.body.contains("too many requests of this grant"), "{}", refused.body);
    assert!(busy.text().contains("too many requests of this grant"), "{}", busy.body);

    let (upstream, _, gw) = setup(GatewaySettings { in_flight_per_server: 1, ..GatewaySettings::default() }).await;
    gw.initialize().await;
    gw.send(&list).await;
    let meanwhile = async {
        wait_until("the call arrives", || upstream.calls().len() == 1).await;
        gw.send(&list).await.message()
    };
    let (response, partial) = tokio::join!(gw.send(&slow), meanwhile);
    assert_eq!(response.text(), "slept");
    assert!(tool_names(&partial).iter().all(|name| name.contains("zoo__")), "{partial}");
    assert_eq!(tool_names(&partial).len(), 3, "the other server is still queried: {partial}");
    assert!(partial["result"]["_meta"].to_string().contains("too many requests to this server"), "{partial}");
    assert_eq!(tool_names(&gw.send(&list).await.message()).len(), 6, "the in-flight guard was released");
}

#[tokio::test]
async fn aggregate_stream_counts_as_one_stream_of_the_grant() {
    let (upstream, zoo, gw) = setup(GatewaySettings { in_flight_per_grant: 1, ..GatewaySettings::default() }).await;
    let filter = || json!({"notifications": {"toolsListChanged": true}});
    let client = StatelessTestClient::new(&gw).at_aggregate();
    let mut first = client.start_request("subscriptions/listen", filter()).await;
    read_until(&mut first, "acknowledged", 1).await;
    let has_stream = |server: &FakeUpstream| server.requests().iter().any(|hit| hit.request_line.starts_with("GET"));
    wait_until("both servers have a stream", || has_stream(&upstream) && has_stream(&zoo)).await;
    let second = client.request("subscriptions/listen", filter()).await;
    assert!(second.body.contains("too many open streams of this grant"), "{}", second.body);
    drop(first);
    for round in 0.. {
        assert!(round < 50, "the stream's in-flight guard is not released");
        let mut resumed = client.start_request("subscriptions/listen", filter()).await;
        let raw = read_until(&mut resumed, "jsonrpc", 1).await;
        if raw.contains("acknowledged") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn method_of_another_revision_is_unknown_at_the_aggregate_endpoint() {
    let (upstream, _zoo, gw) = setup(GatewaySettings::default()).await;
    let one = StatelessTestClient::new(&gw);
    for client in [one, one.at_aggregate()] {
        for method in ["tasks/result", "tasks/list", "ping", "resources/subscribe", "logging/setLevel"] {
            for task in ["desk__t1", "unknown__t1", "t1"] {
                let params = json!({"taskId": task, "uri": "x-desk+note://1"});
                let response =
                    client.request_with_name(None, method, params, &json!({"extensions": {TASKS_EXTENSION: {}}})).await;
                assert_eq!((response.status, response.code()), (404, -32601), "{method} {task}: {}", response.body);
            }
        }
    }
    gw.initialize().await;
    let update = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/update", "params": {"taskId": "desk__t1"}});
    let response = gw.send(&update).await;
    assert_eq!(
        (response.status, response.code()),
        (200, -32601),
        "a method of a later revision is unknown, too: {}",
        response.body
    );
    assert!(!upstream.requests().iter().any(|hit| hit.method().starts_with("tasks/")), "no request is sent upstream");
}
