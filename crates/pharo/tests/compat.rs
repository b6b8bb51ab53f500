//! Examples of results in the format of the interop project's own MCP server. `checks/pharo_cases.py` compares both in
//! full.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::Duration;

use common::{FakeImage, StdioClient, Step, call, eval, page, raw, settings};
use gatelodge_pharo::PharoSettings;
use serde_json::{Value, json};

fn compat() -> PharoSettings {
    PharoSettings { compat: true, ..settings() }
}

fn client(image: &FakeImage, settings: PharoSettings) -> StdioClient {
    StdioClient::to(common::server(image.port(), settings))
}

/// Asserts that a result is an ordinary one with this object as text and as structured content.
#[track_caller]
fn assert_gives(answer: &Value, object: Value) {
    let result = &answer["result"];
    assert_eq!(result["isError"], false, "{answer}");
    assert_eq!(result["structuredContent"], object);
    let text: Value = serde_json::from_str(common::text(answer)).expect("JSON in the text");
    assert_eq!(text, object);
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn success_is_the_images_object_as_text_and_structured_content() {
    let image = FakeImage::answering(r#"{"success": true, "result": [1.50, "a"], "more": null}"#).await;
    let answer = client(&image, compat()).ask(&eval(1)).await;
    assert_gives(&answer, json!({"success": true, "result": [1.5, "a"], "more": null}));
    assert_eq!(common::text(&answer), r#"{"success":true,"result":[1.5,"a"],"more":null}"#);
}

#[tokio::test]
async fn failure_in_the_image_is_not_an_error_result() {
    let error = json!({"description": "ZeroDivide", "stack_trace": "a\rb", "receiver": {"self": "1"}});
    let image = FakeImage::answering(&json!({"success": false, "error": error}).to_string()).await;
    let answer = client(&image, compat()).ask(&eval(1)).await;
    assert_gives(&answer, json!({"success": false, "error": error}));
}

#[tokio::test]
async fn connection_failure_is_not_an_error_result() {
    let says = |error: &str| json!({"success": false, "error": error});
    for (script, error) in [
        (vec![], "Connection error: Server disconnected without sending a response."),
        (page("404 Not Found", "text/plain", "Not Found"), "HTTP error 404: Not Found"),
        (page("200 OK", "application/json", ""), "Invalid JSON response: Expecting value: line 1 column 1 (char 0)"),
        (
            raw("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"),
            "Connection error: peer closed connection without sending complete message body (received 1 bytes, expected 10)",
        ),
    ] {
        let image = FakeImage::doing(script).await;
        assert_gives(&client(&image, compat()).ask(&eval(1)).await, says(error));
    }
    let image = FakeImage::doing(vec![Step::Stall]).await;
    // There is one time limit for all tools.
    let short = PharoSettings { timeout: Duration::from_millis(300), ..compat() };
    let answer = client(&image, short).ask(&call(1, "run_class_test", json!({"class_name": "A"}))).await;
    assert_gives(&answer, says("Connection error: timed out"));
}

#[tokio::test]
async fn response_that_is_not_an_object_is_an_error_result() {
    for body in ["[1]", "7", "null"] {
        let image = FakeImage::answering(body).await;
        let answer = client(&image, compat()).ask(&eval(1)).await;
        assert!(common::error_text(&answer).starts_with("Error calling tool 'eval': "), "{answer}");
    }
}

#[tokio::test]
async fn unknown_tool_is_a_result_and_invalid_arguments_are_not_sent() {
    let image = FakeImage::answering("{}").await;
    let mut client = client(&image, compat());
    assert_eq!(common::error_text(&client.ask(&call(1, "eval_code", json!({}))).await), "Unknown tool: eval_code");
    common::error_text(&client.ask(&call(2, "eval", json!({"code": 5}))).await);
    common::error_text(&client.ask(&call(3, "eval", json!({"code": "1", "x": 1}))).await);
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn booleans_may_be_words_only_in_compat_mode() {
    let arguments = json!({"class_name": "A", "method_name": "b", "is_class_method": "yes"});
    let image = FakeImage::answering(r#"{"success":true,"result":""}"#).await;
    client(&image, compat()).ask(&call(1, "get_method_source", arguments.clone())).await;
    client(&image, settings()).ask(&call(1, "get_method_source", arguments)).await;
    assert_eq!(image.lines(), ["GET /get-method-source?class_name=A&method_name=b&is_class_method=true HTTP/1.1"]);
}
