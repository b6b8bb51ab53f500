//! Row A3: whatever a server does with what we send it, and over whichever transport a client comes, neither our secret
//! nor the client's token is in anything that leaves: answers, rows, logs, spans, requests.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SseTestClient, TestGateway, TestResponse, json_response,
    tool_definition,
};
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;

use super::rows_kit::{ALL, Caller, Log, answered, event, modern_answer, result_of, stream};
use super::telemetry::Collector;

const SECRET: &str = "sk-live-Zq8/x+9_marked";
const TOOLS: [&str; 7] = ["json", "events", "error", "status", "garbage", "kind", "away"];

/// What a server says that gives back what it got.
fn echo() -> String {
    format!("{SECRET} {}", BASE64.encode(format!("user:{SECRET}").as_bytes()))
}

/// What it does with a call, in every way in which it can say something.
fn called(hit: &RecordedRequest) -> Option<ResponseScript> {
    let said = echo();
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": said}], "structuredContent": {"h": said}});
    let note = |method: &str, params: Value| event(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    match hit.tool().as_str() {
        "events" => {
            let progress = json!({"progressToken": hit.message()["id"], "progress": 1, "message": said});
            let ask = json!({"jsonrpc": "2.0", "id": said, "method": said, "params": {"message": said}});
            let told = [
                note("notifications/message", json!({"level": "info", "data": said, "logger": said})),
                note("notifications/progress", progress),
                note("notifications/resources/updated", json!({"uri": format!("note://{said}")})),
                event(&ask),
                format!("event: {said}\nid: {said}\ndata: {said}\n\n"),
            ];
            Some(stream(&[(&format!("{}{}", told.concat(), event(&result_of(hit, &result))), Duration::ZERO)]))
        }
        "error" => {
            let error = json!({"code": -32099, "message": said, "data": {"h": said}, "x": said});
            let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error, "y": said}).to_string();
            Some(json_response("200 OK", "", &text))
        }
        "status" => Some(json_response(&format!("500 {SECRET}"), "", &format!("\"{said}\""))),
        "garbage" => Some(json_response("200 OK", "", &said)),
        "kind" => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/{SECRET}\r\ncontent-length: 2\r\n\r\n{{}}");
            Some(vec![ScriptStep::Write(head.into_bytes())])
        }
        "away" => Some(json_response("302 Found", &format!("location: http://127.0.0.1/{SECRET}\r\n"), "{}")),
        _ => answered(hit, &result),
    }
}

fn tools() -> Value {
    let mut tools: Vec<Value> = TOOLS.iter().map(|name| tool_definition(name)).collect();
    tools[0]["description"] = json!(echo());
    tools.push(tool_definition(&format!("{}_{SECRET}", "long".repeat(12))));
    json!(tools)
}

/// What it says beside calls, whichever era it speaks.
fn said(hit: &RecordedRequest) -> Option<ResponseScript> {
    let (said, complete) = (echo(), "complete");
    let result = match hit.method().as_str() {
        "tools/call" => return called(hit),
        "prompts/get" => json!({"resultType": complete, "description": said, "messages": []}),
        "prompts/list" => json!({"resultType": complete, "prompts": [{"name": said}], "ttlMs": 0, "cacheScope": said}),
        "resources/list" => json!({"resultType": complete, "resources": [{"uri": said, "name": said}]}),
        "resources/read" => json!({"resultType": complete, "contents": [{"uri": said, "text": said}]}),
        "completion/complete" => json!({"resultType": complete, "completion": {"values": [said]}}),
        _ => return None,
    };
    answered(hit, &result)
}

/// One with sessions, which also calls the session like our secret.
fn legacy(hit: &RecordedRequest) -> Option<ResponseScript> {
    if hit.method() != "initialize" {
        return said(hit);
    }
    let result = json!({"protocolVersion": hit.message()["params"]["protocolVersion"], "instructions": echo(),
        "serverInfo": {"name": echo(), "version": "1"}, "capabilities": {"tools": {}, echo(): {}}});
    Some(json_response("200 OK", &format!("mcp-session-id: {SECRET}\r\n"), &result_of(hit, &result).to_string()))
}

/// One without.
fn modern(hit: &RecordedRequest) -> Option<ResponseScript> {
    said(hit).or_else(|| modern_answer(hit, &tools(), &json!({"tools": {}, "extensions": {echo(): {}}})))
}

/// One that says no to everything, with what it got.
fn sullen(hit: &RecordedRequest) -> Option<ResponseScript> {
    let error = json!({"code": -32022, "message": echo(), "data": {"supported": [echo()], "requested": echo()}});
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error}).to_string();
    Some(json_response("400 Bad Request", "", &text))
}

fn whole(answer: &TestResponse) -> String {
    format!("{:?} {}", answer.headers, answer.body)
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

/// The same where all servers are one.
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

/// Sends everything over a transport, and gives all that came back.
async fn sent(gw: &TestGateway, transport: &str) -> String {
    let mut all = String::new();
    let caller = if transport.contains("all") { Caller::of(gw).at_all() } else { Caller::of(gw) };
    match transport {
        "session" | "session at all" => all += &whole(&gw.initialize().await),
        "stateless" | "stateless at all" => all += &whole(&caller.ask("server/discover", json!({})).await),
        _ => {}
    }
    let mut events = match transport {
        "events" => Some(SseTestClient::open(gw).await),
        _ => None,
    };
    if let Some(events) = &mut events {
        let hello =
            json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}});
        all += &events.request("hello", "initialize", hello).await.to_string();
    }
    for (method, params) in requests() {
        let params = if transport.contains("all") { prefixed(params) } else { params };
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        all += &match (&mut events, transport) {
            (Some(events), _) => events.request("e", method, params).await.to_string(),
            (None, "session" | "session at all") => whole(&gw.send(&request).await),
            (None, _) => whole(&caller.ask(method, params).await),
        };
    }
    all
}

/// A gateway of which everything that it says is seen.
struct Watched {
    gw: TestGateway,
    upstream: FakeUpstream,
    collector: Collector,
    log: Log,
    _logged: DefaultGuard,
}

impl Watched {
    async fn start(server: fn(&RecordedRequest) -> Option<ResponseScript>, is_at_all: bool) -> Self {
        let (log, logged) = Log::begin();
        let collector = Collector::start().await;
        let upstream = FakeUpstream::start(tools(), server).await;
        let settings = GatewaySettings { telemetry: Some(collector.config()), ..GatewaySettings::default() };
        let builder = TestGateway::builder().policy(ALL).settings(settings).log_arguments();
        let builder = builder.secret_header("authorization", &format!("Bearer {SECRET}"), SECRET);
        let builder = if is_at_all { builder.at_aggregate() } else { builder };
        let gw = builder.start(&upstream).await;
        Self { gw, upstream, collector, log, _logged: logged }
    }

    /// Looks at everything that left, beside these answers.
    async fn nothing_left(self, answers: &str) {
        let rows = self.gw.rows().await;
        let rows: String = rows.iter().map(|row| serde_json::to_string(row).expect("json")).collect();
        self.gw.assert_stops_promptly().await;
        let spans = format!("{:?}", self.collector.got.lock().unwrap_or_else(PoisonError::into_inner));
        let log = self.log.text();
        assert!(!rows.is_empty() && !log.is_empty() && answers.contains("***"), "something was said: {answers}");
        let secret_in_base64 = &BASE64.encode(SECRET.as_bytes())[4..20];
        let shifted = &BASE64.encode(format!("user:{SECRET}").as_bytes())[8..24];
        for (what, text) in [("answers", answers), ("rows", &rows), ("log", &log), ("spans", &spans)] {
            for secret in ["marked", "Zq8", secret_in_base64, shifted, self.gw.token.reveal()] {
                let around = text.find(secret).map(|at| text.get(at.saturating_sub(300)..at + 8).unwrap_or(text));
                assert_eq!(around, None, "{what} have {secret}");
            }
        }
        for hit in self.upstream.requests() {
            assert_eq!(hit.header("authorization"), Some(format!("Bearer {SECRET}").as_str()), "{}", hit.request_line);
            assert!(!format!("{hit:?}").contains(self.gw.token.reveal()), "{hit:?}");
        }
    }
}

async fn nothing_leaves(transport: &str, server: fn(&RecordedRequest) -> Option<ResponseScript>) {
    let watched = Watched::start(server, transport.contains("all")).await;
    let answers = sent(&watched.gw, transport).await;
    let until = Instant::now() + Duration::from_secs(5);
    let has_spans = || {
        let got = format!("{:?}", watched.collector.got.lock().unwrap_or_else(PoisonError::into_inner));
        got.contains("tools/call") && got.contains("resources/read")
    };
    while !has_spans() {
        assert!(Instant::now() < until, "no spans of {transport}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    watched.nothing_left(&answers).await;
}

#[tokio::test]
async fn nothing_leaves_over_a_session() {
    nothing_leaves("session", legacy).await;
    nothing_leaves("session", modern).await;
}

#[tokio::test]
async fn nothing_leaves_over_requests_that_stand_alone() {
    nothing_leaves("stateless", modern).await;
    nothing_leaves("stateless", legacy).await;
}

#[tokio::test]
async fn nothing_leaves_over_a_stream_of_events() {
    nothing_leaves("events", legacy).await;
    nothing_leaves("events", modern).await;
}

#[tokio::test]
async fn nothing_leaves_where_all_servers_are_one() {
    nothing_leaves("session at all", legacy).await;
    nothing_leaves("stateless at all", modern).await;
}

#[tokio::test]
async fn nothing_leaves_by_a_server_that_says_no_to_everything() {
    let watched = Watched::start(sullen, false).await;
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}});
    let mut events = SseTestClient::open(&watched.gw).await;
    let mut answers = events.request("hello", "initialize", hello.clone()).await.to_string();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
    answers += &whole(&watched.gw.post(&[], &hello.to_string()).await);
    for (method, params) in [("server/discover", json!({}))].into_iter().chain(requests()) {
        answers += &whole(&Caller::of(&watched.gw).ask(method, params.clone()).await);
        answers += &whole(&Caller::of(&watched.gw).at_all().ask(method, prefixed(params)).await);
    }
    drop(events);
    watched.nothing_left(&answers).await;
}
