//! `resources/subscribe` of stateful clients: subscriptions survive the loss of the upstream session and a restart of
//! the gateway.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use gatelodge_store::{CallLogRow, IdDigest, ManualClock, MemoryStore, RecordKind, SessionRow, Sessions, StoreError};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, json_response,
    tool_definition,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::support::{
    ALLOW_ALL, activate_policy, chunk, event, read_until, request_count, result_message, result_response,
    start_in_session, stateless_response, stream_headers, wait_until,
};

/// Session id of generation 0, in which the server refuses `initialize`.
const NO_SESSION: &str = "s-0";

/// Stateful server that knows only the session of its current generation; a new generation forgets the old session.
async fn stateful_server() -> (Arc<AtomicUsize>, FakeUpstream) {
    let generation = Arc::new(AtomicUsize::new(1));
    let current = Arc::clone(&generation);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", current.load(Ordering::Acquire));
        let is_known = hit.header("mcp-session-id") == Some(&session);
        match hit.method().as_str() {
            "initialize" if session == NO_SESSION => Some(json_response("500 Internal Server Error", "", "")),
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}, "resources": {"subscribe": true}},
                    "serverInfo": {"name": "s", "version": "1"}});
                let header = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &header, &result_message(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if !is_known => Some(json_response("404 Not Found", "", "")),
            _ if hit.request_line.starts_with("GET") => Some(updates(hit)),
            _ => None,
        }
    })
    .await;
    (generation, upstream)
}

/// Stateless server that ends every subscription stream at once.
async fn stateless_server() -> FakeUpstream {
    FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "subscriptions/listen" => result_response(hit, &json!({"resultType": "complete"})),
        _ => stateless_response(
            hit,
            &json!([tool_definition("read")]),
            &json!({"tools": {}, "resources": {"subscribe": true}}),
        ),
    })
    .await
}

/// Resources of each `subscriptions/listen` request.
fn subscribed_uris(upstream: &FakeUpstream) -> Vec<Value> {
    let hits = upstream.requests().into_iter().filter(|hit| hit.method() == "subscriptions/listen");
    hits.map(|hit| hit.message()["params"]["notifications"]["resourceSubscriptions"].clone()).collect()
}

/// Stream that reports an update of one resource and stays open.
fn updates(hit: &RecordedRequest) -> ResponseScript {
    let session = hit.header("mcp-session-id").unwrap_or_default();
    let params = json!({"uri": "note://1", "of": session});
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params});
    let mut script = stream_headers();
    script.push(ScriptStep::Write(chunk(&event(&notification))));
    script.push(ScriptStep::WaitForHangUp(Arc::default()));
    script
}

async fn send(gw: &TestGateway, action: &str, uri: &str) -> TestResponse {
    let method = format!("resources/{action}");
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": uri}})).await
}

/// URIs that were subscribed to in an upstream session.
fn subscribed_in(upstream: &FakeUpstream, session: &str) -> Vec<String> {
    let hits = upstream.requests().into_iter().filter(|hit| hit.header("mcp-session-id") == Some(session));
    let subscribed = hits.filter(|hit| hit.method() == "resources/subscribe");
    subscribed.map(|hit| hit.message()["params"]["uri"].as_str().expect("a URI").to_owned()).collect()
}

/// A gateway for each endpoint, with its path, the URI prefix of resources, and the name of the tool `read`.
async fn endpoints(upstream: &FakeUpstream) -> [(TestGateway, &'static str, &'static str, &'static str); 2] {
    let single = TestGateway::with_policy(ALLOW_ALL, upstream).await;
    let aggregate = TestGateway::builder().policy(ALLOW_ALL).at_aggregate().start(upstream).await;
    [(single, "/mcp/desk", "", "read"), (aggregate, "/mcp", "x-desk+", "desk__read")]
}

#[tokio::test]
async fn subscriptions_are_restored_after_the_server_forgets_its_session() {
    for is_aggregate in [false, true] {
        let (generation, upstream) = stateful_server().await;
        let [single, aggregate] = endpoints(&upstream).await;
        let (gw, path, prefix, tool) = if is_aggregate { aggregate } else { single };
        assert_eq!(gw.initialize().await.status, 200);
        for uri in ["note://1", "note://2", "note://3"] {
            assert_eq!(
                send(&gw, "subscribe", &format!("{prefix}{uri}")).await.message()["result"],
                json!({}),
                "{path}"
            );
        }
        send(&gw, "unsubscribe", &format!("{prefix}note://2")).await;
        generation.store(2, Ordering::Release);
        gw.call(tool, json!({})).await;
        wait_until("the resources are subscribed again", || subscribed_in(&upstream, "s-2").len() == 2).await;
        assert_eq!(
            subscribed_in(&upstream, "s-2"),
            ["note://1", "note://3"],
            "{path}: without the unsubscribed resource"
        );
        assert_eq!(gw.call(tool, json!({"n": 1})).await.text(), r#"{"n":1}"#, "{path}");
    }
}

#[tokio::test]
async fn subscriptions_are_restored_by_reopening_the_stream() {
    let (generation, upstream) = stateful_server().await;
    for (gw, path, prefix, _) in endpoints(&upstream).await {
        let (old_generation, new_generation) =
            (generation.load(Ordering::Acquire), generation.load(Ordering::Acquire) + 1);
        assert_eq!(gw.initialize().await.status, 200);
        send(&gw, "subscribe", &format!("{prefix}note://1")).await;
        let mut stream = start_in_session(&gw, "GET", path, "", "").await;
        read_until(&mut stream, &format!(r#""of":"s-{old_generation}""#), 1).await;
        generation.store(new_generation, Ordering::Release);
        drop(stream);
        let mut stream = start_in_session(&gw, "GET", path, "", "").await;
        read_until(&mut stream, &format!(r#""of":"s-{new_generation}""#), 1).await;
        wait_until("the resources are subscribed again", || {
            subscribed_in(&upstream, &format!("s-{new_generation}")) == ["note://1"]
        })
        .await;
    }
}

#[tokio::test]
async fn subscriptions_survive_a_restart_of_the_gateway() {
    for is_aggregate in [false, true] {
        let (generation, upstream) = stateful_server().await;
        let [single, aggregate] = endpoints(&upstream).await;
        let (mut gw, path, prefix, _) = if is_aggregate { aggregate } else { single };
        assert_eq!(gw.initialize().await.status, 200);
        send(&gw, "subscribe", &format!("{prefix}note://1")).await;
        send(&gw, "subscribe", &format!("{prefix}note://2")).await;
        send(&gw, "unsubscribe", &format!("{prefix}note://2")).await;
        gw.restart().await;
        generation.store(2, Ordering::Release);
        let mut stream = start_in_session(&gw, "GET", path, "", "").await;
        read_until(&mut stream, r#""of":"s-2""#, 1).await;
        wait_until("the resources are subscribed again", || !subscribed_in(&upstream, "s-2").is_empty()).await;
        assert_eq!(subscribed_in(&upstream, "s-2"), ["note://1"], "{path}");
    }
}

#[tokio::test]
async fn subscriptions_at_a_stateless_server_survive_a_restart() {
    let upstream = stateless_server().await;
    let mut gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    send(&gw, "subscribe", "note://1").await;
    gw.restart().await;
    let _ear = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    wait_until("the gateway subscribes", || request_count(&upstream, "subscriptions/listen") == 1).await;
    assert_eq!(subscribed_uris(&upstream), [json!(["note://1"])]);
}

const ONLY_2: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"note://2":{}}}"#;

/// Method and target of each refused row.
async fn refused_rows(gw: &TestGateway) -> Vec<(String, String)> {
    let rows = gw.rows().await.into_iter().map(|row| row.record).filter(|row| row.kind == RecordKind::Refused);
    rows.map(|row| {
        let (method, target) = (row.method.unwrap_or_default(), row.target.unwrap_or_default());
        (method.to_string(), target.to_string())
    })
    .collect()
}

#[tokio::test]
async fn resource_that_the_policy_now_denies_is_not_subscribed_again() {
    for (is_aggregate, is_stateless) in [(false, false), (true, false), (false, true), (true, true)] {
        let (generation, stateful) = stateful_server().await;
        let upstream = if is_stateless { stateless_server().await } else { stateful };
        let [single, aggregate] = endpoints(&upstream).await;
        let (gw, path, prefix, tool) = if is_aggregate { aggregate } else { single };
        assert_eq!(gw.initialize().await.status, 200);
        send(&gw, "subscribe", &format!("{prefix}note://1")).await;
        send(&gw, "subscribe", &format!("{prefix}note://2")).await;
        activate_policy(&gw, ONLY_2);
        generation.store(2, Ordering::Release);
        if is_stateless {
            let _ear = start_in_session(&gw, "GET", path, "", "").await;
            wait_until("the gateway subscribes repeatedly", || request_count(&upstream, "subscriptions/listen") == 2)
                .await;
            assert_eq!(subscribed_uris(&upstream), [json!(["note://2"]), json!(["note://2"])], "{path}");
        } else {
            gw.call(tool, json!({})).await;
            wait_until("the other resource is subscribed", || !subscribed_in(&upstream, "s-2").is_empty()).await;
            assert_eq!(subscribed_in(&upstream, "s-2"), ["note://2"], "{path}");
            generation.store(3, Ordering::Release);
            gw.call(tool, json!({})).await;
            wait_until("it is subscribed in the next session", || !subscribed_in(&upstream, "s-3").is_empty()).await;
        }
        let row = ("resources/subscribe".to_owned(), "note://1".to_owned());
        assert_eq!(refused_rows(&gw).await, [row], "{path}: the refusal is recorded once");
    }
}

#[tokio::test]
async fn unsubscribed_resource_is_forgotten_even_if_server_or_policy_refuses() {
    let generation = Arc::new(AtomicUsize::new(1));
    let current = Arc::clone(&generation);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", current.load(Ordering::Acquire));
        match hit.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
                    "serverInfo": {"name": "s", "version": "1"}});
                let header = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &header, &result_message(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if hit.header("mcp-session-id") != Some(&session) => Some(json_response("404 Not Found", "", "")),
            "resources/unsubscribe" => Some(json_response("500 Internal Server Error", "", "")),
            _ => None,
        }
    })
    .await;
    for (gw, path, prefix, tool) in endpoints(&upstream).await {
        assert_eq!(gw.initialize().await.status, 200);
        for uri in ["note://1", "note://2", "note://3"] {
            send(&gw, "subscribe", &format!("{prefix}{uri}")).await;
        }
        send(&gw, "unsubscribe", &format!("{prefix}note://3")).await;
        activate_policy(&gw, ONLY_2);
        send(&gw, "unsubscribe", &format!("{prefix}note://1")).await;
        activate_policy(&gw, ALLOW_ALL);
        let next = format!("s-{}", generation.fetch_add(1, Ordering::AcqRel) + 1);
        gw.call(tool, json!({})).await;
        wait_until("the resources are subscribed again", || !subscribed_in(&upstream, &next).is_empty()).await;
        // A second call makes sure that any further resource would have been subscribed by now.
        gw.call(tool, json!({})).await;
        assert_eq!(subscribed_in(&upstream, &next), ["note://2"], "{path}");
    }
}

#[tokio::test]
async fn resource_unsubscribed_while_its_server_is_down_is_forgotten() {
    let (generation, upstream) = stateful_server().await;
    let [_, (mut gw, _, prefix, tool)] = endpoints(&upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    for uri in ["note://1", "note://2"] {
        send(&gw, "subscribe", &format!("{prefix}{uri}")).await;
    }
    gw.restart().await;
    generation.store(0, Ordering::Release);
    send(&gw, "unsubscribe", &format!("{prefix}note://1")).await;
    generation.store(2, Ordering::Release);
    gw.call(tool, json!({})).await;
    wait_until("the resources are subscribed again", || !subscribed_in(&upstream, "s-2").is_empty()).await;
    gw.call(tool, json!({})).await;
    assert_eq!(subscribed_in(&upstream, "s-2"), ["note://2"]);
}

#[tokio::test]
async fn failed_resubscription_does_not_block_others_and_is_retried() {
    let (generation, failures_left) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicUsize::new(1)));
    let (current, failures) = (Arc::clone(&generation), Arc::clone(&failures_left));
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", current.load(Ordering::Acquire));
        let message = hit.message();
        match hit.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
                    "serverInfo": {"name": "s", "version": "1"}});
                let header = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &header, &result_message(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if hit.header("mcp-session-id") != Some(&session) => Some(json_response("404 Not Found", "", "")),
            "resources/subscribe" if session == "s-2" && message["params"]["uri"] == "note://1" => {
                let is_first = failures.swap(0, Ordering::AcqRel) == 1;
                is_first.then(|| json_response("503 Service Unavailable", "", ""))
            }
            _ if hit.request_line.starts_with("GET") => Some(updates(hit)),
            _ => None,
        }
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    for uri in ["note://1", "note://2", "note://3"] {
        send(&gw, "subscribe", uri).await;
    }
    generation.store(2, Ordering::Release);
    gw.call("read", json!({})).await;
    wait_until("all resources are subscribed", || subscribed_in(&upstream, "s-2").len() == 3).await;
    wait_until("one subscription has failed", || failures_left.load(Ordering::Acquire) == 0).await;
    let mut stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut stream, r#""of":"s-2""#, 1).await;
    drop(stream);
    let mut stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut stream, r#""of":"s-2""#, 1).await;
    wait_until("all resources are subscribed again", || subscribed_in(&upstream, "s-2").len() == 6).await;
}

/// Stdio server that records when it starts and exits. It exits on `tools/call`, and after that on every
/// `resources/subscribe`.
const EXITING_SERVER: &str = r#"
import atexit, json, os, sys, time
def record():
    with open(sys.argv[1], "a") as file:
        file.write(f"{time.monotonic()}\n")
record()
atexit.register(record)
ended = sys.argv[1] + ".ended"
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "tools/call":
        open(ended, "w").close()
        sys.exit()
    elif method == "resources/subscribe" and os.path.exists(ended):
        sys.exit()
    elif method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"resources": {"subscribe": True}},
            "serverInfo": {"name": "exiting", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "end", "inputSchema": {"type": "object"}}]}
    elif method == "resources/subscribe":
        result = {}
    elif "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn process_that_exits_on_every_subscription_is_restarted_with_backoff() {
    let directory = tempfile::tempdir().expect("a directory");
    let (script_path, timestamps) = (directory.path().join("server.py"), directory.path().join("timestamps"));
    std::fs::write(&script_path, EXITING_SERVER).expect("written");
    let script = format!("exec python3 {} {}", script_path.display(), timestamps.display());
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_process(&script).await;
    assert_eq!(gw.initialize().await.status, 200);
    assert_eq!(send(&gw, "subscribe", "note://1").await.message()["result"], json!({}));
    let mut stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut stream, "200 OK", 1).await;
    let times = || -> Vec<f64> {
        let text = std::fs::read_to_string(&timestamps).unwrap_or_default();
        text.lines().map(|time| time.parse().expect("a time")).collect()
    };
    let times_before = times().len();
    gw.call("end", json!({})).await;
    for expected in [2, 4, 6] {
        // The backoff doubles each time, so this waits longer than `wait_until` does.
        for _ in 0..500 {
            if times().len() >= times_before + expected {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    // The backoff is 1 s, then 2 s, then 4 s.
    let times = times();
    let pauses: Vec<f64> = times[times_before..times_before + 6].chunks(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[2] > 3.5, "{pauses:?}");
}

/// Session store in which writing a single subscription is slow and writing several is fast.
struct SlowSessions(MemoryStore);

#[async_trait]
impl Sessions for SlowSessions {
    async fn put(&self, session: SessionRow) -> Result<(), StoreError> {
        self.0.put(session).await
    }

    async fn find(&self, id: IdDigest) -> Result<Option<SessionRow>, StoreError> {
        Sessions::find(&self.0, id).await
    }

    async fn set_subscriptions(&self, id: IdDigest, uris: Vec<String>) -> Result<(), StoreError> {
        if uris.len() == 1 {
            // Longer than the other subscriptions take, so that a wrong order of writing shows.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
        self.0.set_subscriptions(id, uris).await
    }

    async fn set_log_level(&self, id: IdDigest, level: String) -> Result<(), StoreError> {
        self.0.set_log_level(id, level).await
    }

    async fn touch(&self, ids: Vec<IdDigest>, time: Timestamp) -> Result<(), StoreError> {
        self.0.touch(ids, time).await
    }

    async fn delete(&self, ids: Vec<IdDigest>) -> Result<(), StoreError> {
        self.0.delete(ids).await
    }

    async fn sweep(&self, cutoff: Timestamp) -> Result<usize, StoreError> {
        self.0.sweep(cutoff).await
    }
}

#[tokio::test]
async fn concurrent_subscriptions_are_all_stored() {
    let (generation, upstream) = stateful_server().await;
    let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
    let rows = Arc::new(SlowSessions(MemoryStore::new(clock)));
    let mut gw = TestGateway::builder().policy(ALLOW_ALL).sessions(rows).start(&upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    let later = async {
        wait_until("the first subscription is sent", || request_count(&upstream, "resources/subscribe") == 1).await;
        tokio::join!(send(&gw, "subscribe", "note://2"), send(&gw, "subscribe", "note://3"))
    };
    tokio::join!(send(&gw, "subscribe", "note://1"), later);
    gw.restart().await;
    generation.store(2, Ordering::Release);
    gw.call("read", json!({})).await;
    wait_until("all resources are subscribed", || subscribed_in(&upstream, "s-2").len() == 3).await;
}

#[tokio::test]
async fn subscriptions_per_session_are_limited() {
    let (_life, upstream) = stateful_server().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    for number in 0..256 {
        assert_eq!(send(&gw, "subscribe", &format!("note://{number}")).await.message()["result"], json!({}));
    }
    let response: Value = send(&gw, "subscribe", "note://more").await.message();
    assert_eq!(response["error"]["message"], "the session has too many resource subscriptions");
    assert_eq!(request_count(&upstream, "resources/subscribe"), 256, "the refused one is not sent");
    let row = ("resources/subscribe".to_owned(), "note://more".to_owned());
    assert_eq!(refused_rows(&gw).await, [row]);
    let more =
        |row: &CallLogRow| row.record.target.as_deref() == Some("note://more") && row.record.kind == RecordKind::Intent;
    assert!(!gw.rows().await.iter().any(more), "no intent is recorded");
    send(&gw, "unsubscribe", "note://0").await;
    assert_eq!(send(&gw, "subscribe", "note://more").await.message()["result"], json!({}));
}
