//! Servers that echo what they receive, over every HTTP transport: neither the injected secret nor the client's token
//! is in replies, log rows, log output or spans, and the client's token is in no upstream request.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::PoisonError;
use std::time::Duration;

use data_encoding::BASE64;
use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SseTestClient, TestGateway, TestResponse, json_response,
    tool_definition,
};
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;

use super::support::{
    ALLOW_ALL, CapturedLog, StatelessTestClient, event, result_message, result_response, stateless_response,
    timed_stream, wait_until,
};
use super::telemetry::Collector;

const SECRET: &str = "sk-live-Zq8/x+9_marked";
const TOOLS: [&str; 7] = ["json", "events", "error", "status", "garbage", "kind", "away"];

/// Text of a server that echoes the secret, in plain and in Base64.
fn echo() -> String {
    format!("{SECRET} {}", BASE64.encode(format!("user:{SECRET}").as_bytes()))
}

/// Response to a call: the tool selects where the secret is echoed.
fn call_response(hit: &RecordedRequest) -> Option<ResponseScript> {
    let text = echo();
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": text}], "structuredContent": {"h": text}});
    let notification =
        |method: &str, params: Value| event(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    match hit.tool().as_str() {
        "events" => {
            let progress = json!({"progressToken": hit.message()["id"], "progress": 1, "message": text});
            let server_request = json!({"jsonrpc": "2.0", "id": text, "method": text, "params": {"message": text}});
            let parts = [
                notification("notifications/message", json!({"level": "info", "data": text, "logger": text})),
                notification("notifications/progress", progress),
                notification("notifications/resources/updated", json!({"uri": format!("note://{text}")})),
                event(&server_request),
                format!("event: {text}\nid: {text}\ndata: {text}\n\n"),
            ];
            Some(timed_stream(&[(
                &format!("{}{}", parts.concat(), event(&result_message(hit, &result))),
                Duration::ZERO,
            )]))
        }
        "error" => {
            let error = json!({"code": -32099, "message": text, "data": {"h": text}, "x": text});
            let body = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error, "y": text}).to_string();
            Some(json_response("200 OK", "", &body))
        }
        "status" => Some(json_response(&format!("500 {SECRET}"), "", &format!("\"{text}\""))),
        "garbage" => Some(json_response("200 OK", "", &text)),
        "kind" => {
            let http_response =
                format!("HTTP/1.1 200 OK\r\ncontent-type: text/{SECRET}\r\ncontent-length: 2\r\n\r\n{{}}");
            Some(vec![ScriptStep::Write(http_response.into_bytes())])
        }
        "away" => Some(json_response("302 Found", &format!("location: http://127.0.0.1/{SECRET}\r\n"), "{}")),
        _ => result_response(hit, &result),
    }
}

fn tools() -> Value {
    let mut tools: Vec<Value> = TOOLS.iter().map(|name| tool_definition(name)).collect();
    tools[0]["description"] = json!(echo());
    tools.push(tool_definition(&format!("{}_{SECRET}", "long".repeat(12))));
    json!(tools)
}

/// Responses that echo the secret, in both protocol generations; `None` for other methods.
fn echoing_response(hit: &RecordedRequest) -> Option<ResponseScript> {
    let (text, complete) = (echo(), "complete");
    let result = match hit.method().as_str() {
        "tools/call" => return call_response(hit),
        "prompts/get" => json!({"resultType": complete, "description": text, "messages": []}),
        "prompts/list" => json!({"resultType": complete, "prompts": [{"name": text}], "ttlMs": 0, "cacheScope": text}),
        "resources/list" => json!({"resultType": complete, "resources": [{"uri": text, "name": text}]}),
        "resources/read" => json!({"resultType": complete, "contents": [{"uri": text, "text": text}]}),
        "completion/complete" => json!({"resultType": complete, "completion": {"values": [text]}}),
        _ => return None,
    };
    result_response(hit, &result)
}

/// Stateful server that also uses the secret as its session id.
fn stateful_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    if hit.method() != "initialize" {
        return echoing_response(hit);
    }
    let result = json!({"protocolVersion": hit.message()["params"]["protocolVersion"], "instructions": echo(),
        "serverInfo": {"name": echo(), "version": "1"}, "capabilities": {"tools": {}, echo(): {}}});
    Some(json_response("200 OK", &format!("mcp-session-id: {SECRET}\r\n"), &result_message(hit, &result).to_string()))
}

/// Stateless server.
fn stateless_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    echoing_response(hit)
        .or_else(|| stateless_response(hit, &tools(), &json!({"tools": {}, "extensions": {echo(): {}}})))
}

/// Server that rejects every request with an error that echoes the secret.
fn rejecting_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let error = json!({"code": -32022, "message": echo(), "data": {"supported": [echo()], "requested": echo()}});
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error}).to_string();
    Some(json_response("400 Bad Request", "", &text))
}

fn headers_and_body(response: &TestResponse) -> String {
    format!("{:?} {}", response.headers, response.body)
}

fn requests() -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("prompts/get", json!({"name": "p"})),
        ("resources/read", json!({"uri": "note://1"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
        ),
    ];
    for tool in TOOLS {
        let params = json!({"name": tool, "arguments": {"note": SECRET}, "_meta": {"progressToken": "t"}});
        all.push(("tools/call", params));
    }
    all
}

/// Parameters with the names of the aggregate endpoint.
fn prefixed(mut params: Value) -> Value {
    if let Some(name) = params["name"].as_str() {
        params["name"] = json!(format!("desk__{name}"));
    }
    if params["uri"].is_string() {
        params["uri"] = json!("x-desk+note://1");
    }
    if params["ref"].is_object() {
        params["ref"]["name"] = json!("desk__p");
    }
    params
}

/// Sends all requests over a transport and returns everything that came back.
async fn send_all(gw: &TestGateway, transport: &str) -> String {
    let mut all = String::new();
    let client = if transport.contains("aggregate") {
        StatelessTestClient::new(gw).at_aggregate()
    } else {
        StatelessTestClient::new(gw)
    };
    match transport {
        "session" | "aggregate session" => all += &headers_and_body(&gw.initialize().await),
        "stateless" | "aggregate stateless" => {
            all += &headers_and_body(&client.request("server/discover", json!({})).await)
        }
        _ => {}
    }
    let mut events = match transport {
        "events" => Some(SseTestClient::open(gw).await),
        _ => None,
    };
    if let Some(events) = &mut events {
        let initialize =
            json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}});
        all += &events.request("hello", "initialize", initialize).await.to_string();
    }
    for (method, params) in requests() {
        let params = if transport.contains("aggregate") { prefixed(params) } else { params };
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        all += &match (&mut events, transport) {
            (Some(events), _) => events.request("e", method, params).await.to_string(),
            (None, "session" | "aggregate session") => headers_and_body(&gw.send(&request).await),
            (None, _) => headers_and_body(&client.request(method, params).await),
        };
    }
    all
}

/// Gateway with its upstream, collected spans and captured log.
struct ObservedGateway {
    gw: TestGateway,
    upstream: FakeUpstream,
    collector: Collector,
    log: CapturedLog,
    _logged: DefaultGuard,
}

impl ObservedGateway {
    async fn start(server: fn(&RecordedRequest) -> Option<ResponseScript>, is_aggregate: bool) -> Self {
        let (log, logged) = CapturedLog::start();
        let collector = Collector::start().await;
        let upstream = FakeUpstream::start(tools(), server).await;
        let settings = GatewaySettings { telemetry: Some(collector.config()), ..GatewaySettings::default() };
        let builder = TestGateway::builder().policy(ALLOW_ALL).settings(settings).log_arguments();
        let builder = builder.secret_header("authorization", &format!("Bearer {SECRET}"), SECRET);
        let builder = if is_aggregate { builder.at_aggregate() } else { builder };
        let gw = builder.start(&upstream).await;
        Self { gw, upstream, collector, log, _logged: logged }
    }

    /// Asserts that no secret is in replies, log rows, log output or spans.
    async fn assert_no_secret_left(self, responses: &str) {
        let rows = self.gw.rows().await;
        let rows: String = rows.iter().map(|row| serde_json::to_string(row).expect("json")).collect();
        self.gw.assert_stops_promptly().await;
        let spans = format!("{:?}", self.collector.received.lock().unwrap_or_else(PoisonError::into_inner));
        let log = self.log.text();
        assert!(
            !rows.is_empty() && !log.is_empty() && responses.contains("***"),
            "there is output to inspect: {responses}"
        );
        let secret_in_base64 = &BASE64.encode(SECRET.as_bytes())[4..20];
        let shifted = &BASE64.encode(format!("user:{SECRET}").as_bytes())[8..24];
        for (what, text) in [("answers", responses), ("rows", &rows), ("log", &log), ("spans", &spans)] {
            for secret in ["marked", "Zq8", secret_in_base64, shifted, self.gw.token.reveal()] {
                let context = text.find(secret).map(|at| text.get(at.saturating_sub(300)..at + 8).unwrap_or(text));
                assert_eq!(context, None, "{what} contain {secret}");
            }
        }
        for hit in self.upstream.requests() {
            assert_eq!(hit.header("authorization"), Some(format!("Bearer {SECRET}").as_str()), "{}", hit.request_line);
            assert!(!format!("{hit:?}").contains(self.gw.token.reveal()), "{hit:?}");
        }
    }
}

async fn assert_no_leak(transport: &str, server: fn(&RecordedRequest) -> Option<ResponseScript>) {
    let observed = ObservedGateway::start(server, transport.contains("aggregate")).await;
    let responses = send_all(&observed.gw, transport).await;
    let has_spans = || {
        let got = format!("{:?}", observed.collector.received.lock().unwrap_or_else(PoisonError::into_inner));
        got.contains("tools/call") && got.contains("resources/read")
    };
    wait_until(&format!("spans over {transport} arrive"), has_spans).await;
    observed.assert_no_secret_left(&responses).await;
}

#[tokio::test]
async fn no_secret_leaks_over_a_session() {
    assert_no_leak("session", stateful_server).await;
    assert_no_leak("session", stateless_server).await;
}

#[tokio::test]
async fn no_secret_leaks_over_stateless_requests() {
    assert_no_leak("stateless", stateless_server).await;
    assert_no_leak("stateless", stateful_server).await;
}

#[tokio::test]
async fn no_secret_leaks_over_sse() {
    assert_no_leak("events", stateful_server).await;
    assert_no_leak("events", stateless_server).await;
}

#[tokio::test]
async fn no_secret_leaks_at_the_aggregate_endpoint() {
    assert_no_leak("aggregate session", stateful_server).await;
    assert_no_leak("aggregate stateless", stateless_server).await;
}

#[tokio::test]
async fn no_secret_leaks_through_a_server_that_rejects_everything() {
    let observed = ObservedGateway::start(rejecting_server, false).await;
    let initialize =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}});
    let mut events = SseTestClient::open(&observed.gw).await;
    let mut responses = events.request("hello", "initialize", initialize.clone()).await.to_string();
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize});
    responses += &headers_and_body(&observed.gw.post(&[], &initialize.to_string()).await);
    for (method, params) in [("server/discover", json!({}))].into_iter().chain(requests()) {
        responses += &headers_and_body(&StatelessTestClient::new(&observed.gw).request(method, params.clone()).await);
        responses += &headers_and_body(
            &StatelessTestClient::new(&observed.gw).at_aggregate().request(method, prefixed(params)).await,
        );
    }
    drop(events);
    observed.assert_no_secret_left(&responses).await;
}
