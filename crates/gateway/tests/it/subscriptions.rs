//! `resources/subscribe` of clients with a session: what they listen for is not lost with a session at the server, nor
//! with a life of the gateway.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatelodge_store::Kind;
use gatelodge_testkit::{Answer, FakeUpstream, Hit, Script, Step, TestGateway, json_response, tool};
use serde_json::{Value, json};

use super::rows_kit::{
    ALL, answered, begin_in_session, chunk, count, event, modern_answer, open_stream, put_in_force, read_until,
    result_of, until,
};

/// A server with sessions, of which it knows only that of its life.
async fn server() -> (Arc<AtomicUsize>, FakeUpstream) {
    let life = Arc::new(AtomicUsize::new(1));
    let own = Arc::clone(&life);
    let upstream = FakeUpstream::start(json!([tool("read")]), move |hit: &Hit| {
        let session = format!("s-{}", own.load(Ordering::Acquire));
        let is_known = hit.header("mcp-session-id") == Some(&session);
        match hit.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}, "resources": {"subscribe": true}},
                    "serverInfo": {"name": "s", "version": "1"}});
                let head = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &head, &result_of(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if !is_known => Some(json_response("404 Not Found", "", "")),
            _ if hit.line.starts_with("GET") => Some(updates(hit)),
            _ => None,
        }
    })
    .await;
    (life, upstream)
}

/// A stream that tells of one resource, and stays open.
fn updates(hit: &Hit) -> Script {
    let session = hit.header("mcp-session-id").unwrap_or_default();
    let params = json!({"uri": "note://1", "of": session});
    let said = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params});
    let mut script = open_stream();
    script.push(Step::Write(chunk(&event(&said))));
    script.push(Step::HungUp(Arc::default()));
    script
}

async fn say(gw: &TestGateway, what: &str, uri: &str) -> Answer {
    let method = format!("resources/{what}");
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": uri}})).await
}

/// What a server was asked to tell of in a session.
fn asked(upstream: &FakeUpstream, session: &str) -> Vec<String> {
    let hits = upstream.hits().into_iter().filter(|hit| hit.header("mcp-session-id") == Some(session));
    let subscribed = hits.filter(|hit| hit.method() == "resources/subscribe");
    subscribed.map(|hit| hit.message()["params"]["uri"].as_str().expect("a URI").to_owned()).collect()
}

/// At each address: the gateway, and how a resource of the server is called there.
async fn doors(upstream: &FakeUpstream) -> [(TestGateway, &'static str, &'static str, &'static str); 2] {
    let one = TestGateway::with_policy(ALL, upstream).await;
    let all = TestGateway::builder().policy(ALL).at_all().start(upstream).await;
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
    let upstream = FakeUpstream::start(json!([]), |hit: &Hit| match hit.method().as_str() {
        "subscriptions/listen" => answered(hit, &json!({"resultType": "complete"})),
        _ => modern_answer(hit, &json!([tool("read")]), &json!({"tools": {}, "resources": {"subscribe": true}})),
    })
    .await;
    let mut gw = TestGateway::with_policy(ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    say(&gw, "subscribe", "note://1").await;
    gw.restart().await;
    let _ear = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    until("it is listened to", || count(&upstream, "subscriptions/listen") == 1).await;
    let listen = upstream.hits().into_iter().find(|hit| hit.method() == "subscriptions/listen").expect("it was");
    assert_eq!(listen.message()["params"]["notifications"]["resourceSubscriptions"], json!(["note://1"]));
}

#[tokio::test]
async fn what_the_policy_denies_by_now_is_not_subscribed_to_again() {
    let (life, upstream) = server().await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    say(&gw, "subscribe", "note://1").await;
    say(&gw, "subscribe", "note://2").await;
    put_in_force(&gw, r#"{"version":"1","default":"deny","tools":{"*":{}},"resources":{"note://2":{}}}"#);
    life.store(2, Ordering::Release);
    gw.call("read", json!({})).await;
    until("the other is asked for", || !asked(&upstream, "s-2").is_empty()).await;
    assert_eq!(asked(&upstream, "s-2"), ["note://2"]);
    let rows = gw.rows().await;
    let refused = rows.iter().map(|row| &row.record).filter(|row| row.kind == Kind::Refused);
    let refused: Vec<_> = refused.map(|row| (row.method.as_deref(), row.target.as_deref())).collect();
    assert_eq!(refused, [(Some("resources/subscribe"), Some("note://1"))], "and that is written");
}

#[tokio::test]
async fn a_session_listens_for_so_many_resources_and_no_more() {
    let (_life, upstream) = server().await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    assert_eq!(gw.initialize().await.status, 200);
    for number in 0..256 {
        assert_eq!(say(&gw, "subscribe", &format!("note://{number}")).await.message()["result"], json!({}));
    }
    let refused: Value = say(&gw, "subscribe", "note://more").await.message();
    assert_eq!(refused["error"]["message"], "the session listens for too many resources");
    assert_eq!(count(&upstream, "resources/subscribe"), 256, "it is not sent");
    say(&gw, "unsubscribe", "note://0").await;
    assert_eq!(say(&gw, "subscribe", "note://more").await.message()["result"], json!({}));
}
