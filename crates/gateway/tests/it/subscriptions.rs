//! `resources/subscribe` of clients with a session: what they listen for is not lost with a session at the server, nor
//! with a life of the gateway.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use gatelodge_store::{CallLogRow, IdHash, ManualClock, MemoryStore, RecordKind, SessionRow, Sessions, StoreError};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, json_response,
    tool_definition,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::rows_kit::{
    ALL, answered, begin_in_session, chunk, count, event, modern_answer, open_stream, put_in_force, read_until,
    result_of, until,
};

/// In this life a server opens no session.
const AWAY: &str = "s-0";

/// A server with sessions, of which it knows only that of its life.
async fn server() -> (Arc<AtomicUsize>, FakeUpstream) {
    let life = Arc::new(AtomicUsize::new(1));
    let own = Arc::clone(&life);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", own.load(Ordering::Acquire));
        let is_known = hit.header("mcp-session-id") == Some(&session);
        match hit.method().as_str() {
            "initialize" if session == AWAY => Some(json_response("500 Internal Server Error", "", "")),
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}, "resources": {"subscribe": true}},
                    "serverInfo": {"name": "s", "version": "1"}});
                let head = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &head, &result_of(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if !is_known => Some(json_response("404 Not Found", "", "")),
            _ if hit.request_line.starts_with("GET") => Some(updates(hit)),
            _ => None,
        }
    })
    .await;
    (life, upstream)
}

/// A server without sessions that ends at once what it is listened to for.
async fn stateless() -> FakeUpstream {
    FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "subscriptions/listen" => answered(hit, &json!({"resultType": "complete"})),
        _ => modern_answer(
            hit,
            &json!([tool_definition("read")]),
            &json!({"tools": {}, "resources": {"subscribe": true}}),
        ),
    })
    .await
}

/// For which resources it was listened to, each time.
fn listened_for(upstream: &FakeUpstream) -> Vec<Value> {
    let hits = upstream.requests().into_iter().filter(|hit| hit.method() == "subscriptions/listen");
    hits.map(|hit| hit.message()["params"]["notifications"]["resourceSubscriptions"].clone()).collect()
}

/// A stream that tells of one resource, and stays open.
fn updates(hit: &RecordedRequest) -> ResponseScript {
    let session = hit.header("mcp-session-id").unwrap_or_default();
    let params = json!({"uri": "note://1", "of": session});
    let said = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params});
    let mut script = open_stream();
    script.push(ScriptStep::Write(chunk(&event(&said))));
    script.push(ScriptStep::WaitForHangUp(Arc::default()));
    script
}

async fn say(gw: &TestGateway, what: &str, uri: &str) -> TestResponse {
    let method = format!("resources/{what}");
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": uri}})).await
}

/// What a server was asked to tell of in a session.
fn asked(upstream: &FakeUpstream, session: &str) -> Vec<String> {
    let hits = upstream.requests().into_iter().filter(|hit| hit.header("mcp-session-id") == Some(session));
    let subscribed = hits.filter(|hit| hit.method() == "resources/subscribe");
    subscribed.map(|hit| hit.message()["params"]["uri"].as_str().expect("a URI").to_owned()).collect()
}

/// At each address: the gateway, and how a resource of the server is called there.
async fn doors(upstream: &FakeUpstream) -> [(TestGateway, &'static str, &'static str, &'static str); 2] {
    let one = TestGateway::with_policy(ALL, upstream).await;
    let all = TestGateway::builder().policy(ALL).at_aggregate().start(upstream).await;
    [(one, "/mcp/desk", "", "read"), (all, "/mcp", "x-desk+", "desk__read")]
}

#[tokio::test]
async fn what_a_session_listens_for_is_subscribed_to_again_where_the_server_forgot_it() {
    for at in 0..2 {
        let (life, upstream) = server().await;
        let [one, all] = doors(&upstream).await;
        let (gw, path, before, tool) = if at == 0 { one } else { all };
        assert_eq!(gw.initialize().await.status, 200);
        for uri in ["note://1", "note://2", "note://3"] {
            assert_eq!(say(&gw, "subscribe", &format!("{before}{uri}")).await.message()["result"], json!({}), "{path}");
        }
        say(&gw, "unsubscribe", &format!("{before}note://2")).await;
        life.store(2, Ordering::Release);
        gw.call(tool, json!({})).await;
        until("it is asked again", || asked(&upstream, "s-2").len() == 2).await;
        assert_eq!(asked(&upstream, "s-2"), ["note://1", "note://3"], "{path}: and not for what was given up");
        assert_eq!(gw.call(tool, json!({"n": 1})).await.text(), r#"{"n":1}"#, "{path}");
    }
}

#[tokio::test]
async fn who_only_listens_is_subscribed_again() {
    let (life, upstream) = server().await;
    for (gw, path, before, _) in doors(&upstream).await {
        let (was, is) = (life.load(Ordering::Acquire), life.load(Ordering::Acquire) + 1);
        assert_eq!(gw.initialize().await.status, 200);
        say(&gw, "subscribe", &format!("{before}note://1")).await;
        let mut ear = begin_in_session(&gw, "GET", path, "", "").await;
        read_until(&mut ear, &format!(r#""of":"s-{was}""#), 1).await;
        life.store(is, Ordering::Release);
        drop(ear);
        let mut ear = begin_in_session(&gw, "GET", path, "", "").await;
        read_until(&mut ear, &format!(r#""of":"s-{is}""#), 1).await;
        until("it is asked again", || asked(&upstream, &format!("s-{is}")) == ["note://1"]).await;
    }
}

#[tokio::test]
async fn what_a_session_listens_for_survives_a_restart_of_the_gateway() {
    for at in 0..2 {
        let (life, upstream) = server().await;
        let [one, all] = doors(&upstream).await;
        let (mut gw, path, before, _) = if at == 0 { one } else { all };
        assert_eq!(gw.initialize().await.status, 200);
        say(&gw, "subscribe", &format!("{before}note://1")).await;
        say(&gw, "subscribe", &format!("{before}note://2")).await;
        say(&gw, "unsubscribe", &format!("{before}note://2")).await;
        gw.restart().await;
        life.store(2, Ordering::Release);
        let mut ear = begin_in_session(&gw, "GET", path, "", "").await;
        read_until(&mut ear, r#""of":"s-2""#, 1).await;
        until("it is asked again", || !asked(&upstream, "s-2").is_empty()).await;
        assert_eq!(asked(&upstream, "s-2"), ["note://1"], "{path}");
    }
}

#[tokio::test]
async fn a_server_without_sessions_is_listened_to_for_it_after_a_restart() {
    let upstream = stateless().await;
    let mut gw = TestGateway::with_policy(ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    say(&gw, "subscribe", "note://1").await;
    gw.restart().await;
    let _ear = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    until("it is listened to", || count(&upstream, "subscriptions/listen") == 1).await;
    assert_eq!(listened_for(&upstream), [json!(["note://1"])]);
}

const ONLY_2: &str = r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"note://2":{}}}"#;

/// What was refused, by its method and what it was about.
async fn refused(gw: &TestGateway) -> Vec<(String, String)> {
    let rows = gw.rows().await.into_iter().map(|row| row.record).filter(|row| row.kind == RecordKind::Refused);
    rows.map(|row| {
        let (method, target) = (row.method.unwrap_or_default(), row.target.unwrap_or_default());
        (method.to_string(), target.to_string())
    })
    .collect()
}

#[tokio::test]
async fn what_the_policy_denies_by_now_is_not_subscribed_to_again() {
    for (at, is_stateless) in [(0, false), (1, false), (0, true), (1, true)] {
        let (life, in_session) = server().await;
        let upstream = if is_stateless { stateless().await } else { in_session };
        let [one, all] = doors(&upstream).await;
        let (gw, path, before, tool) = if at == 0 { one } else { all };
        assert_eq!(gw.initialize().await.status, 200);
        say(&gw, "subscribe", &format!("{before}note://1")).await;
        say(&gw, "subscribe", &format!("{before}note://2")).await;
        put_in_force(&gw, ONLY_2);
        life.store(2, Ordering::Release);
        if is_stateless {
            let _ear = begin_in_session(&gw, "GET", path, "", "").await;
            until("it is listened to, again and again", || count(&upstream, "subscriptions/listen") == 2).await;
            assert_eq!(listened_for(&upstream), [json!(["note://2"]), json!(["note://2"])], "{path}");
        } else {
            gw.call(tool, json!({})).await;
            until("the other is asked for", || !asked(&upstream, "s-2").is_empty()).await;
            assert_eq!(asked(&upstream, "s-2"), ["note://2"], "{path}");
            life.store(3, Ordering::Release);
            gw.call(tool, json!({})).await;
            until("and again", || !asked(&upstream, "s-3").is_empty()).await;
        }
        let row = ("resources/subscribe".to_owned(), "note://1".to_owned());
        assert_eq!(refused(&gw).await, [row], "{path}: and that is written, once");
    }
}

#[tokio::test]
async fn what_a_client_wants_to_hear_of_no_more_is_forgotten_whatever_the_server_or_the_policy_says() {
    let life = Arc::new(AtomicUsize::new(1));
    let own = Arc::clone(&life);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", own.load(Ordering::Acquire));
        match hit.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
                    "serverInfo": {"name": "s", "version": "1"}});
                let head = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &head, &result_of(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if hit.header("mcp-session-id") != Some(&session) => Some(json_response("404 Not Found", "", "")),
            "resources/unsubscribe" => Some(json_response("500 Internal Server Error", "", "")),
            _ => None,
        }
    })
    .await;
    for (gw, path, before, tool) in doors(&upstream).await {
        assert_eq!(gw.initialize().await.status, 200);
        for uri in ["note://1", "note://2", "note://3"] {
            say(&gw, "subscribe", &format!("{before}{uri}")).await;
        }
        say(&gw, "unsubscribe", &format!("{before}note://3")).await;
        put_in_force(&gw, ONLY_2);
        say(&gw, "unsubscribe", &format!("{before}note://1")).await;
        put_in_force(&gw, ALL);
        let next = format!("s-{}", life.fetch_add(1, Ordering::AcqRel) + 1);
        gw.call(tool, json!({})).await;
        until("it is asked again", || !asked(&upstream, &next).is_empty()).await;
        // Whoever came behind it would have been asked for by now.
        gw.call(tool, json!({})).await;
        assert_eq!(asked(&upstream, &next), ["note://2"], "{path}");
    }
}

#[tokio::test]
async fn what_is_unsubscribed_from_while_its_server_is_away_is_forgotten() {
    let (life, upstream) = server().await;
    let [_, (mut gw, _, before, tool)] = doors(&upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    for uri in ["note://1", "note://2"] {
        say(&gw, "subscribe", &format!("{before}{uri}")).await;
    }
    gw.restart().await;
    life.store(0, Ordering::Release);
    say(&gw, "unsubscribe", &format!("{before}note://1")).await;
    life.store(2, Ordering::Release);
    gw.call(tool, json!({})).await;
    until("it is asked again", || !asked(&upstream, "s-2").is_empty()).await;
    gw.call(tool, json!({})).await;
    assert_eq!(asked(&upstream, "s-2"), ["note://2"]);
}

#[tokio::test]
async fn one_resource_without_an_answer_keeps_no_other_from_being_heard_of_and_is_asked_for_again() {
    let (life, fails) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicUsize::new(1)));
    let (own, failing) = (Arc::clone(&life), Arc::clone(&fails));
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", own.load(Ordering::Acquire));
        let message = hit.message();
        match hit.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
                    "serverInfo": {"name": "s", "version": "1"}});
                let head = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &head, &result_of(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if hit.header("mcp-session-id") != Some(&session) => Some(json_response("404 Not Found", "", "")),
            "resources/subscribe" if session == "s-2" && message["params"]["uri"] == "note://1" => {
                let is_first = failing.swap(0, Ordering::AcqRel) == 1;
                is_first.then(|| json_response("503 Service Unavailable", "", ""))
            }
            _ if hit.request_line.starts_with("GET") => Some(updates(hit)),
            _ => None,
        }
    })
    .await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    for uri in ["note://1", "note://2", "note://3"] {
        say(&gw, "subscribe", uri).await;
    }
    life.store(2, Ordering::Release);
    gw.call("read", json!({})).await;
    until("all are asked for", || asked(&upstream, "s-2").len() == 3).await;
    until("one has no answer", || fails.load(Ordering::Acquire) == 0).await;
    let mut ear = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut ear, r#""of":"s-2""#, 1).await;
    drop(ear);
    let mut ear = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut ear, r#""of":"s-2""#, 1).await;
    until("it is asked for again", || asked(&upstream, "s-2").len() == 6).await;
}

/// A server at standard streams that writes down when it is started and when it ends. It ends where it is told to, and,
/// once it was, wherever it is subscribed to.
const FRAIL: &str = r#"
import atexit, json, os, sys, time
def note():
    with open(sys.argv[1], "a") as file:
        file.write(f"{time.monotonic()}\n")
note()
atexit.register(note)
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
            "serverInfo": {"name": "frail", "version": "1"}}
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
async fn a_process_that_ends_whenever_it_is_subscribed_to_is_started_again_ever_more_rarely() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, noted) = (directory.path().join("server.py"), directory.path().join("noted"));
    std::fs::write(&server, FRAIL).expect("written");
    let script = format!("exec python3 {} {}", server.display(), noted.display());
    let gw = TestGateway::builder().policy(ALL).start_process(&script).await;
    assert_eq!(gw.initialize().await.status, 200);
    assert_eq!(say(&gw, "subscribe", "note://1").await.message()["result"], json!({}));
    let mut ear = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut ear, "200 OK", 1).await;
    let times = || -> Vec<f64> {
        let noted = std::fs::read_to_string(&noted).unwrap_or_default();
        noted.lines().map(|time| time.parse().expect("a time")).collect()
    };
    let before = times().len();
    gw.call("end", json!({})).await;
    for further in [2, 4, 6] {
        // Each time it rests longer before it is started again, and a busy machine takes its time for that.
        for _ in 0..500 {
            if times().len() >= before + further {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    // A second, then two, then four.
    let times = times();
    let rests: Vec<f64> = times[before..before + 6].chunks(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(rests[2] > 3.5, "{rests:?}");
}

/// Rows in which it takes long to write one resource down, and no time to write down more.
struct Slow(MemoryStore);

#[async_trait]
impl Sessions for Slow {
    async fn put(&self, session: SessionRow) -> Result<(), StoreError> {
        self.0.put(session).await
    }

    async fn find(&self, id: IdHash) -> Result<Option<SessionRow>, StoreError> {
        Sessions::find(&self.0, id).await
    }

    async fn set_subscriptions(&self, id: IdHash, uris: Vec<String>) -> Result<(), StoreError> {
        if uris.len() == 1 {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
        self.0.set_subscriptions(id, uris).await
    }

    async fn set_log_level(&self, id: IdHash, level: String) -> Result<(), StoreError> {
        self.0.set_log_level(id, level).await
    }

    async fn touch(&self, ids: Vec<IdHash>, at: Timestamp) -> Result<(), StoreError> {
        self.0.touch(ids, at).await
    }

    async fn delete(&self, ids: Vec<IdHash>) -> Result<(), StoreError> {
        self.0.delete(ids).await
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.0.sweep(before).await
    }
}

#[tokio::test]
async fn what_is_subscribed_to_at_the_same_time_is_all_kept() {
    let (life, upstream) = server().await;
    let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
    let rows = Arc::new(Slow(MemoryStore::new(clock)));
    let mut gw = TestGateway::builder().policy(ALL).sessions(rows).start(&upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    let later = async {
        until("the first is sent", || count(&upstream, "resources/subscribe") == 1).await;
        tokio::join!(say(&gw, "subscribe", "note://2"), say(&gw, "subscribe", "note://3"))
    };
    tokio::join!(say(&gw, "subscribe", "note://1"), later);
    gw.restart().await;
    life.store(2, Ordering::Release);
    gw.call("read", json!({})).await;
    until("all are asked for", || asked(&upstream, "s-2").len() == 3).await;
}

#[tokio::test]
async fn a_session_listens_for_so_many_resources_and_no_more() {
    let (_life, upstream) = server().await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    for number in 0..256 {
        assert_eq!(say(&gw, "subscribe", &format!("note://{number}")).await.message()["result"], json!({}));
    }
    let answer: Value = say(&gw, "subscribe", "note://more").await.message();
    assert_eq!(answer["error"]["message"], "the session has too many resource subscriptions");
    assert_eq!(count(&upstream, "resources/subscribe"), 256, "it is not sent");
    let row = ("resources/subscribe".to_owned(), "note://more".to_owned());
    assert_eq!(refused(&gw).await, [row]);
    let more =
        |row: &CallLogRow| row.record.target.as_deref() == Some("note://more") && row.record.kind == RecordKind::Intent;
    assert!(!gw.rows().await.iter().any(more), "nor paid for");
    say(&gw, "unsubscribe", "note://0").await;
    assert_eq!(say(&gw, "subscribe", "note://more").await.message()["result"], json!({}));
}
