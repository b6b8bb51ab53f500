//! Exported spans, decoded with OpenTelemetry's own types, and calls that do not depend on the collector.
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

use gatelodge_gateway::{GatewaySettings, InjectedHeader, OtlpTraceConfig};
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

/// OTLP collector that stores the requests it receives, each with its lower-case HTTP headers.
#[derive(Clone)]
pub struct Collector {
    address: SocketAddr,
    pub received: Arc<Mutex<Vec<(String, ExportTraceServiceRequest)>>>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let collector = Self { address: listener.local_addr().expect("an address"), received: Arc::default() };
        let received = Arc::clone(&collector.received);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let received = Arc::clone(&received);
                tokio::spawn(async move {
                    let mut raw = Vec::new();
                    while stream.read_buf(&mut raw).await.is_ok_and(|read| read > 0) {
                        let Some(end) = raw.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                        let headers = String::from_utf8_lossy(&raw[..end]).to_ascii_lowercase();
                        let length = headers.lines().find_map(|line| line.strip_prefix("content-length: "));
                        let length: usize = length.expect("a length").parse().expect("a number");
                        if raw.len() < end + 4 + length {
                            continue;
                        }
                        let request = ExportTraceServiceRequest::decode(&raw[end + 4..end + 4 + length]);
                        received.lock().unwrap().push((headers, request.expect("a valid export request")));
                        raw.drain(..end + 4 + length);
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                    }
                });
            }
        });
        collector
    }

    pub fn config(&self) -> OtlpTraceConfig {
        let mut config =
            OtlpTraceConfig::with_url(format!("http://{}/v1/traces", self.address).parse().expect("a URL"));
        config.batch_delay = Duration::from_millis(20);
        config
    }

    /// Waits for at least `count` spans and returns all.
    async fn spans(&self, count: usize) -> Vec<Span> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let received: Vec<Span> =
                self.received.lock().unwrap().iter().flat_map(|(_, request)| spans_of(request)).collect();
            if received.len() >= count {
                return received;
            }
            assert!(Instant::now() < deadline, "{} of {count} spans arrived", received.len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn spans_of(request: &ExportTraceServiceRequest) -> Vec<Span> {
    let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let mut values = span.attributes.iter().filter(|pair| pair.key == name);
    let value = values.next()?.value.as_ref()?.value.clone()?;
    assert!(values.next().is_none(), "attribute {name} occurs twice");
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

async fn setup(telemetry: Option<OtlpTraceConfig>) -> (FakeUpstream, TestGateway) {
    let tools = ["read_note", "fail", "wipe", "count"].map(tool_definition);
    let upstream = FakeUpstream::start(json!(tools), server).await;
    let settings = GatewaySettings { telemetry, ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    (upstream, gw)
}

#[tokio::test]
async fn call_has_a_span_on_both_legs_and_the_server_receives_its_context() {
    let collector = Collector::start().await;
    let mut config = collector.config();
    config.headers = vec![InjectedHeader {
        name: "api-key".parse().expect("a name"),
        value: "collector-key".parse().expect("a value"),
        secrets: Vec::new(),
    }];
    let (upstream, gw) = setup(Some(config)).await;
    gw.initialize().await;
    let params = json!({"name": "read_note", "arguments": {"text": SECRET}, "_meta": {"traceparent": PARENT}});
    let body = json!({"jsonrpc": "2.0", "id": "c-7", "method": "tools/call", "params": params}).to_string();
    let session = gw.session();
    gw.post(&[("Mcp-Session-Id", &session), ("traceparent", OTHER)], &body).await;
    let spans = collector.spans(5).await;

    let server_span = find(&spans, SpanKind::Server, "tools/call read_note");
    let client_span = find(&spans, SpanKind::Client, "tools/call read_note");
    assert_eq!(hex(&server_span.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex(&server_span.parent_span_id), "00f067aa01c902b7");
    assert_eq!(client_span.trace_id, server_span.trace_id);
    assert_eq!(client_span.parent_span_id, server_span.span_id);
    assert_eq!(server_span.links.iter().map(|link| hex(&link.span_id)).collect::<Vec<_>>(), ["b7ad6b7169203331"]);
    let hit = upstream.calls_to("read_note").remove(0);
    let traceparent = format!("00-{}-{}-01", hex(&client_span.trace_id), hex(&client_span.span_id));
    assert_eq!(hit.header("traceparent"), Some(traceparent.as_str()));
    assert!(
        client_span.start_time_unix_nano >= server_span.start_time_unix_nano
            && client_span.end_time_unix_nano > client_span.start_time_unix_nano
    );

    let call = hit.message()["id"].as_str().expect("the gateway's request id").to_owned();
    for (name, expected) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "read_note"),
        ("gen_ai.operation.name", "execute_tool"),
        ("mcp.protocol.version", "2025-11-25"),
        ("network.transport", "tcp"),
        ("network.protocol.name", "http"),
        ("gatelodge.server", "desk"),
    ] {
        assert_eq!(attribute(&server_span, name).as_deref(), Some(expected), "{name}");
        assert_eq!(attribute(&client_span, name).as_deref(), Some(expected), "{name}");
    }
    for (name, expected) in [
        ("jsonrpc.request.id", "c-7"),
        ("mcp.session.id", session.as_str()),
        ("client.address", "127.0.0.1"),
        ("gatelodge.call", call.as_str()),
        ("gatelodge.grant", "ci"),
        ("gatelodge.policy", "books"),
        ("gatelodge.policy.version", "1"),
        ("gatelodge.decision", "allowed"),
    ] {
        assert_eq!(attribute(&server_span, name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(attribute(&client_span, "jsonrpc.request.id").as_deref(), Some(call.as_str()));
    assert_eq!(attribute(&client_span, "server.address").as_deref(), Some("127.0.0.1"));
    assert!(upstream.url().contains(&format!(":{}/", attribute(&client_span, "server.port").expect("a port"))));
    assert!(server_span.status.is_none() && attribute(&server_span, "error.type").is_none());

    // The handshake starts a trace of its own; the tool list is a child of the call's span.
    let handshake = find(&spans, SpanKind::Server, "initialize");
    assert!(handshake.parent_span_id.is_empty() && handshake.trace_id != server_span.trace_id);
    let listed = find(&spans, SpanKind::Client, "tools/list");
    assert_eq!(listed.parent_span_id, server_span.span_id, "the call caused the list request");

    let received = collector.received.lock().unwrap().clone();
    let (headers, request) = &received[0];
    assert!(
        headers.starts_with("post /v1/traces http/1.1") && headers.contains("content-type: application/x-protobuf")
    );
    assert!(headers.contains("api-key: collector-key"), "{headers}");
    let resource = &request.resource_spans[0].resource.as_ref().expect("a resource").attributes;
    assert!(resource.iter().any(|pair| pair.key == "service.name" && format!("{pair:?}").contains("gatelodge")));
    let all = format!("{received:?}");
    assert!(!all.contains(SECRET) && !all.contains(gw.token.reveal()), "no arguments and no tokens are exported");
}

#[tokio::test]
async fn spans_give_refusal_reasons_and_error_types() {
    let collector = Collector::start().await;
    let (_, gw) = setup(Some(collector.config())).await;
    for name in ["read_note", "fail", "wipe", "count", "count"] {
        gw.call(name, json!({})).await;
    }
    gw.send(&json!({"jsonrpc": "2.0", "id": 8, "method": "prompts/get", "params": {"name": "hello"}})).await;
    gw.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "resources/read", "params": {"uri": "note://1"}})).await;
    gw.send(&json!({"jsonrpc": "2.0", "id": 10, "method": "prompts/get", "params": {"name": 7}})).await;
    // The handshake on both legs, every request, every request that was sent upstream, and the tool list.
    let spans = collector.spans(2 + 5 + 3 + 3 + 2 + 1).await;

    let failed = find(&spans, SpanKind::Server, "tools/call fail");
    assert_eq!(attribute(&failed, "error.type").as_deref(), Some("tool_error"));
    assert_eq!(failed.status.as_ref().map(|status| status.code), Some(2));
    let denied = find(&spans, SpanKind::Server, "tools/call wipe");
    assert_eq!(attribute(&denied, "gatelodge.decision").as_deref(), Some("refused"));
    assert!(
        attribute(&denied, "gatelodge.code").is_some() && attribute(&denied, "gatelodge.rule").is_some(),
        "{denied:?}"
    );
    assert!(
        spans.iter().all(|span| span.name != "tools/call wipe" || span.kind() == SpanKind::Server),
        "the denied call was not sent"
    );
    let counted: Vec<&Span> =
        spans.iter().filter(|span| span.kind() == SpanKind::Server && span.name.ends_with("count")).collect();
    assert_eq!(attribute(counted[0], "gatelodge.decision").as_deref(), Some("allowed"));
    assert_eq!(attribute(counted[1], "gatelodge.limit").as_deref(), Some("few"), "{:?}", counted[1]);
    for kind in [SpanKind::Server, SpanKind::Client] {
        let prompt = find(&spans, kind, "prompts/get hello");
        assert_eq!(attribute(&prompt, "gen_ai.prompt.name").as_deref(), Some("hello"));
        assert_eq!(attribute(&prompt, "rpc.response.status_code").as_deref(), Some("-32055"));
        assert_eq!(attribute(&prompt, "error.type").as_deref(), Some("-32055"));
        assert_eq!(attribute(&find(&spans, kind, "resources/read"), "mcp.resource.uri").as_deref(), Some("note://1"));
    }
    let malformed = find(&spans, SpanKind::Server, "prompts/get");
    assert_eq!(attribute(&malformed, "rpc.response.status_code").as_deref(), Some("-32602"));
    assert!(!format!("{spans:?}").contains(SECRET), "error messages are not exported");
}

#[tokio::test]
async fn unsampled_trace_is_forwarded_but_not_exported() {
    let collector = Collector::start().await;
    let (upstream, gw) = setup(Some(collector.config())).await;
    let unsampled_parent = PARENT.replace("-01", "-00");
    gw.initialize().await;
    let params = json!({"name": "read_note", "arguments": {}, "_meta": {"traceparent": unsampled_parent}});
    gw.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})).await;
    gw.call("count", json!({})).await;
    let spans = collector.spans(4).await;
    assert!(spans.iter().all(|span| !span.name.contains("read_note")), "{spans:?}");
    let call = upstream.calls_to("read_note").remove(0);
    assert!(call.header("traceparent").is_some_and(|value| value.ends_with("-00")), "{call:?}");
}

#[tokio::test]
async fn no_spans_are_exported_without_configuration() {
    let collector = Collector::start().await;
    let (upstream, gw) = setup(None).await;
    gw.call("read_note", json!({})).await;
    gw.assert_stops_promptly().await;
    assert!(collector.received.lock().unwrap().is_empty());
    assert!(upstream.requests().iter().all(|hit| hit.header("traceparent").is_none()));
}

#[tokio::test]
async fn pending_spans_are_exported_when_the_gateway_stops() {
    let collector = Collector::start().await;
    let config = OtlpTraceConfig { batch_delay: Duration::from_secs(600), ..collector.config() };
    let (_, gw) = setup(Some(config)).await;
    gw.call("read_note", json!({})).await;
    gw.assert_stops_promptly().await;
    let spans: Vec<Span> =
        collector.received.lock().unwrap().iter().flat_map(|(_, request)| spans_of(request)).collect();
    find(&spans, SpanKind::Server, "tools/call read_note");
}

/// Listener that accepts connections and never responds.
async fn silent_listener() -> SocketAddr {
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
async fn dead_or_silent_collector_does_not_delay_calls_and_lost_spans_are_counted() {
    let unused_address = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    for address in [unused_address, silent_listener().await] {
        let mut config = OtlpTraceConfig::with_url(format!("http://{address}/v1/traces").parse().expect("a URL"));
        (config.queue_length, config.batch_size) = (8, 4);
        (config.batch_delay, config.timeout) = (Duration::from_millis(1), Duration::from_millis(300));
        let (upstream, gw) = setup(Some(config)).await;
        for _ in 0..40 {
            let started = Instant::now();
            let response = gw.call("read_note", json!({"a": 1})).await;
            assert_eq!(response.text(), r#"{"a":1}"#);
            assert!(started.elapsed() < Duration::from_secs(2), "a call waited for the collector");
        }
        assert_eq!(upstream.calls().len(), 40);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let metrics = metrics_text(&gw).await;
            let lost = metrics.lines().find_map(|line| line.strip_prefix("gatelodge_lost_spans_total "));
            if lost.expect("a metric").parse::<u64>().expect("a number") >= 60 {
                break;
            }
            assert!(Instant::now() < deadline, "{metrics}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(gw.rows().await.iter().all(|row| row.record.kind != gatelodge_store::RecordKind::Refused));
        gw.gateway.stop();
    }
}

async fn metrics_text(gw: &TestGateway) -> String {
    let headers = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gw.admin);
    gatelodge_testkit::exchange(gw.admin, headers.as_bytes()).await.body
}
