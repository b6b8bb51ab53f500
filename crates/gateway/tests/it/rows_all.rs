//! Rows that hold at `/mcp` as well: the minimum revision, streams that are taken up again, tasks of others, long names,
//! and bounds.
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

use super::rows_kit::{
    ALL, Caller, EXTENSION, Log, answered, begin_in_session, count, event, modern_answer, read_for, read_until,
    result_of, stream, until,
};

fn call(tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

/// A server with sessions and tasks; `talk` says something, and answers a while later.
fn old(hit: &RecordedRequest) -> Option<ResponseScript> {
    let task = json!({"taskId": "t1", "status": "working", "ttl": 60000});
    match hit.method().as_str() {
        "initialize" => {
            let capabilities =
                json!({"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}});
            let result = json!({"protocolVersion": hit.message()["params"]["protocolVersion"], "capabilities": capabilities,
                "serverInfo": {"name": "old", "version": "1"}});
            Some(json_response("200 OK", "mcp-session-id: s\r\n", &result_of(hit, &result).to_string()))
        }
        "tools/call" if hit.tool() == "talk" => {
            let said = event(
                &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "one"}}),
            );
            let done = event(&result_of(hit, &json!({"content": [{"type": "text", "text": "talked"}]})));
            Some(stream(&[(&said, Duration::ZERO), (&done, Duration::from_millis(400))]))
        }
        "tools/call" if hit.tool() == "slow" => {
            let mut script = vec![ScriptStep::Pause(Duration::from_millis(900))];
            script.extend(answered(hit, &json!({"content": [{"type": "text", "text": "slept"}]}))?);
            Some(script)
        }
        "tools/call" if hit.message()["params"]["task"].is_object() => answered(hit, &json!({"task": task})),
        "tasks/get" | "tasks/cancel" | "tasks/result" => answered(hit, &task),
        _ => None,
    }
}

async fn two(settings: GatewaySettings) -> (FakeUpstream, FakeUpstream, TestGateway) {
    let tools = json!([tool_definition("talk"), tool_definition("slow"), tool_definition("read")]);
    let desk = FakeUpstream::start(tools.clone(), old).await;
    let zoo = FakeUpstream::start(tools, old).await;
    let builder = TestGateway::builder().policy(ALL).settings(settings).at_aggregate();
    let gw = builder.with_server("zoo", &zoo.url(), ALL).start(&desk).await;
    (desk, zoo, gw)
}

fn handshake(revision: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": revision,
        "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}})
    .to_string()
}

#[tokio::test]
async fn the_minimum_revision_of_a_grant_holds_where_all_servers_are_one() {
    let (desk, zoo, gw) = two(GatewaySettings::default()).await;
    let opened = gw.post(&[], &handshake("2025-06-18")).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    assert_eq!(gw.post(&[("Mcp-Session-Id", &session)], &list).await.status, 200);
    let heard = (desk.requests().len(), zoo.requests().len());

    gw.change_grants(|grants| grants[0].minimum_revision = Some(Revision::R2025_11_25));
    let refused = gw.post(&[], &handshake("2025-06-18")).await;
    assert_eq!((refused.status, refused.code(), refused.header("mcp-session-id")), (200, -32602, None));
    let error = refused.message()["error"].clone();
    assert!(
        error["message"].as_str().is_some_and(|said| said.contains("requires protocol revision 2025-11-25 or newer"))
    );
    assert_eq!(error["data"]["supported"], json!(["2026-07-28", "2025-11-25"]));
    let over = gw.post(&[("Mcp-Session-Id", &session)], &list).await;
    assert_eq!(over.status, 404, "the client begins anew: {}", over.body);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Accept", "text/event-stream"), ("Mcp-Session-Id", &session)];
    assert_eq!(gw.send_raw("GET", "/mcp", &headers, b"").await.status, 404);
    assert_eq!((desk.requests().len(), zoo.requests().len()), heard, "nothing reaches a server");
    let row =
        gw.rows().await.into_iter().rev().find(|row| row.record.kind == RecordKind::Refused).expect("a row").record;
    assert!(row.message.as_deref().is_some_and(|said| said.contains("2025-11-25 or newer")), "{row:?}");
    assert!(gw.post(&[], &handshake("2025-11-25")).await.header("mcp-session-id").is_some());

    gw.change_grants(|grants| grants[0].minimum_revision = Some(Revision::R2026_07_28));
    assert_eq!(gw.post(&[], &handshake("2025-11-25")).await.code(), -32602);
    assert_eq!(Caller::of(&gw).at_all().ask("tools/list", json!({})).await.status, 200, "that one is new enough");
}

fn last_id(raw: &str) -> &str {
    raw.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().expect("an id")
}

#[tokio::test]
async fn a_client_of_all_servers_comes_back_to_the_stream_that_it_lost_and_to_no_other() {
    let (_, zoo, gw) = two(GatewaySettings::default()).await;
    gw.initialize().await;
    let mut lost = begin_in_session(&gw, "POST", "/mcp", "", &call("zoo__talk").to_string()).await;
    let raw = read_until(&mut lost, "\"one\"", 1).await;
    let id = last_id(&raw).to_owned();
    drop(lost);
    let first = gw.session();
    let last = format!("Last-Event-ID: {id}\r\n");
    let mut again = begin_in_session(&gw, "GET", "/mcp", &last, "").await;
    let rest = read_until(&mut again, "talked", 1).await;
    assert!(!rest.contains("\"one\"") && rest.contains("\"id\":9"), "only what it missed: {rest}");
    assert_eq!(zoo.calls().len(), 1, "nothing is repeated");
    for unknown in ["never-was", &format!("{id}0"), ""] {
        let last = format!("Last-Event-ID: {unknown}\r\nConnection: close\r\n");
        let refused =
            read_for(&mut begin_in_session(&gw, "GET", "/mcp", &last, "").await, Duration::from_secs(2)).await;
        assert!(refused.starts_with("HTTP/1.1 400"), "{unknown}: {refused}");
    }
    gw.initialize().await;
    assert_ne!(gw.session(), first);
    let last = format!("{last}Connection: close\r\n");
    let refused = read_for(&mut begin_in_session(&gw, "GET", "/mcp", &last, "").await, Duration::from_secs(2)).await;
    assert!(refused.starts_with("HTTP/1.1 400"), "another session of the same client: {refused}");
}

#[tokio::test]
async fn a_task_of_another_grant_is_not_there_where_all_servers_are_one() {
    let (desk, _, gw) = two(GatewaySettings::default()).await;
    gw.initialize().await;
    let mut making = call("desk__read");
    making["params"]["task"] = json!({"ttl": 60000});
    assert_eq!(gw.send(&making).await.message()["result"]["task"]["taskId"], "desk__t1");
    let other = gw.add_grant("other", ALL);
    let bearer = format!("Bearer {}", other.reveal());
    let send = async |session: Option<&str>, body: &str| {
        let mut headers =
            vec![("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Accept", "*/*")];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        gw.send_raw("POST", "/mcp", &headers, body.as_bytes()).await
    };
    let session = send(None, &handshake("2025-11-25")).await.header("mcp-session-id").expect("a session").to_owned();
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let ask = async |task: &str| {
            let body = json!({"jsonrpc": "2.0", "id": 6, "method": method, "params": {"taskId": task}}).to_string();
            send(Some(&session), &body).await
        };
        let (foreign, unknown) = (ask("desk__t1").await, ask("desk__t0").await);
        assert_eq!((foreign.status, foreign.code()), (200, -32602), "{}", foreign.body);
        assert_eq!(foreign.body.replace("t1", "t0"), unknown.body, "byte for byte");
        assert_eq!(count(&desk, method), 0, "the server hears nothing of it");
    }
    let list = send(Some(&session), r#"{"jsonrpc":"2.0","id":6,"method":"tasks/list"}"#).await;
    assert!(!list.body.contains("desk__t1"), "{}", list.body);
    let get = json!({"jsonrpc": "2.0", "id": 6, "method": "tasks/get", "params": {"taskId": "desk__t1"}});
    assert_eq!(gw.send(&get).await.message()["result"]["taskId"], "desk__t1", "its owner is not disturbed");
}

/// A server without sessions whose calls make tasks, and which tells of them and of others.
fn new(hit: &RecordedRequest) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "tools/call" => {
            answered(hit, &json!({"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": null}))
        }
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            answered(hit, &json!({"resultType": "complete", "taskId": "t1"}))
        }
        "subscriptions/listen" => {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": hit.message()["id"]});
            let told = |method: &str, mut params: Value| {
                params["_meta"] = meta.clone();
                event(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
            };
            let wanted = hit.message()["params"]["notifications"].clone();
            let events = [
                told("notifications/subscriptions/acknowledged", json!({"notifications": wanted})),
                told("notifications/tasks", json!({"taskId": "theirs", "status": "working"})),
                told("notifications/tasks", json!({"taskId": "t1", "status": "completed"})),
            ];
            Some(event_response(&events.concat()))
        }
        _ => {
            modern_answer(hit, &json!([tool_definition("work")]), &json!({"tools": {}, "extensions": {EXTENSION: {}}}))
        }
    }
}

#[tokio::test]
async fn a_client_without_a_session_makes_tasks_and_listens_to_its_own_where_all_servers_are_one() {
    let desk = FakeUpstream::start(json!([]), new).await;
    let zoo = FakeUpstream::start(json!([tool_definition("read")]), old).await;
    let gw = TestGateway::builder().policy(ALL).at_aggregate().with_server("zoo", &zoo.url(), ALL).start(&desk).await;
    let own = Caller::of(&gw).at_all();
    let made = own.call("desk__work", json!({})).await.message()["result"].clone();
    assert_eq!((&made["resultType"], &made["taskId"]), (&json!("task"), &json!("desk__t1")), "{made}");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = own.ask(method, json!({"taskId": "desk__t1", "inputResponses": {}})).await;
        assert_eq!(answer.message()["result"]["taskId"], "desk__t1", "{method}: {}", answer.body);
        let hit = desk.requests().pop().expect("a request");
        assert_eq!((hit.header("mcp-name"), &hit.message()["params"]["taskId"]), (Some("t1"), &json!("t1")));
    }
    let listen = |ids: Value| json!({"notifications": {"taskIds": ids}});
    let mut stream = own.begin("subscriptions/listen", listen(json!(["desk__t1"]))).await;
    let heard = read_until(&mut stream, "completed", 1).await;
    let messages: Vec<Value> = heard
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    assert_eq!(messages[0]["method"], "notifications/subscriptions/acknowledged", "{heard}");
    assert_eq!(messages[0]["params"]["notifications"]["taskIds"], json!(["desk__t1"]), "{heard}");
    let tasks: Vec<&Value> = messages.iter().filter(|message| message["method"] == "notifications/tasks").collect();
    assert!(tasks.iter().all(|task| task["params"]["taskId"] == "desk__t1"), "{heard}");
    assert_eq!(tasks[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 3);
    drop(stream);

    let token = gw.add_grant("other", ALL);
    let other = own.by(&token);
    let before = count(&desk, "subscriptions/listen");
    let unknown = other.ask("subscriptions/listen", listen(json!(["desk__t0"]))).await;
    assert_eq!((unknown.status, unknown.code()), (200, -32602), "{}", unknown.body);
    assert!(unknown.body.contains("Unknown task: `desk__t0`"), "{}", unknown.body);
    let foreign = other.ask("subscriptions/listen", listen(json!(["desk__t1"]))).await;
    assert_eq!(foreign.body.replace("t1", "t0"), unknown.body, "byte for byte");
    for past in [json!(["t1"]), json!(["none__t1"]), json!([7])] {
        let answer = other.ask("subscriptions/listen", listen(past.clone())).await;
        assert_eq!(answer.code(), -32602, "{past}: {}", answer.body);
        assert!(answer.body.contains("Unknown task"), "{}", answer.body);
    }
    assert_eq!(count(&desk, "subscriptions/listen"), before, "the server hears nothing of it");
}

#[tokio::test]
async fn a_name_that_clients_may_have_no_room_for_is_warned_of_once() {
    let (log, _logged) = Log::begin();
    let names = ["a".repeat(42), "b".repeat(43), "short".to_owned()];
    let desk = FakeUpstream::with_tools(&names.each_ref().map(String::as_str)).await;
    let gw = TestGateway::builder().policy(ALL).at_aggregate().start(&desk).await;
    for _ in 0..2 {
        let list = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        assert_eq!(list.message()["result"]["tools"].as_array().map(Vec::len), Some(3), "they are listed all the same");
    }
    let log = log.text();
    let warned: Vec<&str> = log.lines().filter(|line| line.contains("WARN") && line.contains("characters")).collect();
    assert_eq!(warned.len(), 1, "{log}");
    let said = format!("the tool name `desk__{}` has 49 characters, but some clients allow only 48", names[1]);
    assert!(warned[0].contains(&said) && warned[0].contains("/mcp/desk"), "{}", warned[0]);
}

fn listed(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array().expect("a list");
    tools.iter().filter(|tool| tool["_meta"].is_null()).map(|tool| tool["name"].to_string()).collect()
}

#[tokio::test]
async fn what_one_server_is_asked_for_all_takes_room_at_that_server_and_once_of_the_grant() {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let (desk, _, gw) = two(GatewaySettings { in_flight_per_grant: 1, ..GatewaySettings::default() }).await;
    gw.initialize().await;
    assert_eq!(listed(&gw.send(&list).await.message()).len(), 6, "two servers are asked by one request of the grant");
    let slow = call("desk__slow");
    let meanwhile = async {
        until("the call arrives", || desk.calls().len() == 1).await;
        (gw.send(&list).await, gw.send(&call("zoo__read")).await)
    };
    let (answer, (refused, busy)) = tokio::join!(gw.send(&slow), meanwhile);
    assert_eq!(answer.text(), "slept");
    assert!(refused.body.contains("too many requests of this grant"), "{}", refused.body);
    assert!(busy.text().contains("too many requests of this grant"), "{}", busy.body);

    let (desk, _, gw) = two(GatewaySettings { in_flight_per_server: 1, ..GatewaySettings::default() }).await;
    gw.initialize().await;
    gw.send(&list).await;
    let meanwhile = async {
        until("the call arrives", || desk.calls().len() == 1).await;
        gw.send(&list).await.message()
    };
    let (answer, partly) = tokio::join!(gw.send(&slow), meanwhile);
    assert_eq!(answer.text(), "slept");
    assert!(listed(&partly).iter().all(|name| name.contains("zoo__")), "{partly}");
    assert_eq!(listed(&partly).len(), 3, "the other is asked all the same: {partly}");
    assert!(partly["result"]["_meta"].to_string().contains("too many requests to this server"), "{partly}");
    assert_eq!(listed(&gw.send(&list).await.message()).len(), 6, "the place was given back");
}

#[tokio::test]
async fn one_stream_for_all_servers_is_one_stream_of_the_grant() {
    let (desk, zoo, gw) = two(GatewaySettings { in_flight_per_grant: 1, ..GatewaySettings::default() }).await;
    let wanted = || json!({"notifications": {"toolsListChanged": true}});
    let own = Caller::of(&gw).at_all();
    let mut first = own.begin("subscriptions/listen", wanted()).await;
    read_until(&mut first, "acknowledged", 1).await;
    let is_heard = |server: &FakeUpstream| server.requests().iter().any(|hit| hit.request_line.starts_with("GET"));
    until("both are listened to", || is_heard(&desk) && is_heard(&zoo)).await;
    let second = own.ask("subscriptions/listen", wanted()).await;
    assert!(second.body.contains("too many open streams of this grant"), "{}", second.body);
    drop(first);
    for round in 0.. {
        assert!(round < 50, "a place is given back");
        let mut again = own.begin("subscriptions/listen", wanted()).await;
        let raw = read_until(&mut again, "jsonrpc", 1).await;
        if raw.contains("acknowledged") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn t6_a_method_that_the_revision_does_not_have_is_unknown_here_as_well() {
    let (desk, _zoo, gw) = two(GatewaySettings::default()).await;
    let one = Caller::of(&gw);
    for caller in [one, one.at_all()] {
        for method in ["tasks/result", "tasks/list", "ping", "resources/subscribe", "logging/setLevel"] {
            for task in ["desk__t1", "nobody__t1", "t1"] {
                let params = json!({"taskId": task, "uri": "x-desk+note://1"});
                let answer = caller.ask_under(None, method, params, &json!({"extensions": {EXTENSION: {}}})).await;
                assert_eq!((answer.status, answer.code()), (404, -32601), "{method} {task}: {}", answer.body);
            }
        }
    }
    gw.initialize().await;
    let update = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/update", "params": {"taskId": "desk__t1"}});
    let answer = gw.send(&update).await;
    assert_eq!((answer.status, answer.code()), (200, -32601), "nor one that came later: {}", answer.body);
    assert!(!desk.requests().iter().any(|hit| hit.method().starts_with("tasks/")), "nothing reaches a server");
}
