//! Lists that do not end, and names that are none of those that the protocol wants.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, tool_definition};
use serde_json::{Value, json};

use super::support::{ALLOW_ALL, CapturedLog, StatelessClient, count_requests, result_response};

/// A server whose list of tools is what `page` makes of a cursor: the tools, and the next one.
async fn server(page: impl Fn(&str) -> (Vec<Value>, String) + Send + Sync + 'static) -> FakeUpstream {
    FakeUpstream::start(json!([]), move |hit: &RecordedRequest| {
        let (tools, next) = page(hit.message()["params"]["cursor"].as_str().unwrap_or_default());
        let result = json!({"tools": tools, "nextCursor": next});
        (hit.method() == "tools/list").then(|| result_response(hit, &result)).flatten()
    })
    .await
}

async fn listed(gw: &TestGateway) -> Value {
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.message()
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools in {list}"));
    tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn a_list_ends_at_the_first_cursor_that_comes_again() {
    let upstream = server(|cursor| match cursor {
        "" => (vec![tool_definition("one")], "a".to_owned()),
        "a" => (vec![tool_definition("two")], "b".to_owned()),
        _ => (vec![tool_definition("three")], "a".to_owned()),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    assert_eq!(names(&listed(&gw).await), ["one", "two", "three"]);
    assert_eq!(count_requests(&upstream, "tools/list"), 3);
}

#[tokio::test]
async fn a_list_whose_next_page_has_nothing_new_is_given_up_at_once() {
    let upstream = server(|cursor| {
        let at: usize = cursor.parse().unwrap_or(0);
        (vec![tool_definition("one"), tool_definition("two")], (at + 1).to_string())
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let text = gw.call("one", json!({})).await.text();
    assert!(text.contains("is not available; the call was not sent"), "{text}");
    assert_eq!(count_requests(&upstream, "tools/list"), 2);
    let answer = listed(&gw).await;
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(said.starts_with("[UPSTREAM] the list does not end: a page contains nothing new"), "{answer}");
    assert_eq!(count_requests(&upstream, "tools/list"), 4);
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn a_list_that_brings_something_new_for_ever_is_given_up_after_so_many_pages() {
    let upstream = server(|cursor| {
        let at: usize = cursor.parse().unwrap_or(0);
        (vec![tool_definition(&format!("tool-{at}"))], (at + 1).to_string())
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let answer = listed(&gw).await;
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(said.starts_with("[UPSTREAM] the list has more than 200 pages"), "{answer}");
    assert_eq!(count_requests(&upstream, "tools/list"), 200);
    let text = gw.call("tool-1", json!({})).await.text();
    assert!(text.contains("is not available; the call was not sent"), "{text}");
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn no_call_waits_long_for_a_list_that_does_not_come() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        let hangs: ResponseScript = vec![ScriptStep::Pause(Duration::from_secs(60)), ScriptStep::Close];
        (hit.method() == "tools/list").then_some(hangs)
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let begun = Instant::now();
    let (one, other) = tokio::join!(gw.call("read", json!({})), gw.call("read", json!({})));
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
    for answer in [one, other] {
        let text = answer.text();
        assert!(text.contains("is not available; the call was not sent"), "{text}");
    }
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn a_name_that_the_protocol_would_not_choose_is_listed_and_called_everywhere_and_the_operator_is_told() {
    let (log, _noted) = CapturedLog::start();
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
    assert_eq!(names(&listed(&gw).await), all);
    let of_many = StatelessClient::new(&gw).at_aggregate().request("tools/list", json!({})).await.message();
    let mut at_all: Vec<String> = all.iter().map(|name| format!("desk__{name}")).collect();
    at_all.sort();
    assert_eq!(names(&of_many), at_all);
    assert_eq!(names(&StatelessClient::new(&gw).request("tools/list", json!({})).await.message()), all);
    for name in odd {
        assert_eq!(gw.call(name, json!({})).await.text(), "{}", "{name}");
        assert_eq!(StatelessClient::new(&gw).call(name, json!({})).await.text(), "{}", "{name}");
        assert_eq!(
            StatelessClient::new(&gw).at_aggregate().call(&format!("desk__{name}"), json!({})).await.text(),
            "{}",
            "{name}"
        );
    }
    let told = log.text();
    let why = "some clients reject its name: use 1 to 128 letters, digits, `_`, `-` and `.`";
    assert_eq!(told.matches(why).count(), 3, "each once: {told}");
    assert!(told.contains("the tool `bad name/é` of `desk`"), "{told}");
}
