//! `subscriptions/listen`: how the stream ends, and how it follows a changed policy.
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

/// The acknowledgement with which a server starts the stream.
fn acknowledgement(request: &RecordedRequest) -> String {
    let params = json!({"notifications": request.message()["params"]["notifications"], "_meta": {SUBSCRIPTION: request.message()["id"]}});
    event(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}))
}

/// A stateless server. Its tool `slow` creates tasks.
fn server_with_tasks(request: &RecordedRequest) -> Option<ResponseScript> {
    match request.method().as_str() {
        "tools/call" => result_response(
            request,
            &json!({"resultType": "task", "taskId": "t1", "status": "working", "createdAt": "2026-11-15T12:00:00Z",
                "lastUpdatedAt": "2026-11-15T12:00:00Z", "ttlMs": 60000}),
        ),
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(ScriptStep::Write(chunk(&acknowledgement(request))));
            script.push(ScriptStep::Pause(Duration::from_secs(30)));
            Some(script)
        }
        _ => stateless_response(
            request,
            &json!([tool_definition("slow"), tool_definition("read")]),
            &json!({"tools": {"listChanged": true}, "extensions": {"io.modelcontextprotocol/tasks": {}}}),
        ),
    }
}

/// A stateless server without `subscriptions/listen`.
fn server_without_listen(request: &RecordedRequest) -> Option<ResponseScript> {
    match request.method().as_str() {
        "subscriptions/listen" => {
            let error = json!({"code": -32601, "message": "no such method"});
            let body = json!({"jsonrpc": "2.0", "id": request.message()["id"], "error": error});
            Some(json_response("404 Not Found", "", &body.to_string()))
        }
        _ => stateless_response(request, &json!([tool_definition("read")]), &json!({"tools": {}})),
    }
}

fn task_filter(tasks: &[&str]) -> Value {
    json!({"notifications": {"toolsListChanged": true, "taskIds": tasks}})
}

/// Reads to the end of a stream. Returns `None` if the stream does not end within 3 seconds.
async fn read_to_end(stream: &mut TcpStream) -> Option<String> {
    let mut all = String::new();
    let mut buffer = [0; 4096];
    let reading = async {
        while !all.ends_with("0\r\n\r\n") {
            let read = stream.read(&mut buffer).await.expect("the stream is readable");
            if read == 0 {
                return;
            }
            all.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    };
    tokio::time::timeout(Duration::from_secs(3), reading).await.ok().map(|()| all)
}

#[tokio::test]
async fn the_final_result_of_a_listen_carries_the_clients_request_id() {
    let upstream = FakeUpstream::start(json!([]), |request: &RecordedRequest| match request.method().as_str() {
        "subscriptions/listen" => {
            let end = json!({"resultType": "complete", "_meta": {SUBSCRIPTION: request.message()["id"]}, "x": 1});
            let end = event(&result_message(request, &end));
            Some(timed_stream(&[(&acknowledgement(request), Duration::ZERO), (&end, Duration::from_millis(50))]))
        }
        _ => stateless_response(request, &json!([tool_definition("read")]), &json!({"tools": {"listChanged": true}})),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let reply = StatelessTestClient::new(&gw).request("subscriptions/listen", task_filter(&[])).await.message();
    let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION: 3}, "x": 1});
    assert_eq!(
        reply,
        json!({"jsonrpc": "2.0", "id": 3, "result": result}),
        "both ids are the client's and the other members are unchanged"
    );
}

#[tokio::test]
async fn an_aggregate_listen_ends_when_a_policy_hides_the_tool_of_its_task() {
    let upstream = FakeUpstream::start(json!([]), server_with_tasks).await;
    let zoo = FakeUpstream::start(json!([]), server_without_listen).await;
    let gw = TestGateway::builder()
        .policy(ALLOW_ALL)
        .at_aggregate()
        .with_server("zoo", &zoo.url(), ALLOW_ALL)
        .start(&upstream)
        .await;
    let client = StatelessTestClient::new(&gw).at_aggregate();
    assert_eq!(client.call("desk__slow", json!({})).await.message()["result"]["taskId"], "desk__t1");

    let mut plain = client.start_request("subscriptions/listen", task_filter(&[])).await;
    read_until(&mut plain, "acknowledged", 1).await;
    let mut stream = client.start_request("subscriptions/listen", task_filter(&["desk__t1"])).await;
    let first = read_until(&mut stream, "acknowledged", 1).await;
    assert!(first.contains("desk__t1"), "a server without `subscriptions/listen` does not affect the other: {first}");

    let hidden = r#"{"version":"1","default":"allow","hide":["slow"]}"#;
    gw.put_policy("desk", hidden);
    read_until(&mut stream, "tools/list_changed", 1).await;
    assert!(read_to_end(&mut stream).await.is_some(), "the stream ends so that the client listens again");
    read_until(&mut plain, "tools/list_changed", 1).await;
    assert!(read_to_end(&mut plain).await.is_none(), "a stream without the task stays open");
    let refused = client.request("subscriptions/listen", task_filter(&["desk__t1"])).await;
    assert_eq!((refused.status, refused.code()), (200, -32602), "{}", refused.body);
    assert!(refused.body.contains("Unknown task: `desk__t1`"), "the error names the task: {}", refused.body);
    assert!(
        request_count(&upstream, "subscriptions/listen") >= 3,
        "the stream without tasks listens again under the new policy"
    );
}

#[tokio::test]
async fn a_subscribe_waits_for_the_pending_unsubscribe_of_the_same_resource() {
    let unsubscribe_time = Duration::from_millis(400);
    let requests: Arc<Mutex<Vec<(String, Instant)>>> = Arc::default();
    let recorded = Arc::clone(&requests);
    let upstream = FakeUpstream::start(
        json!([tool_definition("read")]),
        move |request: &RecordedRequest| match request.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
                "serverInfo": {"name": "s", "version": "1"}});
                Some(json_response("200 OK", "mcp-session-id: s-1\r\n", &result_message(request, &result).to_string()))
            }
            method @ ("resources/subscribe" | "resources/unsubscribe") => {
                recorded.lock().expect("a list").push((method.to_owned(), Instant::now()));
                let mut script = vec![ScriptStep::Pause(unsubscribe_time)];
                script.extend(result_response(request, &json!({}))?);
                Some(script)
            }
            _ => None,
        },
    )
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let filter = || json!({"notifications": {"resourceSubscriptions": ["note://1"]}});
    let count = |method: &str| requests.lock().expect("a list").iter().filter(|(sent, _)| sent == method).count();
    let mut first = StatelessTestClient::new(&gw).start_request("subscriptions/listen", filter()).await;
    read_until(&mut first, "acknowledged", 1).await;
    drop(first);
    wait_until("the last client's end unsubscribes", || count("resources/unsubscribe") == 1).await;
    let mut second = StatelessTestClient::new(&gw).start_request("subscriptions/listen", filter()).await;
    read_until(&mut second, "acknowledged", 1).await;
    let requests = requests.lock().expect("a list").clone();
    let methods: Vec<&str> = requests.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["resources/subscribe", "resources/unsubscribe", "resources/subscribe"]);
    assert!(
        requests[2].1 - requests[1].1 >= unsubscribe_time,
        "the subscribe is sent after the unsubscribe was answered: {requests:?}"
    );
}
