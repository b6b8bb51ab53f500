//! Arguments that are also sent as headers (`x-mcp-header`): the gateway compares them with the body and creates them from
//! the evaluated body, so they cannot bypass the policy.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, TestResponse, json_response, tool_definition,
};
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"query":{"limits":[{"counter":"queries","window":"day","max":3}]},"plain":{},
    "empty":{},"list":{},"twice":{},"spaced":{}}}"#;
const VERSION: &str = "2026-07-28";

fn tool_with_properties(name: &str, properties: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": properties}})
}

fn tools() -> Value {
    let text = |header: &str| json!({"type": "string", "x-mcp-header": header});
    let query = json!({"region": text("Region"), "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"}, "sql": {"type": "string"}});
    json!([
        tool_with_properties("query", query.clone()),
        tool_with_properties("hidden", query),
        tool_definition("plain"),
        tool_with_properties("empty", json!({"a": text("")})),
        tool_with_properties("list", json!({"a": {"type": "array", "items": text("A")}})),
        tool_with_properties("twice", json!({"a": text("A"), "b": text("a")})),
        tool_with_properties("spaced", json!({"a": text("My Region")})),
    ])
}

fn respond(request: &RecordedRequest) -> Option<ResponseScript> {
    let result = match request.method().as_str() {
        "server/discover" => json!({"supportedVersions": [VERSION], "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": tools(), "ttlMs": 0, "cacheScope": "private"}),
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}),
        _ => return None,
    };
    let reply = json!({"jsonrpc": "2.0", "id": request.message()["id"], "result": result});
    Some(json_response("200 OK", "", &reply.to_string()))
}

async fn call(gw: &TestGateway, name: &str, arguments: Value, param_headers: &[(&str, &str)]) -> TestResponse {
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": name, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}).to_string();
    let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)];
    headers.extend_from_slice(param_headers);
    gw.post(&headers, &body).await
}

async fn list_tools(gw: &TestGateway) -> Vec<String> {
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": meta}}).to_string();
    let reply = gw.post(&[("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/list")], &body).await;
    let tools = reply.message()["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn argument_headers_are_created_from_the_evaluated_body() {
    let upstream = FakeUpstream::start(json!([]), respond).await;
    let secret = ("mcp-param-tenant", "Tenant 12345678", "12345678");
    let gw = TestGateway::builder().policy(POLICY).secret_header(secret.0, secret.1, secret.2).start(&upstream).await;
    let headers = [
        ("Mcp-Param-Region", "=?base64?RXVyb3Bh?="),
        ("mcp-param-COUNT", "42.0"),
        ("Mcp-Param-Other", "x y"),
        ("Mcp-Param-Tenant", "from-client"),
        ("Mcp-Paramount", "no"),
    ];
    let reply = call(&gw, "query", json!({"region": "Europa", "count": 42, "dry": null, "sql": "s"}), &headers).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "done"));
    let request = &upstream.calls()[0];
    assert_eq!(request.header("mcp-param-region"), Some("Europa"), "not in the client's encoding");
    assert_eq!(request.header("mcp-param-count"), Some("42"));
    assert_eq!(request.header("mcp-param-dry"), None, "null is not mirrored");
    assert_eq!(request.header("mcp-param-sql"), None, "the schema does not ask for it");
    assert_eq!(request.header("mcp-param-other"), Some("x y"), "unknown headers are forwarded");
    assert_eq!(request.header("mcp-param-tenant"), Some("Tenant 12345678"), "the configured header takes precedence");
    assert_eq!(request.header("mcp-paramount"), None);
    assert_eq!(request.header("mcp-name"), Some("query"));

    let non_ascii = json!({"region": " Z\u{fc}rich\r\n", "dry": false});
    let headers = [("Mcp-Param-Region", "=?base64?IFrDvHJpY2gNCg==?="), ("Mcp-Param-Dry", "false")];
    assert_eq!(call(&gw, "query", non_ascii, &headers).await.text(), "done");
    assert_eq!(upstream.calls()[1].header("mcp-param-region"), Some("=?base64?IFrDvHJpY2gNCg==?="));
    assert_eq!(upstream.calls()[1].header("mcp-param-dry"), Some("false"));
}

#[tokio::test]
async fn a_header_that_contradicts_the_body_is_refused_and_not_counted_or_sent() {
    let upstream = FakeUpstream::start(json!([]), respond).await;
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
    for (arguments, headers) in cases {
        let reply = call(&gw, "query", arguments.clone(), headers).await;
        assert_eq!((reply.status, reply.code()), (400, -32020), "{arguments} with {headers:?}: {}", reply.body);
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")));
    }
    assert!(upstream.calls().is_empty());
    for literal in ["SGVsbG8=", "=?base64?SGVsbG8="] {
        let reply = call(&gw, "query", json!({"region": literal}), &[("Mcp-Param-Region", literal)]).await;
        assert_eq!(reply.text(), "done", "{literal} is not encoded");
    }
    assert_eq!(
        call(&gw, "query", json!({}), &[]).await.text(),
        "done",
        "the limit of three is not used up: refused calls were not counted"
    );
    let hidden = call(&gw, "hidden", json!({"region": "eu"}), &[("Mcp-Param-Region", "us")]).await;
    assert_eq!(
        (hidden.status, hidden.code()),
        (200, -32602),
        "the error reveals nothing of the schema of a hidden tool"
    );
}

#[tokio::test]
async fn a_tool_with_invalid_header_annotations_is_treated_as_missing() {
    let upstream = FakeUpstream::start(json!([]), respond).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    assert_eq!(list_tools(&gw).await, ["query", "plain"]);
    let unknown = call(&gw, "nothing", json!({}), &[]).await.body;
    for name in ["empty", "list", "twice", "spaced"] {
        let reply = call(&gw, name, json!({}), &[]).await;
        assert_eq!(reply.body, unknown.replace("nothing", name));
    }
    assert!(upstream.calls().is_empty());
    let observing = TestGateway::builder().policy(POLICY).observe_only().start(&upstream).await;
    assert_eq!(
        list_tools(&observing).await,
        ["query", "hidden", "plain"],
        "invalid annotations are not a rule of the policy"
    );

    let stateful = FakeUpstream::start(tools(), |_| None).await;
    let gw = TestGateway::with_policy(POLICY, &stateful).await;
    assert_eq!(
        gw.call("empty", json!({"a": "b"})).await.text(),
        r#"{"a":"b"}"#,
        "stateful revisions have no such headers"
    );
    let ignored = [("Mcp-Session-Id", &*gw.session()), ("Mcp-Param-Region", "us"), ("Mcp-Name", "plain")];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "query", "arguments": {"region": "eu"}}});
    assert_eq!(gw.post(&ignored, &body.to_string()).await.status, 200, "the headers are ignored in a session");
    let request = stateful.calls().pop().expect("a call");
    assert_eq!(
        (request.header("mcp-param-region"), request.header("mcp-name")),
        (None, None),
        "the headers are not forwarded"
    );
}
