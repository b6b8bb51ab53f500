//! Servers that run as child processes over stdio: protocol detection, cancellation, and calls while the process is
//! busy.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use gatelodge_gateway::{GatewaySettings, PinningSettings};
use gatelodge_store::CallOutcome;
use gatelodge_testkit::TestGateway;
use serde_json::{Value, json};

use super::support::{ALLOW_ALL, StatelessTestClient, start_in_session, wait_until};

/// Stdio server that records what it receives. Mode `mute` ignores unknown methods, `both` also answers
/// `server/discover`, `stateless-only` refuses `initialize`. Its tool `slow` never answers; `busy` blocks the process
/// for 6 s.
const SERVER: &str = r#"
import json, sys, time
mode, received = sys.argv[1:3]
for line in sys.stdin:
    with open(received, "a") as file:
        file.write(line)
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "slow", "busy")]
    if method == "initialize" and mode == "stateless-only":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    if method == "tools/call" and params["name"] == "busy":
        time.sleep(6)
    if method == "server/discover" and mode != "mute":
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    elif method == "initialize":
        info = {"name": "quiet", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"resultType": "complete", "tools": tools}
    elif method == "tools/call" and params["name"] != "slow":
        result = {"resultType": "complete", "content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

async fn start_gateway(mode: &str, directory: &Path) -> TestGateway {
    start_gateway_with_pinning(mode, directory, PinningSettings::default()).await
}

async fn start_gateway_with_pinning(mode: &str, directory: &Path, pinning: PinningSettings) -> TestGateway {
    let (server, record) = (directory.join("server.py"), directory.join("received"));
    std::fs::write(&server, SERVER).expect("written");
    let settings = GatewaySettings { connect_timeout: Duration::from_millis(500), ..GatewaySettings::default() };
    let script = format!("exec python3 {} {mode} {}", server.display(), record.display());
    TestGateway::builder().policy(ALLOW_ALL).settings(settings).pinning(pinning).start_process(&script).await
}

fn received_messages(directory: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("received")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn received_count(directory: &Path, method: &str) -> usize {
    received_messages(directory).iter().filter(|message| message["method"] == method).count()
}

#[tokio::test]
async fn process_that_ignores_discovery_gets_a_session_within_the_time_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway("mute", directory.path()).await;
    let began = Instant::now();
    let response = StatelessTestClient::new(&gw).call("read", json!({"n": 1})).await;
    assert_eq!(response.text(), r#"{"n": 1}"#, "{}", response.body);
    assert!(began.elapsed() >= Duration::from_secs(1), "the gateway waits for the process to answer");
    assert!(
        GatewaySettings::default().connect_timeout * 2 <= Duration::from_secs(10),
        "well below usual client timeouts"
    );
    assert_eq!(
        (received_count(directory.path(), "server/discover"), received_count(directory.path(), "initialize")),
        (1, 1)
    );
    for n in 2..5 {
        assert_eq!(
            StatelessTestClient::new(&gw).call("read", json!({"n": n})).await.text(),
            json!({"n": n}).to_string().replace(':', ": ")
        );
    }
    assert_eq!(gw.call("read", json!({"n": 9})).await.text(), r#"{"n": 9}"#, "a stateful client is served, too");
    assert_eq!(received_count(directory.path(), "server/discover"), 1, "the detected protocol is remembered");
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn stateless_disconnect_cancels_the_call_at_the_process() {
    for mode in ["both", "mute"] {
        let directory = tempfile::tempdir().expect("a directory");
        let gw = start_gateway(mode, directory.path()).await;
        let stream =
            StatelessTestClient::new(&gw).start_request("tools/call", json!({"name": "slow", "arguments": {}})).await;
        wait_until("the call arrives", || received_count(directory.path(), "tools/call") == 1).await;
        let all = received_messages(directory.path());
        let call = all.iter().find(|message| message["method"] == "tools/call").expect("the call")["id"].clone();
        // The unanswered `server/discover` is cancelled as well, so the id has to match.
        let is_cancelled =
            || received_messages(directory.path()).iter().any(|message| message["params"]["requestId"] == call);
        assert!(!is_cancelled(), "{mode}");
        drop(stream);
        wait_until("the process receives the cancellation", is_cancelled).await;
        assert!(gw.rows().await.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)), "{mode}");
        assert_eq!(
            StatelessTestClient::new(&gw).call("read", json!({})).await.text(),
            "{}",
            "the process still serves calls"
        );
        gw.assert_stops_promptly().await;
    }
}

fn call(id: u8, tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}}).to_string()
}

#[tokio::test]
async fn cancellation_in_a_session_reaches_a_stateless_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway("stateless-only", directory.path()).await;
    assert_eq!(gw.initialize().await.status, 200);
    let _stream = start_in_session(&gw, "POST", "/mcp/desk", "", &call(9, "slow")).await;
    wait_until("the call arrives", || received_count(directory.path(), "tools/call") == 1).await;
    let all = received_messages(directory.path());
    let call_id = all.iter().find(|message| message["method"] == "tools/call").expect("the call")["id"].clone();
    gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})).await;
    let is_cancelled =
        || received_messages(directory.path()).iter().any(|message| message["params"]["requestId"] == call_id);
    wait_until("the process receives the cancellation", is_cancelled).await;
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn call_to_a_busy_process_waits_for_its_tool_list() {
    for mode in ["mute", "stateless-only"] {
        let directory = tempfile::tempdir().expect("a directory");
        let pinning = PinningSettings { check_definitions: Duration::from_millis(1), ..PinningSettings::default() };
        let gw = start_gateway_with_pinning(mode, directory.path(), pinning).await;
        gw.initialize().await;
        let _busy = start_in_session(&gw, "POST", "/mcp/desk", "", &call(9, "busy")).await;
        wait_until("the call arrives", || received_count(directory.path(), "tools/call") == 1).await;
        let response = gw.call("read", json!({"n": 1})).await;
        assert_eq!(response.text(), r#"{"n": 1}"#, "{mode}: {}", response.body);
        let methods: Vec<Value> =
            received_messages(directory.path()).into_iter().map(|message| message["method"].clone()).collect();
        assert_eq!(methods[methods.len() - 2..], ["tools/list", "tools/call"], "{mode}: {methods:?}");
        gw.assert_stops_promptly().await;
    }
}
