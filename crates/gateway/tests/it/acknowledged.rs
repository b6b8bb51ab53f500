//! `subscriptions/listen` at a server with sessions: what is acknowledged is heard from then on.
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

/// A server with sessions that tells of resources, and whose own stream is what `stream` makes of its number.
async fn server(stream: impl Fn(usize) -> ResponseScript + Send + Sync + 'static) -> FakeUpstream {
    let opened = AtomicUsize::new(0);
    FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "initialize" => result_response(
            hit,
            &json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {"subscribe": true}},
                "serverInfo": {"name": "s", "version": "1"}}),
        ),
        "resources/subscribe" if hit.message()["params"]["uri"] == "note://none" => {
            let error = json!({"code": -32002, "message": "not there"});
            let body = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
            Some(json_response("200 OK", "", &body.to_string()))
        }
        _ if hit.request_line.starts_with("GET") => Some(stream(opened.fetch_add(1, Ordering::AcqRel))),
        _ => None,
    })
    .await
}

fn update() -> ScriptStep {
    let said = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "note://1"}});
    ScriptStep::Write(chunk(&event(&said)))
}

fn wanted() -> Value {
    json!({"notifications": {"resourceSubscriptions": ["note://1"]}})
}

fn streams(upstream: &FakeUpstream) -> usize {
    upstream.requests().iter().filter(|hit| hit.request_line.starts_with("GET")).count()
}

#[tokio::test]
async fn nothing_is_acknowledged_before_the_servers_stream_stands_and_nothing_is_lost_from_then_on() {
    let (stands, changes) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (own, changed) = (Arc::clone(&stands), Arc::clone(&changes));
    let upstream = server(move |_| {
        let mut script = vec![ScriptStep::WaitFor(Arc::clone(&own))];
        script.extend(stream_headers());
        script.extend([ScriptStep::WaitFor(Arc::clone(&changed)), update(), ScriptStep::WaitForHangUp(Arc::default())]);
        script
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let mut ear = StatelessTestClient::new(&gw).start_request("subscriptions/listen", wanted()).await;
    wait_until("the stream is asked for", || streams(&upstream) == 1).await;
    let early = read_for(&mut ear, Duration::from_millis(300)).await;
    assert!(!early.contains("acknowledged"), "{early}");
    stands.notify_one();
    read_until(&mut ear, "acknowledged", 1).await;
    changes.notify_one();
    read_until(&mut ear, "resources/updated", 1).await;
}

#[tokio::test]
async fn whoever_listens_while_the_servers_stream_is_away_has_it_opened_and_is_told_when_it_stands() {
    let ends = Arc::new(Notify::new());
    let own = Arc::clone(&ends);
    let upstream = server(move |number| {
        let mut script = stream_headers();
        match number {
            0 => script.extend([ScriptStep::WaitFor(Arc::clone(&own)), ScriptStep::Write(b"0\r\n\r\n".to_vec())]),
            _ => script.extend([
                ScriptStep::Pause(Duration::from_millis(100)),
                update(),
                ScriptStep::WaitForHangUp(Arc::default()),
            ]),
        }
        script
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let mut first = StatelessTestClient::new(&gw).start_request("subscriptions/listen", wanted()).await;
    read_until(&mut first, "acknowledged", 1).await;
    ends.notify_one();
    // The end of the stream is known here a moment later; nothing shows it to a test.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(streams(&upstream), 1, "a stream that ends is let rest for a second");
    let mut second = StatelessTestClient::new(&gw).start_request("subscriptions/listen", wanted()).await;
    read_until(&mut second, "acknowledged", 1).await;
    assert_eq!(streams(&upstream), 2, "it stands when it is acknowledged");
    read_until(&mut second, "resources/updated", 1).await;
}

#[tokio::test]
async fn a_server_whose_stream_does_not_open_is_not_acknowledged_and_that_is_said_in_time() {
    let upstream = server(|_| json_response("500 Internal Server Error", "", "")).await;
    let settings = GatewaySettings { connect_timeout: Duration::from_millis(200), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).start(&upstream).await;
    let begun = Instant::now();
    let refused = StatelessTestClient::new(&gw).request("subscriptions/listen", wanted()).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(refused.code(), -32603, "{}", refused.body);
    let said = refused.message()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(said.starts_with("[UPSTREAM] the server's event stream does not open; quote call "), "{said}");
}

#[tokio::test]
async fn a_resource_that_the_server_will_not_tell_of_is_not_acknowledged() {
    let upstream = server(|_| {
        let mut script = stream_headers();
        script.push(ScriptStep::WaitForHangUp(Arc::default()));
        script
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let wanted = json!({"notifications": {"resourceSubscriptions": ["note://1", "note://none"]}});
    let mut ears = Vec::new();
    for listener in ["the first", "one who comes later"] {
        let mut ear = StatelessTestClient::new(&gw).start_request("subscriptions/listen", wanted.clone()).await;
        let told = read_until(&mut ear, "acknowledged", 1).await;
        assert!(told.contains(r#""resourceSubscriptions":["note://1"]"#), "{listener}: {told}");
        ears.push(ear);
    }
    drop(ears);
    let ended = || upstream.requests().into_iter().filter(|hit| hit.method() == "resources/unsubscribe");
    wait_until("what was begun is ended", || ended().count() > 0).await;
    assert!(ended().all(|hit| hit.message()["params"]["uri"] == "note://1"), "and nothing else");
}
