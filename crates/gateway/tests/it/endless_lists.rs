//! Tool lists that do not end, and tool names that the specification does not recommend.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, tool_definition};
use serde_json::{Value, json};

use super::support::{ALLOW_ALL, CapturedLog, StatelessTestClient, request_count, result_response};

/// Starts a server whose `tools/list` is `page`: it maps a cursor to the tools and the next cursor.
async fn start_server(page: impl Fn(&str) -> (Vec<Value>, String) + Send + Sync + 'static) -> FakeUpstream {
    FakeUpstream::start(json!([]), move |hit: &RecordedRequest| {
        let (tools, next) = page(hit.message()["params"]["cursor"].as_str().unwrap_or_default());
        let result = json!({"tools": tools, "nextCursor": next});
        (hit.method() == "tools/list").then(|| result_response(hit, &result)).flatten()
    })
    .await
}

async fn list_tools(gw: &TestGateway) -> Value {
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.message()
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools in {list}"));
    tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn a_list_ends_at_the_first_repeated_cursor() {
    let upstream = start_server(|cursor| match cursor {
        "" => (vec![tool_definition("one")], "a".to_owned()),
        "a" => (vec![tool_definition("two")], "b".to_owned()),
        _ => (vec![tool_definition("three")], "a".to_owned()),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    assert_eq!(names(&list_tools(&gw).await), ["one", "two", "three"]);
    assert_eq!(request_count(&upstream, "tools/list"), 3);
}

#[tokio::test]
async fn a_list_with_a_page_of_known_tools_is_abandoned_at_once() {
    let upstream = start_server(|cursor| {
        let at: usize = cursor.parse().unwrap_or(0);
        (vec![tool_definition("one"), tool_definition("two")], (at + 1).to_string())
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let text = gw.call("one", json!({})).await.text();
    assert!(text.contains("is not available; the call was not sent"), "{text}");
    assert_eq!(request_count(&upstream, "tools/list"), 2);
    let response = list_tools(&gw).await;
    let message = response["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("[UPSTREAM] the list does not end: a page contains nothing new"), "{response}");
    assert_eq!(request_count(&upstream, "tools/list"), 4);
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn a_list_of_endless_new_tools_is_abandoned_after_200_pages() {
    let upstream = start_server(|cursor| {
        let at: usize = cursor.parse().unwrap_or(0);
        (vec![tool_definition(&format!("tool-{at}"))], (at + 1).to_string())
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let response = list_tools(&gw).await;
    let message = response["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("[UPSTREAM] the list has more than 200 pages"), "{response}");
    assert_eq!(request_count(&upstream, "tools/list"), 200);
    let text = gw.call("tool-1", json!({})).await.text();
    assert!(text.contains("is not available; the call was not sent"), "{text}");
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn a_call_does_not_wait_long_for_a_list_that_hangs() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        let hang: ResponseScript = vec![ScriptStep::Pause(Duration::from_secs(60)), ScriptStep::Close];
        (hit.method() == "tools/list").then_some(hang)
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let started = Instant::now();
    let (first, second) = tokio::join!(gw.call("read", json!({})), gw.call("read", json!({})));
    assert!(started.elapsed() < Duration::from_secs(7), "{:?}", started.elapsed());
    for response in [first, second] {
        let text = response.text();
        assert!(text.contains("is not available; the call was not sent"), "{text}");
    }
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn an_unusual_tool_name_is_listed_and_callable_everywhere_and_is_logged() {
    let (log, _guard) = CapturedLog::start();
    let odd = ["bad name/é", "a,b"];
    let long = "x".repeat(129);
    let tools: Vec<Value> = odd
        .iter()
        .map(|name| tool_definition(name))
        .chain([tool_definition(&long), tool_definition("plain")])
        .collect();
    let upstream = FakeUpstream::start(json!(tools), |_| None).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let mut all: Vec<&str> = odd.to_vec();
    all.extend([long.as_str(), "plain"]);
    assert_eq!(names(&list_tools(&gw).await), all);
    let aggregate = StatelessTestClient::new(&gw).at_aggregate().request("tools/list", json!({})).await.message();
    let mut prefixed: Vec<String> = all.iter().map(|name| format!("desk__{name}")).collect();
    prefixed.sort();
    assert_eq!(names(&aggregate), prefixed);
    assert_eq!(names(&StatelessTestClient::new(&gw).request("tools/list", json!({})).await.message()), all);
    for name in odd {
        assert_eq!(gw.call(name, json!({})).await.text(), "{}", "{name}");
        assert_eq!(StatelessTestClient::new(&gw).call(name, json!({})).await.text(), "{}", "{name}");
        assert_eq!(
            StatelessTestClient::new(&gw).at_aggregate().call(&format!("desk__{name}"), json!({})).await.text(),
            "{}",
            "{name}"
        );
    }
    let log = log.text();
    let warning = "some clients reject its name: use 1 to 128 letters, digits, `_`, `-` and `.`";
    assert_eq!(log.matches(warning).count(), 3, "once for each: {log}");
    assert!(log.contains("the tool `bad name/é` of `desk`"), "{log}");
}
