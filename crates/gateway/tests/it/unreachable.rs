//! Calls of stateless clients to servers that cannot be greeted: the caller is told that nothing was sent, and the row
//! says which call it was.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_store::{CallRecord, RecordKind};
use gatelodge_testkit::{FakeUpstream, RecordedRequest, TestGateway, json_response};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::rows_kit::{ALL, Caller, stateless};

/// A server that takes no handshake.
async fn unfriendly() -> FakeUpstream {
    FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        (hit.method() == "initialize").then(|| json_response("503 Service Unavailable", "", "{}"))
    })
    .await
}

async fn last_row(gw: &TestGateway, method: &str) -> CallRecord {
    let rows = gw.rows().await;
    let own = rows.iter().rev().find(|row| row.record.method.as_deref() == Some(method));
    own.unwrap_or_else(|| panic!("no row of {method}: {rows:#?}")).record.clone()
}

#[tokio::test]
async fn a_stateless_call_to_a_server_that_cannot_be_greeted_is_told_so_and_is_in_its_row() {
    let upstream = unfriendly().await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    let answer = Caller::of(&gw).call("read", json!({"n": 1})).await;
    assert!(answer.status == 200 && answer.message()["result"]["isError"] == true, "{}", answer.body);
    assert!(answer.text().contains("the handshake with the server failed"), "{}", answer.body);
    let row = last_row(&gw, "tools/call").await;
    assert_eq!((row.kind, row.target.as_deref()), (RecordKind::Refused, Some("read")), "{row:?}");
    assert_eq!(row.code.as_deref(), Some("upstream_gone"), "{row:?}");
    assert_eq!(row.argument_keys.len(), 1, "{row:?}");

    let listed = Caller::of(&gw).ask("tools/list", json!({})).await;
    assert_eq!((listed.status, listed.code()), (502, -32603), "{}", listed.body);
    assert_eq!(last_row(&gw, "tools/list").await.code.as_deref(), Some("upstream_gone"));
}

#[tokio::test]
async fn what_the_policy_hides_is_hidden_though_its_server_cannot_be_greeted() {
    let upstream = unfriendly().await;
    let gw = TestGateway::with_policy(r#"{"version":"1","default":"deny","tools":{"other":{}}}"#, &upstream).await;
    let answer = Caller::of(&gw).call("read", json!({})).await;
    assert_eq!(answer.code(), -32602, "{}", answer.body);
    assert_eq!(last_row(&gw, "tools/call").await.code.as_deref(), Some("not_listed"));
}

#[tokio::test]
async fn at_standard_streams_such_a_call_is_told_and_written_down_alike() {
    let upstream = unfriendly().await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, answers) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let mut lines = BufReader::new(answers).lines();
    for (method, params) in [("tools/call", json!({"name": "read", "arguments": {}})), ("tools/list", json!({}))] {
        let text = stateless(method, params, &json!({}));
        client.write_all(format!("{text}\n").as_bytes()).await.expect("it can be written");
        let answer = lines.next_line().await.expect("text").expect("an answer");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        match method {
            "tools/call" => assert_eq!(answer["result"]["isError"], true, "{answer}"),
            _ => assert_eq!(answer["error"]["code"], -32603, "{answer}"),
        }
    }
    drop(client);
    running.await.expect("it ends").expect("in order");
    assert_eq!(last_row(&gw, "tools/call").await.target.as_deref(), Some("read"));
}
