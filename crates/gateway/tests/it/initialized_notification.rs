//! An upstream session is not used before its server received `notifications/initialized`, even if the client that
//! caused the handshake disconnects during it.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ScriptStep, TestGateway, json_response, tool_definition};
use serde_json::json;

use super::support::{ALLOW_ALL, StatelessTestClient, result_message, start_in_session, wait_until};

/// A stateful server that does not answer `notifications/initialized` in the session `hangs_in`. The returned flag is
/// set when the gateway closes the connection of that notification.
async fn start_server(hangs_in: &'static str) -> (FakeUpstream, Arc<AtomicBool>) {
    let (handshakes, is_abandoned) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&is_abandoned);
    let upstream = FakeUpstream::start(
        json!([tool_definition("read")]),
        move |request: &RecordedRequest| match request.method().as_str() {
            "initialize" => {
                let header = format!("mcp-session-id: s-{}\r\n", handshakes.fetch_add(1, Ordering::AcqRel) + 1);
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "s", "version": "1"}});
                Some(json_response("200 OK", &header, &result_message(request, &result).to_string()))
            }
            "notifications/initialized" if request.header("mcp-session-id") == Some(hangs_in) => {
                Some(vec![ScriptStep::WaitForHangUp(Arc::clone(&flag))])
            }
            _ => None,
        },
    )
    .await;
    (upstream, is_abandoned)
}

fn session_of_last_call(upstream: &FakeUpstream) -> Option<String> {
    upstream.calls().last()?.header("mcp-session-id").map(str::to_owned)
}

#[tokio::test]
async fn a_reopened_session_is_not_used_when_the_client_leaves_during_its_handshake() {
    let (upstream, is_abandoned) = start_server("s-2").await;
    let mut gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    gw.restart().await;
    let stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    let is_initialized_sent =
        || upstream.requests().iter().filter(|request| request.method() == "notifications/initialized").count() == 2;
    wait_until("the session is opened again", is_initialized_sent).await;
    drop(stream);
    wait_until("the gateway abandons the handshake", || is_abandoned.load(Ordering::Acquire)).await;
    assert_eq!(gw.call("read", json!({"n": 1})).await.text(), r#"{"n":1}"#);
    assert_eq!(session_of_last_call(&upstream).as_deref(), Some("s-3"));
}

#[tokio::test]
async fn a_pooled_session_is_not_used_when_the_client_leaves_during_its_handshake() {
    let (upstream, is_abandoned) = start_server("s-1").await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let stream = StatelessTestClient::new(&gw).at_aggregate().start_request("subscriptions/listen", filter).await;
    let is_initialized_sent =
        || upstream.requests().iter().any(|request| request.method() == "notifications/initialized");
    wait_until("a session is opened", is_initialized_sent).await;
    drop(stream);
    wait_until("the gateway abandons the handshake", || is_abandoned.load(Ordering::Acquire)).await;
    let call = json!({"name": "read", "arguments": {"n": 1}});
    let reply =
        StatelessTestClient::new(&gw).request_with_capabilities("tools/call", call, &json!({"elicitation": {}})).await;
    assert_eq!(reply.text(), r#"{"n":1}"#, "{}", reply.body);
    assert_eq!(session_of_last_call(&upstream).as_deref(), Some("s-2"));
}
