//! Stateless calls to servers that refuse the handshake: the client gets an error that names the handshake, and the log
//! row names the tool.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_store::{CallRecord, RecordKind};
use gatelodge_testkit::{FakeUpstream, RecordedRequest, TestGateway, json_response};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::support::{ALLOW_ALL, StatelessTestClient, stateless_request};

/// Server that answers `initialize` with 503.
async fn server_without_handshake() -> FakeUpstream {
    FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        (hit.method() == "initialize").then(|| json_response("503 Service Unavailable", "", "{}"))
    })
    .await
}

async fn last_row(gw: &TestGateway, method: &str) -> CallRecord {
    let rows = gw.rows().await;
    let last = rows.iter().rev().find(|row| row.record.method.as_deref() == Some(method));
    last.unwrap_or_else(|| panic!("no row for {method}: {rows:#?}")).record.clone()
}

#[tokio::test]
async fn stateless_call_after_a_failed_handshake_is_an_error_result_and_recorded() {
    let upstream = server_without_handshake().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let response = StatelessTestClient::new(&gw).call("read", json!({"n": 1})).await;
    assert!(response.status == 200 && response.message()["result"]["isError"] == true, "{}", response.body);
    assert!(response.text().contains("the handshake with the server failed"), "{}", response.body);
    let row = last_row(&gw, "tools/call").await;
    assert_eq!((row.kind, row.target.as_deref()), (RecordKind::Refused, Some("read")), "{row:?}");
    assert_eq!(row.code.as_deref(), Some("upstream_gone"), "{row:?}");
    assert_eq!(row.argument_keys.len(), 1, "{row:?}");

    let listed = StatelessTestClient::new(&gw).request("tools/list", json!({})).await;
    assert_eq!((listed.status, listed.code()), (502, -32603), "{}", listed.body);
    assert_eq!(last_row(&gw, "tools/list").await.code.as_deref(), Some("upstream_gone"));
}

#[tokio::test]
async fn hidden_tool_stays_hidden_after_a_failed_handshake() {
    let upstream = server_without_handshake().await;
    let gw = TestGateway::with_policy(r#"{"version":"1","default":"deny","tools":{"other":{}}}"#, &upstream).await;
    let response = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert_eq!(response.code(), -32602, "{}", response.body);
    assert_eq!(last_row(&gw, "tools/call").await.code.as_deref(), Some("not_listed"));
}

#[tokio::test]
async fn stateless_stdio_call_after_a_failed_handshake_is_an_error_result_and_recorded() {
    let upstream = server_without_handshake().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, responses) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let mut lines = BufReader::new(responses).lines();
    for (method, params) in [("tools/call", json!({"name": "read", "arguments": {}})), ("tools/list", json!({}))] {
        let text = stateless_request(method, params, &json!({}));
        client.write_all(format!("{text}\n").as_bytes()).await.expect("writable stream");
        let response = lines.next_line().await.expect("text").expect("an answer");
        let response: Value = serde_json::from_str(&response).expect("JSON");
        match method {
            "tools/call" => assert_eq!(response["result"]["isError"], true, "{response}"),
            _ => assert_eq!(response["error"]["code"], -32603, "{response}"),
        }
    }
    drop(client);
    running.await.expect("no panic").expect("a clean end");
    assert_eq!(last_row(&gw, "tools/call").await.target.as_deref(), Some("read"));
}
