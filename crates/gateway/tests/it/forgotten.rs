//! Servers that have forgotten a session: what does nothing there is asked for again, what may have run is not.
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

use super::rows_kit::{
    Caller, begin_in_session, chunk, event, open_stream, read_for, read_until, result_of, stream as streamed, until,
};

const OPEN: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"*":{}},"prompts":{"*":{}}}"#;
const VERSION: &str = "2026-07-28";
const SECOND_PAGE: &str = "the second page of a list";

/// What a server remembers.
#[derive(Default)]
struct Memory {
    /// How many sessions were opened; only the last is known.
    opened: AtomicUsize,
    /// The method at which it forgets the session, once for each time that it stands here.
    forgets_at: Mutex<Vec<&'static str>>,
    /// Which revision it agrees on, if not on what is asked for.
    revision: Mutex<Option<&'static str>>,
}

impl Memory {
    fn forget_at(&self, methods: &[&'static str]) {
        *self.forgets_at.lock().expect("a list") = methods.to_vec();
    }

    fn forgets(&self, method: &str) -> bool {
        let mut methods = self.forgets_at.lock().expect("a list");
        let at = methods.iter().position(|own| *own == method);
        at.map(|at| methods.remove(at)).is_some()
    }

    fn answer(&self, hit: &RecordedRequest) -> Option<ResponseScript> {
        let (id, method) = (hit.message()["id"].clone(), hit.method());
        let answered = |head: &str, result: Value| {
            Some(json_response("200 OK", head, &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()))
        };
        if method == "initialize" {
            let session = self.opened.fetch_add(1, Ordering::AcqRel) + 1;
            let revision = self.revision.lock().expect("a revision").unwrap_or("2025-11-25");
            let result =
                json!({"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            return answered(&format!("mcp-session-id: s-{session}\r\n"), result);
        }
        if method == "server/discover" || method.starts_with("notifications/") {
            return None;
        }
        let is_second = hit.message()["params"]["cursor"].is_string();
        if self.forgets(if is_second { SECOND_PAGE } else { &method }) {
            self.opened.fetch_add(1, Ordering::AcqRel);
        }
        let known = format!("s-{}", self.opened.load(Ordering::Acquire));
        if hit.header("mcp-session-id") != Some(&known) {
            let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}"#;
            return Some(json_response("404 Not Found", "", body));
        }
        match (method.as_str(), hit.message()["params"]["cursor"].as_str()) {
            // The second page of whoever was forgotten in between is another's.
            ("tools/list", None) => answered("", json!({"tools": [tool_definition("read")], "nextCursor": known})),
            ("tools/list", Some(cursor)) if cursor == known => {
                answered("", json!({"tools": [tool_definition("wipe")]}))
            }
            ("tools/list", Some(_)) => answered("", json!({"tools": [tool_definition("another")]})),
            ("resources/list", _) => answered("", json!({"resources": [{"uri": "note://1", "name": "n"}]})),
            ("resources/templates/list", _) => {
                answered("", json!({"resourceTemplates": [{"uriTemplate": "note://{n}", "name": "n"}]}))
            }
            ("prompts/list", _) => answered("", json!({"prompts": [{"name": "greet"}]})),
            _ => None,
        }
    }
}

async fn server() -> (Arc<Memory>, FakeUpstream) {
    let memory = Arc::new(Memory::default());
    let own = Arc::clone(&memory);
    (memory, FakeUpstream::start(json!([]), move |hit| own.answer(hit)).await)
}

fn reached(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|hit| hit.method() == method).count()
}

async fn in_session(gw: &TestGateway, method: &str) -> TestResponse {
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method})).await
}

async fn standing_alone(gw: &TestGateway, method: &str) -> TestResponse {
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
async fn a_list_is_asked_for_once_more_from_its_beginning() {
    for (method, own) in [
        ("tools/list", &["read", "wipe"][..]),
        ("resources/list", &["note://1"]),
        ("resources/templates/list", &["note://{n}"]),
        ("prompts/list", &["greet"]),
    ] {
        let (memory, upstream) = server().await;
        let gw = TestGateway::with_policy(OPEN, &upstream).await;
        for (handshakes, is_stateless) in [(2, false), (4, true)] {
            if is_stateless {
                standing_alone(&gw, "tools/list").await;
            } else {
                gw.initialize().await;
            }
            memory.forget_at(&[method]);
            let list =
                if is_stateless { standing_alone(&gw, method).await } else { in_session(&gw, method).await }.message();
            assert_eq!(names(&list, method), own, "{list}");
            assert_eq!(reached(&upstream, "initialize"), handshakes, "{method}");
        }
    }
}

#[tokio::test]
async fn a_page_of_another_session_is_not_put_to_those_before_it() {
    let (memory, upstream) = server().await;
    let gw = TestGateway::with_policy(OPEN, &upstream).await;
    gw.initialize().await;
    memory.forget_at(&[SECOND_PAGE]);
    assert_eq!(names(&in_session(&gw, "tools/list").await.message(), "tools/list"), ["read", "wipe"]);
    let lists = upstream.requests().into_iter().filter(|hit| hit.method() == "tools/list");
    assert_eq!(lists.filter(|hit| hit.message()["params"]["cursor"].is_null()).count(), 2, "from its beginning");
}

#[tokio::test]
async fn a_server_that_forgets_at_once_again_is_not_asked_for_ever() {
    let (memory, upstream) = server().await;
    let gw = TestGateway::with_policy(OPEN, &upstream).await;
    gw.initialize().await;
    memory.forget_at(&["prompts/list"; 9]);
    let answer = in_session(&gw, "prompts/list").await.message();
    assert!(answer["error"]["message"].as_str().expect("an error").contains("forgotten the session"), "{answer}");
    assert_eq!(reached(&upstream, "prompts/list"), 2);
    memory.forget_at(&[]);
    assert_eq!(names(&in_session(&gw, "prompts/list").await.message(), "prompts/list"), ["greet"]);
}

#[tokio::test]
async fn a_call_is_sent_once_whatever_was_forgotten() {
    let (memory, upstream) = server().await;
    let gw = TestGateway::with_policy(OPEN, &upstream).await;
    gw.initialize().await;
    memory.forget_at(&["tools/list"]);
    assert_eq!(gw.call("read", json!({"n": 1})).await.text(), r#"{"n":1}"#, "what it offers was asked for again");
    memory.forget_at(&["tools/call"]);
    assert!(gw.call("read", json!({"n": 2})).await.text().contains("had forgotten the session"));
    let sent: Vec<Value> =
        upstream.calls().iter().map(|hit| hit.message()["params"]["arguments"]["n"].clone()).collect();
    assert_eq!(sent, [json!(1), json!(2)]);
}

#[tokio::test]
async fn a_list_of_all_servers_is_whole_though_one_has_forgotten() {
    let (memory, upstream) = server().await;
    let zoo = FakeUpstream::with_tools(&["feed"]).await;
    let gw =
        TestGateway::builder().policy(OPEN).at_aggregate().with_server("zoo", &zoo.url(), OPEN).start(&upstream).await;
    gw.initialize().await;
    memory.forget_at(&["tools/list"]);
    let list = in_session(&gw, "tools/list").await.message();
    assert_eq!(names(&list, "tools/list"), ["desk__read", "desk__wipe", "zoo__feed"], "{list}");
    assert!(list["result"].get("_meta").is_none());
}

#[tokio::test]
async fn a_part_of_a_session_that_is_over_takes_no_place_of_the_grants() {
    for has_stream in [false, true] {
        let (memory, upstream) = server().await;
        let settings = GatewaySettings { max_sessions_per_grant: 2, ..GatewaySettings::default() };
        let gw = TestGateway::builder().policy(OPEN).settings(settings).at_aggregate().start(&upstream).await;
        gw.initialize().await;
        let _stream = if has_stream { Some(stream(&gw).await) } else { None };
        assert_eq!(gw.call("desk__read", json!({"n": 1})).await.text(), r#"{"n":1}"#);
        // The session there is over, because the server speaks otherwise by now.
        *memory.revision.lock().expect("a revision") = Some("2025-06-18");
        memory.forget_at(&["tools/call"]);
        assert!(gw.call("desk__read", json!({"n": 2})).await.text().contains("had forgotten the session"));
        if has_stream {
            tokio::time::sleep(Duration::from_millis(800)).await;
        }
        assert_eq!(gw.call("desk__read", json!({"n": 3})).await.text(), r#"{"n":3}"#, "there is room: {has_stream}");
    }
}

/// Holds the stream of a session open.
async fn stream(gw: &TestGateway) -> TcpStream {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\n\r\n",
        gw.token.reveal(),
        gw.session()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(700)).await;
    stream
}

#[tokio::test]
async fn who_only_listens_hears_a_server_again_that_has_forgotten_the_session() {
    let lives = Arc::new(AtomicUsize::new(1));
    let own = Arc::clone(&lives);
    let upstream = FakeUpstream::start(json!([]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", own.load(Ordering::Acquire));
        let is_known = hit.header("mcp-session-id") == Some(&session);
        if hit.method() == "initialize" {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "s", "version": "1"}});
            let head = format!("mcp-session-id: {session}\r\n");
            return Some(json_response("200 OK", &head, &result_of(hit, &result).to_string()));
        }
        if hit.request_line.starts_with("GET") && is_known {
            let said =
                json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"of": session}});
            // It ends its stream, and so is asked for it again.
            return Some(streamed(&[(&event(&said), Duration::ZERO)]));
        }
        let is_forgotten = hit.request_line.starts_with("GET") || (hit.method() == "ping" && !is_known);
        is_forgotten.then(|| json_response("404 Not Found", "", ""))
    })
    .await;
    let gw = TestGateway::with_policy(OPEN, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    let mut ear = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut ear, r#""of":"s-1""#, 1).await;
    lives.store(2, Ordering::Release);
    read_until(&mut ear, r#""of":"s-2""#, 1).await;
    assert_eq!(reached(&upstream, "initialize"), 2, "it is greeted once more");
    // And as often as it forgets.
    lives.store(3, Ordering::Release);
    read_until(&mut ear, r#""of":"s-3""#, 1).await;
    assert_eq!(reached(&upstream, "initialize"), 3);
}

#[tokio::test]
async fn a_server_that_has_no_stream_and_says_so_by_404_is_not_greeted_again() {
    let refusing = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        hit.request_line.starts_with("GET").then(|| json_response("404 Not Found", "", ""))
    })
    .await;
    let gw = TestGateway::with_policy(OPEN, &refusing).await;
    assert_eq!(gw.initialize().await.status, 200);
    let mut ear = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    let asked = || refusing.requests().iter().filter(|hit| hit.request_line.starts_with("GET")).count();
    until("it is asked twice for its stream", || asked() >= 2).await;
    drop(read_for(&mut ear, Duration::from_millis(50)).await);
    assert_eq!(reached(&refusing, "initialize"), 1, "it knows the session");
}

#[tokio::test]
async fn who_listens_where_a_server_has_no_stream_and_says_so_by_404_is_acknowledged() {
    let refusing = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        hit.request_line.starts_with("GET").then(|| json_response("404 Not Found", "", ""))
    })
    .await;
    let gw = TestGateway::with_policy(OPEN, &refusing).await;
    for _ in 0..2 {
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        let mut ear = Caller::of(&gw).begin("subscriptions/listen", wanted).await;
        read_until(&mut ear, "acknowledged", 1).await;
    }
    assert_eq!(reached(&refusing, "initialize"), 1, "it knows the session");
}

#[tokio::test]
async fn an_error_by_404_of_a_server_that_gives_sessions_no_ids_is_passed_on() {
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), |hit: &RecordedRequest| match hit.method().as_str() {
        "initialize" => {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            Some(json_response("200 OK", "", &result_of(hit, &result).to_string()))
        }
        "tools/call" => {
            let error = json!({"code": -32050, "message": "no such desk"});
            let body = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
            Some(json_response("404 Not Found", "", &body.to_string()))
        }
        _ => None,
    })
    .await;
    let gw = TestGateway::with_policy(OPEN, &upstream).await;
    let answer = gw.call("read", json!({})).await;
    assert_eq!(answer.code(), -32050, "{}", answer.body);
    assert_eq!(reached(&upstream, "initialize"), 1, "there was nothing to forget");
}

#[tokio::test]
async fn an_event_of_a_session_that_was_forgotten_is_not_named_in_the_one_that_follows() {
    let (lives, told) = (Arc::new(AtomicUsize::new(1)), Arc::new(tokio::sync::Notify::new()));
    let (own, speak) = (Arc::clone(&lives), Arc::clone(&told));
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", own.load(Ordering::Acquire));
        let is_known = hit.header("mcp-session-id") == Some(&session);
        match hit.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
                let head = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &head, &result_of(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if !is_known => Some(json_response("404 Not Found", "", "")),
            _ if hit.request_line.starts_with("GET") => {
                let said = |number: u8| {
                    let message = json!({"jsonrpc": "2.0", "method": "notifications/vendor/news", "params": {"n": number}});
                    ScriptStep::Write(chunk(&format!("id: {session}-{number}\nretry: 50\n{}", event(&message))))
                };
                let mut script = open_stream();
                script.extend([said(1), ScriptStep::WaitFor(Arc::clone(&speak)), said(2), ScriptStep::Write(b"0\r\n\r\n".to_vec())]);
                Some(script)
            }
            _ => None,
        }
    })
    .await;
    let gw = TestGateway::with_policy(OPEN, &upstream).await;
    gw.initialize().await;
    let mut ear = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut ear, r#""n":1"#, 1).await;
    lives.store(2, Ordering::Release);
    // Somebody finds out and opens the session anew, while the stream of the one before goes on.
    gw.call("read", json!({})).await;
    told.notify_one();
    read_until(&mut ear, r#""n":1"#, 1).await;
    let heard = upstream.requests().into_iter().filter(|hit| hit.request_line.starts_with("GET"));
    let heard: Vec<_> = heard
        .map(|hit| (hit.header("mcp-session-id").map(str::to_owned), hit.header("last-event-id").map(str::to_owned)))
        .collect();
    assert_eq!(heard, [(Some("s-1".to_owned()), None), (Some("s-2".to_owned()), None)]);
}
