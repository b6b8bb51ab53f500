//! Streams: keep-alive comments, large results and requests, progress notifications, and resource subscriptions.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::LazyLock;
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SseTestClient, TestGateway, TestResponse,
    event_response, json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{
    ALLOW_ALL, StatelessTestClient, chunk, event, read_for, read_until, request_count, result_message, result_response,
    start_in_session, stateless_response, stream_headers, wait_until,
};

const COMMENT: &str = "\n: \n\n";

/// Response after a pause of 400 ms without any output.
fn slow(hit: &RecordedRequest) -> ResponseScript {
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": "slept"}]});
    let mut script = vec![ScriptStep::Pause(Duration::from_millis(400))];
    script.extend(json_response("200 OK", "", &result_message(hit, &result).to_string()));
    script
}

fn silent_stream(first: &str) -> ResponseScript {
    [stream_headers(), vec![ScriptStep::Write(chunk(first)), ScriptStep::Pause(Duration::from_secs(60))]].concat()
}

fn stateful_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "tools/call" => Some(slow(hit)),
        _ if hit.request_line.starts_with("GET") => Some(silent_stream("")),
        _ => None,
    }
}

fn stateless_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "ask") => result_response(
            hit,
            &json!({"resultType": "input_required", "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "sure?"}}}}),
        ),
        ("tools/call", _) => Some(slow(hit)),
        ("subscriptions/listen", _) => {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": hit.message()["id"]});
            let params = json!({"notifications": {}, "_meta": meta});
            let first =
                json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
            Some(silent_stream(&event(&first)))
        }
        _ => stateless_response(
            hit,
            &json!([tool_definition("slow"), tool_definition("ask")]),
            &json!({"tools": {"listChanged": true}}),
        ),
    }
}

async fn setup(server: fn(&RecordedRequest) -> Option<ResponseScript>, is_aggregate: bool) -> TestGateway {
    let upstream = FakeUpstream::start(json!([tool_definition("slow")]), server).await;
    let settings = GatewaySettings { keep_alive_interval: Duration::from_millis(50), ..GatewaySettings::default() };
    let builder = TestGateway::builder().policy(ALLOW_ALL).settings(settings);
    let gw = if is_aggregate { builder.at_aggregate() } else { builder }.start(&upstream).await;
    gw.initialize().await;
    gw
}

/// Reads two keep-alive comments and checks the headers of the stream.
async fn expect_keep_alives(label: &str, mut stream: TcpStream) -> TcpStream {
    let raw = read_until(&mut stream, COMMENT, 2).await;
    let headers = raw.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase();
    assert!(
        headers.contains("x-accel-buffering: no") && headers.contains("content-type: text/event-stream"),
        "{label}: {raw}"
    );
    stream
}

/// Like [`expect_keep_alives`], for a call whose result follows the comments.
async fn expect_keep_alives_then_result(label: &str, stream: TcpStream) {
    let rest = read_until(&mut expect_keep_alives(label, stream).await, "slept", 1).await;
    assert!(rest.contains("event: message\ndata: "), "{label}: {rest}");
}

fn call(tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": tool, "arguments": {}}}).to_string()
}

#[tokio::test]
async fn running_call_sends_keep_alives_in_every_protocol_pairing() {
    assert!(GatewaySettings::default().keep_alive_interval <= Duration::from_secs(15));
    for (label, server) in [
        ("stateful", stateful_server as fn(&RecordedRequest) -> Option<ResponseScript>),
        ("stateless", stateless_server),
    ] {
        let gw = setup(server, false).await;
        expect_keep_alives_then_result(label, start_in_session(&gw, "POST", "/mcp/desk", "", &call("slow")).await)
            .await;
        let stateless =
            StatelessTestClient::new(&gw).start_request("tools/call", json!({"name": "slow", "arguments": {}})).await;
        expect_keep_alives_then_result(label, stateless).await;
    }
}

#[tokio::test]
async fn call_that_waits_for_client_input_sends_keep_alives() {
    let gw = setup(stateless_server, false).await;
    let mut stream = start_in_session(&gw, "POST", "/mcp/desk", "", &call("ask")).await;
    let raw = read_until(&mut stream, "sure?", 1).await;
    assert!(raw.to_ascii_lowercase().contains("x-accel-buffering: no"), "{raw}");
    read_until(&mut stream, COMMENT, 2).await;
}

#[tokio::test]
async fn standalone_and_subscription_streams_send_keep_alives() {
    for (label, server) in [
        ("stateful", stateful_server as fn(&RecordedRequest) -> Option<ResponseScript>),
        ("stateless", stateless_server),
    ] {
        let gw = setup(server, false).await;
        expect_keep_alives(label, start_in_session(&gw, "GET", "/mcp/desk", "", "").await).await;
        let expected = json!({"notifications": {"toolsListChanged": true}});
        expect_keep_alives(label, StatelessTestClient::new(&gw).start_request("subscriptions/listen", expected).await)
            .await;
    }
}

#[tokio::test]
async fn aggregate_streams_send_keep_alives() {
    for (label, server) in [
        ("stateful", stateful_server as fn(&RecordedRequest) -> Option<ResponseScript>),
        ("stateless", stateless_server),
    ] {
        let gw = setup(server, true).await;
        expect_keep_alives(label, start_in_session(&gw, "GET", "/mcp", "", "").await).await;
        expect_keep_alives_then_result(label, start_in_session(&gw, "POST", "/mcp", "", &call("desk__slow")).await)
            .await;
        let expected = json!({"notifications": {"toolsListChanged": true}});
        expect_keep_alives(
            label,
            StatelessTestClient::new(&gw).at_aggregate().start_request("subscriptions/listen", expected).await,
        )
        .await;
        let stateless = json!({"name": "desk__slow", "arguments": {}});
        expect_keep_alives_then_result(
            label,
            StatelessTestClient::new(&gw).at_aggregate().start_request("tools/call", stateless).await,
        )
        .await;
    }
}

/// Result of 12 MiB with escapes, unusual numbers and unknown members.
pub static LARGE_RESULT: LazyLock<String> = LazyLock::new(|| {
    let line = r#"{\"n\": 1.10, \"e\": 1e2}\n\u00e4 \/ "#;
    let texts: Vec<String> = (0..48).map(|at| format!("{at}: {}", line.repeat((256 << 10) / line.len()))).collect();
    let parts: Vec<String> =
        texts.iter().map(|text| format!(r#"{{"type":"text","text":"{text}","x":1.10}}"#)).collect();
    format!(r#"{{"resultType":"complete","content":[{}],"z":0,"a":9007199254740993}}"#, parts.join(" ,"))
});

fn large_response(hit: &RecordedRequest) -> Option<ResponseScript> {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, hit.message()["id"], *LARGE_RESULT);
    match hit.tool().as_str() {
        "whole" => Some(json_response("200 OK", "", &text)),
        "events" => Some(event_response(&format!("data: {text}\n\n"))),
        _ => None,
    }
}

#[tokio::test]
async fn twelve_megabyte_result_of_an_http_server_arrives_byte_for_byte() {
    let tools = json!([tool_definition("whole"), tool_definition("events")]);
    let stateless_tools = tools.clone();
    let stateful = FakeUpstream::start(tools, large_response).await;
    let stateless = FakeUpstream::start(json!([]), move |hit| {
        large_response(hit).or_else(|| stateless_response(hit, &stateless_tools, &json!({"tools": {}})))
    });
    let stateless = stateless.await;
    let (stateful_gw, stateless_gw) =
        (TestGateway::with_policy(ALLOW_ALL, &stateful).await, TestGateway::with_policy(ALLOW_ALL, &stateless).await);
    assert!(LARGE_RESULT.len() > 12 << 20);
    let assert_result = |response: TestResponse, large: &str| {
        assert_eq!(response.status, 200);
        let at = response.body.find("\"result\":").expect("a result") + "\"result\":".len();
        let is_same = response.body.get(at..at + large.len()) == Some(large);
        assert!(is_same, "{} of {} bytes arrived", response.body.len() - at, large.len());
        assert_eq!(response.body[at + large.len()..].trim_end(), "}", "nothing follows the result");
    };
    let assert_large_result = |response: TestResponse| assert_result(response, &LARGE_RESULT);
    assert_large_result(stateful_gw.call("whole", json!({})).await);
    assert_large_result(StatelessTestClient::new(&stateful_gw).call("whole", json!({})).await);
    assert_result(
        stateless_gw.call("events", json!({})).await,
        &LARGE_RESULT.replacen(r#""resultType":"complete","#, "", 1),
    );
    assert_large_result(StatelessTestClient::new(&stateless_gw).call("events", json!({})).await);
}

#[tokio::test]
async fn request_over_the_size_limit_is_413_on_every_http_transport() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let mut settings = GatewaySettings::default();
    settings.request_limits.max_bytes = 2_000;
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).start(&upstream).await;
    gw.initialize().await;
    let request_of_length = |length: usize| {
        let empty = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {"a": ""}}});
        let text = empty.to_string();
        text.replace("\"a\":\"\"", &format!("\"a\":\"{}\"", "x".repeat(length - text.len())))
    };
    assert_eq!((request_of_length(2_000).len(), request_of_length(2_001).len()), (2_000, 2_001));
    assert_eq!(gw.send_text(&request_of_length(2_000)).await.status, 200, "a request at the limit passes");
    let large = gw.send_text(&request_of_length(2_001)).await;
    assert_eq!(large.status, 413);
    assert!(large.body.contains("larger than 2000 bytes"), "{}", large.body);
    let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", 2_001, request_of_length(2_001));
    let headers = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
        Accept: */*\r\nMcp-Session-Id: {}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}",
        gw.address,
        gw.token.reveal(),
        gw.session()
    );
    assert_eq!(
        gatelodge_testkit::exchange(gw.address, headers.as_bytes()).await.status,
        413,
        "the limit also applies without a content-length"
    );
    let stateless = json!({"name": "read", "arguments": {"a": "x".repeat(2_000)}});
    assert_eq!(StatelessTestClient::new(&gw).request("tools/call", stateless.clone()).await.status, 413);
    assert_eq!(StatelessTestClient::new(&gw).at_aggregate().request("tools/call", stateless).await.status, 413);
    assert_eq!(SseTestClient::open(&gw).await.post(&request_of_length(2_001)).await.status, 413);
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn client_that_sends_a_whole_oversized_body_first_receives_413() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let body = "x".repeat(20 << 20);
    let headers = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
        Accept: */*\r\n",
        gw.address,
        gw.token.reveal(),
    );
    let requests = [
        format!("{headers}Content-Length: {}\r\n\r\n{body}", body.len()),
        format!("{headers}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
    ];
    for text in requests {
        let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
        stream.write_all(text.as_bytes()).await.expect("the whole body is accepted");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("an answer");
        assert!(response.starts_with("HTTP/1.1 413"), "{response}");
    }
}

/// Server that sends invalid progress: unrequested, for foreign tokens, not increasing, and after the result.
fn progress_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let progress = |token: &Value, text: &str| {
        format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":{text}}}}}\n\n"
        )
    };
    let token = &hit.message()["id"];
    let response =
        event(&result_message(hit, &json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})));
    let before = [
        progress(token, "5.0,\"total\":1e1,\"message\":\"a\""),
        progress(token, "3"),
        progress(token, "5.00"),
        progress(&json!("mine2"), "8"),
        progress(token, "5.01e0"),
        progress(token, "12345678901234567890123"),
        progress(token, "12345678901234567890123"),
        progress(token, "12345678901234567890124"),
        progress(&json!(1), "9"),
    ];
    (hit.method() == "tools/call")
        .then(|| event_response(&format!("{}{response}{}", before.concat(), progress(token, "7"))))
}

#[tokio::test]
async fn only_increasing_progress_for_the_requested_token_is_forwarded() {
    let tools = json!([tool_definition("tell")]);
    let stateless_tools = tools.clone();
    let stateful = FakeUpstream::start(tools, progress_server).await;
    let stateless = FakeUpstream::start(json!([]), move |hit| {
        progress_server(hit).or_else(|| stateless_response(hit, &stateless_tools, &json!({"tools": {}})))
    });
    let stateless = stateless.await;
    for upstream in [stateful, stateless] {
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        for with_token in [true, false] {
            let mut params = json!({"name": "tell", "arguments": {}});
            if with_token {
                params["_meta"] = json!({"progressToken": "mine"});
            }
            let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
            for response in [gw.send(&request).await, StatelessTestClient::new(&gw).request("tools/call", params).await]
            {
                let lines = response.body.lines().filter(|line| line.contains("notifications/progress"));
                let values: Vec<&str> = lines.filter_map(|line| line.split("\"params\":").nth(1)).collect();
                let expected = [
                    r#"{"progressToken":"mine","progress":5.0,"total":1e1,"message":"a"}}"#,
                    r#"{"progressToken":"mine","progress":5.01e0}}"#,
                    r#"{"progressToken":"mine","progress":12345678901234567890123}}"#,
                    r#"{"progressToken":"mine","progress":12345678901234567890124}}"#,
                ];
                assert_eq!(values, &expected[..if with_token { 4 } else { 0 }], "{}", response.body);
                assert_eq!(response.text(), "done", "the result is the last message");
            }
        }
        let hits = upstream.calls();
        assert!(hits.iter().filter(|hit| hit.message()["params"]["_meta"]["progressToken"].is_string()).count() == 2);
        assert_ne!(
            hits[0].message()["params"]["_meta"]["progressToken"],
            "mine",
            "the server receives a token of the gateway"
        );
    }
}

/// Stateless server that sends an update for every resource of a new subscription.
fn subscription_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    if hit.method() != "subscriptions/listen" {
        return stateless_response(hit, &json!([]), &json!({"resources": {"subscribe": true}}));
    }
    let meta = json!({"io.modelcontextprotocol/subscriptionId": hit.message()["id"]});
    let uris = hit.message()["params"]["notifications"]["resourceSubscriptions"].clone();
    let updates = uris.as_array().into_iter().flatten().map(|uri| {
        let params = json!({"uri": uri, "_meta": meta});
        event(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}))
    });
    let first = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"notifications": hit.message()["params"]["notifications"], "_meta": meta}});
    Some(silent_stream(&(event(&first) + &updates.collect::<String>())))
}

#[tokio::test]
async fn two_subscriptions_share_one_upstream_stream() {
    let upstream = FakeUpstream::start(json!([]), subscription_server).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    let send = async |method: &str, uri: &str| {
        let request = json!({"jsonrpc": "2.0", "id": 4, "method": method, "params": {"uri": uri}});
        assert_eq!(gw.send(&request).await.message()["result"], json!({}), "{method} {uri}");
    };
    let subscribed_uris = || -> Vec<Value> {
        let hits = upstream.requests().into_iter().filter(|hit| hit.method() == "subscriptions/listen");
        hits.map(|hit| hit.message()["params"]["notifications"]["resourceSubscriptions"].clone()).collect()
    };
    send("resources/subscribe", "note://1").await;
    let mut stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut stream, "note://1", 1).await;
    send("resources/subscribe", "note://2").await;
    let received = read_until(&mut stream, "note://2", 1).await;
    assert!(received.contains("note://1"), "one subscription covers both: {received}");
    send("resources/unsubscribe", "note://1").await;
    wait_until("the subscription shrinks", || subscribed_uris().last() == Some(&json!(["note://2"]))).await;
    let received = read_for(&mut stream, Duration::from_millis(400)).await;
    assert!(received.contains("note://2") && !received.contains("note://1"), "{received}");
    assert_eq!(subscribed_uris(), [json!(["note://1"]), json!(["note://1", "note://2"]), json!(["note://2"])]);
    assert_eq!(request_count(&upstream, "resources/subscribe") + request_count(&upstream, "resources/unsubscribe"), 0);
    send("resources/unsubscribe", "note://2").await;
    wait_until("the subscription is empty", || subscribed_uris().last() == Some(&json!([]))).await;
}
