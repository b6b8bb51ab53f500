//! `/mcp` beyond one answer: what servers ask, what they say to nobody in particular, and what goes on behind a task.
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

fn reply(hit: &RecordedRequest, head: &str, result: &Value) -> Option<ResponseScript> {
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
    Some(json_response("200 OK", head, &text))
}

fn said(method: &str, params: &Value) -> String {
    event(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// A server with sessions that asks, tells of changes, and has tasks.
fn old() -> impl Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync + 'static {
    let answered = Arc::new(Notify::new());
    move |hit| old_with(hit, &answered)
}

/// The same, which does not go on with what it asked about until it is answered.
fn old_with(hit: &RecordedRequest, answered: &Arc<Notify>) -> Option<ResponseScript> {
    let params = hit.message()["params"].clone();
    if hit.message()["id"] == 77 && hit.method().is_empty() {
        answered.notify_one();
    }
    let task = json!({"taskId": "t1", "status": "working", "ttl": 60000});
    match hit.method().as_str() {
        "initialize" => {
            let capabilities = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {},
                "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                "serverInfo": {"name": "old", "version": "1"}});
            reply(hit, "mcp-session-id: s-1\r\n", &result)
        }
        "tools/call" if hit.tool() == "ask" => {
            let question = json!({"jsonrpc": "2.0", "id": 77, "method": "elicitation/create", "params":
                {"message": "really?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": {"progressToken": 7}}});
            let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": [{"type": "text", "text": "done"}]}});
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = |text: String| format!("{:x}\r\n{text}\r\n", text.len());
            Some(vec![
                ScriptStep::Write(format!("{head}{}", chunk(event(&question))).into_bytes()),
                ScriptStep::WaitFor(Arc::clone(answered)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&answer))).into_bytes()),
            ])
        }
        "tools/call" if params["task"].is_object() => reply(hit, "", &json!({"task": task})),
        "tasks/get" | "tasks/cancel" => reply(hit, "", &task),
        "tasks/list" => reply(hit, "", &json!({"tasks": [task]})),
        "tasks/result" => {
            let related = json!({"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}});
            reply(hit, "", &json!({"content": [{"type": "text", "text": "slept"}], "_meta": related}))
        }
        "resources/read" => reply(hit, "", &json!({"contents": [{"uri": params["uri"], "text": "one"}]})),
        _ if hit.request_line.starts_with("GET") => {
            let events = [
                said("notifications/tools/list_changed", &json!({})),
                said("notifications/resources/updated", &json!({"uri": "note://1"})),
                said("notifications/resources/updated", &json!({"uri": "note://shut"})),
            ];
            let mut script = vec![ScriptStep::Pause(Duration::from_millis(300))];
            script.extend(event_response(&events.concat()));
            Some(script)
        }
        _ => None,
    }
}

async fn two() -> (FakeUpstream, FakeUpstream, TestGateway) {
    let tools = json!([tool_definition("ask"), tool_definition("sleep")]);
    let desk = FakeUpstream::start(tools.clone(), old()).await;
    let zoo = FakeUpstream::start(tools, old()).await;
    let builder = TestGateway::builder().policy(OPEN).at_aggregate().with_server("zoo", &zoo.url(), OPEN);
    let gw = builder.start(&desk).await;
    (desk, zoo, gw)
}

/// Opens a request and reads what comes of it for a while.
async fn heard(gw: &TestGateway, head: &str, body: &str, time: Duration) -> String {
    let mut stream = begun(gw, head, body, &extra(gw, head)).await;
    let mut raw = Vec::new();
    let _ = tokio::time::timeout(time, stream.read_to_end(&mut raw)).await;
    String::from_utf8_lossy(&raw).into_owned()
}

/// Reads on until there is a word in what comes, and the end of the event that has it.
async fn until(stream: &mut TcpStream, word: &str) -> String {
    let mut raw = String::new();
    let reading = async {
        while raw.find(word).is_none_or(|at| !raw[at..].contains("\n\n")) {
            let mut piece = [0; 4096];
            let read = stream.read(&mut piece).await.expect("the stream can be read");
            assert!(read > 0, "the stream is over: {raw}");
            raw += &String::from_utf8_lossy(&piece[..read]);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), reading).await.expect("it comes");
    raw
}

async fn begun(gw: &TestGateway, head: &str, body: &str, extra: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let bearer = gw.token.reveal();
    let text = format!(
        "{head} /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {bearer}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        gw.address,
        body.len()
    );
    stream.write_all(format!("{text}{extra}\r\n{body}").as_bytes()).await.expect("sent");
    stream
}

fn extra(gw: &TestGateway, head: &str) -> String {
    match head {
        "GET" => format!("Mcp-Session-Id: {}\r\n", gw.session()),
        _ => format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: subscriptions/listen\r\n"),
    }
}

fn messages(raw: &str) -> Vec<Value> {
    let data = raw.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

#[tokio::test]
async fn what_a_server_asks_is_answered_to_that_server() {
    let (desk, zoo, gw) = two().await;
    gw.initialize().await;
    let params = json!({"name": "zoo__ask", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    let mut stream = begun(&gw, "POST", &call, &format!("Mcp-Session-Id: {}\r\n", gw.session())).await;
    let question = messages(&until(&mut stream, "elicitation/create").await).remove(0);
    assert_eq!(question["params"]["_meta"]["progressToken"], "zoo__7");
    gw.send(&json!({"jsonrpc": "2.0", "id": "gl-none", "result": {}})).await;
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "zoo__7", "progress": 1}});
    assert_eq!(gw.send(&progress).await.status, 202);
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
    assert_eq!(gw.send(&answer).await.status, 202);
    let done = messages(&until(&mut stream, "\"result\"").await).remove(0);
    assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(7), &json!("done")));
    let told =
        zoo.requests().iter().map(RecordedRequest::message).filter(|message| message["id"] == 77).collect::<Vec<_>>();
    assert_eq!(told, [json!({"jsonrpc": "2.0", "id": 77, "result": {"action": "accept"}})]);
    let token = zoo.requests().iter().find(|hit| hit.method() == "notifications/progress").expect("progress").message();
    assert_eq!(token["params"]["progressToken"], 7);
    let strays =
        desk.requests().into_iter().filter(|hit| hit.message()["id"] == 77 || hit.method().contains("progress"));
    assert_eq!(strays.count(), 0);
}

#[tokio::test]
async fn a_client_without_a_session_is_asked_by_the_answer_and_comes_again_with_the_same_name() {
    let (desk, zoo, gw) = two().await;
    let ask = |more: Value| {
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
    let asked = ask(json!({})).await;
    assert_eq!(asked["inputRequests"]["ask"]["params"]["message"], "really?", "{asked}");
    let answers = json!({"ask": {"action": "accept", "content": {}}});
    let done = ask(json!({"requestState": asked["requestState"], "inputResponses": answers})).await;
    assert_eq!(done["content"][0]["text"], "done");
    assert_eq!((desk.calls().len(), zoo.calls().len()), (0, 1));
}

#[tokio::test]
async fn a_call_that_is_cancelled_is_cancelled_where_it_runs() {
    let (desk, zoo, gw) = two().await;
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
    let told = zoo.requests().iter().find(|hit| hit.method() == "notifications/cancelled").expect("told").message();
    assert_eq!(told["params"]["requestId"], call);
    assert!(!desk.requests().iter().any(|hit| hit.method() == "notifications/cancelled"));
}

#[tokio::test]
async fn a_client_with_a_session_hears_of_all_servers() {
    let (desk, _, gw) = two().await;
    gw.initialize().await;
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x-desk+note://1"}});
    assert_eq!(gw.send(&subscribe).await.message()["result"], json!({}));
    let told = desk.requests().iter().find(|hit| hit.method() == "resources/subscribe").expect("told").message();
    assert_eq!(told["params"]["uri"], "note://1");
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "info"}});
    assert_eq!(gw.send(&level).await.message()["result"], json!({}));
    assert!(desk.requests().iter().any(|hit| hit.method() == "logging/setLevel"));
    let raw = heard(&gw, "GET", "", Duration::from_millis(1_800)).await;
    let messages = messages(&raw);
    let uris: Vec<&str> = messages.iter().filter_map(|message| message["params"]["uri"].as_str()).collect();
    for uri in ["x-desk+note://1", "x-zoo+note://1"] {
        assert!(uris.contains(&uri), "{raw}");
    }
    assert!(!uris.iter().any(|uri| uri.contains("shut")), "what may not be read is not heard of");
    assert!(messages.iter().any(|message| message["method"] == "notifications/tools/list_changed"));
    assert!(raw.contains("\nid: "), "the client can come back: {raw}");
}

#[tokio::test]
async fn a_client_without_a_session_listens_to_all_servers_by_one_request() {
    let (desk, zoo, gw) = two().await;
    let listen = |uris: Value| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
        let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": uris});
        json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": {"notifications": wanted, "_meta": meta}})
            .to_string()
    };
    let raw = heard(&gw, "POST", &listen(json!(["x-zoo+note://1"])), Duration::from_millis(2_000)).await;
    let heard_of = messages(&raw);
    assert_eq!(heard_of[0]["method"], "notifications/subscriptions/acknowledged", "{raw}");
    let acknowledged = json!({"toolsListChanged": true, "resourceSubscriptions": ["x-zoo+note://1"]});
    assert_eq!(heard_of[0]["params"]["notifications"], acknowledged);
    for message in &heard_of {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l", "{message}");
    }
    assert!(heard_of.iter().any(|message| message["method"] == "notifications/tools/list_changed"));
    let uris: Vec<&str> = heard_of.iter().filter_map(|message| message["params"]["uri"].as_str()).collect();
    assert!(!uris.is_empty() && uris.iter().all(|uri| *uri == "x-zoo+note://1"), "{uris:?}");
    let subscribed =
        |upstream: &FakeUpstream| upstream.requests().iter().any(|hit| hit.method() == "resources/subscribe");
    assert_eq!((subscribed(&desk), subscribed(&zoo)), (false, true));
    for past in ["note://1", "x-other+note://1", "x-zoo+note://shut"] {
        let raw = heard(&gw, "POST", &listen(json!([past])), Duration::from_millis(1_000)).await;
        assert_eq!(messages(&raw)[0]["params"]["notifications"], json!({"toolsListChanged": true}), "{past}: {raw}");
        assert!(!raw.contains("resources/updated"), "{past}: {raw}");
    }
}

#[tokio::test]
async fn a_task_is_asked_for_at_the_server_that_has_it_under_a_name_of_its_own() {
    let (desk, zoo, gw) = two().await;
    gw.initialize().await;
    let ask = |method: &'static str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let gw = &gw;
        async move { gw.send(&message).await.message() }
    };
    let made = ask("tools/call", json!({"name": "zoo__sleep", "task": {"ttl": 60000}})).await;
    assert_eq!(made["result"]["task"]["taskId"], "zoo__t1", "{made}");
    assert_eq!(ask("tasks/get", json!({"taskId": "zoo__t1"})).await["result"]["taskId"], "zoo__t1");
    let none = ask("tasks/get", json!({"taskId": "desk__t1"})).await["error"].clone();
    let words = json!({"code": -32602, "message": "Unknown task: `desk__t1`"});
    assert_eq!(none, words, "it made none there");
    let result = ask("tasks/result", json!({"taskId": "zoo__t1"})).await;
    assert_eq!(result["result"]["content"][0]["text"], "slept");
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], "zoo__t1");
    let list = ask("tasks/list", json!({})).await;
    assert_eq!(list["result"]["tasks"].as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(list["result"]["tasks"][0]["taskId"], "zoo__t1");
    let asked = |upstream: &FakeUpstream| upstream.requests().iter().filter(|hit| hit.method() == "tasks/get").count();
    assert_eq!((asked(&desk), asked(&zoo)), (0, 1));
}

#[tokio::test]
async fn a_resource_is_read_where_it_is() {
    let (desk, zoo, gw) = two().await;
    gw.initialize().await;
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "x-zoo+note://1"}});
    assert_eq!(gw.send(&read).await.message()["result"]["contents"][0]["uri"], "x-zoo+note://1");
    let reads =
        |upstream: &FakeUpstream| upstream.requests().iter().filter(|hit| hit.method() == "resources/read").count();
    assert_eq!((reads(&desk), reads(&zoo)), (0, 1));
    gw.assert_stops_promptly().await;
}
