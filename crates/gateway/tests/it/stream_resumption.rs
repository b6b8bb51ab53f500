//! Resumption of streams: by clients that reconnect to the gateway, and by the gateway at servers that close the stream.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use gatelodge_store::{CallOutcome, RecordKind};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, event_response,
    json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;

fn log_event(data: &str) -> String {
    let params = json!({"level": "info", "data": data});
    format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))
}

fn result_event(id: &Value, text: &str) -> String {
    let result = json!({"content": [{"type": "text", "text": text}]});
    format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Start of a stream that ends when the connection closes.
fn open_stream(events: &str) -> ScriptStep {
    ScriptStep::Write(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{events}").into_bytes())
}

/// Start of a chunked stream that breaks off within its first chunk.
fn broken_stream(events: &str) -> ScriptStep {
    let headers = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    ScriptStep::Write(format!("{headers}{:x}\r\n{events}", events.len() + 10).into_bytes())
}

fn pause(millis: u64) -> ScriptStep {
    ScriptStep::Pause(Duration::from_millis(millis))
}

/// A server that responds as the tool's name says. A GET with `Last-Event-ID` continues the stream of the last call.
fn respond() -> impl Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync {
    let last_call_id = std::sync::Mutex::new(Value::Null);
    move |request: &RecordedRequest| {
        let id = request.message()["id"].clone();
        if request.method() == "tools/call" {
            *last_call_id.lock().expect("an id") = id.clone();
        }
        let last_call_id = || last_call_id.lock().expect("an id").clone();
        match (request.tool().as_str(), request.header("last-event-id")) {
            ("streams", _) => Some(event_response(&result_event(&id, "streamed"))),
            ("talks", _) => Some(vec![
                open_stream(&log_event("one")),
                pause(400),
                ScriptStep::Write((log_event("two") + &result_event(&id, "talked")).into_bytes()),
                ScriptStep::Close,
            ]),
            ("polls", _) => Some(event_response("id: 377\nretry: 100\ndata: \n\n")),
            (_, Some("377")) => Some(event_response(&format!("id: 378\n{}id: 379\ndata: \n\n", log_event("later")))),
            (_, Some("379")) => Some(event_response(&format!("id: 380\n{}", result_event(&last_call_id(), "polled")))),
            ("breaks", _) => {
                Some(vec![broken_stream(&format!("id: b/1\n{}data: half", log_event("one"))), ScriptStep::Close])
            }
            (_, Some("b/1")) => Some(event_response(&result_event(&last_call_id(), "resumed"))),
            ("refuses", _) => Some(event_response("id: 9\nretry: 50\ndata: \n\n")),
            ("never_ends", _) => Some(event_response("id: t\nretry: 1\ndata: \n\n")),
            (_, Some("t")) => Some(event_response("data: \n\n")),
            ("ends", _) => Some(event_response(&log_event("no id"))),
            _ => None,
        }
    }
}

const TOOLS: [&str; 8] = ["plain", "streams", "talks", "polls", "breaks", "refuses", "never_ends", "ends"];

async fn start_gateway() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!(TOOLS.map(tool_definition)), respond()).await;
    let gateway = TestGateway::with_policy(POLICY, &upstream).await;
    gateway.initialize().await;
    (upstream, gateway)
}

/// A connection that is read line by line and can be dropped at any time.
struct TestStream(tokio::io::Lines<BufReader<TcpStream>>);

impl TestStream {
    async fn open(gw: &TestGateway, verb: &str, session: &str, last_event_id: Option<&str>, body: &str) -> Self {
        let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
        let last_event_id = last_event_id.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "{verb} /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
            Accept: text/event-stream, application/json\r\nContent-Type: application/json\r\n\
            Mcp-Session-Id: {session}\r\n{last_event_id}Content-Length: {}\r\n\r\n{body}",
            gw.token.reveal(),
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        Self(BufReader::new(stream).lines())
    }

    async fn call(gw: &TestGateway, tool: &str) -> Self {
        let params = json!({"name": tool, "arguments": {}});
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
        Self::open(gw, "POST", &gw.session(), None, &body).await
    }

    async fn resume(gw: &TestGateway, last_event_id: &str) -> Self {
        Self::open(gw, "GET", &gw.session(), Some(last_event_id), "").await
    }

    /// Reads up to an event with `text` in its data, and returns the id of that event.
    async fn read_up_to(&mut self, text: &str) -> String {
        let mut id = String::new();
        let reading = async {
            loop {
                let line = self.0.next_line().await.expect("a line").expect("an open stream");
                if let Some(event_id) = line.strip_prefix("id: ") {
                    event_id.clone_into(&mut id);
                }
                if line.starts_with("data:") && line.contains(text) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(5), reading).await.expect("an event");
        id
    }

    /// Returns all lines to the end of the stream.
    async fn read_to_end(mut self) -> String {
        let mut all = Vec::new();
        let reading = async {
            while let Some(line) = self.0.next_line().await.ok().flatten() {
                all.push(line);
            }
        };
        tokio::time::timeout(Duration::from_secs(5), reading).await.expect("an end");
        all.join("\n")
    }
}

fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
}

async fn wait_for_outcome(gw: &TestGateway, outcome: CallOutcome) {
    for _ in 0..500 {
        if gw
            .rows()
            .await
            .iter()
            .any(|row| row.record.kind == RecordKind::Outcome && row.record.outcome == Some(outcome))
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no call ended with {outcome:?}: {:#?}", gw.rows().await);
}

async fn open_session(gw: &TestGateway, revision: &str) -> String {
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
    gw.post(&[], &initialize.to_string()).await.header("mcp-session-id").expect("a session").to_owned()
}

#[tokio::test]
async fn a_reply_keeps_the_servers_content_type_and_a_stream_starts_with_an_event_id() {
    let (_, gw) = start_gateway().await;
    assert_eq!(gw.call("plain", json!({})).await.header("content-type"), Some("application/json"));
    let reply = gw.call("streams", json!({})).await;
    assert_eq!((reply.header("content-type"), reply.text().as_str()), (Some("text/event-stream"), "streamed"));
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    let lines: Vec<&str> = reply.body.lines().collect();
    assert!(lines[0].starts_with("id: ") && lines[1] == "retry: 1000" && lines[2] == "data:", "{lines:?}");
    assert!(lines[4].starts_with("id: ") && lines[5] == "event: message", "{lines:?}");
    let second_reply = gw.call("streams", json!({})).await;
    let all: std::collections::HashSet<&str> = ids(&reply.body).into_iter().chain(ids(&second_reply.body)).collect();
    assert_eq!(all.len(), 4, "event ids are unique in a session");

    let session = open_session(&gw, "2025-06-18").await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "streams"}}).to_string();
    let older: TestResponse = gw.post(&[("Mcp-Session-Id", &session)], &body).await;
    assert!(
        !older.body.contains("retry:") && ids(&older.body).len() == 1,
        "older revisions have no event without data: {}",
        older.body
    );
}

#[tokio::test]
async fn a_client_that_reconnects_after_the_call_gets_the_missed_events_and_the_result() {
    let (upstream, gw) = start_gateway().await;
    let mut stream = TestStream::call(&gw, "talks").await;
    let last = stream.read_up_to("one").await;
    drop(stream);
    wait_for_outcome(&gw, CallOutcome::Ok).await;
    let rest = TestStream::resume(&gw, &last).await.read_to_end().await;
    assert!(rest.starts_with("HTTP/1.1 200 OK") && rest.contains("text/event-stream"), "{rest}");
    assert!(rest.contains("two") && rest.contains("talked") && !rest.contains("one"), "{rest}");
    let end = ids(&rest)[1].to_owned();
    let nothing = TestStream::resume(&gw, &end).await.read_to_end().await;
    assert!(nothing.starts_with("HTTP/1.1 200 OK") && !nothing.contains("data:"), "no event is left: {nothing}");
    assert_eq!(upstream.calls().len(), 1, "the call is sent once");
}

#[tokio::test]
async fn a_client_that_reconnects_during_the_call_continues_its_stream() {
    let (_, gw) = start_gateway().await;
    let mut stream = TestStream::call(&gw, "talks").await;
    let first_id = stream.read_up_to("").await;
    stream.read_up_to("one").await;
    drop(stream);
    let mut resumed = TestStream::resume(&gw, &first_id).await;
    resumed.read_up_to("one").await;
    let rest = resumed.read_to_end().await;
    assert!(rest.contains("two") && rest.contains("talked"), "{rest}");
}

#[tokio::test]
async fn a_stream_can_be_resumed_only_by_its_own_session_and_grant() {
    let (_, gw) = start_gateway().await;
    let one = gw.call("streams", json!({"secret": 1})).await;
    let mut other = TestStream::call(&gw, "talks").await;
    let first_id = other.read_up_to("").await;
    wait_for_outcome(&gw, CallOutcome::Ok).await;
    let rest = TestStream::resume(&gw, &first_id).await.read_to_end().await;
    assert!(!rest.contains("streamed"), "only events of the resumed stream: {rest}");

    let event_id = ids(&one.body)[0].to_owned();
    let session = open_session(&gw, "2025-11-25").await;
    let refused = TestStream::open(&gw, "GET", &session, Some(&event_id), "").await.read_to_end().await;
    assert!(refused.starts_with("HTTP/1.1 400") && !refused.contains("streamed"), "another session: {refused}");
    let row = gw.rows().await.pop().expect("a row").record;
    assert_eq!((row.kind, row.method.as_deref()), (RecordKind::Refused, Some("GET")));
    for unknown in ["7", "", "x-1-0", "\u{e4}"] {
        let refused = TestStream::resume(&gw, unknown).await.read_to_end().await;
        assert!(refused.starts_with("HTTP/1.1 400"), "{unknown}: {refused}");
    }

    let other_token = gw.add_grant("other", POLICY);
    let headers = [
        ("Authorization", &*format!("Bearer {}", other_token.reveal())),
        ("Accept", "text/event-stream"),
        ("Mcp-Session-Id", &gw.session()),
        ("Last-Event-ID", &event_id),
    ];
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &headers, b"").await.status, 404, "another grant");
    assert!(
        TestStream::resume(&gw, &event_id).await.read_to_end().await.contains("streamed"),
        "its own session can still resume it"
    );
}

/// Calls a tool in a session of revision 2025-06-18, which has no polling: the client's connection stays open.
async fn call_without_polling(gw: &TestGateway, session: &str, tool: &str) -> TestResponse {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool}}).to_string();
    gw.post(&[("Mcp-Session-Id", session)], &body).await
}

#[tokio::test]
async fn a_server_that_closes_its_stream_is_polled_and_its_event_ids_stay_hidden() {
    let (upstream, gw) = start_gateway().await;
    let session = open_session(&gw, "2025-06-18").await;
    let started = std::time::Instant::now();
    let reply = call_without_polling(&gw, &session, "polls").await;
    assert_eq!(reply.text(), "polled");
    assert!(reply.body.contains("later"), "{}", reply.body);
    assert!(started.elapsed() >= Duration::from_millis(200), "the gateway waits for the server's `retry` time");
    for id in ["377", "378", "379", "380"] {
        assert!(!ids(&reply.body).contains(&id), "{}", reply.body);
    }
    let gets: Vec<RecordedRequest> =
        upstream.requests().into_iter().filter(|request| request.request_line.starts_with("GET")).collect();
    let get_headers: Vec<_> =
        gets.iter().map(|request| (request.header("last-event-id"), request.header("mcp-session-id"))).collect();
    assert_eq!(get_headers, [(Some("377"), Some("upstream-session")), (Some("379"), Some("upstream-session"))]);
    assert_eq!(gets[0].header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(upstream.calls().len(), 1, "the call is sent once");
}

#[tokio::test]
async fn a_client_that_supports_polling_is_disconnected_and_resumes_for_the_rest() {
    let (upstream, gw) = start_gateway().await;
    let closed = TestStream::call(&gw, "polls").await.read_to_end().await;
    assert!(!closed.contains("polled"), "{closed}");
    let last = ids(&closed).pop().expect("an event id").to_owned();
    wait_for_outcome(&gw, CallOutcome::Ok).await;
    let rest = TestStream::resume(&gw, &last).await.read_to_end().await;
    assert!(rest.contains("later") && rest.contains("polled"), "{rest}");
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn a_broken_upstream_stream_is_resumed_after_an_event_id_and_is_an_error_otherwise() {
    let (upstream, gw) = start_gateway().await;
    let continued = gw.call("breaks", json!({})).await;
    assert_eq!(continued.text(), "resumed", "the client's stream stays open");
    assert_eq!(continued.body.matches("\"one\"").count(), 1, "{}", continued.body);
    let ended = gw.call("ends", json!({})).await;
    assert!(ended.text().contains("ended without a response"), "{}", ended.body);
    let refused = gw.call("refuses", json!({})).await;
    assert!(refused.text().contains("ended without a response"), "the server refuses the GET: {}", refused.body);
    let session = open_session(&gw, "2025-06-18").await;
    let endless = call_without_polling(&gw, &session, "never_ends").await;
    assert!(endless.text().contains("ended without a response"), "{}", endless.body);
    let attempts =
        upstream.requests().into_iter().filter(|request| request.header("last-event-id") == Some("t")).count();
    assert_eq!(attempts, 10, "resumption has a limit");
    assert_eq!(upstream.calls().len(), 4);
}

#[tokio::test]
async fn a_standalone_stream_is_resumed_where_it_was_lost() {
    let respond_to_get = |request: &RecordedRequest| {
        if !request.request_line.starts_with("GET") {
            return None;
        }
        let events = match request.header("last-event-id") {
            None => format!("id: u1\n{}id: u2\n{}", log_event("first"), log_event("second")),
            Some("u2") => format!("id: u3\n{}", log_event("third")),
            Some(other) => panic!("unknown event id {other}"),
        };
        Some(vec![open_stream(&events), pause(20_000)])
    };
    let upstream = FakeUpstream::start(json!([]), respond_to_get).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    gw.initialize().await;
    let mut stream = TestStream::open(&gw, "GET", &gw.session(), None, "").await;
    let first_id = stream.read_up_to("").await;
    let first = stream.read_up_to("first").await;
    stream.read_up_to("second").await;
    drop(stream);
    let mut resumed = TestStream::resume(&gw, &first).await;
    resumed.read_up_to("second").await;
    resumed.read_up_to("third").await;
    assert_ne!(first_id, first);
    drop(resumed);

    let stale = first.replace(first.split('-').next().expect("a tag"), "0123456789ab");
    let mut restarted = TestStream::resume(&gw, &stale).await;
    restarted.read_up_to("first").await;
}

#[tokio::test]
async fn stateless_streams_have_no_event_ids_and_are_not_resumed() {
    let respond_stateless = |request: &RecordedRequest| {
        let id = &request.message()["id"];
        let reply = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        match request.method().as_str() {
            "server/discover" => Some(json_response(
                "200 OK",
                "",
                &reply(json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})),
            )),
            "tools/list" => Some(event_response(&format!(
                "data: {}\n\n",
                reply(json!({"tools": [tool_definition("streams"), tool_definition("polls")]}))
            ))),
            _ => respond()(request),
        }
    };
    let upstream = FakeUpstream::start(json!([]), respond_stateless).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    let call = async |tool: &str| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "_meta": meta}});
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
        gw.post(&headers, &body.to_string()).await
    };
    let refused = call("nothing").await;
    assert_eq!(
        refused.header("content-type"),
        Some("application/json"),
        "the streamed tool list of the gateway's own request does not affect the reply"
    );
    let reply_of_stream = call("streams").await;
    assert_eq!(reply_of_stream.header("content-type"), Some("text/event-stream"), "the same as the server's");
    assert!(
        ids(&reply_of_stream.body).is_empty() && !reply_of_stream.body.contains("retry"),
        "{}",
        reply_of_stream.body
    );
    assert!(call("polls").await.text().contains("ended without a response"));
    assert!(!upstream.requests().iter().any(|request| request.request_line.starts_with("GET")));
}
