//! `/mcp`: all servers of a grant under one URL, each under its own names, policy and limits.
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

fn answered(hit: &RecordedRequest, result: Value) -> Option<ResponseScript> {
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
    Some(json_response("200 OK", "", &text))
}

/// A server with sessions that has one of everything, and says which one it is.
fn old(own: &'static str) -> impl Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync + 'static {
    move |hit| {
        let params = &hit.message()["params"];
        let result = match hit.method().as_str() {
            "initialize" => {
                let capabilities = json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}, own: {}});
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": own, "version": "1"}, "instructions": format!("use {own}")});
                let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
                return Some(json_response("200 OK", &format!("mcp-session-id: s-{own}\r\n"), &text));
            }
            "tools/call" => {
                let link = json!({"type": "resource_link", "uri": "note://1", "name": "one"});
                json!({"content": [{"type": "text", "text": own}, link], "structuredContent": {"uri": "note://1"}})
            }
            "prompts/list" => json!({"prompts": [{"name": "greet"}]}),
            "prompts/get" => json!({"messages": [{"role": "user", "content": {"type": "text", "text": own}}]}),
            "resources/list" => json!({"resources": [{"uri": "note://1", "name": "one"}]}),
            "resources/templates/list" => json!({"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "n"}]}),
            "resources/read" => json!({"contents": [{"uri": params["uri"], "text": own}]}),
            "completion/complete" => json!({"completion": {"values": [params["ref"]["uri"], own]}}),
            _ => return None,
        };
        answered(hit, result)
    }
}

/// A server without sessions.
fn new(hit: &RecordedRequest) -> Option<ResponseScript> {
    let result = match hit.method().as_str() {
        "server/discover" => json!({"resultType": "complete", "supportedVersions": [VERSION],
            "capabilities": {"tools": {"listChanged": true}}, "instructions": "stand alone", "ttlMs": 1, "cacheScope": "public"}),
        "tools/list" => {
            json!({"resultType": "complete", "tools": [tool_definition("read")], "ttlMs": 60000, "cacheScope": "public"})
        }
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "new"}]}),
        "initialize" => {
            let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"gone"}}"#;
            return Some(json_response("400 Bad Request", "", body));
        }
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error}).to_string();
            return Some(json_response("404 Not Found", "", &text));
        }
    };
    answered(hit, result)
}

struct Three {
    desk: FakeUpstream,
    zoo: FakeUpstream,
    gw: TestGateway,
}

/// Two servers with sessions whose names for everything are equal, and one without.
async fn three() -> Three {
    let tools = json!([tool_definition("wipe"), tool_definition("read"), tool_definition("secret")]);
    let desk = FakeUpstream::start(tools.clone(), old("desk")).await;
    let zoo = FakeUpstream::start(tools, old("zoo")).await;
    let modern = FakeUpstream::start(json!([]), new).await;
    let zoo_policy =
        r#"{"version":"1","default":"deny","tools":{"read":{"limits":[{"counter":"c","window":"day","max":1}]}}}"#;
    let builder = TestGateway::builder().policy(OPEN).at_aggregate();
    let builder = builder.with_server("zoo", &zoo.url(), zoo_policy).with_server("modern", &modern.url(), OPEN);
    let gw = builder.start(&desk).await;
    Three { desk, zoo, gw }
}

fn names<'a>(answer: &'a Value, member: &str, key: &str) -> Vec<&'a str> {
    let list = answer["result"][member].as_array().unwrap_or_else(|| panic!("no {member} in {answer}"));
    list.iter().map(|entry| entry[key].as_str().expect("a name")).collect()
}

async fn ask(gw: &TestGateway, method: &str, params: Value) -> Value {
    gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await.message()
}

async fn stateless(gw: &TestGateway, method: &str, mut params: Value) -> TestResponse {
    let about = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()).map(str::to_owned);
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "9"}});
    let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)];
    headers.extend(about.as_deref().map(|about| ("Mcp-Name", about)));
    gw.post(&headers, &json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string()).await
}

#[tokio::test]
async fn what_two_servers_call_alike_has_two_names() {
    let Three { desk, zoo, gw } = three().await;
    let tools = ask(&gw, "tools/list", json!({})).await;
    assert_eq!(names(&tools, "tools", "name"), ["desk__read", "desk__wipe", "modern__read", "zoo__read"]);
    assert!(tools["result"].get("_meta").is_none() && tools["result"].get("nextCursor").is_none());
    let prompts = ask(&gw, "prompts/list", json!({})).await;
    assert_eq!(names(&prompts, "prompts", "name"), ["desk__greet"], "the other's policy shows none");
    let resources = ask(&gw, "resources/list", json!({})).await;
    assert_eq!(names(&resources, "resources", "uri"), ["x-desk+note://1"]);
    let templates = ask(&gw, "resources/templates/list", json!({})).await;
    assert_eq!(names(&templates, "resourceTemplates", "uriTemplate"), ["x-desk+note://{id}"]);

    let called = ask(&gw, "tools/call", json!({"name": "zoo__read", "arguments": {"name": "desk__read"}})).await;
    assert_eq!(called["result"]["content"][0]["text"], "zoo");
    assert_eq!(called["result"]["content"][1]["uri"], "x-zoo+note://1");
    assert_eq!(called["result"]["structuredContent"]["uri"], "note://1", "what a tool gives is its own");
    assert_eq!(zoo.calls()[0].tool(), "read");
    assert_eq!(zoo.calls()[0].message()["params"]["arguments"]["name"], "desk__read", "so is what it is given");
    assert_eq!(desk.calls().len(), 0);
    assert_eq!(ask(&gw, "tools/call", json!({"name": "modern__read"})).await["result"]["content"][0]["text"], "new");

    let read = ask(&gw, "resources/read", json!({"uri": "x-desk+note://1"})).await;
    assert_eq!(read["result"]["contents"][0], json!({"uri": "x-desk+note://1", "text": "desk"}));
    let prompt = ask(&gw, "prompts/get", json!({"name": "desk__greet"})).await;
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "desk");
    let reference = json!({"type": "ref/resource", "uri": "x-desk+note://{id}"});
    let complete =
        ask(&gw, "completion/complete", json!({"ref": reference, "argument": {"name": "id", "value": ""}})).await;
    assert_eq!(complete["result"]["completion"]["values"], json!(["note://{id}", "desk"]));
}

#[tokio::test]
async fn a_name_of_no_server_of_the_grant_is_like_one_that_is_not_there() {
    let Three { desk, zoo, gw } = three().await;
    gw.initialize().await;
    for name in ["read", "other__read", "Desk__read", "desk_read", "__read", "desk__secret", "desk__nothing"] {
        let answer = ask(&gw, "tools/call", json!({"name": name})).await;
        assert_eq!(answer["error"]["code"], -32602, "{name}");
        let words = format!("Unknown tool: {name} (not available to this grant)");
        assert_eq!(answer["error"]["message"], words.as_str(), "as the client knows it");
    }
    for (method, params, words) in [
        ("resources/read", json!({"uri": "x-desk+file:///etc"}), "Resource not found: `x-desk+file:///etc`"),
        ("resources/read", json!({"uri": "ui://x-desk+v"}), "Resource not found: `ui://x-desk+v`"),
        ("prompts/get", json!({"name": "zoo__greet"}), "Unknown prompt: `zoo__greet`"),
    ] {
        assert_eq!(ask(&gw, method, params).await["error"]["message"], words, "{method}");
    }
    assert_eq!(ask(&gw, "resources/read", json!({"uri": "note://1"})).await["error"]["code"], -32002);
    assert_eq!(ask(&gw, "resources/read", json!({"uri": "x-other+note://1"})).await["error"]["code"], -32002);
    assert_eq!(ask(&gw, "prompts/get", json!({"name": "other__greet"})).await["error"]["code"], -32602);
    assert_eq!(ask(&gw, "tasks/get", json!({"taskId": "other__1"})).await["error"]["code"], -32602);
    let unknown = gw.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "books/audit"})).await;
    assert_eq!((unknown.status, unknown.code()), (200, -32601), "404 would say that the session is over");
    assert_eq!(ask(&gw, "tools/call", json!({"name": 7})).await["error"]["code"], -32602);
    assert_eq!((desk.calls().len(), zoo.calls().len()), (0, 0));
    let rows = gw.rows().await;
    let refused = rows.iter().filter(|row| row.record.kind == RecordKind::Refused);
    let other = refused.clone().find(|row| row.record.target.as_deref() == Some("other__read")).expect("a row");
    assert!(other.record.server.is_none());
    assert_eq!(refused.count(), 16);
}

#[tokio::test]
async fn each_server_has_its_own_policy_and_limits() {
    let Three { desk, zoo, gw } = three().await;
    let call = |name: &'static str| gw.call(name, json!({}));
    assert_eq!(call("zoo__read").await.text(), "zoo");
    assert!(call("zoo__read").await.text().contains("[POLICY DENIED]"), "its one call of the day");
    for _ in 0..3 {
        assert_eq!(call("desk__read").await.text(), "desk");
    }
    assert!(call("desk__wipe").await.text().starts_with("[POLICY DENIED]"));
    assert_eq!(call("zoo__wipe").await.code(), -32602, "there it is not listed");
    assert_eq!((zoo.calls().len(), desk.calls().len()), (1, 3));
    let rows = gw.rows().await;
    let denied = rows.iter().filter(|row| row.record.target.as_deref() == Some("wipe"));
    let mut servers: Vec<&str> = denied.map(|row| row.record.server.as_ref().expect("a server").as_str()).collect();
    servers.sort_unstable();
    assert_eq!(servers, ["desk", "zoo"], "each is written down where it belongs");
}

#[tokio::test]
async fn both_eras_of_clients_reach_both_eras_of_servers() {
    let Three { desk, gw, .. } = three().await;
    let discovered = stateless(&gw, "server/discover", json!({})).await.message();
    let result = &discovered["result"];
    assert_eq!(result["capabilities"]["tools"], json!({"listChanged": true}), "{discovered}");
    assert!(result["capabilities"].get("desk").is_some() && result["capabilities"].get("zoo").is_some());
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "gatelodge");
    assert_eq!(result["instructions"], "# desk\n\nuse desk\n\n# modern\n\nstand alone\n\n# zoo\n\nuse zoo");
    let tools = stateless(&gw, "tools/list", json!({})).await.message();
    assert_eq!(names(&tools, "tools", "name"), ["desk__read", "desk__wipe", "modern__read", "zoo__read"]);
    let hints = ["resultType", "ttlMs", "cacheScope"].map(|member| tools["result"][member].clone());
    assert_eq!(hints, [json!("complete"), json!(0), json!("private")]);
    for (name, text) in [("desk__read", "desk"), ("modern__read", "new"), ("zoo__read", "zoo")] {
        assert_eq!(stateless(&gw, "tools/call", json!({"name": name})).await.text(), text);
    }
    assert_eq!(desk.calls()[0].header("mcp-session-id"), Some("s-desk"));
    let unknown = stateless(&gw, "tools/call", json!({"name": "other__read"})).await;
    assert_eq!(unknown.code(), -32602);
    assert_eq!(stateless(&gw, "resources/read", json!({"uri": "x-other+note://1"})).await.code(), -32602);
    for method in ["ping", "initialize", "books/audit"] {
        let gone = stateless(&gw, method, json!({})).await;
        assert_eq!((gone.status, gone.code()), (404, -32601), "{method}");
    }

    let opened = gw.initialize().await.message();
    assert_eq!(opened["result"]["serverInfo"]["name"], "gatelodge");
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
    assert!(opened["result"]["capabilities"].get("zoo").is_some(), "{opened}");
    assert_eq!(gw.call("modern__read", json!({})).await.text(), "new");
    assert_eq!(ask(&gw, "ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn head_and_body_say_the_same_with_the_names_that_clients_know() {
    let Three { desk, gw, .. } = three().await;
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    let body =
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "desk__read", "_meta": meta}});
    for (name, status) in [("desk__read", 200), ("read", 400), ("zoo__read", 400), ("=?base64?ZGVza19fcmVhZA==?=", 200)]
    {
        let headers = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)];
        assert_eq!(gw.post(&headers, &body.to_string()).await.status, status, "{name}");
    }
    assert_eq!(desk.calls().len(), 2);
    let headers = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/list"), ("Mcp-Name", "desk__read")];
    assert_eq!(gw.post(&headers, &body.to_string()).await.code(), -32020);
    assert_eq!(gw.post(&[], r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#).await.code(), -32600);
    assert_eq!(gw.post(&[], r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await.status, 400, "no session");
    assert_eq!(gw.send_raw("GET", "/mcp", &[], b"").await.status, 401);
    assert_eq!(gw.send_raw("GET", "/mcpx", &[], b"").await.status, 404);
}

#[tokio::test]
async fn a_session_for_all_is_its_grants_own_and_of_no_single_server() {
    let Three { desk, zoo, gw } = three().await;
    gw.initialize().await;
    let stranger = gw.add_grant("other", OPEN);
    let session = gw.session();
    let list = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (token, path, status) in
        [(&gw.token, "/mcp", 200), (&gw.token, "/mcp/", 200), (&gw.token, "/mcp/desk", 404), (&stranger, "/mcp", 404)]
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
    for upstream in [&desk, &zoo] {
        let ended = || upstream.requests().into_iter().filter(|hit| hit.request_line.starts_with("DELETE")).count();
        wait_until("the session at each server is ended", || ended() == 1).await;
    }
}

#[tokio::test]
async fn what_a_session_for_all_may_do_once_it_may_do_once_however_often_its_parts_are_opened() {
    let desk = FakeUpstream::start(json!([tool_definition("read")]), old("desk")).await;
    let once = r#"{"version":"1","default":"deny","tools":{"read":{"limits":[
        {"counter":"c","window":"day","max":1,"scope":"session"}]}}}"#;
    let mut gw = TestGateway::builder().policy(once).at_aggregate().start(&desk).await;
    gw.initialize().await;
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "desk");
    gw.restart().await;
    let again = gw.call("desk__read", json!({})).await;
    assert!(again.text().contains("limit `c`"), "{}", again.body);
    gw.initialize().await;
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "desk", "another session is another one");
}

#[tokio::test]
async fn a_session_for_all_survives_a_restart() {
    let Three { gw, .. } = three().await;
    let mut gw = gw;
    gw.initialize().await;
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "desk");
    gw.restart().await;
    assert_eq!(gw.call("desk__read", json!({})).await.text(), "desk");
    let tools = ask(&gw, "tools/list", json!({})).await;
    assert_eq!(names(&tools, "tools", "name"), ["desk__read", "desk__wipe", "modern__read", "zoo__read"]);
}
