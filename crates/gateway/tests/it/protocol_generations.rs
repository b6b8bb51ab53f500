//! Translation between a client of one protocol generation and a server of the other, and detection of the server's
//! generation.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, event_response,
    json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{
    ALLOW_ALL, StatelessTestClient, result_response as result_script, stateless_response, wait_until,
};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{},"wipe":{"action":"deny"}},
    "resources":{"note://desk/*":{}},"prompts":{"*":{}},
    "client_requests":{"elicitation":"allow","sampling":"allow"}}"#;
const VERSION: &str = "2026-07-28";

fn meta(capabilities: &Value) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "stateless", "version": "9"}, "vendor/x": 1})
}

async fn stateless(gw: &TestGateway, method: &str, params: Value) -> TestResponse {
    stateless_with(gw, method, params, &json!({"elicitation": {"form": {}}})).await
}

async fn stateless_with(gw: &TestGateway, method: &str, mut params: Value, capabilities: &Value) -> TestResponse {
    let subject = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
    params["_meta"] = meta(capabilities);
    let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)];
    headers.extend(subject.as_deref().map(|subject| ("Mcp-Name", subject)));
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string();
    gw.post(&headers, &body).await
}

fn result_response(request: &RecordedRequest, result: Value) -> Option<ResponseScript> {
    let text = json!({"jsonrpc": "2.0", "id": request.message()["id"], "result": result}).to_string();
    Some(json_response("200 OK", "", &text))
}

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// A stateful server. Its tool `ask` sends an elicitation during the call.
fn stateful_server(request: &RecordedRequest) -> Option<ResponseScript> {
    let message = request.message();
    match (request.method().as_str(), request.tool().as_str()) {
        ("initialize", _) => {
            let capabilities = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "tasks": {}});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "instructions": "be kind",
                "serverInfo": {"name": "old", "version": "1"}});
            let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            Some(json_response("200 OK", "mcp-session-id: s-1\r\n", &text))
        }
        ("tools/call", "ask") => {
            let elicitation = json!({"jsonrpc": "2.0", "id": 77, "method": "elicitation/create",
                "params": {"message": "really?", "requestedSchema": {"type": "object", "properties": {}}}});
            let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "done"}]}});
            let headers = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = |text: String| format!("{:x}\r\n{text}\r\n", text.len());
            Some(vec![
                ScriptStep::Write(format!("{headers}{}", chunk(event(&elicitation))).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(400)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&reply))).into_bytes()),
            ])
        }
        ("resources/read", _) if message["params"]["uri"] == "note://desk/none" => {
            let error = json!({"code": -32002, "message": "not there"});
            let text = json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string();
            Some(json_response("200 OK", "", &text))
        }
        _ if request.request_line.starts_with("GET") => {
            let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            let updated = |uri: &str| json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
            let events = [event(&changed), event(&updated("note://desk/1")), event(&updated("note://desk/2"))].concat();
            let mut script = vec![ScriptStep::Pause(Duration::from_millis(300))];
            script.extend(event_response(&events));
            Some(script)
        }
        _ => None,
    }
}

async fn start_stateful() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(
        json!([tool_definition("read"), tool_definition("ask"), tool_definition("wipe")]),
        stateful_server,
    )
    .await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

#[tokio::test]
async fn a_stateless_client_lists_and_calls_tools_of_a_stateful_server() {
    let (upstream, gw) = start_stateful().await;
    let result = stateless(&gw, "server/discover", json!({})).await.message()["result"].clone();
    assert_eq!(result["supportedVersions"][0], VERSION);
    assert_eq!(result["capabilities"], json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}));
    assert_eq!((&result["instructions"], &result["resultType"]), (&json!("be kind"), &json!("complete")));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "old");

    let list = stateless(&gw, "tools/list", json!({})).await.message()["result"].clone();
    assert_eq!(list["tools"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        (&list["ttlMs"], &list["cacheScope"], &list["resultType"]),
        (&json!(0), &json!("private"), &json!("complete"))
    );

    let reply = stateless(&gw, "tools/call", json!({"name": "read", "arguments": {"n": 1}})).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"n":1}"#));
    assert_eq!(reply.message()["result"]["resultType"], "complete");
    let denied = stateless(&gw, "tools/call", json!({"name": "wipe"})).await;
    assert!(denied.text().starts_with("[POLICY DENIED]"));

    let requests = upstream.requests();
    assert_eq!(
        requests.iter().filter(|request| request.method() == "initialize").count(),
        1,
        "all requests share one session"
    );
    let initialize = requests.iter().find(|request| request.method() == "initialize").expect("a handshake").message();
    assert_eq!(
        initialize["params"]["capabilities"],
        json!({"elicitation": {"form": {}}}),
        "the capabilities that the client declared"
    );
    let call = &upstream.calls()[0];
    assert_eq!(call.header("mcp-session-id"), Some("s-1"));
    assert_eq!(call.header("mcp-method"), None);
    assert_eq!(
        call.message()["params"]["_meta"],
        json!({"vendor/x": 1}),
        "the `_meta` members of the stateless protocol are not forwarded"
    );
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn each_grant_and_set_of_client_capabilities_has_its_own_upstream_session() {
    let (upstream, gw) = start_stateful().await;
    for capabilities in [json!({}), json!({"sampling": {}}), json!({})] {
        stateless_with(&gw, "tools/list", json!({}), &capabilities).await;
    }
    let second = gw.add_grant("other", POLICY);
    let bearer = format!("Bearer {}", second.reveal());
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta(&json!({}))}}).to_string();
    let headers = [
        ("Authorization", bearer.as_str()),
        ("MCP-Protocol-Version", VERSION),
        ("Mcp-Method", "tools/list"),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
    ];
    assert_eq!(gw.send_raw("POST", "/mcp/desk", &headers, body.as_bytes()).await.status, 200);
    let initializes: Vec<Value> = upstream
        .requests()
        .iter()
        .filter(|request| request.method() == "initialize")
        .map(RecordedRequest::message)
        .collect();
    let declared: Vec<&Value> = initializes.iter().map(|initialize| &initialize["params"]["capabilities"]).collect();
    assert_eq!(
        declared,
        [&json!({}), &json!({"sampling": {}}), &json!({})],
        "the third session belongs to the second grant"
    );
}

#[tokio::test]
async fn an_elicitation_of_a_stateful_server_reaches_a_stateless_client_as_input_required() {
    let (upstream, gw) = start_stateful().await;
    let suspended =
        stateless(&gw, "tools/call", json!({"name": "ask", "arguments": {"a": 1}})).await.message()["result"].clone();
    assert_eq!(suspended["resultType"], "input_required");
    assert_eq!(suspended["inputRequests"]["ask"]["method"], "elicitation/create");
    assert_eq!(suspended["inputRequests"]["ask"]["params"]["message"], "really?");
    let retry = |arguments: Value| {
        json!({"name": "ask", "arguments": arguments, "requestState": suspended["requestState"],
            "inputResponses": {"ask": {"action": "accept", "content": {}}}})
    };

    let other = stateless(&gw, "tools/call", retry(json!({"a": 2}))).await;
    assert_eq!((other.status, other.code()), (400, -32602), "`requestState` is bound to the arguments: {}", other.body);
    let reply = stateless(&gw, "tools/call", retry(json!({"a": 1}))).await;
    assert_eq!(reply.text(), "done");
    let replies: Vec<Value> =
        upstream.requests().iter().map(RecordedRequest::message).filter(|message| message["id"] == 77).collect();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0]["result"], json!({"action": "accept", "content": {}}));
    let twice = stateless(&gw, "tools/call", retry(json!({"a": 1}))).await;
    assert_eq!((twice.status, twice.code()), (400, -32602), "`requestState` is valid once");
    let mut changed = retry(json!({"a": 1}));
    changed["requestState"] = json!(format!("{}-changed", suspended["requestState"].as_str().expect("a state")));
    assert_eq!(stateless(&gw, "tools/call", changed).await.code(), -32602);
    assert_eq!(upstream.calls().len(), 1, "the call was sent once");
}

#[tokio::test]
async fn an_elicitation_that_the_policy_denies_does_not_reach_a_stateless_client() {
    let upstream = FakeUpstream::start(json!([tool_definition("ask")]), stateful_server).await;
    let gw = TestGateway::with_policy(r#"{"version":"1","default":"deny","tools":{"*":{}}}"#, &upstream).await;
    let reply = stateless(&gw, "tools/call", json!({"name": "ask"})).await;
    assert_eq!(reply.text(), "done");
    let declined = upstream
        .requests()
        .iter()
        .map(RecordedRequest::message)
        .find(|message| message["id"] == 77)
        .expect("a response to the elicitation");
    assert_eq!(declined["error"]["code"], -32601);
}

#[tokio::test]
async fn a_resource_gets_cache_members_and_a_missing_one_the_stateless_error_code() {
    let (_, gw) = start_stateful().await;
    let read = stateless(&gw, "resources/read", json!({"uri": "note://desk/1"})).await.message()["result"].clone();
    assert_eq!(
        (&read["cacheScope"], &read["ttlMs"], &read["resultType"]),
        (&json!("private"), &json!(0), &json!("complete"))
    );
    assert_eq!(stateless(&gw, "resources/read", json!({"uri": "note://desk/none"})).await.code(), -32602);
}

#[tokio::test]
async fn a_stateless_client_receives_only_the_notifications_it_subscribed_to() {
    let (upstream, gw) = start_stateful().await;
    let filter =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["note://desk/1"]});
    let listen = stateless(&gw, "subscriptions/listen", json!({"notifications": filter}));
    let stopping = async {
        // Time for all notifications to arrive, the unwanted ones as well.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        gw.gateway.stop();
    };
    let replied = tokio::time::timeout(Duration::from_secs(3), async { tokio::join!(listen, stopping).0 });
    let messages = replied.await.expect("the stream ends with the gateway").messages();
    let methods: Vec<&str> = messages.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(
        methods[..3],
        [
            "notifications/subscriptions/acknowledged",
            "notifications/tools/list_changed",
            "notifications/resources/updated"
        ]
    );
    assert_eq!(
        messages[0]["params"]["notifications"],
        json!({"toolsListChanged": true, "resourceSubscriptions": ["note://desk/1"]}),
        "the server does not announce changes of prompts"
    );
    for message in &messages {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 3);
        assert_ne!(message["params"]["uri"], "note://desk/2");
    }
    assert!(upstream.requests().iter().any(|request| request.method() == "resources/subscribe"));
}

#[tokio::test]
async fn subscriptions_are_renewed_when_the_upstream_session_is_lost() {
    let loses_session = Arc::new(AtomicBool::new(false));
    let loses_next_session = Arc::clone(&loses_session);
    let upstream =
        FakeUpstream::start(json!([tool_definition("read")]), move |request| match request.method().as_str() {
            "tools/call" if loses_next_session.swap(false, Ordering::AcqRel) => {
                Some(json_response("404 Not Found", "", ""))
            }
            _ => stateful_server(request),
        });
    let upstream = upstream.await;
    let gw = Arc::new(TestGateway::with_policy(POLICY, &upstream).await);
    let listener = Arc::clone(&gw);
    let filter = json!({"resourceSubscriptions": ["note://desk/1"]});
    let listen = async move { stateless(&listener, "subscriptions/listen", json!({"notifications": filter})).await };
    let listen = tokio::spawn(listen);
    let subscribe_count =
        || upstream.requests().iter().filter(|request| request.method() == "resources/subscribe").count();
    wait_until("the resource is subscribed to", || subscribe_count() == 1).await;
    loses_session.store(true, Ordering::Release);
    stateless(&gw, "tools/call", json!({"name": "read"})).await;
    wait_until("the resource is subscribed to again", || subscribe_count() == 2).await;
    listen.abort();
}

/// A stateless server. A call of its tool `ask` needs client input first.
fn stateless_server(request: &RecordedRequest) -> Option<ResponseScript> {
    let message = request.message();
    let complete = |mut result: Value| {
        result["resultType"] = json!("complete");
        result_response(request, result)
    };
    match (request.method().as_str(), request.tool().as_str()) {
        ("initialize", _) => Some(json_response(
            "404 Not Found",
            "",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}"#,
        )),
        ("server/discover", _) => complete(json!({"supportedVersions": [VERSION], "ttlMs": 0, "cacheScope": "public",
                "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "extensions": {"x": {}}},
                "instructions": "be brief", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "2"}}})),
        ("tools/list", _) => complete(
            json!({"tools": [tool_definition("read"), tool_definition("ask")], "ttlMs": 0, "cacheScope": "public"}),
        ),
        ("tools/call", "ask") if message["params"]["inputResponses"].is_null() => result_response(
            request,
            json!({"resultType": "input_required", "requestState": "opaque-é",
                    "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "sure?"}}}}),
        ),
        ("tools/call", "ask") => {
            let action = message["params"]["inputResponses"]["q"]["action"].clone();
            complete(json!({"content": [{"type": "text", "text": action}]}))
        }
        ("subscriptions/listen", _) => {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
            let notification = |method: &str, mut params: Value| {
                params["_meta"] = meta.clone();
                event(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
            };
            let events = [
                notification(
                    "notifications/subscriptions/acknowledged",
                    json!({"notifications": message["params"]["notifications"]}),
                ),
                notification("notifications/resources/updated", json!({"uri": "note://desk/1"})),
            ];
            Some(event_response(&events.concat()))
        }
        ("resources/subscribe" | "ping" | "logging/setLevel", _) => None,
        ("tools/call", _) => complete(json!({"content": [{"type": "text", "text": "read"}]})),
        _ => None,
    }
}

async fn start_stateless() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([]), stateless_server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

#[tokio::test]
async fn a_stateful_client_lists_and_calls_tools_of_a_stateless_server() {
    let (upstream, gw) = start_stateless().await;
    let result = gw.initialize().await.message()["result"].clone();
    assert_eq!((&result["protocolVersion"], &result["instructions"]), (&json!("2025-11-25"), &json!("be brief")));
    let capabilities =
        json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "extensions": {"x": {}}});
    assert_eq!(result["capabilities"], capabilities);
    assert_eq!(result["serverInfo"]["name"], "new");
    assert_eq!(gw.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.status, 202);
    let list = gw.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await.message();
    assert_eq!(list["result"]["tools"].as_array().map(Vec::len), Some(2));
    assert_eq!(gw.call("read", json!({"n": 1})).await.text(), "read");
    assert_eq!(gw.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "ping"})).await.message()["result"], json!({}));
    let level = json!({"jsonrpc": "2.0", "id": 6, "method": "logging/setLevel", "params": {"level": "warning"}});
    assert_eq!(gw.send(&level).await.message()["result"], json!({}));
    gw.call("read", json!({"n": 2})).await;

    let calls = upstream.calls();
    assert_eq!(calls[0].header("mcp-session-id"), None);
    assert_eq!((calls[0].header("mcp-method"), calls[0].header("mcp-name")), (Some("tools/call"), Some("read")));
    let meta = calls[0].message()["params"]["_meta"].clone();
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], VERSION);
    assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], Value::Null);
    assert_eq!(calls[1].message()["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
    for method in ["ping", "logging/setLevel", "notifications/initialized"] {
        assert!(
            !upstream.requests().iter().any(|request| request.method() == method),
            "the stateless protocol has no {method}"
        );
    }
}

/// Reads until `text` was received, and returns everything that was read.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    let reading = async {
        while !String::from_utf8_lossy(&all).contains(text) {
            let read = stream.read(&mut buffer).await.expect("the stream is readable");
            assert_ne!(read, 0, "the stream ended before {text}");
            all.extend_from_slice(&buffer[..read]);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), reading).await.expect("the text arrives in time");
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn input_required_of_a_stateless_server_reaches_a_stateful_client_as_elicitation() {
    let (upstream, gw) = start_stateless().await;
    gw.initialize().await;
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "ask", "arguments": {}}})
        .to_string();
    let headers = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\nMcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n",
        gw.address,
        gw.token.reveal(),
        gw.session(),
        body.len()
    );
    stream.write_all(format!("{headers}{body}").as_bytes()).await.expect("the stream is writable");
    let received = read_until(&mut stream, "sure?").await;
    let elicitation = received.lines().find_map(|line| line.strip_prefix("data: ")).expect("an elicitation");
    let elicitation: Value = serde_json::from_str(elicitation).expect("json");
    assert_eq!(elicitation["method"], "elicitation/create");

    let response =
        json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": {"action": "accept", "content": {"a": 1.5}}});
    assert_eq!(gw.send(&response).await.status, 202);
    let reply = read_until(&mut stream, "\"id\":9").await;
    assert!(reply.contains("\"accept\"") && !reply.contains("resultType"), "{reply}");
    let calls = upstream.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].message()["params"]["requestState"], "opaque-é");
    assert_eq!(
        calls[1].message()["params"]["inputResponses"],
        json!({"q": {"action": "accept", "content": {"a": 1.5}}})
    );
    assert_ne!(calls[0].message()["id"], calls[1].message()["id"]);
}

#[tokio::test]
async fn a_resource_subscription_of_a_stateful_client_becomes_a_listen_at_a_stateless_server() {
    let (upstream, gw) = start_stateless().await;
    gw.initialize().await;
    for uri in ["note://desk/1", "note://other/1"] {
        gw.send(&json!({"jsonrpc": "2.0", "id": 4, "method": "resources/subscribe", "params": {"uri": uri}})).await;
    }
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let request = format!(
        "GET /mcp/desk HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\n\r\n",
        gw.address,
        gw.token.reveal(),
        gw.session()
    );
    stream.write_all(request.as_bytes()).await.expect("the stream is writable");
    let received = read_until(&mut stream, "note://desk/1").await;
    assert!(!received.contains("acknowledged"), "{received}");
    let listen = upstream
        .requests()
        .into_iter()
        .find(|request| request.method() == "subscriptions/listen")
        .expect("a `subscriptions/listen`");
    assert_eq!(listen.message()["params"]["notifications"]["resourceSubscriptions"], json!(["note://desk/1"]));
    assert!(!upstream.requests().iter().any(|request| request.method() == "resources/subscribe"));
}

/// A stateless server that refuses the first `server/discover` with the error `code`, which lists the `supported`
/// revisions.
fn server_refusing_discover(
    request: &RecordedRequest,
    code: i64,
    supported: &Value,
    is_first: &AtomicBool,
) -> Option<ResponseScript> {
    match request.method().as_str() {
        "server/discover" if is_first.swap(false, Ordering::AcqRel) => {
            let data = json!({"supported": supported, "requested": VERSION});
            let error = json!({"code": code, "message": "not so", "data": data});
            let text = json!({"jsonrpc": "2.0", "id": request.message()["id"], "error": error}).to_string();
            Some(json_response("400 Bad Request", "", &text))
        }
        "initialize" => Some(json_response("404 Not Found", "", "")),
        _ => stateless_server(request),
    }
}

async fn start_refusing_discover(code: i64, supported: Value) -> (FakeUpstream, TestGateway) {
    let is_first = AtomicBool::new(true);
    let server = move |request: &RecordedRequest| server_refusing_discover(request, code, &supported, &is_first);
    let upstream = FakeUpstream::start(json!([]), server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

fn count(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|request| request.method() == method).count()
}

#[tokio::test]
async fn server_discover_is_retried_with_a_revision_that_the_server_supports() {
    let (upstream, gw) = start_refusing_discover(-32022, json!([VERSION])).await;
    let reply = stateless(&gw, "tools/call", json!({"name": "read", "arguments": {}})).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "read"));
    assert_eq!((count(&upstream, "server/discover"), count(&upstream, "initialize")), (2, 0));
}

#[tokio::test]
async fn error_codes_of_the_stateless_protocol_are_not_followed_by_initialize() {
    for code in [-32020, -32021] {
        let (upstream, gw) = start_refusing_discover(code, Value::Null).await;
        assert_eq!(stateless(&gw, "tools/list", json!({})).await.status, 200, "{code}");
        assert_eq!((count(&upstream, "server/discover"), count(&upstream, "initialize")), (1, 0), "{code}");
    }
}

#[tokio::test]
async fn a_server_that_supports_only_stateful_revisions_gets_initialize() {
    let (upstream, gw) = start_refusing_discover(-32022, json!(["2025-11-25"])).await;
    assert_eq!(stateless(&gw, "tools/list", json!({})).await.status, 502, "this server answers `initialize` with 404");
    assert_eq!((count(&upstream, "server/discover"), count(&upstream, "initialize")), (1, 1));
}

/// A server that changes its protocol generation when the returned flag changes.
async fn start_changing_generation(starts_stateless: bool) -> (FakeUpstream, TestGateway, Arc<AtomicBool>) {
    let is_stateless = Arc::new(AtomicBool::new(starts_stateless));
    let current = Arc::clone(&is_stateless);
    let server = move |request: &RecordedRequest| {
        let is_stateless_request = request.header("mcp-method").is_some();
        if is_stateless_request != current.load(Ordering::Acquire) {
            let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}"#;
            return Some(json_response("400 Bad Request", "", text));
        }
        if is_stateless_request { stateless_server(request) } else { stateful_server(request) }
    };
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), server).await;
    let gw = TestGateway::with_policy(r#"{"version":"1","default":"allow"}"#, &upstream).await;
    (upstream, gw, is_stateless)
}

#[tokio::test]
async fn a_server_that_changes_its_protocol_generation_is_detected_again() {
    for starts_stateless in [true, false] {
        let (upstream, gw, is_stateless) = start_changing_generation(starts_stateless).await;
        let read = async || {
            let reply = stateless(&gw, "resources/read", json!({"uri": "note://desk/none"})).await;
            reply.message()["error"]["code"].clone()
        };
        read().await;
        let before = count(&upstream, "server/discover");
        is_stateless.store(!starts_stateless, Ordering::Release);
        assert_eq!(read().await, -32600, "the server's error is passed on");
        assert_eq!(count(&upstream, "server/discover"), before + 1);
        assert_ne!(read().await, -32600, "the next request uses the server's new generation");
        assert_eq!(count(&upstream, "server/discover"), before + 1);
    }
}

#[tokio::test]
async fn a_client_session_ends_when_its_stateless_server_becomes_stateful() {
    let (_, gw, is_stateless) = start_changing_generation(true).await;
    gw.initialize().await;
    is_stateless.store(false, Ordering::Release);
    let read = json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "note://desk/none"}});
    assert_eq!(gw.send(&read).await.code(), -32600);
    assert_eq!(gw.send(&read).await.status, 404, "404 makes the client initialize again");
    gw.initialize().await;
    assert_eq!(gw.send(&read).await.code(), -32002);
}

#[tokio::test]
async fn the_standalone_stream_ends_when_the_server_becomes_stateful() {
    let (_, gw, is_stateless) = start_changing_generation(true).await;
    gw.initialize().await;
    let request = format!(
        "GET /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\nConnection: close\r\n\r\n",
        gw.token.reveal(),
        gw.session()
    );
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.expect("a stream");
    is_stateless.store(false, Ordering::Release);
    let read = json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "note://desk/none"}});
    assert_eq!(gw.send(&read).await.code(), -32600);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the stream is still open: {}", String::from_utf8_lossy(&rest));
}

#[tokio::test]
async fn a_server_that_does_not_answer_server_discover_is_treated_as_stateful() {
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), |request: &RecordedRequest| {
        match request.method().as_str() {
            "server/discover" => Some(vec![ScriptStep::Pause(Duration::from_secs(60))]),
            _ => stateful_server(request),
        }
    })
    .await;
    let settings = GatewaySettings { connect_timeout: Duration::from_millis(250), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    for _ in 0..2 {
        assert_eq!(stateless(&gw, "tools/list", json!({})).await.status, 200);
    }
    assert_eq!(
        (count(&upstream, "server/discover"), count(&upstream, "initialize")),
        (1, 1),
        "the detected generation is remembered"
    );
}

#[tokio::test]
async fn a_503_to_server_discover_does_not_decide_the_generation() {
    let is_first = AtomicBool::new(true);
    let server = move |request: &RecordedRequest| match request.method().as_str() {
        "server/discover" if is_first.swap(false, Ordering::AcqRel) => {
            Some(json_response("503 Service Unavailable", "", ""))
        }
        _ => stateful_server(request),
    };
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    for discovered in [1, 2, 2] {
        assert_eq!(stateless(&gw, "tools/list", json!({})).await.status, 200);
        assert_eq!(count(&upstream, "server/discover"), discovered);
    }
    assert_eq!(count(&upstream, "initialize"), 1);
}

#[tokio::test]
async fn a_refused_initialize_is_followed_by_server_discover_whatever_the_body() {
    let bodies = [
        ("application/json", r#"{"error":"unsupported"}"#),
        ("application/json", "[]"),
        ("application/json", "not JSON at all"),
        ("application/json", ""),
        ("text/plain", "bad request"),
    ];
    for status in ["400 Bad Request", "404 Not Found", "405 Method Not Allowed"] {
        for (kind, body) in bodies {
            let refusal =
                format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let upstream = FakeUpstream::start(json!([]), move |request| match request.method().as_str() {
                "initialize" => Some(vec![ScriptStep::Write(refusal.clone().into_bytes())]),
                _ => stateless_server(request),
            });
            let upstream = upstream.await;
            let gw = TestGateway::with_policy(POLICY, &upstream).await;
            let reply = gw.initialize().await;
            assert_eq!(
                reply.message()["result"]["serverInfo"]["name"],
                "new",
                "{status} {kind} {body}: {}",
                reply.body
            );
        }
    }
}

/// A stateful server that accepts only stateless requests once the returned flag is set.
async fn upgradable_server() -> (Arc<AtomicBool>, FakeUpstream) {
    let is_upgraded = Arc::new(AtomicBool::new(false));
    let upgraded_flag = Arc::clone(&is_upgraded);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |request: &RecordedRequest| {
        if !upgraded_flag.load(Ordering::Acquire) {
            return None;
        }
        let is_stateless = request.message()["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == VERSION;
        match request.method().as_str() {
            _ if !is_stateless && request.message()["id"].is_null() => Some(json_response("400 Bad Request", "", "")),
            _ if !is_stateless => {
                let error = json!({"code": -32022, "message": "not this one", "data": {"supported": [VERSION]}});
                let body = json!({"jsonrpc": "2.0", "id": request.message()["id"], "error": error});
                Some(json_response("400 Bad Request", "", &body.to_string()))
            }
            "tools/call" => {
                result_script(request, &json!({"resultType": "complete", "content": [{"type": "text", "text": "new"}]}))
            }
            _ => stateless_response(request, &json!([tool_definition("read")]), &json!({"tools": {}})),
        }
    })
    .await;
    (is_upgraded, upstream)
}

#[tokio::test]
async fn a_server_that_becomes_stateless_is_detected_again_and_the_call_is_not_repeated() {
    let (is_upgraded, upstream) = upgradable_server().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    assert_eq!(StatelessTestClient::new(&gw).call("read", json!({})).await.status, 200);
    is_upgraded.store(true, Ordering::Release);
    let first = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert!(!first.body.contains("\"new\""), "a call that may have run is not sent again: {}", first.body);
    let second = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert!(second.body.contains("\"new\""), "{}", second.body);
}

#[tokio::test]
async fn the_gateway_answers_initialize_for_a_server_that_became_stateless() {
    let (is_upgraded, upstream) = upgradable_server().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    // The gateway learns that the server is stateful.
    assert_eq!(StatelessTestClient::new(&gw).call("read", json!({})).await.status, 200);
    is_upgraded.store(true, Ordering::Release);
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let reply = gw.send(&initialize).await;
    assert_eq!(reply.message()["result"]["protocolVersion"], "2025-11-25", "{}", reply.body);
}
