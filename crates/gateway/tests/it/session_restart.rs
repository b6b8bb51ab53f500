//! Client sessions are stored: they survive a restart of the gateway, and belong to their grant.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{Durability, IdDigest, ManualClock, MemoryStore, SessionRow, Sessions, Store, StoreError};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, TestResponse, json_response, tool_definition,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::support::{start_in_session, wait_until};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{
    "read":{},"pay":{"limits":[{"counter":"c","window":"day","max":3,"scope":"session"}]}}}"#;

async fn start_gateway() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::with_tools(&["read", "pay"]).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

fn handshake_count(upstream: &FakeUpstream) -> usize {
    upstream.requests().iter().filter(|request| request.method() == "initialize").count()
}

fn list_request() -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
}

async fn delete(gw: &TestGateway) -> TestResponse {
    let bearer = format!("Bearer {}", gw.token.reveal());
    let session = gw.session();
    gw.send_raw("DELETE", "/mcp/desk", &[("Authorization", &bearer), ("Mcp-Session-Id", &session)], b"").await
}

#[tokio::test]
async fn a_session_survives_a_restart_with_one_new_upstream_handshake_and_no_repeated_call() {
    let (upstream, mut gw) = start_gateway().await;
    gw.initialize().await;
    let session = gw.session();
    assert_eq!(gw.call("read", json!({"n": 1})).await.text(), r#"{"n":1}"#);
    assert_eq!(handshake_count(&upstream), 1);
    gw.restart().await;

    let reply = gw.send(&list_request()).await;
    assert_eq!(reply.message()["result"]["tools"].as_array().map(Vec::len), Some(2), "{}", reply.body);
    assert_eq!(gw.call("read", json!({"n": 2})).await.text(), r#"{"n":2}"#);
    assert_eq!(gw.session(), session, "the client did not initialize again");

    assert_eq!(handshake_count(&upstream), 2);
    let requests = upstream.requests();
    let second = requests.iter().rev().find(|request| request.method() == "initialize").expect("a handshake").message();
    let first = requests.iter().find(|request| request.method() == "initialize").expect("a handshake").message();
    assert_eq!(second["params"], first["params"], "the client's `initialize` is sent again unchanged");
    let methods: Vec<String> = requests.iter().map(|request| request.method()).collect();
    let after_initialize = methods.iter().rposition(|method| method == "initialize").expect("a handshake") + 1;
    assert_eq!(methods[after_initialize..], ["notifications/initialized", "tools/list", "tools/call"]);
    assert_eq!(upstream.calls().len(), 2, "no call is repeated");
    let last = gw.rows().await.pop().expect("a row");
    assert_eq!(last.record.outcome, Some(gatelodge_store::CallOutcome::Ok));
    let intent = gw.rows().await.into_iter().rev().find(|row| row.record.client.is_some()).expect("a row").record;
    assert_eq!((intent.client.as_deref(), intent.revision.as_deref()), (Some("test 1"), Some("2025-11-25")));
}

#[tokio::test]
async fn a_stored_session_of_another_grant_is_not_found() {
    let (upstream, mut gw) = start_gateway().await;
    gw.initialize().await;
    let other = gw.add_grant("other", POLICY);
    let unknown = "0f".repeat(32);
    gw.restart().await;
    let bearer = format!("Bearer {}", other.reveal());
    let request_with = async |session: &str| {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "*/*"),
            ("Mcp-Session-Id", session),
        ];
        gw.send_raw("POST", "/mcp/desk", &headers, list_request().to_string().as_bytes()).await
    };
    let (foreign, missing) = (request_with(&gw.session()).await, request_with(&unknown).await);
    assert_eq!(
        (foreign.status, &foreign.body),
        (404, &missing.body),
        "the same bytes as for a session that does not exist"
    );
    assert_eq!(handshake_count(&upstream), 1, "the server receives nothing");
    assert_eq!(gw.send(&list_request()).await.status, 200, "its own grant can use it");
    let foreign = request_with(&gw.session()).await;
    assert_eq!(foreign.status, 404, "it is not found after it was reopened either");
}

#[tokio::test]
async fn a_deleted_session_stays_deleted_after_a_restart() {
    let (upstream, mut gw) = start_gateway().await;
    gw.initialize().await;
    assert_eq!(delete(&gw).await.status, 204);
    gw.restart().await;
    assert_eq!(gw.send(&list_request()).await.status, 404);

    gw.initialize().await;
    gw.restart().await;
    assert_eq!(delete(&gw).await.status, 204, "a session that was not reopened can be deleted as well");
    assert_eq!(gw.send(&list_request()).await.status, 404);
    gw.restart().await;
    assert_eq!(gw.send(&list_request()).await.status, 404);
    assert_eq!(handshake_count(&upstream), 2, "deleting needs no upstream handshake");
}

#[tokio::test]
async fn an_idle_session_expires_across_restarts() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let settings = GatewaySettings { session_idle_timeout: Duration::from_secs(600), ..GatewaySettings::default() };
    let mut gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    gw.initialize().await;
    gw.clock.advance(Duration::from_secs(500));
    // The gateway stores the time of last use when it stops.
    gw.restart().await;
    gw.clock.advance(Duration::from_secs(500));
    assert_eq!(gw.send(&list_request()).await.status, 200);
    gw.restart().await;
    gw.clock.advance(Duration::from_secs(601));
    assert_eq!(gw.send(&list_request()).await.status, 404);
}

#[tokio::test]
async fn limits_of_a_session_continue_after_a_restart() {
    let (upstream, mut gw) = start_gateway().await;
    for _ in 0..2 {
        assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    }
    gw.restart().await;
    assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    gw.restart().await;
    let refused = gw.call("pay", json!({})).await;
    assert!(refused.text().contains("limit `c`"), "{}", refused.body);
    assert_eq!(upstream.calls_to("pay").len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_stored_in_the_data_directory_without_their_ids() {
    let data = tempfile::tempdir().expect("a folder");
    let upstream = FakeUpstream::with_tools(&["pay"]).await;
    let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
    let store = Store::open_sqlite(data.path(), Durability::Process, clock.clone()).expect("a store");
    let builder = TestGateway::builder().policy(POLICY).store(store, clock);
    let mut gw = builder.start(&upstream).await;
    assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    gw.restart().await;
    assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    let session = gw.session();
    let mut read = 0;
    for file in std::fs::read_dir(data.path()).expect("files") {
        let bytes = std::fs::read(file.expect("a file").path()).expect("bytes");
        read += bytes.len();
        let holds = |id: &str| bytes.windows(id.len()).any(|window| window == id.as_bytes());
        assert!(!holds(&session) && !holds("upstream-session"));
    }
    assert!(read > 10_000, "{read} bytes");
}

#[tokio::test]
async fn concurrent_requests_reopen_a_session_once() {
    let (upstream, sessions) = (FakeUpstream::with_tools(&["read"]).await, FailingSessions::new());
    let mut gw = TestGateway::builder().policy(POLICY).sessions(sessions).start(&upstream).await;
    gw.initialize().await;
    gw.restart().await;
    let call = || gw.call("read", json!({}));
    let replies = tokio::join!(call(), call(), call(), call(), call(), call(), call(), call());
    for reply in [&replies.0, &replies.1, &replies.2, &replies.3, &replies.4, &replies.5, &replies.6, &replies.7] {
        assert_eq!(reply.text(), "{}");
    }
    assert_eq!(handshake_count(&upstream), 2);
}

#[tokio::test]
async fn a_call_on_a_session_that_cannot_be_reopened_is_not_sent_or_charged() {
    let (upstream, mut gw) = start_gateway().await;
    assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    upstream.stop();
    gw.restart().await;
    for _ in 0..5 {
        let reply = gw.call("pay", json!({})).await;
        assert!(reply.text().contains("was not sent"), "{}", reply.body);
    }
    let used = gw.store.counter_usage.usage().await.expect("counters").pop().expect("a counter").used;
    assert_eq!(used.billionths(), 1_000_000_000, "only the call before the restart is charged");
}

#[tokio::test]
async fn a_stream_and_a_notification_reopen_a_stored_session() {
    let (upstream, mut gw) = start_gateway().await;
    gw.initialize().await;
    gw.restart().await;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    assert_eq!(gw.send(&notification).await.status, 202);
    assert_eq!(handshake_count(&upstream), 2);
    assert!(upstream.requests().iter().any(|request| request.method() == "notifications/roots/list_changed"));

    gw.restart().await;
    let _stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    let is_stream_requested = || {
        let requests = upstream.requests();
        let last_handshake = requests.iter().rposition(|request| request.method() == "initialize");
        let last_get = requests.iter().rposition(|request| request.request_line.starts_with("GET"));
        handshake_count(&upstream) >= 3 && last_get > last_handshake
    };
    wait_until("the standalone stream is requested in a new session", is_stream_requested).await;
    assert_eq!(handshake_count(&upstream), 3);
    let sent_get =
        upstream.requests().into_iter().rfind(|request| request.request_line.starts_with("GET")).expect("a GET");
    assert_eq!(sent_get.header("mcp-session-id"), Some("upstream-session"));
}

#[tokio::test]
async fn a_second_gateway_on_the_same_store_serves_the_session_with_its_own_upstream_session() {
    let (upstream, gw) = start_gateway().await;
    assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    let second = gw.second_gateway().await;
    assert_eq!(second.call("pay", json!({})).await.text(), "{}");
    assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    assert_eq!(handshake_count(&upstream), 2, "each gateway has its own upstream session");
    let refused = second.call("pay", json!({})).await;
    assert!(refused.text().contains("limit `c`"), "both gateways share the limit: {}", refused.body);
}

/// A session store that can be made to fail, and that counts lookups.
#[derive(Default)]
struct FailingSessions {
    lookups: AtomicUsize,
    fails: std::sync::atomic::AtomicBool,
    inner: std::sync::OnceLock<MemoryStore>,
}

impl FailingSessions {
    fn new() -> Arc<Self> {
        let sessions = Self::default();
        let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
        sessions.inner.get_or_init(|| MemoryStore::new(clock));
        Arc::new(sessions)
    }

    fn store(&self) -> Result<&MemoryStore, StoreError> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("set by the test".to_owned())),
            false => Ok(self.inner.get().expect("a store")),
        }
    }
}

#[async_trait]
impl Sessions for FailingSessions {
    async fn put(&self, session: SessionRow) -> Result<(), StoreError> {
        self.store()?.put(session).await
    }

    async fn find(&self, id: IdDigest) -> Result<Option<SessionRow>, StoreError> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        // As slow as a disk, so that concurrent requests look up the session as well.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Sessions::find(self.store()?, id).await
    }

    async fn set_subscriptions(&self, id: IdDigest, uris: Vec<String>) -> Result<(), StoreError> {
        self.store()?.set_subscriptions(id, uris).await
    }

    async fn set_log_level(&self, id: IdDigest, level: String) -> Result<(), StoreError> {
        self.store()?.set_log_level(id, level).await
    }

    async fn touch(&self, ids: Vec<IdDigest>, at: Timestamp) -> Result<(), StoreError> {
        self.store()?.touch(ids, at).await
    }

    async fn delete(&self, ids: Vec<IdDigest>) -> Result<(), StoreError> {
        self.store()?.delete(ids).await
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.store()?.sweep(before).await
    }
}

#[tokio::test]
async fn sessions_stay_usable_while_the_store_fails() {
    let (upstream, sessions) = (FakeUpstream::with_tools(&["read"]).await, FailingSessions::new());
    let mut gw = TestGateway::builder().policy(POLICY).sessions(sessions.clone()).start(&upstream).await;
    sessions.fails.store(true, Ordering::SeqCst);
    gw.initialize().await;
    assert_eq!(gw.call("read", json!({})).await.text(), "{}", "a session works although it could not be stored");
    sessions.fails.store(false, Ordering::SeqCst);
    gw.initialize().await;
    gw.restart().await;
    sessions.fails.store(true, Ordering::SeqCst);
    let reply = gw.send(&list_request()).await;
    assert_eq!(reply.status, 503, "404 would make the client initialize again: {}", reply.body);
    sessions.fails.store(false, Ordering::SeqCst);
    assert_eq!(gw.send(&list_request()).await.status, 200);
    sessions.fails.store(true, Ordering::SeqCst);
    assert_eq!(delete(&gw).await.status, 204);
    assert_eq!(gw.send(&list_request()).await.status, 404, "the deleted session ends at once in this process");
    sessions.fails.store(false, Ordering::SeqCst);
    gw.restart().await;
    assert_eq!(gw.send(&list_request()).await.status, 404, "the deletion is stored when the store works again");
}

#[tokio::test]
async fn malformed_session_ids_are_not_looked_up_and_unknown_ones_once() {
    let (upstream, sessions) = (FakeUpstream::with_tools(&["read"]).await, FailingSessions::new());
    let gw = TestGateway::builder().policy(POLICY).sessions(sessions.clone()).start(&upstream).await;
    gw.initialize().await;
    let request_with =
        async |session: &str| gw.post(&[("Mcp-Session-Id", session)], &list_request().to_string()).await.status;
    let before = sessions.lookups.load(Ordering::SeqCst);
    for malformed in ["x", &"0F".repeat(32), &"0f".repeat(31), "../../etc"] {
        assert_eq!(request_with(malformed).await, 404, "{malformed}");
    }
    assert_eq!(sessions.lookups.load(Ordering::SeqCst), before);
    for _ in 0..5 {
        assert_eq!(request_with(&"0f".repeat(32)).await, 404);
    }
    assert_eq!(sessions.lookups.load(Ordering::SeqCst), before + 1);
}

/// A stateless server.
fn respond_stateless(request: &RecordedRequest) -> Option<ResponseScript> {
    let message = request.message();
    let result = match request.method().as_str() {
        "server/discover" => {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        "tools/list" => json!({"resultType": "complete", "tools": [tool_definition("read")]}),
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "read"}]}),
        _ => {
            let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"gone"}}"#;
            return Some(json_response("400 Bad Request", "", error));
        }
    };
    let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    Some(json_response("200 OK", "", &text))
}

#[tokio::test]
async fn a_session_with_a_stateless_server_survives_a_restart() {
    let upstream = FakeUpstream::start(json!([]), respond_stateless).await;
    let mut gw = TestGateway::with_policy(POLICY, &upstream).await;
    assert_eq!(gw.call("read", json!({})).await.text(), "read");
    let handshakes_before = handshake_count(&upstream);
    gw.restart().await;
    assert_eq!(gw.call("read", json!({})).await.text(), "read");
    assert_eq!(handshake_count(&upstream), handshakes_before, "there is no upstream session to reopen");
    let call = upstream.calls().pop().expect("a call");
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    let client = &call.message()["params"]["_meta"]["io.modelcontextprotocol/clientInfo"];
    assert_eq!(client["name"], "test", "the client's info is still sent");
}

#[tokio::test]
async fn the_log_level_of_a_session_survives_a_restart() {
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "warning"}});
    for (path, tool_name) in [("/mcp/desk", "read"), ("/mcp", "desk__read")] {
        let with_log = FakeUpstream::start(json!([tool_definition("read")]), |request: &RecordedRequest| {
            (request.method() == "initialize").then(|| {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}, "serverInfo": {"name": "s", "version": "1"}});
                let body = json!({"jsonrpc": "2.0", "id": request.message()["id"], "result": result});
                json_response("200 OK", "mcp-session-id: s\r\n", &body.to_string())
            })
        })
        .await;
        let stateless = FakeUpstream::start(json!([]), respond_stateless).await;
        for upstream in [with_log, stateless] {
            let builder = TestGateway::builder().policy(POLICY);
            let builder = if path == "/mcp" { builder.at_aggregate() } else { builder };
            let mut gw = builder.start(&upstream).await;
            assert_eq!(gw.send(&level).await.message()["result"], json!({}), "{path}");
            gw.restart().await;
            let before = upstream.requests().len();
            assert_eq!(gw.call(tool_name, json!({})).await.status, 200, "{path}");
            let requests = upstream.requests().split_off(before);
            let is_level_sent = requests.iter().map(RecordedRequest::message).any(|message| {
                let in_meta = &message["params"]["_meta"]["io.modelcontextprotocol/logLevel"];
                (message["method"] == "logging/setLevel" && message["params"]["level"] == "warning")
                    || in_meta == "warning"
            });
            assert!(
                is_level_sent,
                "{path}: {:?}",
                requests.iter().map(|request| request.body.clone()).collect::<Vec<_>>()
            );
        }
    }
}
