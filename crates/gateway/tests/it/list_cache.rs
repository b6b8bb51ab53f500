//! Filtered lists are cached per policy, as long as the server sends the same bytes.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Mutex;

use gatelodge_testkit::{FakeUpstream, TestGateway, json_response};
use serde_json::{Value, json};

const ONLY_A: &str = r#"{"version":"1","default":"deny","tools":{"a":{}}}"#;
const ONLY_B: &str = r#"{"version":"1","default":"deny","tools":{"b":{}}}"#;

async fn start_gateway() -> (FakeUpstream, TestGateway) {
    let tools =
        json!([{"name": "a", "inputSchema": {"type": "object"}}, {"name": "b", "inputSchema": {"type": "object"}}]);
    let upstream = FakeUpstream::start(tools, |_| None).await;
    let gw = TestGateway::with_policy(ONLY_A, &upstream).await;
    (upstream, gw)
}

async fn list_tools(gw: &TestGateway, id: u32) -> Vec<String> {
    let reply = gw.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).await;
    let message: Value = reply.message();
    assert_eq!(message["id"], id);
    let tools = message["result"]["tools"].as_array().expect("a list");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn a_cached_list_carries_the_id_of_each_request() {
    let (_upstream, gw) = start_gateway().await;
    for id in 1..4 {
        assert_eq!(list_tools(&gw, id).await, ["a"]);
    }
}

#[tokio::test]
async fn a_changed_policy_changes_the_list_although_the_server_sends_the_same() {
    let (_upstream, gw) = start_gateway().await;
    assert_eq!(list_tools(&gw, 1).await, ["a"]);
    for (id, (policy, tool)) in (2..).zip([(ONLY_B, "b"), (ONLY_A, "a"), (ONLY_B, "b")]) {
        gw.put_policy("desk", policy);
        assert_eq!(list_tools(&gw, id).await, [tool]);
    }
}

#[tokio::test]
async fn a_grant_that_observes_does_not_get_the_cached_list_of_enforce_mode() {
    let (_upstream, gw) = start_gateway().await;
    assert_eq!(list_tools(&gw, 1).await, ["a"]);
    gw.change_grants(|grants| {
        let attachments = grants.iter_mut().flat_map(|grant| grant.servers.values_mut());
        attachments.for_each(|attachment| attachment.mode = gatelodge_store::EnforcementMode::Observe);
    });
    assert_eq!(list_tools(&gw, 2).await, ["a", "b"]);
}

/// Two tools, one with a description that is too large to be copied.
fn two_tools() -> String {
    let long = "x".repeat(40_000);
    format!(r#"[{{"name":"a","description":"{long}","inputSchema":{{}}}},{{"name":"b","inputSchema":{{}}}}]"#)
}

/// A server that responds to each `tools/list` with the next of `templates`, and to all further ones with the last. `ID`
/// stands for the request id, `FIRST` for the id of the first request.
async fn start_server(templates: Vec<String>) -> FakeUpstream {
    let ids = Mutex::new(Vec::new());
    FakeUpstream::start(json!([]), move |request| {
        (request.method() == "tools/list").then(|| {
            let mut ids = ids.lock().expect("the lock is not poisoned");
            ids.push(request.message()["id"].to_string());
            let template = &templates[(ids.len() - 1).min(templates.len() - 1)];
            json_response("200 OK", "", &template.replace("ID", &ids[ids.len() - 1]).replace("FIRST", &ids[0]))
        })
    })
    .await
}

async fn lists(gw: &TestGateway, ids: std::ops::Range<u32>) -> Vec<Value> {
    let mut lists = Vec::new();
    for id in ids {
        let reply = gw.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).await.message();
        assert_eq!(reply["id"], id, "{reply}");
        lists.push(reply);
    }
    lists
}

#[tokio::test]
async fn a_repeated_list_is_complete_whatever_the_position_of_its_id() {
    for template in [
        r#"{"jsonrpc":"2.0","id":ID,"result":{"tools":TOOLS,"_meta":{"n":1}},"more":[1]}"#,
        r#"{"result":{"tools":TOOLS,"_meta":{"n":1}},"more":[1],"id":ID,"jsonrpc":"2.0"}"#,
    ] {
        let upstream = start_server(vec![template.replace("TOOLS", &two_tools())]).await;
        let gw = TestGateway::with_policy(ONLY_A, &upstream).await;
        let lists = lists(&gw, 1..4).await;
        for list in &lists {
            assert_eq!((list["jsonrpc"].as_str(), &list["more"]), (Some("2.0"), &json!([1])));
            assert_eq!(list["result"], lists[0]["result"]);
        }
        let tools: Value = serde_json::from_str(&two_tools()).expect("JSON");
        assert_eq!(lists[2]["result"], json!({"tools": [tools[0]], "_meta": {"n": 1}}));
    }
}

#[tokio::test]
async fn a_list_that_differs_in_one_byte_is_filtered_again() {
    let template = |result: u8, envelope: u8| {
        let tools = two_tools();
        format!(
            r#"{{"jsonrpc":"2.0","id":ID,"result":{{"tools":{tools},"_meta":{{"n":{result}}}}},"more":{envelope}}}"#
        )
    };
    let upstream =
        start_server(vec![template(1, 1), template(1, 1), template(2, 1), template(2, 2), template(1, 1)]).await;
    let gw = TestGateway::with_policy(ONLY_A, &upstream).await;
    let lists = lists(&gw, 1..6).await;
    let members: Vec<(&Value, &Value)> =
        lists.iter().map(|list| (&list["result"]["_meta"]["n"], &list["more"])).collect();
    let numbers = [1, 2].map(Value::from);
    let [one, two] = &numbers;
    assert_eq!(members, [(one, one), (one, one), (two, one), (two, two), (one, one)]);
    assert!(lists.iter().all(|list| list["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 1)));
}

#[tokio::test]
async fn a_repeated_list_under_an_earlier_id_is_an_upstream_error() {
    let template = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":{}}}}}"#, two_tools());
    let upstream = start_server(vec![template("ID"), template("FIRST")]).await;
    let gw = TestGateway::with_policy(ONLY_A, &upstream).await;
    let lists = lists(&gw, 1..3).await;
    assert_eq!(lists[0]["result"]["tools"][0]["name"], "a");
    assert_eq!((&lists[1]["result"], lists[1]["error"]["code"].as_i64()), (&Value::Null, Some(-32603)), "{}", lists[1]);
}

#[tokio::test]
async fn a_repeated_list_is_filtered_for_secrets() {
    let template =
        r#"{"jsonrpc":"2.0","id":ID,"result":{"tools":TOOLS,"_meta":{"n":"s3cr3t-key"}},"more":"s3cr3t-key"}"#;
    let upstream = start_server(vec![template.replace("TOOLS", &two_tools())]).await;
    let builder = TestGateway::builder().policy(ONLY_A).secret_header("x-key", "s3cr3t-key", "s3cr3t-key");
    let gw = builder.start(&upstream).await;
    for list in lists(&gw, 1..4).await {
        assert_eq!((&list["result"]["_meta"]["n"], &list["more"]), (&json!("***"), &json!("***")));
    }
}

#[tokio::test]
async fn grants_with_different_policies_get_different_lists_of_one_server() {
    let (_upstream, gw) = start_gateway().await;
    let bearer = format!("Bearer {}", gw.add_grant("other", ONLY_B).reveal());
    // Publishing gives this policy another version number than the one of the second grant.
    gw.put_policy("desk", ONLY_A);
    assert_eq!(list_tools(&gw, 1).await, ["a"]);
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Accept", "*/*")];
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "other", "version": "1"}}});
    let opened = gw.send_raw("POST", "/mcp/desk", &headers, initialize.to_string().as_bytes()).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let headers: Vec<_> = headers.into_iter().chain([("Mcp-Session-Id", session.as_str())]).collect();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let reply = gw.send_raw("POST", "/mcp/desk", &headers, list.as_bytes()).await.message();
    assert_eq!(reply["result"]["tools"][0]["name"], "b", "{reply}");
    assert_eq!(list_tools(&gw, 3).await, ["a"]);
}
