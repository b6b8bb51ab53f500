//! What is in force changes while a client listens: it is told that its lists are others, of what it was promised, and
//! goes on by the new policy. Whoever has no grant any more is told nothing.
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

use super::support::start_request_in_session;

const VERSION: &str = "2026-07-28";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const BEFORE: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"note://*":{}}}"#;
const AFTER: &str = r#"{"version":"1","default":"deny","tools":{"read":{}},"resources":{"note://1":{}}}"#;
const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// How a client speaks, and over what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Session,
    Stateless,
    Sse,
    Lines,
    StatelessLines,
}

impl Client {
    fn is_stateless(self) -> bool {
        matches!(self, Self::Stateless | Self::StatelessLines)
    }
}

/// A server that says something when it is told to, in one era or the other.
async fn server(is_modern: bool, promises: Value, speak: &Arc<Notify>) -> FakeUpstream {
    server_with(is_modern, promises, speak, "s-1", &Arc::default()).await
}

/// The same, which knows only sessions of its own, and is out of order while it is told so.
async fn server_with(
    is_modern: bool,
    promises: Value,
    speak: &Arc<Notify>,
    session: &'static str,
    is_down: &Arc<AtomicBool>,
) -> FakeUpstream {
    let (speak, is_down) = (Arc::clone(speak), Arc::clone(is_down));
    let able = json!({"tools": promises, "prompts": {}, "resources": {"subscribe": true}});
    let answer = move |hit: &RecordedRequest| {
        let id = hit.message()["id"].clone();
        let answered = |head: &str, result: Value| {
            Some(json_response("200 OK", head, &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()))
        };
        let listens = hit.method() == "subscriptions/listen";
        let is_foreign = hit.header("mcp-session-id").is_some_and(|own| own != session);
        match hit.method().as_str() {
            _ if is_down.load(Ordering::Acquire) => Some(json_response("503 Service Unavailable", "", "{}")),
            _ if is_foreign => Some(json_response("404 Not Found", "", "{}")),
            "initialize" if !is_modern => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": {"name": "s", "version": "1"}});
                answered(&format!("mcp-session-id: {session}\r\n"), result)
            }
            "initialize" => {
                let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"gone"}}"#;
                Some(json_response("400 Bad Request", "", body))
            }
            "server/discover" if is_modern => {
                answered("", json!({"resultType": "complete", "supportedVersions": [VERSION], "capabilities": able}))
            }
            _ if listens || (!is_modern && hit.request_line.starts_with("GET")) => {
                Some(says(&speak, listens.then_some(&id)))
            }
            _ => None,
        }
    };
    FakeUpstream::start(json!([tool_definition("read"), tool_definition("wipe")]), answer).await
}

/// A stream of events: what it begins with, and the changes of two resources when the server is told to speak.
fn says(speak: &Arc<Notify>, listener: Option<&Value>) -> ResponseScript {
    let meta = json!({SUBSCRIPTION: listener});
    let said = |method: &str, mut params: Value| {
        if listener.is_some() {
            params["_meta"] = meta.clone();
        }
        format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": method, "params": params}))
    };
    let promised = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["note://1"]}});
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let first = listener.map(|_| said("notifications/subscriptions/acknowledged", promised)).unwrap_or_default();
    let updated = ["note://2", "note://1"].map(|uri| said(UPDATED, json!({"uri": uri}))).concat();
    vec![
        ScriptStep::Write(format!("{head}{first}").into_bytes()),
        ScriptStep::WaitFor(Arc::clone(speak)),
        ScriptStep::Write(updated.into_bytes()),
        ScriptStep::Pause(Duration::from_secs(30)),
    ]
}

/// What a client hears, whatever it hears it by.
struct Ear {
    messages: mpsc::UnboundedReceiver<Value>,
    /// Its own end of standard streams.
    input: Option<DuplexStream>,
}

impl Ear {
    fn of(stream: impl AsyncRead + Send + Unpin + 'static, input: Option<DuplexStream>) -> Self {
        let (heard, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // The last chunk is empty; the connection may stay.
                if line == "0" {
                    return;
                }
                let text = line.strip_prefix("data: ").unwrap_or(&line);
                if let Ok(message @ Value::Object(_)) = serde_json::from_str(text) {
                    let _ = heard.send(message);
                }
            }
        });
        Self { messages, input }
    }

    async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(Duration::from_secs(5), self.messages.recv()).await;
        next.unwrap_or_else(|_| panic!("no message in time")).expect("the stream is open")
    }

    /// The methods of what comes until nothing comes for a while.
    async fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(Some(message)) = tokio::time::timeout(Duration::from_millis(1_300), self.messages.recv()).await {
            told.push(message["method"].as_str().unwrap_or_default().to_owned());
        }
        told
    }

    /// Nothing more comes, and the stream ends.
    async fn ends(&mut self) {
        let last = tokio::time::timeout(Duration::from_secs(3), self.messages.recv()).await;
        assert_eq!(last.expect("the stream ends"), None);
    }
}

fn listening(uris: &Value) -> Value {
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    let wanted = json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": uris});
    json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": {"notifications": wanted, "_meta": meta}})
}

fn subscribing(uris: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "s", "method": "resources/subscribe", "params": {"uri": uris[0]}})
}

/// Opens the stream by which a client hears, and waits until it does.
async fn listens(gw: &TestGateway, client: Client, path: &str) -> Ear {
    let uris = if path == "/mcp" { json!(["x-desk+note://1"]) } else { json!(["note://1"]) };
    let mut ear = match client {
        Client::Session => {
            gw.initialize().await;
            gw.send(&subscribing(&uris)).await;
            over_http(gw, path, None).await
        }
        Client::Stateless => over_http(gw, path, Some(&listening(&uris))).await,
        Client::Sse => by_sse(gw, &uris).await,
        Client::Lines | Client::StatelessLines => over_lines(gw, client, &uris).await,
    };
    if client.is_stateless() {
        let first = ear.next().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{client:?}: {first}");
    }
    // The server's own stream is there as well by then.
    tokio::time::sleep(Duration::from_millis(700)).await;
    ear
}

async fn over_http(gw: &TestGateway, path: &str, listening: Option<&Value>) -> Ear {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let body = listening.map(Value::to_string).unwrap_or_default();
    let (verb, own) = match listening {
        Some(_) => ("POST", format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: subscriptions/listen\r\n")),
        None => ("GET", format!("Mcp-Session-Id: {}\r\n", gw.session())),
    };
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n{own}Content-Length: {}\r\n\r\n{body}",
        gw.token.reveal(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    Ear::of(stream, None)
}

async fn by_sse(gw: &TestGateway, uris: &Value) -> Ear {
    let mut caller = SseTestClient::open_initialized(gw, "2025-11-25").await;
    caller.post(&subscribing(uris).to_string()).await;
    caller.next_event().await.expect("an answer");
    let (heard, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // A line within a few seconds is what the caller takes for granted; here it may be quiet.
        while let Some((_, data)) = caller.next_event().await {
            let _ = heard.send(serde_json::from_str(&data).expect("JSON"));
        }
    });
    Ear { messages, input: None }
}

async fn over_lines(gw: &TestGateway, client: Client, uris: &Value) -> Ear {
    let (mut own, input) = tokio::io::duplex(64 << 10);
    let (output, answers) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let first = match client {
        Client::StatelessLines => listening(uris),
        _ => json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
    };
    own.write_all(format!("{first}\n").as_bytes()).await.expect("it can be written");
    let mut ear = Ear::of(answers, Some(own));
    if client == Client::Lines {
        assert_eq!(ear.next().await["id"], 0);
        let own = ear.input.as_mut().expect("an end of its own");
        own.write_all(format!("{}\n", subscribing(uris)).as_bytes()).await.expect("it can be written");
        assert_eq!(ear.next().await["id"], "s");
    }
    ear
}

/// A gateway before one server.
async fn before(is_modern: bool, promises: Value, path: &str) -> (FakeUpstream, TestGateway, Arc<Notify>) {
    let speak = Arc::new(Notify::new());
    let upstream = server(is_modern, promises, &speak).await;
    let builder = TestGateway::builder().policy(BEFORE);
    let builder = if path == "/mcp" { builder.at_aggregate() } else { builder };
    let gw = builder.start(&upstream).await;
    (upstream, gw, speak)
}

async fn is_told_and_goes_on(client: Client, is_modern: bool, path: &str) {
    let case = format!("{client:?}, to {path}, a server that is modern: {is_modern}");
    let (_upstream, gw, speak) = before(is_modern, json!({"listChanged": true}), path).await;
    let mut ear = listens(&gw, client, path).await;
    gw.add_grant("another", BEFORE);
    assert_eq!(ear.told().await, [""; 0], "{case}: what is in force for others concerns others");

    gw.put_policy("desk", AFTER);
    let first = ear.next().await;
    if client.is_stateless() {
        assert_eq!(first["params"]["_meta"][SUBSCRIPTION], "l", "{case}: {first}");
    }
    let mut told = vec![first["method"].as_str().unwrap_or_default().to_owned()];
    told.extend(ear.told().await);
    let promised: &[&str] = match (path, client) {
        ("/mcp", Client::Stateless) => &[TOOLS, PROMPTS],
        ("/mcp", _) => &[TOOLS, PROMPTS, RESOURCES],
        _ => &[TOOLS],
    };
    assert_eq!(told, promised, "{case}: each once, and what was promised");

    speak.notify_waiters();
    let said = ear.next().await;
    let uri = if path == "/mcp" { "x-desk+note://1" } else { "note://1" };
    assert_eq!((said["method"].as_str(), said["params"]["uri"].as_str()), (Some(UPDATED), Some(uri)), "{case}: {said}");

    gw.change_grants(Vec::clear);
    match client {
        Client::Lines => assert_eq!(ear.told().await, [""; 0], "{case}"),
        Client::StatelessLines => {
            let last = ear.next().await;
            assert_eq!((&last["id"], &last["error"]["code"]), (&json!("l"), &json!(-32600)), "{case}: {last}");
            assert!(last["error"]["message"].as_str().is_some_and(|why| why.contains("grant")), "{case}: {last}");
            assert_eq!(ear.told().await, [""; 0], "{case}");
        }
        _ => ear.ends().await,
    }
}

#[tokio::test]
async fn a_client_with_a_session_is_told() {
    for is_modern in [false, true] {
        is_told_and_goes_on(Client::Session, is_modern, "/mcp/desk").await;
    }
}

#[tokio::test]
async fn a_client_without_a_session_is_told() {
    for is_modern in [false, true] {
        is_told_and_goes_on(Client::Stateless, is_modern, "/mcp/desk").await;
    }
}

#[tokio::test]
async fn a_client_by_http_and_sse_is_told() {
    for is_modern in [false, true] {
        is_told_and_goes_on(Client::Sse, is_modern, "/mcp/desk").await;
    }
}

#[tokio::test]
async fn a_client_at_standard_streams_is_told() {
    for (client, is_modern) in
        [(Client::Lines, false), (Client::Lines, true), (Client::StatelessLines, false), (Client::StatelessLines, true)]
    {
        is_told_and_goes_on(client, is_modern, "/mcp/desk").await;
    }
}

#[tokio::test]
async fn a_client_of_all_servers_is_told() {
    for (client, is_modern) in
        [(Client::Session, false), (Client::Session, true), (Client::Stateless, false), (Client::Stateless, true)]
    {
        is_told_and_goes_on(client, is_modern, "/mcp").await;
    }
}

#[tokio::test]
async fn nobody_is_told_of_what_the_server_does_not_promise_to_tell() {
    for promises in [json!({}), json!({"listChanged": false})] {
        let (_upstream, gw, _) = before(false, promises, "/mcp/desk").await;
        let mut ear = listens(&gw, Client::Session, "/mcp/desk").await;
        gw.put_policy("desk", AFTER);
        assert_eq!(ear.told().await, [""; 0]);
    }
}

#[tokio::test]
async fn a_client_that_comes_back_after_a_restart_is_told_what_it_was_promised() {
    for is_modern in [false, true] {
        let (_upstream, mut gw, _) = before(is_modern, json!({"listChanged": true}), "/mcp/desk").await;
        gw.initialize().await;
        gw.restart().await;
        let mut ear = over_http(&gw, "/mcp/desk", None).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        gw.put_policy("desk", AFTER);
        assert_eq!(ear.told().await, [TOOLS], "{is_modern}");
    }
}

#[tokio::test]
async fn a_server_in_the_place_of_another_has_other_lists() {
    for client in [Client::Session, Client::Stateless] {
        let (_upstream, gw, _) = before(false, json!({"listChanged": true}), "/mcp/desk").await;
        let other = FakeUpstream::with_tools(&["other"]).await;
        let mut ear = listens(&gw, client, "/mcp/desk").await;
        gw.put_server("desk", &other.url());
        assert_eq!(ear.next().await["method"], TOOLS, "{client:?}");
        if client == Client::Stateless {
            // How the other one speaks is found out when the client listens anew.
            ear.ends().await;
            continue;
        }
        let list = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.message();
        assert_eq!(list["result"]["tools"][0]["name"], "other", "{list}");
        assert_eq!(ear.told().await, [""; 0]);
    }
}

#[tokio::test]
async fn what_has_to_be_told_is_told_when_the_server_answers_again() {
    for is_modern in [false, true] {
        let is_down = Arc::new(AtomicBool::new(false));
        let upstream = server_with(is_modern, json!({"listChanged": true}), &Arc::default(), "s-1", &is_down).await;
        let mut gw = TestGateway::with_policy(BEFORE, &upstream).await;
        gw.initialize().await;
        is_down.store(true, Ordering::Release);
        gw.restart().await;
        let mut ear = over_http(&gw, "/mcp/desk", None).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        gw.put_policy("desk", AFTER);
        assert_eq!(ear.told().await, [""; 0], "{is_modern}: nobody knows of what the client was promised to hear");
        is_down.store(false, Ordering::Release);
        assert_eq!(ear.next().await["method"], TOOLS, "{is_modern}");
        assert_eq!(ear.told().await, [""; 0], "{is_modern}: once");
    }
}

#[tokio::test]
async fn a_server_that_moves_is_greeted_at_its_new_address_before_it_is_heard() {
    for (client, path) in [
        (Client::Session, "/mcp/desk"),
        (Client::Sse, "/mcp/desk"),
        (Client::Lines, "/mcp/desk"),
        (Client::Session, "/mcp"),
    ] {
        let case = format!("{client:?} at {path}");
        let (_upstream, gw, _) = before(false, json!({"listChanged": true}), path).await;
        let speak = Arc::new(Notify::new());
        let other = server_with(false, json!({"listChanged": true}), &speak, "s-2", &Arc::default()).await;
        let mut ear = listens(&gw, client, path).await;
        gw.put_server("desk", &other.url());
        assert_eq!(ear.next().await["method"], TOOLS, "{case}");
        ear.told().await;
        let hits = other.requests();
        assert!(hits.iter().all(|hit| hit.header("mcp-session-id") != Some("s-1")), "{case}: whose session is it?");
        let heard = hits
            .iter()
            .filter(|hit| hit.request_line.starts_with("GET") && hit.header("mcp-session-id") == Some("s-2"));
        assert_eq!(heard.count(), 1, "{case}: {hits:?}");
        speak.notify_waiters();
        assert_eq!(ear.next().await["method"], UPDATED, "{case}");
        if client == Client::Session && path == "/mcp/desk" {
            let answer = gw.call("read", json!({"n": 1})).await;
            assert_eq!(answer.text(), r#"{"n":1}"#, "and calls go there, too");
        }
    }
}

#[tokio::test]
async fn what_a_person_accepts_or_says_of_tools_is_told() {
    let accepting = PinningSettings { review: true, ..PinningSettings::default() };
    for (client, path) in [
        (Client::Session, "/mcp/desk"),
        (Client::Stateless, "/mcp/desk"),
        (Client::Sse, "/mcp/desk"),
        (Client::Lines, "/mcp/desk"),
        (Client::Session, "/mcp"),
        (Client::Stateless, "/mcp"),
    ] {
        let case = format!("{client:?} at {path}");
        let upstream = server(false, json!({"listChanged": true}), &Arc::default()).await;
        let builder = TestGateway::builder().policy(BEFORE).pinning(accepting);
        let builder = if path == "/mcp" { builder.at_aggregate() } else { builder };
        let gw = builder.start(&upstream).await;
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(gw.send(&list).await.message()["result"]["tools"], json!([]), "{case}");
        let mut ear = listens(&gw, client, path).await;
        gw.change_grants(|_| ());
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(ear.messages.is_empty(), "{case}: nothing has changed");
        gw.accept_all().await;
        assert_eq!(ear.next().await["method"], TOOLS, "{case}: accepted");
        assert!(!ear.told().await.contains(&TOOLS.to_owned()), "{case}: once");
        gw.classify_tool("wipe", Category::Destructive, false).await;
        assert_eq!(ear.next().await["method"], TOOLS, "{case}: classified");
    }
}

#[tokio::test]
async fn what_a_person_accepts_before_anybody_asks_in_this_life_is_told() {
    let accepting = PinningSettings { review: true, ..PinningSettings::default() };
    let upstream = server(false, json!({"listChanged": true}), &Arc::default()).await;
    let mut gw = TestGateway::builder().policy(BEFORE).pinning(accepting).start(&upstream).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(gw.send(&list).await.message()["result"]["tools"], json!([]));
    gw.restart().await;
    let asked = || upstream.requests().iter().filter(|hit| hit.method() == "tools/list").count();
    let before = asked();
    let mut ear = listens(&gw, Client::Session, "/mcp/desk").await;
    gw.accept_all().await;
    assert_eq!(ear.next().await["method"], TOOLS, "accepted");
    assert_eq!(asked(), before, "nobody has asked for a list since the gateway began");
}

#[tokio::test]
async fn a_server_that_comes_to_the_others_is_told_of_and_heard() {
    for client in [Client::Session, Client::Stateless] {
        let (_upstream, gw, speak) = before(false, json!({"listChanged": true}), "/mcp").await;
        let zoo = server(false, json!({}), &speak).await;
        let mut ear = listens(&gw, client, "/mcp").await;
        gw.put_server("zoo", &zoo.url());
        gw.put_policy("zoo", BEFORE);
        assert_eq!(ear.next().await["method"], TOOLS, "{client:?}");
        let is_open = || zoo.requests().iter().any(|hit| hit.request_line.starts_with("GET"));
        for _ in 0..100 {
            if is_open() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(is_open(), "{client:?}: it is listened to");
    }
}

#[tokio::test]
async fn whoever_may_not_hear_any_more_of_what_it_named_has_to_listen_anew() {
    let shut = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
    for (path, is_modern) in [("/mcp/desk", false), ("/mcp/desk", true), ("/mcp", false)] {
        let (_upstream, gw, speak) = before(is_modern, json!({"listChanged": true}), path).await;
        let mut ear = listens(&gw, Client::Stateless, path).await;
        gw.put_policy("desk", shut);
        assert_eq!(ear.next().await["method"], TOOLS, "{path} {is_modern}");
        speak.notify_waiters();
        if path == "/mcp" {
            assert_eq!(ear.next().await["method"], PROMPTS);
        }
        ear.ends().await;
    }
}

/// What a listen at standard streams ends with, which nothing else can end.
async fn has_its_result(ear: &mut Ear, case: &str) {
    let last = ear.next().await;
    let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION: "l"}});
    assert_eq!(last, json!({"jsonrpc": "2.0", "id": "l", "result": result}), "{case}");
    assert_eq!(ear.told().await, [""; 0], "{case}: nothing follows");
}

#[tokio::test]
async fn a_listen_at_standard_streams_that_has_to_end_ends_with_its_result() {
    let shut = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
    for is_modern in [false, true] {
        let (_upstream, gw, _) = before(is_modern, json!({"listChanged": true}), "/mcp/desk").await;
        let mut ear = listens(&gw, Client::StatelessLines, "/mcp/desk").await;
        gw.put_policy("desk", shut);
        assert_eq!(ear.next().await["method"], TOOLS, "{is_modern}");
        has_its_result(&mut ear, &format!("it may not read what it named; modern: {is_modern}")).await;

        let (_upstream, gw, _) = before(is_modern, json!({"listChanged": true}), "/mcp/desk").await;
        let mut ear = listens(&gw, Client::StatelessLines, "/mcp/desk").await;
        let other = FakeUpstream::with_tools(&["other"]).await;
        gw.put_server("desk", &other.url());
        assert_eq!(ear.next().await["method"], TOOLS, "{is_modern}");
        has_its_result(&mut ear, &format!("another server; modern: {is_modern}")).await;
    }
    let (upstream, gw, _) = before(true, json!({"listChanged": true}), "/mcp/desk").await;
    let mut ear = listens(&gw, Client::StatelessLines, "/mcp/desk").await;
    upstream.stop();
    let last = ear.next().await;
    assert_eq!(last["id"], "l", "a server that goes away is told of, too: {last}");
}

#[tokio::test]
async fn a_listen_at_standard_streams_is_cancelled_by_its_id() {
    for is_modern in [false, true] {
        let (_upstream, gw, speak) = before(is_modern, json!({"listChanged": true}), "/mcp/desk").await;
        let mut ear = listens(&gw, Client::StatelessLines, "/mcp/desk").await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l"}});
        let input = ear.input.as_mut().expect("standard streams");
        input.write_all(format!("{cancel}\n").as_bytes()).await.expect("it can be written");
        tokio::time::sleep(Duration::from_millis(200)).await;
        speak.notify_waiters();
        gw.put_policy("desk", AFTER);
        assert_eq!(ear.told().await, [""; 0], "{is_modern}: it hears nothing more, not even an answer");
    }
}

#[tokio::test]
async fn a_grant_that_wants_a_newer_revision_by_now_ends_the_stream() {
    let (_upstream, gw, _) = before(false, json!({"listChanged": true}), "/mcp/desk").await;
    let mut ear = listens(&gw, Client::Session, "/mcp/desk").await;
    let mut by_sse = listens(&gw, Client::Sse, "/mcp/desk").await;
    gw.change_grants(|grants| grants[0].minimum_revision = Some(gatelodge_mcp::Revision::R2026_07_28));
    ear.ends().await;
    by_sse.ends().await;
}

/// A server whose stream says so many things of so many bytes, each under an id, and goes on behind the last that a
/// client has. Who names none hears what is new, and after the first time that is nothing.
async fn chatty(most: usize, bytes: usize) -> FakeUpstream {
    let is_first = AtomicBool::new(true);
    FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        if !hit.request_line.starts_with("GET") {
            return None;
        }
        let last = hit.header("last-event-id").and_then(|id| id.parse::<usize>().ok());
        let next = match last {
            Some(last) => last + 1,
            None if is_first.swap(false, Ordering::AcqRel) => 1,
            None => most + 1,
        };
        let mut script =
            vec![ScriptStep::Write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec())];
        script.extend((next..=most).map(|n| {
            let params = json!({"level": "info", "data": "x".repeat(bytes), "n": n});
            let said = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
            ScriptStep::Write(format!("id: {n}\ndata: {said}\n\n").into_bytes())
        }));
        script.push(ScriptStep::Pause(Duration::from_secs(60)));
        Some(script)
    })
    .await
}

/// The numbers of what is said on a stream.
async fn numbers(stream: impl AsyncRead + Unpin, most: usize) -> Vec<usize> {
    let (mut lines, mut all) = (BufReader::new(stream).lines(), Vec::new());
    let reading = async {
        while all.last() != Some(&most) {
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
async fn what_a_server_says_while_something_changes_is_neither_lost_nor_said_twice() {
    let most = 150;
    let upstream = chatty(most, 4 << 10).await;
    let gw = TestGateway::with_policy(BEFORE, &upstream).await;
    let (mut own, input) = tokio::io::duplex(64 << 10);
    let (output, answers) = tokio::io::duplex(16 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    own.write_all(format!("{hello}\n").as_bytes()).await.expect("it can be written");
    // The client does not read, so that something is under way when the policy changes.
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    gw.put_policy("desk", AFTER);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(numbers(answers, most).await, (1..=most).collect::<Vec<_>>(), "at standard streams");

    let most = 250;
    let upstream = chatty(most, 64 << 10).await;
    let gw = TestGateway::with_policy(BEFORE, &upstream).await;
    gw.initialize().await;
    let stream = start_request_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    tokio::time::sleep(Duration::from_millis(3_000)).await;
    gw.put_policy("desk", AFTER);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(numbers(stream, most).await, (1..=most).collect::<Vec<_>>(), "by the stream of a session");
    assert!(upstream.requests().iter().any(|hit| hit.header("last-event-id").is_some()), "it was left in the middle");
}
