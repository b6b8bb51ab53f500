//! Stateless clients: headers must agree with the body, and the policy applies as for stateful clients.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, event_response,
    json_response, tool_definition,
};
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"read_note":{},"wipe":{"action":"deny"},"näh":{}},
    "resources":{"note://desk/*":{},"note://desk/shut":{"action":"deny"}}}"#;
const VERSION: &str = "2026-07-28";

fn respond(sent: &RecordedRequest) -> Option<ResponseScript> {
    let message = sent.message();
    let tools = json!([
        tool_definition("read_note"),
        tool_definition("wipe"),
        tool_definition("hidden"),
        tool_definition("näh")
    ]);
    let result = match sent.method().as_str() {
        "server/discover" => {
            json!({"resultType": "complete", "supportedVersions": [VERSION], "capabilities": {"tools": {}}, "ttlMs": 1000, "cacheScope": "public"})
        }
        "tools/list" => json!({"resultType": "complete", "tools": tools, "ttlMs": 60000, "cacheScope": "public"}),
        "subscriptions/listen" => {
            let tagged = |method: &str, uri: Option<&str>| {
                let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
                let mut params = json!({"_meta": meta, "notifications": message["params"]["notifications"]});
                if let Some(uri) = uri {
                    params["uri"] = json!(uri);
                }
                format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": method, "params": params}))
            };
            let events = [
                tagged("notifications/subscriptions/acknowledged", None),
                tagged("notifications/resources/updated", Some("note://desk/1")),
                tagged("notifications/resources/updated", Some("note://other/1")),
                tagged("notifications/resources/updated", Some("note://desk/shut")),
                format!(
                    "data: {}\n\n",
                    json!({"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete"}})
                ),
            ];
            return Some(event_response(&events.concat()));
        }
        "initialize" => {
            return Some(json_response(
                "400 Bad Request",
                "",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"gone"}}"#,
            ));
        }
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "read"}]}),
        _ if !sent.request_line.starts_with("POST") => return Some(vec![ScriptStep::Close]),
        _ => json!({"resultType": "complete"}),
    };
    Some(json_response("200 OK", "", &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()))
}

async fn start_gateway() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([]), respond).await;
    let gateway = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gateway)
}

fn meta() -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "stateless", "version": "9"}})
}

fn request(method: &str, mut params: Value) -> String {
    params["_meta"] = meta();
    json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string()
}

async fn send(gw: &TestGateway, method: &str, name: Option<&str>, params: Value) -> TestResponse {
    let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)];
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    gw.post(&headers, &request(method, params)).await
}

#[tokio::test]
async fn a_stateless_call_is_evaluated_and_sent_with_headers_created_from_its_body() {
    let (upstream, gw) = start_gateway().await;
    let reply = send(&gw, "tools/call", Some("read_note"), json!({"name": "read_note", "arguments": {}})).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "read"));
    let sent = &upstream.calls()[0];
    assert_eq!(sent.header("mcp-protocol-version"), Some(VERSION));
    assert_eq!(sent.header("mcp-method"), Some("tools/call"));
    assert_eq!(sent.header("mcp-name"), Some("read_note"));
    assert_eq!(sent.header("mcp-session-id"), None);
    assert_eq!(gw.rows().await[0].record.client.as_deref(), Some("stateless 9"));

    let headers = [
        ("MCP-Protocol-Version", VERSION),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "read_note"),
        ("Mcp-Param-Region", "us"),
    ];
    gw.post(&headers, &request("tools/call", json!({"name": "read_note", "arguments": {"region": "eu"}}))).await;
    assert_eq!(
        upstream.calls()[1].header("mcp-param-region"),
        Some("us"),
        "the tool's schema does not declare this header"
    );

    let denied = send(&gw, "tools/call", Some("wipe"), json!({"name": "wipe"})).await;
    assert!(denied.text().starts_with("[POLICY DENIED]"));
    assert_eq!(denied.message()["result"]["resultType"], "complete");
    assert_eq!(send(&gw, "tools/call", Some("hidden"), json!({"name": "hidden"})).await.code(), -32602);
    let encoded = "=?base64?bsOkaA==?=";
    assert_eq!(send(&gw, "tools/call", Some(encoded), json!({"name": "näh"})).await.status, 200);
    assert_eq!(upstream.calls()[2].header("mcp-name"), Some(encoded));
    assert_eq!(upstream.calls().len(), 3);
}

#[tokio::test]
async fn a_header_that_contradicts_the_body_is_rejected() {
    let (upstream, gw) = start_gateway().await;
    let body = request("tools/call", json!({"name": "wipe"}));
    let version = ("MCP-Protocol-Version", VERSION);
    let method = ("Mcp-Method", "tools/call");
    let cases: [(&[(&str, &str)], i64); 7] = [
        (&[version, method, ("Mcp-Name", "read_note")], -32020),
        (&[version, method], -32020),
        (&[version, ("Mcp-Method", "tools/list"), ("Mcp-Name", "wipe")], -32020),
        (&[version, ("Mcp-Name", "wipe")], -32020),
        (&[version, version, method, ("Mcp-Name", "wipe")], -32020),
        (&[("MCP-Protocol-Version", "2025-11-25"), method, ("Mcp-Name", "wipe")], -32020),
        (&[("MCP-Protocol-Version", "2027-01-01"), method, ("Mcp-Name", "wipe")], -32020),
    ];
    for (headers, code) in cases {
        let reply = gw.post(headers, &body).await;
        assert_eq!((reply.status, reply.code()), (400, code), "{headers:?}: {}", reply.body);
    }
    let without_capabilities = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": VERSION}}});
    let reply = gw.post(&[version, ("Mcp-Method", "tools/list")], &without_capabilities.to_string()).await;
    assert_eq!((reply.status, reply.code()), (400, -32602));
    let unknown = send(&gw, "vendor/x", None, json!({})).await;
    assert_eq!((unknown.status, unknown.code()), (404, -32601));
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn a_list_for_one_grant_is_private_and_filtered() {
    let (_, gw) = start_gateway().await;
    let result = send(&gw, "tools/list", None, json!({})).await.message()["result"].clone();
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(result["tools"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        send(&gw, "server/discover", None, json!({})).await.message()["result"]["supportedVersions"],
        json!([VERSION])
    );
}

#[tokio::test]
async fn subscription_notifications_carry_the_clients_id_and_are_filtered() {
    let (_, gw) = start_gateway().await;
    let uris = ["note://desk/1", "note://other/1", "note://desk/shut"];
    let filter = json!({"notifications": {"resourceSubscriptions": uris}});
    let reply = send(&gw, "subscriptions/listen", None, filter).await;
    let messages = reply.messages();
    assert_eq!(messages.len(), 3, "{}", reply.body);
    for message in &messages[..2] {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 3);
    }
    assert_eq!(messages[1]["params"]["uri"], "note://desk/1");
    assert_eq!(messages[2]["id"], 3);
}

#[tokio::test]
async fn get_and_delete_are_refused_in_the_stateless_protocol() {
    let (_, gw) = start_gateway().await;
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers =
        [("Authorization", bearer.as_str()), ("MCP-Protocol-Version", VERSION), ("Accept", "text/event-stream")];
    for verb in ["GET", "DELETE"] {
        assert_eq!(gw.send_raw(verb, "/mcp/desk", &headers, b"").await.status, 405);
    }
}

#[tokio::test]
async fn a_resource_that_the_policy_denies_cannot_be_subscribed_to() {
    let (upstream, gw) = start_gateway().await;
    for uri in ["note://other/1", "note://desk/shut"] {
        let filter = json!({"notifications": {"resourceSubscriptions": ["note://desk/1", uri]}});
        let reply = send(&gw, "subscriptions/listen", None, filter).await;
        assert!(reply.body.contains("note://desk/1") && !reply.body.contains(uri), "{uri}: {}", reply.body);
        let rows = gw.rows().await;
        let row = rows.iter().find(|row| row.record.target.as_deref() == Some(uri)).expect("a row");
        assert_eq!(row.record.kind, RecordKind::Refused, "{uri}");
    }
    let names_denied_resource =
        |sent: &RecordedRequest| sent.body.contains("note://other/1") || sent.body.contains("shut");
    assert!(!upstream.requests().iter().any(names_denied_resource), "denied resources do not reach the server");
    let filter = json!({"notifications": {"resourceSubscriptions": ["note://desk/1"]}});
    let reply = send(&gw, "subscriptions/listen", None, filter).await;
    assert!(reply.body.contains("note://desk/1"), "{}", reply.body);
    assert!(!reply.body.contains("note://other/1") && !reply.body.contains("shut"), "{}", reply.body);
}
