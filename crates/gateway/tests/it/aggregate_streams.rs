//! The aggregate endpoint beyond plain calls: client input, notifications, subscriptions, cancellation and tasks.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, event_response, json_response,
    tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

const OPEN: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"note://*":{},"note://shut":{"action":"deny"}},
    "client_requests":{"elicitation":"allow"}}"#;
const VERSION: &str = "2026-07-28";

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

fn result_response(hit: &RecordedRequest, headers: &str, result: &Value) -> Option<ResponseScript> {
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
    Some(json_response("200 OK", headers, &text))
}

fn notification(method: &str, params: &Value) -> String {
    event(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// Handles the requests of a stateful server with elicitation, notifications and tasks.
fn stateful_server() -> impl Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync + 'static {
    let input_received = Arc::new(Notify::new());
    move |hit| handle_request(hit, &input_received)
}

/// Handles one request. The tool `ask` finishes after the response to its elicitation, which has the id 77.
fn handle_request(hit: &RecordedRequest, input_received: &Arc<Notify>) -> Option<ResponseScript> {
    let params = hit.message()["params"].clone();
    if hit.message()["id"] == 77 && hit.method().is_empty() {
        input_received.notify_one();
    }
    let task = json!({"taskId": "t1", "status": "working", "ttl": 60000});
    match hit.method().as_str() {
        "initialize" => {
            let capabilities = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {},
                "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                "serverInfo": {"name": "stateful", "version": "1"}});
            result_response(hit, "mcp-session-id: s-1\r\n", &result)
        }
        "tools/call" if hit.tool() == "ask" => {
            let elicitation = json!({"jsonrpc": "2.0", "id": 77, "method": "elicitation/create", "params":
                {"message": "really?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": {"progressToken": 7}}});
            let response = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": [{"type": "text", "text": "done"}]}});
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = |text: String| format!("{:x}\r\n{text}\r\n", text.len());
            Some(vec![
                ScriptStep::Write(format!("{head}{}", chunk(event(&elicitation))).into_bytes()),
                ScriptStep::WaitFor(Arc::clone(input_received)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&response))).into_bytes()),
            ])
        }
        "tools/call" if params["task"].is_object() => result_response(hit, "", &json!({"task": task})),
        "tasks/get" | "tasks/cancel" => result_response(hit, "", &task),
        "tasks/list" => result_response(hit, "", &json!({"tasks": [task]})),
        "tasks/result" => {
            let related = json!({"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}});
            result_response(hit, "", &json!({"content": [{"type": "text", "text": "slept"}], "_meta": related}))
        }
        "resources/read" => result_response(hit, "", &json!({"contents": [{"uri": params["uri"], "text": "one"}]})),
        _ if hit.request_line.starts_with("GET") => {
            let events = [
                notification("notifications/tools/list_changed", &json!({})),
                notification("notifications/resources/updated", &json!({"uri": "note://1"})),
                notification("notifications/resources/updated", &json!({"uri": "note://shut"})),
            ];
            let mut script = vec![ScriptStep::Pause(Duration::from_millis(300))];
            script.extend(event_response(&events.concat()));
            Some(script)
        }
        _ => None,
    }
}

async fn two_servers() -> (FakeUpstream, FakeUpstream, TestGateway) {
    let tools = json!([tool_definition("ask"), tool_definition("sleep")]);
    let upstream = FakeUpstream::start(tools.clone(), stateful_server()).await;
    let zoo = FakeUpstream::start(tools, stateful_server()).await;
    let builder = TestGateway::builder().policy(OPEN).at_aggregate().with_server("zoo", &zoo.url(), OPEN);
    let gw = builder.start(&upstream).await;
    (upstream, zoo, gw)
}

/// Opens a notification stream and returns what arrives within `time`.
async fn read_stream(gw: &TestGateway, verb: &str, body: &str, time: Duration) -> String {
    let mut stream = start_request(gw, verb, body, &stream_headers(gw, verb)).await;
    let mut raw = Vec::new();
    let _ = tokio::time::timeout(time, stream.read_to_end(&mut raw)).await;
    String::from_utf8_lossy(&raw).into_owned()
}

/// Reads up to the end of the event that contains `text`.
async fn read_event(stream: &mut TcpStream, text: &str) -> String {
    let mut raw = String::new();
    let reading = async {
        while raw.find(text).is_none_or(|at| !raw[at..].contains("\n\n")) {
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).await.expect("readable");
            assert!(read > 0, "the stream ended before {text}: {raw}");
            raw += &String::from_utf8_lossy(&buffer[..read]);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), reading).await.expect("the event arrives in time");
    raw
}

/// Sends a request and returns the connection.
async fn start_request(gw: &TestGateway, verb: &str, body: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let bearer = gw.token.reveal();
    let head = format!(
        "{verb} /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {bearer}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        gw.address,
        body.len()
    );
    stream.write_all(format!("{head}{headers}\r\n{body}").as_bytes()).await.expect("sent");
    stream
}

fn stream_headers(gw: &TestGateway, verb: &str) -> String {
    match verb {
        "GET" => format!("Mcp-Session-Id: {}\r\n", gw.session()),
        _ => format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: subscriptions/listen\r\n"),
    }
}

fn messages(raw: &str) -> Vec<Value> {
    let data = raw.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

#[tokio::test]
async fn the_response_to_an_elicitation_reaches_only_the_server_that_asked() {
    let (upstream, zoo, gw) = two_servers().await;
    gw.initialize().await;
    let params = json!({"name": "zoo__ask", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    let mut stream = start_request(&gw, "POST", &call, &format!("Mcp-Session-Id: {}\r\n", gw.session())).await;
    let elicitation = messages(&read_event(&mut stream, "elicitation/create").await).remove(0);
    assert_eq!(elicitation["params"]["_meta"]["progressToken"], "zoo__7");
    gw.send(&json!({"jsonrpc": "2.0", "id": "gl-none", "result": {}})).await;
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "zoo__7", "progress": 1}});
    assert_eq!(gw.send(&progress).await.status, 202);
    let input = json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": {"action": "accept"}});
    assert_eq!(gw.send(&input).await.status, 202);
    let done = messages(&read_event(&mut stream, "\"result\"").await).remove(0);
    assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(7), &json!("done")));
    let forwarded =
        zoo.requests().iter().map(RecordedRequest::message).filter(|message| message["id"] == 77).collect::<Vec<_>>();
    assert_eq!(forwarded, [json!({"jsonrpc": "2.0", "id": 77, "result": {"action": "accept"}})]);
    let progress =
        zoo.requests().iter().find(|hit| hit.method() == "notifications/progress").expect("progress").message();
    assert_eq!(progress["params"]["progressToken"], 7);
    let strays =
        upstream.requests().into_iter().filter(|hit| hit.message()["id"] == 77 || hit.method().contains("progress"));
    assert_eq!(strays.count(), 0);
}

#[tokio::test]
async fn a_stateless_client_is_asked_by_the_result_and_resumes_under_the_same_name() {
    let (upstream, zoo, gw) = two_servers().await;
    let call = |more: Value| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
        let mut params = json!({"name": "zoo__ask", "_meta": meta});
        for (key, value) in more.as_object().expect("members") {
            params[key] = value.clone();
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let gw = &gw;
        async move {
            let headers = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "zoo__ask")];
            gw.post(&headers, &body).await.message()["result"].clone()
        }
    };
    let suspended = call(json!({})).await;
    assert_eq!(suspended["inputRequests"]["ask"]["params"]["message"], "really?", "{suspended}");
    let responses = json!({"ask": {"action": "accept", "content": {}}});
    let done = call(json!({"requestState": suspended["requestState"], "inputResponses": responses})).await;
    assert_eq!(done["content"][0]["text"], "done");
    assert_eq!((upstream.calls().len(), zoo.calls().len()), (0, 1));
}

#[tokio::test]
async fn a_cancellation_reaches_only_the_server_of_the_call() {
    let (upstream, zoo, gw) = two_servers().await;
    gw.initialize().await;
    let calling = gw.call("zoo__ask", json!({}));
    let cancelling = async {
        super::support::wait_until("the call arrives", || zoo.calls().len() == 1).await;
        let params = json!({"requestId": 7});
        gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await
    };
    let (_, cancelled) = tokio::join!(calling, cancelling);
    assert_eq!(cancelled.status, 202);
    let call = zoo.calls()[0].message()["id"].clone();
    let cancellation =
        zoo.requests().iter().find(|hit| hit.method() == "notifications/cancelled").expect("forwarded").message();
    assert_eq!(cancellation["params"]["requestId"], call);
    assert!(!upstream.requests().iter().any(|hit| hit.method() == "notifications/cancelled"));
}

#[tokio::test]
async fn a_stateful_client_is_notified_by_all_servers() {
    let (upstream, _, gw) = two_servers().await;
    gw.initialize().await;
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x-desk+note://1"}});
    assert_eq!(gw.send(&subscribe).await.message()["result"], json!({}));
    let forwarded =
        upstream.requests().iter().find(|hit| hit.method() == "resources/subscribe").expect("forwarded").message();
    assert_eq!(forwarded["params"]["uri"], "note://1");
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "info"}});
    assert_eq!(gw.send(&level).await.message()["result"], json!({}));
    assert!(upstream.requests().iter().any(|hit| hit.method() == "logging/setLevel"));
    let raw = read_stream(&gw, "GET", "", Duration::from_millis(1_800)).await;
    let messages = messages(&raw);
    let uris: Vec<&str> = messages.iter().filter_map(|message| message["params"]["uri"].as_str()).collect();
    for uri in ["x-desk+note://1", "x-zoo+note://1"] {
        assert!(uris.contains(&uri), "{raw}");
    }
    assert!(!uris.iter().any(|uri| uri.contains("shut")), "no updates of resources that the policy denies");
    assert!(messages.iter().any(|message| message["method"] == "notifications/tools/list_changed"));
    assert!(raw.contains("\nid: "), "the stream is resumable: {raw}");
}

#[tokio::test]
async fn a_stateless_client_listens_to_all_servers_by_one_request() {
    let (upstream, zoo, gw) = two_servers().await;
    let listen = |uris: Value| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
        let notifications = json!({"toolsListChanged": true, "resourceSubscriptions": uris});
        json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": {"notifications": notifications, "_meta": meta}})
            .to_string()
    };
    let raw = read_stream(&gw, "POST", &listen(json!(["x-zoo+note://1"])), Duration::from_millis(2_000)).await;
    let received = messages(&raw);
    assert_eq!(received[0]["method"], "notifications/subscriptions/acknowledged", "{raw}");
    let acknowledged = json!({"toolsListChanged": true, "resourceSubscriptions": ["x-zoo+note://1"]});
    assert_eq!(received[0]["params"]["notifications"], acknowledged);
    for message in &received {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l", "{message}");
    }
    assert!(received.iter().any(|message| message["method"] == "notifications/tools/list_changed"));
    let uris: Vec<&str> = received.iter().filter_map(|message| message["params"]["uri"].as_str()).collect();
    assert!(!uris.is_empty() && uris.iter().all(|uri| *uri == "x-zoo+note://1"), "{uris:?}");
    let subscribed =
        |upstream: &FakeUpstream| upstream.requests().iter().any(|hit| hit.method() == "resources/subscribe");
    assert_eq!((subscribed(&upstream), subscribed(&zoo)), (false, true));
    for denied in ["note://1", "x-other+note://1", "x-zoo+note://shut"] {
        let raw = read_stream(&gw, "POST", &listen(json!([denied])), Duration::from_millis(1_000)).await;
        assert_eq!(messages(&raw)[0]["params"]["notifications"], json!({"toolsListChanged": true}), "{denied}: {raw}");
        assert!(!raw.contains("resources/updated"), "{denied}: {raw}");
    }
}

#[tokio::test]
async fn a_task_id_has_the_prefix_of_its_server_and_requests_reach_only_that_server() {
    let (upstream, zoo, gw) = two_servers().await;
    gw.initialize().await;
    let request = |method: &'static str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let gw = &gw;
        async move { gw.send(&message).await.message() }
    };
    let created = request("tools/call", json!({"name": "zoo__sleep", "task": {"ttl": 60000}})).await;
    assert_eq!(created["result"]["task"]["taskId"], "zoo__t1", "{created}");
    assert_eq!(request("tasks/get", json!({"taskId": "zoo__t1"})).await["result"]["taskId"], "zoo__t1");
    let error = request("tasks/get", json!({"taskId": "desk__t1"})).await["error"].clone();
    let expected = json!({"code": -32602, "message": "Unknown task: `desk__t1`"});
    assert_eq!(error, expected, "that server has no task");
    let result = request("tasks/result", json!({"taskId": "zoo__t1"})).await;
    assert_eq!(result["result"]["content"][0]["text"], "slept");
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], "zoo__t1");
    let list = request("tasks/list", json!({})).await;
    assert_eq!(list["result"]["tasks"].as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(list["result"]["tasks"][0]["taskId"], "zoo__t1");
    let task_requests =
        |upstream: &FakeUpstream| upstream.requests().iter().filter(|hit| hit.method() == "tasks/get").count();
    assert_eq!((task_requests(&upstream), task_requests(&zoo)), (0, 1));
}

#[tokio::test]
async fn a_resource_is_read_from_the_server_of_its_prefix() {
    let (upstream, zoo, gw) = two_servers().await;
    gw.initialize().await;
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "x-zoo+note://1"}});
    assert_eq!(gw.send(&read).await.message()["result"]["contents"][0]["uri"], "x-zoo+note://1");
    let reads =
        |upstream: &FakeUpstream| upstream.requests().iter().filter(|hit| hit.method() == "resources/read").count();
    assert_eq!((reads(&upstream), reads(&zoo)), (0, 1));
    gw.assert_stops_promptly().await;
}
