//! Sessions at the aggregate endpoint: the handshake, advertised capabilities, slow servers, and cancellation.
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

use super::support::{chunk, read_until, start_in_session, stateless_response, stream_headers, wait_until};

const OPEN: &str = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
const VERSION: &str = "2026-07-28";
const TOOLS: &str = "notifications/tools/list_changed";

fn list_slowly(hit: &RecordedRequest) -> Option<ResponseScript> {
    let mut script = vec![ScriptStep::Pause(Duration::from_millis(1_000))];
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"tools": [tool_definition("think")]}})
        .to_string();
    script.extend(json_response("200 OK", "", &text));
    (hit.method() == "tools/list").then_some(script)
}

fn meta() -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}})
}

/// Opens the stream for notifications, and waits until it is open.
async fn open_stream(gw: &TestGateway, is_stateless: bool) -> TcpStream {
    let notifications = json!({"toolsListChanged": true, "promptsListChanged": true});
    let body = json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": {"notifications": notifications, "_meta": meta()}});
    let (verb, headers, body) = if is_stateless {
        let headers = format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: subscriptions/listen\r\n");
        ("POST", headers, body.to_string())
    } else {
        gw.initialize().await;
        ("GET", format!("Mcp-Session-Id: {}\r\n", gw.session()), String::new())
    };
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let head = format!(
        "{verb} /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        gw.token.reveal(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    read_until(&mut stream, if is_stateless { "acknowledged" } else { "\r\n\r\n" }, 1).await;
    stream
}

/// Returns the messages that arrive within `time`.
async fn read_messages(stream: &mut TcpStream, time: Duration) -> Vec<Value> {
    let mut raw = Vec::new();
    let _ = tokio::time::timeout(time, stream.read_to_end(&mut raw)).await;
    let raw = String::from_utf8_lossy(&raw).into_owned();
    let data = raw.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

async fn list_tools(gw: &TestGateway, is_stateless: bool) -> Vec<String> {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}).to_string();
    let response = if is_stateless {
        gw.post(&[("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/list")], &list).await
    } else {
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await
    };
    let tools = response.message()["result"]["tools"].as_array().cloned().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn a_client_is_notified_when_the_list_of_a_slow_server_arrives() {
    for is_stateless in [false, true] {
        let upstream = FakeUpstream::with_tools(&["read"]).await;
        let slow = FakeUpstream::start(json!([]), list_slowly).await;
        let gw = TestGateway::builder()
            .policy(OPEN)
            .at_aggregate()
            .with_server("slow", &slow.url(), OPEN)
            .start(&upstream)
            .await;
        let mut stream = open_stream(&gw, is_stateless).await;
        assert_eq!(list_tools(&gw, is_stateless).await, ["desk__read"], "the slow server has not responded yet");
        let messages = read_messages(&mut stream, Duration::from_millis(1_200)).await;
        let changes: Vec<&Value> = messages
            .iter()
            .filter(|message| message["method"].as_str().is_some_and(|method| method.ends_with("list_changed")))
            .collect();
        assert_eq!(changes.len(), 1, "once, for that list: {changes:?}");
        assert_eq!(changes[0]["method"], TOOLS);
        if is_stateless {
            assert_eq!(changes[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
        }
        assert_eq!(list_tools(&gw, is_stateless).await, ["desk__read", "slow__think"]);
    }
}

#[tokio::test]
async fn servers_are_initialized_with_the_negotiated_revision() {
    for (requested, negotiated) in [
        (Some("2030-01-01"), "2025-11-25"),
        (Some("latest"), "2025-11-25"),
        (Some(VERSION), "2025-11-25"),
        (None, "2025-11-25"),
        (Some("2025-03-26"), "2025-03-26"),
    ] {
        let upstream = FakeUpstream::with_tools(&["read"]).await;
        let gw = TestGateway::builder().policy(OPEN).at_aggregate().start(&upstream).await;
        let mut params = json!({"capabilities": {"roots": {}}, "clientInfo": {"name": "odd", "version": "1.10"}});
        if let Some(requested) = requested {
            params["protocolVersion"] = json!(requested);
        }
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = gw.post(&[], &initialize.to_string()).await.message();
        assert_eq!(response["result"]["protocolVersion"], negotiated, "{response}");
        let sent =
            upstream.requests().into_iter().find(|hit| hit.method() == "initialize").expect("a handshake").message();
        params["protocolVersion"] = json!(negotiated);
        assert_eq!(sent["params"], params, "everything else is forwarded unchanged");
    }
}

#[tokio::test]
async fn list_changed_is_advertised_whatever_the_servers_advertise() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::builder().policy(OPEN).at_aggregate().start(&upstream).await;
    let opened = gw.initialize().await.message();
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(opened["result"]["capabilities"][list]["listChanged"], true, "{opened}");
    }
    assert!(opened["result"]["capabilities"]["resources"].get("subscribe").is_none(), "only if a server supports it");
}

#[tokio::test]
async fn a_call_can_be_cancelled_after_the_session_of_its_server_was_replaced() {
    let (is_stateful, hung_up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (stateful, hang_up) = (Arc::clone(&is_stateful), Arc::clone(&hung_up));
    let upstream =
        FakeUpstream::start(json!([tool_definition("slow"), tool_definition("read")]), move |hit: &RecordedRequest| {
            match (stateful.load(Ordering::Acquire), hit.method().as_str()) {
                (true, _) if hit.header("mcp-method").is_some() => Some(json_response("404 Not Found", "", "{}")),
                (true, _) => None,
                (false, "tools/call") => Some(
                    [
                        stream_headers(),
                        vec![ScriptStep::Write(chunk(": here\n\n")), ScriptStep::WaitForHangUp(Arc::clone(&hang_up))],
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
    let gw = TestGateway::builder().policy(OPEN).at_aggregate().start(&upstream).await;
    gw.initialize().await;
    let call =
        |id: u8, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}});
    let _slow = start_in_session(&gw, "POST", "/mcp", "", &call(9, "desk__slow").to_string()).await;
    wait_until("the call arrives", || upstream.calls().len() == 1).await;
    is_stateful.store(true, Ordering::Release);
    // The server is stateful from now on, so the gateway drops its session for the stateless one and opens another.
    gw.send(&call(10, "desk__read")).await;
    let response = gw.send(&call(11, "desk__read")).await;
    assert_eq!(response.text(), "null", "{}", response.body);
    assert!(!hung_up.load(Ordering::Acquire), "the call still runs");
    gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})).await;
    wait_until("the call is cancelled", || hung_up.load(Ordering::Acquire)).await;
}

#[tokio::test]
async fn a_session_that_starts_while_a_server_initializes_gets_its_last_known_instructions() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
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
    let gw = TestGateway::builder()
        .policy(OPEN)
        .at_aggregate()
        .with_server("late", &late.url(), OPEN)
        .start(&upstream)
        .await;
    let first = gw.initialize().await.message()["result"].clone();
    assert_eq!(first["instructions"], Value::Null, "the server has not responded yet: {first}");
    wait_until("the server has responded", || {
        late.requests().iter().any(|hit| hit.method() == "notifications/initialized")
    })
    .await;
    let second = gw.initialize().await.message()["result"].clone();
    assert_eq!(second["instructions"], "# late\n\nthink first", "{second}");
    assert!(second["capabilities"]["logging"].is_object(), "{second}");
}
