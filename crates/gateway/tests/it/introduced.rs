//! Nothing is said in a session before its server was told that the handshake is done, whoever leaves in the middle.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ScriptStep, TestGateway, json_response, tool_definition};
use serde_json::json;

use super::support::{ALLOW_ALL, StatelessTestClient, result_message, start_in_session, wait_until};

/// A server with sessions. In one of them it does not answer to that the handshake is done, and notes when nobody waits
/// for that any more.
async fn server(hangs_in: &'static str) -> (FakeUpstream, Arc<AtomicBool>) {
    let (handshakes, is_left) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let noted = Arc::clone(&is_left);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        match hit.method().as_str() {
            "initialize" => {
                let head = format!("mcp-session-id: s-{}\r\n", handshakes.fetch_add(1, Ordering::AcqRel) + 1);
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "s", "version": "1"}});
                Some(json_response("200 OK", &head, &result_message(hit, &result).to_string()))
            }
            "notifications/initialized" if hit.header("mcp-session-id") == Some(hangs_in) => {
                Some(vec![ScriptStep::WaitForHangUp(Arc::clone(&noted))])
            }
            _ => None,
        }
    })
    .await;
    (upstream, is_left)
}

fn called_in(upstream: &FakeUpstream) -> Option<String> {
    upstream.calls().last()?.header("mcp-session-id").map(str::to_owned)
}

#[tokio::test]
async fn a_session_that_is_opened_again_for_one_who_leaves_is_not_used_before_it_was_introduced() {
    let (upstream, is_left) = server("s-2").await;
    let mut gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    gw.restart().await;
    let stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    let is_told = || upstream.requests().iter().filter(|hit| hit.method() == "notifications/initialized").count() == 2;
    wait_until("the session is opened again", is_told).await;
    drop(stream);
    wait_until("nobody waits for that", || is_left.load(Ordering::Acquire)).await;
    assert_eq!(gw.call("read", json!({"n": 1})).await.text(), r#"{"n":1}"#);
    assert_eq!(called_in(&upstream).as_deref(), Some("s-3"));
}

#[tokio::test]
async fn a_session_of_ours_that_is_opened_for_one_who_leaves_is_not_used_before_it_was_introduced() {
    let (upstream, is_left) = server("s-1").await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let stream = StatelessTestClient::new(&gw).at_aggregate().start_request("subscriptions/listen", wanted).await;
    let is_told = || upstream.requests().iter().any(|hit| hit.method() == "notifications/initialized");
    wait_until("a session is opened", is_told).await;
    drop(stream);
    wait_until("nobody waits for that", || is_left.load(Ordering::Acquire)).await;
    let call = json!({"name": "read", "arguments": {"n": 1}});
    let answer =
        StatelessTestClient::new(&gw).request_with_capabilities("tools/call", call, &json!({"elicitation": {}})).await;
    assert_eq!(answer.text(), r#"{"n":1}"#, "{}", answer.body);
    assert_eq!(called_in(&upstream).as_deref(), Some("s-2"));
}
