//! Servers that speak only HTTP+SSE: found out, spoken to at their own origin, and never asked twice.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]

use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::CallOutcome;
use gatelodge_testkit::{
    FakeSseUpstream, FakeUpstream, RecordedRequest, ScriptStep, SsePostReply, SseTestClient, TestGateway,
};
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},
    "client_requests":{"sampling":"allow"}}"#;

fn said(message: &Value) -> ScriptStep {
    ScriptStep::Write(format!("event: message\ndata: {message}\n\n").into_bytes())
}

fn done(hit: &RecordedRequest) -> ScriptStep {
    said(
        &json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": [{"type": "text", "text": "done"}]}}),
    )
}

fn asked() -> ScriptStep {
    said(&json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}))
}

fn server(hit: &RecordedRequest) -> Option<SsePostReply> {
    let token = &hit.message()["params"]["_meta"]["progressToken"];
    let told = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}});
    match (hit.method().as_str(), hit.tool().as_str()) {
        (_, "progress") => Some(SsePostReply::accept_then(vec![
            ScriptStep::Write(b": still here\n\n".to_vec()),
            said(&told),
            done(hit),
        ])),
        // It takes the message only when it has done what it asks for, long after we have given up on a POST.
        (_, "asks") => Some(SsePostReply {
            status_after_script: true,
            ..SsePostReply::accept_then(vec![asked(), ScriptStep::Pause(Duration::from_secs(9))])
        }),
        (_, "slow") => Some(SsePostReply::accept_then(Vec::new())),
        (_, "breaks") => Some(SsePostReply::accept_then(vec![ScriptStep::Close])),
        (_, "huge") => Some(SsePostReply::accept_then(vec![ScriptStep::Write(
            format!("data: {}\n\n", "x".repeat(100_000)).into_bytes(),
        )])),
        (_, "moved") => Some(SsePostReply::reject("307 Temporary Redirect")),
        (_, "forgotten") => Some(SsePostReply::reject("404 Not Found")),
        (_, "echoes") => {
            let text = hit.header("authorization").unwrap_or_default();
            let result = json!({"content": [{"type": "text", "text": text}]});
            Some(SsePostReply::accept_then(vec![said(
                &json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}),
            )]))
        }
        (_, "makes") | ("tasks/get", _) => {
            let params = &hit.message()["params"];
            let id = params["taskId"].as_str().or(params["arguments"]["id"].as_str()).unwrap_or_default();
            let task = json!({"taskId": id, "status": "working", "ttl": 60000});
            let result = if hit.method() == "tasks/get" { task } else { json!({"task": task}) };
            Some(SsePostReply::accept_then(vec![said(
                &json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}),
            )]))
        }
        _ => None,
    }
}

const TOOLS: &[&str] = &["read", "progress", "asks", "slow", "breaks", "huge", "moved", "forgotten", "echoes", "makes"];

fn quick() -> GatewaySettings {
    let mut settings = GatewaySettings { connect_timeout: Duration::from_millis(500), ..GatewaySettings::default() };
    settings.reply_limits.max_bytes = 64 << 10;
    settings
}

async fn desk() -> (FakeSseUpstream, TestGateway) {
    let upstream = FakeSseUpstream::start(TOOLS, server).await;
    let builder = TestGateway::builder().policy(POLICY).settings(quick());
    let gw = builder
        .secret_header("authorization", "Bearer upstream-secret", "upstream-secret")
        .start_at(&upstream.url())
        .await;
    (upstream, gw)
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..500 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came that {what}");
}

fn lines(upstream: &FakeSseUpstream) -> Vec<String> {
    let line = |hit: RecordedRequest| {
        hit.request_line.split("?").next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned()
    };
    upstream.requests().into_iter().map(line).collect()
}

#[tokio::test]
async fn a_server_that_refuses_a_handshake_is_tried_by_its_stream_and_the_next_begins_there() {
    let (upstream, gw) = desk().await;
    let opened = gw.initialize().await;
    assert_eq!(opened.message()["result"]["serverInfo"]["name"], "fake");
    assert_eq!(lines(&upstream), ["POST /sse", "GET /sse", "POST /message", "POST /message"]);
    assert_eq!(gw.call("read", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    let before = upstream.requests().len();
    gw.initialize().await;
    assert_eq!(lines(&upstream)[before..], ["GET /sse", "POST /message", "POST /message"], "the verdict is kept");
    for hit in upstream.requests() {
        assert_eq!(hit.header("authorization"), Some("Bearer upstream-secret"), "{}", hit.request_line);
        assert_eq!(hit.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn a_server_that_has_changed_is_found_out_again() {
    let (upstream, gw) = desk().await;
    gw.initialize().await;
    upstream.become_streamable();
    gw.initialize().await;
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
    assert_eq!(upstream.messages("tools/call").len(), 0, "it goes where it is taken now");
}

#[tokio::test]
async fn an_sse_client_reaches_an_sse_server() {
    let (upstream, gw) = desk().await;
    let mut caller = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    assert_eq!(caller.call("read", json!({"n": 1})).await["result"]["content"][0]["text"], r#"{"n":1}"#);
    let params = json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": "p"}});
    caller.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})).await;
    assert_eq!(caller.next_message().await["params"]["progressToken"], "p");
    assert_eq!(caller.next_message().await["id"], 5);
    upstream.run_on_streams(&said(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})));
    assert_eq!(caller.next_message().await["method"], "notifications/tools/list_changed");
    drop(caller);
    until("its stream is closed with the client's", || upstream.open_streams() == 0).await;
}

#[tokio::test]
async fn progress_and_cancellations_pass() {
    let (upstream, gw) = desk().await;
    gw.initialize().await;
    let call = |id: u8, tool: &str| {
        let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": 42}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let told = gw.send(&call(1, "progress")).await.messages();
    assert_eq!((told[0]["params"]["progressToken"].clone(), told[1]["id"].clone()), (json!(42), json!(1)));
    let slow = call(3, "slow");
    let cancelling = async {
        until("the call is there", || upstream.requests().iter().any(|hit| hit.tool() == "slow")).await;
        gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}})).await;
    };
    let (answer, ()) = tokio::join!(gw.send(&slow), cancelling);
    assert_eq!(answer.body, "");
    let sent = id_of(&upstream, "slow");
    assert!(!upstream.messages("notifications/cancelled").is_empty());
    assert!(
        upstream.messages("notifications/cancelled").iter().all(|hit| hit.message()["params"]["requestId"] == sent)
    );
}

fn id_of(upstream: &FakeSseUpstream, tool: &str) -> Value {
    upstream.requests().into_iter().find(|hit| hit.tool() == tool).expect("the call").message()["id"].clone()
}

#[tokio::test]
async fn a_server_may_ask_before_it_answers_the_post() {
    let (upstream, gw) = desk().await;
    let mut caller = SseTestClient::open_initialized(&gw, "2025-06-18").await;
    caller.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "asks"}})).await;
    let asked = caller.next_message().await;
    assert_eq!(asked["method"], "sampling/createMessage");
    caller.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"role": "assistant"}})).await;
    let answers = upstream.requests().into_iter().filter(|hit| hit.body.contains("assistant"));
    assert_eq!(answers.map(|hit| hit.message()["id"].clone()).collect::<Vec<_>>(), [json!(1)]);
    let (id, result) = (id_of(&upstream, "asks"), json!({"content": []}));
    upstream.run_on_streams(&said(&json!({"jsonrpc": "2.0", "id": id, "result": result})));
    assert_eq!(caller.next_message().await, json!({"jsonrpc": "2.0", "id": 2, "result": result}));
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled_at_the_server() {
    let upstream = FakeSseUpstream::start(TOOLS, server).await;
    let settings = GatewaySettings { call_timeout: Duration::from_millis(400), ..quick() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start_at(&upstream.url()).await;
    let text = gw.call("slow", json!({})).await.text();
    assert!(text.contains("did not answer in time"), "{text}");
    until("it is told", || !upstream.messages("notifications/cancelled").is_empty()).await;
    let told = upstream.messages("notifications/cancelled");
    assert_eq!(told[0].message()["params"]["requestId"], id_of(&upstream, "slow"));
}

#[tokio::test]
async fn messages_go_to_the_servers_own_origin_only() {
    let thief = FakeUpstream::with_tools(&["read"]).await;
    for named in [thief.url(), thief.url().replace("http:", ""), format!("http://x@{}", &thief.url()[7..])] {
        let upstream = FakeSseUpstream::start_at(Some(&named), TOOLS, server).await;
        let builder = TestGateway::builder().policy(POLICY).settings(quick());
        let gw = builder.secret_header("x-key", "upstream-secret", "upstream-secret").start_at(&upstream.url()).await;
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string();
        let answer = gw.post(&[], &hello).await;
        assert!(answer.body.contains("not of its own origin"), "{named}: {}", answer.body);
        assert_eq!(answer.header("mcp-session-id"), None);
        until("the stream is closed", || upstream.open_streams() == 0).await;
    }
    assert!(thief.requests().is_empty(), "nothing reaches another origin: {:?}", thief.requests());
}

#[tokio::test]
async fn a_stream_that_names_no_address_is_left_in_time() {
    let upstream = FakeSseUpstream::start_at(None, TOOLS, server).await;
    let gw = TestGateway::builder().policy(POLICY).settings(quick()).start_at(&upstream.url()).await;
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string();
    let asking = tokio::time::timeout(Duration::from_secs(3), gw.post(&[], &hello));
    let answer = asking.await.expect("in time");
    assert!(answer.body.contains("HTTP status 405"), "what it said to the message counts: {}", answer.body);
    until("the stream is closed", || upstream.open_streams() == 0).await;
}

#[tokio::test]
async fn a_lost_connection_ends_its_calls_and_nothing_is_repeated() {
    let (upstream, gw) = desk().await;
    gw.initialize().await;
    let text = gw.call("breaks", json!({})).await.text();
    assert!(text.contains("may have run"), "{text}");
    let row = gw.rows().await.into_iter().rfind(|row| row.record.outcome.is_some()).expect("a row").record;
    assert_eq!(row.outcome, Some(CallOutcome::ConnectionLost));
    assert_eq!(gw.call("read", json!({})).await.text(), "{}", "the session is opened again");
    assert_eq!(upstream.messages("initialize").len(), 2);
    let calls: Vec<_> = upstream.messages("tools/call").iter().map(RecordedRequest::tool).collect();
    assert_eq!(calls, ["breaks", "read"], "each was sent once");
    assert_eq!(upstream.open_streams(), 1);
}

#[tokio::test]
async fn a_connection_lost_between_calls_is_opened_again_before_the_next() {
    let (upstream, gw) = desk().await;
    gw.initialize().await;
    upstream.run_on_streams(&ScriptStep::Close);
    until("the stream is closed", || upstream.open_streams() == 0).await;
    // The end takes a moment to be seen at our side.
    for round in 0.. {
        assert!(round < 3, "one call opens it again");
        let answer = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
        if answer.message()["result"].is_object() {
            break;
        }
    }
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
    assert_eq!(upstream.messages("tools/call").len(), 1);
}

#[tokio::test]
async fn a_message_that_is_not_taken_says_so_and_a_forgotten_connection_is_opened_again() {
    let (upstream, gw) = desk().await;
    gw.initialize().await;
    let text = gw.call("moved", json!({})).await.text();
    assert!(text.contains("HTTP status 307"), "redirects are not followed: {text}");
    assert_eq!(upstream.messages("initialize").len(), 1);
    let text = gw.call("forgotten", json!({})).await.text();
    assert!(text.contains("may have run"), "{text}");
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
    assert_eq!(upstream.messages("initialize").len(), 2);
    assert_eq!(upstream.messages("tools/call").len(), 3, "nothing was repeated");
}

#[tokio::test]
async fn an_event_beyond_the_bound_ends_the_connection() {
    let (upstream, gw) = desk().await;
    gw.initialize().await;
    let text = gw.call("huge", json!({})).await.text();
    assert!(text.contains("may have run"), "{text}");
    until("the stream is closed", || upstream.open_streams() == 0).await;
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn secrets_are_cut_from_what_comes_back_on_a_stream() {
    let (upstream, gw) = desk().await;
    assert_eq!(gw.call("echoes", json!({})).await.text(), "Bearer ***");
    assert_eq!(upstream.messages("tools/call").len(), 1);
}

#[tokio::test]
async fn the_connection_ends_with_its_session_and_with_its_grant() {
    let (upstream, gw) = desk().await;
    gw.initialize().await;
    assert_eq!(upstream.open_streams(), 1);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let session = gw.session();
    gw.send_raw("DELETE", "/mcp/desk", &[("Authorization", &bearer), ("Mcp-Session-Id", &session)], b"").await;
    until("the stream is closed", || upstream.open_streams() == 0).await;
    gw.initialize().await;
    assert_eq!(upstream.open_streams(), 1);
    gw.change_grants(|grants| grants.clear());
    until("the stream is closed", || upstream.open_streams() == 0).await;
}

#[tokio::test]
async fn a_stateless_client_reaches_an_sse_server_by_a_session_of_ours() {
    let (upstream, gw) = desk().await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 9});
    let params = json!({"name": "progress", "arguments": {}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "progress")];
    for round in 1..=2 {
        let messages = gw.post(&headers, &call).await.messages();
        assert_eq!(messages[0]["params"]["progressToken"], 9, "round {round}");
        assert_eq!(messages[1]["result"]["content"][0]["text"], "done", "round {round}");
        assert_eq!((upstream.messages("initialize").len(), upstream.open_streams()), (1, 1), "it is kept");
    }
    upstream.run_on_streams(&ScriptStep::Close);
    until("the stream is closed", || upstream.open_streams() == 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(gw.post(&headers, &call).await.messages()[1]["result"]["content"][0]["text"], "done");
    assert_eq!(upstream.messages("tools/call").len(), 3, "nothing was repeated");
}

#[tokio::test]
async fn a_task_is_of_the_connection_that_made_it() {
    let (upstream, gw) = desk().await;
    let making = async |id: &str| {
        let params = json!({"name": "makes", "arguments": {"id": id}, "task": {}});
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await
    };
    let asking = async |id: &str| {
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": id}})).await.message()
    };
    gw.initialize().await;
    making("one").await;
    assert_eq!(asking("one").await["result"]["taskId"], "one");
    gw.initialize().await;
    making("two").await;
    assert_eq!(asking("two").await["result"]["taskId"], "two");
    assert_eq!(asking("one").await["error"]["code"], -32602, "another connection may use the same id for another task");
    assert_eq!(upstream.messages("tasks/get").len(), 2);
}
