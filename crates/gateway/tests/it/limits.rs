//! Limits to the unit: what reaches the upstream never exceeds what the policy says, whoever asks how fast.
#![allow(clippy::indexing_slicing, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use gatelodge_testkit::{FakeUpstream, TestGateway};
use serde_json::json;

fn policy(limit: &str) -> String {
    format!(r#"{{"version":"1","default":"deny","tools":{{"pay":{{"limits":[{limit}]}}}}}}"#)
}

/// Sends `tries` calls from 64 callers at once and counts those that pass.
async fn storm(gw: &Arc<TestGateway>, tries: usize, arguments: &serde_json::Value) -> usize {
    gw.call("pay", json!({"amount": "not a number"})).await;
    let mut callers = Vec::new();
    for caller in 0..64 {
        let (gw, arguments) = (Arc::clone(gw), arguments.clone());
        callers.push(tokio::spawn(async move {
            let mut passed = 0;
            for _ in (caller..tries).step_by(64) {
                let answer = gw.call("pay", arguments.clone()).await;
                let message = answer.message();
                passed += usize::from(message["result"]["isError"] != json!(true));
            }
            passed
        }));
    }
    let mut passed = 0;
    for caller in callers {
        passed += caller.await.expect("a caller");
    }
    passed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_callers_never_get_more_than_the_limit() {
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
        let passed = storm(&gw, expected + 200, &arguments).await;
        // Without an amount to read, the first odd call counted as one like any other.
        let first = usize::from(!is_spend);
        assert_eq!(passed + first, expected, "{limit}");
        assert_eq!(upstream.calls().len() - before, expected, "{limit}: hits");
        let verified = gw.ledger.verify(vec![]).await.expect("a store");
        assert_eq!(verified.chain_break, None);
    }
}

#[tokio::test]
async fn a_limit_is_a_grants_own_and_room_comes_back_at_the_edge_of_the_window() {
    let upstream = FakeUpstream::with_tools(&["pay"]).await;
    let text = policy(r#"{"counter":"c","window":"minute","max":1}"#);
    let gw = TestGateway::with_policy(&text, &upstream).await;
    let refused = |answer: gatelodge_testkit::TestResponse| answer.message()["result"]["isError"] == json!(true);
    assert!(!refused(gw.call("pay", json!({})).await));
    assert!(refused(gw.call("pay", json!({})).await));
    gw.clock.advance(std::time::Duration::from_millis(59_999));
    assert!(refused(gw.call("pay", json!({})).await));
    gw.clock.advance(std::time::Duration::from_millis(1));
    assert!(!refused(gw.call("pay", json!({})).await));
    gw.clock.set("2026-11-15T11:00:00Z".parse().expect("a time"));
    assert!(refused(gw.call("pay", json!({})).await), "a clock that goes back gives nothing back");
    let other = gw.add_grant("other", &text);
    let bearer = format!("Bearer {}", other.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Accept", "*/*")];
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}});
    let opened = gw.send_raw("POST", "/mcp/desk", &headers, hello.to_string().as_bytes()).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let with_session: Vec<_> = headers.into_iter().chain([("Mcp-Session-Id", session.as_str())]).collect();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pay"}}).to_string();
    assert!(!refused(gw.send_raw("POST", "/mcp/desk", &with_session, call.as_bytes()).await), "its own counter");
}
