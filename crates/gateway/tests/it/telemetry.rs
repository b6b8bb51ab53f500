//! Spans: what a collector gets, decoded by the types of OpenTelemetry itself; and that no call depends on it.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gatelodge_gateway::{GatewaySettings, InjectedHeader, TelemetryConfig};
use gatelodge_testkit::{FakeUpstream, RecordedRequest, TestGateway, json_response, tool_definition};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"read_note":{},"fail":{},"wipe":{"action":"deny"},
    "count":{"limits":[{"counter":"few","window":"day","max":1}]}},"resources":{"note://*":{}},"prompts":{"hello":{}}}"#;
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa01c902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SECRET: &str = "hunter2secret";

/// A collector that keeps what it gets.
#[derive(Clone)]
pub struct Collector {
    address: SocketAddr,
    pub got: Arc<Mutex<Vec<(String, ExportTraceServiceRequest)>>>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let own = Self { address: listener.local_addr().expect("an address"), got: Arc::default() };
        let got = Arc::clone(&own.got);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let got = Arc::clone(&got);
                tokio::spawn(async move {
                    let mut raw = Vec::new();
                    while stream.read_buf(&mut raw).await.is_ok_and(|read| read > 0) {
                        let Some(end) = raw.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                        let head = String::from_utf8_lossy(&raw[..end]).to_ascii_lowercase();
                        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                        let length: usize = length.expect("a length").parse().expect("a number");
                        if raw.len() < end + 4 + length {
                            continue;
                        }
                        let request = ExportTraceServiceRequest::decode(&raw[end + 4..end + 4 + length]);
                        got.lock().unwrap().push((head, request.expect("what a collector reads")));
                        raw.drain(..end + 4 + length);
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                    }
                });
            }
        });
        own
    }

    pub fn config(&self) -> TelemetryConfig {
        let mut config =
            TelemetryConfig::with_url(format!("http://{}/v1/traces", self.address).parse().expect("a URL"));
        config.batch_delay = Duration::from_millis(20);
        config
    }

    /// All spans, when there are so many.
    async fn spans(&self, count: usize) -> Vec<Span> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let got: Vec<Span> = self.got.lock().unwrap().iter().flat_map(|(_, request)| spans_of(request)).collect();
            if got.len() >= count {
                return got;
            }
            assert!(Instant::now() < until, "{} of {count} spans came", got.len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn spans_of(request: &ExportTraceServiceRequest) -> Vec<Span> {
    let scopes = request.resource_spans.iter().flat_map(|of| &of.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

fn said(span: &Span, name: &str) -> Option<String> {
    let mut values = span.attributes.iter().filter(|pair| pair.key == name);
    let value = values.next()?.value.as_ref()?.value.clone()?;
    assert!(values.next().is_none(), "{name} is said twice");
    Some(match value {
        Any::StringValue(text) => text,
        Any::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn find(spans: &[Span], kind: SpanKind, name: &str) -> Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.kind() == kind && span.name == name).collect();
    assert_eq!(
        found.len(),
        1,
        "{kind:?} {name}: {:?}",
        spans.iter().map(|span| (span.kind(), &span.name)).collect::<Vec<_>>()
    );
    found[0].clone()
}

fn server(hit: &RecordedRequest) -> Option<gatelodge_testkit::ResponseScript> {
    let id = hit.message()["id"].clone();
    let text = match hit.tool().as_str() {
        "fail" => json!({"jsonrpc": "2.0", "id": id, "result": {"content": [], "isError": true}}),
        "hello" => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32055, "message": SECRET}}),
        _ => return None,
    };
    Some(json_response("200 OK", "", &text.to_string()))
}

async fn desk(telemetry: Option<TelemetryConfig>) -> (FakeUpstream, TestGateway) {
    let tools = ["read_note", "fail", "wipe", "count"].map(tool_definition);
    let upstream = FakeUpstream::start(json!(tools), server).await;
    let settings = GatewaySettings { telemetry, ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    (upstream, gw)
}

#[tokio::test]
async fn a_call_has_a_span_on_either_side_and_the_server_sees_ours() {
    let collector = Collector::start().await;
    let mut config = collector.config();
    config.headers = vec![InjectedHeader {
        name: "api-key".parse().expect("a name"),
        value: "collector-key".parse().expect("a value"),
        secrets: Vec::new(),
    }];
    let (upstream, gw) = desk(Some(config)).await;
    gw.initialize().await;
    let params = json!({"name": "read_note", "arguments": {"text": SECRET}, "_meta": {"traceparent": PARENT}});
    let body = json!({"jsonrpc": "2.0", "id": "c-7", "method": "tools/call", "params": params}).to_string();
    let session = gw.session();
    gw.post(&[("Mcp-Session-Id", &session), ("traceparent", OTHER)], &body).await;
    let spans = collector.spans(5).await;

    let caller = find(&spans, SpanKind::Server, "tools/call read_note");
    let sent = find(&spans, SpanKind::Client, "tools/call read_note");
    assert_eq!(hex(&caller.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex(&caller.parent_span_id), "00f067aa01c902b7");
    assert_eq!(sent.trace_id, caller.trace_id);
    assert_eq!(sent.parent_span_id, caller.span_id);
    assert_eq!(caller.links.iter().map(|link| hex(&link.span_id)).collect::<Vec<_>>(), ["b7ad6b7169203331"]);
    let hit = upstream.calls_to("read_note").remove(0);
    let seen = format!("00-{}-{}-01", hex(&sent.trace_id), hex(&sent.span_id));
    assert_eq!(hit.header("traceparent"), Some(seen.as_str()));
    assert!(
        sent.start_time_unix_nano >= caller.start_time_unix_nano && sent.end_time_unix_nano > sent.start_time_unix_nano
    );

    let call = hit.message()["id"].as_str().expect("our id").to_owned();
    for (name, want) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "read_note"),
        ("gen_ai.operation.name", "execute_tool"),
        ("mcp.protocol.version", "2025-11-25"),
        ("network.transport", "tcp"),
        ("network.protocol.name", "http"),
        ("gatelodge.server", "desk"),
    ] {
        assert_eq!(said(&caller, name).as_deref(), Some(want), "{name}");
        assert_eq!(said(&sent, name).as_deref(), Some(want), "{name}");
    }
    for (name, want) in [
        ("jsonrpc.request.id", "c-7"),
        ("mcp.session.id", session.as_str()),
        ("client.address", "127.0.0.1"),
        ("gatelodge.call", call.as_str()),
        ("gatelodge.grant", "ci"),
        ("gatelodge.policy", "books"),
        ("gatelodge.policy.version", "1"),
        ("gatelodge.decision", "allowed"),
    ] {
        assert_eq!(said(&caller, name).as_deref(), Some(want), "{name}");
    }
    assert_eq!(said(&sent, "jsonrpc.request.id").as_deref(), Some(call.as_str()));
    assert_eq!(said(&sent, "server.address").as_deref(), Some("127.0.0.1"));
    assert!(upstream.url().contains(&format!(":{}/", said(&sent, "server.port").expect("a port"))));
    assert!(caller.status.is_none() && said(&caller, "error.type").is_none());

    // The handshake and the list before the call belong to traces that began here.
    let handshake = find(&spans, SpanKind::Server, "initialize");
    assert!(handshake.parent_span_id.is_empty() && handshake.trace_id != caller.trace_id);
    let listed = find(&spans, SpanKind::Client, "tools/list");
    assert_eq!(listed.parent_span_id, caller.span_id, "asked for because of the call");

    let got = collector.got.lock().unwrap().clone();
    let (head, request) = &got[0];
    assert!(head.starts_with("post /v1/traces http/1.1") && head.contains("content-type: application/x-protobuf"));
    assert!(head.contains("api-key: collector-key"), "{head}");
    let resource = &request.resource_spans[0].resource.as_ref().expect("a resource").attributes;
    assert!(resource.iter().any(|pair| pair.key == "service.name" && format!("{pair:?}").contains("gatelodge")));
    let all = format!("{got:?}");
    assert!(!all.contains(SECRET) && !all.contains(gw.token.reveal()), "no arguments and no tokens");
}

#[tokio::test]
async fn a_span_says_why_a_call_was_refused_and_how_one_failed() {
    let collector = Collector::start().await;
    let (_, gw) = desk(Some(collector.config())).await;
    for name in ["read_note", "fail", "wipe", "count", "count"] {
        gw.call(name, json!({})).await;
    }
    gw.send(&json!({"jsonrpc": "2.0", "id": 8, "method": "prompts/get", "params": {"name": "hello"}})).await;
    gw.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "resources/read", "params": {"uri": "note://1"}})).await;
    gw.send(&json!({"jsonrpc": "2.0", "id": 10, "method": "prompts/get", "params": {"name": 7}})).await;
    // Of the handshake, of each request, of each that was sent, and the list.
    let spans = collector.spans(2 + 5 + 3 + 3 + 2 + 1).await;

    let failed = find(&spans, SpanKind::Server, "tools/call fail");
    assert_eq!(said(&failed, "error.type").as_deref(), Some("tool_error"));
    assert_eq!(failed.status.as_ref().map(|status| status.code), Some(2));
    let wiped = find(&spans, SpanKind::Server, "tools/call wipe");
    assert_eq!(said(&wiped, "gatelodge.decision").as_deref(), Some("refused"));
    assert!(said(&wiped, "gatelodge.code").is_some() && said(&wiped, "gatelodge.rule").is_some(), "{wiped:?}");
    assert!(
        spans.iter().all(|span| span.name != "tools/call wipe" || span.kind() == SpanKind::Server),
        "it was not sent"
    );
    let counted: Vec<&Span> =
        spans.iter().filter(|span| span.kind() == SpanKind::Server && span.name.ends_with("count")).collect();
    assert_eq!(said(counted[0], "gatelodge.decision").as_deref(), Some("allowed"));
    assert_eq!(said(counted[1], "gatelodge.limit").as_deref(), Some("few"), "{:?}", counted[1]);
    for kind in [SpanKind::Server, SpanKind::Client] {
        let prompt = find(&spans, kind, "prompts/get hello");
        assert_eq!(said(&prompt, "gen_ai.prompt.name").as_deref(), Some("hello"));
        assert_eq!(said(&prompt, "rpc.response.status_code").as_deref(), Some("-32055"));
        assert_eq!(said(&prompt, "error.type").as_deref(), Some("-32055"));
        assert_eq!(said(&find(&spans, kind, "resources/read"), "mcp.resource.uri").as_deref(), Some("note://1"));
    }
    let unread = find(&spans, SpanKind::Server, "prompts/get");
    assert_eq!(said(&unread, "rpc.response.status_code").as_deref(), Some("-32602"));
    assert!(!format!("{spans:?}").contains(SECRET), "no messages of errors");
}

#[tokio::test]
async fn what_the_caller_does_not_sample_is_not_sent_and_goes_on_all_the_same() {
    let collector = Collector::start().await;
    let (upstream, gw) = desk(Some(collector.config())).await;
    let unsampled = PARENT.replace("-01", "-00");
    gw.initialize().await;
    let params = json!({"name": "read_note", "arguments": {}, "_meta": {"traceparent": unsampled}});
    gw.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})).await;
    gw.call("count", json!({})).await;
    let spans = collector.spans(4).await;
    assert!(spans.iter().all(|span| !span.name.contains("read_note")), "{spans:?}");
    let sent = upstream.calls_to("read_note").remove(0);
    assert!(sent.header("traceparent").is_some_and(|sent| sent.ends_with("-00")), "{sent:?}");
}

#[tokio::test]
async fn nothing_is_sent_unless_it_is_configured() {
    let collector = Collector::start().await;
    let (upstream, gw) = desk(None).await;
    gw.call("read_note", json!({})).await;
    gw.assert_stops_promptly().await;
    assert!(collector.got.lock().unwrap().is_empty());
    assert!(upstream.requests().iter().all(|hit| hit.header("traceparent").is_none()));
}

#[tokio::test]
async fn what_is_left_is_sent_when_the_gateway_stops() {
    let collector = Collector::start().await;
    let config = TelemetryConfig { batch_delay: Duration::from_secs(600), ..collector.config() };
    let (_, gw) = desk(Some(config)).await;
    gw.call("read_note", json!({})).await;
    gw.assert_stops_promptly().await;
    let spans: Vec<Span> = collector.got.lock().unwrap().iter().flat_map(|(_, request)| spans_of(request)).collect();
    find(&spans, SpanKind::Server, "tools/call read_note");
}

/// Whoever is there takes the connection and never says anything.
async fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    address
}

#[tokio::test]
async fn a_collector_that_is_dead_or_silent_changes_nothing_for_calls_and_what_it_misses_is_counted() {
    let dead = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    for address in [dead, silent().await] {
        let mut config = TelemetryConfig::with_url(format!("http://{address}/v1/traces").parse().expect("a URL"));
        (config.queue_length, config.batch_size) = (8, 4);
        (config.batch_delay, config.timeout) = (Duration::from_millis(1), Duration::from_millis(300));
        let (upstream, gw) = desk(Some(config)).await;
        for _ in 0..40 {
            let began = Instant::now();
            let answer = gw.call("read_note", json!({"a": 1})).await;
            assert_eq!(answer.text(), r#"{"a":1}"#);
            assert!(began.elapsed() < Duration::from_secs(2), "a call waited for the collector");
        }
        assert_eq!(upstream.calls().len(), 40);
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let figures = gateway_figures(&gw).await;
            let lost = figures.lines().find_map(|line| line.strip_prefix("gatelodge_lost_spans_total "));
            if lost.expect("a figure").parse::<u64>().expect("a number") >= 60 {
                break;
            }
            assert!(Instant::now() < until, "{figures}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(gw.rows().await.iter().all(|row| row.record.kind != gatelodge_store::RecordKind::Refused));
        gw.gateway.stop();
    }
}

async fn gateway_figures(gw: &TestGateway) -> String {
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gw.admin);
    gatelodge_testkit::exchange(gw.admin, head.as_bytes()).await.body
}
