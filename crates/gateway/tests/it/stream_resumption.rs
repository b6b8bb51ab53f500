//! Streams that are lost and taken up again: by clients that come back to us, and by us at servers that hang up.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]

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

fn told(what: &str) -> String {
    let params = json!({"level": "info", "data": what});
    format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))
}

fn result(id: &Value, text: &str) -> String {
    let result = json!({"content": [{"type": "text", "text": text}]});
    format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// The beginning of a stream whose end is the connection's.
fn open(events: &str) -> ScriptStep {
    ScriptStep::Write(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{events}").into_bytes())
}

/// The beginning of a stream that says how long its next piece is, and does not get so far.
fn broken(events: &str) -> ScriptStep {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    ScriptStep::Write(format!("{head}{:x}\r\n{events}", events.len() + 10).into_bytes())
}

fn pause(millis: u64) -> ScriptStep {
    ScriptStep::Pause(Duration::from_millis(millis))
}

/// A server that answers as the tool's name says. `calls` are the ids of its requests so far.
fn server() -> impl Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync {
    let asked = std::sync::Mutex::new(Value::Null);
    move |hit: &RecordedRequest| {
        let id = hit.message()["id"].clone();
        if hit.method() == "tools/call" {
            *asked.lock().expect("an id") = id.clone();
        }
        let asked = || asked.lock().expect("an id").clone();
        match (hit.tool().as_str(), hit.header("last-event-id")) {
            ("streams", _) => Some(event_response(&result(&id, "streamed"))),
            ("talks", _) => Some(vec![
                open(&told("one")),
                pause(400),
                ScriptStep::Write((told("two") + &result(&id, "talked")).into_bytes()),
                ScriptStep::Close,
            ]),
            ("polls", _) => Some(event_response("id: 377\nretry: 100\ndata: \n\n")),
            (_, Some("377")) => Some(event_response(&format!("id: 378\n{}id: 379\ndata: \n\n", told("later")))),
            (_, Some("379")) => Some(event_response(&format!("id: 380\n{}", result(&asked(), "polled")))),
            ("breaks", _) => Some(vec![broken(&format!("id: b/1\n{}data: half", told("one"))), ScriptStep::Close]),
            (_, Some("b/1")) => Some(event_response(&result(&asked(), "mended"))),
            ("refuses", _) => Some(event_response("id: 9\nretry: 50\ndata: \n\n")),
            ("teases", _) => Some(event_response("id: t\nretry: 1\ndata: \n\n")),
            (_, Some("t")) => Some(event_response("data: \n\n")),
            ("ends", _) => Some(event_response(&told("no id"))),
            _ => None,
        }
    }
}

const TOOLS: [&str; 8] = ["plain", "streams", "talks", "polls", "breaks", "refuses", "teases", "ends"];

async fn desk() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!(TOOLS.map(tool_definition)), server()).await;
    let gateway = TestGateway::with_policy(POLICY, &upstream).await;
    gateway.initialize().await;
    (upstream, gateway)
}

/// A connection that a test reads line by line and may drop at any time.
struct Stream(tokio::io::Lines<BufReader<TcpStream>>);

impl Stream {
    async fn open(gw: &TestGateway, verb: &str, session: &str, last: Option<&str>, body: &str) -> Self {
        let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        let head = format!(
            "{verb} /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
            Accept: text/event-stream, application/json\r\nContent-Type: application/json\r\n\
            Mcp-Session-Id: {session}\r\n{last}Content-Length: {}\r\n\r\n{body}",
            gw.token.reveal(),
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        Self(BufReader::new(stream).lines())
    }

    async fn call(gw: &TestGateway, tool: &str) -> Self {
        let params = json!({"name": tool, "arguments": {}});
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
        Self::open(gw, "POST", &gw.session(), None, &body).await
    }

    async fn again(gw: &TestGateway, last: &str) -> Self {
        Self::open(gw, "GET", &gw.session(), Some(last), "").await
    }

    /// Reads up to an event that has this in its data, and gives the event's id.
    async fn up_to(&mut self, text: &str) -> String {
        let mut id = String::new();
        let reading = async {
            loop {
                let line = self.0.next_line().await.expect("a line").expect("a stream that goes on");
                if let Some(own) = line.strip_prefix("id: ") {
                    own.clone_into(&mut id);
                }
                if line.starts_with("data:") && line.contains(text) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(5), reading).await.expect("an event");
        id
    }

    /// All lines to the end of the stream.
    async fn rest(mut self) -> String {
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

async fn until(gw: &TestGateway, outcome: CallOutcome) {
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
    panic!("no call has ended so: {:#?}", gw.rows().await);
}

async fn opened_as(gw: &TestGateway, revision: &str) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
    gw.post(&[], &hello.to_string()).await.header("mcp-session-id").expect("a session").to_owned()
}

#[tokio::test]
async fn an_answer_has_the_form_that_the_server_chose_and_a_place_to_come_back_to() {
    let (_, gw) = desk().await;
    assert_eq!(gw.call("plain", json!({})).await.header("content-type"), Some("application/json"));
    let answer = gw.call("streams", json!({})).await;
    assert_eq!((answer.header("content-type"), answer.text().as_str()), (Some("text/event-stream"), "streamed"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let lines: Vec<&str> = answer.body.lines().collect();
    assert!(lines[0].starts_with("id: ") && lines[1] == "retry: 1000" && lines[2] == "data:", "{lines:?}");
    assert!(lines[4].starts_with("id: ") && lines[5] == "event: message", "{lines:?}");
    let again = gw.call("streams", json!({})).await;
    let all: std::collections::HashSet<&str> = ids(&answer.body).into_iter().chain(ids(&again.body)).collect();
    assert_eq!(all.len(), 4, "no id twice in a session");

    let session = opened_as(&gw, "2025-06-18").await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "streams"}}).to_string();
    let older: TestResponse = gw.post(&[("Mcp-Session-Id", &session)], &body).await;
    assert!(
        !older.body.contains("retry:") && ids(&older.body).len() == 1,
        "an event without data is new: {}",
        older.body
    );
}

#[tokio::test]
async fn a_client_that_lost_its_connection_gets_what_it_missed_and_the_result_though_the_call_has_ended() {
    let (upstream, gw) = desk().await;
    let mut lost = Stream::call(&gw, "talks").await;
    let last = lost.up_to("one").await;
    drop(lost);
    until(&gw, CallOutcome::Ok).await;
    let rest = Stream::again(&gw, &last).await.rest().await;
    assert!(rest.starts_with("HTTP/1.1 200 OK") && rest.contains("text/event-stream"), "{rest}");
    assert!(rest.contains("two") && rest.contains("talked") && !rest.contains("one"), "{rest}");
    let end = ids(&rest)[1].to_owned();
    let nothing = Stream::again(&gw, &end).await.rest().await;
    assert!(nothing.starts_with("HTTP/1.1 200 OK") && !nothing.contains("data:"), "it has everything: {nothing}");
    assert_eq!(upstream.calls().len(), 1, "nothing was done twice");
}

#[tokio::test]
async fn a_client_that_comes_back_during_the_call_goes_on_where_it_was() {
    let (_, gw) = desk().await;
    let mut lost = Stream::call(&gw, "talks").await;
    let primed = lost.up_to("").await;
    lost.up_to("one").await;
    drop(lost);
    let mut back = Stream::again(&gw, &primed).await;
    back.up_to("one").await;
    let rest = back.rest().await;
    assert!(rest.contains("two") && rest.contains("talked"), "{rest}");
}

#[tokio::test]
async fn nobody_comes_back_to_a_stream_that_is_not_theirs() {
    let (_, gw) = desk().await;
    let one = gw.call("streams", json!({"secret": 1})).await;
    let mut other = Stream::call(&gw, "talks").await;
    let primed = other.up_to("").await;
    until(&gw, CallOutcome::Ok).await;
    let rest = Stream::again(&gw, &primed).await.rest().await;
    assert!(!rest.contains("streamed"), "of that stream alone: {rest}");

    let mine = ids(&one.body)[0].to_owned();
    let session = opened_as(&gw, "2025-11-25").await;
    let refused = Stream::open(&gw, "GET", &session, Some(&mine), "").await.rest().await;
    assert!(refused.starts_with("HTTP/1.1 400") && !refused.contains("streamed"), "another session: {refused}");
    let row = gw.rows().await.pop().expect("a row").record;
    assert_eq!((row.kind, row.method.as_deref()), (RecordKind::Refused, Some("GET")));
    for unknown in ["7", "", "x-1-0", "\u{e4}"] {
        let refused = Stream::again(&gw, unknown).await.rest().await;
        assert!(refused.starts_with("HTTP/1.1 400"), "{unknown}: {refused}");
    }

    let theirs = gw.add_grant("other", POLICY);
    let head = [
        ("Authorization", &*format!("Bearer {}", theirs.reveal())),
        ("Accept", "text/event-stream"),
        ("Mcp-Session-Id", &gw.session()),
        ("Last-Event-ID", &mine),
    ];
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &head, b"").await.status, 404, "another grant");
    assert!(Stream::again(&gw, &mine).await.rest().await.contains("streamed"), "whose it is has it still");
}

/// Calls a tool in a session of a revision whose clients keep their connection.
async fn older_call(gw: &TestGateway, session: &str, tool: &str) -> TestResponse {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool}}).to_string();
    gw.post(&[("Mcp-Session-Id", session)], &body).await
}

#[tokio::test]
async fn a_server_that_hangs_up_to_be_polled_is_polled_and_the_client_sees_nothing_of_its_ids() {
    let (upstream, gw) = desk().await;
    let session = opened_as(&gw, "2025-06-18").await;
    let started = std::time::Instant::now();
    let answer = older_call(&gw, &session, "polls").await;
    assert_eq!(answer.text(), "polled");
    assert!(answer.body.contains("later"), "{}", answer.body);
    assert!(started.elapsed() >= Duration::from_millis(200), "it is left alone for as long as it wants");
    for id in ["377", "378", "379", "380"] {
        assert!(!ids(&answer.body).contains(&id), "{}", answer.body);
    }
    let gets: Vec<RecordedRequest> =
        upstream.requests().into_iter().filter(|hit| hit.request_line.starts_with("GET")).collect();
    let seen: Vec<_> = gets.iter().map(|hit| (hit.header("last-event-id"), hit.header("mcp-session-id"))).collect();
    assert_eq!(seen, [(Some("377"), Some("upstream-session")), (Some("379"), Some("upstream-session"))]);
    assert_eq!(gets[0].header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(upstream.calls().len(), 1, "the call itself is sent once");
}

#[tokio::test]
async fn a_client_that_can_be_polled_with_is_hung_up_on_like_by_the_server_and_comes_back_for_the_rest() {
    let (upstream, gw) = desk().await;
    let hung_up = Stream::call(&gw, "polls").await.rest().await;
    assert!(!hung_up.contains("polled"), "{hung_up}");
    let last = ids(&hung_up).pop().expect("a place to come back to").to_owned();
    until(&gw, CallOutcome::Ok).await;
    let rest = Stream::again(&gw, &last).await.rest().await;
    assert!(rest.contains("later") && rest.contains("polled"), "{rest}");
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn a_stream_that_broke_off_is_taken_up_where_an_event_has_an_id_and_else_is_an_error() {
    let (upstream, gw) = desk().await;
    let mended = gw.call("breaks", json!({})).await;
    assert_eq!(mended.text(), "mended", "that was no hanging up");
    assert_eq!(mended.body.matches("\"one\"").count(), 1, "{}", mended.body);
    let ended = gw.call("ends", json!({})).await;
    assert!(ended.text().contains("ended without a response"), "{}", ended.body);
    let refused = gw.call("refuses", json!({})).await;
    assert!(refused.text().contains("ended without a response"), "it has no such stream: {}", refused.body);
    let session = opened_as(&gw, "2025-06-18").await;
    let teased = older_call(&gw, &session, "teases").await;
    assert!(teased.text().contains("ended without a response"), "{}", teased.body);
    let tries = upstream.requests().into_iter().filter(|hit| hit.header("last-event-id") == Some("t")).count();
    assert_eq!(tries, 10, "not for ever");
    assert_eq!(upstream.calls().len(), 4);
}

#[tokio::test]
async fn the_stream_of_what_belongs_to_no_request_goes_on_where_it_was_lost() {
    let hears = |hit: &RecordedRequest| {
        if !hit.request_line.starts_with("GET") {
            return None;
        }
        let events = match hit.header("last-event-id") {
            None => format!("id: u1\n{}id: u2\n{}", told("first"), told("second")),
            Some("u2") => format!("id: u3\n{}", told("third")),
            Some(other) => panic!("nobody has {other}"),
        };
        Some(vec![open(&events), pause(20_000)])
    };
    let upstream = FakeUpstream::start(json!([]), hears).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    gw.initialize().await;
    let mut stream = Stream::open(&gw, "GET", &gw.session(), None, "").await;
    let primed = stream.up_to("").await;
    let first = stream.up_to("first").await;
    stream.up_to("second").await;
    drop(stream);
    let mut back = Stream::again(&gw, &first).await;
    back.up_to("second").await;
    back.up_to("third").await;
    assert_ne!(primed, first);
    drop(back);

    let stale = first.replace(first.split('-').next().expect("a tag"), "0123456789ab");
    let mut anew = Stream::again(&gw, &stale).await;
    anew.up_to("first").await;
}

#[tokio::test]
async fn the_stateless_revision_has_streams_without_ids_and_nothing_to_come_back_to() {
    let modern = |hit: &RecordedRequest| {
        let id = &hit.message()["id"];
        let reply = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        match hit.method().as_str() {
            "server/discover" => Some(json_response(
                "200 OK",
                "",
                &reply(json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})),
            )),
            "tools/list" => Some(event_response(&format!(
                "data: {}\n\n",
                reply(json!({"tools": [tool_definition("streams"), tool_definition("polls")]}))
            ))),
            _ => server()(hit),
        }
    };
    let upstream = FakeUpstream::start(json!([]), modern).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    let call = async |tool: &str| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "_meta": meta}});
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
        gw.post(&headers, &body.to_string()).await
    };
    let refused = call("nothing").await;
    assert_eq!(refused.header("content-type"), Some("application/json"), "our own list was no answer to the client");
    let streamed = call("streams").await;
    assert_eq!(streamed.header("content-type"), Some("text/event-stream"), "as the server does");
    assert!(ids(&streamed.body).is_empty() && !streamed.body.contains("retry"), "{}", streamed.body);
    assert!(call("polls").await.text().contains("ended without a response"));
    assert!(!upstream.requests().iter().any(|hit| hit.request_line.starts_with("GET")));
}
