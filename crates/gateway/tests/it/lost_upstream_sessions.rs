//! Servers that say a session is lost by other words than 404, that hang at the handshake, or have to be told again what
//! was agreed.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeSseUpstream, FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SsePostReply, TestGateway,
    TestResponse, json_response, tool_definition,
};
use serde_json::{Value, json};

use super::support::{
    ALLOW_ALL, StatelessClient, count_requests, event, event_stream, read_until, result_message, result_response,
    start_request_in_session, stateless_server_response, wait_until,
};

fn plain(status: &str) -> ResponseScript {
    let text = "Bad Request: No valid session ID";
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", text.len());
    vec![ScriptStep::Write(format!("{head}{text}").into_bytes())]
}

fn worded(status: &str, id: &Value) -> ResponseScript {
    let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
    json_response(status, "", &json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
}

/// How a server says that it does not know a session.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Words {
    Plain,
    WithoutId,
    UnderTheId,
    UnderAnother,
    Unavailable,
    /// Not at all: what it does not like is the call.
    Known,
}

const LOST: [Words; 5] = [Words::Plain, Words::WithoutId, Words::UnderTheId, Words::UnderAnother, Words::Unavailable];

/// A server that knows only the session that it opened last, and forgets it when it begins another life.
async fn server(words: Words) -> (Arc<AtomicUsize>, FakeUpstream) {
    let lives = Arc::new(AtomicUsize::new(1));
    let own = Arc::clone(&lives);
    let upstream = FakeUpstream::start(json!([tool_definition("read"), tool_definition("odd")]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", own.load(Ordering::Acquire));
        let is_known = hit.header("mcp-session-id") == Some(&session);
        match hit.method().as_str() {
            "initialize" => {
                let capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}});
                let head = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &head, &result_message(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if hit.tool() == "odd" => Some(plain("400 Bad Request")),
            _ if is_known && hit.request_line.starts_with("GET") => {
                let said = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"of": session}});
                Some(event_stream(&[(&event(&said), Duration::ZERO)]))
            }
            _ if is_known => None,
            _ => Some(match words {
                Words::Plain | Words::Known => plain("400 Bad Request"),
                Words::WithoutId => worded("400 Bad Request", &Value::Null),
                Words::UnderTheId => worded("400 Bad Request", &hit.message()["id"]),
                Words::UnderAnother => worded("400 Bad Request", &json!("server-error")),
                Words::Unavailable => plain("503 Service Unavailable"),
            }),
        }
    })
    .await;
    (lives, upstream)
}

fn sent(upstream: &FakeUpstream) -> Vec<Value> {
    upstream.calls().iter().map(|hit| hit.message()["params"]["arguments"]["n"].clone()).collect()
}

#[tokio::test]
async fn a_session_that_is_lost_in_whatever_words_is_opened_again_and_the_call_is_not_repeated() {
    for words in LOST {
        for (way, name) in [("session", "read"), ("all", "desk__read"), ("alone", "read")] {
            let (lives, upstream) = server(words).await;
            let builder = TestGateway::builder().policy(ALLOW_ALL);
            let gw = if way == "all" { builder.at_aggregate() } else { builder }.start(&upstream).await;
            let call = async |n: u8| -> TestResponse {
                let arguments = json!({"n": n});
                if way == "alone" {
                    StatelessClient::new(&gw).call(name, arguments).await
                } else {
                    gw.call(name, arguments).await
                }
            };
            assert_eq!(call(1).await.text(), r#"{"n":1}"#, "{words:?} {way}");
            lives.store(2, Ordering::Release);
            let lost = call(2).await;
            assert!(lost.text().contains("had forgotten the session"), "{words:?} {way}: {}", lost.body);
            assert_eq!(call(3).await.text(), r#"{"n":3}"#, "{words:?} {way}: the next one works");
            assert_eq!(sent(&upstream), [json!(1), json!(2), json!(3)], "{words:?} {way}: each was sent once");
            assert_eq!(count_requests(&upstream, "initialize"), 2, "{words:?} {way}");
        }
    }
}

#[tokio::test]
async fn a_list_is_asked_for_once_more_where_the_session_was_lost_in_whatever_words() {
    for words in LOST {
        let (lives, upstream) = server(words).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize().await;
        lives.store(2, Ordering::Release);
        let list = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.message();
        assert_eq!(list["result"]["tools"][0]["name"], "read", "{words:?}: {list}");
    }
}

#[tokio::test]
async fn a_call_that_the_server_does_not_like_says_nothing_of_the_session() {
    let (_, upstream) = server(Words::Known).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    for _ in 0..3 {
        let refused = gw.call("odd", json!({})).await;
        assert!(refused.text().contains("HTTP status 400"), "{}", refused.body);
    }
    assert_eq!(gw.call("read", json!({"n": 1})).await.text(), r#"{"n":1}"#);
    assert_eq!((count_requests(&upstream, "initialize"), upstream.calls_to("odd").len()), (1, 3));
}

#[tokio::test]
async fn who_only_listens_hears_a_server_again_that_says_otherwise_than_by_404_that_it_has_forgotten() {
    let (lives, upstream) = server(Words::Plain).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let mut ear = start_request_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut ear, r#""of":"s-1""#, 1).await;
    lives.store(2, Ordering::Release);
    read_until(&mut ear, r#""of":"s-2""#, 1).await;
    assert_eq!(count_requests(&upstream, "initialize"), 2, "it is greeted once more");
}

#[tokio::test]
async fn a_server_that_has_forgotten_a_session_is_told_again_which_log_messages_its_client_wants() {
    let (lives, upstream) = server(Words::Plain).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "warning"}});
    assert_eq!(gw.send(&level).await.message()["result"], json!({}));
    lives.store(2, Ordering::Release);
    gw.call("read", json!({"n": 1})).await;
    wait_until("it is told again", || count_requests(&upstream, "logging/setLevel") == 2).await;
    let said = upstream.requests().into_iter().filter(|hit| hit.method() == "logging/setLevel");
    let said: Vec<_> = said.map(|hit| (hit.header("mcp-session-id").map(str::to_owned), hit.message())).collect();
    assert_eq!(said[1].0.as_deref(), Some("s-2"));
    assert_eq!(said[1].1["params"]["level"], "warning");
}

#[tokio::test]
async fn a_server_that_hangs_at_the_handshake_is_given_up_well_below_what_clients_wait() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        matches!(hit.method().as_str(), "initialize" | "server/discover")
            .then(|| vec![ScriptStep::Pause(Duration::from_secs(60))])
    })
    .await;
    assert!(GatewaySettings::default().connect_time * 4 <= Duration::from_secs(20));
    let settings = GatewaySettings { connect_time: Duration::from_millis(250), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings.clone()).start(&upstream).await;
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string();
    let began = Instant::now();
    let answer = gw.post(&[], &hello).await;
    assert!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
    assert!(answer.body.contains("did not answer the handshake"), "{}", answer.body);
    let began = Instant::now();
    let answer = StatelessClient::new(&gw).call("read", json!({})).await;
    assert!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
    assert!(
        answer.body.contains("did not answer the handshake") && answer.body.contains("nothing else was sent"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn a_client_that_shakes_hands_with_a_server_without_sessions_costs_it_one_question() {
    for path in ["/mcp/desk", "/mcp"] {
        let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
            stateless_server_response(hit, &json!([tool_definition("read")]), &json!({"tools": {}}))
        })
        .await;
        let builder = TestGateway::builder().policy(ALLOW_ALL);
        let gw = if path == "/mcp" { builder.at_aggregate() } else { builder }.start(&upstream).await;
        gw.initialize().await;
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        assert_eq!(count_requests(&upstream, "server/discover"), 1, "{path}");
    }
}

#[tokio::test]
async fn what_only_one_era_has_does_not_reach_a_client_of_the_other() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" => result_response(hit, &json!({"resultType": "complete", "content": []})),
        _ => stateless_server_response(hit, &json!([tool_definition("read")]), &json!({"tools": {}})),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let answer = gw.call("read", json!({})).await;
    assert_eq!(answer.message()["result"], json!({"content": []}), "{}", answer.body);
    let list = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    assert!(!list.body.contains("resultType"), "{}", list.body);

    let legacy = FakeUpstream::start(json!([tool_definition("page")]), |hit: &RecordedRequest| {
        let params = json!({"mode": "url", "message": "sign in", "url": "https://example.com", "elicitationId": "e-1"});
        let question = json!({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": params});
        (hit.method() == "tools/call")
            .then(|| event_stream(&[(&event(&question), Duration::ZERO), ("", Duration::from_secs(9))]))
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &legacy).await;
    let asked = StatelessClient::new(&gw).call("page", json!({})).await;
    let params = asked.message()["result"]["inputRequests"]["ask"]["params"].clone();
    assert_eq!(params, json!({"mode": "url", "message": "sign in", "url": "https://example.com"}), "{}", asked.body);
}

#[tokio::test]
async fn a_client_with_a_session_that_cancels_is_told_of_once_at_a_server_by_http_and_sse() {
    let upstream = FakeSseUpstream::start(&["slow", "read"], |hit: &RecordedRequest| {
        (hit.tool() == "slow").then(|| SsePostReply::accept_then(Vec::new()))
    })
    .await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_at(&upstream.url()).await;
    gw.initialize().await;
    let slow = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "slow", "arguments": {}}});
    let cancelling = async {
        wait_until("the call is there", || upstream.requests().iter().any(|hit| hit.tool() == "slow")).await;
        let params = json!({"requestId": 3, "reason": "enough"});
        gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    };
    tokio::join!(gw.send(&slow), cancelling);
    // Another message behind it: whatever was to come before has come.
    gw.call("read", json!({})).await;
    gw.assert_stops_promptly().await;
    let told = upstream.messages("notifications/cancelled");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].message()["params"]["reason"], "enough");
}
