//! What a tool can do, by the catalogue or by somebody's word, is what `categories` of a policy go by.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatelodge_gateway::PinningSettings;
use gatelodge_policy::Category;
use gatelodge_testkit::{FakeUpstream, RecordedRequest, TestGateway, TestResponse, json_response};
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"deny",
    "categories":{"read":{},"write":{"rate_limit":"2/minute"},"destructive":"hide","unknown":"deny"}}"#;
const ALWAYS: PinningSettings = PinningSettings { review: false, accept_new: false, check_definitions: Duration::ZERO };

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

fn notes() -> [Value; 3] {
    [
        tool("list_notes", "Lists all notes."),
        tool("create_note", "Creates a note."),
        tool("delete_note", "Deletes a note permanently."),
    ]
}

struct Desk {
    tools: Arc<Mutex<Value>>,
    upstream: FakeUpstream,
    gw: TestGateway,
}

async fn desk() -> Desk {
    let tools = Arc::new(Mutex::new(json!(notes())));
    let offered = Arc::clone(&tools);
    let lists = move |hit: &RecordedRequest| {
        let result = json!({"tools": *offered.lock().expect("a list")});
        let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
        (hit.method() == "tools/list").then(|| json_response("200 OK", "", &answer))
    };
    let upstream = FakeUpstream::start(json!([]), lists).await;
    let gw = TestGateway::builder().policy(POLICY).pinning(ALWAYS).start(&upstream).await;
    Desk { tools, upstream, gw }
}

impl Desk {
    async fn listed(&self) -> Vec<String> {
        let answer = self.gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        let tools = answer.message()["result"]["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    async fn call(&self, tool: &str) -> TestResponse {
        self.gw.call(tool, json!({})).await
    }
}

fn refusal(answer: &TestResponse) -> Value {
    answer.message()["result"]["_meta"]["gatelodge/refusal"].clone()
}

#[tokio::test]
async fn a_policy_by_categories_goes_by_what_each_tool_can_do_and_the_log_says_it() {
    let desk = desk().await;
    assert_eq!(desk.listed().await, ["list_notes", "create_note"]);
    assert_eq!(desk.call("list_notes").await.text(), "{}");
    for _ in 0..2 {
        assert_eq!(desk.call("create_note").await.text(), "{}");
    }
    assert_eq!(refusal(&desk.call("create_note").await)["rule"], "/categories/write/rate_limit");
    assert!(desk.call("delete_note").await.body.contains("not available"));
    assert!(desk.upstream.calls_to("delete_note").is_empty());
    let rows = desk.gw.rows().await;
    let category = |tool: &str| {
        let row = rows.iter().find(|row| row.record.target.as_deref() == Some(tool));
        row.expect("a row").record.category
    };
    assert_eq!(category("list_notes"), Some(Category::Read));
    assert_eq!(category("create_note"), Some(Category::Write));
    assert_eq!(category("delete_note"), Some(Category::Destructive));
}

#[tokio::test]
async fn a_tool_that_nobody_has_listed_yet_is_called_by_its_category() {
    let desk = desk().await;
    assert_eq!(desk.call("list_notes").await.text(), "{}");
    assert_eq!(desk.upstream.calls_to("list_notes").len(), 1);
}

#[tokio::test]
async fn what_somebody_says_counts_until_the_definition_changes_unless_it_is_said_of_every_one() {
    for even_if_changed in [false, true] {
        let desk = desk().await;
        assert_eq!(desk.listed().await.len(), 2);
        desk.gw.classify_tool("delete_note", Category::Read, even_if_changed).await;
        assert_eq!(desk.listed().await, ["list_notes", "create_note", "delete_note"]);
        assert_eq!(desk.call("delete_note").await.text(), "{}");
        let mut changed = notes();
        changed[2]["description"] = json!("Deletes a note, and all that look like it.");
        *desk.tools.lock().expect("a list") = json!(changed);
        assert_eq!(refusal(&desk.call("delete_note").await)["code"], "definition_changed", "it is withheld as ever");
        desk.gw.accept_all().await;
        assert_eq!(desk.listed().await.contains(&"delete_note".to_owned()), even_if_changed);
        assert_eq!(desk.call("delete_note").await.body.contains("not available"), !even_if_changed);
    }
}
