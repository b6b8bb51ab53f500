//! What of a call crosses the eras beside its answer: questions, pages to visit, changes, and that it is cancelled.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatelodge_store::CallOutcome;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, event_response,
    json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{StatelessClient, chunk, event_stream_headers, result_response, stateless_server_response};

const ALL: &str = r#"{"version":"1","default":"allow"}"#;
const VERSION: &str = "2026-07-28";
const SECRET: &str = "canary_of_the_header";

fn request(id: i64, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

async fn stateless(gw: &TestGateway, method: &str, params: Value) -> TestResponse {
    let about = params.get("name").or(params.get("taskId")).and_then(Value::as_str).unwrap_or_default().to_owned();
    let headers = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", method), ("Mcp-Name", &about)];
    gw.post(&headers[..if about.is_empty() { 2 } else { 3 }], &request(3, method, params)).await
}

/// Sends a request and leaves the answer to be read.
async fn begin(gw: &TestGateway, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let (address, token, length) = (gw.address, gw.token.reveal(), body.len());
    let head = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("it can be written");
    stream
}

async fn begin_stateless(gw: &TestGateway, id: i64, method: &str, params: Value) -> TcpStream {
    let about = params.get("name").and_then(Value::as_str).map(|name| format!("Mcp-Name: {name}\r\n"));
    let headers = format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: {method}\r\n{}", about.unwrap_or_default());
    begin(gw, &headers, &request(id, method, params)).await
}

/// Reads from a stream until a text is there, and gives all that came.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    let reading = async {
        while !String::from_utf8_lossy(&all).contains(text) {
            let read = stream.read(&mut buffer).await.expect("it can be read");
            assert_ne!(read, 0, "it ended before {text}");
            all.extend_from_slice(&buffer[..read]);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), reading).await.expect("it comes");
    String::from_utf8_lossy(&all).into_owned()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..100 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

fn done(hit: &RecordedRequest, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": [{"type": "text", "text": text}]}})
}

fn asked(id: Value, method: &str) -> String {
    event(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": method}}))
}

/// A server with sessions.
fn legacy_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = |text: String| format!("{:x}\r\n{text}\r\n", text.len());
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("initialize", _) => {
            let result = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "old", "version": "1"},
                "capabilities": {"tools": {"listChanged": true}}});
            let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
            Some(json_response("200 OK", "mcp-session-id: s-1\r\n", &text))
        }
        ("tools/call", "ask-three") => {
            let first = asked(json!(77), "elicitation/create");
            let rest = [asked(json!("78"), "sampling/createMessage"), asked(json!(79), "roots/list")].concat();
            Some(vec![
                ScriptStep::Write(format!("{head}{}", chunk(first)).into_bytes()),
                ScriptStep::Write(chunk(rest).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(700)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&done(hit, "done")))).into_bytes()),
            ])
        }
        ("tools/call", "ask-by-name") => {
            let question = |id: i64, key: &str| {
                let params = json!({"message": "m", "_meta": {"gatelodge/inputKey": key}});
                event(&json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}))
            };
            let keys = ["user_name", "user_name", "ask", "a b", SECRET];
            let questions: String = (71..).zip(keys).map(|(id, key)| question(id, key)).collect();
            Some(vec![
                ScriptStep::Write(format!("{head}{}", chunk(questions)).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(700)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&done(hit, "done")))).into_bytes()),
            ])
        }
        ("tools/call", "ask-twice") => {
            let question = |id: i64| asked(json!(id), "elicitation/create");
            Some(vec![
                ScriptStep::Write(format!("{head}{}", chunk(question(71))).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(400)),
                ScriptStep::Write(chunk(question(72)).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(700)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&done(hit, "done")))).into_bytes()),
            ])
        }
        ("tools/call", "slow") => {
            Some(vec![ScriptStep::Write(head.as_bytes().to_vec()), ScriptStep::Pause(Duration::from_secs(30))])
        }
        ("tools/call", "change") => {
            let said =
                |method: &str| event(&json!({"jsonrpc": "2.0", "method": method, "params": {"elicitationId": "e"}}));
            let events =
                [said("notifications/tools/list_changed"), said("notifications/elicitation/complete")].concat();
            Some(event_response(&(events + &event(&done(hit, "changed")))))
        }
        ("tools/call", "page") if hit.message()["params"]["arguments"]["visited"].is_null() => {
            let page =
                json!({"mode": "url", "message": "sign in", "url": "https://example.com/in", "elicitationId": "e"});
            let error = json!({"code": -32042, "message": "a page first", "data": {"elicitations": [page]}});
            let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error}).to_string();
            Some(json_response("200 OK", "", &text))
        }
        _ if hit.request_line.starts_with("GET") => {
            Some(vec![ScriptStep::Write(head.as_bytes().to_vec()), ScriptStep::Pause(Duration::from_secs(30))])
        }
        _ => None,
    }
}

async fn before_legacy(policy: &str) -> (FakeUpstream, TestGateway) {
    let tools = ["ask-three", "ask-by-name", "ask-twice", "slow", "change", "page"].map(tool_definition);
    let upstream = FakeUpstream::start(json!(tools), legacy_server).await;
    let gw = TestGateway::builder().policy(policy).secret_header("x-key", SECRET, SECRET).start(&upstream).await;
    (upstream, gw)
}

#[tokio::test]
async fn what_a_server_asks_at_once_a_stateless_client_is_asked_at_once_until_all_is_answered() {
    let (upstream, gw) = before_legacy(ALL).await;
    let call = |extra: Value| {
        let mut params = json!({"name": "ask-three", "arguments": {}});
        params.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        params
    };
    let asked = stateless(&gw, "tools/call", call(json!({}))).await.message()["result"].clone();
    let methods: Vec<&Value> =
        ["ask", "ask-2", "ask-3"].iter().map(|key| &asked["inputRequests"][key]["method"]).collect();
    assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);

    let some = json!({"requestState": asked["requestState"],
        "inputResponses": {"ask": {"action": "accept"}, "ask-2": 5, "ask-3": {"roots": []}, "other": {}}});
    let again = stateless(&gw, "tools/call", call(some)).await.message()["result"].clone();
    assert_eq!(again["inputRequests"].as_object().map(serde_json::Map::len), Some(1));
    assert_eq!(again["inputRequests"]["ask-2"]["method"], "sampling/createMessage");
    assert_ne!(again["requestState"], asked["requestState"]);

    let rest = json!({"requestState": again["requestState"], "inputResponses": {"ask-2": {"model": "m"}}});
    assert_eq!(stateless(&gw, "tools/call", call(rest)).await.text(), "done");
    let hits: Vec<Value> = upstream.requests().iter().map(RecordedRequest::message).collect();
    let told: Vec<(&Value, &Value)> =
        hits.iter().filter(|hit| !hit["result"].is_null()).map(|hit| (&hit["id"], &hit["result"])).collect();
    assert_eq!(
        told,
        [
            (&json!(77), &json!({"action": "accept"})),
            (&json!(79), &json!({"roots": []})),
            (&json!("78"), &json!({"model": "m"}))
        ]
    );
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn a_question_is_called_as_the_server_calls_it_and_never_as_another_or_by_a_secret() {
    let (_, gw) = before_legacy(ALL).await;
    let answer = stateless(&gw, "tools/call", json!({"name": "ask-by-name", "arguments": {}})).await;
    let asked = answer.message()["result"]["inputRequests"].clone();
    let keys: Vec<&String> = asked.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["user_name", "ask-2", "ask-3", "ask-4", "ask-5"]);
    assert!(!answer.body.contains(SECRET));
}

#[tokio::test]
async fn what_a_stateless_client_says_before_it_is_asked_answers_the_first_questions_and_no_others() {
    let (upstream, gw) = before_legacy(ALL).await;
    let brought = json!({"name": "ask-twice", "arguments": {},
        "inputResponses": {"ask": {"action": "accept"}, "other": {"action": "accept"}}});
    let asked = stateless(&gw, "tools/call", brought).await.message()["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "the second question is another one: {asked}");
    let told = || {
        let hits: Vec<Value> = upstream.requests().iter().map(RecordedRequest::message).collect();
        hits.iter().filter(|hit| !hit["result"].is_null()).map(|hit| hit["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(told(), [json!(71)]);
    let state = &asked["requestState"];
    let rest = json!({"name": "ask-twice", "arguments": {}, "requestState": state,
        "inputResponses": {"ask": {"action": "accept"}}});
    assert_eq!(stateless(&gw, "tools/call", rest).await.text(), "done");
    assert_eq!(told(), [json!(71), json!(72)]);
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn a_stateless_client_that_hangs_up_cancels_at_a_server_with_sessions() {
    let (upstream, gw) = before_legacy(ALL).await;
    let stream = begin_stateless(&gw, 4, "tools/call", json!({"name": "slow", "arguments": {}})).await;
    until("the call arrives", || upstream.calls().len() == 1).await;
    drop(stream);
    let cancelled = || upstream.requests().into_iter().find(|hit| hit.method() == "notifications/cancelled");
    until("it is cancelled", || cancelled().is_some()).await;
    let note = cancelled().expect("a note");
    assert_eq!(note.message()["params"]["requestId"], upstream.calls()[0].message()["id"]);
    assert_eq!((note.header("mcp-session-id"), note.header("mcp-method")), (Some("s-1"), None));
    let rows = gw.rows().await;
    assert!(rows.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)), "{rows:?}");
}

#[tokio::test]
async fn a_page_that_the_user_has_to_visit_first_a_stateless_client_is_asked_for() {
    let (upstream, gw) = before_legacy(ALL).await;
    let asked =
        stateless(&gw, "tools/call", json!({"name": "page", "arguments": {}})).await.message()["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    let page = json!({"mode": "url", "message": "sign in", "url": "https://example.com/in"});
    assert_eq!(asked["inputRequests"]["page-1"], json!({"method": "elicitation/create", "params": page}));
    let again =
        json!({"name": "page", "arguments": {"visited": 1}, "inputResponses": {"page-1": {"action": "accept"}}});
    assert_eq!(stateless(&gw, "tools/call", again).await.text(), r#"{"visited":1}"#);
    assert_eq!(upstream.calls().len(), 2);

    let (_, strict) = before_legacy(r#"{"version":"1","default":"deny","tools":{"*":{}}}"#).await;
    assert_eq!(stateless(&strict, "tools/call", json!({"name": "page", "arguments": {}})).await.code(), -32042);
}

#[tokio::test]
async fn what_changes_during_a_call_a_stateless_client_hears_only_where_it_listens() {
    let (_, gw) = before_legacy(ALL).await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = begin_stateless(&gw, 41, "subscriptions/listen", wanted).await;
    read_until(&mut listening, "acknowledged").await;
    let messages = stateless(&gw, "tools/call", json!({"name": "change", "arguments": {}})).await.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["result"]["content"][0]["text"], "changed");
    let heard = read_until(&mut listening, "tools/list_changed").await;
    assert!(heard.contains(r#""io.modelcontextprotocol/subscriptionId":41"#), "{heard}");
}

/// A server without sessions; `slow` never answers, and notes who hangs up.
fn modern_server(hit: &RecordedRequest, hung_up: &Arc<AtomicBool>) -> Option<ResponseScript> {
    let complete = |mut result: Value| {
        result["resultType"] = json!("complete");
        let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
        Some(json_response("200 OK", "", &text))
    };
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("initialize", _) => Some(json_response(
            "404 Not Found",
            "",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}"#,
        )),
        ("server/discover", _) => complete(json!({"supportedVersions": [VERSION], "capabilities": {"tools": {}}})),
        ("tools/list", _) => complete(json!({"tools": [tool_definition("slow"), tool_definition("page")]})),
        ("tools/call", "slow") => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: here\n\n";
            Some(vec![ScriptStep::Write(head.as_bytes().to_vec()), ScriptStep::WaitForHangUp(Arc::clone(hung_up))])
        }
        ("tools/call", _) => {
            let page = json!({"mode": "url", "message": "sign in", "url": "https://example.com/in"});
            let result = json!({"resultType": "input_required",
                "inputRequests": {"k": {"method": "elicitation/create", "params": page}}});
            let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
            Some(json_response("200 OK", "", &text))
        }
        _ => None,
    }
}

async fn before_modern() -> (FakeUpstream, TestGateway, Arc<AtomicBool>) {
    let hung_up = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&hung_up);
    let upstream = FakeUpstream::start(json!([]), move |hit| modern_server(hit, &noted)).await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    gw.initialize().await;
    (upstream, gw, hung_up)
}

async fn begin_in_session(gw: &TestGateway, tool: &str) -> TcpStream {
    let params = json!({"name": tool, "arguments": {}});
    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}).to_string();
    begin(gw, &format!("Mcp-Session-Id: {}\r\n", gw.session()), &body).await
}

async fn cancel(gw: &TestGateway) {
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    assert_eq!(gw.send(&note).await.status, 202);
}

#[tokio::test]
async fn a_client_with_a_session_that_cancels_hangs_up_at_a_server_without() {
    let (upstream, gw, hung_up) = before_modern().await;
    let stream = begin_in_session(&gw, "slow").await;
    until("the call arrives", || upstream.calls().len() == 1).await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!hung_up.load(Ordering::Acquire), "who has a session comes back");
    cancel(&gw).await;
    until("the server sees it", || hung_up.load(Ordering::Acquire)).await;
    assert!(
        !upstream.requests().iter().any(|hit| hit.method() == "notifications/cancelled"),
        "that era has none over HTTP"
    );
}

#[tokio::test]
async fn a_stateless_client_that_hangs_up_hangs_up_at_a_server_without_sessions() {
    let (upstream, gw, hung_up) = before_modern().await;
    let stream = begin_stateless(&gw, 8, "tools/call", json!({"name": "slow"})).await;
    until("a call", || upstream.calls_to("slow").len() == 1).await;
    drop(stream);
    until("hung up", || hung_up.load(Ordering::Acquire)).await;
    assert!(upstream.requests().iter().all(|hit| hit.method() != "notifications/cancelled"));
}

#[tokio::test]
async fn a_stateless_client_at_standard_streams_cancels_by_the_id_of_its_request() {
    let (upstream, gw, hung_up) = before_modern().await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, _answers) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let call = request(8, "tools/call", json!({"name": "slow"}));
    client.write_all(format!("{call}\n").as_bytes()).await.expect("it can be written");
    until("a call", || upstream.calls_to("slow").len() == 1).await;
    for id in [json!(9), json!(8)] {
        assert!(!hung_up.load(Ordering::Acquire), "not by another's id");
        let params = json!({"requestId": id});
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        client.write_all(format!("{cancelled}\n").as_bytes()).await.expect("it can be written");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until("hung up", || hung_up.load(Ordering::Acquire)).await;
    drop(client);
    running.await.expect("it ends").expect("in order");
    let rows = gw.rows().await;
    assert!(rows.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)));
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_its_client_is_asked_is_not_sent_again() {
    let (upstream, gw, _) = before_modern().await;
    let mut stream = begin_in_session(&gw, "page").await;
    let text = read_until(&mut stream, "sign in").await;
    let question = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("a question");
    let question: Value = serde_json::from_str(question).expect("json");
    assert!(question["params"]["elicitationId"].is_string(), "a session has an id for a page: {question}");
    cancel(&gw).await;
    let said = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
    gw.send(&said).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(upstream.calls().len(), 1);
    assert!(gw.rows().await.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)));
}

/// Begins a call whose server asks, and gives the question and the connection.
async fn begin_and_be_asked(gw: &TestGateway) -> (Value, TcpStream) {
    let mut stream = begin_in_session(gw, "page").await;
    let text = read_until(&mut stream, "sign in").await;
    let question = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("a question");
    (serde_json::from_str(question).expect("json"), stream)
}

#[tokio::test]
async fn what_a_client_says_goes_nowhere_when_its_grant_was_changed_meanwhile() {
    let (upstream, gw, _) = before_modern().await;
    let (question, mut stream) = begin_and_be_asked(&gw).await;
    gw.change_grants(|grants| {
        grants.iter_mut().for_each(|grant| grant.servers.values_mut().for_each(|door| door.policy = None))
    });
    gw.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})).await;
    read_until(&mut stream, "changed while the client was asked").await;
    assert_eq!(upstream.calls().len(), 1, "not a second time");
}

#[tokio::test]
async fn what_a_call_cost_is_not_given_back_when_its_server_is_gone_before_the_client_answers() {
    let upstream = FakeUpstream::start(json!([]), |hit| modern_server(hit, &Arc::default())).await;
    let limited = r#"{"version":"1","default":"deny","tools":{"page":{"rate_limit":"1/day"}},"client_requests":{"elicitation":"allow"}}"#;
    let gw = TestGateway::with_policy(limited, &upstream).await;
    gw.initialize().await;
    let (question, mut stream) = begin_and_be_asked(&gw).await;
    upstream.stop();
    gw.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})).await;
    read_until(&mut stream, "isError").await;
    let ends: Vec<_> = gw.rows().await.into_iter().filter_map(|row| row.record.outcome).collect();
    assert!(ends.contains(&CallOutcome::ConnectionLost) && !ends.contains(&CallOutcome::NotSent), "{ends:?}");
    let again = gw.call("page", json!({})).await;
    assert!(again.text().contains("limit"), "{}", again.body);
}

#[tokio::test]
async fn a_call_ends_when_the_session_of_the_client_that_is_asked_does() {
    let (upstream, gw, _) = before_modern().await;
    let (_, stream) = begin_and_be_asked(&gw).await;
    drop(stream);
    let (session, token) = (gw.session(), format!("Bearer {}", gw.token.reveal()));
    let headers = [("Authorization", token.as_str()), ("Mcp-Session-Id", session.as_str())];
    assert_eq!(gw.send_raw("DELETE", "/mcp/desk", &headers, b"").await.status, 204);
    let mut rounds = 0;
    while !gw.rows().await.iter().any(|row| row.record.outcome == Some(CallOutcome::ConnectionLost)) {
        rounds += 1;
        assert!(rounds < 50, "it waits for nobody");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn tasks_of_the_other_era_are_refused_and_say_so() {
    let (legacy, gw) = before_legacy(ALL).await;
    let answer = stateless(&gw, "tasks/get", json!({"taskId": "t"})).await;
    assert_eq!((answer.status, answer.code()), (404, -32601));
    assert!(answer.body.contains("tasks are not translated"), "{}", answer.body);
    let (modern, gw, _) = before_modern().await;
    let get = json!({"jsonrpc": "2.0", "id": 5, "method": "tasks/get", "params": {"taskId": "t"}});
    let answer = gw.send(&get).await;
    assert_eq!((answer.status, answer.code()), (200, -32601));
    for hit in [legacy.requests(), modern.requests()].concat() {
        assert!(!hit.method().starts_with("tasks/"), "{}", hit.body);
    }
}

const ASKS: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"client_requests":{"elicitation":"allow"}}"#;

/// What a client brings back that was asked.
fn brought(asked: &Value, key: &str) -> Value {
    json!({"name": "ask", "arguments": {}, "requestState": asked["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"code": "4711"}}}})
}

#[tokio::test]
async fn what_must_not_be_asked_any_more_is_not_answered_and_what_waits_for_it_ends_at_once() {
    let no_tool = r#"{"version":"1","default":"deny","tools":{"ask":{"action":"deny"}},"client_requests":{"elicitation":"allow"}}"#;
    let no_question = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
    for (then, why) in [(no_question, "does not let the server ask `elicitation/create`"), (no_tool, "POLICY DENIED")] {
        let upstream = FakeUpstream::start(json!([tool_definition("ask")]), |hit: &RecordedRequest| {
            let question = event(
                &json!({"jsonrpc": "2.0", "id": 77, "method": "elicitation/create", "params": {"message": "code?"}}),
            );
            let waits = vec![ScriptStep::Write(chunk(&question)), ScriptStep::Pause(Duration::from_secs(30))];
            (hit.method() == "tools/call").then(|| [event_stream_headers(), waits].concat())
        })
        .await;
        let gw = TestGateway::with_policy(ASKS, &upstream).await;
        let asked = StatelessClient::new(&gw).call("ask", json!({})).await.message()["result"].clone();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        gw.put_policy("desk", then);
        let refused = StatelessClient::new(&gw).request("tools/call", brought(&asked, "ask")).await;
        let said = refused.message()["result"].clone();
        assert_eq!(said["isError"], true, "{why}: {}", refused.body);
        assert!(refused.text().contains(why), "{why}: {}", refused.body);
        assert!(upstream.requests().iter().all(|hit| !hit.body.contains("4711")), "{why}: the server is told nothing");
        let is_cancelled = || upstream.requests().iter().any(|hit| hit.method() == "notifications/cancelled");
        until(&format!("{why}: it ends at once"), is_cancelled).await;
        gw.put_policy("desk", ASKS);
        let late = StatelessClient::new(&gw).request("tools/call", brought(&asked, "ask")).await;
        assert_eq!(late.code(), -32602, "{why}: and cannot be gone on with: {}", late.body);
    }
}

/// A server without sessions that answers calls by this text.
async fn says(result: String) -> FakeUpstream {
    FakeUpstream::start(json!([]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" => {
            let id = &hit.message()["id"];
            Some(json_response("200 OK", "", &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)))
        }
        _ => stateless_server_response(hit, &json!([tool_definition("ask")]), &json!({"tools": {}})),
    })
    .await
}

#[tokio::test]
async fn a_question_that_must_not_be_asked_passes_in_no_spelling() {
    let question = r#"{"q":{"method":"sampling/createMessage","params":{"messages":[]}}}"#;
    let elicit = r#"{"e":{"method":"elicitation/create","params":{"message":"sure?"}}}"#;
    let many: Vec<String> = (0..40)
        .map(|at| format!(r#""{at}":{{"method":"elicitation/create","params":{{"message":"sure?"}}}}"#))
        .collect();
    let spelled = [
        format!(r#"{{"resultType":"input_required","inputRequests":{question}}}"#),
        format!(r#"{{"resultType":"input\u005frequired","inputRequests":{question}}}"#),
        format!(r#"{{"resultType":"input\u005Frequired","input\u0052equests":{question}}}"#),
        format!(r#"{{"resultType":"input_required","inputRequests":{elicit},"inputRequests":{question}}}"#),
        r#"{"resultType":"input_required","inputRequests":{"q":{"method":"tools/call"}}}"#.to_owned(),
        format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, many.join(",")),
    ];
    for result in spelled {
        let upstream = says(result.clone()).await;
        let gw = TestGateway::with_policy(ASKS, &upstream).await;
        let refused = StatelessClient::new(&gw).call("ask", json!({})).await;
        assert_eq!(refused.message()["result"]["isError"], true, "{result}: {}", refused.body);
        assert!(
            !refused.body.contains("createMessage") && !refused.body.contains("sure?"),
            "{result}: {}",
            refused.body
        );
    }
    let plain = r#"{"resultType":"complete","content":[{"type":"text","text":"input_required \u0041"}]}"#;
    let gw = TestGateway::with_policy(ASKS, &says(plain.to_owned()).await).await;
    assert!(
        StatelessClient::new(&gw).call("ask", json!({})).await.body.contains(plain),
        "what asks nothing passes as it is"
    );
}

#[tokio::test]
async fn a_server_that_asks_whether_anybody_is_there_is_answered_for_who_has_no_session() {
    let upstream = FakeUpstream::start(json!([tool_definition("ask")]), |hit: &RecordedRequest| {
        let ping = event(&json!({"jsonrpc": "2.0", "id": "there?", "method": "ping"}));
        let done = event(&json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": []}}));
        let steps = vec![
            ScriptStep::Write(chunk(&ping)),
            ScriptStep::Pause(Duration::from_millis(300)),
            ScriptStep::Write(chunk(&done)),
        ];
        (hit.method() == "tools/call").then(|| [event_stream_headers(), steps].concat())
    })
    .await;
    let gw = TestGateway::with_policy(ASKS, &upstream).await;
    let done = StatelessClient::new(&gw).call("ask", json!({})).await;
    assert_eq!(done.message()["result"]["resultType"], "complete", "{}", done.body);
    let answer = upstream.requests().into_iter().map(|hit| hit.message()).find(|message| message["id"] == "there?");
    assert_eq!(answer.expect("an answer")["result"], json!({}));
}

/// A server without sessions that asks once before it answers.
async fn asks_once() -> FakeUpstream {
    FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" if hit.message()["params"]["inputResponses"].is_null() => {
            let wanted = json!({"q": {"method": "elicitation/create", "params": {"message": "code?"}}});
            result_response(hit, &json!({"resultType": "input_required", "inputRequests": wanted, "requestState": "s"}))
        }
        "tools/call" => result_response(hit, &json!({"resultType": "complete", "content": []})),
        _ => stateless_server_response(hit, &json!([tool_definition("ask")]), &json!({"tools": {}})),
    })
    .await
}

#[tokio::test]
async fn what_a_server_without_sessions_asks_is_judged_when_it_asks_and_when_it_is_answered() {
    let upstream = asks_once().await;
    let silent = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
    let gw = TestGateway::with_policy(ASKS, &upstream).await;
    let asked = StatelessClient::new(&gw).call("ask", json!({})).await.message()["result"].clone();
    assert_eq!(asked["inputRequests"]["q"]["method"], "elicitation/create", "{asked}");
    gw.put_policy("desk", silent);
    let refused = StatelessClient::new(&gw).request("tools/call", brought(&asked, "q")).await;
    assert_eq!(refused.message()["result"]["isError"], true, "{}", refused.body);
    assert_eq!(upstream.calls().len(), 1, "the answer is not sent");
    let unasked = StatelessClient::new(&gw).call("ask", json!({})).await;
    assert!(!unasked.body.contains("code?"), "the client is not asked: {}", unasked.body);
    assert_eq!(unasked.message()["result"]["isError"], true, "{}", unasked.body);
    gw.put_policy("desk", ASKS);
    let done = StatelessClient::new(&gw).request("tools/call", brought(&asked, "q")).await;
    assert_eq!(done.message()["result"]["resultType"], "complete", "{}", done.body);
}

#[tokio::test]
async fn a_server_that_wants_something_and_does_not_say_what_is_not_called_again() {
    for result in [
        r#"{"resultType":"input_required"}"#,
        r#"{"resultType":"input_required","inputRequests":{}}"#,
        r#"{"resultType":"input_required","inputRequests":[1,2]}"#,
        r#"{"resultType":"input_required","requestState":7}"#,
    ] {
        let upstream = says(result.to_owned()).await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        gw.initialize().await;
        let refused = gw.call("ask", json!({})).await;
        assert!(refused.body.contains("does not say which"), "{result}: {}", refused.body);
        assert_eq!(upstream.calls().len(), 1, "{result}");
    }
}

#[tokio::test]
async fn a_client_that_sends_its_call_anew_with_an_answer_pays_for_it_anew() {
    let upstream = asks_once().await;
    let thrice = r#"{"version":"1","default":"deny","tools":{"ask":{"rate_limit":"3/day"}},"client_requests":{"elicitation":"allow"}}"#;
    let gw = TestGateway::with_policy(thrice, &upstream).await;
    let asked = StatelessClient::new(&gw).call("ask", json!({})).await.message()["result"].clone();
    let done = StatelessClient::new(&gw).request("tools/call", brought(&asked, "q")).await;
    assert_eq!(done.message()["result"]["resultType"], "complete", "{}", done.body);
    let asked = StatelessClient::new(&gw).call("ask", json!({})).await.message()["result"].clone();
    let refused = StatelessClient::new(&gw).request("tools/call", brought(&asked, "q")).await;
    assert_eq!(refused.message()["result"]["isError"], true, "the fourth: {}", refused.body);
    assert_eq!(upstream.calls().len(), 3);
}
