//! Limits are exact: calls that reach the upstream never exceed the policy's limit, even with many concurrent clients.
#![allow(clippy::indexing_slicing, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use gatelodge_testkit::{FakeUpstream, TestGateway};
use serde_json::json;

fn policy(limit: &str) -> String {
    format!(r#"{{"version":"1","default":"deny","tools":{{"pay":{{"limits":[{limit}]}}}}}}"#)
}

/// Sends `attempts` calls from 64 concurrent clients and returns how many were allowed.
async fn send_concurrently(gw: &Arc<TestGateway>, attempts: usize, arguments: &serde_json::Value) -> usize {
    gw.call("pay", json!({"amount": "not a number"})).await;
    let mut clients = Vec::new();
    for client in 0..64 {
        let (gw, arguments) = (Arc::clone(gw), arguments.clone());
        clients.push(tokio::spawn(async move {
            let mut allowed = 0;
            for _ in (client..attempts).step_by(64) {
                let reply = gw.call("pay", arguments.clone()).await;
                let message = reply.message();
                allowed += usize::from(message["result"]["isError"] != json!(true));
            }
            allowed
        }));
    }
    let mut allowed = 0;
    for client in clients {
        allowed += client.await.expect("the client task finishes");
    }
    allowed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_concurrent_clients_never_exceed_the_limit() {
    let rolling = r#","align":"rolling""#;
    let spend = r#","amount":"args.amount""#;
    for (max, extra, amount, expected) in [
        ("1", "", "1", 1),
        ("7", rolling, "1", 7),
        ("100", "", "1", 100),
        ("1000", rolling, "1", 1000),
        ("1.05", spend, "0.1", 10),
        ("10", spend, "0.3", 33),
    ] {
        let upstream = FakeUpstream::with_tools(&["pay"]).await;
        let limit = format!(r#"{{"counter":"c","window":"hour","max":{max}{extra}}}"#);
        let gw = Arc::new(TestGateway::with_policy(&policy(&limit), &upstream).await);
        let arguments = serde_json::from_str(&format!(r#"{{"amount":{amount}}}"#)).expect("JSON");
        let before = upstream.calls().len();
        let is_spend = extra == spend;
        let allowed = send_concurrently(&gw, expected + 200, &arguments).await;
        // The first call has an amount that is not a number. A limit without `amount` counts it like any other call.
        let first = usize::from(!is_spend);
        assert_eq!(allowed + first, expected, "{limit}");
        assert_eq!(upstream.calls().len() - before, expected, "{limit}: calls upstream");
        let verified = gw.store.call_log.verify(vec![]).await.expect("the ledger is readable");
        assert_eq!(verified.chain_break, None);
    }
}

#[tokio::test]
async fn a_limit_counts_per_grant_and_resets_at_the_end_of_its_window() {
    let upstream = FakeUpstream::with_tools(&["pay"]).await;
    let text = policy(r#"{"counter":"c","window":"minute","max":1}"#);
    let gw = TestGateway::with_policy(&text, &upstream).await;
    let is_refused = |reply: gatelodge_testkit::TestResponse| reply.message()["result"]["isError"] == json!(true);
    assert!(!is_refused(gw.call("pay", json!({})).await));
    assert!(is_refused(gw.call("pay", json!({})).await));
    gw.clock.advance(std::time::Duration::from_millis(59_999));
    assert!(is_refused(gw.call("pay", json!({})).await));
    gw.clock.advance(std::time::Duration::from_millis(1));
    assert!(!is_refused(gw.call("pay", json!({})).await));
    gw.clock.set("2026-11-15T11:00:00Z".parse().expect("a time"));
    assert!(is_refused(gw.call("pay", json!({})).await), "a clock that goes backwards does not reset the counter");
    let other = gw.add_grant("other", &text);
    let bearer = format!("Bearer {}", other.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Accept", "*/*")];
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
    let opened = gw.send_raw("POST", "/mcp/desk", &headers, initialize.to_string().as_bytes()).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let with_session: Vec<_> = headers.into_iter().chain([("Mcp-Session-Id", session.as_str())]).collect();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pay"}}).to_string();
    assert!(
        !is_refused(gw.send_raw("POST", "/mcp/desk", &with_session, call.as_bytes()).await),
        "the second grant has its own counter"
    );
}
