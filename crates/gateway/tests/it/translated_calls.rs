//! Calls between clients and servers of different protocol generations: client input, URL elicitation, notifications and
//! cancellation.
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
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::support::{
    ALLOW_ALL, StatelessTestClient, chunk, event, read_until, result_response, stateless_response, stream_headers,
    wait_until, wait_until_async,
};

const VERSION: &str = "2026-07-28";
const SECRET: &str = "canary_of_the_header";

fn request(id: i64, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

async fn stateless_request(gw: &TestGateway, method: &str, params: Value) -> TestResponse {
    let name = params.get("name").or(params.get("taskId")).and_then(Value::as_str).unwrap_or_default().to_owned();
    let headers = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", method), ("Mcp-Name", &name)];
    gw.post(&headers[..if name.is_empty() { 2 } else { 3 }], &request(3, method, params)).await
}

/// Sends a request and returns the connection, from which the test reads the response.
async fn start_request(gw: &TestGateway, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let (address, token, length) = (gw.address, gw.token.reveal(), body.len());
    let head = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("sent");
    stream
}

async fn start_stateless_request(gw: &TestGateway, id: i64, method: &str, params: Value) -> TcpStream {
    let name = params.get("name").and_then(Value::as_str).map(|name| format!("Mcp-Name: {name}\r\n"));
    let headers = format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: {method}\r\n{}", name.unwrap_or_default());
    start_request(gw, &headers, &request(id, method, params)).await
}

fn text_result(hit: &RecordedRequest, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": [{"type": "text", "text": text}]}})
}

fn server_request(id: Value, method: &str) -> String {
    event(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": method}}))
}

/// Handles the requests of a stateful server.
fn stateful_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = |text: String| format!("{:x}\r\n{text}\r\n", text.len());
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("initialize", _) => {
            let result = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "stateful", "version": "1"},
                "capabilities": {"tools": {"listChanged": true}}});
            let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
            Some(json_response("200 OK", "mcp-session-id: s-1\r\n", &text))
        }
        ("tools/call", "ask-three") => {
            let first = server_request(json!(77), "elicitation/create");
            let rest = [server_request(json!("78"), "sampling/createMessage"), server_request(json!(79), "roots/list")]
                .concat();
            Some(vec![
                ScriptStep::Write(format!("{head}{}", chunk(first)).into_bytes()),
                ScriptStep::Write(chunk(rest).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(700)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&text_result(hit, "done")))).into_bytes()),
            ])
        }
        ("tools/call", "ask-by-name") => {
            let elicitation = |id: i64, key: &str| {
                let params = json!({"message": "m", "_meta": {"gatelodge/inputKey": key}});
                event(&json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}))
            };
            let keys = ["user_name", "user_name", "ask", "a b", SECRET];
            let elicitations: String = (71..).zip(keys).map(|(id, key)| elicitation(id, key)).collect();
            Some(vec![
                ScriptStep::Write(format!("{head}{}", chunk(elicitations)).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(700)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&text_result(hit, "done")))).into_bytes()),
            ])
        }
        ("tools/call", "ask-twice") => {
            let elicitation = |id: i64| server_request(json!(id), "elicitation/create");
            Some(vec![
                ScriptStep::Write(format!("{head}{}", chunk(elicitation(71))).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(400)),
                ScriptStep::Write(chunk(elicitation(72)).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(700)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&text_result(hit, "done")))).into_bytes()),
            ])
        }
        ("tools/call", "slow") => {
            Some(vec![ScriptStep::Write(head.as_bytes().to_vec()), ScriptStep::Pause(Duration::from_secs(30))])
        }
        ("tools/call", "change") => {
            let notification =
                |method: &str| event(&json!({"jsonrpc": "2.0", "method": method, "params": {"elicitationId": "e"}}));
            let events =
                [notification("notifications/tools/list_changed"), notification("notifications/elicitation/complete")]
                    .concat();
            Some(event_response(&(events + &event(&text_result(hit, "changed")))))
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

async fn start_stateful(policy: &str) -> (FakeUpstream, TestGateway) {
    let tools = ["ask-three", "ask-by-name", "ask-twice", "slow", "change", "page"].map(tool_definition);
    let upstream = FakeUpstream::start(json!(tools), stateful_server).await;
    let gw = TestGateway::builder().policy(policy).secret_header("x-key", SECRET, SECRET).start(&upstream).await;
    (upstream, gw)
}

#[tokio::test]
async fn a_stateless_client_gets_all_requests_of_a_server_at_once_until_all_are_answered() {
    let (upstream, gw) = start_stateful(ALLOW_ALL).await;
    let call = |extra: Value| {
        let mut params = json!({"name": "ask-three", "arguments": {}});
        params.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        params
    };
    let suspended = stateless_request(&gw, "tools/call", call(json!({}))).await.message()["result"].clone();
    let methods: Vec<&Value> =
        ["ask", "ask-2", "ask-3"].iter().map(|key| &suspended["inputRequests"][key]["method"]).collect();
    assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);

    let some = json!({"requestState": suspended["requestState"],
        "inputResponses": {"ask": {"action": "accept"}, "ask-2": 5, "ask-3": {"roots": []}, "other": {}}});
    let again = stateless_request(&gw, "tools/call", call(some)).await.message()["result"].clone();
    assert_eq!(again["inputRequests"].as_object().map(serde_json::Map::len), Some(1));
    assert_eq!(again["inputRequests"]["ask-2"]["method"], "sampling/createMessage");
    assert_ne!(again["requestState"], suspended["requestState"]);

    let rest = json!({"requestState": again["requestState"], "inputResponses": {"ask-2": {"model": "m"}}});
    assert_eq!(stateless_request(&gw, "tools/call", call(rest)).await.text(), "done");
    let hits: Vec<Value> = upstream.requests().iter().map(RecordedRequest::message).collect();
    let responses: Vec<(&Value, &Value)> =
        hits.iter().filter(|hit| !hit["result"].is_null()).map(|hit| (&hit["id"], &hit["result"])).collect();
    assert_eq!(
        responses,
        [
            (&json!(77), &json!({"action": "accept"})),
            (&json!(79), &json!({"roots": []})),
            (&json!("78"), &json!({"model": "m"}))
        ]
    );
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn an_input_request_has_the_key_of_the_server_unless_it_is_taken_invalid_or_a_secret() {
    let (_, gw) = start_stateful(ALLOW_ALL).await;
    let response = stateless_request(&gw, "tools/call", json!({"name": "ask-by-name", "arguments": {}})).await;
    let input_requests = response.message()["result"]["inputRequests"].clone();
    let keys: Vec<&String> = input_requests.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["user_name", "ask-2", "ask-3", "ask-4", "ask-5"]);
    assert!(!response.body.contains(SECRET));
}

#[tokio::test]
async fn input_responses_sent_with_the_first_request_answer_only_the_first_server_requests() {
    let (upstream, gw) = start_stateful(ALLOW_ALL).await;
    let params = json!({"name": "ask-twice", "arguments": {},
        "inputResponses": {"ask": {"action": "accept"}, "other": {"action": "accept"}}});
    let suspended = stateless_request(&gw, "tools/call", params).await.message()["result"].clone();
    assert_eq!(suspended["resultType"], "input_required", "the second elicitation is a new one: {suspended}");
    let answered_ids = || {
        let hits: Vec<Value> = upstream.requests().iter().map(RecordedRequest::message).collect();
        hits.iter().filter(|hit| !hit["result"].is_null()).map(|hit| hit["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(answered_ids(), [json!(71)]);
    let state = &suspended["requestState"];
    let rest = json!({"name": "ask-twice", "arguments": {}, "requestState": state,
        "inputResponses": {"ask": {"action": "accept"}}});
    assert_eq!(stateless_request(&gw, "tools/call", rest).await.text(), "done");
    assert_eq!(answered_ids(), [json!(71), json!(72)]);
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn a_stateless_client_that_disconnects_cancels_its_call_at_a_stateful_server() {
    let (upstream, gw) = start_stateful(ALLOW_ALL).await;
    let stream = start_stateless_request(&gw, 4, "tools/call", json!({"name": "slow", "arguments": {}})).await;
    wait_until("the call arrives", || upstream.calls().len() == 1).await;
    drop(stream);
    let cancelled = || upstream.requests().into_iter().find(|hit| hit.method() == "notifications/cancelled");
    wait_until("the call is cancelled", || cancelled().is_some()).await;
    let cancellation = cancelled().expect("a cancellation");
    assert_eq!(cancellation.message()["params"]["requestId"], upstream.calls()[0].message()["id"]);
    assert_eq!((cancellation.header("mcp-session-id"), cancellation.header("mcp-method")), (Some("s-1"), None));
    let rows = gw.rows().await;
    assert!(rows.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)), "{rows:?}");
}

#[tokio::test]
async fn a_url_elicitation_error_becomes_an_input_request_for_a_stateless_client() {
    let (upstream, gw) = start_stateful(ALLOW_ALL).await;
    let suspended =
        stateless_request(&gw, "tools/call", json!({"name": "page", "arguments": {}})).await.message()["result"]
            .clone();
    assert_eq!(suspended["resultType"], "input_required");
    let page = json!({"mode": "url", "message": "sign in", "url": "https://example.com/in"});
    assert_eq!(suspended["inputRequests"]["page-1"], json!({"method": "elicitation/create", "params": page}));
    let again =
        json!({"name": "page", "arguments": {"visited": 1}, "inputResponses": {"page-1": {"action": "accept"}}});
    assert_eq!(stateless_request(&gw, "tools/call", again).await.text(), r#"{"visited":1}"#);
    assert_eq!(upstream.calls().len(), 2);

    let (_, strict) = start_stateful(r#"{"version":"1","default":"deny","tools":{"*":{}}}"#).await;
    assert_eq!(stateless_request(&strict, "tools/call", json!({"name": "page", "arguments": {}})).await.code(), -32042);
}

#[tokio::test]
async fn a_stateless_client_gets_list_changes_only_on_its_listen_stream() {
    let (_, gw) = start_stateful(ALLOW_ALL).await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut listener = start_stateless_request(&gw, 41, "subscriptions/listen", params).await;
    read_until(&mut listener, "acknowledged", 1).await;
    let messages = stateless_request(&gw, "tools/call", json!({"name": "change", "arguments": {}})).await.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["result"]["content"][0]["text"], "changed");
    let notification = read_until(&mut listener, "tools/list_changed", 1).await;
    assert!(notification.contains(r#""io.modelcontextprotocol/subscriptionId":41"#), "{notification}");
}

/// Handles the requests of a stateless server. `slow` never responds, and records when the gateway closes the request.
fn stateless_server(hit: &RecordedRequest, hung_up: &Arc<AtomicBool>) -> Option<ResponseScript> {
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

async fn start_stateless() -> (FakeUpstream, TestGateway, Arc<AtomicBool>) {
    let hung_up = Arc::new(AtomicBool::new(false));
    let hang_up = Arc::clone(&hung_up);
    let upstream = FakeUpstream::start(json!([]), move |hit| stateless_server(hit, &hang_up)).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    (upstream, gw, hung_up)
}

async fn start_call_in_session(gw: &TestGateway, tool: &str) -> TcpStream {
    let params = json!({"name": tool, "arguments": {}});
    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}).to_string();
    start_request(gw, &format!("Mcp-Session-Id: {}\r\n", gw.session()), &body).await
}

async fn cancel(gw: &TestGateway) {
    let cancellation = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    assert_eq!(gw.send(&cancellation).await.status, 202);
}

#[tokio::test]
async fn a_cancellation_of_a_stateful_client_closes_the_request_at_a_stateless_server() {
    let (upstream, gw, hung_up) = start_stateless().await;
    let stream = start_call_in_session(&gw, "slow").await;
    wait_until("the call arrives", || upstream.calls().len() == 1).await;
    drop(stream);
    // Time for a premature hang-up to show.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!hung_up.load(Ordering::Acquire), "a stateful client may reconnect");
    cancel(&gw).await;
    wait_until("the upstream request is closed", || hung_up.load(Ordering::Acquire)).await;
    assert!(
        !upstream.requests().iter().any(|hit| hit.method() == "notifications/cancelled"),
        "the stateless protocol has no such notification over HTTP"
    );
}

#[tokio::test]
async fn a_stateless_client_that_disconnects_closes_the_request_at_a_stateless_server() {
    let (upstream, gw, hung_up) = start_stateless().await;
    let stream = start_stateless_request(&gw, 8, "tools/call", json!({"name": "slow"})).await;
    wait_until("the call arrives", || upstream.calls_to("slow").len() == 1).await;
    drop(stream);
    wait_until("the upstream request is closed", || hung_up.load(Ordering::Acquire)).await;
    assert!(upstream.requests().iter().all(|hit| hit.method() != "notifications/cancelled"));
}

#[tokio::test]
async fn a_stateless_stdio_client_cancels_by_the_id_of_its_request() {
    let (upstream, gw, hung_up) = start_stateless().await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, _responses) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let call = request(8, "tools/call", json!({"name": "slow"}));
    client.write_all(format!("{call}\n").as_bytes()).await.expect("sent");
    wait_until("the call arrives", || upstream.calls_to("slow").len() == 1).await;
    for id in [json!(9), json!(8)] {
        assert!(!hung_up.load(Ordering::Acquire), "an unknown id cancels nothing");
        let params = json!({"requestId": id});
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        client.write_all(format!("{cancelled}\n").as_bytes()).await.expect("sent");
        // Time for a wrong cancellation to show.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    wait_until("the upstream request is closed", || hung_up.load(Ordering::Acquire)).await;
    drop(client);
    running.await.expect("it ends").expect("in order");
    let rows = gw.rows().await;
    assert!(rows.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)));
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_the_client_is_asked_is_not_sent_again() {
    let (upstream, gw, _) = start_stateless().await;
    let (elicitation, _stream) = start_call_and_be_asked(&gw).await;
    assert!(elicitation["params"]["elicitationId"].is_string(), "the stateful protocol has such an id: {elicitation}");
    cancel(&gw).await;
    gw.send(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": {"action": "accept"}})).await;
    // Time for a second call, which must not happen.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(upstream.calls().len(), 1);
    assert!(gw.rows().await.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)));
}

/// Starts a call and returns the elicitation of its server, and the connection.
async fn start_call_and_be_asked(gw: &TestGateway) -> (Value, TcpStream) {
    let mut stream = start_call_in_session(gw, "page").await;
    let text = read_until(&mut stream, "sign in", 1).await;
    let elicitation = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("an elicitation");
    (serde_json::from_str(elicitation).expect("json"), stream)
}

#[tokio::test]
async fn a_client_response_is_dropped_when_the_grant_changed_meanwhile() {
    let (upstream, gw, _) = start_stateless().await;
    let (elicitation, mut stream) = start_call_and_be_asked(&gw).await;
    gw.change_grants(|grants| {
        grants.iter_mut().for_each(|grant| grant.servers.values_mut().for_each(|attachment| attachment.policy = None))
    });
    gw.send(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": {"action": "accept"}})).await;
    read_until(&mut stream, "changed while the client was asked", 1).await;
    assert_eq!(upstream.calls().len(), 1, "the call is not sent again");
}

#[tokio::test]
async fn charges_are_not_released_when_the_server_stops_before_the_client_responds() {
    let upstream = FakeUpstream::start(json!([]), |hit| stateless_server(hit, &Arc::default())).await;
    let limited = r#"{"version":"1","default":"deny","tools":{"page":{"rate_limit":"1/day"}},"client_requests":{"elicitation":"allow"}}"#;
    let gw = TestGateway::with_policy(limited, &upstream).await;
    gw.initialize().await;
    let (elicitation, mut stream) = start_call_and_be_asked(&gw).await;
    upstream.stop();
    gw.send(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": {"action": "accept"}})).await;
    read_until(&mut stream, "isError", 1).await;
    let outcomes: Vec<_> = gw.rows().await.into_iter().filter_map(|row| row.record.outcome).collect();
    assert!(
        outcomes.contains(&CallOutcome::NoValidResponse) && !outcomes.contains(&CallOutcome::NotSent),
        "{outcomes:?}"
    );
    let refused = gw.call("page", json!({})).await;
    assert!(refused.text().contains("limit"), "{}", refused.body);
}

#[tokio::test]
async fn a_call_ends_when_the_session_of_the_asked_client_ends() {
    let (upstream, gw, _) = start_stateless().await;
    let (_, stream) = start_call_and_be_asked(&gw).await;
    drop(stream);
    let (session, token) = (gw.session(), format!("Bearer {}", gw.token.reveal()));
    let headers = [("Authorization", token.as_str()), ("Mcp-Session-Id", session.as_str())];
    assert_eq!(gw.send_raw("DELETE", "/mcp/desk", &headers, b"").await.status, 204);
    wait_until_async("the call ends", async || {
        gw.rows().await.iter().any(|row| row.record.outcome == Some(CallOutcome::NoValidResponse))
    })
    .await;
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn tasks_of_the_other_protocol_generation_are_refused_with_the_reason() {
    let (stateful, gw) = start_stateful(ALLOW_ALL).await;
    let response = stateless_request(&gw, "tasks/get", json!({"taskId": "t"})).await;
    assert_eq!((response.status, response.code()), (404, -32601));
    assert!(response.body.contains("tasks are not translated"), "{}", response.body);
    let (stateless, gw, _) = start_stateless().await;
    let get = json!({"jsonrpc": "2.0", "id": 5, "method": "tasks/get", "params": {"taskId": "t"}});
    let response = gw.send(&get).await;
    assert_eq!((response.status, response.code()), (200, -32601));
    for hit in [stateful.requests(), stateless.requests()].concat() {
        assert!(!hit.method().starts_with("tasks/"), "{}", hit.body);
    }
}

/// A policy that allows all tools and elicitation.
const ALLOW_ELICITATION: &str =
    r#"{"version":"1","default":"deny","tools":{"*":{}},"client_requests":{"elicitation":"allow"}}"#;

/// Returns the parameters that resume a suspended call.
fn resume_params(suspended: &Value, key: &str) -> Value {
    json!({"name": "ask", "arguments": {}, "requestState": suspended["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"code": "4711"}}}})
}

#[tokio::test]
async fn a_suspended_call_that_the_policy_no_longer_allows_is_cancelled_and_not_resumed() {
    let tool_denied = r#"{"version":"1","default":"deny","tools":{"ask":{"action":"deny"}},"client_requests":{"elicitation":"allow"}}"#;
    let elicitation_denied = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
    for (policy, reason) in
        [(elicitation_denied, "does not let the server ask `elicitation/create`"), (tool_denied, "POLICY DENIED")]
    {
        let upstream = FakeUpstream::start(json!([tool_definition("ask")]), |hit: &RecordedRequest| {
            let elicitation = event(
                &json!({"jsonrpc": "2.0", "id": 77, "method": "elicitation/create", "params": {"message": "code?"}}),
            );
            let steps = vec![ScriptStep::Write(chunk(&elicitation)), ScriptStep::Pause(Duration::from_secs(30))];
            (hit.method() == "tools/call").then(|| [stream_headers(), steps].concat())
        })
        .await;
        let gw = TestGateway::with_policy(ALLOW_ELICITATION, &upstream).await;
        let suspended = StatelessTestClient::new(&gw).call("ask", json!({})).await.message()["result"].clone();
        assert_eq!(suspended["resultType"], "input_required", "{suspended}");
        gw.put_policy("desk", policy);
        let refused = StatelessTestClient::new(&gw).request("tools/call", resume_params(&suspended, "ask")).await;
        let result = refused.message()["result"].clone();
        assert_eq!(result["isError"], true, "{reason}: {}", refused.body);
        assert!(refused.text().contains(reason), "{reason}: {}", refused.body);
        assert!(upstream.requests().iter().all(|hit| !hit.body.contains("4711")), "{reason}: the response is not sent");
        let is_cancelled = || upstream.requests().iter().any(|hit| hit.method() == "notifications/cancelled");
        wait_until(&format!("{reason}: the call is cancelled"), is_cancelled).await;
        gw.put_policy("desk", ALLOW_ELICITATION);
        let late = StatelessTestClient::new(&gw).request("tools/call", resume_params(&suspended, "ask")).await;
        assert_eq!(late.code(), -32602, "{reason}: the call cannot be resumed: {}", late.body);
    }
}

/// Starts a stateless server that responds to calls with this result text.
async fn start_server_with_result(result: String) -> FakeUpstream {
    FakeUpstream::start(json!([]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" => {
            let id = &hit.message()["id"];
            Some(json_response("200 OK", "", &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)))
        }
        _ => stateless_response(hit, &json!([tool_definition("ask")]), &json!({"tools": {}})),
    })
    .await
}

#[tokio::test]
async fn a_denied_input_request_is_refused_in_every_spelling() {
    let sampling = r#"{"q":{"method":"sampling/createMessage","params":{"messages":[]}}}"#;
    let elicitation = r#"{"e":{"method":"elicitation/create","params":{"message":"sure?"}}}"#;
    let many: Vec<String> = (0..40)
        .map(|at| format!(r#""{at}":{{"method":"elicitation/create","params":{{"message":"sure?"}}}}"#))
        .collect();
    let results = [
        format!(r#"{{"resultType":"input_required","inputRequests":{sampling}}}"#),
        format!(r#"{{"resultType":"input\u005frequired","inputRequests":{sampling}}}"#),
        format!(r#"{{"resultType":"input\u005Frequired","input\u0052equests":{sampling}}}"#),
        format!(r#"{{"resultType":"input_required","inputRequests":{elicitation},"inputRequests":{sampling}}}"#),
        r#"{"resultType":"input_required","inputRequests":{"q":{"method":"tools/call"}}}"#.to_owned(),
        format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, many.join(",")),
    ];
    for result in results {
        let upstream = start_server_with_result(result.clone()).await;
        let gw = TestGateway::with_policy(ALLOW_ELICITATION, &upstream).await;
        let refused = StatelessTestClient::new(&gw).call("ask", json!({})).await;
        assert_eq!(refused.message()["result"]["isError"], true, "{result}: {}", refused.body);
        assert!(
            !refused.body.contains("createMessage") && !refused.body.contains("sure?"),
            "{result}: {}",
            refused.body
        );
    }
    let plain = r#"{"resultType":"complete","content":[{"type":"text","text":"input_required \u0041"}]}"#;
    let gw = TestGateway::with_policy(ALLOW_ELICITATION, &start_server_with_result(plain.to_owned()).await).await;
    assert!(
        StatelessTestClient::new(&gw).call("ask", json!({})).await.body.contains(plain),
        "a result without input requests is forwarded unchanged"
    );
}

#[tokio::test]
async fn a_ping_of_a_server_is_answered_for_a_stateless_client() {
    let upstream = FakeUpstream::start(json!([tool_definition("ask")]), |hit: &RecordedRequest| {
        let ping = event(&json!({"jsonrpc": "2.0", "id": "p-1", "method": "ping"}));
        let done = event(&json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": []}}));
        let steps = vec![
            ScriptStep::Write(chunk(&ping)),
            ScriptStep::Pause(Duration::from_millis(300)),
            ScriptStep::Write(chunk(&done)),
        ];
        (hit.method() == "tools/call").then(|| [stream_headers(), steps].concat())
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ELICITATION, &upstream).await;
    let done = StatelessTestClient::new(&gw).call("ask", json!({})).await;
    assert_eq!(done.message()["result"]["resultType"], "complete", "{}", done.body);
    let response = upstream.requests().into_iter().map(|hit| hit.message()).find(|message| message["id"] == "p-1");
    assert_eq!(response.expect("a response")["result"], json!({}));
}

/// Starts a stateless server whose calls ask for input once.
async fn start_server_that_asks_once() -> FakeUpstream {
    FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" if hit.message()["params"]["inputResponses"].is_null() => {
            let input_requests = json!({"q": {"method": "elicitation/create", "params": {"message": "code?"}}});
            result_response(
                hit,
                &json!({"resultType": "input_required", "inputRequests": input_requests, "requestState": "s"}),
            )
        }
        "tools/call" => result_response(hit, &json!({"resultType": "complete", "content": []})),
        _ => stateless_response(hit, &json!([tool_definition("ask")]), &json!({"tools": {}})),
    })
    .await
}

#[tokio::test]
async fn input_requests_of_a_stateless_server_are_evaluated_when_asked_and_when_answered() {
    let upstream = start_server_that_asks_once().await;
    let no_elicitation = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
    let gw = TestGateway::with_policy(ALLOW_ELICITATION, &upstream).await;
    let suspended = StatelessTestClient::new(&gw).call("ask", json!({})).await.message()["result"].clone();
    assert_eq!(suspended["inputRequests"]["q"]["method"], "elicitation/create", "{suspended}");
    gw.put_policy("desk", no_elicitation);
    let refused = StatelessTestClient::new(&gw).request("tools/call", resume_params(&suspended, "q")).await;
    assert_eq!(refused.message()["result"]["isError"], true, "{}", refused.body);
    assert_eq!(upstream.calls().len(), 1, "the response is not sent");
    let refused = StatelessTestClient::new(&gw).call("ask", json!({})).await;
    assert!(!refused.body.contains("code?"), "the client is not asked: {}", refused.body);
    assert_eq!(refused.message()["result"]["isError"], true, "{}", refused.body);
    gw.put_policy("desk", ALLOW_ELICITATION);
    let done = StatelessTestClient::new(&gw).request("tools/call", resume_params(&suspended, "q")).await;
    assert_eq!(done.message()["result"]["resultType"], "complete", "{}", done.body);
}

#[tokio::test]
async fn an_input_required_result_without_input_requests_is_refused_and_the_call_is_not_repeated() {
    for result in [
        r#"{"resultType":"input_required"}"#,
        r#"{"resultType":"input_required","inputRequests":{}}"#,
        r#"{"resultType":"input_required","inputRequests":[1,2]}"#,
        r#"{"resultType":"input_required","requestState":7}"#,
    ] {
        let upstream = start_server_with_result(result.to_owned()).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize().await;
        let refused = gw.call("ask", json!({})).await;
        assert!(refused.body.contains("does not say which"), "{result}: {}", refused.body);
        assert_eq!(upstream.calls().len(), 1, "{result}");
    }
}

#[tokio::test]
async fn a_call_that_is_sent_again_with_input_is_charged_again() {
    let upstream = start_server_that_asks_once().await;
    let three_a_day = r#"{"version":"1","default":"deny","tools":{"ask":{"rate_limit":"3/day"}},"client_requests":{"elicitation":"allow"}}"#;
    let gw = TestGateway::with_policy(three_a_day, &upstream).await;
    let suspended = StatelessTestClient::new(&gw).call("ask", json!({})).await.message()["result"].clone();
    let done = StatelessTestClient::new(&gw).request("tools/call", resume_params(&suspended, "q")).await;
    assert_eq!(done.message()["result"]["resultType"], "complete", "{}", done.body);
    let suspended = StatelessTestClient::new(&gw).call("ask", json!({})).await.message()["result"].clone();
    let refused = StatelessTestClient::new(&gw).request("tools/call", resume_params(&suspended, "q")).await;
    assert_eq!(refused.message()["result"]["isError"], true, "the fourth call: {}", refused.body);
    assert_eq!(upstream.calls().len(), 3);
}
