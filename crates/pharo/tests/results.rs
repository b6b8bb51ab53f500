//! Results of the image are passed on: the object as structured content, its value as text.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{
    FakeImage, StdioClient, TestHttpServer, as_stateless, call, error_text, eval, page, raw, settings, success, text,
    with_token,
};
use gatelodge_pharo::PharoSettings;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Returns the raw text of `structuredContent` in a line.
fn structured(line: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Line {
        result: Outcome,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Outcome {
        structured_content: Box<RawValue>,
    }
    let line: Line = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    line.result.structured_content.get().to_owned()
}

async fn line_for(body: &str) -> String {
    let image = FakeImage::answering(body).await;
    let mut client = StdioClient::of(&image);
    client.send(&eval(1)).await;
    client.next_line().await
}

#[tokio::test]
async fn strings_are_returned_as_text_and_other_values_as_json() {
    for (result, expected) in [
        (r#""Object subclass: #A""#, "Object subclass: #A"),
        (r#""""#, ""),
        (r#""a\r\tb\u00e9 \ud834\udd1e""#, "a\r\tbé 𝄞"),
        (r#"["Array","Bag"]"#, r#"["Array","Bag"]"#),
        ("[]", "[]"),
        (r#"{"stackSize":100}"#, r#"{"stackSize":100}"#),
        ("null", "null"),
        ("false", "false"),
        ("7", "7"),
        ("1.10", "1.10"),
        ("-0.0", "-0.0"),
        ("1e400", "1e400"),
    ] {
        let body = format!(r#"{{"success":true,"result":{result}}}"#);
        let line = line_for(&body).await;
        assert_eq!(structured(&line), body);
        let answer: Value = serde_json::from_str::<Value>(&line.replace("1e400", "4")).expect("JSON");
        assert_eq!(text(&answer), expected.replace("1e400", "4"));
        assert_eq!(answer["result"].get("isError"), None, "{answer}");
        assert_eq!(answer["result"]["content"].as_array().map(Vec::len), Some(1));
    }
}

#[tokio::test]
async fn integers_of_any_length_keep_every_digit() {
    for digits in [52, 2_568] {
        let number: String = (0..digits).map(|at| char::from(b'1' + (at % 9) as u8)).collect();
        let body = format!(r#"{{"success":true,"result":{number}}}"#);
        let line = line_for(&body).await;
        assert_eq!(structured(&line), body);
        assert!(line.contains(&format!(r#""text":"{number}""#)), "{line}");
    }
}

#[tokio::test]
async fn unknown_members_are_passed_on_unchanged() {
    let body = r#"{ "version" : 2, "success":true ,"result":"ok","nested":{"a":[1.50,{"success":false}]},"é":null}"#;
    assert_eq!(structured(&line_for(body).await), body);
}

#[tokio::test]
async fn multi_line_json_is_one_line_over_stdio() {
    let body = "{\n  \"success\": true,\r\n  \"result\": [\n    \"a\u{2028}b\u{85}\",\n    1\n  ]\n}\n";
    let image = FakeImage::answering(body).await;
    let mut client = StdioClient::of(&image);
    client.send(&eval(1)).await;
    let line = client.next_line().await;
    assert!(!line.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}']), "{line}");
    let answer: Value = serde_json::from_str(&line).expect("JSON in one line");
    let expected: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(answer["result"]["structuredContent"], expected);
    let shown: Value = serde_json::from_str(text(&answer)).expect("JSON in the text");
    assert_eq!(shown, expected["result"]);
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn multi_line_json_is_one_event_over_http() {
    let image = FakeImage::answering("{\n\"success\": true,\r\n\r\n\"result\": 1\n}").await;
    let answer = TestHttpServer::of(&image).await.post(&as_stateless(with_token(eval(1), "t")), &[]).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.messages().len(), 1, "{}", answer.body);
    assert_eq!(answer.message()["result"]["structuredContent"], json!({"success": true, "result": 1}));
}

#[tokio::test]
async fn lone_surrogate_is_an_error() {
    for half in
        [r"a\ud800b", r"\uDC00", r"\udbff\ud800\udc00", r"\ud83d", r"\\\ud800", r"\ud800\n\udc00", r"\udc00\ud800"]
    {
        for body in [
            format!(r#"{{"success":true,"result":"{half}"}}"#),
            format!(r#"{{"success":true,"result":[{{"{half}":1}}]}}"#),
            format!(r#"{{"success":false,"error":"{half}"}}"#),
        ] {
            let answer: Value = serde_json::from_str(&line_for(&body).await).expect("JSON that strict readers take");
            let said = error_text(&answer);
            assert!(said.contains("a string in it has a lone surrogate"), "{said}");
            assert!(said.contains("`printString`") && said.ends_with(&body), "{said}");
        }
    }
    for whole in [r"\ud83d\ude00", r"\\ud800", r"\\\\udc00\ud83d\ude00\n", r"\u0041\ue000\ud7ff"] {
        let body = format!(r#"{{"success":true,"result":["{whole}"]}}"#);
        assert_eq!(structured(&line_for(&body).await), body);
    }
}

#[tokio::test]
async fn value_without_a_json_form_is_not_an_error_and_names_print_string() {
    let error = r#"{"description":"No JSON mapping for a Process","suggestion":"Use printString"}"#;
    let body = format!(r#"{{"success":true,"error":{error}}}"#);
    let line = line_for(&body).await;
    assert_eq!(structured(&line), body);
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(answer["result"].get("isError"), None);
    assert_eq!(
        text(&answer),
        "The code ran, but its value cannot be represented in JSON. Send it `printString` to see it. The image reports:\n\n\
        No JSON mapping for a Process\n\nsuggestion:\nUse printString"
    );
}

#[tokio::test]
async fn only_eval_suggests_print_string() {
    let image = FakeImage::answering(r#"{"success":true,"error":"why"}"#).await;
    let answer = StdioClient::of(&image).ask(&call(1, "list_packages", json!({}))).await;
    assert_eq!(text(&answer), "The request succeeded without a result. The image reports:\n\nwhy");
    assert_eq!(answer["result"].get("isError"), None);
}

#[tokio::test]
async fn stateless_result_is_marked_complete() {
    let image = FakeImage::answering(r#"{"success":true,"result":7}"#).await;
    let mut client = StdioClient::of(&image);
    assert_eq!(client.ask(&as_stateless(eval(1))).await["result"]["resultType"], "complete");
    assert_eq!(client.ask(&eval(2)).await["result"].get("resultType"), None);
}

#[tokio::test]
async fn chunked_response_and_one_without_a_length_are_read_completely() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let chunked = format!(
        "{head}transfer-encoding: chunked\r\n\r\nb\r\n{{\"success\":\r\n10\r\ntrue,\"result\":7}}\r\n0\r\n\r\n"
    );
    let unmeasured = format!("{head}\r\n{{\"success\":true,\"result\":7}}");
    for bytes in [chunked, unmeasured] {
        let image = FakeImage::doing(raw(&bytes)).await;
        let answer = StdioClient::of(&image).ask(&eval(1)).await;
        assert_eq!(text(&answer), "7", "{answer}");
    }
}

#[tokio::test]
async fn content_type_of_the_image_does_not_matter() {
    let image = FakeImage::doing(page("200 OK", "text/plain", r#"{"success":true,"result":7}"#)).await;
    assert_eq!(text(&StdioClient::of(&image).ask(&eval(1)).await), "7");
}

fn picture(path: &str) -> Result<Vec<u8>, String> {
    if path == "/tmp/screen.png" { Ok(b"PNG".to_vec()) } else { Err("it is not there".to_owned()) }
}

#[tokio::test]
async fn screenshot_is_returned_if_it_can_be_read() {
    let image = FakeImage::doing(success(r#"{"screenshot":"/tmp/screen.png","summary":"s"}"#)).await;
    let with = || PharoSettings { read_screenshot: Some(picture), ..settings() };
    let mut client = StdioClient::to(common::server(image.port(), with()));
    let answer = client.ask(&call(1, "read_screen", json!({}))).await;
    let content = answer["result"]["content"].as_array().expect("blocks");
    assert_eq!(content.len(), 2);
    assert_eq!(content[1], json!({"type": "image", "mimeType": "image/png", "data": "UE5H"}));

    image.set_script(success(r#"{"screenshot":"/elsewhere","summary":"s"}"#));
    let answer = client.ask(&call(2, "read_screen", json!({}))).await;
    let content = answer["result"]["content"].as_array().expect("blocks");
    assert_eq!(content[1]["text"], "The screenshot is in `/elsewhere` on the image's machine: it is not there.");
    assert_eq!(answer["result"].get("isError"), None);

    for result in [r#"{"summary":"s"}"#, r#"{"screenshot":7}"#, r#"{"screenshot":null}"#, "\"text\""] {
        image.set_script(success(result));
        let answer = client.ask(&call(3, "read_screen", json!({}))).await;
        assert_eq!(answer["result"]["content"].as_array().map(Vec::len), Some(1), "{answer}");
    }
}

#[tokio::test]
async fn screenshot_is_not_read_for_other_tools_or_remote_images() {
    let image = FakeImage::doing(success(r#"{"screenshot":"/tmp/screen.png"}"#)).await;
    let with = PharoSettings { read_screenshot: Some(picture), ..settings() };
    let answer = StdioClient::to(common::server(image.port(), with)).ask(&call(1, "get_settings", json!({}))).await;
    assert_eq!(answer["result"]["content"].as_array().map(Vec::len), Some(1));
    let answer = StdioClient::of(&image).ask(&call(1, "read_screen", json!({}))).await;
    assert_eq!(answer["result"]["content"].as_array().map(Vec::len), Some(1));
}
