//! `subscriptions/listen`: how it ends, and what becomes of what was named when what is in force changes.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::support::{
    ALLOW_ALL, StatelessTestClient, chunk, event, read_until, request_count, result_message, result_response,
    stateless_response, stream_headers, timed_stream, wait_until,
};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What a server says first to who listens.
fn acknowledged(hit: &RecordedRequest) -> String {
    let params = json!({"notifications": hit.message()["params"]["notifications"], "_meta": {SUBSCRIPTION: hit.message()["id"]}});
    event(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}))
}

/// A server without sessions whose tool `slow` makes tasks.
fn with_tasks(hit: &RecordedRequest) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "tools/call" => result_response(
            hit,
            &json!({"resultType": "task", "taskId": "t1", "status": "working", "createdAt": "2026-11-15T12:00:00Z",
                "lastUpdatedAt": "2026-11-15T12:00:00Z", "ttlMs": 60000}),
        ),
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(ScriptStep::Write(chunk(&acknowledged(hit))));
            script.push(ScriptStep::Pause(Duration::from_secs(30)));
            Some(script)
        }
        _ => stateless_response(
            hit,
            &json!([tool_definition("slow"), tool_definition("read")]),
            &json!({"tools": {"listChanged": true}, "extensions": {"io.modelcontextprotocol/tasks": {}}}),
        ),
    }
}

/// One that nobody can listen to.
fn deaf(hit: &RecordedRequest) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "subscriptions/listen" => {
            let error = json!({"code": -32601, "message": "no such method"});
            let body = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
            Some(json_response("404 Not Found", "", &body.to_string()))
        }
        _ => stateless_response(hit, &json!([tool_definition("read")]), &json!({"tools": {}})),
    }
}

fn wanted(tasks: &[&str]) -> Value {
    json!({"notifications": {"toolsListChanged": true, "taskIds": tasks}})
}

/// Waits for the end of a stream, and gives what came before it.
async fn rest(stream: &mut TcpStream) -> Option<String> {
    let mut all = String::new();
    let mut buffer = [0; 4096];
    let reading = async {
        while !all.ends_with("0\r\n\r\n") {
            let read = stream.read(&mut buffer).await.expect("it can be read");
            if read == 0 {
                return;
            }
            all.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    };
    tokio::time::timeout(Duration::from_secs(3), reading).await.ok().map(|()| all)
}

#[tokio::test]
async fn the_end_that_a_server_says_has_the_clients_own_id() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "subscriptions/listen" => {
            let end = json!({"resultType": "complete", "_meta": {SUBSCRIPTION: hit.message()["id"]}, "x": 1});
            let end = event(&result_message(hit, &end));
            Some(timed_stream(&[(&acknowledged(hit), Duration::ZERO), (&end, Duration::from_millis(50))]))
        }
        _ => stateless_response(hit, &json!([tool_definition("read")]), &json!({"tools": {"listChanged": true}})),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let answer = StatelessTestClient::new(&gw).request("subscriptions/listen", wanted(&[])).await.message();
    let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION: 3}, "x": 1});
    assert_eq!(
        answer,
        json!({"jsonrpc": "2.0", "id": 3, "result": result}),
        "nobody else's id, and all else as it was"
    );
}

#[tokio::test]
async fn a_task_that_is_not_to_be_heard_of_any_more_ends_the_stream_for_all_servers() {
    let desk = FakeUpstream::start(json!([]), with_tasks).await;
    let zoo = FakeUpstream::start(json!([]), deaf).await;
    let gw = TestGateway::builder()
        .policy(ALLOW_ALL)
        .at_aggregate()
        .with_server("zoo", &zoo.url(), ALLOW_ALL)
        .start(&desk)
        .await;
    let own = StatelessTestClient::new(&gw).at_aggregate();
    assert_eq!(own.call("desk__slow", json!({})).await.message()["result"]["taskId"], "desk__t1");

    let mut plain = own.start_request("subscriptions/listen", wanted(&[])).await;
    read_until(&mut plain, "acknowledged", 1).await;
    let mut stream = own.start_request("subscriptions/listen", wanted(&["desk__t1"])).await;
    let first = read_until(&mut stream, "acknowledged", 1).await;
    assert!(first.contains("desk__t1"), "one that cannot be listened to keeps nobody from the other: {first}");

    let hidden = r#"{"version":"1","default":"allow","hide":["slow"]}"#;
    gw.put_policy("desk", hidden);
    read_until(&mut stream, "tools/list_changed", 1).await;
    assert!(rest(&mut stream).await.is_some(), "the client listens anew");
    read_until(&mut plain, "tools/list_changed", 1).await;
    assert!(rest(&mut plain).await.is_none(), "who names no such task goes on");
    let refused = own.request("subscriptions/listen", wanted(&["desk__t1"])).await;
    assert_eq!((refused.status, refused.code()), (200, -32602), "{}", refused.body);
    assert!(refused.body.contains("Unknown task: `desk__t1`"), "and is told why: {}", refused.body);
    assert!(request_count(&desk, "subscriptions/listen") >= 3, "the stream without tasks is heard by the new policy");
}

#[tokio::test]
async fn who_begins_to_listen_does_not_overtake_who_ends() {
    let slow = Duration::from_millis(400);
    let asked: Arc<Mutex<Vec<(String, Instant)>>> = Arc::default();
    let noted = Arc::clone(&asked);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        match hit.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
                "serverInfo": {"name": "s", "version": "1"}});
                Some(json_response("200 OK", "mcp-session-id: s-1\r\n", &result_message(hit, &result).to_string()))
            }
            method @ ("resources/subscribe" | "resources/unsubscribe") => {
                noted.lock().expect("a list").push((method.to_owned(), Instant::now()));
                let mut script = vec![ScriptStep::Pause(slow)];
                script.extend(result_response(hit, &json!({}))?);
                Some(script)
            }
            _ => None,
        }
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let named = || json!({"notifications": {"resourceSubscriptions": ["note://1"]}});
    let count = |method: &str| asked.lock().expect("a list").iter().filter(|(own, _)| own == method).count();
    let mut first = StatelessTestClient::new(&gw).start_request("subscriptions/listen", named()).await;
    read_until(&mut first, "acknowledged", 1).await;
    drop(first);
    wait_until("the last one ends it", || count("resources/unsubscribe") == 1).await;
    let mut second = StatelessTestClient::new(&gw).start_request("subscriptions/listen", named()).await;
    read_until(&mut second, "acknowledged", 1).await;
    let asked = asked.lock().expect("a list").clone();
    let methods: Vec<&str> = asked.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["resources/subscribe", "resources/unsubscribe", "resources/subscribe"]);
    assert!(asked[2].1 - asked[1].1 >= slow, "it is asked when the one before was answered: {asked:?}");
}
