//! Row T11: both eras on one line of a client at standard streams, whatever era the server speaks.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, TestGateway, tool_definition};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::rows_kit::{ALL, answered, modern_answer, stateless};

fn modern(hit: &RecordedRequest) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "tools/call" => answered(
            hit,
            &json!({"resultType": "complete", "content": [{"type": "text", "text": hit.message()["params"]["arguments"].to_string()}]}),
        ),
        _ => modern_answer(hit, &json!([tool_definition("read")]), &json!({"tools": {}})),
    }
}

/// A stateless request under an id of its own.
fn alone(id: &str, method: &str, params: Value) -> String {
    let mut message: Value = serde_json::from_str(&stateless(method, params, &json!({}))).expect("JSON");
    message["id"] = json!(id);
    message.to_string()
}

fn in_session(id: &str, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// What a client says that finds out how it is spoken to, shakes hands all the same, and goes on in both ways.
fn said() -> String {
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}});
    let call = |n: u8| json!({"name": "read", "arguments": {"n": n}});
    let lines = [
        in_session("too early", "tools/list", json!({})),
        alone("probe", "server/discover", json!({})),
        alone("first", "tools/call", call(1)),
        in_session("hello", "initialize", hello),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        in_session("second", "tools/call", call(2)),
        alone("third", "tools/call", call(3)),
        in_session("list", "tools/list", json!({})),
        alone("list alone", "tools/list", json!({})),
        in_session("ping", "ping", json!({})),
        alone("no ping", "ping", json!({})),
        "{ this is no JSON".to_owned(),
        in_session("last", "tools/call", call(4)),
    ];
    lines.join("\n") + "\n"
}

#[tokio::test]
async fn t11_a_client_probes_shakes_hands_and_speaks_in_both_ways_on_one_line() {
    let old = FakeUpstream::with_tools(&["read"]).await;
    let new = FakeUpstream::start(json!([]), modern).await;
    for upstream in [old, new] {
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        let (mut client, input) = tokio::io::duplex(64 << 10);
        let (output, mut answers) = tokio::io::duplex(64 << 10);
        let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
        let name = "desk".parse().expect("a name");
        let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
        client.write_all(said().as_bytes()).await.expect("it can be written");
        drop(client);
        let mut out = String::new();
        let reading = tokio::time::timeout(Duration::from_secs(10), answers.read_to_string(&mut out)).await;
        reading.expect("it ends with its input").expect("text");
        running.await.expect("it ends").expect("in order");

        let mut answers: BTreeMap<String, Value> = BTreeMap::new();
        for line in out.lines() {
            let message: Value =
                serde_json::from_str(line).unwrap_or_else(|_| panic!("one message on each line: {line}"));
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            let id = message["id"].as_str().unwrap_or("none").to_owned();
            assert!(answers.insert(id.clone(), message).is_none(), "{id} is answered twice");
        }
        let text = |id: &str| answers[id]["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answers["probe"]["result"]["supportedVersions"][0], "2026-07-28", "{out}");
        assert_eq!(answers["hello"]["result"]["protocolVersion"], "2025-11-25", "{out}");
        for (id, wanted) in [("first", 1), ("second", 2), ("third", 3), ("last", 4)] {
            assert_eq!(text(id), json!({"n": wanted}).to_string(), "{id}: {out}");
        }
        for (id, is_alone) in
            [("first", true), ("second", false), ("third", true), ("list alone", true), ("list", false)]
        {
            let is_marked = answers[id]["result"]["resultType"] == "complete";
            assert!(is_marked || !is_alone, "{id}: {out}");
        }
        assert_eq!(answers["list"]["result"]["tools"][0]["name"], "read");
        assert_eq!(answers["ping"]["result"], json!({}));
        assert_eq!(answers["no ping"]["error"]["code"], -32601, "that era has none: {out}");
        assert_eq!(answers["too early"]["error"]["code"], -32600, "{out}");
        assert_eq!(answers["none"]["error"]["code"], -32700, "{out}");
        assert_eq!(answers.len(), 12, "{out}");
        assert_eq!(upstream.calls().len(), 4);
        let rows = gw.rows().await.into_iter().filter(|row| row.record.target.as_deref() == Some("read"));
        let revisions: Vec<_> = rows.filter_map(|row| row.record.revision).collect();
        assert_eq!(revisions.iter().filter(|own| own.as_ref() == "2026-07-28").count(), 2, "{revisions:?}");
    }
}

#[tokio::test]
async fn t10_a_line_that_is_too_long_is_refused_and_the_next_one_is_taken() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, mut answers) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let call = |id: &str, note: &str| alone(id, "tools/call", json!({"name": "read", "arguments": {"note": note}}));
    let said = format!("{}\n{}\n", call("long", &"x".repeat(5 << 20)), call("short", "x"));
    let writing = tokio::spawn(async move { client.write_all(said.as_bytes()).await });
    let mut out = String::new();
    let reading = tokio::time::timeout(Duration::from_secs(20), answers.read_to_string(&mut out)).await;
    reading.expect("it ends with its input").expect("text");
    running.await.expect("it ends").expect("in order");
    writing.await.expect("a writer").expect("all of it is read");

    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let refused = answers.iter().find(|answer| answer["error"].is_object()).expect("a refusal");
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("4194304 bytes")), "{refused}");
    assert!(answers.iter().any(|answer| answer["id"] == "short" && answer["result"].is_object()), "{out}");
    assert_eq!((answers.len(), upstream.calls().len()), (2, 1), "{out}");
}
