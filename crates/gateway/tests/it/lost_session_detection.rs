//! Servers that report a lost session by something other than 404, that hang during the handshake, or that need session
//! state again after a new handshake.
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
    ALLOW_ALL, StatelessTestClient, event, read_until, request_count, result_message, result_response,
    start_in_session, stateless_response, timed_stream, wait_until,
};

fn text_response(status: &str) -> ResponseScript {
    let text = "Bad Request: No valid session ID";
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", text.len());
    vec![ScriptStep::Write(format!("{head}{text}").into_bytes())]
}

fn error_response(status: &str, id: &Value) -> ResponseScript {
    let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
    json_response(status, "", &json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
}

/// How a server responds to a request in an unknown session.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LostSessionResponse {
    PlainText,
    ErrorWithoutId,
    ErrorWithRequestId,
    ErrorWithOtherId,
    ServiceUnavailable,
}

const ALL_RESPONSES: [LostSessionResponse; 5] = [
    LostSessionResponse::PlainText,
    LostSessionResponse::ErrorWithoutId,
    LostSessionResponse::ErrorWithRequestId,
    LostSessionResponse::ErrorWithOtherId,
    LostSessionResponse::ServiceUnavailable,
];

/// Starts a server with one valid session, `s-N`. Storing another N in the returned number invalidates it. The tool
/// `odd` is always refused with 400.
async fn start_server(lost_session: LostSessionResponse) -> (Arc<AtomicUsize>, FakeUpstream) {
    let session_number = Arc::new(AtomicUsize::new(1));
    let current = Arc::clone(&session_number);
    let upstream = FakeUpstream::start(json!([tool_definition("read"), tool_definition("odd")]), move |hit: &RecordedRequest| {
        let session = format!("s-{}", current.load(Ordering::Acquire));
        let is_known = hit.header("mcp-session-id") == Some(&session);
        match hit.method().as_str() {
            "initialize" => {
                let capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}});
                let headers = format!("mcp-session-id: {session}\r\n");
                Some(json_response("200 OK", &headers, &result_message(hit, &result).to_string()))
            }
            "server/discover" => None,
            _ if hit.tool() == "odd" => Some(text_response("400 Bad Request")),
            _ if is_known && hit.request_line.starts_with("GET") => {
                let notification =
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"of": session}});
                Some(timed_stream(&[(&event(&notification), Duration::ZERO)]))
            }
            _ if is_known => None,
            _ => Some(match lost_session {
                LostSessionResponse::PlainText => text_response("400 Bad Request"),
                LostSessionResponse::ErrorWithoutId => error_response("400 Bad Request", &Value::Null),
                LostSessionResponse::ErrorWithRequestId => error_response("400 Bad Request", &hit.message()["id"]),
                LostSessionResponse::ErrorWithOtherId => error_response("400 Bad Request", &json!("server-error")),
                LostSessionResponse::ServiceUnavailable => text_response("503 Service Unavailable"),
            }),
        }
    })
    .await;
    (session_number, upstream)
}

fn sent_numbers(upstream: &FakeUpstream) -> Vec<Value> {
    upstream.calls().iter().map(|hit| hit.message()["params"]["arguments"]["n"].clone()).collect()
}

#[tokio::test]
async fn a_lost_session_is_reopened_however_it_is_reported_and_the_call_is_not_repeated() {
    for lost_session in ALL_RESPONSES {
        for (client, name) in [("stateful", "read"), ("aggregate", "desk__read"), ("stateless", "read")] {
            let (session_number, upstream) = start_server(lost_session).await;
            let builder = TestGateway::builder().policy(ALLOW_ALL);
            let gw = if client == "aggregate" { builder.at_aggregate() } else { builder }.start(&upstream).await;
            let call = async |n: u8| -> TestResponse {
                let arguments = json!({"n": n});
                if client == "stateless" {
                    StatelessTestClient::new(&gw).call(name, arguments).await
                } else {
                    gw.call(name, arguments).await
                }
            };
            assert_eq!(call(1).await.text(), r#"{"n":1}"#, "{lost_session:?} {client}");
            session_number.store(2, Ordering::Release);
            let lost = call(2).await;
            assert!(lost.text().contains("no longer knew the session"), "{lost_session:?} {client}: {}", lost.body);
            assert_eq!(call(3).await.text(), r#"{"n":3}"#, "{lost_session:?} {client}: the next call works");
            assert_eq!(
                sent_numbers(&upstream),
                [json!(1), json!(2), json!(3)],
                "{lost_session:?} {client}: each was sent once"
            );
            assert_eq!(request_count(&upstream, "initialize"), 2, "{lost_session:?} {client}");
        }
    }
}

#[tokio::test]
async fn a_list_is_requested_again_after_a_lost_session_however_it_is_reported() {
    for lost_session in ALL_RESPONSES {
        let (session_number, upstream) = start_server(lost_session).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        gw.initialize().await;
        session_number.store(2, Ordering::Release);
        let list = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.message();
        assert_eq!(list["result"]["tools"][0]["name"], "read", "{lost_session:?}: {list}");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_with_400_does_not_mean_a_lost_session() {
    let (_, upstream) = start_server(LostSessionResponse::PlainText).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    for _ in 0..3 {
        let refused = gw.call("odd", json!({})).await;
        assert!(refused.text().contains("HTTP status 400"), "{}", refused.body);
    }
    assert_eq!(gw.call("read", json!({"n": 1})).await.text(), r#"{"n":1}"#);
    assert_eq!((request_count(&upstream, "initialize"), upstream.calls_to("odd").len()), (1, 3));
}

#[tokio::test]
async fn a_standalone_stream_is_reopened_after_a_lost_session_that_is_not_reported_by_404() {
    let (session_number, upstream) = start_server(LostSessionResponse::PlainText).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let mut stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut stream, r#""of":"s-1""#, 1).await;
    session_number.store(2, Ordering::Release);
    read_until(&mut stream, r#""of":"s-2""#, 1).await;
    assert_eq!(request_count(&upstream, "initialize"), 2, "one more handshake");
}

#[tokio::test]
async fn the_log_level_is_sent_again_after_a_lost_session() {
    let (session_number, upstream) = start_server(LostSessionResponse::PlainText).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "warning"}});
    assert_eq!(gw.send(&level).await.message()["result"], json!({}));
    session_number.store(2, Ordering::Release);
    gw.call("read", json!({"n": 1})).await;
    wait_until("the level is sent again", || request_count(&upstream, "logging/setLevel") == 2).await;
    let requests = upstream.requests().into_iter().filter(|hit| hit.method() == "logging/setLevel");
    let requests: Vec<_> =
        requests.map(|hit| (hit.header("mcp-session-id").map(str::to_owned), hit.message())).collect();
    assert_eq!(requests[1].0.as_deref(), Some("s-2"));
    assert_eq!(requests[1].1["params"]["level"], "warning");
}

#[tokio::test]
async fn a_server_that_hangs_during_the_handshake_is_abandoned_before_clients_time_out() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
        matches!(hit.method().as_str(), "initialize" | "server/discover")
            .then(|| vec![ScriptStep::Pause(Duration::from_secs(60))])
    })
    .await;
    assert!(GatewaySettings::default().connect_timeout * 4 <= Duration::from_secs(20));
    let settings = GatewaySettings { connect_timeout: Duration::from_millis(250), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings.clone()).start(&upstream).await;
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let started = Instant::now();
    let response = gw.post(&[], &initialize).await;
    assert!(started.elapsed() < Duration::from_secs(3), "it took {:?}", started.elapsed());
    assert!(response.body.contains("did not answer the handshake"), "{}", response.body);
    let started = Instant::now();
    let response = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert!(started.elapsed() < Duration::from_secs(3), "it took {:?}", started.elapsed());
    assert!(
        response.body.contains("did not answer the handshake") && response.body.contains("nothing else was sent"),
        "{}",
        response.body
    );
}

#[tokio::test]
async fn initializing_a_stateful_client_discovers_a_stateless_server_once() {
    for path in ["/mcp/desk", "/mcp"] {
        let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| {
            stateless_response(hit, &json!([tool_definition("read")]), &json!({"tools": {}}))
        })
        .await;
        let builder = TestGateway::builder().policy(ALLOW_ALL);
        let gw = if path == "/mcp" { builder.at_aggregate() } else { builder }.start(&upstream).await;
        gw.initialize().await;
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        assert_eq!(request_count(&upstream, "server/discover"), 1, "{path}");
    }
}

#[tokio::test]
async fn members_of_one_protocol_generation_do_not_reach_clients_of_the_other() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" => result_response(hit, &json!({"resultType": "complete", "content": []})),
        _ => stateless_response(hit, &json!([tool_definition("read")]), &json!({"tools": {}})),
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let response = gw.call("read", json!({})).await;
    assert_eq!(response.message()["result"], json!({"content": []}), "{}", response.body);
    let list = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    assert!(!list.body.contains("resultType"), "{}", list.body);

    let stateful = FakeUpstream::start(json!([tool_definition("page")]), |hit: &RecordedRequest| {
        let params = json!({"mode": "url", "message": "sign in", "url": "https://example.com", "elicitationId": "e-1"});
        let elicitation = json!({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": params});
        (hit.method() == "tools/call")
            .then(|| timed_stream(&[(&event(&elicitation), Duration::ZERO), ("", Duration::from_secs(9))]))
    })
    .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &stateful).await;
    let suspended = StatelessTestClient::new(&gw).call("page", json!({})).await;
    let params = suspended.message()["result"]["inputRequests"]["ask"]["params"].clone();
    assert_eq!(
        params,
        json!({"mode": "url", "message": "sign in", "url": "https://example.com"}),
        "{}",
        suspended.body
    );
}

#[tokio::test]
async fn an_http_sse_server_gets_the_cancellation_of_a_stateful_client_once() {
    let upstream = FakeSseUpstream::start(&["slow", "read"], |hit: &RecordedRequest| {
        (hit.tool() == "slow").then(|| SsePostReply::accept_then(Vec::new()))
    })
    .await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_at(&upstream.url()).await;
    gw.initialize().await;
    let slow = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "slow", "arguments": {}}});
    let cancelling = async {
        wait_until("the call arrives", || upstream.requests().iter().any(|hit| hit.tool() == "slow")).await;
        let params = json!({"requestId": 3, "reason": "enough"});
        gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    };
    tokio::join!(gw.send(&slow), cancelling);
    // The messages are in order: when this call has a result, a second cancellation would have arrived.
    gw.call("read", json!({})).await;
    gw.assert_stops_promptly().await;
    let cancellations = upstream.messages("notifications/cancelled");
    assert_eq!(cancellations.len(), 1, "{cancellations:?}");
    assert_eq!(cancellations[0].message()["params"]["reason"], "enough");
}
