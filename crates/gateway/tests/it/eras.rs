//! A client of one era before a server of the other: neither notices, but for what the other cannot do.
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

use super::rows_kit::{ALL, Caller, answered as with, modern_answer};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"*":{},"wipe":{"action":"deny"}},
    "resources":{"note://desk/*":{}},"prompts":{"*":{}},
    "client_requests":{"elicitation":"allow","sampling":"allow"}}"#;
const VERSION: &str = "2026-07-28";

fn meta(capabilities: &Value) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "9"}, "vendor/x": 1})
}

async fn stateless(gw: &TestGateway, method: &str, params: Value) -> TestResponse {
    stateless_with(gw, method, params, &json!({"elicitation": {"form": {}}})).await
}

async fn stateless_with(gw: &TestGateway, method: &str, mut params: Value, capabilities: &Value) -> TestResponse {
    let about = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
    params["_meta"] = meta(capabilities);
    let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)];
    headers.extend(about.as_deref().map(|about| ("Mcp-Name", about)));
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string();
    gw.post(&headers, &body).await
}

fn answered(hit: &RecordedRequest, result: Value) -> Option<ResponseScript> {
    let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
    Some(json_response("200 OK", "", &text))
}

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// A server with sessions whose tool `ask` asks the client in the middle of the call.
fn legacy_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let message = hit.message();
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("initialize", _) => {
            let capabilities = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "tasks": {}});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "instructions": "be kind",
                "serverInfo": {"name": "old", "version": "1"}});
            let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            Some(json_response("200 OK", "mcp-session-id: s-1\r\n", &text))
        }
        ("tools/call", "ask") => {
            let question = json!({"jsonrpc": "2.0", "id": 77, "method": "elicitation/create",
                "params": {"message": "really?", "requestedSchema": {"type": "object", "properties": {}}}});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "done"}]}});
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = |text: String| format!("{:x}\r\n{text}\r\n", text.len());
            Some(vec![
                ScriptStep::Write(format!("{head}{}", chunk(event(&question))).into_bytes()),
                ScriptStep::Pause(Duration::from_millis(400)),
                ScriptStep::Write(format!("{}0\r\n\r\n", chunk(event(&answer))).into_bytes()),
            ])
        }
        ("resources/read", _) if message["params"]["uri"] == "note://desk/none" => {
            let error = json!({"code": -32002, "message": "not there"});
            let text = json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string();
            Some(json_response("200 OK", "", &text))
        }
        _ if hit.request_line.starts_with("GET") => {
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

async fn before_legacy() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(
        json!([tool_definition("read"), tool_definition("ask"), tool_definition("wipe")]),
        legacy_server,
    )
    .await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

#[tokio::test]
async fn a_stateless_client_lists_and_calls_at_a_server_with_sessions() {
    let (upstream, gw) = before_legacy().await;
    let welcome = stateless(&gw, "server/discover", json!({})).await.message()["result"].clone();
    assert_eq!(welcome["supportedVersions"][0], VERSION);
    assert_eq!(welcome["capabilities"], json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}));
    assert_eq!((&welcome["instructions"], &welcome["resultType"]), (&json!("be kind"), &json!("complete")));
    assert_eq!(welcome["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "old");

    let list = stateless(&gw, "tools/list", json!({})).await.message()["result"].clone();
    assert_eq!(list["tools"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        (&list["ttlMs"], &list["cacheScope"], &list["resultType"]),
        (&json!(0), &json!("private"), &json!("complete"))
    );

    let answer = stateless(&gw, "tools/call", json!({"name": "read", "arguments": {"n": 1}})).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, r#"{"n":1}"#));
    assert_eq!(answer.message()["result"]["resultType"], "complete");
    let denied = stateless(&gw, "tools/call", json!({"name": "wipe"})).await;
    assert!(denied.text().starts_with("[POLICY DENIED]"));

    let hits = upstream.requests();
    assert_eq!(hits.iter().filter(|hit| hit.method() == "initialize").count(), 1, "one session for all");
    let hello = hits.iter().find(|hit| hit.method() == "initialize").expect("a handshake").message();
    assert_eq!(hello["params"]["capabilities"], json!({"elicitation": {"form": {}}}), "what the client declared");
    let call = &upstream.calls()[0];
    assert_eq!(call.header("mcp-session-id"), Some("s-1"));
    assert_eq!(call.header("mcp-method"), None);
    assert_eq!(call.message()["params"]["_meta"], json!({"vendor/x": 1}), "what only its era has stays here");
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn clients_that_can_do_other_things_have_other_sessions() {
    let (upstream, gw) = before_legacy().await;
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
    let hellos: Vec<Value> =
        upstream.requests().iter().filter(|hit| hit.method() == "initialize").map(RecordedRequest::message).collect();
    let declared: Vec<&Value> = hellos.iter().map(|hello| &hello["params"]["capabilities"]).collect();
    assert_eq!(declared, [&json!({}), &json!({"sampling": {}}), &json!({})], "the third is of the other grant");
}

#[tokio::test]
async fn what_a_server_asks_in_a_call_a_stateless_client_is_asked_by_the_answer() {
    let (upstream, gw) = before_legacy().await;
    let asked =
        stateless(&gw, "tools/call", json!({"name": "ask", "arguments": {"a": 1}})).await.message()["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["ask"]["method"], "elicitation/create");
    assert_eq!(asked["inputRequests"]["ask"]["params"]["message"], "really?");
    let again = |arguments: Value| {
        json!({"name": "ask", "arguments": arguments, "requestState": asked["requestState"],
            "inputResponses": {"ask": {"action": "accept", "content": {}}}})
    };

    let other = stateless(&gw, "tools/call", again(json!({"a": 2}))).await;
    assert_eq!((other.status, other.code()), (400, -32602), "it is bound to the very request: {}", other.body);
    let answer = stateless(&gw, "tools/call", again(json!({"a": 1}))).await;
    assert_eq!(answer.text(), "done");
    let replies: Vec<Value> =
        upstream.requests().iter().map(RecordedRequest::message).filter(|message| message["id"] == 77).collect();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0]["result"], json!({"action": "accept", "content": {}}));
    let twice = stateless(&gw, "tools/call", again(json!({"a": 1}))).await;
    assert_eq!((twice.status, twice.code()), (400, -32602), "it is good once");
    let mut changed = again(json!({"a": 1}));
    changed["requestState"] = json!(format!("{}-changed", asked["requestState"].as_str().expect("a state")));
    assert_eq!(stateless(&gw, "tools/call", changed).await.code(), -32602);
    assert_eq!(upstream.calls().len(), 1, "the call was sent once");
}

#[tokio::test]
async fn a_question_that_the_policy_does_not_allow_never_reaches_a_stateless_client() {
    let upstream = FakeUpstream::start(json!([tool_definition("ask")]), legacy_server).await;
    let gw = TestGateway::with_policy(r#"{"version":"1","default":"deny","tools":{"*":{}}}"#, &upstream).await;
    let answer = stateless(&gw, "tools/call", json!({"name": "ask"})).await;
    assert_eq!(answer.text(), "done");
    let declined = upstream
        .requests()
        .iter()
        .map(RecordedRequest::message)
        .find(|message| message["id"] == 77)
        .expect("an answer");
    assert_eq!(declined["error"]["code"], -32601);
}

#[tokio::test]
async fn a_resource_says_how_long_it_holds_and_a_missing_one_has_the_code_of_the_era() {
    let (_, gw) = before_legacy().await;
    let read = stateless(&gw, "resources/read", json!({"uri": "note://desk/1"})).await.message()["result"].clone();
    assert_eq!(
        (&read["cacheScope"], &read["ttlMs"], &read["resultType"]),
        (&json!("private"), &json!(0), &json!("complete"))
    );
    assert_eq!(stateless(&gw, "resources/read", json!({"uri": "note://desk/none"})).await.code(), -32602);
}

#[tokio::test]
async fn a_stateless_client_hears_what_the_session_says_and_only_what_it_asked_for() {
    let (upstream, gw) = before_legacy().await;
    let wanted =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["note://desk/1"]});
    let listening = stateless(&gw, "subscriptions/listen", json!({"notifications": wanted}));
    let answer = tokio::time::timeout(Duration::from_secs(3), async {
        tokio::select! {
            answer = listening => answer,
            () = async { tokio::time::sleep(Duration::from_millis(1500)).await; gw.gateway.stop(); std::future::pending().await } => unreachable!(),
        }
    });
    let messages = answer.await.expect("the stream ends with the gateway").messages();
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
        "the server does not tell of prompts"
    );
    for message in &messages {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 3);
        assert_ne!(message["params"]["uri"], "note://desk/2");
    }
    assert!(upstream.requests().iter().any(|hit| hit.method() == "resources/subscribe"));
}

#[tokio::test]
async fn a_server_that_has_forgotten_a_session_is_told_again_what_is_listened_for() {
    let forgets = Arc::new(AtomicBool::new(false));
    let forgetting = Arc::clone(&forgets);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit| match hit.method().as_str() {
        "tools/call" if forgetting.swap(false, Ordering::AcqRel) => Some(json_response("404 Not Found", "", "")),
        _ => legacy_server(hit),
    });
    let upstream = upstream.await;
    let gw = Arc::new(TestGateway::with_policy(POLICY, &upstream).await);
    let listener = Arc::clone(&gw);
    let wanted = json!({"resourceSubscriptions": ["note://desk/1"]});
    let listening = async move { stateless(&listener, "subscriptions/listen", json!({"notifications": wanted})).await };
    let listening = tokio::spawn(listening);
    let subscribed = || upstream.requests().iter().filter(|hit| hit.method() == "resources/subscribe").count();
    let until = async |count: usize| {
        for _ in 0..50 {
            if subscribed() == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(subscribed(), count);
    };
    until(1).await;
    forgets.store(true, Ordering::Release);
    stateless(&gw, "tools/call", json!({"name": "read"})).await;
    until(2).await;
    listening.abort();
}

/// A server without sessions, which asks the client before it answers `ask`.
fn modern_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let message = hit.message();
    let complete = |mut result: Value| {
        result["resultType"] = json!("complete");
        answered(hit, result)
    };
    match (hit.method().as_str(), hit.tool().as_str()) {
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
        ("tools/call", "ask") if message["params"]["inputResponses"].is_null() => answered(
            hit,
            json!({"resultType": "input_required", "requestState": "opaque-é",
                    "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "sure?"}}}}),
        ),
        ("tools/call", "ask") => {
            let said = message["params"]["inputResponses"]["q"]["action"].clone();
            complete(json!({"content": [{"type": "text", "text": said}]}))
        }
        ("subscriptions/listen", _) => {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
            let told = |method: &str, mut params: Value| {
                params["_meta"] = meta.clone();
                event(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
            };
            let events = [
                told(
                    "notifications/subscriptions/acknowledged",
                    json!({"notifications": message["params"]["notifications"]}),
                ),
                told("notifications/resources/updated", json!({"uri": "note://desk/1"})),
            ];
            Some(event_response(&events.concat()))
        }
        ("resources/subscribe" | "ping" | "logging/setLevel", _) => None,
        ("tools/call", _) => complete(json!({"content": [{"type": "text", "text": "read"}]})),
        _ => None,
    }
}

async fn before_modern() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([]), modern_server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

#[tokio::test]
async fn a_client_with_a_session_lists_and_calls_at_a_server_without() {
    let (upstream, gw) = before_modern().await;
    let welcome = gw.initialize().await.message()["result"].clone();
    assert_eq!((&welcome["protocolVersion"], &welcome["instructions"]), (&json!("2025-11-25"), &json!("be brief")));
    let capabilities =
        json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "extensions": {"x": {}}});
    assert_eq!(welcome["capabilities"], capabilities);
    assert_eq!(welcome["serverInfo"]["name"], "new");
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
        assert!(!upstream.requests().iter().any(|hit| hit.method() == method), "{method} is not of that era");
    }
}

/// Reads from a stream until a text is there, and gives all that came.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    let reading = async {
        while !String::from_utf8_lossy(&all).contains(text) {
            let read = stream.read(&mut buffer).await.expect("it can be read");
            assert_ne!(read, 0, "it ended before {text}");
            all.extend_from_slice(&buffer[..read]);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), reading).await.expect("it comes");
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn what_a_server_wants_to_know_first_a_client_with_a_session_is_asked_in_the_call() {
    let (upstream, gw) = before_modern().await;
    gw.initialize().await;
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "ask", "arguments": {}}})
        .to_string();
    let head = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\nMcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n",
        gw.address,
        gw.token.reveal(),
        gw.session(),
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("it can be written");
    let asked = read_until(&mut stream, "sure?").await;
    let question = asked.lines().find_map(|line| line.strip_prefix("data: ")).expect("a question");
    let question: Value = serde_json::from_str(question).expect("json");
    assert_eq!(question["method"], "elicitation/create");

    let said = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"a": 1.5}}});
    assert_eq!(gw.send(&said).await.status, 202);
    let answer = read_until(&mut stream, "\"id\":9").await;
    assert!(answer.contains("\"accept\"") && !answer.contains("resultType"), "{answer}");
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
async fn a_client_with_a_session_hears_of_resources_at_a_server_without() {
    let (upstream, gw) = before_modern().await;
    gw.initialize().await;
    for uri in ["note://desk/1", "note://other/1"] {
        gw.send(&json!({"jsonrpc": "2.0", "id": 4, "method": "resources/subscribe", "params": {"uri": uri}})).await;
    }
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    let head = format!(
        "GET /mcp/desk HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\n\r\n",
        gw.address,
        gw.token.reveal(),
        gw.session()
    );
    stream.write_all(head.as_bytes()).await.expect("it can be written");
    let heard = read_until(&mut stream, "note://desk/1").await;
    assert!(!heard.contains("acknowledged"), "{heard}");
    let listen =
        upstream.requests().into_iter().find(|hit| hit.method() == "subscriptions/listen").expect("it listens");
    assert_eq!(listen.message()["params"]["notifications"]["resourceSubscriptions"], json!(["note://desk/1"]));
    assert!(!upstream.requests().iter().any(|hit| hit.method() == "resources/subscribe"));
}

/// A server without sessions that says no to the first `server/discover`, as an era of its own says it.
fn choosy_server(hit: &RecordedRequest, code: i64, supported: &Value, is_first: &AtomicBool) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "server/discover" if is_first.swap(false, Ordering::AcqRel) => {
            let data = json!({"supported": supported, "requested": VERSION});
            let error = json!({"code": code, "message": "not so", "data": data});
            let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error}).to_string();
            Some(json_response("400 Bad Request", "", &text))
        }
        "initialize" => Some(json_response("404 Not Found", "", "")),
        _ => modern_server(hit),
    }
}

async fn before_choosy(code: i64, supported: Value) -> (FakeUpstream, TestGateway) {
    let is_first = AtomicBool::new(true);
    let server = move |hit: &RecordedRequest| choosy_server(hit, code, &supported, &is_first);
    let upstream = FakeUpstream::start(json!([]), server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

fn count(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|hit| hit.method() == method).count()
}

#[tokio::test]
async fn a_server_that_names_other_revisions_is_asked_once_more_by_one_that_both_speak() {
    let (upstream, gw) = before_choosy(-32022, json!([VERSION])).await;
    let answer = stateless(&gw, "tools/call", json!({"name": "read", "arguments": {}})).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "read"));
    assert_eq!((count(&upstream, "server/discover"), count(&upstream, "initialize")), (2, 0));
}

#[tokio::test]
async fn a_server_that_refuses_as_only_stateless_ones_do_gets_no_handshake() {
    for code in [-32020, -32021] {
        let (upstream, gw) = before_choosy(code, Value::Null).await;
        assert_eq!(stateless(&gw, "tools/list", json!({})).await.status, 200, "{code}");
        assert_eq!((count(&upstream, "server/discover"), count(&upstream, "initialize")), (1, 0), "{code}");
    }
}

#[tokio::test]
async fn a_server_that_names_only_revisions_with_a_handshake_gets_one() {
    let (upstream, gw) = before_choosy(-32022, json!(["2025-11-25"])).await;
    assert_eq!(stateless(&gw, "tools/list", json!({})).await.status, 502, "and this one does not take it");
    assert_eq!((count(&upstream, "server/discover"), count(&upstream, "initialize")), (1, 1));
}

/// A server that speaks as in one era, and later as in the other.
async fn before_changing(begins_modern: bool) -> (FakeUpstream, TestGateway, Arc<AtomicBool>) {
    let is_modern = Arc::new(AtomicBool::new(begins_modern));
    let now = Arc::clone(&is_modern);
    let server = move |hit: &RecordedRequest| {
        let speaks_modern = hit.header("mcp-method").is_some();
        if speaks_modern != now.load(Ordering::Acquire) {
            let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}"#;
            return Some(json_response("400 Bad Request", "", text));
        }
        if speaks_modern { modern_server(hit) } else { legacy_server(hit) }
    };
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), server).await;
    let gw = TestGateway::with_policy(r#"{"version":"1","default":"allow"}"#, &upstream).await;
    (upstream, gw, is_modern)
}

#[tokio::test]
async fn a_server_that_speaks_otherwise_than_before_is_asked_anew() {
    for begins_modern in [true, false] {
        let (upstream, gw, is_modern) = before_changing(begins_modern).await;
        let read = async || {
            let answer = stateless(&gw, "resources/read", json!({"uri": "note://desk/none"})).await;
            answer.message()["error"]["code"].clone()
        };
        read().await;
        let before = count(&upstream, "server/discover");
        is_modern.store(!begins_modern, Ordering::Release);
        assert_eq!(read().await, -32600, "what the server says is passed on");
        assert_eq!(count(&upstream, "server/discover"), before + 1);
        assert_ne!(read().await, -32600, "the next request is sent as the server speaks now");
        assert_eq!(count(&upstream, "server/discover"), before + 1);
    }
}

#[tokio::test]
async fn a_session_before_a_server_that_has_some_of_its_own_by_now_begins_anew() {
    let (_, gw, is_modern) = before_changing(true).await;
    gw.initialize().await;
    is_modern.store(false, Ordering::Release);
    let read = json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "note://desk/none"}});
    assert_eq!(gw.send(&read).await.code(), -32600);
    assert_eq!(gw.send(&read).await.status, 404, "so the client begins anew");
    gw.initialize().await;
    assert_eq!(gw.send(&read).await.code(), -32002);
}

#[tokio::test]
async fn who_only_listens_hears_that_its_session_rests_on_nothing_any_more() {
    let (_, gw, is_modern) = before_changing(true).await;
    gw.initialize().await;
    let head = format!(
        "GET /mcp/desk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\nConnection: close\r\n\r\n",
        gw.token.reveal(),
        gw.session()
    );
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.expect("a stream");
    is_modern.store(false, Ordering::Release);
    let read = json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "note://desk/none"}});
    assert_eq!(gw.send(&read).await.code(), -32600);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the stream goes on: {}", String::from_utf8_lossy(&rest));
}

#[tokio::test]
async fn a_server_that_leaves_unanswered_what_it_does_not_know_is_spoken_to_in_a_session() {
    let upstream =
        FakeUpstream::start(json!([tool_definition("read")]), |hit: &RecordedRequest| match hit.method().as_str() {
            "server/discover" => Some(vec![ScriptStep::Pause(Duration::from_secs(60))]),
            _ => legacy_server(hit),
        })
        .await;
    let settings = GatewaySettings { connect_timeout: Duration::from_millis(250), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    for _ in 0..2 {
        assert_eq!(stateless(&gw, "tools/list", json!({})).await.status, 200);
    }
    assert_eq!((count(&upstream, "server/discover"), count(&upstream, "initialize")), (1, 1), "asked once for all");
}

#[tokio::test]
async fn a_bad_moment_of_a_server_is_no_verdict() {
    let is_first = AtomicBool::new(true);
    let server = move |hit: &RecordedRequest| match hit.method().as_str() {
        "server/discover" if is_first.swap(false, Ordering::AcqRel) => {
            Some(json_response("503 Service Unavailable", "", ""))
        }
        _ => legacy_server(hit),
    };
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    for asked in [1, 2, 2] {
        assert_eq!(stateless(&gw, "tools/list", json!({})).await.status, 200);
        assert_eq!(count(&upstream, "server/discover"), asked);
    }
    assert_eq!(count(&upstream, "initialize"), 1);
}

#[tokio::test]
async fn a_handshake_that_is_refused_in_words_of_any_kind_is_followed_by_the_question_how_the_server_speaks() {
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
            let upstream = FakeUpstream::start(json!([]), move |hit| match hit.method().as_str() {
                "initialize" => Some(vec![ScriptStep::Write(refusal.clone().into_bytes())]),
                _ => modern_server(hit),
            });
            let upstream = upstream.await;
            let gw = TestGateway::with_policy(POLICY, &upstream).await;
            let hello = gw.initialize().await;
            assert_eq!(
                hello.message()["result"]["serverInfo"]["name"],
                "new",
                "{status} {kind} {body}: {}",
                hello.body
            );
        }
    }
}

/// A server with sessions that is updated while it is used, and takes only requests which stand alone from then on.
async fn updated() -> (Arc<AtomicBool>, FakeUpstream) {
    let is_new = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&is_new);
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| {
        if !own.load(Ordering::Acquire) {
            return None;
        }
        let is_modern = hit.message()["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == VERSION;
        match hit.method().as_str() {
            _ if !is_modern && hit.message()["id"].is_null() => Some(json_response("400 Bad Request", "", "")),
            _ if !is_modern => {
                let error = json!({"code": -32022, "message": "not this one", "data": {"supported": [VERSION]}});
                let body = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
                Some(json_response("400 Bad Request", "", &body.to_string()))
            }
            "tools/call" => with(hit, &json!({"resultType": "complete", "content": [{"type": "text", "text": "new"}]})),
            _ => modern_answer(hit, &json!([tool_definition("read")]), &json!({"tools": {}})),
        }
    })
    .await;
    (is_new, upstream)
}

#[tokio::test]
async fn a_server_that_takes_only_requests_which_stand_alone_by_now_is_asked_anew() {
    let (is_new, upstream) = updated().await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    assert_eq!(Caller::of(&gw).call("read", json!({})).await.status, 200);
    is_new.store(true, Ordering::Release);
    let first = Caller::of(&gw).call("read", json!({})).await;
    assert!(!first.body.contains("\"new\""), "what may have run is not repeated: {}", first.body);
    let second = Caller::of(&gw).call("read", json!({})).await;
    assert!(second.body.contains("\"new\""), "{}", second.body);
}

#[tokio::test]
async fn whoever_shakes_hands_with_such_a_server_is_welcomed_by_us() {
    let (is_new, upstream) = updated().await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    // So it is known to have sessions.
    assert_eq!(Caller::of(&gw).call("read", json!({})).await.status, 200);
    is_new.store(true, Ordering::Release);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let welcome = gw.send(&hello).await;
    assert_eq!(welcome.message()["result"]["protocolVersion"], "2025-11-25", "{}", welcome.body);
}
