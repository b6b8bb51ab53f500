//! Rows R2 and R10 for servers that we run: one that does not answer the first question, and a call that is cancelled.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use gatelodge_gateway::{GatewaySettings, PinningSettings};
use gatelodge_store::CallOutcome;
use gatelodge_testkit::TestGateway;
use serde_json::{Value, json};

use super::rows_kit::{ALL, Caller, begin_in_session, until};

/// A server at standard streams that writes down what it hears. It is `mute` where it is asked what it does not know,
/// `modern`, or takes `only` requests that stand alone. Its tool `slow` never answers, and `busy` hears nothing for 6 s.
const SERVER: &str = r#"
import json, sys, time
era, heard = sys.argv[1:3]
for line in sys.stdin:
    with open(heard, "a") as file:
        file.write(line)
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "slow", "busy")]
    if method == "initialize" and era == "only":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    if method == "tools/call" and params["name"] == "busy":
        time.sleep(6)
    if method == "server/discover" and era != "mute":
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

async fn before(era: &str, directory: &Path) -> TestGateway {
    before_fresh(era, directory, PinningSettings::default()).await
}

async fn before_fresh(era: &str, directory: &Path, accepting: PinningSettings) -> TestGateway {
    let (server, heard) = (directory.join("server.py"), directory.join("heard"));
    std::fs::write(&server, SERVER).expect("written");
    let settings = GatewaySettings { connect_timeout: Duration::from_millis(500), ..GatewaySettings::default() };
    let script = format!("exec python3 {} {era} {}", server.display(), heard.display());
    TestGateway::builder().policy(ALL).settings(settings).pinning(accepting).start_process(&script).await
}

fn heard(directory: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("heard")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn count(directory: &Path, method: &str) -> usize {
    heard(directory).iter().filter(|message| message["method"] == method).count()
}

#[tokio::test]
async fn r10_a_process_that_is_silent_when_it_is_asked_how_it_speaks_gets_a_session_within_a_bound() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before("mute", directory.path()).await;
    let began = Instant::now();
    let answer = Caller::of(&gw).call("read", json!({"n": 1})).await;
    assert_eq!(answer.text(), r#"{"n": 1}"#, "{}", answer.body);
    assert!(began.elapsed() >= Duration::from_secs(1), "it was given its time");
    assert!(GatewaySettings::default().connect_timeout * 2 <= Duration::from_secs(10), "well below what clients wait");
    assert_eq!((count(directory.path(), "server/discover"), count(directory.path(), "initialize")), (1, 1));
    for n in 2..5 {
        assert_eq!(
            Caller::of(&gw).call("read", json!({"n": n})).await.text(),
            json!({"n": n}).to_string().replace(':', ": ")
        );
    }
    assert_eq!(gw.call("read", json!({"n": 9})).await.text(), r#"{"n": 9}"#, "and so does a client with a session");
    assert_eq!(count(directory.path(), "server/discover"), 1, "nobody waits for the verdict again");
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn r2_who_hangs_up_without_a_session_cancels_at_a_process_of_either_era_under_its_id() {
    for era in ["modern", "mute"] {
        let directory = tempfile::tempdir().expect("a directory");
        let gw = before(era, directory.path()).await;
        let stream = Caller::of(&gw).begin("tools/call", json!({"name": "slow", "arguments": {}})).await;
        until("the call arrives", || count(directory.path(), "tools/call") == 1).await;
        let all = heard(directory.path());
        let call = all.iter().find(|message| message["method"] == "tools/call").expect("the call")["id"].clone();
        // A question that stays without an answer is taken back, too.
        let is_cancelled = || heard(directory.path()).iter().any(|message| message["params"]["requestId"] == call);
        assert!(!is_cancelled(), "{era}");
        drop(stream);
        until("it is told", is_cancelled).await;
        assert!(gw.rows().await.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)), "{era}");
        assert_eq!(Caller::of(&gw).call("read", json!({})).await.text(), "{}", "the process is none the worse for it");
        gw.assert_stops_promptly().await;
    }
}

fn call(id: u8, tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}}).to_string()
}

#[tokio::test]
async fn r2_who_cancels_in_a_session_cancels_at_a_process_that_knows_of_none_under_its_id() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before("only", directory.path()).await;
    assert_eq!(gw.initialize().await.status, 200);
    let _stream = begin_in_session(&gw, "POST", "/mcp/desk", "", &call(9, "slow")).await;
    until("the call arrives", || count(directory.path(), "tools/call") == 1).await;
    let all = heard(directory.path());
    let own = all.iter().find(|message| message["method"] == "tools/call").expect("the call")["id"].clone();
    gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})).await;
    let is_told = || heard(directory.path()).iter().any(|message| message["params"]["requestId"] == own);
    until("it is told", is_told).await;
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn a_call_waits_while_its_process_is_busy_with_another_one_and_is_judged_by_what_it_says_then() {
    for era in ["mute", "only"] {
        let directory = tempfile::tempdir().expect("a directory");
        let accepting = PinningSettings { check_definitions: Duration::from_millis(1), ..PinningSettings::default() };
        let gw = before_fresh(era, directory.path(), accepting).await;
        gw.initialize().await;
        let _busy = begin_in_session(&gw, "POST", "/mcp/desk", "", &call(9, "busy")).await;
        until("the call arrives", || count(directory.path(), "tools/call") == 1).await;
        let answer = gw.call("read", json!({"n": 1})).await;
        assert_eq!(answer.text(), r#"{"n": 1}"#, "{era}: {}", answer.body);
        let methods: Vec<Value> = heard(directory.path()).into_iter().map(|own| own["method"].clone()).collect();
        assert_eq!(methods[methods.len() - 2..], ["tools/list", "tools/call"], "{era}: {methods:?}");
        gw.assert_stops_promptly().await;
    }
}
