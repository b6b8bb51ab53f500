//! A session is no thing of one process: it goes on after a restart of the gateway, for its grant alone.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{
    Durability, IdHash, ManualClock, MemoryStore, SessionRow, Sessions, SqliteLedger, SqliteState, StoreError,
};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, TestResponse, json_response, tool_definition,
};
use jiff::Timestamp;
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{
    "read":{},"pay":{"limits":[{"counter":"c","window":"day","max":3,"scope":"session"}]}}}"#;

async fn desk() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::with_tools(&["read", "pay"]).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

fn handshakes(upstream: &FakeUpstream) -> usize {
    upstream.requests().iter().filter(|hit| hit.method() == "initialize").count()
}

fn list() -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
}

async fn delete(gw: &TestGateway) -> TestResponse {
    let bearer = format!("Bearer {}", gw.token.reveal());
    let session = gw.session();
    gw.send_raw("DELETE", "/mcp/desk", &[("Authorization", &bearer), ("Mcp-Session-Id", &session)], b"").await
}

#[tokio::test]
async fn a_session_goes_on_after_a_restart_with_a_new_handshake_at_the_server_and_nothing_repeated() {
    let (upstream, mut gw) = desk().await;
    gw.initialize().await;
    let session = gw.session();
    assert_eq!(gw.call("read", json!({"n": 1})).await.text(), r#"{"n":1}"#);
    assert_eq!(handshakes(&upstream), 1);
    gw.restart().await;

    let answer = gw.send(&list()).await;
    assert_eq!(answer.message()["result"]["tools"].as_array().map(Vec::len), Some(2), "{}", answer.body);
    assert_eq!(gw.call("read", json!({"n": 2})).await.text(), r#"{"n":2}"#);
    assert_eq!(gw.session(), session, "it was not opened anew by the client");

    assert_eq!(handshakes(&upstream), 2);
    let hits = upstream.requests();
    let again = hits.iter().rev().find(|hit| hit.method() == "initialize").expect("a handshake").message();
    let first = hits.iter().find(|hit| hit.method() == "initialize").expect("a handshake").message();
    assert_eq!(again["params"], first["params"], "the client's own handshake, as it wrote it");
    let methods: Vec<String> = hits.iter().map(|hit| hit.method()).collect();
    let behind = methods.iter().rposition(|method| method == "initialize").expect("a handshake") + 1;
    assert_eq!(methods[behind..], ["notifications/initialized", "tools/list", "tools/call"]);
    assert_eq!(upstream.calls().len(), 2, "no call is repeated");
    let last = gw.rows().await.pop().expect("a row");
    assert_eq!(last.record.outcome, Some(gatelodge_store::CallOutcome::Ok));
    let intent = gw.rows().await.into_iter().rev().find(|row| row.record.client.is_some()).expect("a row").record;
    assert_eq!((intent.client.as_deref(), intent.revision.as_deref()), (Some("test 1"), Some("2025-11-25")));
}

#[tokio::test]
async fn a_kept_session_of_another_grant_is_not_there() {
    let (upstream, mut gw) = desk().await;
    gw.initialize().await;
    let other = gw.add_grant("other", POLICY);
    let unknown = "0f".repeat(32);
    gw.restart().await;
    let bearer = format!("Bearer {}", other.reveal());
    let ask = async |session: &str| {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "*/*"),
            ("Mcp-Session-Id", session),
        ];
        gw.send_raw("POST", "/mcp/desk", &headers, list().to_string().as_bytes()).await
    };
    let (foreign, none) = (ask(&gw.session()).await, ask(&unknown).await);
    assert_eq!((foreign.status, &foreign.body), (404, &none.body), "byte for byte like one that is not there");
    assert_eq!(handshakes(&upstream), 1, "the server hears nothing of it");
    assert_eq!(gw.send(&list()).await.status, 200, "its owner is not disturbed");
    let foreign = ask(&gw.session()).await;
    assert_eq!(foreign.status, 404, "nor is it there once it is in use again");
}

#[tokio::test]
async fn a_session_that_was_ended_stays_ended() {
    let (upstream, mut gw) = desk().await;
    gw.initialize().await;
    assert_eq!(delete(&gw).await.status, 204);
    gw.restart().await;
    assert_eq!(gw.send(&list()).await.status, 404);

    gw.initialize().await;
    gw.restart().await;
    assert_eq!(delete(&gw).await.status, 204, "one that nobody has used since can be ended as well");
    assert_eq!(gw.send(&list()).await.status, 404);
    gw.restart().await;
    assert_eq!(gw.send(&list()).await.status, 404);
    assert_eq!(handshakes(&upstream), 2, "ending takes no handshake");
}

#[tokio::test]
async fn a_session_that_nobody_used_for_too_long_is_forgotten_by_the_clock() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let settings = GatewaySettings { session_idle_timeout: Duration::from_secs(600), ..GatewaySettings::default() };
    let mut gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    gw.initialize().await;
    gw.clock.advance(Duration::from_secs(500));
    // What is in use is noted when the gateway stops.
    gw.restart().await;
    gw.clock.advance(Duration::from_secs(500));
    assert_eq!(gw.send(&list()).await.status, 200);
    gw.restart().await;
    gw.clock.advance(Duration::from_secs(601));
    assert_eq!(gw.send(&list()).await.status, 404);
}

#[tokio::test]
async fn limits_of_a_session_count_on_after_a_restart() {
    let (upstream, mut gw) = desk().await;
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
async fn sessions_are_in_the_data_directory_and_their_ids_are_not() {
    let data = tempfile::tempdir().expect("a folder");
    let upstream = FakeUpstream::with_tools(&["pay"]).await;
    let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
    let ledger = SqliteLedger::open(data.path(), Durability::Process, clock.clone()).expect("a ledger");
    let state = SqliteState::open(data.path()).expect("a state");
    let builder = TestGateway::builder().policy(POLICY).ledger(Arc::new(ledger), clock).sessions(Arc::new(state));
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
async fn many_requests_that_find_a_session_again_open_it_once() {
    let (upstream, rows) = (FakeUpstream::with_tools(&["read"]).await, Broken::new());
    let mut gw = TestGateway::builder().policy(POLICY).sessions(rows).start(&upstream).await;
    gw.initialize().await;
    gw.restart().await;
    let ask = || gw.call("read", json!({}));
    let answers = tokio::join!(ask(), ask(), ask(), ask(), ask(), ask(), ask(), ask());
    for answer in [&answers.0, &answers.1, &answers.2, &answers.3, &answers.4, &answers.5, &answers.6, &answers.7] {
        assert_eq!(answer.text(), "{}");
    }
    assert_eq!(handshakes(&upstream), 2);
}

#[tokio::test]
async fn a_call_on_a_session_that_cannot_be_opened_again_is_not_sent_and_costs_nothing() {
    let (upstream, mut gw) = desk().await;
    assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    upstream.stop();
    gw.restart().await;
    for _ in 0..5 {
        let answer = gw.call("pay", json!({})).await;
        assert!(answer.text().contains("was not sent"), "{}", answer.body);
    }
    let used = gw.ledger.usage().await.expect("counters").pop().expect("a counter").used;
    assert_eq!(used.billionths(), 1_000_000_000, "one call, the one before");
}

#[tokio::test]
async fn a_stream_and_a_notification_open_a_kept_session_as_well() {
    let (upstream, mut gw) = desk().await;
    gw.initialize().await;
    gw.restart().await;
    let said = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    assert_eq!(gw.send(&said).await.status, 202);
    assert_eq!(handshakes(&upstream), 2);
    assert!(upstream.requests().iter().any(|hit| hit.method() == "notifications/roots/list_changed"));

    gw.restart().await;
    let bearer = format!("Bearer {}", gw.token.reveal());
    let session = gw.session();
    let headers =
        [("Authorization", bearer.as_str()), ("Accept", "text/event-stream"), ("Mcp-Session-Id", session.as_str())];
    let hearing = gw.send_raw("GET", "/mcp/desk", &headers, b"");
    let _ = tokio::time::timeout(Duration::from_millis(500), hearing).await;
    assert_eq!(handshakes(&upstream), 3);
    let heard = upstream.requests().into_iter().rfind(|hit| hit.request_line.starts_with("GET")).expect("it listens");
    assert_eq!(heard.header("mcp-session-id"), Some("upstream-session"));
}

#[tokio::test]
async fn a_second_gateway_on_the_same_store_takes_the_session_with_one_of_its_own_at_the_server() {
    let (upstream, gw) = desk().await;
    assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    let second = gw.second_gateway().await;
    assert_eq!(second.call("pay", json!({})).await.text(), "{}");
    assert_eq!(gw.call("pay", json!({})).await.text(), "{}");
    assert_eq!(handshakes(&upstream), 2, "each has a session of its own at the server");
    let refused = second.call("pay", json!({})).await;
    assert!(refused.text().contains("limit `c`"), "the limit is one: {}", refused.body);
}

/// Rows that can be made to fail, and that count who asks.
#[derive(Default)]
struct Broken {
    asked: AtomicUsize,
    fails: std::sync::atomic::AtomicBool,
    inner: std::sync::OnceLock<MemoryStore>,
}

impl Broken {
    fn new() -> Arc<Self> {
        let own = Self::default();
        let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
        own.inner.get_or_init(|| MemoryStore::new(clock));
        Arc::new(own)
    }

    fn rows(&self) -> Result<&MemoryStore, StoreError> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("as the test says".to_owned())),
            false => Ok(self.inner.get().expect("rows")),
        }
    }
}

#[async_trait]
impl Sessions for Broken {
    async fn put(&self, session: SessionRow) -> Result<(), StoreError> {
        self.rows()?.put(session).await
    }

    async fn find(&self, id: IdHash) -> Result<Option<SessionRow>, StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        // As slow as a disk, so that others ask meanwhile.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Sessions::find(self.rows()?, id).await
    }

    async fn set_subscriptions(&self, id: IdHash, uris: Vec<String>) -> Result<(), StoreError> {
        self.rows()?.set_subscriptions(id, uris).await
    }

    async fn set_log_level(&self, id: IdHash, level: String) -> Result<(), StoreError> {
        self.rows()?.set_log_level(id, level).await
    }

    async fn touch(&self, ids: Vec<IdHash>, at: Timestamp) -> Result<(), StoreError> {
        self.rows()?.touch(ids, at).await
    }

    async fn delete(&self, ids: Vec<IdHash>) -> Result<(), StoreError> {
        self.rows()?.delete(ids).await
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.rows()?.sweep(before).await
    }
}

#[tokio::test]
async fn a_store_that_fails_takes_no_session_from_anybody() {
    let (upstream, rows) = (FakeUpstream::with_tools(&["read"]).await, Broken::new());
    let mut gw = TestGateway::builder().policy(POLICY).sessions(rows.clone()).start(&upstream).await;
    rows.fails.store(true, Ordering::SeqCst);
    gw.initialize().await;
    assert_eq!(gw.call("read", json!({})).await.text(), "{}", "it lives though it is not kept");
    rows.fails.store(false, Ordering::SeqCst);
    gw.initialize().await;
    gw.restart().await;
    rows.fails.store(true, Ordering::SeqCst);
    let answer = gw.send(&list()).await;
    assert_eq!(answer.status, 503, "404 would tell the client to begin anew: {}", answer.body);
    rows.fails.store(false, Ordering::SeqCst);
    assert_eq!(gw.send(&list()).await.status, 200);
    rows.fails.store(true, Ordering::SeqCst);
    assert_eq!(delete(&gw).await.status, 204);
    assert_eq!(gw.send(&list()).await.status, 404, "what was ended is over here at once");
    rows.fails.store(false, Ordering::SeqCst);
    gw.restart().await;
    assert_eq!(gw.send(&list()).await.status, 404, "and the store is told when it hears again");
}

#[tokio::test]
async fn ids_that_are_none_are_not_looked_for_and_unknown_ones_once() {
    let (upstream, rows) = (FakeUpstream::with_tools(&["read"]).await, Broken::new());
    let gw = TestGateway::builder().policy(POLICY).sessions(rows.clone()).start(&upstream).await;
    gw.initialize().await;
    let ask = async |session: &str| gw.post(&[("Mcp-Session-Id", session)], &list().to_string()).await.status;
    let before = rows.asked.load(Ordering::SeqCst);
    for made_up in ["x", &"0F".repeat(32), &"0f".repeat(31), "../../etc"] {
        assert_eq!(ask(made_up).await, 404, "{made_up}");
    }
    assert_eq!(rows.asked.load(Ordering::SeqCst), before);
    for _ in 0..5 {
        assert_eq!(ask(&"0f".repeat(32)).await, 404);
    }
    assert_eq!(rows.asked.load(Ordering::SeqCst), before + 1);
}

/// A server that takes nothing but requests which stand alone.
fn stateless(hit: &RecordedRequest) -> Option<ResponseScript> {
    let message = hit.message();
    let result = match hit.method().as_str() {
        "server/discover" => {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        "tools/list" => json!({"resultType": "complete", "tools": [tool_definition("read")]}),
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "read"}]}),
        _ => {
            let no = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"gone"}}"#;
            return Some(json_response("400 Bad Request", "", no));
        }
    };
    let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    Some(json_response("200 OK", "", &text))
}

#[tokio::test]
async fn a_session_before_a_server_that_knows_of_none_goes_on_too() {
    let upstream = FakeUpstream::start(json!([]), stateless).await;
    let mut gw = TestGateway::with_policy(POLICY, &upstream).await;
    assert_eq!(gw.call("read", json!({})).await.text(), "read");
    let tried = handshakes(&upstream);
    gw.restart().await;
    assert_eq!(gw.call("read", json!({})).await.text(), "read");
    assert_eq!(handshakes(&upstream), tried, "there is nothing to be opened");
    let call = upstream.calls().pop().expect("a call");
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    let client = &call.message()["params"]["_meta"]["io.modelcontextprotocol/clientInfo"];
    assert_eq!(client["name"], "test", "what the client said of itself is still said");
}

#[tokio::test]
async fn which_log_messages_a_client_wants_survives_a_restart() {
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "warning"}});
    for (path, tool_name) in [("/mcp/desk", "read"), ("/mcp", "desk__read")] {
        let with_log = FakeUpstream::start(json!([tool_definition("read")]), |hit: &RecordedRequest| {
            (hit.method() == "initialize").then(|| {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}, "serverInfo": {"name": "s", "version": "1"}});
                let body = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result});
                json_response("200 OK", "mcp-session-id: s\r\n", &body.to_string())
            })
        })
        .await;
        let without_sessions = FakeUpstream::start(json!([]), stateless).await;
        for upstream in [with_log, without_sessions] {
            let builder = TestGateway::builder().policy(POLICY);
            let builder = if path == "/mcp" { builder.at_aggregate() } else { builder };
            let mut gw = builder.start(&upstream).await;
            assert_eq!(gw.send(&level).await.message()["result"], json!({}), "{path}");
            gw.restart().await;
            let before = upstream.requests().len();
            assert_eq!(gw.call(tool_name, json!({})).await.status, 200, "{path}");
            let hits = upstream.requests().split_off(before);
            let told = hits.iter().map(RecordedRequest::message).any(|own| {
                let with_each = &own["params"]["_meta"]["io.modelcontextprotocol/logLevel"];
                (own["method"] == "logging/setLevel" && own["params"]["level"] == "warning") || with_each == "warning"
            });
            assert!(told, "{path}: {:?}", hits.iter().map(|hit| hit.body.clone()).collect::<Vec<_>>());
        }
    }
}
