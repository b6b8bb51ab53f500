//! A `subscriptions/listen` with many resources ends as soon as its client disconnects, although the server hangs.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ScriptStep, TestGateway, json_response, tool_definition};
use serde_json::{Value, json};

use super::support::{
    ALLOW_ALL, StatelessTestClient, read_until, request_count, result_message, stream_headers, wait_until,
    wait_until_async,
};

/// A stateful server with a standalone stream. It does not answer resource requests while `is_hanging` is set.
async fn start_server(is_hanging: Arc<AtomicBool>) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("forget")]), move |request: &RecordedRequest| {
        match request.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "resources": {"subscribe": true}},
                "serverInfo": {"name": "s", "version": "1"}});
                Some(json_response("200 OK", "mcp-session-id: s\r\n", &result_message(request, &result).to_string()))
            }
            "tools/call" => Some(json_response("404 Not Found", "", "")),
            method if method.starts_with("resources/") && is_hanging.load(Ordering::Acquire) => {
                Some(vec![ScriptStep::Pause(Duration::from_secs(60))])
            }
            _ if request.request_line.starts_with("GET") => {
                Some([stream_headers(), vec![ScriptStep::WaitForHangUp(Arc::default())]].concat())
            }
            _ => None,
        }
    })
    .await
}

/// Subscribes to 20 resources, disconnects while the server hangs, and waits until the end is recorded.
///
/// With `hangs_later` the server starts to hang after the acknowledgement, when the subscriptions are renewed.
async fn assert_listen_ends(hangs_later: bool) {
    let uris: Vec<Value> = (0..20).map(|number| json!(format!("note://{number}"))).collect();
    let declared = json!({"elicitation": {}});
    let is_hanging = Arc::new(AtomicBool::new(!hangs_later));
    let upstream = start_server(Arc::clone(&is_hanging)).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let filter = json!({"notifications": {"resourceSubscriptions": uris}});
    let mut client_stream =
        StatelessTestClient::new(&gw).start_request_with_capabilities("subscriptions/listen", filter, &declared).await;
    if hangs_later {
        read_until(&mut client_stream, "acknowledged", 1).await;
        is_hanging.store(true, Ordering::Release);
        // The call finds the session lost, so the gateway subscribes to all resources again.
        let call = json!({"name": "forget", "arguments": {}});
        StatelessTestClient::new(&gw).request_with_capabilities("tools/call", call, &declared).await;
    }
    let expected = if hangs_later { 21 } else { 1 };
    wait_until("the gateway subscribes", || request_count(&upstream, "resources/subscribe") == expected).await;
    drop(client_stream);
    wait_until_async("the end is recorded", async || {
        gw.rows().await.iter().any(|row| row.record.method.as_deref() == Some("subscriptions/listen"))
    })
    .await;
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn a_listen_ends_at_once_when_its_client_leaves_a_hanging_subscribe() {
    assert_listen_ends(false).await;
}

#[tokio::test]
async fn a_listen_ends_at_once_when_its_client_leaves_a_hanging_renewal() {
    assert_listen_ends(true).await;
}
