//! What nobody waits for any more, whenever that is: it is not sent, its server is told, and a row says so.
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

use super::asked_apart::{asked, asks_over_http, brought};
use super::support::{
    ALLOW_ALL, StatelessTestClient, activate_policy, read_until, request_count, result_message, start_in_session,
    stateless_request, wait_until,
};

fn request(id: u8, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn cancelled(id: u8) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// Waits for a row.
async fn row(gw: &TestGateway, what: &str, is_it: impl Fn(&CallRecord) -> bool) -> CallRecord {
    for _ in 0..250 {
        if let Some(row) = gw.rows().await.into_iter().find(|row| is_it(&row.record)) {
            return row.record;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no row: {what}: {:#?}", gw.rows().await);
}

async fn row_of(gw: &TestGateway, method: &str, outcome: CallOutcome) -> CallRecord {
    let is_it = |record: &CallRecord| record.method.as_deref() == Some(method) && record.outcome == Some(outcome);
    row(gw, &format!("{method} {outcome:?}"), is_it).await
}

/// A server whose first handshake goes on when it is told to.
async fn slow_to_greet() -> (FakeUpstream, Arc<Notify>) {
    let (greetings, goes_on) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let told = Arc::clone(&goes_on);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        let is_first = hit.method() == "initialize" && greetings.fetch_add(1, Ordering::AcqRel) == 0;
        is_first.then(|| {
            let result =
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            let answer = json_response("200 OK", "mcp-session-id: s\r\n", &result_message(hit, &result).to_string());
            [vec![ScriptStep::WaitFor(Arc::clone(&told))], answer].concat()
        })
    })
    .await;
    (upstream, goes_on)
}

#[tokio::test]
async fn a_call_to_one_of_all_that_is_cancelled_while_its_server_is_greeted_is_not_sent() {
    let (upstream, goes_on) = slow_to_greet().await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).at_aggregate().start(&upstream).await;
    gw.initialize().await;
    let call = |id: u8| request(id, "tools/call", json!({"name": "desk__read", "arguments": {"n": id}}));
    let mut stream = start_in_session(&gw, "POST", "/mcp", "", &call(9)).await;
    wait_until("the server is greeted", || request_count(&upstream, "initialize") == 1).await;
    // It may not be entered yet: what is said of it goes another way.
    for _ in 0..250 {
        gw.send(&cancelled(9)).await;
        let is_taken = |record: &CallRecord| {
            record.method.as_deref() == Some("notifications/cancelled") && record.outcome.is_some()
        };
        if gw.rows().await.iter().any(|row| is_taken(&row.record)) {
            break;
        }
    }
    let answer = read_until(&mut stream, "\r\n\r\n", 1).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let own = row_of(&gw, "tools/call", CallOutcome::Cancelled).await;
    assert_eq!((own.target.as_deref(), own.request.as_deref()), (Some("read"), Some("9")));
    goes_on.notify_one();
    assert_eq!(gw.send_text(&call(10)).await.text(), r#"{"n":10}"#);
    assert_eq!(upstream.calls().len(), 1, "and not the one that was cancelled");
}

#[tokio::test]
async fn a_call_at_standard_streams_that_is_cancelled_while_its_server_is_greeted_is_not_sent() {
    let (upstream, goes_on) = slow_to_greet().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, answers) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let call = |id: u8| {
        let text = stateless_request("tools/call", json!({"name": "read", "arguments": {"n": id}}), &json!({}));
        let mut message: Value = serde_json::from_str(&text).expect("JSON");
        message["id"] = json!(id);
        format!("{message}\n")
    };
    client.write_all(call(8).as_bytes()).await.expect("it can be written");
    wait_until("the server is greeted", || request_count(&upstream, "initialize") == 1).await;
    client.write_all(format!("{}\n", cancelled(8)).as_bytes()).await.expect("it can be written");
    row_of(&gw, "notifications/cancelled", CallOutcome::Ok).await;
    let own = row_of(&gw, "tools/call", CallOutcome::Cancelled).await;
    assert_eq!(own.target.as_deref(), Some("read"));
    goes_on.notify_one();
    client.write_all(call(9).as_bytes()).await.expect("it can be written");
    let first = BufReader::new(answers).lines().next_line().await.expect("text").expect("an answer");
    assert!(first.contains(r#""id":9"#), "{first}");
    assert_eq!(upstream.calls().len(), 1, "and not the one that was cancelled");
    drop(client);
    running.await.expect("it ends").expect("in order");
}

/// A server that answers nothing of a method, and notes when nobody waits for it any more.
async fn silent(method: &'static str) -> (FakeUpstream, Arc<AtomicBool>) {
    let hung_up = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&hung_up);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        (hit.method() == method).then(|| vec![ScriptStep::WaitForHangUp(Arc::clone(&noted))])
    });
    (upstream.await, hung_up)
}

/// Whether a server was told that nobody waits for a request of this method, under the id that it knows.
fn is_told(upstream: &FakeUpstream, method: &str) -> bool {
    let hits = upstream.requests();
    let own = hits.iter().find(|hit| hit.method() == method).map(|hit| hit.message()["id"].clone());
    let mut told = hits.iter().filter(|hit| hit.method() == "notifications/cancelled").map(RecordedRequest::message);
    told.any(|told| Some(&told["params"]["requestId"]) == own.as_ref())
}

#[tokio::test]
async fn a_list_a_ping_or_a_level_that_is_cancelled_ends_without_an_answer_and_its_server_is_told() {
    for method in ["tools/list", "ping", "logging/setLevel"] {
        let (upstream, hung_up) = silent(method).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize().await;
        let body = request(9, method, json!({"level": "info"}));
        let mut stream = start_in_session(&gw, "POST", "/mcp/desk", "", &body).await;
        wait_until("it arrives", || request_count(&upstream, method) == 1).await;
        assert_eq!(gw.send(&cancelled(9)).await.status, 202);
        let answer = read_until(&mut stream, "\r\n\r\n", 1).await;
        assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("error"), "{method}: {answer}");
        wait_until("nobody waits", || hung_up.load(Ordering::Acquire)).await;
        wait_until("it is told", || is_told(&upstream, method)).await;
        assert_eq!(request_count(&upstream, "notifications/cancelled"), 1, "{method}: once");
        row_of(&gw, "notifications/cancelled", CallOutcome::Ok).await;
        row_of(&gw, method, CallOutcome::Cancelled).await;
    }
}

#[tokio::test]
async fn a_caller_that_hangs_up_is_not_written_down_as_its_servers_fault() {
    for method in ["tools/list", "ping"] {
        let (upstream, hung_up) = silent(method).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize().await;
        let stream = start_in_session(&gw, "POST", "/mcp/desk", "", &request(9, method, json!({}))).await;
        wait_until("it arrives", || request_count(&upstream, method) == 1).await;
        drop(stream);
        wait_until("nobody waits", || hung_up.load(Ordering::Acquire)).await;
        let own = row_of(&gw, method, CallOutcome::Cancelled).await;
        assert_eq!((own.code, own.message), (None, None), "{method}");
    }
}

#[tokio::test]
async fn a_stateless_caller_that_hangs_up_before_its_call_is_sent_is_not_written_down_as_its_servers_fault() {
    let (upstream, hung_up) = silent("tools/list").await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let stream =
        StatelessTestClient::new(&gw).start_request("tools/call", json!({"name": "read", "arguments": {}})).await;
    wait_until("it is asked what it offers", || request_count(&upstream, "tools/list") == 1).await;
    drop(stream);
    wait_until("nobody waits", || hung_up.load(Ordering::Acquire)).await;
    let own = row_of(&gw, "tools/call", CallOutcome::Cancelled).await;
    assert_eq!((own.target.as_deref(), own.code.as_deref()), (Some("read"), Some("cancelled")));
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn a_caller_with_a_session_whose_connection_breaks_before_its_call_is_sent_has_it_sent_all_the_same() {
    let goes_on = Arc::new(Notify::new());
    let told = Arc::clone(&goes_on);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        (hit.method() == "tools/list").then(|| {
            let answer = result_message(hit, &json!({"tools": [tool_definition("read")]})).to_string();
            [vec![ScriptStep::WaitFor(Arc::clone(&told))], json_response("200 OK", "", &answer)].concat()
        })
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let call = request(9, "tools/call", json!({"name": "read", "arguments": {}}));
    let stream = start_in_session(&gw, "POST", "/mcp/desk", "", &call).await;
    wait_until("it is asked what it offers", || request_count(&upstream, "tools/list") == 1).await;
    drop(stream);
    // Long enough to be seen.
    tokio::time::sleep(Duration::from_millis(300)).await;
    goes_on.notify_one();
    wait_until("the call is sent", || upstream.calls().len() == 1).await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_or_is_cut_off_is_cancelled_at_a_server_with_sessions() {
    for stops in [false, true] {
        for has_session in [true, false] {
            let (upstream, _) = silent("tools/call").await;
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
            wait_until("it is called", || upstream.calls().len() == 1).await;
            if stops {
                gw.gateway.stop();
            }
            wait_until("it is told", || is_told(&upstream, "tools/call")).await;
        }
    }
}

#[tokio::test]
async fn a_call_that_waits_for_its_client_and_is_given_up_leaves_a_row() {
    let upstream = asks_over_http().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let question = asked(&gw, "A").await;
    let rows = gw.rows().await;
    let sent = rows.iter().find(|row| row.record.target.as_deref() == Some("ask")).expect("the intent").record.call;
    activate_policy(&gw, r#"{"version":"1","default":"deny","tools":{"ask":{}}}"#);
    StatelessTestClient::new(&gw).request("tools/call", brought("A", &question, "yes")).await;
    let own = row_of(&gw, "tools/call", CallOutcome::Cancelled).await;
    assert_eq!((own.call, own.target.as_deref(), own.label.as_deref()), (sent, Some("ask"), Some("ci")));
}

#[tokio::test]
async fn a_session_has_no_method_that_came_after_its_era() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let listen = request(9, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let answer = tokio::time::timeout(Duration::from_secs(3), gw.send_text(&listen)).await.expect("no stream");
    assert_eq!((answer.status, answer.code()), (200, -32601), "{}", answer.body);
}
