//! The aggregate endpoint: all servers of a grant under one URL, each with its own name prefix, policy and limits.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, TestResponse, json_response, tool_definition,
};
use serde_json::{Value, json};

use super::support::wait_until;

const OPEN: &str = r#"{"version":"1","default":"deny","tools":{"*":{},"wipe":{"action":"deny"}},"hide":["secret"],
    "resources":{"note://*":{}},"prompts":{"*":{}}}"#;
const VERSION: &str = "2026-07-28";

fn result_response(hit: &RecordedRequest, result: Value) -> Option<ResponseScript> {
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
    Some(json_response("200 OK", "", &text))
}

/// Handles the requests of a stateful server with one prompt and one resource. Results contain its `name`.
fn stateful(name: &'static str) -> impl Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync + 'static {
    move |hit| {
        let params = &hit.message()["params"];
        let result = match hit.method().as_str() {
            "initialize" => {
                let capabilities = json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}, name: {}});
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": name, "version": "1"}, "instructions": format!("use {name}")});
                let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
                return Some(json_response("200 OK", &format!("mcp-session-id: s-{name}\r\n"), &text));
            }
            "tools/call" => {
                let link = json!({"type": "resource_link", "uri": "note://1", "name": "one"});
                json!({"content": [{"type": "text", "text": name}, link], "structuredContent": {"uri": "note://1"}})
            }
            "prompts/list" => json!({"prompts": [{"name": "greet"}]}),
            "prompts/get" => json!({"messages": [{"role": "user", "content": {"type": "text", "text": name}}]}),
            "resources/list" => json!({"resources": [{"uri": "note://1", "name": "one"}]}),
            "resources/templates/list" => json!({"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "n"}]}),
            "resources/read" => json!({"contents": [{"uri": params["uri"], "text": name}]}),
            "completion/complete" => json!({"completion": {"values": [params["ref"]["uri"], name]}}),
            _ => return None,
        };
        result_response(hit, result)
    }
}

/// Handles the requests of a stateless server.
fn stateless_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let result = match hit.method().as_str() {
        "server/discover" => json!({"resultType": "complete", "supportedVersions": [VERSION],
            "capabilities": {"tools": {"listChanged": true}}, "instructions": "no sessions", "ttlMs": 1, "cacheScope": "public"}),
        "tools/list" => {
            json!({"resultType": "complete", "tools": [tool_definition("read")], "ttlMs": 60000, "cacheScope": "public"})
        }
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "stateless"}]}),
        "initialize" => {
            let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no sessions"}}"#;
            return Some(json_response("400 Bad Request", "", body));
        }
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error}).to_string();
            return Some(json_response("404 Not Found", "", &text));
        }
    };
    result_response(hit, result)
}

struct ThreeServers {
    upstream: FakeUpstream,
    zoo: FakeUpstream,
    gw: TestGateway,
}

/// Starts two stateful servers with equal names for everything, and a stateless one.
async fn three_servers() -> ThreeServers {
    let tools = json!([tool_definition("wipe"), tool_definition("read"), tool_definition("secret")]);
    let upstream = FakeUpstream::start(tools.clone(), stateful("desk")).await;
    let zoo = FakeUpstream::start(tools, stateful("zoo")).await;
    let stateless = FakeUpstream::start(json!([]), stateless_server).await;
    let zoo_policy =
        r#"{"version":"1","default":"deny","tools":{"read":{"limits":[{"counter":"c","window":"day","max":1}]}}}"#;
    let builder = TestGateway::builder().policy(OPEN).at_aggregate();
    let builder = builder.with_server("zoo", &zoo.url(), zoo_policy).with_server("stateless", &stateless.url(), OPEN);
    let gw = builder.start(&upstream).await;
    ThreeServers { upstream, zoo, gw }
}

fn names<'a>(response: &'a Value, member: &str, key: &str) -> Vec<&'a str> {
    let list = response["result"][member].as_array().unwrap_or_else(|| panic!("no {member} in {response}"));
    list.iter().map(|entry| entry[key].as_str().expect("a name")).collect()
}

async fn request(gw: &TestGateway, method: &str, params: Value) -> Value {
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await.message()
}

async fn stateless_request(gw: &TestGateway, method: &str, mut params: Value) -> TestResponse {
    let name = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()).map(str::to_owned);
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": {"name": "stateless", "version": "9"}});
    let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)];
    headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
    gw.post(&headers, &json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string()).await
}

#[tokio::test]
async fn equal_names_of_two_servers_get_different_prefixes() {
    let ThreeServers { upstream, zoo, gw } = three_servers().await;
    let tools = request(&gw, "tools/list", json!({})).await;
    assert_eq!(names(&tools, "tools", "name"), ["desk__read", "desk__wipe", "stateless__read", "zoo__read"]);
    assert!(tools["result"].get("_meta").is_none() && tools["result"].get("nextCursor").is_none());
    let prompts = request(&gw, "prompts/list", json!({})).await;
    assert_eq!(names(&prompts, "prompts", "name"), ["desk__greet"], "the policy of `zoo` allows none");
    let resources = request(&gw, "resources/list", json!({})).await;
    assert_eq!(names(&resources, "resources", "uri"), ["x-desk+note://1"]);
    let templates = request(&gw, "resources/templates/list", json!({})).await;
    assert_eq!(names(&templates, "resourceTemplates", "uriTemplate"), ["x-desk+note://{id}"]);

    let called = request(&gw, "tools/call", json!({"name": "zoo__read", "arguments": {"name": "desk__read"}})).await;
    assert_eq!(called["result"]["content"][0]["text"], "zoo");
    assert_eq!(called["result"]["content"][1]["uri"], "x-zoo+note://1");
    assert_eq!(called["result"]["structuredContent"]["uri"], "note://1", "structured content is not rewritten");
    assert_eq!(zoo.calls()[0].tool(), "read");
    assert_eq!(zoo.calls()[0].message()["params"]["arguments"]["name"], "desk__read", "nor are arguments");
    assert_eq!(upstream.calls().len(), 0);
    assert_eq!(
        request(&gw, "tools/call", json!({"name": "stateless__read"})).await["result"]["content"][0]["text"],
        "stateless"
    );

    let read = request(&gw, "resources/read", json!({"uri": "x-desk+note://1"})).await;
    assert_eq!(read["result"]["contents"][0], json!({"uri": "x-desk+note://1", "text": "desk"}));
    let prompt = request(&gw, "prompts/get", json!({"name": "desk__greet"})).await;
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "desk");
    let reference = json!({"type": "ref/resource", "uri": "x-desk+note://{id}"});
    let complete =
        request(&gw, "completion/complete", json!({"ref": reference, "argument": {"name": "id", "value": ""}})).await;
    assert_eq!(complete["result"]["completion"]["values"], json!(["note://{id}", "desk"]));
}

#[tokio::test]
async fn a_name_without_a_server_of_the_grant_is_unknown() {
    let ThreeServers { upstream, zoo, gw } = three_servers().await;
    gw.initialize().await;
    for name in ["read", "other__read", "Desk__read", "desk_read", "__read", "desk__secret", "desk__nothing"] {
        let response = request(&gw, "tools/call", json!({"name": name})).await;
        assert_eq!(response["error"]["code"], -32602, "{name}");
        let message = format!("Unknown tool: {name} (not available to this grant)");
        assert_eq!(response["error"]["message"], message.as_str(), "with the name that the client sent");
    }
    for (method, params, message) in [
        ("resources/read", json!({"uri": "x-desk+file:///etc"}), "Resource not found: `x-desk+file:///etc`"),
        ("resources/read", json!({"uri": "ui://x-desk+v"}), "Resource not found: `ui://x-desk+v`"),
        ("prompts/get", json!({"name": "zoo__greet"}), "Unknown prompt: `zoo__greet`"),
    ] {
        assert_eq!(request(&gw, method, params).await["error"]["message"], message, "{method}");
    }
    assert_eq!(request(&gw, "resources/read", json!({"uri": "note://1"})).await["error"]["code"], -32002);
    assert_eq!(request(&gw, "resources/read", json!({"uri": "x-other+note://1"})).await["error"]["code"], -32002);
    assert_eq!(request(&gw, "prompts/get", json!({"name": "other__greet"})).await["error"]["code"], -32602);
    assert_eq!(request(&gw, "tasks/get", json!({"taskId": "other__1"})).await["error"]["code"], -32602);
    let unknown = gw.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "books/audit"})).await;
    assert_eq!((unknown.status, unknown.code()), (200, -32601), "404 would mean that the session has ended");
    assert_eq!(request(&gw, "tools/call", json!({"name": 7})).await["error"]["code"], -32602);
    assert_eq!((upstream.calls().len(), zoo.calls().len()), (0, 0));
    let rows = gw.rows().await;
    let refused = rows.iter().filter(|row| row.record.kind == RecordKind::Refused);
    let other = refused.clone().find(|row| row.record.target.as_deref() == Some("other__read")).expect("a row");
    assert!(other.record.server.is_none());
    assert_eq!(refused.count(), 16);
}

#[tokio::test]
async fn each_server_has_its_own_policy_and_limits() {
    let ThreeServers { upstream, zoo, gw } = three_servers().await;
    let call = |name: &'static str| gw.call(name, json!({}));
    assert_eq!(call("zoo__read").await.text(), "zoo");
    assert!(call("zoo__read").await.text().contains("[POLICY DENIED]"), "the limit is one call a day");
    for _ in 0..3 {
        assert_eq!(call("desk__read").await.text(), "desk");
    }
    assert!(call("desk__wipe").await.text().starts_with("[POLICY DENIED]"));
    assert_eq!(call("zoo__wipe").await.code(), -32602, "that policy does not list it");
    assert_eq!((zoo.calls().len(), upstream.calls().len()), (1, 3));
    let rows = gw.rows().await;
    let denied = rows.iter().filter(|row| row.record.target.as_deref() == Some("wipe"));
    let mut servers: Vec<&str> = denied.map(|row| row.record.server.as_ref().expect("a server").as_str()).collect();
    servers.sort_unstable();
    assert_eq!(servers, ["desk", "zoo"], "each row names the server that was called");
}

#[tokio::test]
async fn stateful_and_stateless_clients_reach_stateful_and_stateless_servers() {
    let ThreeServers { upstream, gw, .. } = three_servers().await;
    let discovered = stateless_request(&gw, "server/discover", json!({})).await.message();
    let result = &discovered["result"];
    assert_eq!(result["capabilities"]["tools"], json!({"listChanged": true}), "{discovered}");
    assert!(result["capabilities"].get("desk").is_some() && result["capabilities"].get("zoo").is_some());
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "gatelodge");
    assert_eq!(result["instructions"], "# desk\n\nuse desk\n\n# stateless\n\nno sessions\n\n# zoo\n\nuse zoo");
    let tools = stateless_request(&gw, "tools/list", json!({})).await.message();
    assert_eq!(names(&tools, "tools", "name"), ["desk__read", "desk__wipe", "stateless__read", "zoo__read"]);
    let hints = ["resultType", "ttlMs", "cacheScope"].map(|member| tools["result"][member].clone());
    assert_eq!(hints, [json!("complete"), json!(0), json!("private")]);
    for (name, text) in [("desk__read", "desk"), ("stateless__read", "stateless"), ("zoo__read", "zoo")] {
        assert_eq!(stateless_request(&gw, "tools/call", json!({"name": name})).await.text(), text);
    }
    assert_eq!(upstream.calls()[0].header("mcp-session-id"), Some("s-desk"));
    let unknown = stateless_request(&gw, "tools/call", json!({"name": "other__read"})).await;
    assert_eq!(unknown.code(), -32602);
    assert_eq!(stateless_request(&gw, "resources/read", json!({"uri": "x-other+note://1"})).await.code(), -32602);
    for method in ["ping", "initialize", "books/audit"] {
        let unknown = stateless_request(&gw, method, json!({})).await;
        assert_eq!((unknown.status, unknown.code()), (404, -32601), "{method}");
    }

    let opened = gw.initialize().await.message();
    assert_eq!(opened["result"]["serverInfo"]["name"], "gatelodge");
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
    assert!(opened["result"]["capabilities"].get("zoo").is_some(), "{opened}");
    assert_eq!(gw.call("stateless__read", json!({})).await.text(), "stateless");
    assert_eq!(request(&gw, "ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn headers_must_match_the_body_in_prefixed_names() {
    let ThreeServers { upstream, gw, .. } = three_servers().await;
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    let body =
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "desk__read", "_meta": meta}});
    for (name, status) in [("desk__read", 200), ("read", 400), ("zoo__read", 400), ("=?base64?ZGVza19fcmVhZA==?=", 200)]
    {
        let headers = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)];
        assert_eq!(gw.post(&headers, &body.to_string()).await.status, status, "{name}");
    }
    assert_eq!(upstream.calls().len(), 2);
    let headers = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/list"), ("Mcp-Name", "desk__read")];
    assert_eq!(gw.post(&headers, &body.to_string()).await.code(), -32020);
    assert_eq!(gw.post(&[], r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#).await.code(), -32600);
    assert_eq!(gw.post(&[], r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await.status, 400, "no session");
    assert_eq!(gw.send_raw("GET", "/mcp", &[], b"").await.status, 401);
    assert_eq!(gw.send_raw("GET", "/mcpx", &[], b"").await.status, 404);
}

#[tokio::test]
async fn an_aggregate_session_is_valid_only_for_its_grant_and_endpoint() {
    let ThreeServers { upstream, zoo, gw } = three_servers().await;
    gw.initialize().await;
    let other = gw.add_grant("other", OPEN);
    let session = gw.session();
    let list = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (token, path, status) in
        [(&gw.token, "/mcp", 200), (&gw.token, "/mcp/", 200), (&gw.token, "/mcp/desk", 404), (&other, "/mcp", 404)]
    {
        let bearer = format!("Bearer {}", token.reveal());
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Mcp-Session-Id", &session),
        ];
        assert_eq!(gw.send_raw("POST", path, &headers, list).await.status, status, "{path}");
    }
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", &session)];
    assert_eq!(gw.send_raw("DELETE", "/mcp", &headers, b"").await.status, 204);
    assert_eq!(gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.status, 404);
    for upstream in [&upstream, &zoo] {
        let deleted = || upstream.requests().into_iter().filter(|hit| hit.request_line.starts_with("DELETE")).count();
        wait_until("the session at each server ends", || deleted() == 1).await;
    }
}

#[tokio::test]
async fn a_session_limit_of_an_aggregate_session_survives_a_restart() {
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), stateful("desk")).await;
    let once = r#"{"version":"1","default":"deny","tools":{"read":{"limits":[
        {"counter":"c","window":"day","max":1,"scope":"session"}]}}}"#;
    let mut gw = TestGateway::builder().policy(once).at_aggregate().start(&upstream).await;
    gw.initialize().await;
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "desk");
    gw.restart().await;
    let refused = gw.call("desk__read", json!({})).await;
    assert!(refused.text().contains("limit `c`"), "{}", refused.body);
    gw.initialize().await;
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "desk", "a new session has a counter of its own");
}

#[tokio::test]
async fn an_aggregate_session_survives_a_restart() {
    let ThreeServers { gw, .. } = three_servers().await;
    let mut gw = gw;
    gw.initialize().await;
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "desk");
    gw.restart().await;
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "desk");
    let tools = request(&gw, "tools/list", json!({})).await;
    assert_eq!(names(&tools, "tools", "name"), ["desk__read", "desk__wipe", "stateless__read", "zoo__read"]);
}
