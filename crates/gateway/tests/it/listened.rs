//! `subscriptions/listen`: what is honoured of what a client names, and that nothing else is told.
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

/// What the server is asked to tell of.
fn named(hit: &RecordedRequest) -> Value {
    hit.message()["params"]["notifications"].clone()
}

fn said(hit: &RecordedRequest, method: &str, mut params: Value) -> ScriptStep {
    params["_meta"] = json!({SUBSCRIPTION: hit.message()["id"]});
    ScriptStep::Write(chunk(&event(
        &json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params}),
    )))
}

/// A server without sessions that tells whoever listens of everything, and of what it was asked for last.
fn talkative(hit: &RecordedRequest, acknowledged: Value) -> ResponseScript {
    let update = |uri: &str| said(hit, "resources/updated", json!({"uri": uri}));
    let mut script = stream_headers();
    script.push(said(hit, "prompts/list_changed", json!({"is": "early"})));
    script.push(said(hit, "subscriptions/acknowledged", json!({"notifications": acknowledged})));
    script.extend([
        update("note://desk/2"),
        update("note://desk/11"),
        update("secret://1"),
        said(hit, "message", json!({"level": "info", "data": "noise"})),
        said(hit, "vendor/noise", json!({})),
        said(hit, "tools/list_changed", json!({"is": "late"})),
        said(hit, "tasks", json!({"taskId": "t9", "status": "working"})),
        said(hit, "subscriptions/acknowledged", json!({"notifications": {"toolsListChanged": true}})),
        update("note://desk/1/part"),
        update("note://desk/1"),
    ]);
    script.push(ScriptStep::Pause(Duration::from_secs(30)));
    script
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": {"subscribe": true}})
}

/// Whether of all that a talkative server says only what was asked for has come.
fn is_only_asked(heard: &str) {
    for noise in ["early", "late", "noise", "desk/2", "desk/11", "secret", "t9"] {
        assert!(!heard.contains(noise), "{noise} in {heard}");
    }
    assert_eq!(heard.matches("resources/updated").count(), 2, "{heard}");
    assert!(heard.contains("note://desk/1/part"), "what is in a resource is told with it: {heard}");
}

#[tokio::test]
async fn nobody_hears_of_what_was_not_asked_for_or_not_acknowledged() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        // Of the tools it says nothing; of a prompt and a log nobody asked.
        "subscriptions/listen" => Some(talkative(
            hit,
            json!({"promptsListChanged": true, "resourceSubscriptions": ["note://desk/1", "note://desk/2"], "vendor": 1}),
        )),
        _ => stateless_response(hit, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::builder().policy(NOTES).with_server("zoo", &upstream.url(), NOTES).start(&upstream).await;
    for (caller, before) in
        [(StatelessTestClient::new(&gw), ""), (StatelessTestClient::new(&gw).at_aggregate(), "x-zoo+")]
    {
        let uri = format!("{before}note://desk/1");
        let wanted = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": [uri]}});
        let mut ear = caller.start_request("subscriptions/listen", wanted).await;
        let heard = read_until(&mut ear, &format!(r#""uri":"{uri}""#), 1).await;
        let first = heard.find("acknowledged").expect("acknowledged");
        assert!(first < heard.find("resources/updated").expect("told"), "first of all: {heard}");
        assert!(!heard.contains("promptsListChanged") && !heard.contains("vendor"), "as far as it was asked: {heard}");
        let heard = if before.is_empty() { heard } else { heard.replace("toolsListChanged", "") };
        is_only_asked(&heard);
    }
}

#[tokio::test]
async fn nobody_with_a_session_hears_of_it_from_a_server_without_one() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "subscriptions/listen" => {
            let mut acknowledged = named(hit);
            acknowledged["toolsListChanged"] = json!(false);
            acknowledged["promptsListChanged"] = json!(false);
            Some(talkative(hit, acknowledged))
        }
        _ => stateless_response(hit, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(NOTES, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "note://desk/1"}});
    assert_eq!(gw.send(&subscribe).await.message()["result"], json!({}));
    let mut ear = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    is_only_asked(&read_until(&mut ear, r#""uri":"note://desk/1""#, 1).await);
}

#[tokio::test]
async fn who_asks_by_names_of_an_extension_hears_what_it_tells() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(said(hit, "subscriptions/acknowledged", json!({"notifications": named(hit)})));
            script.push(said(hit, "vendor/news", json!({"n": 1.10})));
            script.push(ScriptStep::Pause(Duration::from_secs(30)));
            Some(script)
        }
        _ => stateless_response(hit, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let wanted = json!({"notifications": {"vendor/news": {"of": "all"}}});
    let mut ear = StatelessTestClient::new(&gw).start_request("subscriptions/listen", wanted).await;
    let heard = read_until(&mut ear, "notifications/vendor/news", 1).await;
    assert!(heard.contains(r#""vendor/news":{"of":"all"}"#), "{heard}");
}

/// A server that tells of what it is asked for.
fn plain(hit: &RecordedRequest) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(said(hit, "subscriptions/acknowledged", json!({"notifications": named(hit)})));
            script.push(ScriptStep::Pause(Duration::from_secs(30)));
            Some(script)
        }
        _ => stateless_response(hit, &json!([tool_definition("read")]), &capabilities()),
    }
}

#[tokio::test]
async fn a_denied_resource_is_left_out_of_what_is_acknowledged_and_written_down() {
    let modern = FakeUpstream::start(json!([]), plain).await;
    let in_session = FakeUpstream::start(json!([tool_definition("read")]), |hit: &RecordedRequest| match hit.method().as_str() {
        "initialize" => result_response(
            hit,
            &json!({"protocolVersion": "2025-11-25", "capabilities": capabilities(), "serverInfo": {"name": "s", "version": "1"}}),
        ),
        _ => None,
    })
    .await;
    for upstream in [modern, in_session] {
        let gw = TestGateway::with_policy(NOTES, &upstream).await;
        for (caller, before) in
            [(StatelessTestClient::new(&gw), ""), (StatelessTestClient::new(&gw).at_aggregate(), "x-desk+")]
        {
            let uris = ["note://desk/1", "secret://1", "note://desk/2"].map(|uri| format!("{before}{uri}"));
            let mut wanted: Vec<&str> = uris.iter().map(String::as_str).collect();
            wanted.push("x-nobody+note://1");
            let honoured = json!([uris[0], uris[2]]);
            let listen = json!({"notifications": {"resourceSubscriptions": wanted}});
            let mut ear = caller.start_request("subscriptions/listen", listen).await;
            let heard = read_until(&mut ear, "acknowledged", 1).await;
            assert!(heard.contains(&format!(r#""resourceSubscriptions":{honoured}"#)), "{heard}");
            let rows = gw.rows().await;
            let denied =
                rows.iter().filter(|row| row.record.target.as_deref().is_some_and(|own| own.contains("secret")));
            assert!(denied.clone().all(|row| row.record.code.as_deref() == Some("not_listed")), "{rows:?}");
            assert_eq!(denied.count(), if before.is_empty() { 1 } else { 2 }, "once for each time that it was named");
        }
        let reached = upstream.requests().iter().any(|hit| hit.body.contains("secret"));
        assert!(!reached, "the server does not learn of it");
    }
}

async fn refusals(gw: &TestGateway) -> usize {
    gw.rows().await.iter().filter(|row| row.record.kind == RecordKind::Refused).count()
}

#[tokio::test]
async fn each_denied_resource_is_written_and_too_many_are_refused() {
    let upstream = FakeUpstream::start(json!([]), plain).await;
    let gw = TestGateway::with_policy(NOTES, &upstream).await;
    for (caller, before) in
        [(StatelessTestClient::new(&gw), ""), (StatelessTestClient::new(&gw).at_aggregate(), "x-desk+")]
    {
        let secrets = |count: usize| {
            let uris: Vec<String> = (0..count).map(|number| format!("{before}secret://{number}")).collect();
            json!({"notifications": {"resourceSubscriptions": uris}})
        };
        let written = refusals(&gw).await;
        let refused = caller.request("subscriptions/listen", secrets(257)).await;
        assert_eq!(refused.code(), -32602, "{}", refused.body);
        let what = "`resourceSubscriptions` names more than 256 resources";
        assert_eq!(refused.message()["error"]["message"], what);
        assert_eq!(refusals(&gw).await, written + 1, "one row says so");
        let mut ear = caller.start_request("subscriptions/listen", secrets(256)).await;
        read_until(&mut ear, "acknowledged", 1).await;
        assert_eq!(refusals(&gw).await, written + 1 + 256, "each that is denied has its row");
    }
    assert_eq!(request_count(&upstream, "subscriptions/listen"), 2);
}

#[tokio::test]
async fn a_task_of_nobody_is_found_among_many_resources_of_nobody() {
    let upstream = FakeUpstream::start(json!([]), plain).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let uris: Vec<String> = (0..100).map(|number| format!("x-nobody+note://{number}")).collect();
    let wanted = json!({"notifications": {"resourceSubscriptions": uris, "taskIds": ["nobody__t1"]}});
    let refused = StatelessTestClient::new(&gw).at_aggregate().request("subscriptions/listen", wanted).await;
    assert_eq!(refused.code(), -32602, "{}", refused.body);
    assert_eq!(gw.rows().await.len(), 1, "of a request that is refused one row is written");
}

#[tokio::test]
async fn who_calls_without_a_session_hears_on_it_of_the_call_alone() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" => {
            let token = &hit.message()["params"]["_meta"]["progressToken"];
            let mut script = stream_headers();
            script.extend([
                said(hit, "tools/list_changed", json!({})),
                said(hit, "resources/updated", json!({"uri": "note://desk/1"})),
                said(hit, "tasks", json!({"taskId": "t1", "status": "working"})),
                said(hit, "subscriptions/acknowledged", json!({"notifications": {}})),
                said(hit, "message", json!({"level": "info", "data": "noise"})),
                said(hit, "progress", json!({"progressToken": token, "progress": 1})),
                said(hit, "vendor/news", json!({})),
            ]);
            let done = json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
            script.push(ScriptStep::Write(chunk(&event(&result_message(hit, &done)))));
            script.push(ScriptStep::Write(b"0\r\n\r\n".to_vec()));
            Some(script)
        }
        _ => stateless_response(hit, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    for (caller, name) in
        [(StatelessTestClient::new(&gw), "read"), (StatelessTestClient::new(&gw).at_aggregate(), "desk__read")]
    {
        for wants_log in [false, true] {
            let mut call = json!({"name": name, "arguments": {}, "_meta": {"progressToken": "p"}});
            if wants_log {
                call["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
            }
            let answer = caller.request("tools/call", call).await;
            let heard = answer.messages().into_iter().filter_map(|own| Some(own["method"].as_str()?.to_owned()));
            let mut wanted = vec!["notifications/progress", "notifications/vendor/news"];
            if wants_log {
                wanted.insert(0, "notifications/message");
            }
            assert_eq!(heard.collect::<Vec<_>>(), wanted, "{}", answer.body);
            assert!(answer.body.contains("done"), "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn who_may_hear_of_more_by_now_listens_anew() {
    let upstream = FakeUpstream::start(json!([]), plain).await;
    let gw = TestGateway::with_policy(NOTES, &upstream).await;
    let wanted =
        json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["note://desk/1", "secret://1"]}});
    let mut ear = StatelessTestClient::new(&gw).start_request("subscriptions/listen", wanted).await;
    read_until(&mut ear, "acknowledged", 1).await;
    gw.put_policy("desk", ALLOW_ALL);
    let heard = read_until(&mut ear, "0\r\n\r\n", 1).await;
    assert!(heard.contains("tools/list_changed"), "it is told, and its stream ends: {heard}");
    wait_until("the server was listened to once", || request_count(&upstream, "subscriptions/listen") == 1).await;
}

#[tokio::test]
async fn a_change_that_nobody_was_promised_to_hear_of_is_noted_all_the_same() {
    let changes = Arc::new(Notify::new());
    let own = Arc::clone(&changes);
    let upstream = FakeUpstream::start(json!([]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(said(
                hit,
                "subscriptions/acknowledged",
                json!({"notifications": {"promptsListChanged": true}}),
            ));
            script.push(ScriptStep::WaitFor(Arc::clone(&own)));
            script.push(said(hit, "tools/list_changed", json!({"is": "unasked"})));
            script.push(said(hit, "prompts/list_changed", json!({})));
            script.push(ScriptStep::Pause(Duration::from_secs(30)));
            Some(script)
        }
        _ => stateless_response(hit, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    for is_alone in [false, true] {
        let mut ear = if is_alone {
            let wanted = json!({"notifications": {"promptsListChanged": true}});
            StatelessTestClient::new(&gw).start_request("subscriptions/listen", wanted).await
        } else {
            start_in_session(&gw, "GET", "/mcp/desk", "", "").await
        };
        wait_until("it is listened to", || {
            request_count(&upstream, "subscriptions/listen") == 1 + usize::from(is_alone)
        })
        .await;
        gw.call("read", json!({})).await;
        let before = request_count(&upstream, "tools/list");
        changes.notify_one();
        let heard = read_until(&mut ear, "prompts/list_changed", 1).await;
        assert!(!heard.contains("unasked"), "{heard}");
        gw.call("read", json!({})).await;
        assert_eq!(request_count(&upstream, "tools/list"), before + 1, "it is asked anew what there is: {is_alone}");
    }
}

#[tokio::test]
async fn of_what_is_denied_at_all_servers_one_row_is_written_however_often_one_is_listened_to() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "subscriptions/listen" => {
            let mut script = stream_headers();
            script.push(said(hit, "subscriptions/acknowledged", json!({"notifications": named(hit)})));
            script.push(ScriptStep::Close);
            Some(script)
        }
        _ => stateless_response(hit, &json!([tool_definition("read")]), &capabilities()),
    })
    .await;
    let gw = TestGateway::with_policy(NOTES, &upstream).await;
    let wanted = json!({"notifications": {"resourceSubscriptions": ["x-desk+note://desk/1", "x-desk+secret://1"]}});
    let _ear = StatelessTestClient::new(&gw).at_aggregate().start_request("subscriptions/listen", wanted).await;
    wait_until("it is listened to again", || request_count(&upstream, "subscriptions/listen") == 2).await;
    assert_eq!(refusals(&gw).await, 1);
    assert!(!upstream.requests().iter().any(|hit| hit.body.contains("secret")), "the server does not learn of it");
}
