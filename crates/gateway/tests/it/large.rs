//! Calls and answers that are too long to be copied on their way: they come through as they were, and are looked at all the
//! same.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::CallOutcome;
use gatelodge_testkit::{FakeUpstream, TestGateway, json_response, tool_definition};
use serde_json::json;

const OPEN: &str = r#"{"version":"1","default":"allow"}"#;
const LENGTH: usize = 300_000;

/// A server that answers each call in these words; `ID` is the request's id in them.
async fn answering(words: String) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("store")]), move |hit| {
        let answer = || json_response("200 OK", "", &words.replace("ID", &hit.message()["id"].to_string()));
        (hit.method() == "tools/call").then(answer)
    })
    .await
}

fn long() -> String {
    "é\u{2028}\\n".repeat(LENGTH / 8)
}

#[tokio::test]
async fn a_long_call_and_its_long_answer_come_through_byte_for_byte() {
    let long = long();
    for (call, answer) in [
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
        let upstream = answering(answer.replace("RESULT", &result)).await;
        let gw = TestGateway::with_policy(OPEN, &upstream).await;
        let params =
            format!(r#"{{"name":"store","arguments":{{"n":1.10,"text":"{long}"}},"_meta":{{"progressToken":5}}}}"#);
        let answered = gw.send_text(&call.replace("PARAMS", &params)).await;
        assert!(answered.body == answer.replace("RESULT", &result).replace("ID", "7"), "the answer is another");
        let hit = &upstream.calls()[0];
        let id = hit.message()["id"].to_string();
        let sent = call.replace("PARAMS", &params).replace("\"id\":7", &format!("\"id\":{id}"));
        let sent = sent.replace("\"progressToken\":5", &format!("\"progressToken\":{id}"));
        assert!(hit.body == sent, "the call is another");
        assert_eq!(hit.header("content-length"), Some(sent.len().to_string().as_str()));
    }
}

#[tokio::test]
async fn a_long_answer_keeps_no_secret_and_says_whether_it_is_an_error() {
    let long = long();
    let words = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":["{long}s3cr3t-key"],"isError":true}}}}"#);
    let upstream = answering(words).await;
    let builder = TestGateway::builder().policy(OPEN).secret_header("x-key", "s3cr3t-key", "s3cr3t-key");
    let gw = builder.start(&upstream).await;
    let answer = gw.call("store", json!({})).await;
    assert!(answer.message()["result"]["content"][0].as_str().is_some_and(|text| text.ends_with("***")));
    let outcomes: Vec<CallOutcome> = gw.rows().await.into_iter().filter_map(|row| row.record.outcome).collect();
    assert_eq!(outcomes.last(), Some(&CallOutcome::ToolError));
}

#[tokio::test]
async fn a_long_answer_that_gives_an_undeclared_task_goes_no_further() {
    let long = long();
    let task = r#"{"taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":1}"#;
    let words = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":["{long}"],"task":{task}}}}}"#);
    let upstream = answering(words).await;
    let gw = TestGateway::with_policy(OPEN, &upstream).await;
    let answer = gw.call("store", json!({})).await;
    assert!(!answer.body.contains("taskId"), "{}", &answer.body[answer.body.len().saturating_sub(300)..]);
}

/// Strings that need not be put together, and one that must be, wherever its pieces end.
fn plain_and_not() -> [String; 3] {
    ["x".repeat(4 * LENGTH), "line of a text\\n".repeat(LENGTH / 4), "\\u00e9\\\"\\\\é".repeat(LENGTH / 4)]
}

#[tokio::test]
async fn a_long_string_in_pieces_comes_through_byte_for_byte_and_is_in_the_log() {
    for long in plain_and_not() {
        for (call, answer) in [
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
            let upstream = answering(answer.replace("RESULT", &result)).await;
            let gw = TestGateway::with_policy(OPEN, &upstream).await;
            let arguments = format!(r#"{{"n":1.10,"text":"{long}","m":[true]}}"#);
            let call = call.replace("ARGUMENTS", &arguments);
            let answered = gw.send_text(&call).await;
            assert!(answered.body == answer.replace("RESULT", &result).replace("ID", "7"), "the answer is another");
            let hit = &upstream.calls()[0];
            let id = hit.message()["id"].to_string();
            let sent = call.replace("\"id\":7", &format!("\"id\":{id}"));
            let sent = sent.replace("\"progressToken\":5", &format!("\"progressToken\":{id}"));
            assert!(hit.body == sent, "the call is another");
            let digest = format!("blake3:{}", blake3::hash(arguments.as_bytes()).to_hex());
            let rows = gw.rows().await;
            assert!(rows.iter().any(|row| row.record.arguments_digest.as_deref() == Some(&digest)), "{digest}");
        }
    }
}

#[tokio::test]
async fn a_long_string_in_pieces_is_judged_whole() {
    const NO_STOP: &str = r#"{"version":"1","default":"deny","tools":{"store":{"require":[{"conditions":[
        {"path":"args.text","op":"regex","value":"^x*a*x*$"}]}]}}}"#;
    let upstream = FakeUpstream::with_tools(&["store"]).await;
    let gw = TestGateway::with_policy(NO_STOP, &upstream).await;
    let half = "x".repeat(LENGTH);
    for (middle, passes) in [("a", 1), ("b", 1), ("", 2)] {
        gw.call("store", json!({"n": 1, "text": format!("{half}{middle}{half}"), "m": 2})).await;
        assert_eq!(upstream.calls().len(), passes, "{middle}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_long_call_is_found_wherever_it_stands() {
    let upstream = FakeUpstream::with_tools(&["store"]).await;
    let gw = TestGateway::with_policy(OPEN, &upstream).await;
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
    let wrong: [(&[u8], &str); 9] = [
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
    for (middle, behind) in wrong {
        let before = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"store","arguments":{"text":""#;
        let (before, half, behind) = (before.as_bytes(), half.as_bytes(), format!("\"{behind}}}}}}}"));
        let body = [before, half, middle, half, behind.as_bytes()].concat();
        let answer = gw.send_raw("POST", "/mcp/desk", &headers, &body).await;
        assert_eq!(answer.status, 400, "{:?} {behind}: {}", String::from_utf8_lossy(middle), answer.body);
    }
    assert_eq!(upstream.calls().len(), 1, "nothing was sent");
}

#[tokio::test]
async fn a_long_answer_in_pieces_keeps_no_secret() {
    let half = "x".repeat(LENGTH);
    let words = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":["{half}s3cr3t-key{half}"]}}}}"#);
    let upstream = answering(words).await;
    let builder = TestGateway::builder().policy(OPEN).secret_header("x-key", "s3cr3t-key", "s3cr3t-key");
    let gw = builder.start(&upstream).await;
    let answer = gw.call("store", json!({})).await;
    assert!(answer.body.contains(&format!("{half}***{half}")) && !answer.body.contains("s3cr3t"));
}

#[tokio::test]
async fn a_long_answer_in_pieces_is_checked_to_its_end() {
    let long = "x".repeat(4 * LENGTH);
    for (words, is_error, is_taken) in [
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"],"isError":true}}"#, true, true),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"isError":true,"content":["LONG"]}}"#, true, true),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"],"isError":false}}"#, false, true),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"]}"#, false, false),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"]}}}"#, false, false),
        (r#"{"jsonrpc":"2.0","id":"another","result":{"content":["LONG"]}}"#, false, false),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["LONG"]},"result":{}}"#, false, false),
    ] {
        let upstream = answering(words.replace("LONG", &long)).await;
        let gw = TestGateway::with_policy(OPEN, &upstream).await;
        let answer = gw.call("store", json!({})).await;
        assert_eq!(answer.body.contains(&long), is_taken, "{words}");
        let outcomes: Vec<CallOutcome> = gw.rows().await.into_iter().filter_map(|row| row.record.outcome).collect();
        assert_eq!(outcomes.last() == Some(&CallOutcome::ToolError), is_error, "{words}");
    }
}
