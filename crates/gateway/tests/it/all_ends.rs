//! `/mcp`: what is said of slow servers, and what servers are asked for.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{chunk, start_in_session, stateless_response, stream_headers, wait_until};

const OPEN: &str = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
const VERSION: &str = "2026-07-28";
const TOOLS: &str = "notifications/tools/list_changed";

fn slow(hit: &RecordedRequest) -> Option<ResponseScript> {
    let mut script = vec![ScriptStep::Pause(Duration::from_millis(1_000))];
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"tools": [tool_definition("think")]}})
        .to_string();
    script.extend(json_response("200 OK", "", &text));
    (hit.method() == "tools/list").then_some(script)
}

fn meta() -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}})
}

/// Opens the stream by which a client hears.
async fn listens(gw: &TestGateway, is_stateless: bool) -> TcpStream {
    let wanted = json!({"toolsListChanged": true, "promptsListChanged": true});
    let body = json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": {"notifications": wanted, "_meta": meta()}});
    let (verb, own, body) = if is_stateless {
        let own = format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: subscriptions/listen\r\n");
        ("POST", own, body.to_string())
    } else {
        gw.initialize().await;
        ("GET", format!("Mcp-Session-Id: {}\r\n", gw.session()), String::new())
    };
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let head = format!(
        "{verb} /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n{own}Content-Length: {}\r\n\r\n{body}",
        gw.token.reveal(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(800)).await;
    stream
}

/// What the client was told.
async fn told(stream: &mut TcpStream, time: Duration) -> Vec<Value> {
    let mut raw = Vec::new();
    let _ = tokio::time::timeout(time, stream.read_to_end(&mut raw)).await;
    let raw = String::from_utf8_lossy(&raw).into_owned();
    let data = raw.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

async fn listed(gw: &TestGateway, is_stateless: bool) -> Vec<String> {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}).to_string();
    let answer = if is_stateless {
        gw.post(&[("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/list")], &list).await
    } else {
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await
    };
    let tools = answer.message()["result"]["tools"].as_array().cloned().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn who_listens_is_told_when_a_slow_server_has_said_what_it_has() {
    for is_stateless in [false, true] {
        let desk = FakeUpstream::with_tools(&["read"]).await;
        let slow = FakeUpstream::start(json!([]), slow).await;
        let gw = TestGateway::builder()
            .policy(OPEN)
            .at_aggregate()
            .with_server("slow", &slow.url(), OPEN)
            .start(&desk)
            .await;
        let mut stream = listens(&gw, is_stateless).await;
        assert_eq!(listed(&gw, is_stateless).await, ["desk__read"], "it has not answered yet");
        let heard = told(&mut stream, Duration::from_millis(1_200)).await;
        let heard: Vec<&Value> = heard
            .iter()
            .filter(|message| message["method"].as_str().is_some_and(|method| method.ends_with("list_changed")))
            .collect();
        assert_eq!(heard.len(), 1, "once, of that list: {heard:?}");
        assert_eq!(heard[0]["method"], TOOLS);
        if is_stateless {
            assert_eq!(heard[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
        }
        assert_eq!(listed(&gw, is_stateless).await, ["desk__read", "slow__think"]);
    }
}

#[tokio::test]
async fn servers_are_asked_for_the_revision_that_was_agreed_on() {
    for (asked, agreed) in [
        (Some("2030-01-01"), "2025-11-25"),
        (Some("latest"), "2025-11-25"),
        (Some(VERSION), "2025-11-25"),
        (None, "2025-11-25"),
        (Some("2025-03-26"), "2025-03-26"),
    ] {
        let desk = FakeUpstream::with_tools(&["read"]).await;
        let gw = TestGateway::builder().policy(OPEN).at_aggregate().start(&desk).await;
        let mut params = json!({"capabilities": {"roots": {}}, "clientInfo": {"name": "odd", "version": "1.10"}});
        if let Some(asked) = asked {
            params["protocolVersion"] = json!(asked);
        }
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = gw.post(&[], &hello.to_string()).await.message();
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{answer}");
        let sent = desk.requests().into_iter().find(|hit| hit.method() == "initialize").expect("a handshake").message();
        params["protocolVersion"] = json!(agreed);
        assert_eq!(sent["params"], params, "all else is the client's own");
    }
}

#[tokio::test]
async fn the_gateway_promises_to_tell_of_lists_whatever_its_servers_do() {
    let desk = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::builder().policy(OPEN).at_aggregate().start(&desk).await;
    let opened = gw.initialize().await.message();
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(opened["result"]["capabilities"][list]["listChanged"], true, "{opened}");
    }
    assert!(opened["result"]["capabilities"]["resources"].get("subscribe").is_none(), "that is for servers to say");
}

#[tokio::test]
async fn a_call_is_cancelled_though_the_session_of_its_server_is_over() {
    let (is_old, hung_up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (old, noted) = (Arc::clone(&is_old), Arc::clone(&hung_up));
    let desk =
        FakeUpstream::start(json!([tool_definition("slow"), tool_definition("read")]), move |hit: &RecordedRequest| {
            match (old.load(Ordering::Acquire), hit.method().as_str()) {
                (true, _) if hit.header("mcp-method").is_some() => Some(json_response("404 Not Found", "", "{}")),
                (true, _) => None,
                (false, "tools/call") => Some(
                    [
                        stream_headers(),
                        vec![ScriptStep::Write(chunk(": here\n\n")), ScriptStep::WaitForHangUp(Arc::clone(&noted))],
                    ]
                    .concat(),
                ),
                (false, _) => stateless_response(
                    hit,
                    &json!([tool_definition("slow"), tool_definition("read")]),
                    &json!({"tools": {}}),
                ),
            }
        })
        .await;
    let gw = TestGateway::builder().policy(OPEN).at_aggregate().start(&desk).await;
    gw.initialize().await;
    let call =
        |id: u8, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}});
    let _slow = start_in_session(&gw, "POST", "/mcp", "", &call(9, "desk__slow").to_string()).await;
    wait_until("it is called", || desk.calls().len() == 1).await;
    is_old.store(true, Ordering::Release);
    // The server speaks otherwise by now, so that the session for it is over, and another one is opened.
    gw.send(&call(10, "desk__read")).await;
    let again = gw.send(&call(11, "desk__read")).await;
    assert_eq!(again.text(), "null", "{}", again.body);
    assert!(!hung_up.load(Ordering::Acquire), "the call goes on");
    gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})).await;
    wait_until("it is cancelled", || hung_up.load(Ordering::Acquire)).await;
}

#[tokio::test]
async fn a_session_that_begins_while_a_server_starts_is_told_what_that_server_said_last() {
    let desk = FakeUpstream::with_tools(&["read"]).await;
    let late = FakeUpstream::start(json!([tool_definition("think")]), |hit: &RecordedRequest| {
        let result = json!({"protocolVersion": hit.message()["params"]["protocolVersion"],
            "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "late", "version": "1"},
            "instructions": "think first"});
        let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
        let mut script = vec![ScriptStep::Pause(Duration::from_millis(1_000))];
        script.extend(json_response("200 OK", "", &text));
        (hit.method() == "initialize").then_some(script)
    })
    .await;
    let gw =
        TestGateway::builder().policy(OPEN).at_aggregate().with_server("late", &late.url(), OPEN).start(&desk).await;
    let first = gw.initialize().await.message()["result"].clone();
    assert_eq!(first["instructions"], Value::Null, "it has said nothing yet: {first}");
    wait_until("the server has answered", || {
        late.requests().iter().any(|hit| hit.method() == "notifications/initialized")
    })
    .await;
    let second = gw.initialize().await.message()["result"].clone();
    assert_eq!(second["instructions"], "# late\n\nthink first", "{second}");
    assert!(second["capabilities"]["logging"].is_object(), "{second}");
}
