//! Servers that support only HTTP+SSE: they are detected, receive messages only at their own origin, and no call is
//! repeated.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on should stop where it is")]

use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::CallOutcome;
use gatelodge_testkit::{
    FakeSseUpstream, FakeUpstream, RecordedRequest, ScriptStep, SsePostReply, SseTestClient, TestGateway,
};
use serde_json::{Value, json};

use super::support::wait_until;

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},
    "client_requests":{"sampling":"allow"}}"#;

fn message_event(message: &Value) -> ScriptStep {
    ScriptStep::Write(format!("event: message\ndata: {message}\n\n").into_bytes())
}

fn result_event(hit: &RecordedRequest) -> ScriptStep {
    message_event(
        &json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": [{"type": "text", "text": "done"}]}}),
    )
}

fn sampling_event() -> ScriptStep {
    message_event(&json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}))
}

fn server(hit: &RecordedRequest) -> Option<SsePostReply> {
    let token = &hit.message()["params"]["_meta"]["progressToken"];
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}});
    match (hit.method().as_str(), hit.tool().as_str()) {
        (_, "progress") => Some(SsePostReply::accept_then(vec![
            ScriptStep::Write(b": still here\n\n".to_vec()),
            message_event(&progress),
            result_event(hit),
        ])),
        // The server answers the POST only after its own request, long after the gateway stops waiting for the POST.
        (_, "asks") => Some(SsePostReply {
            status_after_script: true,
            ..SsePostReply::accept_then(vec![sampling_event(), ScriptStep::Pause(Duration::from_secs(9))])
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
            Some(SsePostReply::accept_then(vec![message_event(
                &json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}),
            )]))
        }
        (_, "makes") | ("tasks/get", _) => {
            let params = &hit.message()["params"];
            let id = params["taskId"].as_str().or(params["arguments"]["id"].as_str()).unwrap_or_default();
            let task = json!({"taskId": id, "status": "working", "ttl": 60000});
            let result = if hit.method() == "tasks/get" { task } else { json!({"task": task}) };
            Some(SsePostReply::accept_then(vec![message_event(
                &json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}),
            )]))
        }
        _ => None,
    }
}

const TOOLS: &[&str] = &["read", "progress", "asks", "slow", "breaks", "huge", "moved", "forgotten", "echoes", "makes"];

fn test_settings() -> GatewaySettings {
    let mut settings = GatewaySettings { connect_timeout: Duration::from_millis(500), ..GatewaySettings::default() };
    settings.reply_limits.max_bytes = 64 << 10;
    settings
}

async fn setup() -> (FakeSseUpstream, TestGateway) {
    let upstream = FakeSseUpstream::start(TOOLS, server).await;
    let builder = TestGateway::builder().policy(POLICY).settings(test_settings());
    let gw = builder
        .secret_header("authorization", "Bearer upstream-secret", "upstream-secret")
        .start_at(&upstream.url())
        .await;
    (upstream, gw)
}

fn request_lines(upstream: &FakeSseUpstream) -> Vec<String> {
    let line = |hit: RecordedRequest| {
        hit.request_line.split("?").next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned()
    };
    upstream.requests().into_iter().map(line).collect()
}

#[tokio::test]
async fn server_that_refuses_post_is_detected_as_sse_and_remembered() {
    let (upstream, gw) = setup().await;
    let opened = gw.initialize().await;
    assert_eq!(opened.message()["result"]["serverInfo"]["name"], "fake");
    assert_eq!(request_lines(&upstream), ["POST /sse", "GET /sse", "POST /message", "POST /message"]);
    assert_eq!(gw.call("read", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    let before = upstream.requests().len();
    gw.initialize().await;
    assert_eq!(
        request_lines(&upstream)[before..],
        ["GET /sse", "POST /message", "POST /message"],
        "the detected transport is remembered"
    );
    for hit in upstream.requests() {
        assert_eq!(hit.header("authorization"), Some("Bearer upstream-secret"), "{}", hit.request_line);
        assert_eq!(hit.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn server_that_becomes_streamable_is_detected_again() {
    let (upstream, gw) = setup().await;
    gw.initialize().await;
    upstream.become_streamable();
    gw.initialize().await;
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
    assert_eq!(upstream.messages("tools/call").len(), 0, "the call is sent by streamable HTTP");
}

#[tokio::test]
async fn an_sse_client_reaches_an_sse_server() {
    let (upstream, gw) = setup().await;
    let mut client = SseTestClient::open_initialized(&gw, "2024-11-05").await;
    assert_eq!(client.call("read", json!({"n": 1})).await["result"]["content"][0]["text"], r#"{"n":1}"#);
    let params = json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": "p"}});
    client.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})).await;
    assert_eq!(client.next_message().await["params"]["progressToken"], "p");
    assert_eq!(client.next_message().await["id"], 5);
    upstream.run_on_streams(&message_event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})));
    assert_eq!(client.next_message().await["method"], "notifications/tools/list_changed");
    drop(client);
    wait_until("the upstream stream is closed with the client's", || upstream.open_streams() == 0).await;
}

#[tokio::test]
async fn progress_and_cancellations_are_forwarded() {
    let (upstream, gw) = setup().await;
    gw.initialize().await;
    let call = |id: u8, tool: &str| {
        let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": 42}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let messages = gw.send(&call(1, "progress")).await.messages();
    assert_eq!((messages[0]["params"]["progressToken"].clone(), messages[1]["id"].clone()), (json!(42), json!(1)));
    let slow = call(3, "slow");
    let cancelling = async {
        wait_until("the call arrives upstream", || upstream.requests().iter().any(|hit| hit.tool() == "slow")).await;
        gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}})).await;
    };
    let (response, ()) = tokio::join!(gw.send(&slow), cancelling);
    assert_eq!(response.body, "");
    let sent = request_id(&upstream, "slow");
    assert!(!upstream.messages("notifications/cancelled").is_empty());
    assert!(
        upstream.messages("notifications/cancelled").iter().all(|hit| hit.message()["params"]["requestId"] == sent)
    );
}

fn request_id(upstream: &FakeSseUpstream, tool: &str) -> Value {
    upstream.requests().into_iter().find(|hit| hit.tool() == tool).expect("the call").message()["id"].clone()
}

#[tokio::test]
async fn server_may_send_a_request_before_it_answers_the_post() {
    let (upstream, gw) = setup().await;
    let mut client = SseTestClient::open_initialized(&gw, "2025-06-18").await;
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "asks"}})).await;
    let sampling = client.next_message().await;
    assert_eq!(sampling["method"], "sampling/createMessage");
    client.send(&json!({"jsonrpc": "2.0", "id": sampling["id"], "result": {"role": "assistant"}})).await;
    let responses = upstream.requests().into_iter().filter(|hit| hit.body.contains("assistant"));
    assert_eq!(responses.map(|hit| hit.message()["id"].clone()).collect::<Vec<_>>(), [json!(1)]);
    let (id, result) = (request_id(&upstream, "asks"), json!({"content": []}));
    upstream.run_on_streams(&message_event(&json!({"jsonrpc": "2.0", "id": id, "result": result})));
    assert_eq!(client.next_message().await, json!({"jsonrpc": "2.0", "id": 2, "result": result}));
}

#[tokio::test]
async fn call_that_times_out_is_cancelled_at_the_server() {
    let upstream = FakeSseUpstream::start(TOOLS, server).await;
    let settings = GatewaySettings { call_timeout: Duration::from_millis(400), ..test_settings() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start_at(&upstream.url()).await;
    let text = gw.call("slow", json!({})).await.text();
    assert!(text.contains("did not answer in time"), "{text}");
    wait_until("the server receives the cancellation", || !upstream.messages("notifications/cancelled").is_empty())
        .await;
    let cancellations = upstream.messages("notifications/cancelled");
    assert_eq!(cancellations[0].message()["params"]["requestId"], request_id(&upstream, "slow"));
}

#[tokio::test]
async fn messages_are_sent_only_to_the_origin_of_the_server() {
    let other_origin = FakeUpstream::with_tools(&["read"]).await;
    for endpoint in
        [other_origin.url(), other_origin.url().replace("http:", ""), format!("http://x@{}", &other_origin.url()[7..])]
    {
        let upstream = FakeSseUpstream::start_at(Some(&endpoint), TOOLS, server).await;
        let builder = TestGateway::builder().policy(POLICY).settings(test_settings());
        let gw = builder.secret_header("x-key", "upstream-secret", "upstream-secret").start_at(&upstream.url()).await;
        let initialize =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}).to_string();
        let response = gw.post(&[], &initialize).await;
        assert!(response.body.contains("not of its own origin"), "{endpoint}: {}", response.body);
        assert_eq!(response.header("mcp-session-id"), None);
        wait_until("the stream is closed", || upstream.open_streams() == 0).await;
    }
    assert!(other_origin.requests().is_empty(), "no request is sent to another origin: {:?}", other_origin.requests());
}

#[tokio::test]
async fn stream_without_an_endpoint_event_is_closed_in_time() {
    let upstream = FakeSseUpstream::start_at(None, TOOLS, server).await;
    let gw = TestGateway::builder().policy(POLICY).settings(test_settings()).start_at(&upstream.url()).await;
    let initialize =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}).to_string();
    let get_task = tokio::time::timeout(Duration::from_secs(3), gw.post(&[], &initialize));
    let response = get_task.await.expect("a response within 3 s");
    assert!(response.body.contains("HTTP status 405"), "the error is that of the POST: {}", response.body);
    wait_until("the stream is closed", || upstream.open_streams() == 0).await;
}

#[tokio::test]
async fn lost_connection_ends_its_calls_and_repeats_nothing() {
    let (upstream, gw) = setup().await;
    gw.initialize().await;
    let text = gw.call("breaks", json!({})).await.text();
    assert!(text.contains("may have run"), "{text}");
    let row = gw.rows().await.into_iter().rfind(|row| row.record.outcome.is_some()).expect("a row").record;
    assert_eq!(row.outcome, Some(CallOutcome::NoValidResponse));
    assert_eq!(gw.call("read", json!({})).await.text(), "{}", "the session is reopened");
    assert_eq!(upstream.messages("initialize").len(), 2);
    let calls: Vec<_> = upstream.messages("tools/call").iter().map(RecordedRequest::tool).collect();
    assert_eq!(calls, ["breaks", "read"], "each was sent once");
    assert_eq!(upstream.open_streams(), 1);
}

#[tokio::test]
async fn connection_lost_between_calls_is_reopened() {
    let (upstream, gw) = setup().await;
    gw.initialize().await;
    upstream.run_on_streams(&ScriptStep::Close);
    wait_until("the stream is closed", || upstream.open_streams() == 0).await;
    // The gateway notices the end of the stream a moment later.
    for round in 0.. {
        assert!(round < 3, "the connection is not reopened");
        let response = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
        if response.message()["result"].is_object() {
            break;
        }
    }
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
    assert_eq!(upstream.messages("tools/call").len(), 1);
}

#[tokio::test]
async fn rejected_message_is_reported_and_a_forgotten_connection_is_reopened() {
    let (upstream, gw) = setup().await;
    gw.initialize().await;
    let text = gw.call("moved", json!({})).await.text();
    assert!(text.contains("HTTP status 307"), "redirects are not followed: {text}");
    assert_eq!(upstream.messages("initialize").len(), 1);
    let text = gw.call("forgotten", json!({})).await.text();
    assert!(text.contains("may have run"), "{text}");
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
    assert_eq!(upstream.messages("initialize").len(), 2);
    assert_eq!(upstream.messages("tools/call").len(), 3, "no call is repeated");
}

#[tokio::test]
async fn oversized_event_ends_the_connection() {
    let (upstream, gw) = setup().await;
    gw.initialize().await;
    let text = gw.call("huge", json!({})).await.text();
    assert!(text.contains("may have run"), "{text}");
    wait_until("the stream is closed", || upstream.open_streams() == 0).await;
    assert_eq!(gw.call("read", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn injected_secret_is_redacted_on_a_stream() {
    let (upstream, gw) = setup().await;
    assert_eq!(gw.call("echoes", json!({})).await.text(), "Bearer ***");
    assert_eq!(upstream.messages("tools/call").len(), 1);
}

#[tokio::test]
async fn connection_ends_with_its_session_and_with_its_grant() {
    let (upstream, gw) = setup().await;
    gw.initialize().await;
    assert_eq!(upstream.open_streams(), 1);
    let bearer = format!("Bearer {}", gw.token.reveal());
    let session = gw.session();
    gw.send_raw("DELETE", "/mcp/desk", &[("Authorization", &bearer), ("Mcp-Session-Id", &session)], b"").await;
    wait_until("the stream is closed", || upstream.open_streams() == 0).await;
    gw.initialize().await;
    assert_eq!(upstream.open_streams(), 1);
    gw.change_grants(|grants| grants.clear());
    wait_until("the stream is closed", || upstream.open_streams() == 0).await;
}

#[tokio::test]
async fn stateless_client_reaches_an_sse_server_through_a_shared_session() {
    let (upstream, gw) = setup().await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 9});
    let params = json!({"name": "progress", "arguments": {}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "progress")];
    for round in 1..=2 {
        let messages = gw.post(&headers, &call).await.messages();
        assert_eq!(messages[0]["params"]["progressToken"], 9, "round {round}");
        assert_eq!(messages[1]["result"]["content"][0]["text"], "done", "round {round}");
        assert_eq!((upstream.messages("initialize").len(), upstream.open_streams()), (1, 1), "the session is shared");
    }
    upstream.run_on_streams(&ScriptStep::Close);
    wait_until("the stream is closed", || upstream.open_streams() == 0).await;
    // The gateway notices the end of the stream a moment later, and this call must not be sent on the closed one.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(gw.post(&headers, &call).await.messages()[1]["result"]["content"][0]["text"], "done");
    assert_eq!(upstream.messages("tools/call").len(), 3, "no call is repeated");
}

#[tokio::test]
async fn task_belongs_to_the_connection_that_created_it() {
    let (upstream, gw) = setup().await;
    let create_task = async |id: &str| {
        let params = json!({"name": "makes", "arguments": {"id": id}, "task": {}});
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await
    };
    let get_task = async |id: &str| {
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": id}})).await.message()
    };
    gw.initialize().await;
    create_task("one").await;
    assert_eq!(get_task("one").await["result"]["taskId"], "one");
    gw.initialize().await;
    create_task("two").await;
    assert_eq!(get_task("two").await["result"]["taskId"], "two");
    assert_eq!(
        get_task("one").await["error"]["code"],
        -32602,
        "another connection may use the same id for another task"
    );
    assert_eq!(upstream.messages("tasks/get").len(), 2);
}
