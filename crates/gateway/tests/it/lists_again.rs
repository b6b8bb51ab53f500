//! A server that says the same again: its list is not made anew, and nobody is given the one of others.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Mutex;

use gatelodge_testkit::{FakeUpstream, TestGateway, json_response};
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
        let doors = grants.iter_mut().flat_map(|grant| grant.servers.values_mut());
        doors.for_each(|door| door.mode = gatelodge_store::EnforcementMode::Observe);
    });
    assert_eq!(listed(&gw, 2).await, ["a", "b"]);
}

/// Two tools, and a text that is too long to be copied.
fn two_tools() -> String {
    let long = "x".repeat(40_000);
    format!(r#"[{{"name":"a","description":"{long}","inputSchema":{{}}}},{{"name":"b","inputSchema":{{}}}}]"#)
}

/// A server that answers each list in the next of these words, and in the last for ever. `ID` is the request's id in them,
/// `FIRST` that of the first list.
async fn saying(words: Vec<String>) -> FakeUpstream {
    let asked = Mutex::new(Vec::new());
    FakeUpstream::start(json!([]), move |hit| {
        (hit.method() == "tools/list").then(|| {
            let mut asked = asked.lock().expect("nobody panics with it");
            asked.push(hit.message()["id"].to_string());
            let words = &words[(asked.len() - 1).min(words.len() - 1)];
            json_response("200 OK", "", &words.replace("ID", &asked[asked.len() - 1]).replace("FIRST", &asked[0]))
        })
    })
    .await
}

async fn lists(gw: &TestGateway, ids: std::ops::Range<u32>) -> Vec<Value> {
    let mut lists = Vec::new();
    for id in ids {
        let answer = gw.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).await.message();
        assert_eq!(answer["id"], id, "{answer}");
        lists.push(answer);
    }
    lists
}

#[tokio::test]
async fn a_list_that_is_said_again_goes_out_whole_wherever_its_id_stands() {
    for words in [
        r#"{"jsonrpc":"2.0","id":ID,"result":{"tools":TOOLS,"_meta":{"n":1}},"more":[1]}"#,
        r#"{"result":{"tools":TOOLS,"_meta":{"n":1}},"more":[1],"id":ID,"jsonrpc":"2.0"}"#,
    ] {
        let upstream = saying(vec![words.replace("TOOLS", &two_tools())]).await;
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
async fn a_list_that_differs_in_one_byte_is_made_anew() {
    let words = |result: u8, envelope: u8| {
        let tools = two_tools();
        format!(
            r#"{{"jsonrpc":"2.0","id":ID,"result":{{"tools":{tools},"_meta":{{"n":{result}}}}},"more":{envelope}}}"#
        )
    };
    let upstream = saying(vec![words(1, 1), words(1, 1), words(2, 1), words(2, 2), words(1, 1)]).await;
    let gw = TestGateway::with_policy(ONLY_A, &upstream).await;
    let lists = lists(&gw, 1..6).await;
    let said: Vec<(&Value, &Value)> = lists.iter().map(|list| (&list["result"]["_meta"]["n"], &list["more"])).collect();
    let numbers = [1, 2].map(Value::from);
    let [one, two] = &numbers;
    assert_eq!(said, [(one, one), (one, one), (two, one), (two, two), (one, one)]);
    assert!(lists.iter().all(|list| list["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 1)));
}

#[tokio::test]
async fn a_list_that_is_said_again_under_another_id_is_no_answer() {
    let words = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":{}}}}}"#, two_tools());
    let upstream = saying(vec![words("ID"), words("FIRST")]).await;
    let gw = TestGateway::with_policy(ONLY_A, &upstream).await;
    let lists = lists(&gw, 1..3).await;
    assert_eq!(lists[0]["result"]["tools"][0]["name"], "a");
    assert_eq!((&lists[1]["result"], lists[1]["error"]["code"].as_i64()), (&Value::Null, Some(-32603)), "{}", lists[1]);
}

#[tokio::test]
async fn a_list_that_is_said_again_keeps_no_secret() {
    let words = r#"{"jsonrpc":"2.0","id":ID,"result":{"tools":TOOLS,"_meta":{"n":"s3cr3t-key"}},"more":"s3cr3t-key"}"#;
    let upstream = saying(vec![words.replace("TOOLS", &two_tools())]).await;
    let builder = TestGateway::builder().policy(ONLY_A).secret_header("x-key", "s3cr3t-key", "s3cr3t-key");
    let gw = builder.start(&upstream).await;
    for list in lists(&gw, 1..4).await {
        assert_eq!((&list["result"]["_meta"]["n"], &list["more"]), (&json!("***"), &json!("***")));
    }
}

#[tokio::test]
async fn grants_with_different_policies_get_different_lists_of_one_server() {
    let (_upstream, gw) = started().await;
    let bearer = format!("Bearer {}", gw.add_grant("other", ONLY_B).reveal());
    // The next version, so that the two policies are not taken for one.
    gw.put_policy("desk", ONLY_A);
    assert_eq!(listed(&gw, 1).await, ["a"]);
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Accept", "*/*")];
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "other", "version": "1"}}});
    let opened = gw.send_raw("POST", "/mcp/desk", &headers, hello.to_string().as_bytes()).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let headers: Vec<_> = headers.into_iter().chain([("Mcp-Session-Id", session.as_str())]).collect();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let answer = gw.send_raw("POST", "/mcp/desk", &headers, list.as_bytes()).await.message();
    assert_eq!(answer["result"]["tools"][0]["name"], "b", "{answer}");
    assert_eq!(listed(&gw, 3).await, ["a"]);
}
