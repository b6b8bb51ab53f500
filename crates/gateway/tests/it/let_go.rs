//! Who listens for many resources at a server that hangs is let go when they leave.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ScriptStep, TestGateway, json_response, tool_definition};
use serde_json::{Value, json};

use super::support::{
    ALLOW_ALL, StatelessTestClient, read_until, request_count, result_message, stream_headers, wait_until,
};

/// A server with sessions that can be listened to. While it hangs it answers to no subscription.
async fn server(is_hanging: Arc<AtomicBool>) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("forget")]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "initialize" => {
            let result = json!({"protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "resources": {"subscribe": true}},
                "serverInfo": {"name": "s", "version": "1"}});
            Some(json_response("200 OK", "mcp-session-id: s\r\n", &result_message(hit, &result).to_string()))
        }
        "tools/call" => Some(json_response("404 Not Found", "", "")),
        method if method.starts_with("resources/") && is_hanging.load(Ordering::Acquire) => {
            Some(vec![ScriptStep::Pause(Duration::from_secs(60))])
        }
        _ if hit.request_line.starts_with("GET") => {
            Some([stream_headers(), vec![ScriptStep::WaitForHangUp(Arc::default())]].concat())
        }
        _ => None,
    })
    .await
}

/// Listens for many resources, leaves while the server hangs, and waits until that is written.
async fn leaves(hangs_later: bool) {
    let uris: Vec<Value> = (0..20).map(|number| json!(format!("note://{number}"))).collect();
    let declared = json!({"elicitation": {}});
    let is_hanging = Arc::new(AtomicBool::new(!hangs_later));
    let upstream = server(Arc::clone(&is_hanging)).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
    let mut ear =
        StatelessTestClient::new(&gw).start_request_with_capabilities("subscriptions/listen", wanted, &declared).await;
    if hangs_later {
        read_until(&mut ear, "acknowledged", 1).await;
        is_hanging.store(true, Ordering::Release);
        // It has forgotten the session, so it is asked again for all of them.
        let call = json!({"name": "forget", "arguments": {}});
        StatelessTestClient::new(&gw).request_with_capabilities("tools/call", call, &declared).await;
    }
    let asked = if hangs_later { 21 } else { 1 };
    wait_until("it is asked", || request_count(&upstream, "resources/subscribe") == asked).await;
    drop(ear);
    let is_written = async {
        let is_own = |method: Option<&str>| method == Some("subscriptions/listen");
        while !gw.rows().await.iter().any(|row| is_own(row.record.method.as_deref())) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(4), is_written).await.is_ok(), "that it ended is written");
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn who_leaves_while_a_server_hangs_that_is_asked_for_resources_is_let_go_at_once() {
    leaves(false).await;
}

#[tokio::test]
async fn who_leaves_while_a_server_hangs_that_is_asked_for_them_again_is_let_go_at_once() {
    leaves(true).await;
}
