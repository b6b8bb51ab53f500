//! Arguments that travel in the head as well (`x-mcp-header`): held against the body, made anew from it, and no way
//! around the rules.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, TestResponse, json_response, tool_definition,
};
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"query":{"limits":[{"counter":"queries","window":"day","max":3}]},"plain":{},
    "empty":{},"list":{},"twice":{},"spaced":{}}}"#;
const VERSION: &str = "2026-07-28";

fn annotated(name: &str, properties: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": properties}})
}

fn tools() -> Value {
    let text = |header: &str| json!({"type": "string", "x-mcp-header": header});
    let query = json!({"region": text("Region"), "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"}, "sql": {"type": "string"}});
    json!([
        annotated("query", query.clone()),
        annotated("hidden", query),
        tool_definition("plain"),
        annotated("empty", json!({"a": text("")})),
        annotated("list", json!({"a": {"type": "array", "items": text("A")}})),
        annotated("twice", json!({"a": text("A"), "b": text("a")})),
        annotated("spaced", json!({"a": text("My Region")})),
    ])
}

fn server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let result = match hit.method().as_str() {
        "server/discover" => json!({"supportedVersions": [VERSION], "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": tools(), "ttlMs": 0, "cacheScope": "private"}),
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}),
        _ => return None,
    };
    let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result});
    Some(json_response("200 OK", "", &answer.to_string()))
}

async fn call(gw: &TestGateway, name: &str, arguments: Value, params: &[(&str, &str)]) -> TestResponse {
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    let params_of = json!({"name": name, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params_of}).to_string();
    let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)];
    headers.extend_from_slice(params);
    gw.post(&headers, &body).await
}

async fn listed(gw: &TestGateway) -> Vec<String> {
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": meta}}).to_string();
    let answer = gw.post(&[("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/list")], &body).await;
    let tools = answer.message()["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn mirrored_arguments_are_made_anew_from_the_body_that_was_judged() {
    let upstream = FakeUpstream::start(json!([]), server).await;
    let secret = ("mcp-param-tenant", "Tenant 12345678", "12345678");
    let gw = TestGateway::builder().policy(POLICY).secret_header(secret.0, secret.1, secret.2).start(&upstream).await;
    let said = [
        ("Mcp-Param-Region", "=?base64?RXVyb3Bh?="),
        ("mcp-param-COUNT", "42.0"),
        ("Mcp-Param-Other", "x y"),
        ("Mcp-Param-Tenant", "somebody"),
        ("Mcp-Paramount", "no"),
    ];
    let answer = call(&gw, "query", json!({"region": "Europa", "count": 42, "dry": null, "sql": "s"}), &said).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "done"));
    let hit = &upstream.calls()[0];
    assert_eq!(hit.header("mcp-param-region"), Some("Europa"), "not as the client wrote it");
    assert_eq!(hit.header("mcp-param-count"), Some("42"));
    assert_eq!(hit.header("mcp-param-dry"), None, "null is not mirrored");
    assert_eq!(hit.header("mcp-param-sql"), None, "nobody asked for it");
    assert_eq!(hit.header("mcp-param-other"), Some("x y"), "unknown ones go on");
    assert_eq!(hit.header("mcp-param-tenant"), Some("Tenant 12345678"), "what is configured wins");
    assert_eq!(hit.header("mcp-paramount"), None);
    assert_eq!(hit.header("mcp-name"), Some("query"));

    let odd = json!({"region": " Z\u{fc}rich\r\n", "dry": false});
    let said = [("Mcp-Param-Region", "=?base64?IFrDvHJpY2gNCg==?="), ("Mcp-Param-Dry", "false")];
    assert_eq!(call(&gw, "query", odd, &said).await.text(), "done");
    assert_eq!(upstream.calls()[1].header("mcp-param-region"), Some("=?base64?IFrDvHJpY2gNCg==?="));
    assert_eq!(upstream.calls()[1].header("mcp-param-dry"), Some("false"));
}

#[tokio::test]
async fn a_mirror_that_disagrees_is_refused_before_anything_is_taken_or_sent() {
    let upstream = FakeUpstream::start(json!([]), server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    let long = "x".repeat(17 << 10);
    let cases: [(Value, &[(&str, &str)]); 9] = [
        (json!({"region": "eu"}), &[("Mcp-Param-Region", "us")]),
        (json!({"region": "eu"}), &[]),
        (json!({}), &[("Mcp-Param-Region", "eu")]),
        (json!({"region": "Hello"}), &[("Mcp-Param-Region", "=?base64?SGVsbG8?=")]),
        (json!({"region": "Hello"}), &[("Mcp-Param-Region", "=?base64?SGVs!!!bG8=?=")]),
        (json!({"region": "eu"}), &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")]),
        (json!({"count": 7}), &[("Mcp-Param-Count", "8")]),
        (json!({}), &[("Mcp-Param-Other", &long)]),
        (json!({"region": "n\u{e4}h"}), &[("Mcp-Param-Region", "n\u{e4}h")]),
    ];
    for (arguments, said) in cases {
        let answer = call(&gw, "query", arguments.clone(), said).await;
        assert_eq!((answer.status, answer.code()), (400, -32020), "{arguments} with {said:?}: {}", answer.body);
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")));
    }
    assert!(upstream.calls().is_empty());
    for literal in ["SGVsbG8=", "=?base64?SGVsbG8="] {
        let answer = call(&gw, "query", json!({"region": literal}), &[("Mcp-Param-Region", literal)]).await;
        assert_eq!(answer.text(), "done", "{literal} is not encoded");
    }
    assert_eq!(call(&gw, "query", json!({}), &[]).await.text(), "done", "three were left: nothing was taken before");
    let hidden = call(&gw, "hidden", json!({"region": "eu"}), &[("Mcp-Param-Region", "us")]).await;
    assert_eq!((hidden.status, hidden.code()), (200, -32602), "who may not see it learns nothing of its schema");
}

#[tokio::test]
async fn a_tool_whose_annotations_cannot_be_followed_is_not_there() {
    let upstream = FakeUpstream::start(json!([]), server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    assert_eq!(listed(&gw).await, ["query", "plain"]);
    let unknown = call(&gw, "nothing", json!({}), &[]).await.body;
    for name in ["empty", "list", "twice", "spaced"] {
        let answer = call(&gw, name, json!({}), &[]).await;
        assert_eq!(answer.body, unknown.replace("nothing", name));
    }
    assert!(upstream.calls().is_empty());
    let observing = TestGateway::builder().policy(POLICY).observe_only().start(&upstream).await;
    assert_eq!(listed(&observing).await, ["query", "hidden", "plain"], "no rule says so");

    let legacy = FakeUpstream::start(tools(), |_| None).await;
    let gw = TestGateway::with_policy(POLICY, &legacy).await;
    assert_eq!(
        gw.call("empty", json!({"a": "b"})).await.text(),
        r#"{"a":"b"}"#,
        "older revisions have no such headers"
    );
    let stray = [("Mcp-Session-Id", &*gw.session()), ("Mcp-Param-Region", "us"), ("Mcp-Name", "plain")];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "query", "arguments": {"region": "eu"}}});
    assert_eq!(gw.post(&stray, &body.to_string()).await.status, 200, "they decide nothing there");
    let hit = legacy.calls().pop().expect("a call");
    assert_eq!((hit.header("mcp-param-region"), hit.header("mcp-name")), (None, None), "and are not sent on");
}
