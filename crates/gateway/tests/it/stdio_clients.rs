//! Clients over stdio: both protocol generations on one connection, with servers of either generation.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, TestGateway, tool_definition};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::{ALLOW_ALL, result_response, stateless_request, stateless_response};

fn stateless_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "tools/call" => result_response(
            hit,
            &json!({"resultType": "complete", "content": [{"type": "text", "text": hit.message()["params"]["arguments"].to_string()}]}),
        ),
        _ => stateless_response(hit, &json!([tool_definition("read")]), &json!({"tools": {}})),
    }
}

/// A stateless request with the given id.
fn stateless_line(id: &str, method: &str, params: Value) -> String {
    let mut message: Value = serde_json::from_str(&stateless_request(method, params, &json!({}))).expect("JSON");
    message["id"] = json!(id);
    message.to_string()
}

fn stateful_line(id: &str, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Input of a client that probes by `server/discover`, initializes a session, and then mixes both generations.
fn input_lines() -> String {
    let initialize =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}});
    let call = |n: u8| json!({"name": "read", "arguments": {"n": n}});
    let lines = [
        stateful_line("too early", "tools/list", json!({})),
        stateless_line("probe", "server/discover", json!({})),
        stateless_line("first", "tools/call", call(1)),
        stateful_line("hello", "initialize", initialize),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        stateful_line("second", "tools/call", call(2)),
        stateless_line("third", "tools/call", call(3)),
        stateful_line("list", "tools/list", json!({})),
        stateless_line("stateless list", "tools/list", json!({})),
        stateful_line("ping", "ping", json!({})),
        stateless_line("no ping", "ping", json!({})),
        "{ this is not JSON".to_owned(),
        stateful_line("last", "tools/call", call(4)),
    ];
    lines.join("\n") + "\n"
}

#[tokio::test]
async fn client_mixes_stateful_and_stateless_requests_on_one_connection() {
    let stateful = FakeUpstream::with_tools(&["read"]).await;
    let stateless = FakeUpstream::start(json!([]), stateless_server).await;
    for upstream in [stateful, stateless] {
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        let (mut client, input) = tokio::io::duplex(64 << 10);
        let (output, mut responses) = tokio::io::duplex(64 << 10);
        let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
        let name = "desk".parse().expect("a name");
        let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
        client.write_all(input_lines().as_bytes()).await.expect("writable stream");
        drop(client);
        let mut output_text = String::new();
        let reading = tokio::time::timeout(Duration::from_secs(10), responses.read_to_string(&mut output_text)).await;
        reading.expect("the output ends after the input").expect("UTF-8 text");
        running.await.expect("no panic").expect("a clean end");

        let mut responses: BTreeMap<String, Value> = BTreeMap::new();
        for line in output_text.lines() {
            let message: Value =
                serde_json::from_str(line).unwrap_or_else(|_| panic!("one message on each line: {line}"));
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            let id = message["id"].as_str().unwrap_or("none").to_owned();
            assert!(responses.insert(id.clone(), message).is_none(), "{id} is answered twice");
        }
        let text = |id: &str| responses[id]["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert_eq!(responses["probe"]["result"]["supportedVersions"][0], "2026-07-28", "{output_text}");
        assert_eq!(responses["hello"]["result"]["protocolVersion"], "2025-11-25", "{output_text}");
        for (id, expected) in [("first", 1), ("second", 2), ("third", 3), ("last", 4)] {
            assert_eq!(text(id), json!({"n": expected}).to_string(), "{id}: {output_text}");
        }
        for (id, is_stateless) in
            [("first", true), ("second", false), ("third", true), ("stateless list", true), ("list", false)]
        {
            let has_result_type = responses[id]["result"]["resultType"] == "complete";
            assert!(has_result_type || !is_stateless, "{id}: {output_text}");
        }
        assert_eq!(responses["list"]["result"]["tools"][0]["name"], "read");
        assert_eq!(responses["ping"]["result"], json!({}));
        assert_eq!(responses["no ping"]["error"]["code"], -32601, "the stateless protocol has no ping: {output_text}");
        assert_eq!(responses["too early"]["error"]["code"], -32600, "{output_text}");
        assert_eq!(responses["none"]["error"]["code"], -32700, "{output_text}");
        assert_eq!(responses.len(), 12, "{output_text}");
        assert_eq!(upstream.calls().len(), 4);
        let rows = gw.rows().await.into_iter().filter(|row| row.record.target.as_deref() == Some("read"));
        let revisions: Vec<_> = rows.filter_map(|row| row.record.revision).collect();
        assert_eq!(revisions.iter().filter(|revision| revision.as_ref() == "2026-07-28").count(), 2, "{revisions:?}");
    }
}

#[tokio::test]
async fn a_line_over_the_limit_is_refused_and_the_next_is_served() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, mut responses) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let call =
        |id: &str, note: &str| stateless_line(id, "tools/call", json!({"name": "read", "arguments": {"note": note}}));
    let input_text = format!("{}\n{}\n", call("long", &"x".repeat(5 << 20)), call("short", "x"));
    let writing = tokio::spawn(async move { client.write_all(input_text.as_bytes()).await });
    let mut output_text = String::new();
    let reading = tokio::time::timeout(Duration::from_secs(20), responses.read_to_string(&mut output_text)).await;
    reading.expect("the output ends after the input").expect("UTF-8 text");
    running.await.expect("no panic").expect("a clean end");
    writing.await.expect("no panic").expect("all input is read");

    let responses: Vec<Value> = output_text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let refused = responses.iter().find(|response| response["error"].is_object()).expect("a refusal");
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("4194304 bytes")), "{refused}");
    assert!(
        responses.iter().any(|response| response["id"] == "short" && response["result"].is_object()),
        "{output_text}"
    );
    assert_eq!((responses.len(), upstream.calls().len()), (2, 1), "{output_text}");
}
