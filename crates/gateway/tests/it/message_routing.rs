//! Routing between client and server: progress, cancellation, server requests, streams and pages.
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

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"client_requests":{"sampling":"allow"},
    "resources":{"note://desk/*":{}}}"#;

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

fn done(request: &RecordedRequest) -> Value {
    json!({"jsonrpc": "2.0", "id": request.message()["id"], "result": {"content": [{"type": "text", "text": "done"}]}})
}

fn respond(request: &RecordedRequest) -> Option<ResponseScript> {
    let message = request.message();
    let progress = |token: &Value, at: u8| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": at, "x": 1.10}});
    match (request.method().as_str(), request.tool().as_str()) {
        ("tools/call", "progress") => {
            let token = &message["params"]["_meta"]["progressToken"];
            let foreign = event(&progress(&json!("foreign"), 9));
            let matching = format!("{}{}", event(&progress(token, 1)), event(&progress(token, 2)));
            Some(event_response(&format!("{foreign}{matching}{}", event(&done(request)))))
        }
        ("tools/call", "asks") => {
            let server_request =
                |id: u8, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"q": 1}});
            let requests = format!(
                "{}{}",
                event(&server_request(1, "sampling/createMessage")),
                event(&server_request(2, "roots/list"))
            );
            Some(event_response(&format!("{requests}{}", event(&done(request)))))
        }
        ("tools/call", "slow") => Some(vec![ScriptStep::Pause(Duration::from_secs(20))]),
        ("tools/list", _) => {
            let cursor = message["params"]["cursor"].as_str().unwrap_or("0").to_owned();
            let result = match cursor.as_str() {
                "0" => {
                    json!({"tools": [tool_definition("progress"), tool_definition("asks")], "nextCursor": "1", "_meta": {"page": 0}})
                }
                "1" => json!({"tools": [tool_definition("slow"), tool_definition("asks")], "nextCursor": "2"}),
                // The last cursor leads to the same page again and again.
                _ => json!({"tools": [tool_definition("last")], "nextCursor": "2"}),
            };
            let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            Some(json_response("200 OK", "", &reply))
        }
        _ if request.request_line.starts_with("GET") => {
            let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            let updated = |uri: &str| json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
            let events = [changed, updated("note://desk/1"), updated("note://hidden/1")];
            let headers = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned();
            let text: String = events.iter().map(event).collect();
            Some(vec![ScriptStep::Write((headers + &text).into_bytes()), ScriptStep::Pause(Duration::from_secs(20))])
        }
        _ => None,
    }
}

async fn start_gateway() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([]), respond).await;
    let gateway = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gateway)
}

fn call(id: Value, tool: &str, meta: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}, "_meta": meta}})
}

#[tokio::test]
async fn a_client_receives_progress_of_its_own_call_under_its_own_token() {
    let (upstream, gw) = start_gateway().await;
    let reply = gw.send(&call(json!(5), "progress", json!({"progressToken": 42, "vendor/x": 1}))).await;
    let messages = reply.messages();
    let progress_messages: Vec<_> =
        messages.iter().filter(|message| message["method"] == "notifications/progress").collect();
    assert_eq!(progress_messages.len(), 2);
    for (at, message) in (1..).zip(&progress_messages) {
        assert_eq!(message["params"]["progressToken"], 42);
        assert_eq!(message["params"]["progress"], at);
    }
    assert!(reply.body.contains("\"x\":1.1"), "unknown members are passed on");
    assert_eq!(messages.last().expect("a reply")["id"], 5);
    let sent = upstream.calls_to("progress")[0].message();
    assert_eq!(sent["params"]["_meta"]["progressToken"], sent["id"], "the upstream gets the gateway's token");
    assert_eq!(sent["params"]["_meta"]["vendor/x"], 1);
}

#[tokio::test]
async fn an_allowed_server_request_reaches_the_client_and_its_response_the_server() {
    let (upstream, gw) = start_gateway().await;
    let reply = gw.send(&call(json!("c"), "asks", json!({}))).await;
    let server_requests: Vec<Value> =
        reply.messages().into_iter().filter(|message| message["method"].is_string()).collect();
    assert_eq!(server_requests.len(), 1, "roots were not allowed: {}", reply.body);
    assert_eq!(server_requests[0]["method"], "sampling/createMessage");
    assert_ne!(server_requests[0]["id"], 1, "the client gets the gateway's id");
    let refused =
        upstream.requests().into_iter().find(|request| request.message()["id"] == 2).expect("a response").message();
    assert_eq!(refused["error"]["code"], -32601);

    let id = &server_requests[0]["id"];
    let accepted = gw.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"role": "assistant", "n": 1.10}})).await;
    assert_eq!(accepted.status, 202);
    let forwarded = wait_for(&upstream, |request| request.body.contains("assistant")).await;
    assert_eq!(forwarded.message()["id"], 1, "the upstream gets its own id");
    gw.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"role": "again"}})).await;
    gw.call("progress", json!({})).await;
    assert!(!upstream.requests().iter().any(|request| request.body.contains("again")), "a second response is dropped");
    let rows = gw.rows().await;
    let refused = rows.iter().find(|row| row.record.method.as_deref() == Some("roots/list")).expect("a row");
    assert_eq!(refused.record.kind, RecordKind::Refused);
}

async fn wait_for(upstream: &FakeUpstream, is_match: impl Fn(&RecordedRequest) -> bool) -> RecordedRequest {
    for _ in 0..500 {
        if let Some(request) = upstream.requests().into_iter().find(|request| is_match(request)) {
            return request;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no such request reached the upstream: {:#?}", upstream.requests());
}

#[tokio::test]
async fn a_cancellation_reaches_the_upstream_under_its_id_while_the_call_runs() {
    let (upstream, gw) = start_gateway().await;
    gw.initialize().await;
    let slow = call(json!(9), "slow", json!({}));
    let call_reply = gw.send(&slow);
    let cancellation = async {
        let sent = wait_for(&upstream, |request| request.tool() == "slow").await;
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9, "reason": "r"}});
        assert_eq!(gw.send(&cancel).await.status, 202);
        let cancelled = wait_for(&upstream, |request| request.method() == "notifications/cancelled").await;
        assert_eq!(cancelled.message()["params"]["requestId"], sent.message()["id"]);
        assert_eq!(cancelled.message()["params"]["reason"], "r");
    };
    let (reply, ()) = tokio::join!(call_reply, cancellation);
    assert_eq!(reply.body, "", "a cancelled call gets no reply");
    let last = gw.rows().await.into_iter().find(|row| row.record.kind == RecordKind::Outcome).expect("an outcome");
    assert_eq!(last.record.outcome, Some(CallOutcome::Cancelled));
}

#[tokio::test]
async fn a_list_has_all_pages_and_ends_at_a_repeated_cursor() {
    let (upstream, gw) = start_gateway().await;
    let reply = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let result = &reply.message()["result"];
    let names: Vec<_> = result["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["progress", "asks", "slow", "last"], "each tool once");
    assert_eq!(result["nextCursor"], Value::Null);
    assert_eq!(result["_meta"]["page"], 0);
    assert!(upstream.requests().iter().filter(|request| request.method() == "tools/list").count() <= 4);
    let foreign = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "1"}});
    assert_eq!(gw.send(&foreign).await.code(), -32602);
}

#[tokio::test]
async fn the_standalone_stream_carries_only_resources_that_the_grant_can_read() {
    let (_, gw) = start_gateway().await;
    gw.initialize().await;
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let request = format!(
        "GET /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\n\r\n",
        gw.token.reveal(),
        gw.session()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut lines = BufReader::new(stream).lines();
    let mut data = Vec::new();
    let reading = async {
        while data.len() < 2 {
            let line = lines.next_line().await.expect("a line").expect("a stream");
            if let Some(text) = line.strip_prefix("data: ") {
                data.push(serde_json::from_str::<Value>(text).expect("JSON"));
            }
        }
        // The third notification is about a resource that the policy denies.
        tokio::time::timeout(Duration::from_millis(300), async {
            loop {
                let line = lines.next_line().await.expect("a line").expect("a stream");
                assert!(!line.contains("hidden"), "{line}");
            }
        })
        .await
    };
    let _ = tokio::time::timeout(Duration::from_secs(5), reading).await.expect("two messages");
    assert_eq!(data[0]["method"], "notifications/tools/list_changed");
    assert_eq!(data[1]["params"]["uri"], "note://desk/1");
}

/// Opens the standalone stream and returns its lines after the first event.
async fn open_stream(gw: &TestGateway) -> tokio::io::Lines<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let request = format!(
        "GET /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\n\r\n",
        gw.token.reveal(),
        gw.session()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut lines = BufReader::new(stream).lines();
    while !lines.next_line().await.expect("a line").expect("a stream").starts_with("data: ") {}
    lines
}

async fn assert_ends(mut lines: tokio::io::Lines<BufReader<TcpStream>>) {
    // An empty chunk ends the stream; the connection can stay open.
    let reading = async { while lines.next_line().await.ok().flatten().is_some_and(|line| line != "0") {} };
    tokio::time::timeout(Duration::from_secs(2), reading).await.expect("the stream ends");
}

#[tokio::test]
async fn a_standalone_stream_ends_with_its_grant_its_session_and_the_gateway() {
    let (_, gw) = start_gateway().await;
    gw.initialize().await;
    let first = open_stream(&gw).await;
    let second = open_stream(&gw).await;
    assert_ends(first).await;
    gw.change_grants(|grants| grants.clear());
    assert_ends(second).await;

    let (_, gw) = start_gateway().await;
    gw.initialize().await;
    let stream = open_stream(&gw).await;
    let bearer = format!("Bearer {}", gw.token.reveal());
    let session = gw.session();
    gw.send_raw("DELETE", "/mcp/desk", &[("Authorization", &bearer), ("Mcp-Session-Id", &session)], b"").await;
    assert_ends(stream).await;

    gw.initialize().await;
    let stream = open_stream(&gw).await;
    gw.assert_stops_promptly().await;
    assert_ends(stream).await;
}

#[tokio::test]
async fn calls_of_two_clients_with_the_same_id_are_kept_separate() {
    let (upstream, gw) = start_gateway().await;
    let other = gw.add_grant("other", POLICY);
    let bearer = format!("Bearer {}", other.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Accept", "*/*")];
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
    let opened: TestResponse = gw.send_raw("POST", "/mcp/desk", &headers, initialize.to_string().as_bytes()).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let with_session: Vec<_> = headers.into_iter().chain([("Mcp-Session-Id", session.as_str())]).collect();
    let same = call(json!(1), "progress", json!({"progressToken": 1})).to_string();
    let (one, two) =
        tokio::join!(gw.send_text(&same), gw.send_raw("POST", "/mcp/desk", &with_session, same.as_bytes()));
    assert_eq!((one.message()["id"].clone(), two.message()["id"].clone()), (json!(1), json!(1)));
    let ids: Vec<_> = upstream.calls_to("progress").iter().map(|request| request.message()["id"].clone()).collect();
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn deleting_a_session_ends_its_upstream_session() {
    let (upstream, gw) = start_gateway().await;
    gw.initialize().await;
    let bearer = format!("Bearer {}", gw.token.reveal());
    let session = gw.session();
    let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_str())];
    assert_eq!(gw.send_raw("DELETE", "/mcp/desk", &headers, b"").await.status, 204);
    let ended = wait_for(&upstream, |request| request.request_line.starts_with("DELETE")).await;
    assert_eq!(ended.header("mcp-session-id"), Some("upstream-session"));
    assert_eq!(gw.call("progress", json!({})).await.status, 404);
}

#[tokio::test]
async fn unmatched_responses_and_undelivered_notifications_are_recorded() {
    let refuse_notification = |request: &RecordedRequest| {
        let is_refused = request.method() == "notifications/roots/list_changed";
        is_refused.then(|| json_response("500 Oops", "", "{}"))
    };
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), refuse_notification).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    gw.initialize().await;
    let last = async || gw.rows().await.pop().expect("a row").record;

    gw.send(&json!({"jsonrpc": "2.0", "id": "unmatched", "result": {}})).await;
    let row = last().await;
    assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")));
    assert!(!upstream.requests().iter().any(|request| request.body.contains("unmatched")));

    gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})).await;
    let row = last().await;
    assert_eq!(
        (row.kind, row.outcome, row.code.as_deref()),
        (RecordKind::PolicyExempt, Some(CallOutcome::NoValidResponse), Some("upstream_gone"))
    );

    gw.send(&json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list", "params": {"cursor": "x"}})).await;
    let row = last().await;
    assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")));
}
