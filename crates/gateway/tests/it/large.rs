//! Calls and answers that are too long to be copied on their way: they come through as they were, and are looked at all the
//! same.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::Outcome;
use gatelodge_testkit::{FakeUpstream, TestGateway, json_response, tool};
use serde_json::json;

const OPEN: &str = r#"{"version":"1","default":"allow"}"#;
const LENGTH: usize = 300_000;

/// A server that answers each call in these words; `ID` is the request's id in them.
async fn answering(words: String) -> FakeUpstream {
    FakeUpstream::start(json!([tool("store")]), move |hit| {
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
    let builder = TestGateway::builder().policy(OPEN).secret("x-key", "s3cr3t-key", "s3cr3t-key");
    let gw = builder.start(&upstream).await;
    let answer = gw.call("store", json!({})).await;
    assert!(answer.message()["result"]["content"][0].as_str().is_some_and(|text| text.ends_with("***")));
    let outcomes: Vec<Outcome> = gw.rows().await.into_iter().filter_map(|row| row.record.outcome).collect();
    assert_eq!(outcomes.last(), Some(&Outcome::ToolError));
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
