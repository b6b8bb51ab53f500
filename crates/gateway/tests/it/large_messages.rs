//! Calls and responses that are too large to be copied: they are forwarded byte for byte, and still checked, filtered and
//! recorded.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::CallOutcome;
use gatelodge_testkit::{FakeUpstream, TestGateway, json_response, tool_definition};
use serde_json::json;

const ALLOW_ALL: &str = r#"{"version":"1","default":"allow"}"#;
const LENGTH: usize = 300_000;

/// A server that responds to each call with `template`, in which `ID` stands for the request id.
async fn start_server(template: String) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("store")]), move |request| {
        let response = || json_response("200 OK", "", &template.replace("ID", &request.message()["id"].to_string()));
        (request.method() == "tools/call").then(response)
    })
    .await
}

fn long() -> String {
    "é\u{2028}\\n".repeat(LENGTH / 8)
}

#[tokio::test]
async fn a_large_call_and_its_large_response_are_forwarded_byte_for_byte() {
    let long = long();
    for (call, response) in [
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":PARAMS}"#,
            r#"{"jsonrpc":"2.0","id":ID,"result":RESULT}"#,
        ),
        (
            r#"{"params":PARAMS,"method":"tools/call","jsonrpc":"2.0","id":7}"#,
            r#"{"result":RESULT,"id":ID,"jsonrpc":"2.0"}"#,
        ),
    ] {
        let result = format!(r#"{{"content":[{{"type":"text","text":"{long}"}}], "n":1.10}}"#);
        let upstream = start_server(response.replace("RESULT", &result)).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        let params =
            format!(r#"{{"name":"store","arguments":{{"n":1.10,"text":"{long}"}},"_meta":{{"progressToken":5}}}}"#);
        let reply = gw.send_text(&call.replace("PARAMS", &params)).await;
        assert!(reply.body == response.replace("RESULT", &result).replace("ID", "7"), "the response was changed");
        let request = &upstream.calls()[0];
        let id = request.message()["id"].to_string();
        let sent = call.replace("PARAMS", &params).replace("\"id\":7", &format!("\"id\":{id}"));
        let sent = sent.replace("\"progressToken\":5", &format!("\"progressToken\":{id}"));
        assert!(request.body == sent, "the call was changed");
        assert_eq!(request.header("content-length"), Some(sent.len().to_string().as_str()));
    }
}

#[tokio::test]
async fn a_large_response_is_filtered_for_secrets_and_recorded_as_tool_error() {
    let long = long();
    let template = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":["{long}s3cr3t-key"],"isError":true}}}}"#);
    let upstream = start_server(template).await;
    let builder = TestGateway::builder().policy(ALLOW_ALL).secret_header("x-key", "s3cr3t-key", "s3cr3t-key");
    let gw = builder.start(&upstream).await;
    let response = gw.call("store", json!({})).await;
    assert!(response.message()["result"]["content"][0].as_str().is_some_and(|text| text.ends_with("***")));
    let outcomes: Vec<CallOutcome> = gw.rows().await.into_iter().filter_map(|row| row.record.outcome).collect();
    assert_eq!(outcomes.last(), Some(&CallOutcome::ToolError));
}

#[tokio::test]
async fn a_large_response_with_a_task_that_was_not_requested_is_not_forwarded() {
    let long = long();
    let task = r#"{"taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":1}"#;
    let template = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":["{long}"],"task":{task}}}}}"#);
    let upstream = start_server(template).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let response = gw.call("store", json!({})).await;
    assert!(!response.body.contains("taskId"), "{}", &response.body[response.body.len().saturating_sub(300)..]);
}

/// Two strings that can be read piece by piece, and one with escapes and multi-byte characters, which can be cut by the
/// end of a piece.
fn long_strings() -> [String; 3] {
    ["x".repeat(4 * LENGTH), "line of a text\\n".repeat(LENGTH / 4), "\\u00e9\\\"\\\\é".repeat(LENGTH / 4)]
}

#[tokio::test]
async fn a_long_string_in_pieces_is_forwarded_byte_for_byte_and_hashed_into_the_log() {
    for long in long_strings() {
        for (call, response) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"store","arguments":ARGUMENTS,"_meta":{"progressToken":5}}}"#,
                r#"{"jsonrpc":"2.0","id":ID,"result":RESULT}"#,
            ),
            (
                r#"{"params":{"_meta":{"progressToken":5},"arguments" : ARGUMENTS,"name":"store"},"method":"tools/call","jsonrpc":"2.0","id":7}"#,
                r#"{"result":RESULT,"id":ID,"jsonrpc":"2.0"}"#,
            ),
        ] {
            let result = format!(r#"{{"content":[{{"type":"text","text":"{long}"}}], "n":1.10}}"#);
            let upstream = start_server(response.replace("RESULT", &result)).await;
            let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
            let arguments = format!(r#"{{"n":1.10,"text":"{long}","m":[true]}}"#);
            let call = call.replace("ARGUMENTS", &arguments);
            let reply = gw.send_text(&call).await;
            assert!(reply.body == response.replace("RESULT", &result).replace("ID", "7"), "the response was changed");
            let request = &upstream.calls()[0];
            let id = request.message()["id"].to_string();
            let sent = call.replace("\"id\":7", &format!("\"id\":{id}"));
            let sent = sent.replace("\"progressToken\":5", &format!("\"progressToken\":{id}"));
            assert!(request.body == sent, "the call was changed");
            let digest = format!("blake3:{}", blake3::hash(arguments.as_bytes()).to_hex());
            let rows = gw.rows().await;
            assert!(rows.iter().any(|row| row.record.arguments_digest.as_deref() == Some(&digest)), "{digest}");
        }
    }
}

#[tokio::test]
async fn a_condition_sees_the_whole_of_a_long_string_in_pieces() {
    const ONLY_X_AND_A: &str = r#"{"version":"1","default":"deny","tools":{"store":{"require":[{"conditions":[
        {"path":"args.text","op":"regex","value":"^x*a*x*$"}]}]}}}"#;
    let upstream = FakeUpstream::with_tools(&["store"]).await;
    let gw = TestGateway::with_policy(ONLY_X_AND_A, &upstream).await;
    let half = "x".repeat(LENGTH);
    for (middle, sent_count) in [("a", 1), ("b", 1), ("", 2)] {
        gw.call("store", json!({"n": 1, "text": format!("{half}{middle}{half}"), "m": 2})).await;
        assert_eq!(upstream.calls().len(), sent_count, "{middle}");
    }
}

#[tokio::test]
async fn malformed_large_calls_are_refused_and_not_sent() {
    let upstream = FakeUpstream::with_tools(&["store"]).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.call("store", json!({})).await;
    let (session, half) = (gw.session(), "x".repeat(LENGTH));
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Mcp-Session-Id", &session),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    let malformed: [(&[u8], &str); 9] = [
        (b"\xff", ""),
        (b"\n", ""),
        (b"\\x", ""),
        (b"\\ud83d", ""),
        (b"\"", ""),
        (b"\",\"text\":\"", ""),
        (b"\",\"name\":{},\"text2\":\"", r#","text2":1"#),
        (b"", r#","text":1"#),
        (b"", "}"),
    ];
    for (middle, suffix) in malformed {
        let prefix = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"store","arguments":{"text":""#;
        let (prefix, half, suffix) = (prefix.as_bytes(), half.as_bytes(), format!("\"{suffix}}}}}}}"));
        let body = [prefix, half, middle, half, suffix.as_bytes()].concat();
        let response = gw.send_raw("POST", "/mcp/desk", &headers, &body).await;
        assert_eq!(response.status, 400, "{:?} {suffix}: {}", String::from_utf8_lossy(middle), response.body);
    }
    assert_eq!(upstream.calls().len(), 1, "no malformed call was sent");
}

#[tokio::test]
async fn a_large_response_in_pieces_is_filtered_for_secrets() {
    let half = "x".repeat(LENGTH);
    let template = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":["{half}s3cr3t-key{half}"]}}}}"#);
    let upstream = start_server(template).await;
    let builder = TestGateway::builder().policy(ALLOW_ALL).secret_header("x-key", "s3cr3t-key", "s3cr3t-key");
    let gw = builder.start(&upstream).await;
    let response = gw.call("store", json!({})).await;
    assert!(response.body.contains(&format!("{half}***{half}")) && !response.body.contains("s3cr3t"));
}

#[tokio::test]
async fn a_large_response_in_pieces_is_validated_to_its_end() {
    let long = "x".repeat(4 * LENGTH);
    for (template, is_error, is_forwarded) in [
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"],"isError":true}}"#, true, true),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"isError":true,"content":["LONG"]}}"#, true, true),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"],"isError":false}}"#, false, true),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"]}"#, false, false),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"]}}}"#, false, false),
        (r#"{"jsonrpc":"2.0","id":"another","result":{"content":["LONG"]}}"#, false, false),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"]},"result":{}}"#, false, false),
    ] {
        let upstream = start_server(template.replace("LONG", &long)).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        let response = gw.call("store", json!({})).await;
        assert_eq!(response.body.contains(&long), is_forwarded, "{template}");
        let outcomes: Vec<CallOutcome> = gw.rows().await.into_iter().filter_map(|row| row.record.outcome).collect();
        assert_eq!(outcomes.last() == Some(&CallOutcome::ToolError), is_error, "{template}");
    }
}
