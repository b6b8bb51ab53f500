//! Servers that lose a session: lists are requested again, calls that may have run are not sent again.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, json_response,
    tool_definition,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::support::{
    StatelessTestClient, chunk, event, read_for, read_until, result_message, start_in_session, stream_headers,
    timed_stream as stream_script, wait_until,
};

const ALLOW_ALL: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"*":{}},"prompts":{"*":{}}}"#;
const VERSION: &str = "2026-07-28";
const SECOND_PAGE: &str = "the second page of a list";

/// Sessions and behavior of the fake server.
#[derive(Default)]
struct ServerState {
    /// Number of sessions opened so far. The server knows only the last one.
    opened: AtomicUsize,
    /// Methods at which the server loses the session, one entry per loss.
    loses_session_at: Mutex<Vec<&'static str>>,
    /// Revision in the `initialize` result; 2025-11-25 if `None`.
    revision: Mutex<Option<&'static str>>,
}

impl ServerState {
    fn lose_session_at(&self, methods: &[&'static str]) {
        *self.loses_session_at.lock().expect("a list") = methods.to_vec();
    }

    fn take_session_loss(&self, method: &str) -> bool {
        let mut methods = self.loses_session_at.lock().expect("a list");
        let index = methods.iter().position(|entry| *entry == method);
        index.map(|index| methods.remove(index)).is_some()
    }

    fn respond(&self, request: &RecordedRequest) -> Option<ResponseScript> {
        let (id, method) = (request.message()["id"].clone(), request.method());
        let result_response = |header: &str, result: Value| {
            Some(json_response("200 OK", header, &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()))
        };
        if method == "initialize" {
            let session = self.opened.fetch_add(1, Ordering::AcqRel) + 1;
            let revision = self.revision.lock().expect("a revision").unwrap_or("2025-11-25");
            let result =
                json!({"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            return result_response(&format!("mcp-session-id: s-{session}\r\n"), result);
        }
        if method == "server/discover" || method.starts_with("notifications/") {
            return None;
        }
        let is_second = request.message()["params"]["cursor"].is_string();
        if self.take_session_loss(if is_second { SECOND_PAGE } else { &method }) {
            self.opened.fetch_add(1, Ordering::AcqRel);
        }
        let known = format!("s-{}", self.opened.load(Ordering::Acquire));
        if request.header("mcp-session-id") != Some(&known) {
            let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}"#;
            return Some(json_response("404 Not Found", "", body));
        }
        match (method.as_str(), request.message()["params"]["cursor"].as_str()) {
            // A cursor of a lost session gets a page that does not belong to the first page.
            ("tools/list", None) => {
                result_response("", json!({"tools": [tool_definition("read")], "nextCursor": known}))
            }
            ("tools/list", Some(cursor)) if cursor == known => {
                result_response("", json!({"tools": [tool_definition("wipe")]}))
            }
            ("tools/list", Some(_)) => result_response("", json!({"tools": [tool_definition("another")]})),
            ("resources/list", _) => result_response("", json!({"resources": [{"uri": "note://1", "name": "n"}]})),
            ("resources/templates/list", _) => {
                result_response("", json!({"resourceTemplates": [{"uriTemplate": "note://{n}", "name": "n"}]}))
            }
            ("prompts/list", _) => result_response("", json!({"prompts": [{"name": "greet"}]})),
            _ => None,
        }
    }
}

async fn start_server() -> (Arc<ServerState>, FakeUpstream) {
    let state = Arc::new(ServerState::default());
    let state_of_server = Arc::clone(&state);
    (state, FakeUpstream::start(json!([]), move |request| state_of_server.respond(request)).await)
}

fn request_count(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|request| request.method() == method).count()
}

async fn request_in_session(gw: &TestGateway, method: &str) -> TestResponse {
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method})).await
}

async fn request_stateless(gw: &TestGateway, method: &str) -> TestResponse {
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}).to_string();
    gw.post(&[("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)], &body).await
}

fn names(list: &Value, method: &str) -> Vec<String> {
    let (member, key) = match method {
        "resources/list" => ("resources", "uri"),
        "resources/templates/list" => ("resourceTemplates", "uriTemplate"),
        "prompts/list" => ("prompts", "name"),
        _ => ("tools", "name"),
    };
    let list = list["result"][member].as_array().unwrap_or_else(|| panic!("no list in {list}"));
    list.iter().map(|entry| entry[key].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn a_list_is_requested_again_from_its_first_page() {
    for (method, expected) in [
        ("tools/list", &["read", "wipe"][..]),
        ("resources/list", &["note://1"]),
        ("resources/templates/list", &["note://{n}"]),
        ("prompts/list", &["greet"]),
    ] {
        let (state, upstream) = start_server().await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        for (handshakes, is_stateless) in [(2, false), (4, true)] {
            if is_stateless {
                request_stateless(&gw, "tools/list").await;
            } else {
                gw.initialize().await;
            }
            state.lose_session_at(&[method]);
            let list =
                if is_stateless { request_stateless(&gw, method).await } else { request_in_session(&gw, method).await }
                    .message();
            assert_eq!(names(&list, method), expected, "{list}");
            assert_eq!(request_count(&upstream, "initialize"), handshakes, "{method}");
        }
    }
}

#[tokio::test]
async fn pages_of_two_upstream_sessions_are_not_combined() {
    let (state, upstream) = start_server().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    state.lose_session_at(&[SECOND_PAGE]);
    assert_eq!(names(&request_in_session(&gw, "tools/list").await.message(), "tools/list"), ["read", "wipe"]);
    let lists = upstream.requests().into_iter().filter(|request| request.method() == "tools/list");
    assert_eq!(
        lists.filter(|request| request.message()["params"]["cursor"].is_null()).count(),
        2,
        "the list starts again at its first page"
    );
}

#[tokio::test]
async fn a_list_is_retried_once_when_the_server_keeps_losing_the_session() {
    let (state, upstream) = start_server().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    state.lose_session_at(&["prompts/list"; 9]);
    let reply = request_in_session(&gw, "prompts/list").await.message();
    assert!(reply["error"]["message"].as_str().expect("an error").contains("no longer knew the session"), "{reply}");
    assert_eq!(request_count(&upstream, "prompts/list"), 2);
    state.lose_session_at(&[]);
    assert_eq!(names(&request_in_session(&gw, "prompts/list").await.message(), "prompts/list"), ["greet"]);
}

#[tokio::test]
async fn a_call_is_sent_once_although_the_session_is_lost() {
    let (state, upstream) = start_server().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    state.lose_session_at(&["tools/list"]);
    assert_eq!(gw.call("read", json!({"n": 1})).await.text(), r#"{"n":1}"#, "the tool list is requested again");
    state.lose_session_at(&["tools/call"]);
    assert!(gw.call("read", json!({"n": 2})).await.text().contains("no longer knew the session"));
    let sent: Vec<Value> =
        upstream.calls().iter().map(|request| request.message()["params"]["arguments"]["n"].clone()).collect();
    assert_eq!(sent, [json!(1), json!(2)]);
}

#[tokio::test]
async fn an_aggregate_list_is_complete_although_one_server_lost_its_session() {
    let (state, upstream) = start_server().await;
    let zoo = FakeUpstream::with_tools(&["feed"]).await;
    let gw = TestGateway::builder()
        .policy(ALLOW_ALL)
        .at_aggregate()
        .with_server("zoo", &zoo.url(), ALLOW_ALL)
        .start(&upstream)
        .await;
    gw.initialize().await;
    state.lose_session_at(&["tools/list"]);
    let list = request_in_session(&gw, "tools/list").await.message();
    assert_eq!(names(&list, "tools/list"), ["desk__read", "desk__wipe", "zoo__feed"], "{list}");
    assert!(list["result"].get("_meta").is_none());
}

#[tokio::test]
async fn an_ended_upstream_session_does_not_count_towards_the_grants_sessions() {
    for has_stream in [false, true] {
        let (state, upstream) = start_server().await;
        let settings = GatewaySettings { max_sessions_per_grant: 2, ..GatewaySettings::default() };
        let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).at_aggregate().start(&upstream).await;
        gw.initialize().await;
        let _stream = if has_stream { Some(open_standalone_stream(&gw).await) } else { None };
        assert_eq!(gw.call("desk__read", json!({"n": 1})).await.text(), r#"{"n":1}"#);
        // A different revision ends the upstream session.
        *state.revision.lock().expect("a revision") = Some("2025-06-18");
        state.lose_session_at(&["tools/call"]);
        assert!(gw.call("desk__read", json!({"n": 2})).await.text().contains("no longer knew the session"));
        if has_stream {
            // Time for the stream to see that its upstream session has ended, which a test cannot observe.
            tokio::time::sleep(Duration::from_millis(800)).await;
        }
        assert_eq!(
            gw.call("desk__read", json!({"n": 3})).await.text(),
            r#"{"n":3}"#,
            "the grant can open another session: {has_stream}"
        );
    }
}

/// Opens the standalone stream of the session.
async fn open_standalone_stream(gw: &TestGateway) -> TcpStream {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let request = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\n\r\n",
        gw.token.reveal(),
        gw.session()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    // Time for the gateway to open its stream upstream, which a test cannot observe.
    tokio::time::sleep(Duration::from_millis(700)).await;
    stream
}

#[tokio::test]
async fn a_standalone_stream_is_reopened_in_a_new_session_when_the_server_loses_it() {
    let session_number = Arc::new(AtomicUsize::new(1));
    let current_session = Arc::clone(&session_number);
    let upstream = FakeUpstream::start(json!([]), move |request: &RecordedRequest| {
        let session = format!("s-{}", current_session.load(Ordering::Acquire));
        let is_known = request.header("mcp-session-id") == Some(&session);
        if request.method() == "initialize" {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "s", "version": "1"}});
            let header = format!("mcp-session-id: {session}\r\n");
            return Some(json_response("200 OK", &header, &result_message(request, &result).to_string()));
        }
        if request.request_line.starts_with("GET") && is_known {
            let notification =
                json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"of": session}});
            // The stream ends, so the gateway requests it again.
            return Some(stream_script(&[(&event(&notification), Duration::ZERO)]));
        }
        let is_forgotten = request.request_line.starts_with("GET") || (request.method() == "ping" && !is_known);
        is_forgotten.then(|| json_response("404 Not Found", "", ""))
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    let mut client_stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut client_stream, r#""of":"s-1""#, 1).await;
    session_number.store(2, Ordering::Release);
    read_until(&mut client_stream, r#""of":"s-2""#, 1).await;
    assert_eq!(request_count(&upstream, "initialize"), 2, "the gateway initializes again");
    // Each lost session leads to one `initialize`.
    session_number.store(3, Ordering::Release);
    read_until(&mut client_stream, r#""of":"s-3""#, 1).await;
    assert_eq!(request_count(&upstream, "initialize"), 3);
}

#[tokio::test]
async fn a_404_to_get_of_a_server_without_streams_does_not_lead_to_initialize() {
    let upstream_without_streams = FakeUpstream::start(json!([]), |request: &RecordedRequest| {
        request.request_line.starts_with("GET").then(|| json_response("404 Not Found", "", ""))
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream_without_streams).await;
    assert_eq!(gw.initialize().await.status, 200);
    let mut client_stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    let get_count =
        || upstream_without_streams.requests().iter().filter(|request| request.request_line.starts_with("GET")).count();
    wait_until("the standalone stream is requested twice", || get_count() >= 2).await;
    drop(read_for(&mut client_stream, Duration::from_millis(50)).await);
    assert_eq!(request_count(&upstream_without_streams, "initialize"), 1, "the session is not lost");
}

#[tokio::test]
async fn a_subscription_is_acknowledged_although_the_server_answers_404_to_get() {
    let upstream_without_streams = FakeUpstream::start(json!([]), |request: &RecordedRequest| {
        request.request_line.starts_with("GET").then(|| json_response("404 Not Found", "", ""))
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream_without_streams).await;
    for _ in 0..2 {
        let filter = json!({"notifications": {"toolsListChanged": true}});
        let mut client_stream = StatelessTestClient::new(&gw).start_request("subscriptions/listen", filter).await;
        read_until(&mut client_stream, "acknowledged", 1).await;
    }
    assert_eq!(request_count(&upstream_without_streams, "initialize"), 1, "the session is not lost");
}

#[tokio::test]
async fn a_404_of_a_server_without_session_ids_is_passed_on_as_an_error() {
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), |request: &RecordedRequest| match request.method().as_str() {
        "initialize" => {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            Some(json_response("200 OK", "", &result_message(request, &result).to_string()))
        }
        "tools/call" => {
            let error = json!({"code": -32050, "message": "no such desk"});
            let body = json!({"jsonrpc": "2.0", "id": request.message()["id"], "error": error});
            Some(json_response("404 Not Found", "", &body.to_string()))
        }
        _ => None,
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let reply = gw.call("read", json!({})).await;
    assert_eq!(reply.code(), -32050, "{}", reply.body);
    assert_eq!(request_count(&upstream, "initialize"), 1, "no session can be lost");
}

#[tokio::test]
async fn last_event_id_of_a_lost_session_is_not_sent_in_the_next_session() {
    let (session_number, send_second) = (Arc::new(AtomicUsize::new(1)), Arc::new(tokio::sync::Notify::new()));
    let (current_session, wait_for_second) = (Arc::clone(&session_number), Arc::clone(&send_second));
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |request: &RecordedRequest| {
        let session = format!("s-{}", current_session.load(Ordering::Acquire));
        let is_known = request.header("mcp-session-id") == Some(&session);
        match request.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
                let header = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &header, &result_message(request, &result).to_string()))
            }
            "server/discover" => None,
            _ if !is_known => Some(json_response("404 Not Found", "", "")),
            _ if request.request_line.starts_with("GET") => {
                let numbered_event = |number: u8| {
                    let message = json!({"jsonrpc": "2.0", "method": "notifications/vendor/news", "params": {"n": number}});
                    ScriptStep::Write(chunk(&format!("id: {session}-{number}\nretry: 50\n{}", event(&message))))
                };
                let mut script = stream_headers();
                script.extend([numbered_event(1), ScriptStep::WaitFor(Arc::clone(&wait_for_second)), numbered_event(2), ScriptStep::Write(b"0\r\n\r\n".to_vec())]);
                Some(script)
            }
            _ => None,
        }
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let mut client_stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut client_stream, r#""n":1"#, 1).await;
    session_number.store(2, Ordering::Release);
    // The call finds the session lost and opens a new one while the stream of the old session is still open.
    gw.call("read", json!({})).await;
    send_second.notify_one();
    read_until(&mut client_stream, r#""n":1"#, 1).await;
    let gets = upstream.requests().into_iter().filter(|request| request.request_line.starts_with("GET"));
    let gets: Vec<_> = gets
        .map(|request| {
            (request.header("mcp-session-id").map(str::to_owned), request.header("last-event-id").map(str::to_owned))
        })
        .collect();
    assert_eq!(gets, [(Some("s-1".to_owned()), None), (Some("s-2".to_owned()), None)]);
}
