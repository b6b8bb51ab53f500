//! The aggregate endpoint with unavailable servers: other servers are not delayed, and pinned tools of an unavailable
//! server stay listed with a mark.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, json_response, tool_definition,
};
use serde_json::{Value, json};

use super::support::stop_and_wait;

const OPEN: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"*":{}},"prompts":{"*":{}}}"#;
const MARK: &str = "gatelodge/unavailable";

fn page(hit: &RecordedRequest, tools: &[Value], next: Option<String>) -> Option<ResponseScript> {
    let mut result = json!({"tools": tools});
    if let Some(next) = next {
        result["nextCursor"] = json!(next);
    }
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
    Some(json_response("200 OK", "", &text))
}

fn all_tools() -> Vec<Value> {
    (0..25).map(|number| tool_definition(&format!("tool-{number:02}"))).collect()
}

// Behaviors of a server that does not list its tools properly.
const HANGS: usize = 1;
const NEW_CURSORS_FOREVER: usize = 2;
const SAME_CURSOR_FOREVER: usize = 3;

/// Handles `tools/list` of a server with 25 tools in three pages, unless `behavior` is one of the constants above.
fn in_pages(behavior: Arc<AtomicUsize>) -> impl Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync + 'static {
    move |hit| {
        if hit.method() != "tools/list" {
            return None;
        }
        let at: usize = hit.message()["params"]["cursor"].as_str().and_then(|at| at.parse().ok()).unwrap_or(0);
        let tools = all_tools();
        let next = (at + 10).to_string();
        match behavior.load(Ordering::Relaxed) {
            HANGS => Some(vec![ScriptStep::Pause(Duration::from_secs(5)), ScriptStep::Close]),
            NEW_CURSORS_FOREVER => {
                let mut script = vec![ScriptStep::Pause(Duration::from_millis(10))];
                script.extend(page(hit, &tools[..5], Some((at + 1).to_string()))?);
                Some(script)
            }
            SAME_CURSOR_FOREVER if at >= 20 => page(hit, &tools[20..], Some("20".to_owned())),
            _ if at >= 20 => page(hit, &tools[20..], None),
            _ => page(hit, &tools[at..at + 10], Some(next)),
        }
    }
}

/// Lists the tools, and returns the result and how long that took.
async fn list_tools(gw: &TestGateway) -> (Value, Duration) {
    let started = Instant::now();
    let response = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.message();
    (response["result"].clone(), started.elapsed())
}

fn names(list: &Value) -> Vec<String> {
    let tools = list["tools"].as_array().unwrap_or_else(|| panic!("no tools in {list}"));
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn the_list_of_twenty_servers_is_complete_and_in_time_though_four_of_them_misbehave() {
    let mut builder = TestGateway::builder().policy(OPEN).at_aggregate();
    let behaviors: Vec<Arc<AtomicUsize>> = (0..20).map(|_| Arc::default()).collect();
    let upstream = FakeUpstream::start(json!([]), in_pages(Arc::clone(&behaviors[0]))).await;
    let mut others = Vec::new();
    for (number, behavior) in behaviors.iter().enumerate().skip(1) {
        let other = FakeUpstream::start(json!([]), in_pages(Arc::clone(behavior))).await;
        builder = builder.with_server(&format!("server-{number:02}"), &other.url(), OPEN);
        others.push(other);
    }
    let gw = builder.start(&upstream).await;
    let servers = std::iter::once("desk".to_owned()).chain((1..20).map(|number| format!("server-{number:02}")));
    let expected: Vec<String> =
        servers.flat_map(|server| (0..25).map(move |number| format!("{server}__tool-{number:02}"))).collect();

    gw.initialize().await;
    let (list, _) = complete_list(&gw).await;
    assert_eq!(names(&list), expected, "complete, in order, each once");
    assert!(list.get("nextCursor").is_none());

    others[2].stop();
    behaviors[5].store(HANGS, Ordering::Relaxed);
    behaviors[9].store(NEW_CURSORS_FOREVER, Ordering::Relaxed);
    behaviors[12].store(SAME_CURSOR_FOREVER, Ordering::Relaxed);
    gw.change_grants(|_| ());
    let mut fewest_marked = 500;
    for _ in 0..5 {
        let (list, took) = list_tools(&gw).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(names(&list), expected, "pinned tools stay listed");
        let marked = list["tools"].as_array().expect("tools").iter().filter(|tool| tool["_meta"][MARK].is_string());
        let marked: Vec<&str> = marked.map(|tool| tool["name"].as_str().expect("a name")).collect();
        for server in ["server-03", "server-05", "server-09"] {
            assert_eq!(marked.iter().filter(|name| name.starts_with(server)).count(), 25, "{server}");
            assert!(list["_meta"][MARK][server].is_string(), "{}", list["_meta"]);
        }
        fewest_marked = fewest_marked.min(marked.len());
    }
    // On a busy machine another server may miss the deadline in some of the rounds.
    assert_eq!(fewest_marked, 75, "the other servers respond");
}

/// Lists the tools until every server has responded. Returns the last result and how long it took.
async fn complete_list(gw: &TestGateway) -> (Value, Duration) {
    for _ in 0..20 {
        let (list, took) = list_tools(gw).await;
        if list.get("_meta").is_none() {
            return (list, took);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    panic!("some servers do not respond");
}

#[tokio::test]
async fn a_call_to_a_stopped_server_is_refused_with_the_reason_and_hidden_tools_stay_hidden() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let zoo = FakeUpstream::with_tools(&["feed", "secret"]).await;
    let policy = r#"{"version":"1","default":"deny","tools":{"feed":{}}}"#;
    let gw = TestGateway::builder()
        .policy(OPEN)
        .at_aggregate()
        .with_server("zoo", &zoo.url(), policy)
        .start(&upstream)
        .await;
    assert_eq!(names(&list_tools(&gw).await.0), ["desk__read", "zoo__feed"]);
    stop_and_wait(&zoo).await;
    let (list, _) = list_tools(&gw).await;
    assert_eq!(names(&list), ["desk__read", "zoo__feed"]);
    assert!(list["tools"][0].get("_meta").is_none());
    assert!(list["tools"][1]["_meta"][MARK].as_str().expect("a mark").contains("cannot be reached"), "{list}");
    let call = |name: &'static str| gw.call(name, json!({}));
    assert!(call("zoo__feed").await.text().contains("cannot be reached"));
    assert_eq!(call("zoo__secret").await.code(), -32602);
    assert_eq!(call("desk__read").await.text(), "{}");

    // The same holds for a new client, stateful or stateless.
    gw.initialize().await;
    assert!(call("zoo__feed").await.text().contains("the server cannot be reached; nothing was sent"));
    assert_eq!(call("zoo__secret").await.code(), -32602);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    for (name, is_hidden) in [("zoo__feed", false), ("zoo__secret", true)] {
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)];
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "_meta": meta}});
        let response = gw.post(&headers, &body.to_string()).await;
        if is_hidden {
            assert_eq!(response.code(), -32602);
        } else {
            assert!(response.text().contains("cannot be reached"), "{}", response.body);
        }
    }
}

#[tokio::test]
async fn a_slow_server_is_listed_with_its_last_known_tools() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let slow = FakeUpstream::start(json!([tool_definition("think")]), |hit| {
        let mut script = vec![ScriptStep::Pause(Duration::from_millis(1000))];
        let text =
            json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"tools": [tool_definition("think")]}})
                .to_string();
        script.extend(json_response("200 OK", "", &text));
        (hit.method() == "tools/list").then_some(script)
    })
    .await;
    let gw = TestGateway::builder()
        .policy(OPEN)
        .at_aggregate()
        .with_server("slow", &slow.url(), OPEN)
        .start(&upstream)
        .await;
    gw.initialize().await;
    let (list, took) = list_tools(&gw).await;
    assert_eq!(names(&list), ["desk__read"], "no definition of it is pinned yet");
    assert!(list["_meta"][MARK]["slow"].is_string() && took < Duration::from_secs(1), "{list} {took:?}");
    let (list, took) = complete_list(&gw).await;
    assert_eq!(names(&list), ["desk__read", "slow__think"]);
    assert!(took < Duration::from_secs(1), "{list} {took:?}");
    assert_eq!(gw.call("slow__think", json!({})).await.text(), "{}");
}
