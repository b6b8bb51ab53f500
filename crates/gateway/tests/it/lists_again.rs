//! A server that says the same again: its list is not made anew, and nobody is given the one of others.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_testkit::{FakeUpstream, TestGateway};
use serde_json::{Value, json};

const ONLY_A: &str = r#"{"version":"1","default":"deny","tools":{"a":{}}}"#;
const ONLY_B: &str = r#"{"version":"1","default":"deny","tools":{"b":{}}}"#;

async fn started() -> (FakeUpstream, TestGateway) {
    let tools =
        json!([{"name": "a", "inputSchema": {"type": "object"}}, {"name": "b", "inputSchema": {"type": "object"}}]);
    let upstream = FakeUpstream::start(tools, |_| None).await;
    let gw = TestGateway::with_policy(ONLY_A, &upstream).await;
    (upstream, gw)
}

async fn listed(gw: &TestGateway, id: u32) -> Vec<String> {
    let answer = gw.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).await;
    let message: Value = answer.message();
    assert_eq!(message["id"], id);
    let tools = message["result"]["tools"].as_array().expect("a list");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn a_list_is_given_again_under_the_id_of_each_request() {
    let (_upstream, gw) = started().await;
    for id in 1..4 {
        assert_eq!(listed(&gw, id).await, ["a"]);
    }
}

#[tokio::test]
async fn another_policy_gives_another_list_though_the_server_says_the_same() {
    let (_upstream, gw) = started().await;
    assert_eq!(listed(&gw, 1).await, ["a"]);
    for (id, (policy, tool)) in (2..).zip([(ONLY_B, "b"), (ONLY_A, "a"), (ONLY_B, "b")]) {
        gw.put_policy("desk", policy);
        assert_eq!(listed(&gw, id).await, [tool]);
    }
}

#[tokio::test]
async fn who_only_observes_is_not_given_the_list_of_those_who_are_refused() {
    let (_upstream, gw) = started().await;
    assert_eq!(listed(&gw, 1).await, ["a"]);
    gw.change_grants(|grants| {
        let doors = grants.iter_mut().flat_map(|grant| grant.doors.values_mut());
        doors.for_each(|door| door.mode = gatelodge_store::Mode::Observe);
    });
    assert_eq!(listed(&gw, 2).await, ["a", "b"]);
}
