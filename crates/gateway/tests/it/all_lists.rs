//! `/mcp` where servers do not answer: the others are not delayed, what was accepted stays listed, and is marked.
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

/// A server of 25 tools in three pages, which changes its ways when it is told to.
fn in_pages(ways: Arc<AtomicUsize>) -> impl Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync + 'static {
    move |hit| {
        if hit.method() != "tools/list" {
            return None;
        }
        let at: usize = hit.message()["params"]["cursor"].as_str().and_then(|at| at.parse().ok()).unwrap_or(0);
        let tools = all_tools();
        let next = (at + 10).to_string();
        match ways.load(Ordering::Relaxed) {
            1 => Some(vec![ScriptStep::Pause(Duration::from_secs(5)), ScriptStep::Close]),
            // It gives another cursor for ever.
            2 => {
                let mut script = vec![ScriptStep::Pause(Duration::from_millis(10))];
                script.extend(page(hit, &tools[..5], Some((at + 1).to_string()))?);
                Some(script)
            }
            // It gives the same cursor for ever.
            3 if at >= 20 => page(hit, &tools[20..], Some("20".to_owned())),
            _ if at >= 20 => page(hit, &tools[20..], None),
            _ => page(hit, &tools[at..at + 10], Some(next)),
        }
    }
}

async fn listed(gw: &TestGateway) -> (Value, Duration) {
    let begun = Instant::now();
    let answer = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.message();
    (answer["result"].clone(), begun.elapsed())
}

fn names(list: &Value) -> Vec<String> {
    let tools = list["tools"].as_array().unwrap_or_else(|| panic!("no tools in {list}"));
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn twenty_servers_with_five_hundred_tools_are_one_list_whoever_of_them_fails() {
    let mut builder = TestGateway::builder().policy(OPEN).at_aggregate();
    let ways: Vec<Arc<AtomicUsize>> = (0..20).map(|_| Arc::default()).collect();
    let desk = FakeUpstream::start(json!([]), in_pages(Arc::clone(&ways[0]))).await;
    let mut others = Vec::new();
    for (number, way) in ways.iter().enumerate().skip(1) {
        let upstream = FakeUpstream::start(json!([]), in_pages(Arc::clone(way))).await;
        builder = builder.with_server(&format!("server-{number:02}"), &upstream.url(), OPEN);
        others.push(upstream);
    }
    let gw = builder.start(&desk).await;
    let servers = std::iter::once("desk".to_owned()).chain((1..20).map(|number| format!("server-{number:02}")));
    let want: Vec<String> =
        servers.flat_map(|server| (0..25).map(move |number| format!("{server}__tool-{number:02}"))).collect();

    gw.initialize().await;
    let list = complete(&gw).await;
    assert_eq!(names(&list), want, "complete, in order, each once");
    assert!(list.get("nextCursor").is_none());

    others[2].stop();
    ways[5].store(1, Ordering::Relaxed);
    ways[9].store(2, Ordering::Relaxed);
    ways[12].store(3, Ordering::Relaxed);
    gw.change_grants(|_| ());
    let mut most = 500;
    for _ in 0..5 {
        let (list, took) = listed(&gw).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(names(&list), want, "what was accepted stays listed");
        let marked = list["tools"].as_array().expect("tools").iter().filter(|tool| tool["_meta"][MARK].is_string());
        let marked: Vec<&str> = marked.map(|tool| tool["name"].as_str().expect("a name")).collect();
        for server in ["server-03", "server-05", "server-09"] {
            assert_eq!(marked.iter().filter(|name| name.starts_with(server)).count(), 25, "{server}");
            assert!(list["_meta"][MARK][server].is_string(), "{}", list["_meta"]);
        }
        most = most.min(marked.len());
    }
    // On a busy machine others may be late now and then.
    assert_eq!(most, 75, "the others answer");
}

/// The list when every server has answered, however long they take to begin with.
async fn complete(gw: &TestGateway) -> Value {
    for _ in 0..20 {
        let (list, _) = listed(gw).await;
        if list.get("_meta").is_none() {
            return list;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    panic!("the servers do not answer");
}

#[tokio::test]
async fn a_call_to_a_server_that_is_gone_says_so_and_what_is_hidden_stays_hidden() {
    let desk = FakeUpstream::with_tools(&["read"]).await;
    let zoo = FakeUpstream::with_tools(&["feed", "secret"]).await;
    let policy = r#"{"version":"1","default":"deny","tools":{"feed":{}}}"#;
    let gw =
        TestGateway::builder().policy(OPEN).at_aggregate().with_server("zoo", &zoo.url(), policy).start(&desk).await;
    assert_eq!(names(&listed(&gw).await.0), ["desk__read", "zoo__feed"]);
    stop_and_wait(&zoo).await;
    let (list, _) = listed(&gw).await;
    assert_eq!(names(&list), ["desk__read", "zoo__feed"]);
    assert!(list["tools"][0].get("_meta").is_none());
    assert!(list["tools"][1]["_meta"][MARK].as_str().expect("a mark").contains("cannot be reached"), "{list}");
    let call = |name: &'static str| gw.call(name, json!({}));
    assert!(call("zoo__feed").await.text().contains("cannot be reached"));
    assert_eq!(call("zoo__secret").await.code(), -32602);
    assert_eq!(call("desk__read").await.text(), "{}");

    // The same for a client that comes now, with a session or without.
    gw.initialize().await;
    assert!(call("zoo__feed").await.text().contains("the server cannot be reached; nothing was sent"));
    assert_eq!(call("zoo__secret").await.code(), -32602);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    for (name, is_hidden) in [("zoo__feed", false), ("zoo__secret", true)] {
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)];
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "_meta": meta}});
        let answer = gw.post(&headers, &body.to_string()).await;
        if is_hidden {
            assert_eq!(answer.code(), -32602);
        } else {
            assert!(answer.text().contains("cannot be reached"), "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_server_that_is_only_slow_is_listed_by_what_it_said_last() {
    let desk = FakeUpstream::with_tools(&["read"]).await;
    let slow = FakeUpstream::start(json!([tool_definition("think")]), |hit| {
        let mut script = vec![ScriptStep::Pause(Duration::from_millis(1000))];
        let text =
            json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"tools": [tool_definition("think")]}})
                .to_string();
        script.extend(json_response("200 OK", "", &text));
        (hit.method() == "tools/list").then_some(script)
    })
    .await;
    let gw =
        TestGateway::builder().policy(OPEN).at_aggregate().with_server("slow", &slow.url(), OPEN).start(&desk).await;
    gw.initialize().await;
    let (list, took) = listed(&gw).await;
    assert_eq!(names(&list), ["desk__read"], "nothing of it was accepted yet");
    assert!(list["_meta"][MARK]["slow"].is_string() && took < Duration::from_secs(1), "{list} {took:?}");
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (list, took) = listed(&gw).await;
    assert_eq!(names(&list), ["desk__read", "slow__think"]);
    assert!(list.get("_meta").is_none() && took < Duration::from_secs(1), "{list} {took:?}");
    assert_eq!(gw.call("slow__think", json!({})).await.text(), "{}");
}
