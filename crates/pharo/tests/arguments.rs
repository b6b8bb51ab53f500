//! Invalid arguments are named and nothing is sent to the image; valid ones stay single values.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{FakeImage, StdioClient, call, code, error_text, request};
use serde_json::{Value, json};

async fn image() -> FakeImage {
    FakeImage::answering(r#"{"success":true,"result":"done"}"#).await
}

#[tokio::test]
async fn all_errors_are_listed_at_once_and_nothing_is_sent() {
    let image = image().await;
    let mut client = StdioClient::of(&image);
    for (tool, arguments, faults) in [
        ("eval", json!({}), &["`code` is missing"][..]),
        ("eval", json!({"code": 5}), &["`code` must be a string, not a number"]),
        ("eval", json!({"code": null}), &["`code` must be a string, not null"]),
        ("eval", json!({"code": ["1"]}), &["`code` must be a string, not a list"]),
        ("eval", json!({"code": "1", "Code": "2"}), &["`Code` is not a parameter"]),
        (
            "list_packages",
            json!({"package_name": "P"}),
            &["`package_name` is not a parameter", "It takes no arguments."],
        ),
        (
            "get_method_source",
            json!({"is_class_method": "true", "x": 1}),
            &[
                "`class_name` is missing",
                "`method_name` is missing",
                "`is_class_method` must be true or false, not a string",
                "`x` is not a parameter",
            ],
        ),
        (
            "read_screen",
            json!({"capture_screenshot": 1}),
            &["`capture_screenshot` must be true or false, not a number"],
        ),
        ("read_screen", json!({"target_type": null}), &["`target_type` must be a string, not null"]),
        ("export_package", json!({"package_name": "P", "path": false}), &["`path` must be a string, not a boolean"]),
        (
            "install_project",
            json!({"project_name": "P", "repository_url": "u", "load_groups": ["a"]}),
            &["`load_groups` must be a string or null, not a list"],
        ),
        ("apply_settings", json!({"settings": "{}"}), &["`settings` must be an object, not a string"]),
        ("apply_settings", json!({"settings": []}), &["`settings` must be an object, not a list"]),
    ] {
        let answer = client.ask(&call(1, tool, arguments.clone())).await;
        let text = error_text(&answer);
        for fault in faults {
            assert!(text.contains(fault), "{tool} {arguments}: {text}");
        }
        assert!(text.ends_with("Nothing was sent to the image."), "{text}");
    }
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn error_lists_the_parameters_of_the_tool() {
    let image = image().await;
    let answer = StdioClient::of(&image).ask(&call(1, "get_method_source", json!({"class_name": 1}))).await;
    assert_eq!(
        error_text(&answer),
        "The arguments of `get_method_source` are not valid: `class_name` must be a string, not a number; \
        `method_name` is missing. It takes `class_name` (a string), `method_name` (a string), `is_class_method` (true or \
        false, optional). Nothing was sent to the image."
    );
}

#[tokio::test]
async fn absent_arguments_are_an_empty_object() {
    let image = image().await;
    let mut client = StdioClient::of(&image);
    for params in [json!({"name": "list_packages"}), json!({"name": "list_packages", "arguments": null})] {
        assert_eq!(common::text(&client.ask(&request(1, "tools/call", params)).await), "done");
    }
    let answer = client.ask(&request(1, "tools/call", json!({"name": "eval"}))).await;
    assert!(error_text(&answer).contains("`code` is missing"));
    assert_eq!(image.lines().len(), 2);
}

#[tokio::test]
async fn non_object_arguments_and_unknown_tools_are_invalid_params() {
    let image = image().await;
    let mut client = StdioClient::of(&image);
    for params in [
        json!({"name": "eval_code", "arguments": {"code": "1"}}),
        json!({"name": "Eval", "arguments": {"code": "1"}}),
        json!({"name": "", "arguments": {}}),
        json!({"arguments": {}}),
        json!({"name": 5}),
        json!({"name": "eval", "arguments": "1"}),
        json!({"name": "eval", "arguments": ["1"]}),
    ] {
        let answer = client.ask(&request(1, "tools/call", params.clone())).await;
        assert_eq!(code(&answer), -32602, "{params}: {answer}");
    }
    let answer = client.ask(&call(1, "eval_code\u{202e}", json!({}))).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert_eq!(message, "there is no tool `eval_code\\u{202e}`; `tools/list` names them");
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn value_cannot_become_a_parameter_a_header_or_a_path() {
    let image = image().await;
    let mut client = StdioClient::of(&image);
    for value in [
        "a&path=/etc",
        "a=b",
        "a#b",
        "../../eval",
        "/eval?x",
        "a\r\nx-injected: 1\r\n\r\nGET /eval HTTP/1.1\r\n\r\n",
        "a b\tc\0d",
        "100%25+1",
        "é€𝄞",
        "",
    ] {
        let answer = client.ask(&call(1, "get_class_source", json!({"class_name": value}))).await;
        assert_eq!(common::text(&answer), "done", "{value:?}");
        let asked = image.asked().pop().unwrap();
        let target = asked.line.strip_prefix("GET ").and_then(|line| line.strip_suffix(" HTTP/1.1")).unwrap();
        let written = target.strip_prefix("/get-class-source?class_name=").unwrap_or_else(|| panic!("{target}"));
        assert!(written.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%+-._~".contains(&byte)), "{written}");
        assert_eq!(form_decoded(written), value);
        assert_eq!(asked.headers.len(), 2, "{:?}", asked.headers);
        assert_eq!(asked.body, "");
    }
    assert_eq!(image.asked().len(), 10);
}

#[tokio::test]
async fn code_cannot_become_a_second_member() {
    let image = image().await;
    let mut client = StdioClient::of(&image);
    let code = "\"},\"x\":{\"\u{0}\u{7f}\u{2028}\\\r\n";
    client.ask(&call(1, "eval", json!({"code": code}))).await;
    let body: Value = serde_json::from_str(&image.asked()[0].body).expect("JSON");
    assert_eq!(body, json!({"code": code}));
}

#[tokio::test]
async fn overlong_text_is_refused_and_not_sent() {
    let image = image().await;
    let mut client = StdioClient::of(&image);
    let answer = client.ask(&call(1, "get_class_source", json!({"class_name": "x".repeat(70_000)}))).await;
    assert_eq!(
        error_text(&answer),
        "The arguments are too long for the image: the request's target would have 70029 bytes, and the maximum is 65534. \
        Nothing was sent to it."
    );
    assert_eq!(image.lines(), [""; 0]);
    // A body has no such limit.
    assert_eq!(common::text(&client.ask(&call(2, "eval", json!({"code": "x".repeat(70_000)}))).await), "done");
}

#[tokio::test]
async fn repeated_members_and_lone_surrogates_are_refused_and_not_sent() {
    let image = image().await;
    let mut client = StdioClient::of(&image);
    for arguments in [r#"{"code":"1","code":"2"}"#, r#"{"code":"\ud800"}"#] {
        let params = format!(r#"{{"name":"eval","arguments":{arguments}}}"#);
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{params}}}\n");
        client.send_raw(line.as_bytes()).await;
        let answer = client.next().await;
        assert!([-32600, -32700].contains(&code(&answer)), "{answer}");
    }
    assert_eq!(image.lines(), [""; 0]);
}

/// Decodes a query as the interop server does.
fn form_decoded(written: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = written.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let hex: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&hex, 16).expect("two hex digits")
            }
            other => other,
        });
    }
    String::from_utf8(bytes).expect("UTF-8")
}
