//! What is said of a server that fails is true of the case: the call was not sent, may have run, or there was none.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::rows_kit::{ALL, Caller, count, result_of, until};

/// A server that does this for requests of one method.
async fn failing(method: &'static str, script: fn() -> ResponseScript) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        (hit.method() == method).then(script)
    })
    .await
}

fn said(answer: &Value) -> String {
    let text = answer["error"]["message"].as_str().or_else(|| answer["result"]["content"][0]["text"].as_str());
    text.unwrap_or_else(|| panic!("nothing is said in {answer}")).to_owned()
}

#[tokio::test]
async fn a_handshake_that_fails_is_called_one_and_nothing_is_said_to_have_run() {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    for script in [|| vec![ScriptStep::Close], || json_response("500 Internal Server Error", "", "{}")] {
        let upstream = failing("initialize", script).await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        let all = TestGateway::builder().policy(ALL).at_aggregate().start(&upstream).await;
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
    let closes = || vec![ScriptStep::Close];
    for method in ["tools/list", "ping"] {
        let upstream = failing(method, closes).await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        let answer = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method})).await;
        let said = said(&answer.message());
        assert!(said.starts_with("[UPSTREAM] the server's response is incomplete; quote call "), "{method}: {said}");
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

/// Where a server can be reached until the task is ended; connections that are open stay.
async fn door_to(upstream: &FakeUpstream) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let behind = upstream.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let task = tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = TcpStream::connect(&behind).await.expect("a connection");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    (url, task)
}

#[tokio::test]
async fn of_a_list_whose_second_page_cannot_be_asked_for_nobody_says_that_nothing_was_sent() {
    let go_on = Arc::new(Notify::new());
    let own = Arc::clone(&go_on);
    let upstream = FakeUpstream::start(json!([]), move |hit: &RecordedRequest| {
        let page = result_of(hit, &json!({"tools": [tool_definition("read")], "nextCursor": "2"})).to_string();
        let page =
            [vec![ScriptStep::WaitFor(Arc::clone(&own))], json_response("200 OK", "connection: close\r\n", &page)];
        (hit.method() == "tools/list").then(|| page.concat())
    })
    .await;
    let (url, door) = door_to(&upstream).await;
    let gw = TestGateway::builder().policy(ALL).start_at(&url).await;
    gw.initialize().await;
    let closing = async {
        until("the first page is asked for", || count(&upstream, "tools/list") == 1).await;
        door.abort();
        until("nobody can come any more", || door.is_finished()).await;
        go_on.notify_one();
    };
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let said = said(&tokio::join!(gw.send(&list), closing).0.message());
    assert!(said.starts_with("[UPSTREAM] the server's response is incomplete; quote call "), "{said}");
    assert_eq!(count(&upstream, "tools/list"), 1);
}
