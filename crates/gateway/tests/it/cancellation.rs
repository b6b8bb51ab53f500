//! Cancelled requests, at every stage: they are not sent, or their server is notified, and a row records it.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{CallOutcome, CallRecord};
use gatelodge_testkit::{FakeUpstream, RecordedRequest, ScriptStep, TestGateway, json_response, tool_definition};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Notify;

use super::client_input_sessions::{resume_params, start_asking_http_server, suspend_call};
use super::support::{
    ALLOW_ALL, StatelessTestClient, activate_policy, read_until, request_count, result_message, start_in_session,
    stateless_request, wait_until,
};

fn request(id: u8, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn cancellation(id: u8) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// Waits for a log row with this method and outcome.
async fn wait_for_row(gw: &TestGateway, method: &str, outcome: CallOutcome) -> CallRecord {
    let is_it = |record: &CallRecord| record.method.as_deref() == Some(method) && record.outcome == Some(outcome);
    for _ in 0..250 {
        if let Some(row) = gw.rows().await.into_iter().find(|row| is_it(&row.record)) {
            return row.record;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no row: {method} {outcome:?}: {:#?}", gw.rows().await);
}

/// Starts a server whose first handshake waits for the returned notification.
async fn start_server_with_slow_handshake() -> (FakeUpstream, Arc<Notify>) {
    let (handshakes, go_on) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let may_go_on = Arc::clone(&go_on);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        let is_first = hit.method() == "initialize" && handshakes.fetch_add(1, Ordering::AcqRel) == 0;
        is_first.then(|| {
            let result =
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            let response = json_response("200 OK", "mcp-session-id: s\r\n", &result_message(hit, &result).to_string());
            [vec![ScriptStep::WaitFor(Arc::clone(&may_go_on))], response].concat()
        })
    })
    .await;
    (upstream, go_on)
}

#[tokio::test]
async fn an_aggregate_call_that_is_cancelled_during_the_handshake_is_not_sent() {
    let (upstream, go_on) = start_server_with_slow_handshake().await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).at_aggregate().start(&upstream).await;
    gw.initialize().await;
    let call = |id: u8| request(id, "tools/call", json!({"name": "desk__read", "arguments": {"n": id}}));
    let mut stream = start_in_session(&gw, "POST", "/mcp", "", &call(9)).await;
    wait_until("the handshake starts", || request_count(&upstream, "initialize") == 1).await;
    // The call may not be registered yet; then the cancellation is treated as one for an unknown request.
    for _ in 0..250 {
        gw.send(&cancellation(9)).await;
        let is_applied = |record: &CallRecord| {
            record.method.as_deref() == Some("notifications/cancelled") && record.outcome.is_some()
        };
        if gw.rows().await.iter().any(|row| is_applied(&row.record)) {
            break;
        }
    }
    let response = read_until(&mut stream, "\r\n\r\n", 1).await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let row = wait_for_row(&gw, "tools/call", CallOutcome::Cancelled).await;
    assert_eq!((row.target.as_deref(), row.request.as_deref()), (Some("read"), Some("9")));
    go_on.notify_one();
    assert_eq!(gw.send_text(&call(10)).await.text(), r#"{"n":10}"#);
    assert_eq!(upstream.calls().len(), 1, "the cancelled call is not sent");
}

#[tokio::test]
async fn a_stdio_call_that_is_cancelled_during_the_handshake_is_not_sent() {
    let (upstream, go_on) = start_server_with_slow_handshake().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, responses) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let call = |id: u8| {
        let text = stateless_request("tools/call", json!({"name": "read", "arguments": {"n": id}}), &json!({}));
        let mut message: Value = serde_json::from_str(&text).expect("JSON");
        message["id"] = json!(id);
        format!("{message}\n")
    };
    client.write_all(call(8).as_bytes()).await.expect("sent");
    wait_until("the handshake starts", || request_count(&upstream, "initialize") == 1).await;
    client.write_all(format!("{}\n", cancellation(8)).as_bytes()).await.expect("sent");
    wait_for_row(&gw, "notifications/cancelled", CallOutcome::Ok).await;
    let row = wait_for_row(&gw, "tools/call", CallOutcome::Cancelled).await;
    assert_eq!(row.target.as_deref(), Some("read"));
    go_on.notify_one();
    client.write_all(call(9).as_bytes()).await.expect("sent");
    let first = BufReader::new(responses).lines().next_line().await.expect("text").expect("a response");
    assert!(first.contains(r#""id":9"#), "{first}");
    assert_eq!(upstream.calls().len(), 1, "the cancelled call is not sent");
    drop(client);
    running.await.expect("it ends").expect("in order");
}

/// Starts a server that never responds to `method`, and records when the gateway closes such a request.
async fn start_silent_server(method: &'static str) -> (FakeUpstream, Arc<AtomicBool>) {
    let hung_up = Arc::new(AtomicBool::new(false));
    let hang_up = Arc::clone(&hung_up);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        (hit.method() == method).then(|| vec![ScriptStep::WaitForHangUp(Arc::clone(&hang_up))])
    });
    (upstream.await, hung_up)
}

/// Whether a server received a cancellation for its request with this method.
fn is_cancelled(upstream: &FakeUpstream, method: &str) -> bool {
    let hits = upstream.requests();
    let id = hits.iter().find(|hit| hit.method() == method).map(|hit| hit.message()["id"].clone());
    let mut cancellations =
        hits.iter().filter(|hit| hit.method() == "notifications/cancelled").map(RecordedRequest::message);
    cancellations.any(|cancellation| Some(&cancellation["params"]["requestId"]) == id.as_ref())
}

#[tokio::test]
async fn a_cancelled_list_ping_or_set_level_gets_no_response_and_is_cancelled_upstream() {
    for method in ["tools/list", "ping", "logging/setLevel"] {
        let (upstream, hung_up) = start_silent_server(method).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize().await;
        let body = request(9, method, json!({"level": "info"}));
        let mut stream = start_in_session(&gw, "POST", "/mcp/desk", "", &body).await;
        wait_until("the request arrives", || request_count(&upstream, method) == 1).await;
        assert_eq!(gw.send(&cancellation(9)).await.status, 202);
        let response = read_until(&mut stream, "\r\n\r\n", 1).await;
        assert!(response.starts_with("HTTP/1.1 200") && !response.contains("error"), "{method}: {response}");
        wait_until("the upstream request is closed", || hung_up.load(Ordering::Acquire)).await;
        wait_until("the server gets the cancellation", || is_cancelled(&upstream, method)).await;
        assert_eq!(request_count(&upstream, "notifications/cancelled"), 1, "{method}: once");
        wait_for_row(&gw, "notifications/cancelled", CallOutcome::Ok).await;
        wait_for_row(&gw, method, CallOutcome::Cancelled).await;
    }
}

#[tokio::test]
async fn a_client_that_disconnects_is_not_recorded_as_a_server_error() {
    for method in ["tools/list", "ping"] {
        let (upstream, hung_up) = start_silent_server(method).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize().await;
        let stream = start_in_session(&gw, "POST", "/mcp/desk", "", &request(9, method, json!({}))).await;
        wait_until("the request arrives", || request_count(&upstream, method) == 1).await;
        drop(stream);
        wait_until("the upstream request is closed", || hung_up.load(Ordering::Acquire)).await;
        let row = wait_for_row(&gw, method, CallOutcome::Cancelled).await;
        assert_eq!((row.code, row.message), (None, None), "{method}");
    }
}

#[tokio::test]
async fn a_stateless_client_that_disconnects_before_its_call_is_sent_is_not_recorded_as_a_server_error() {
    let (upstream, hung_up) = start_silent_server("tools/list").await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let stream =
        StatelessTestClient::new(&gw).start_request("tools/call", json!({"name": "read", "arguments": {}})).await;
    wait_until("the tools are requested", || request_count(&upstream, "tools/list") == 1).await;
    drop(stream);
    wait_until("the upstream request is closed", || hung_up.load(Ordering::Acquire)).await;
    let row = wait_for_row(&gw, "tools/call", CallOutcome::Cancelled).await;
    assert_eq!((row.target.as_deref(), row.code.as_deref()), (Some("read"), Some("cancelled")));
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn a_call_of_a_stateful_client_is_sent_although_its_connection_broke() {
    let go_on = Arc::new(Notify::new());
    let may_go_on = Arc::clone(&go_on);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        (hit.method() == "tools/list").then(|| {
            let list = result_message(hit, &json!({"tools": [tool_definition("read")]})).to_string();
            [vec![ScriptStep::WaitFor(Arc::clone(&may_go_on))], json_response("200 OK", "", &list)].concat()
        })
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let call = request(9, "tools/call", json!({"name": "read", "arguments": {}}));
    let stream = start_in_session(&gw, "POST", "/mcp/desk", "", &call).await;
    wait_until("the tools are requested", || request_count(&upstream, "tools/list") == 1).await;
    drop(stream);
    // Time for the gateway to see the closed connection, which a test cannot observe.
    tokio::time::sleep(Duration::from_millis(300)).await;
    go_on.notify_one();
    wait_until("the call is sent", || upstream.calls().len() == 1).await;
}

#[tokio::test]
async fn a_call_that_times_out_or_is_ended_by_a_forced_shutdown_is_cancelled_at_a_stateful_server() {
    for stops in [false, true] {
        for has_session in [true, false] {
            let (upstream, _) = start_silent_server("tools/call").await;
            let call_timeout = Duration::from_millis(if stops { 60_000 } else { 300 });
            let settings = GatewaySettings {
                call_timeout,
                drain_timeout: Duration::from_millis(50),
                ..GatewaySettings::default()
            };
            let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).start(&upstream).await;
            let params = json!({"name": "read", "arguments": {}});
            let _stream = if has_session {
                gw.initialize().await;
                start_in_session(&gw, "POST", "/mcp/desk", "", &request(9, "tools/call", params)).await
            } else {
                StatelessTestClient::new(&gw).start_request("tools/call", params).await
            };
            wait_until("the call arrives", || upstream.calls().len() == 1).await;
            if stops {
                gw.gateway.stop();
            }
            wait_until("the server gets the cancellation", || is_cancelled(&upstream, "tools/call")).await;
        }
    }
}

#[tokio::test]
async fn a_suspended_call_that_is_abandoned_leaves_an_outcome_row() {
    let upstream = start_asking_http_server().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let suspended = suspend_call(&gw, "A").await;
    let rows = gw.rows().await;
    let call_id = rows.iter().find(|row| row.record.target.as_deref() == Some("ask")).expect("the intent").record.call;
    activate_policy(&gw, r#"{"version":"1","default":"deny","tools":{"ask":{}}}"#);
    StatelessTestClient::new(&gw).request("tools/call", resume_params("A", &suspended, "yes")).await;
    let row = wait_for_row(&gw, "tools/call", CallOutcome::Cancelled).await;
    assert_eq!((row.call, row.target.as_deref(), row.label.as_deref()), (call_id, Some("ask"), Some("ci")));
}

#[tokio::test]
async fn a_stateful_session_has_no_methods_of_the_stateless_protocol() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let listen = request(9, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let response = tokio::time::timeout(Duration::from_secs(3), gw.send_text(&listen)).await.expect("no stream");
    assert_eq!((response.status, response.code()), (200, -32601), "{}", response.body);
}
