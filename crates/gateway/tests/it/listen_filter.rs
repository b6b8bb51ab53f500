//! `subscriptions/listen`: which parts of the client's filter are accepted, and that other notifications are dropped.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use gatelodge_store::RecordKind;
use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, tool_definition};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::support::{
    ALLOW_ALL, StatelessTestClient, chunk, event, read_until, request_count, result_message, result_response,
    start_in_session, stateless_response, stream_headers, wait_until,
};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const NOTES: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"note://desk/*":{}}}"#;

/// Notification filter of a `subscriptions/listen`.
fn requested_filter(request: &RecordedRequest) -> Value {
    request.message()["params"]["notifications"].clone()
}

fn notification(request: &RecordedRequest, method: &str, mut params: Value) -> ScriptStep {
    params["_meta"] = json!({SUBSCRIPTION: request.message()["id"]});
    ScriptStep::Write(chunk(&event(
        &json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params}),
    )))
}

/// A stream with many notifications outside the filter, which ends with the two updates that match it.
fn noisy_stream(request: &RecordedRequest, acknowledged: Value) -> ResponseScript {
    let update = |uri: &str| notification(request, "resources/updated", json!({"uri": uri}));
    let mut script = stream_headers();
    script.push(notification(request, "prompts/list_changed", json!({"is": "early"})));
    script.push(notification(request, "subscriptions/acknowledged", json!({"notifications": acknowledged})));
    script.extend([
        update("note://desk/2"),
        update("note://desk/11"),
        update("secret://1"),
        notification(request, "message", json!({"level": "info", "data": "noise"})),
        notification(request, "vendor/noise", json!({})),
        notification(request, "tools/list_changed", json!({"is": "late"})),
        notification(request, "tasks", json!({"taskId": "t9", "status": "working"})),
        notification(request, "subscriptions/acknowledged", json!({"notifications": {"toolsListChanged": true}})),
        update("note://desk/1/part"),
        update("note://desk/1"),
    ]);
    script.push(ScriptStep::Pause(Duration::from_secs(30)));
    script
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": {"subscribe": true}})
}

/// Asserts that only the two matching updates of [`noisy_stream`] were received.
fn assert_only_matching(received: &str) {
    for noise in ["early", "late", "noise", "desk/2", "desk/11", "secret", "t9"] {
        assert!(!received.contains(noise), "{noise} in {received}");
    }
    assert_eq!(received.matches("resources/updated").count(), 2, "{received}");
    assert!(
        received.contains("note://desk/1/part"),
        "updates of parts of a resource match its subscription: {received}"
    );
}

#[tokio::test]
async fn notifications_outside_the_filter_or_the_acknowledgement_are_dropped() {
    let upstream = FakeUpstream::start(json!([]), |request: &RecordedRequest| match request.method().as_str() {
        // Tools were requested and are not acknowledged; prompts and logs were not requested.
        "subscriptions/listen" => Some(noisy_stream(
            request,
            json!({"promptsListChanged": true, "resourceSubscriptions": ["note://desk/1", "note://desk/2"], "vendor": 1}),
        )),
        _ => stateless_response(request, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::builder().policy(NOTES).with_server("zoo", &upstream.url(), NOTES).start(&upstream).await;
    for (client, prefix) in
        [(StatelessTestClient::new(&gw), ""), (StatelessTestClient::new(&gw).at_aggregate(), "x-zoo+")]
    {
        let uri = format!("{prefix}note://desk/1");
        let filter = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": [uri]}});
        let mut client_stream = client.start_request("subscriptions/listen", filter).await;
        let received = read_until(&mut client_stream, &format!(r#""uri":"{uri}""#), 1).await;
        let first = received.find("acknowledged").expect("acknowledged");
        assert!(
            first < received.find("resources/updated").expect("an update"),
            "the acknowledgement comes first: {received}"
        );
        assert!(
            !received.contains("promptsListChanged") && !received.contains("vendor"),
            "the acknowledgement has only requested members: {received}"
        );
        let received = if prefix.is_empty() { received } else { received.replace("toolsListChanged", "") };
        assert_only_matching(&received);
    }
}

#[tokio::test]
async fn notifications_outside_the_filter_do_not_reach_a_stateful_client() {
    let upstream = FakeUpstream::start(json!([]), |request: &RecordedRequest| match request.method().as_str() {
        "subscriptions/listen" => {
            let mut acknowledged = requested_filter(request);
            acknowledged["toolsListChanged"] = json!(false);
            acknowledged["promptsListChanged"] = json!(false);
            Some(noisy_stream(request, acknowledged))
        }
        _ => stateless_response(request, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(NOTES, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "note://desk/1"}});
    assert_eq!(gw.send(&subscribe).await.message()["result"], json!({}));
    let mut client_stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    assert_only_matching(&read_until(&mut client_stream, r#""uri":"note://desk/1""#, 1).await);
}

#[tokio::test]
async fn notifications_of_an_extension_are_forwarded_when_the_filter_names_them() {
    let upstream = FakeUpstream::start(json!([]), |request: &RecordedRequest| match request.method().as_str() {
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(notification(
                request,
                "subscriptions/acknowledged",
                json!({"notifications": requested_filter(request)}),
            ));
            script.push(notification(request, "vendor/news", json!({"n": 1.10})));
            script.push(ScriptStep::Pause(Duration::from_secs(30)));
            Some(script)
        }
        _ => stateless_response(request, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let filter = json!({"notifications": {"vendor/news": {"of": "all"}}});
    let mut client_stream = StatelessTestClient::new(&gw).start_request("subscriptions/listen", filter).await;
    let received = read_until(&mut client_stream, "notifications/vendor/news", 1).await;
    assert!(received.contains(r#""vendor/news":{"of":"all"}"#), "{received}");
}

/// A stateless server that acknowledges the whole filter and sends nothing else.
fn plain_server(request: &RecordedRequest) -> Option<ResponseScript> {
    match request.method().as_str() {
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(notification(
                request,
                "subscriptions/acknowledged",
                json!({"notifications": requested_filter(request)}),
            ));
            script.push(ScriptStep::Pause(Duration::from_secs(30)));
            Some(script)
        }
        _ => stateless_response(request, &json!([tool_definition("read")]), &capabilities()),
    }
}

#[tokio::test]
async fn a_denied_resource_is_not_acknowledged_and_is_recorded() {
    let stateless = FakeUpstream::start(json!([]), plain_server).await;
    let in_session = FakeUpstream::start(json!([tool_definition("read")]), |request: &RecordedRequest| match request.method().as_str() {
        "initialize" => result_response(
            request,
            &json!({"protocolVersion": "2025-11-25", "capabilities": capabilities(), "serverInfo": {"name": "s", "version": "1"}}),
        ),
        _ => None,
    })
    .await;
    for upstream in [stateless, in_session] {
        let gw = TestGateway::with_policy(NOTES, &upstream).await;
        for (client, prefix) in
            [(StatelessTestClient::new(&gw), ""), (StatelessTestClient::new(&gw).at_aggregate(), "x-desk+")]
        {
            let uris = ["note://desk/1", "secret://1", "note://desk/2"].map(|uri| format!("{prefix}{uri}"));
            let mut filter: Vec<&str> = uris.iter().map(String::as_str).collect();
            filter.push("x-absent+note://1");
            let honored = json!([uris[0], uris[2]]);
            let listen = json!({"notifications": {"resourceSubscriptions": filter}});
            let mut client_stream = client.start_request("subscriptions/listen", listen).await;
            let received = read_until(&mut client_stream, "acknowledged", 1).await;
            assert!(received.contains(&format!(r#""resourceSubscriptions":{honored}"#)), "{received}");
            let rows = gw.rows().await;
            let denied =
                rows.iter().filter(|row| row.record.target.as_deref().is_some_and(|target| target.contains("secret")));
            assert!(denied.clone().all(|row| row.record.code.as_deref() == Some("not_listed")), "{rows:?}");
            assert_eq!(denied.count(), if prefix.is_empty() { 1 } else { 2 }, "one row per request that named it");
        }
        let reached = upstream.requests().iter().any(|request| request.body.contains("secret"));
        assert!(!reached, "the denied resource does not reach the server");
    }
}

async fn refusals(gw: &TestGateway) -> usize {
    gw.rows().await.iter().filter(|row| row.record.kind == RecordKind::Refused).count()
}

#[tokio::test]
async fn each_denied_resource_is_recorded_and_too_many_resources_are_refused() {
    let upstream = FakeUpstream::start(json!([]), plain_server).await;
    let gw = TestGateway::with_policy(NOTES, &upstream).await;
    for (client, prefix) in
        [(StatelessTestClient::new(&gw), ""), (StatelessTestClient::new(&gw).at_aggregate(), "x-desk+")]
    {
        let secrets = |count: usize| {
            let uris: Vec<String> = (0..count).map(|number| format!("{prefix}secret://{number}")).collect();
            json!({"notifications": {"resourceSubscriptions": uris}})
        };
        let rows_before = refusals(&gw).await;
        let refused = client.request("subscriptions/listen", secrets(257)).await;
        assert_eq!(refused.code(), -32602, "{}", refused.body);
        let what = "`resourceSubscriptions` names more than 256 resources";
        assert_eq!(refused.message()["error"]["message"], what);
        assert_eq!(refusals(&gw).await, rows_before + 1, "the refused request has one row");
        let mut client_stream = client.start_request("subscriptions/listen", secrets(256)).await;
        read_until(&mut client_stream, "acknowledged", 1).await;
        assert_eq!(refusals(&gw).await, rows_before + 1 + 256, "each denied resource has a row");
    }
    assert_eq!(request_count(&upstream, "subscriptions/listen"), 2);
}

#[tokio::test]
async fn an_unknown_task_is_refused_with_one_row_among_many_unknown_resources() {
    let upstream = FakeUpstream::start(json!([]), plain_server).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let uris: Vec<String> = (0..100).map(|number| format!("x-absent+note://{number}")).collect();
    let filter = json!({"notifications": {"resourceSubscriptions": uris, "taskIds": ["absent__t1"]}});
    let refused = StatelessTestClient::new(&gw).at_aggregate().request("subscriptions/listen", filter).await;
    assert_eq!(refused.code(), -32602, "{}", refused.body);
    assert_eq!(gw.rows().await.len(), 1, "a refused request has one row");
}

#[tokio::test]
async fn a_stateless_call_receives_only_notifications_about_the_call() {
    let upstream = FakeUpstream::start(json!([]), |request: &RecordedRequest| match request.method().as_str() {
        "tools/call" => {
            let token = &request.message()["params"]["_meta"]["progressToken"];
            let mut script = stream_headers();
            script.extend([
                notification(request, "tools/list_changed", json!({})),
                notification(request, "resources/updated", json!({"uri": "note://desk/1"})),
                notification(request, "tasks", json!({"taskId": "t1", "status": "working"})),
                notification(request, "subscriptions/acknowledged", json!({"notifications": {}})),
                notification(request, "message", json!({"level": "info", "data": "noise"})),
                notification(request, "progress", json!({"progressToken": token, "progress": 1})),
                notification(request, "vendor/news", json!({})),
            ]);
            let done = json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
            script.push(ScriptStep::Write(chunk(&event(&result_message(request, &done)))));
            script.push(ScriptStep::Write(b"0\r\n\r\n".to_vec()));
            Some(script)
        }
        _ => stateless_response(request, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    for (client, name) in
        [(StatelessTestClient::new(&gw), "read"), (StatelessTestClient::new(&gw).at_aggregate(), "desk__read")]
    {
        for wants_log in [false, true] {
            let mut call = json!({"name": name, "arguments": {}, "_meta": {"progressToken": "p"}});
            if wants_log {
                call["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
            }
            let reply = client.request("tools/call", call).await;
            let received =
                reply.messages().into_iter().filter_map(|message| Some(message["method"].as_str()?.to_owned()));
            let mut filter = vec!["notifications/progress", "notifications/vendor/news"];
            if wants_log {
                filter.insert(0, "notifications/message");
            }
            assert_eq!(received.collect::<Vec<_>>(), filter, "{}", reply.body);
            assert!(reply.body.contains("done"), "{}", reply.body);
        }
    }
}

#[tokio::test]
async fn a_listen_ends_when_a_policy_change_allows_more_resources() {
    let upstream = FakeUpstream::start(json!([]), plain_server).await;
    let gw = TestGateway::with_policy(NOTES, &upstream).await;
    let filter =
        json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["note://desk/1", "secret://1"]}});
    let mut client_stream = StatelessTestClient::new(&gw).start_request("subscriptions/listen", filter).await;
    read_until(&mut client_stream, "acknowledged", 1).await;
    gw.put_policy("desk", ALLOW_ALL);
    let received = read_until(&mut client_stream, "0\r\n\r\n", 1).await;
    assert!(received.contains("tools/list_changed"), "the client gets `list_changed` and its stream ends: {received}");
    wait_until("the server has received one listen", || request_count(&upstream, "subscriptions/listen") == 1).await;
}

#[tokio::test]
async fn a_list_change_outside_the_filter_still_invalidates_the_cached_tools() {
    let changes = Arc::new(Notify::new());
    let wait_for_change = Arc::clone(&changes);
    let upstream = FakeUpstream::start(json!([]), move |request: &RecordedRequest| match request.method().as_str() {
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(notification(
                request,
                "subscriptions/acknowledged",
                json!({"notifications": {"promptsListChanged": true}}),
            ));
            script.push(ScriptStep::WaitFor(Arc::clone(&wait_for_change)));
            script.push(notification(request, "tools/list_changed", json!({"is": "unasked"})));
            script.push(notification(request, "prompts/list_changed", json!({})));
            script.push(ScriptStep::Pause(Duration::from_secs(30)));
            Some(script)
        }
        _ => stateless_response(request, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    for is_stateless in [false, true] {
        let mut client_stream = if is_stateless {
            let filter = json!({"notifications": {"promptsListChanged": true}});
            StatelessTestClient::new(&gw).start_request("subscriptions/listen", filter).await
        } else {
            start_in_session(&gw, "GET", "/mcp/desk", "", "").await
        };
        wait_until("the gateway listens", || {
            request_count(&upstream, "subscriptions/listen") == 1 + usize::from(is_stateless)
        })
        .await;
        gw.call("read", json!({})).await;
        let lists_before = request_count(&upstream, "tools/list");
        changes.notify_one();
        let received = read_until(&mut client_stream, "prompts/list_changed", 1).await;
        assert!(!received.contains("unasked"), "{received}");
        gw.call("read", json!({})).await;
        assert_eq!(
            request_count(&upstream, "tools/list"),
            lists_before + 1,
            "the tool list is requested again: {is_stateless}"
        );
    }
}

#[tokio::test]
async fn a_denied_resource_has_one_row_however_often_the_listen_is_reopened() {
    let upstream = FakeUpstream::start(json!([]), |request: &RecordedRequest| match request.method().as_str() {
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(notification(
                request,
                "subscriptions/acknowledged",
                json!({"notifications": requested_filter(request)}),
            ));
            script.push(ScriptStep::Close);
            Some(script)
        }
        _ => stateless_response(request, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(NOTES, &upstream).await;
    let filter = json!({"notifications": {"resourceSubscriptions": ["x-desk+note://desk/1", "x-desk+secret://1"]}});
    let _ear = StatelessTestClient::new(&gw).at_aggregate().start_request("subscriptions/listen", filter).await;
    wait_until("the listen is reopened", || request_count(&upstream, "subscriptions/listen") == 2).await;
    assert_eq!(refusals(&gw).await, 1);
    assert!(
        !upstream.requests().iter().any(|request| request.body.contains("secret")),
        "the denied resource does not reach the server"
    );
}
