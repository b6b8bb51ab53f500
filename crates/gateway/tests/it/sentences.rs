//! What is said of a server that fails is true of the case: the call was not sent, may have run, or there was none.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_testkit::{FakeUpstream, Hit, Script, Step, TestGateway, json_response, tool};
use serde_json::{Value, json};

use super::rows_kit::{ALL, Caller};

/// A server that does this for requests of one method.
async fn failing(method: &'static str, script: fn() -> Script) -> FakeUpstream {
    FakeUpstream::start(json!([tool("read")]), move |hit: &Hit| (hit.method() == method).then(script)).await
}

fn said(answer: &Value) -> String {
    let text = answer["error"]["message"].as_str().or_else(|| answer["result"]["content"][0]["text"].as_str());
    text.unwrap_or_else(|| panic!("nothing is said in {answer}")).to_owned()
}

#[tokio::test]
async fn a_handshake_that_fails_is_called_one_and_nothing_is_said_to_have_run() {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    for script in [|| vec![Step::Close], || json_response("500 Internal Server Error", "", "{}")] {
        let upstream = failing("initialize", script).await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        let all = TestGateway::builder().policy(ALL).at_all().start(&upstream).await;
        all.initialize().await;
        let cases = [
            gw.post(&[], &hello.to_string()).await,
            Caller::of(&gw).ask("server/discover", json!({})).await,
            Caller::of(&gw).call("read", json!({})).await,
            Caller::of(&gw).at_all().call("desk__read", json!({})).await,
            all.call("desk__read", json!({})).await,
        ];
        for (number, answer) in cases.iter().enumerate() {
            let said = said(&answer.message());
            assert!(said.contains("the handshake with the server failed: "), "{number}: {said}");
            assert!(said.contains("; nothing else was sent"), "{number}: {said}");
            assert!(!said.contains("may have run"), "{number}: {said}");
        }
        assert!(upstream.calls().is_empty());
    }
}

#[tokio::test]
async fn what_does_nothing_at_a_server_is_not_said_to_have_run() {
    let closes = || vec![Step::Close];
    for method in ["tools/list", "ping"] {
        let upstream = failing(method, closes).await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        let answer = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method})).await;
        let said = said(&answer.message());
        assert!(said.starts_with("[UPSTREAM] the server's answer did not come whole; quote call "), "{method}: {said}");
    }
}

#[tokio::test]
async fn of_a_call_whose_session_was_forgotten_one_thing_is_said() {
    let upstream = failing("tools/call", || json_response("404 Not Found", "", "")).await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    let text = gw.call("read", json!({})).await.text();
    let words = "[UPSTREAM] the server had forgotten the session; the call may have run; quote call ";
    assert!(text.starts_with(words), "{text}");
}
