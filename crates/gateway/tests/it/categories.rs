//! The `categories` of a policy apply to the category of a tool, which the catalogue or an operator's override sets.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatelodge_gateway::PinningSettings;
use gatelodge_policy::Category;
use gatelodge_testkit::{FakeUpstream, RecordedRequest, TestGateway, TestResponse, json_response};
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"deny",
    "categories":{"read":{},"write":{"rate_limit":"2/minute"},"destructive":"hide","unknown":"deny"}}"#;
const CHECK_ALWAYS: PinningSettings =
    PinningSettings { review: false, accept_new: false, check_definitions: Duration::ZERO };

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

struct Fixture {
    tools: Arc<Mutex<Value>>,
    upstream: FakeUpstream,
    gw: TestGateway,
}

async fn start() -> Fixture {
    let tools = Arc::new(Mutex::new(json!(notes())));
    let listed = Arc::clone(&tools);
    let list_tools = move |hit: &RecordedRequest| {
        let result = json!({"tools": *listed.lock().expect("a list")});
        let response = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
        (hit.method() == "tools/list").then(|| json_response("200 OK", "", &response))
    };
    let upstream = FakeUpstream::start(json!([]), list_tools).await;
    let gw = TestGateway::builder().policy(POLICY).pinning(CHECK_ALWAYS).start(&upstream).await;
    Fixture { tools, upstream, gw }
}

impl Fixture {
    async fn list_tools(&self) -> Vec<String> {
        let response = self.gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        let tools = response.message()["result"]["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    async fn call(&self, tool: &str) -> TestResponse {
        self.gw.call(tool, json!({})).await
    }
}

fn refusal(response: &TestResponse) -> Value {
    response.message()["result"]["_meta"]["gatelodge/refusal"].clone()
}

#[tokio::test]
async fn rules_of_a_category_apply_to_its_tools_and_rows_name_the_category() {
    let fixture = start().await;
    assert_eq!(fixture.list_tools().await, ["list_notes", "create_note"]);
    assert_eq!(fixture.call("list_notes").await.text(), "{}");
    for _ in 0..2 {
        assert_eq!(fixture.call("create_note").await.text(), "{}");
    }
    assert_eq!(refusal(&fixture.call("create_note").await)["rule"], "/categories/write/rate_limit");
    assert!(fixture.call("delete_note").await.body.contains("not available"));
    assert!(fixture.upstream.calls_to("delete_note").is_empty());
    let rows = fixture.gw.rows().await;
    let category = |tool: &str| {
        let row = rows.iter().find(|row| row.record.target.as_deref() == Some(tool));
        row.expect("a row").record.category
    };
    assert_eq!(category("list_notes"), Some(Category::Read));
    assert_eq!(category("create_note"), Some(Category::Write));
    assert_eq!(category("delete_note"), Some(Category::Destructive));
}

#[tokio::test]
async fn a_tool_can_be_called_by_its_category_before_any_client_lists_tools() {
    let fixture = start().await;
    assert_eq!(fixture.call("list_notes").await.text(), "{}");
    assert_eq!(fixture.upstream.calls_to("list_notes").len(), 1);
}

#[tokio::test]
async fn a_category_override_holds_until_the_definition_changes_unless_it_covers_changes() {
    for even_if_changed in [false, true] {
        let fixture = start().await;
        assert_eq!(fixture.list_tools().await.len(), 2);
        fixture.gw.classify_tool("delete_note", Category::Read, even_if_changed).await;
        assert_eq!(fixture.list_tools().await, ["list_notes", "create_note", "delete_note"]);
        assert_eq!(fixture.call("delete_note").await.text(), "{}");
        let mut changed = notes();
        changed[2]["description"] = json!("Deletes a note, and all similar ones.");
        *fixture.tools.lock().expect("a list") = json!(changed);
        assert_eq!(
            refusal(&fixture.call("delete_note").await)["code"],
            "definition_changed",
            "a changed definition is refused as usual"
        );
        fixture.gw.accept_all().await;
        assert_eq!(fixture.list_tools().await.contains(&"delete_note".to_owned()), even_if_changed);
        assert_eq!(fixture.call("delete_note").await.body.contains("not available"), !even_if_changed);
    }
}
