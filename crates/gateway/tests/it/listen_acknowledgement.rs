//! `subscriptions/listen` with a stateful server: the acknowledgement is sent once the upstream stream is open, and no
//! notification after it is lost.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::support::{
    ALLOW_ALL, StatelessTestClient, chunk, event, read_for, read_until, result_response, stream_headers, wait_until,
};

/// Starts a stateful server with resource subscriptions. `stream` returns the script of its n-th standalone stream.
async fn start_server(stream: impl Fn(usize) -> ResponseScript + Send + Sync + 'static) -> FakeUpstream {
    let opened = AtomicUsize::new(0);
    FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "initialize" => result_response(
            hit,
            &json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {"subscribe": true}},
                "serverInfo": {"name": "s", "version": "1"}}),
        ),
        "resources/subscribe" if hit.message()["params"]["uri"] == "note://none" => {
            let error = json!({"code": -32002, "message": "no such resource"});
            let body = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
            Some(json_response("200 OK", "", &body.to_string()))
        }
        _ if hit.request_line.starts_with("GET") => Some(stream(opened.fetch_add(1, Ordering::AcqRel))),
        _ => None,
    })
    .await
}

fn resource_update() -> ScriptStep {
    let notification =
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "note://1"}});
    ScriptStep::Write(chunk(&event(&notification)))
}

fn listen_params() -> Value {
    json!({"notifications": {"resourceSubscriptions": ["note://1"]}})
}

fn opened_streams(upstream: &FakeUpstream) -> usize {
    upstream.requests().iter().filter(|hit| hit.request_line.starts_with("GET")).count()
}

#[tokio::test]
async fn a_listen_is_acknowledged_once_the_upstream_stream_is_open_and_no_later_update_is_lost() {
    let (open, send_update) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (opened, updated) = (Arc::clone(&open), Arc::clone(&send_update));
    let upstream = start_server(move |_| {
        let mut script = vec![ScriptStep::WaitFor(Arc::clone(&opened))];
        script.extend(stream_headers());
        script.extend([
            ScriptStep::WaitFor(Arc::clone(&updated)),
            resource_update(),
            ScriptStep::WaitForHangUp(Arc::default()),
        ]);
        script
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let mut listener = StatelessTestClient::new(&gw).start_request("subscriptions/listen", listen_params()).await;
    wait_until("the gateway requests the stream", || opened_streams(&upstream) == 1).await;
    let early = read_for(&mut listener, Duration::from_millis(300)).await;
    assert!(!early.contains("acknowledged"), "{early}");
    open.notify_one();
    read_until(&mut listener, "acknowledged", 1).await;
    send_update.notify_one();
    read_until(&mut listener, "resources/updated", 1).await;
}

#[tokio::test]
async fn a_listen_after_the_upstream_stream_ended_reopens_it_before_the_acknowledgement() {
    let end = Arc::new(Notify::new());
    let ended = Arc::clone(&end);
    let upstream = start_server(move |number| {
        let mut script = stream_headers();
        match number {
            0 => script.extend([ScriptStep::WaitFor(Arc::clone(&ended)), ScriptStep::Write(b"0\r\n\r\n".to_vec())]),
            _ => script.extend([
                ScriptStep::Pause(Duration::from_millis(100)),
                resource_update(),
                ScriptStep::WaitForHangUp(Arc::default()),
            ]),
        }
        script
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let mut first = StatelessTestClient::new(&gw).start_request("subscriptions/listen", listen_params()).await;
    read_until(&mut first, "acknowledged", 1).await;
    end.notify_one();
    // Time for the gateway to see the end of the stream, which a test cannot observe.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(opened_streams(&upstream), 1, "a stream that ended is reopened after a second at the earliest");
    let mut second = StatelessTestClient::new(&gw).start_request("subscriptions/listen", listen_params()).await;
    read_until(&mut second, "acknowledged", 1).await;
    assert_eq!(opened_streams(&upstream), 2, "it is open when the listen is acknowledged");
    read_until(&mut second, "resources/updated", 1).await;
}

#[tokio::test]
async fn a_listen_is_refused_in_time_when_the_upstream_stream_does_not_open() {
    let upstream = start_server(|_| json_response("500 Internal Server Error", "", "")).await;
    let settings = GatewaySettings { connect_timeout: Duration::from_millis(200), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).start(&upstream).await;
    let started = Instant::now();
    let refused = StatelessTestClient::new(&gw).request("subscriptions/listen", listen_params()).await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(refused.code(), -32603, "{}", refused.body);
    let message = refused.message()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("[UPSTREAM] the server's event stream does not open; call id "), "{message}");
}

#[tokio::test]
async fn a_resource_that_the_server_refuses_to_subscribe_is_not_acknowledged() {
    let upstream = start_server(|_| {
        let mut script = stream_headers();
        script.push(ScriptStep::WaitForHangUp(Arc::default()));
        script
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let params = json!({"notifications": {"resourceSubscriptions": ["note://1", "note://none"]}});
    let mut listeners = Vec::new();
    for listener in ["the first", "a later one"] {
        let mut stream = StatelessTestClient::new(&gw).start_request("subscriptions/listen", params.clone()).await;
        let acknowledgement = read_until(&mut stream, "acknowledged", 1).await;
        assert!(acknowledgement.contains(r#""resourceSubscriptions":["note://1"]"#), "{listener}: {acknowledgement}");
        listeners.push(stream);
    }
    drop(listeners);
    let unsubscribed = || upstream.requests().into_iter().filter(|hit| hit.method() == "resources/unsubscribe");
    wait_until("the resource is unsubscribed", || unsubscribed().count() > 0).await;
    assert!(unsubscribed().all(|hit| hit.message()["params"]["uri"] == "note://1"), "only the accepted one");
}
