//! Results in the shape of the interop server's own MCP server: a few, as they look. What it does in full is compared
//! elsewhere, side by side.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::Duration;

use common::{FakeImage, Lines, Step, call, eval, page, raw, settings};
use gatelodge_pharo::Settings;
use serde_json::{Value, json};

fn compat() -> Settings {
    Settings { is_compat: true, ..settings() }
}

fn client(image: &FakeImage, settings: Settings) -> Lines {
    Lines::to(common::server(image.port(), settings))
}

/// Looks that a result is an ordinary one which carries this object twice.
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
async fn a_success_is_the_images_object_as_text_and_as_structure() {
    let image = FakeImage::answering(r#"{"success": true, "result": [1.50, "a"], "more": null}"#).await;
    let answer = client(&image, compat()).ask(&eval(1)).await;
    assert_gives(&answer, json!({"success": true, "result": [1.5, "a"], "more": null}));
    assert_eq!(common::text(&answer), r#"{"success":true,"result":[1.5,"a"],"more":null}"#);
}

#[tokio::test]
async fn a_failure_in_the_image_is_no_error() {
    let error = json!({"description": "ZeroDivide", "stack_trace": "a\rb", "receiver": {"self": "1"}});
    let image = FakeImage::answering(&json!({"success": false, "error": error}).to_string()).await;
    let answer = client(&image, compat()).ask(&eval(1)).await;
    assert_gives(&answer, json!({"success": false, "error": error}));
}

#[tokio::test]
async fn a_fault_on_the_way_is_no_error_either() {
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
    // There is one time for all.
    let short = Settings { time: Duration::from_millis(300), ..compat() };
    let answer = client(&image, short).ask(&call(1, "run_class_test", json!({"class_name": "A"}))).await;
    assert_gives(&answer, says("Connection error: timed out"));
}

#[tokio::test]
async fn what_is_no_object_is_an_error() {
    for body in ["[1]", "7", "null"] {
        let image = FakeImage::answering(body).await;
        let answer = client(&image, compat()).ask(&eval(1)).await;
        assert!(common::error_text(&answer).starts_with("Error calling tool 'eval': "), "{answer}");
    }
}

#[tokio::test]
async fn a_tool_that_does_not_exist_is_a_result_and_wrong_arguments_are_not_sent() {
    let image = FakeImage::answering("{}").await;
    let mut client = client(&image, compat());
    assert_eq!(common::error_text(&client.ask(&call(1, "eval_code", json!({}))).await), "Unknown tool: eval_code");
    common::error_text(&client.ask(&call(2, "eval", json!({"code": 5}))).await);
    common::error_text(&client.ask(&call(3, "eval", json!({"code": "1", "x": 1}))).await);
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn truth_values_may_be_written_in_words_only_here() {
    let arguments = json!({"class_name": "A", "method_name": "b", "is_class_method": "yes"});
    let image = FakeImage::answering(r#"{"success":true,"result":""}"#).await;
    client(&image, compat()).ask(&call(1, "get_method_source", arguments.clone())).await;
    client(&image, settings()).ask(&call(1, "get_method_source", arguments)).await;
    assert_eq!(image.lines(), ["GET /get-method-source?class_name=A&method_name=b&is_class_method=true HTTP/1.1"]);
}
