//! Configuration changes while a client listens: it gets `list_changed` for the lists that were advertised, and the
//! stream goes on under the new policy. A client without a grant gets nothing more.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatelodge_gateway::PinningSettings;
use gatelodge_policy::Category;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SseTestClient, TestGateway, json_response,
    tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use super::support::{start_in_session, wait_until};

const VERSION: &str = "2026-07-28";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const INITIAL_POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"note://*":{}}}"#;
const NARROWER_POLICY: &str = r#"{"version":"1","default":"deny","tools":{"read":{}},"resources":{"note://1":{}}}"#;
const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// Protocol generation and transport of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Session,
    Stateless,
    Sse,
    Stdio,
    StatelessStdio,
}

impl Client {
    fn is_stateless(self) -> bool {
        matches!(self, Self::Stateless | Self::StatelessStdio)
    }
}

/// Starts a server that sends resource updates on `send_updates`. `tools_capability` is what it advertises for tools.
async fn start_server(is_stateless: bool, tools_capability: Value, send_updates: &Arc<Notify>) -> FakeUpstream {
    start_server_with(is_stateless, tools_capability, send_updates, "s-1", &Arc::default()).await
}

/// Like [`start_server`], with a session id of its own; it knows no other. While `is_down`, it responds with 503.
async fn start_server_with(
    is_stateless: bool,
    tools_capability: Value,
    send_updates: &Arc<Notify>,
    session: &'static str,
    is_down: &Arc<AtomicBool>,
) -> FakeUpstream {
    let (send_updates, is_down) = (Arc::clone(send_updates), Arc::clone(is_down));
    let capabilities = json!({"tools": tools_capability, "prompts": {}, "resources": {"subscribe": true}});
    let handler = move |hit: &RecordedRequest| {
        let id = hit.message()["id"].clone();
        let respond = |headers: &str, result: Value| {
            Some(json_response("200 OK", headers, &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()))
        };
        let is_listen = hit.method() == "subscriptions/listen";
        let is_foreign = hit.header("mcp-session-id").is_some_and(|id| id != session);
        match hit.method().as_str() {
            _ if is_down.load(Ordering::Acquire) => Some(json_response("503 Service Unavailable", "", "{}")),
            _ if is_foreign => Some(json_response("404 Not Found", "", "{}")),
            "initialize" if !is_stateless => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}});
                respond(&format!("mcp-session-id: {session}\r\n"), result)
            }
            "initialize" => {
                let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no sessions"}}"#;
                Some(json_response("400 Bad Request", "", body))
            }
            "server/discover" if is_stateless => respond(
                "",
                json!({"resultType": "complete", "supportedVersions": [VERSION], "capabilities": capabilities}),
            ),
            _ if is_listen || (!is_stateless && hit.request_line.starts_with("GET")) => {
                Some(update_stream(&send_updates, is_listen.then_some(&id)))
            }
            _ => None,
        }
    };
    FakeUpstream::start(json!([tool_definition("read"), tool_definition("wipe")]), handler).await
}

/// Returns an event stream: the acknowledgement for a listen, and updates of two resources on `send_updates`.
fn update_stream(send_updates: &Arc<Notify>, listen_id: Option<&Value>) -> ResponseScript {
    let meta = json!({SUBSCRIPTION: listen_id});
    let notification = |method: &str, mut params: Value| {
        if listen_id.is_some() {
            params["_meta"] = meta.clone();
        }
        format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": method, "params": params}))
    };
    let acknowledged = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["note://1"]}});
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let first =
        listen_id.map(|_| notification("notifications/subscriptions/acknowledged", acknowledged)).unwrap_or_default();
    let updated = ["note://2", "note://1"].map(|uri| notification(UPDATED, json!({"uri": uri}))).concat();
    vec![
        ScriptStep::Write(format!("{head}{first}").into_bytes()),
        ScriptStep::WaitFor(Arc::clone(send_updates)),
        ScriptStep::Write(updated.into_bytes()),
        ScriptStep::Pause(Duration::from_secs(30)),
    ]
}

/// Messages that a client receives, over any transport.
struct MessageReader {
    messages: mpsc::UnboundedReceiver<Value>,
    /// Standard input of a stdio connection.
    input: Option<DuplexStream>,
}

impl MessageReader {
    fn new(stream: impl AsyncRead + Send + Unpin + 'static, input: Option<DuplexStream>) -> Self {
        let (sender, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // The last chunk is empty; the connection may stay open.
                if line == "0" {
                    return;
                }
                let text = line.strip_prefix("data: ").unwrap_or(&line);
                if let Ok(message @ Value::Object(_)) = serde_json::from_str(text) {
                    let _ = sender.send(message);
                }
            }
        });
        Self { messages, input }
    }

    async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(Duration::from_secs(5), self.messages.recv()).await;
        next.unwrap_or_else(|_| panic!("no message in time")).expect("the stream is open")
    }

    /// Returns the methods of the messages that arrive until none arrives for 1.3 s.
    async fn drain_methods(&mut self) -> Vec<String> {
        let mut methods = Vec::new();
        while let Ok(Some(message)) = tokio::time::timeout(Duration::from_millis(1_300), self.messages.recv()).await {
            methods.push(message["method"].as_str().unwrap_or_default().to_owned());
        }
        methods
    }

    /// Asserts that the stream ends without another message.
    async fn assert_ends(&mut self) {
        let last = tokio::time::timeout(Duration::from_secs(3), self.messages.recv()).await;
        assert_eq!(last.expect("the stream ends"), None);
    }
}

fn listen_request(uris: &Value) -> Value {
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    let notifications = json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": uris});
    json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": {"notifications": notifications, "_meta": meta}})
}

fn subscribe_request(uris: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "s", "method": "resources/subscribe", "params": {"uri": uris[0]}})
}

/// Opens the notification stream of a client, and waits until it and the upstream stream are open.
async fn listen(gw: &TestGateway, client: Client, path: &str) -> MessageReader {
    let uris = if path == "/mcp" { json!(["x-desk+note://1"]) } else { json!(["note://1"]) };
    let mut reader = match client {
        Client::Session => {
            gw.initialize().await;
            gw.send(&subscribe_request(&uris)).await;
            listen_over_http(gw, path, None).await
        }
        Client::Stateless => listen_over_http(gw, path, Some(&listen_request(&uris))).await,
        Client::Sse => listen_over_sse(gw, &uris).await,
        Client::Stdio | Client::StatelessStdio => listen_over_stdio(gw, client, &uris).await,
    };
    if client.is_stateless() {
        let first = reader.next().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{client:?}: {first}");
    }
    // Time for the gateway to open the upstream stream.
    tokio::time::sleep(Duration::from_millis(700)).await;
    reader
}

async fn listen_over_http(gw: &TestGateway, path: &str, request: Option<&Value>) -> MessageReader {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let body = request.map(Value::to_string).unwrap_or_default();
    let (verb, headers) = match request {
        Some(_) => ("POST", format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: subscriptions/listen\r\n")),
        None => ("GET", format!("Mcp-Session-Id: {}\r\n", gw.session())),
    };
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        gw.token.reveal(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    MessageReader::new(stream, None)
}

async fn listen_over_sse(gw: &TestGateway, uris: &Value) -> MessageReader {
    let mut client = SseTestClient::open_initialized(gw, "2025-11-25").await;
    client.post(&subscribe_request(uris).to_string()).await;
    client.next_event().await.expect("a response");
    let (sender, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // `next_event` panics after 5 s of silence, which may happen here; that ends only this task.
        while let Some((_, data)) = client.next_event().await {
            let _ = sender.send(serde_json::from_str(&data).expect("JSON"));
        }
    });
    MessageReader { messages, input: None }
}

async fn listen_over_stdio(gw: &TestGateway, client: Client, uris: &Value) -> MessageReader {
    let (mut stdin, input) = tokio::io::duplex(64 << 10);
    let (output, responses) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let first = match client {
        Client::StatelessStdio => listen_request(uris),
        _ => json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
    };
    stdin.write_all(format!("{first}\n").as_bytes()).await.expect("sent");
    let mut reader = MessageReader::new(responses, Some(stdin));
    if client == Client::Stdio {
        assert_eq!(reader.next().await["id"], 0);
        let stdin = reader.input.as_mut().expect("a stdio client");
        stdin.write_all(format!("{}\n", subscribe_request(uris)).as_bytes()).await.expect("sent");
        assert_eq!(reader.next().await["id"], "s");
    }
    reader
}

/// Starts a server and a gateway in front of it. Also returns what makes the server send updates.
async fn start(is_stateless: bool, tools_capability: Value, path: &str) -> (FakeUpstream, TestGateway, Arc<Notify>) {
    let send_updates = Arc::new(Notify::new());
    let upstream = start_server(is_stateless, tools_capability, &send_updates).await;
    let builder = TestGateway::builder().policy(INITIAL_POLICY);
    let builder = if path == "/mcp" { builder.at_aggregate() } else { builder };
    let gw = builder.start(&upstream).await;
    (upstream, gw, send_updates)
}

/// Asserts that a client gets `list_changed` after a policy change, then updates that the new policy allows, and nothing
/// after its grant was removed.
async fn assert_notified_and_continued(client: Client, is_stateless: bool, path: &str) {
    let case = format!("{client:?} at {path}, stateless server: {is_stateless}");
    let (_upstream, gw, send_updates) = start(is_stateless, json!({"listChanged": true}), path).await;
    let mut reader = listen(&gw, client, path).await;
    gw.add_grant("another", INITIAL_POLICY);
    assert_eq!(reader.drain_methods().await, [""; 0], "{case}: a change of another grant");

    gw.put_policy("desk", NARROWER_POLICY);
    let first = reader.next().await;
    if client.is_stateless() {
        assert_eq!(first["params"]["_meta"][SUBSCRIPTION], "l", "{case}: {first}");
    }
    let mut methods = vec![first["method"].as_str().unwrap_or_default().to_owned()];
    methods.extend(reader.drain_methods().await);
    let advertised: &[&str] = match (path, client) {
        ("/mcp", Client::Stateless) => &[TOOLS, PROMPTS],
        ("/mcp", _) => &[TOOLS, PROMPTS, RESOURCES],
        _ => &[TOOLS],
    };
    assert_eq!(methods, advertised, "{case}: each advertised list once");

    send_updates.notify_waiters();
    let update = reader.next().await;
    let uri = if path == "/mcp" { "x-desk+note://1" } else { "note://1" };
    assert_eq!(
        (update["method"].as_str(), update["params"]["uri"].as_str()),
        (Some(UPDATED), Some(uri)),
        "{case}: {update}"
    );

    gw.change_grants(Vec::clear);
    match client {
        Client::Stdio => assert_eq!(reader.drain_methods().await, [""; 0], "{case}"),
        Client::StatelessStdio => {
            let last = reader.next().await;
            assert_eq!((&last["id"], &last["error"]["code"]), (&json!("l"), &json!(-32600)), "{case}: {last}");
            assert!(last["error"]["message"].as_str().is_some_and(|why| why.contains("grant")), "{case}: {last}");
            assert_eq!(reader.drain_methods().await, [""; 0], "{case}");
        }
        _ => reader.assert_ends().await,
    }
}

#[tokio::test]
async fn a_stateful_client_is_notified_of_a_policy_change() {
    for is_stateless in [false, true] {
        assert_notified_and_continued(Client::Session, is_stateless, "/mcp/desk").await;
    }
}

#[tokio::test]
async fn a_stateless_client_is_notified_of_a_policy_change() {
    for is_stateless in [false, true] {
        assert_notified_and_continued(Client::Stateless, is_stateless, "/mcp/desk").await;
    }
}

#[tokio::test]
async fn an_http_sse_client_is_notified_of_a_policy_change() {
    for is_stateless in [false, true] {
        assert_notified_and_continued(Client::Sse, is_stateless, "/mcp/desk").await;
    }
}

#[tokio::test]
async fn a_stdio_client_is_notified_of_a_policy_change() {
    for (client, is_stateless) in
        [(Client::Stdio, false), (Client::Stdio, true), (Client::StatelessStdio, false), (Client::StatelessStdio, true)]
    {
        assert_notified_and_continued(client, is_stateless, "/mcp/desk").await;
    }
}

#[tokio::test]
async fn a_client_of_the_aggregate_endpoint_is_notified_of_a_policy_change() {
    for (client, is_stateless) in
        [(Client::Session, false), (Client::Session, true), (Client::Stateless, false), (Client::Stateless, true)]
    {
        assert_notified_and_continued(client, is_stateless, "/mcp").await;
    }
}

#[tokio::test]
async fn a_client_is_not_notified_of_lists_that_the_server_does_not_advertise() {
    for tools_capability in [json!({}), json!({"listChanged": false})] {
        let (_upstream, gw, _) = start(false, tools_capability, "/mcp/desk").await;
        let mut reader = listen(&gw, Client::Session, "/mcp/desk").await;
        gw.put_policy("desk", NARROWER_POLICY);
        assert_eq!(reader.drain_methods().await, [""; 0]);
    }
}

#[tokio::test]
async fn a_client_that_reconnects_after_a_restart_is_notified_of_advertised_lists() {
    for is_stateless in [false, true] {
        let (_upstream, mut gw, _) = start(is_stateless, json!({"listChanged": true}), "/mcp/desk").await;
        gw.initialize().await;
        gw.restart().await;
        let mut reader = listen_over_http(&gw, "/mcp/desk", None).await;
        // Time for the gateway to open the upstream stream.
        tokio::time::sleep(Duration::from_millis(700)).await;
        gw.put_policy("desk", NARROWER_POLICY);
        assert_eq!(reader.drain_methods().await, [TOOLS], "{is_stateless}");
    }
}

#[tokio::test]
async fn replacing_a_server_notifies_clients_of_changed_lists() {
    for client in [Client::Session, Client::Stateless] {
        let (_upstream, gw, _) = start(false, json!({"listChanged": true}), "/mcp/desk").await;
        let other = FakeUpstream::with_tools(&["other"]).await;
        let mut reader = listen(&gw, client, "/mcp/desk").await;
        gw.put_server("desk", &other.url());
        assert_eq!(reader.next().await["method"], TOOLS, "{client:?}");
        if client == Client::Stateless {
            // The protocol generation of the new server is detected when the client listens again.
            reader.assert_ends().await;
            continue;
        }
        let list = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.message();
        assert_eq!(list["result"]["tools"][0]["name"], "other", "{list}");
        assert_eq!(reader.drain_methods().await, [""; 0]);
    }
}

#[tokio::test]
async fn a_pending_notification_is_sent_when_the_server_is_available_again() {
    for is_stateless in [false, true] {
        let is_down = Arc::new(AtomicBool::new(false));
        let upstream =
            start_server_with(is_stateless, json!({"listChanged": true}), &Arc::default(), "s-1", &is_down).await;
        let mut gw = TestGateway::with_policy(INITIAL_POLICY, &upstream).await;
        gw.initialize().await;
        is_down.store(true, Ordering::Release);
        gw.restart().await;
        let mut reader = listen_over_http(&gw, "/mcp/desk", None).await;
        // Time for the gateway to try to open the upstream stream.
        tokio::time::sleep(Duration::from_millis(700)).await;
        gw.put_policy("desk", NARROWER_POLICY);
        assert_eq!(reader.drain_methods().await, [""; 0], "{is_stateless}: the advertised lists are not known");
        is_down.store(false, Ordering::Release);
        assert_eq!(reader.next().await["method"], TOOLS, "{is_stateless}");
        assert_eq!(reader.drain_methods().await, [""; 0], "{is_stateless}: once");
    }
}

#[tokio::test]
async fn a_server_at_a_new_url_is_initialized_before_its_stream_is_opened() {
    for (client, path) in [
        (Client::Session, "/mcp/desk"),
        (Client::Sse, "/mcp/desk"),
        (Client::Stdio, "/mcp/desk"),
        (Client::Session, "/mcp"),
    ] {
        let case = format!("{client:?} at {path}");
        let (_upstream, gw, _) = start(false, json!({"listChanged": true}), path).await;
        let send_updates = Arc::new(Notify::new());
        let other = start_server_with(false, json!({"listChanged": true}), &send_updates, "s-2", &Arc::default()).await;
        let mut reader = listen(&gw, client, path).await;
        gw.put_server("desk", &other.url());
        assert_eq!(reader.next().await["method"], TOOLS, "{case}");
        reader.drain_methods().await;
        let hits = other.requests();
        assert!(
            hits.iter().all(|hit| hit.header("mcp-session-id") != Some("s-1")),
            "{case}: the session of the old server is not used"
        );
        let streams = hits
            .iter()
            .filter(|hit| hit.request_line.starts_with("GET") && hit.header("mcp-session-id") == Some("s-2"));
        assert_eq!(streams.count(), 1, "{case}: {hits:?}");
        send_updates.notify_waiters();
        assert_eq!(reader.next().await["method"], UPDATED, "{case}");
        if client == Client::Session && path == "/mcp/desk" {
            let response = gw.call("read", json!({"n": 1})).await;
            assert_eq!(response.text(), r#"{"n":1}"#, "calls go to the new server");
        }
    }
}

#[tokio::test]
async fn accepting_or_classifying_tools_notifies_clients() {
    let pinning = PinningSettings { review: true, ..PinningSettings::default() };
    for (client, path) in [
        (Client::Session, "/mcp/desk"),
        (Client::Stateless, "/mcp/desk"),
        (Client::Sse, "/mcp/desk"),
        (Client::Stdio, "/mcp/desk"),
        (Client::Session, "/mcp"),
        (Client::Stateless, "/mcp"),
    ] {
        let case = format!("{client:?} at {path}");
        let upstream = start_server(false, json!({"listChanged": true}), &Arc::default()).await;
        let builder = TestGateway::builder().policy(INITIAL_POLICY).pinning(pinning);
        let builder = if path == "/mcp" { builder.at_aggregate() } else { builder };
        let gw = builder.start(&upstream).await;
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(gw.send(&list).await.message()["result"]["tools"], json!([]), "{case}");
        let mut reader = listen(&gw, client, path).await;
        gw.change_grants(|_| ());
        // Time for a wrong notification to arrive.
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(reader.messages.is_empty(), "{case}: nothing has changed");
        gw.accept_all().await;
        assert_eq!(reader.next().await["method"], TOOLS, "{case}: accepted");
        assert!(!reader.drain_methods().await.contains(&TOOLS.to_owned()), "{case}: once");
        gw.classify_tool("wipe", Category::Destructive, false).await;
        assert_eq!(reader.next().await["method"], TOOLS, "{case}: classified");
    }
}

#[tokio::test]
async fn accepting_tools_after_a_restart_notifies_clients_before_any_list_request() {
    let pinning = PinningSettings { review: true, ..PinningSettings::default() };
    let upstream = start_server(false, json!({"listChanged": true}), &Arc::default()).await;
    let mut gw = TestGateway::builder().policy(INITIAL_POLICY).pinning(pinning).start(&upstream).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(gw.send(&list).await.message()["result"]["tools"], json!([]));
    gw.restart().await;
    let list_requests = || upstream.requests().iter().filter(|hit| hit.method() == "tools/list").count();
    let before = list_requests();
    let mut reader = listen(&gw, Client::Session, "/mcp/desk").await;
    gw.accept_all().await;
    assert_eq!(reader.next().await["method"], TOOLS, "accepted");
    assert_eq!(list_requests(), before, "no list was requested since the restart");
}

#[tokio::test]
async fn adding_a_server_to_the_aggregate_endpoint_notifies_clients_and_opens_its_stream() {
    for client in [Client::Session, Client::Stateless] {
        let (_upstream, gw, send_updates) = start(false, json!({"listChanged": true}), "/mcp").await;
        let zoo = start_server(false, json!({}), &send_updates).await;
        let mut reader = listen(&gw, client, "/mcp").await;
        gw.put_server("zoo", &zoo.url());
        gw.put_policy("zoo", INITIAL_POLICY);
        assert_eq!(reader.next().await["method"], TOOLS, "{client:?}");
        let is_open = || zoo.requests().iter().any(|hit| hit.request_line.starts_with("GET"));
        wait_until(&format!("{client:?}: the stream of the new server is opened"), is_open).await;
    }
}

#[tokio::test]
async fn a_listen_ends_when_the_policy_no_longer_allows_its_resource() {
    let shut = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
    for (path, is_stateless) in [("/mcp/desk", false), ("/mcp/desk", true), ("/mcp", false)] {
        let (_upstream, gw, send_updates) = start(is_stateless, json!({"listChanged": true}), path).await;
        let mut reader = listen(&gw, Client::Stateless, path).await;
        gw.put_policy("desk", shut);
        assert_eq!(reader.next().await["method"], TOOLS, "{path} {is_stateless}");
        send_updates.notify_waiters();
        if path == "/mcp" {
            assert_eq!(reader.next().await["method"], PROMPTS);
        }
        reader.assert_ends().await;
    }
}

/// Asserts that a listen over stdio ends with its result: the connection stays open, so only the result can end it.
async fn assert_listen_result(reader: &mut MessageReader, case: &str) {
    let last = reader.next().await;
    let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION: "l"}});
    assert_eq!(last, json!({"jsonrpc": "2.0", "id": "l", "result": result}), "{case}");
    assert_eq!(reader.drain_methods().await, [""; 0], "{case}: nothing follows");
}

#[tokio::test]
async fn a_stdio_listen_that_must_end_gets_its_result() {
    let shut = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
    for is_stateless in [false, true] {
        let (_upstream, gw, _) = start(is_stateless, json!({"listChanged": true}), "/mcp/desk").await;
        let mut reader = listen(&gw, Client::StatelessStdio, "/mcp/desk").await;
        gw.put_policy("desk", shut);
        assert_eq!(reader.next().await["method"], TOOLS, "{is_stateless}");
        assert_listen_result(&mut reader, &format!("the policy denies its resource; stateless server: {is_stateless}"))
            .await;

        let (_upstream, gw, _) = start(is_stateless, json!({"listChanged": true}), "/mcp/desk").await;
        let mut reader = listen(&gw, Client::StatelessStdio, "/mcp/desk").await;
        let other = FakeUpstream::with_tools(&["other"]).await;
        gw.put_server("desk", &other.url());
        assert_eq!(reader.next().await["method"], TOOLS, "{is_stateless}");
        assert_listen_result(&mut reader, &format!("the server is replaced; stateless server: {is_stateless}")).await;
    }
    let (upstream, gw, _) = start(true, json!({"listChanged": true}), "/mcp/desk").await;
    let mut reader = listen(&gw, Client::StatelessStdio, "/mcp/desk").await;
    upstream.stop();
    let last = reader.next().await;
    assert_eq!(last["id"], "l", "the listen also ends when the server stops: {last}");
}

#[tokio::test]
async fn a_stdio_listen_is_cancelled_by_its_id() {
    for is_stateless in [false, true] {
        let (_upstream, gw, send_updates) = start(is_stateless, json!({"listChanged": true}), "/mcp/desk").await;
        let mut reader = listen(&gw, Client::StatelessStdio, "/mcp/desk").await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l"}});
        let input = reader.input.as_mut().expect("a stdio client");
        input.write_all(format!("{cancel}\n").as_bytes()).await.expect("sent");
        // Time for the gateway to apply the cancellation, which has no response.
        tokio::time::sleep(Duration::from_millis(200)).await;
        send_updates.notify_waiters();
        gw.put_policy("desk", NARROWER_POLICY);
        assert_eq!(reader.drain_methods().await, [""; 0], "{is_stateless}: neither notifications nor a response");
    }
}

#[tokio::test]
async fn raising_the_minimum_revision_of_a_grant_ends_streams_of_older_revisions() {
    let (_upstream, gw, _) = start(false, json!({"listChanged": true}), "/mcp/desk").await;
    let mut reader = listen(&gw, Client::Session, "/mcp/desk").await;
    let mut sse_reader = listen(&gw, Client::Sse, "/mcp/desk").await;
    gw.change_grants(|grants| grants[0].minimum_revision = Some(gatelodge_mcp::Revision::R2026_07_28));
    reader.assert_ends().await;
    sse_reader.assert_ends().await;
}

/// Starts a server whose stream sends `count` numbered messages of `bytes` bytes each. It resumes after `Last-Event-ID`;
/// without that header, only the first stream gets messages.
async fn start_resumable_server(count: usize, bytes: usize) -> FakeUpstream {
    let is_first = AtomicBool::new(true);
    FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        if !hit.request_line.starts_with("GET") {
            return None;
        }
        let last = hit.header("last-event-id").and_then(|id| id.parse::<usize>().ok());
        let next = match last {
            Some(last) => last + 1,
            None if is_first.swap(false, Ordering::AcqRel) => 1,
            None => count + 1,
        };
        let mut script =
            vec![ScriptStep::Write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec())];
        script.extend((next..=count).map(|n| {
            let params = json!({"level": "info", "data": "x".repeat(bytes), "n": n});
            let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
            ScriptStep::Write(format!("id: {n}\ndata: {message}\n\n").into_bytes())
        }));
        script.push(ScriptStep::Pause(Duration::from_secs(60)));
        Some(script)
    })
    .await
}

/// Returns the numbers of the messages on a stream, up to `last`.
async fn read_numbers(stream: impl AsyncRead + Unpin, last: usize) -> Vec<usize> {
    let (mut lines, mut all) = (BufReader::new(stream).lines(), Vec::new());
    let reading = async {
        while all.last() != Some(&last) {
            let Ok(Some(line)) = lines.next_line().await else { return };
            let text = line.strip_prefix("data: ").unwrap_or(&line);
            let message: Value = serde_json::from_str(text).unwrap_or_default();
            all.extend(message["params"]["n"].as_u64().and_then(|n| usize::try_from(n).ok()));
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(20), reading).await;
    all
}

#[tokio::test]
async fn messages_during_a_policy_change_are_neither_lost_nor_duplicated() {
    let count = 150;
    let upstream = start_resumable_server(count, 4 << 10).await;
    let gw = TestGateway::with_policy(INITIAL_POLICY, &upstream).await;
    let (mut stdin, input) = tokio::io::duplex(64 << 10);
    let (output, responses) = tokio::io::duplex(16 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    stdin.write_all(format!("{initialize}\n").as_bytes()).await.expect("sent");
    // The client does not read, so that messages are in transit when the policy changes.
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    gw.put_policy("desk", NARROWER_POLICY);
    // Streams are revalidated twice a second; wait until this one has been.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(read_numbers(responses, count).await, (1..=count).collect::<Vec<_>>(), "over stdio");

    let count = 250;
    let upstream = start_resumable_server(count, 64 << 10).await;
    let gw = TestGateway::with_policy(INITIAL_POLICY, &upstream).await;
    gw.initialize().await;
    let stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    // Time to fill the buffers between the server and the client, which does not read.
    tokio::time::sleep(Duration::from_millis(3_000)).await;
    gw.put_policy("desk", NARROWER_POLICY);
    // As above.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(read_numbers(stream, count).await, (1..=count).collect::<Vec<_>>(), "on a standalone stream");
    assert!(
        upstream.requests().iter().any(|hit| hit.header("last-event-id").is_some()),
        "the upstream stream was interrupted and resumed"
    );
}
