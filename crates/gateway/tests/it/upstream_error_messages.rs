//! Error messages about failing servers are accurate: they say whether a call was not sent or may have run, and mention
//! no call where there was none.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::support::{ALLOW_ALL, StatelessTestClient, request_count, result_message, wait_until};

/// Server that runs `script` for requests of one method.
async fn failing_server(method: &'static str, script: fn() -> ResponseScript) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        (hit.method() == method).then(script)
    })
    .await
}

fn error_text(response: &Value) -> String {
    let text = response["error"]["message"].as_str().or_else(|| response["result"]["content"][0]["text"].as_str());
    text.unwrap_or_else(|| panic!("no text in {response}")).to_owned()
}

#[tokio::test]
async fn failed_handshake_is_reported_as_such_and_no_call_may_have_run() {
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    for script in [|| vec![ScriptStep::Close], || json_response("500 Internal Server Error", "", "{}")] {
        let upstream = failing_server("initialize", script).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        let aggregate_gw = TestGateway::builder().policy(ALLOW_ALL).at_aggregate().start(&upstream).await;
        aggregate_gw.initialize().await;
        let cases = [
            gw.post(&[], &initialize.to_string()).await,
            StatelessTestClient::new(&gw).request("server/discover", json!({})).await,
            StatelessTestClient::new(&gw).call("read", json!({})).await,
            StatelessTestClient::new(&gw).at_aggregate().call("desk__read", json!({})).await,
            aggregate_gw.call("desk__read", json!({})).await,
        ];
        for (index, response) in cases.iter().enumerate() {
            let text = error_text(&response.message());
            assert!(text.contains("the handshake with the server failed: "), "{index}: {text}");
            assert!(text.contains("; nothing else was sent"), "{index}: {text}");
            assert!(!text.contains("may have run"), "{index}: {text}");
        }
        assert!(upstream.calls().is_empty());
    }
}

#[tokio::test]
async fn failed_list_or_ping_does_not_say_that_a_call_may_have_run() {
    let close = || vec![ScriptStep::Close];
    for method in ["tools/list", "ping"] {
        let upstream = failing_server(method, close).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        let response = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method})).await;
        let text = error_text(&response.message());
        assert!(text.starts_with("[UPSTREAM] the server's response is incomplete; call id "), "{method}: {text}");
    }
}

#[tokio::test]
async fn call_in_a_forgotten_session_is_reported_once_as_may_have_run() {
    let upstream = failing_server("tools/call", || json_response("404 Not Found", "", "")).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let text = gw.call("read", json!({})).await.text();
    let expected = "[UPSTREAM] the server no longer knew the session; the call may have run; call id ";
    assert!(text.starts_with(expected), "{text}");
}

/// TCP proxy to a server. Aborting the task refuses new connections; open ones stay.
async fn proxy_to(upstream: &FakeUpstream) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let upstream_address = upstream.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let task = tokio::spawn(async move {
        while let Ok((mut client_side, _)) = listener.accept().await {
            let mut upstream_side = TcpStream::connect(&upstream_address).await.expect("a connection");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client_side, &mut upstream_side).await });
        }
    });
    (url, task)
}

#[tokio::test]
async fn list_that_fails_at_its_second_page_does_not_claim_that_nothing_was_sent() {
    let release = Arc::new(Notify::new());
    let gate = Arc::clone(&release);
    let upstream = FakeUpstream::start(json!([]), move |hit: &RecordedRequest| {
        let page = result_message(hit, &json!({"tools": [tool_definition("read")], "nextCursor": "2"})).to_string();
        let page =
            [vec![ScriptStep::WaitFor(Arc::clone(&gate))], json_response("200 OK", "connection: close\r\n", &page)];
        (hit.method() == "tools/list").then(|| page.concat())
    })
    .await;
    let (url, proxy) = proxy_to(&upstream).await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_at(&url).await;
    gw.initialize().await;
    let close_proxy = async {
        wait_until("the first page is requested", || request_count(&upstream, "tools/list") == 1).await;
        proxy.abort();
        wait_until("the proxy is closed", || proxy.is_finished()).await;
        release.notify_one();
    };
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let text = error_text(&tokio::join!(gw.send(&list), close_proxy).0.message());
    assert!(text.starts_with("[UPSTREAM] the server's response is incomplete; call id "), "{text}");
    assert_eq!(request_count(&upstream, "tools/list"), 1);
}
