//! Trace context: a client's trace continues in child spans, in the message and in the headers; none is invented.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{FakeUpstream, RecordedRequest, TestGateway, json_response};
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"read_note":{}}}"#;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa01a902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

async fn setup() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::with_tools(&["read_note", "wipe"]).await;
    let gateway = TestGateway::with_policy(POLICY, &upstream).await;
    gateway.initialize().await;
    (upstream, gateway)
}

/// Calls a tool with the given `_meta` and headers, and returns the request that the server received.
async fn call(
    upstream: &FakeUpstream,
    gw: &TestGateway,
    meta: Option<&str>,
    headers: &[(&str, &str)],
) -> RecordedRequest {
    let meta = meta.map(|meta| format!(r#", "_meta":{meta}"#)).unwrap_or_default();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"read_note","arguments":{{"n":1.10}}{meta}}}}}"#
    );
    let session = gw.session();
    let mut all = vec![("Mcp-Session-Id", session.as_str())];
    all.extend_from_slice(headers);
    let response = gw.post(&all, &body).await;
    assert_eq!(response.status, 200, "{response:?}");
    upstream.calls_to("read_note").pop().expect("an upstream call")
}

/// Trace id in the intent row of the last call.
async fn recorded_trace(gw: &TestGateway) -> Option<String> {
    let rows = gw.rows().await;
    let row = rows.iter().filter(|row| row.record.kind == RecordKind::Intent).max_by_key(|row| row.seq).expect("a row");
    row.record.trace.as_deref().map(str::to_owned)
}

fn is_child(span: &str, parent: &str) -> bool {
    let (span, parent): (Vec<&str>, Vec<&str>) = (span.split('-').collect(), parent.split('-').collect());
    span.len() == 4 && span[..2] == parent[..2] && span[2].len() == 16 && span[2] != parent[2] && span[3] == parent[3]
}

#[tokio::test]
async fn trace_of_the_message_continues_in_a_child_span_and_the_rest_is_unchanged() {
    let (upstream, gw) = setup().await;
    let meta = format!(r#"{{"k/1" :1e2,"traceparent": "{PARENT}","tracestate":"v=1","baggage":"a=b,c=d"}}"#);
    let hit = call(&upstream, &gw, Some(&meta), &[]).await;
    let message = hit.message();
    let sent = message["params"]["_meta"]["traceparent"].as_str().expect("a span").to_owned();
    assert!(is_child(&sent, PARENT), "{sent}");
    assert!(hit.body.contains(&meta.replace(PARENT, &sent)), "only the span id changes: {}", hit.body);
    assert_eq!(hit.header("traceparent"), Some(sent.as_str()));
    assert_eq!((hit.header("tracestate"), hit.header("baggage")), (Some("v=1"), Some("a=b,c=d")));
    assert_eq!(recorded_trace(&gw).await.as_deref(), Some(TRACE));
    let again = call(&upstream, &gw, Some(&meta), &[]).await;
    assert_ne!(again.header("traceparent"), Some(sent.as_str()), "each request has a span of its own");
}

#[tokio::test]
async fn trace_of_the_headers_continues_in_the_headers_only() {
    let (upstream, gw) = setup().await;
    let headers = [("traceparent", PARENT), ("tracestate", "v=1"), ("baggage", "a=b")];
    for meta in [None, Some("{}"), Some(r#"{"tracestate":"x=1"}"#)] {
        let hit = call(&upstream, &gw, meta, &headers).await;
        assert!(is_child(hit.header("traceparent").expect("a span"), PARENT), "{hit:?}");
        assert_eq!((hit.header("tracestate"), hit.header("baggage")), (Some("v=1"), Some("a=b")));
        match meta {
            None => assert_eq!(hit.message()["params"].get("_meta"), None, "no `_meta` is added"),
            Some(meta) => assert!(hit.body.contains(&format!("\"_meta\":{meta}}}")), "{}", hit.body),
        }
        assert_eq!(recorded_trace(&gw).await.as_deref(), Some(TRACE));
    }
}

#[tokio::test]
async fn trace_of_the_message_takes_precedence_over_the_headers() {
    let (upstream, gw) = setup().await;
    let meta = format!(r#"{{"traceparent":"{OTHER}"}}"#);
    let headers = [("traceparent", PARENT), ("tracestate", "v=1"), ("baggage", "a=b")];
    let hit = call(&upstream, &gw, Some(&meta), &headers).await;
    assert!(is_child(hit.header("traceparent").expect("a span"), OTHER));
    assert_eq!(hit.message()["params"]["_meta"]["traceparent"].as_str(), hit.header("traceparent"));
    assert_eq!((hit.header("tracestate"), hit.header("baggage")), (None, None), "headers of another trace are dropped");
}

#[tokio::test]
async fn invalid_trace_is_neither_continued_nor_forwarded() {
    let (upstream, gw) = setup().await;
    let long = format!("{PARENT}-{}", "0".repeat(9_000));
    for invalid in
        [r#""00-1""#, "7", "null", r#""""#, &format!("\"{long}\""), &format!("\"{}\"", PARENT.to_uppercase())]
    {
        let meta = format!(r#"{{"k/1":1,"traceparent":{invalid},"tracestate":"v=1","baggage":"a=b"}}"#);
        // A valid header does not replace an invalid value in the message.
        let hit = call(&upstream, &gw, Some(&meta), &[("traceparent", PARENT)]).await;
        assert_eq!(hit.message()["params"]["_meta"], json!({"k/1": 1, "baggage": "a=b"}), "{invalid}");
        assert_eq!((hit.header("traceparent"), hit.header("tracestate")), (None, None), "{invalid}");
        assert_eq!(recorded_trace(&gw).await, None, "{invalid}");
    }
    for headers in
        [&[("traceparent", "00-1")][..], &[("traceparent", PARENT), ("traceparent", OTHER)], &[("traceparent", &long)]]
    {
        let hit = call(&upstream, &gw, None, headers).await;
        assert_eq!(hit.header("traceparent"), None, "{headers:?}");
    }
}

#[tokio::test]
async fn no_trace_is_created_without_one_of_the_client() {
    let (upstream, gw) = setup().await;
    let hit = call(&upstream, &gw, None, &[("tracestate", "v=1"), ("baggage", "a=b")]).await;
    for name in ["traceparent", "tracestate", "baggage"] {
        assert_eq!(hit.header(name), None, "{name}");
    }
    assert_eq!(hit.message()["params"].get("_meta"), None);
    assert_eq!(recorded_trace(&gw).await, None);
}

#[tokio::test]
async fn handshake_and_every_list_page_have_their_own_child_span() {
    let pages = |hit: &RecordedRequest| {
        let message = hit.message();
        let next = if message["params"]["cursor"].is_null() { json!("two") } else { Value::Null };
        let result = json!({"tools": [], "nextCursor": next});
        let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
        (hit.method() == "tools/list").then(|| json_response("200 OK", "", &text))
    };
    let upstream = FakeUpstream::start(json!([]), pages).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    let meta = json!({"traceparent": PARENT});
    let handshake = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"_meta": meta,
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    assert_eq!(gw.post(&[], &handshake.to_string()).await.status, 200);
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})).await;
    let spans: Vec<String> =
        upstream.requests().iter().filter_map(|hit| hit.header("traceparent").map(str::to_owned)).collect();
    assert_eq!(spans.len(), 3, "{spans:?}");
    assert!(spans.iter().all(|span| is_child(span, PARENT)), "{spans:?}");
    assert!(spans[1] != spans[2] && spans[0] != spans[1], "{spans:?}");
    let same_in_message =
        |hit: &RecordedRequest| hit.message()["params"]["_meta"]["traceparent"].as_str() == hit.header("traceparent");
    assert!(upstream.requests().iter().filter(|hit| hit.header("traceparent").is_some()).all(same_in_message));
    let rows = gw.rows().await;
    let listed = rows.iter().find(|row| row.record.method.as_deref() == Some("tools/list")).expect("a row");
    assert_eq!(listed.record.trace.as_deref(), Some(TRACE));
}

#[tokio::test]
async fn row_of_a_refused_call_has_the_trace() {
    let (upstream, gw) = setup().await;
    let params = json!({"name": "wipe", "arguments": {}, "_meta": {"traceparent": PARENT}});
    gw.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})).await;
    assert!(upstream.calls().is_empty());
    let rows = gw.rows().await;
    let row = rows.iter().find(|row| row.record.kind == RecordKind::Refused).expect("a row");
    assert_eq!(row.record.trace.as_deref(), Some(TRACE));
}

#[tokio::test]
async fn trace_of_a_stateless_client_reaches_a_stateful_server() {
    let (upstream, gw) = setup().await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}, "traceparent": PARENT, "tracestate": "v=1"});
    let params = json!({"name": "read_note", "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "read_note")];
    let response = gw.post(&headers, &body).await;
    assert_eq!(response.status, 200, "{response:?}");
    let hit = upstream.calls_to("read_note").pop().expect("an upstream call");
    assert!(hit.header("mcp-session-id").is_some() && hit.header("mcp-method").is_none(), "{hit:?}");
    assert!(is_child(hit.header("traceparent").expect("a span"), PARENT));
    let sent = &hit.message()["params"]["_meta"];
    assert_eq!((sent["traceparent"].as_str(), sent["tracestate"].as_str()), (hit.header("traceparent"), Some("v=1")));
}
