//! Error and result handling for pairings of client transport and server kind: server errors arrive byte for byte, a
//! call that may have run is not sent again, and large results arrive whole.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, TestGateway, json_response, tool_definition};
use serde_json::{Value, json};

use super::streams_and_progress::LARGE_RESULT;
use super::support::{ALLOW_ALL, request_count, result_message};
use super::transport_matrix::{CannedResponses, ClientTransport, ScriptedServer, ServerKind, TestClient};

/// Tools that fail, their errors in an unusual spelling that shows any re-encoding, and the HTTP status for stateless
/// clients.
const ERRORS: [(&str, &str, u16); 6] = [
    ("own", r#"{"data":{"n":1.10,"list":[1e2,"\/"]},"code":-32099,"message":"o\u00e9ps" ,"x":9007199254740993}"#, 200),
    ("params", r#"{"code":-32602,"message":"n is missing","data":null}"#, 200),
    ("odd", r#"{"code":17,"message":""}"#, 200),
    ("inner", r#"{"code":-32603,"message":"broke","data":"1.10"}"#, 200),
    ("method", r#"{"code":-32601,"message":"no tools here","data":[ ]}"#, 404),
    ("lacks", r#"{"code":-32021,"message":"cannot","data":{"requiredCapabilities":{"sampling":{}}}}"#, 400),
];

async fn assert_errors_are_unchanged(kind: ServerKind, transport: ClientTransport) {
    let canned: CannedResponses =
        ERRORS.map(|(tool, error, _)| (response_key(tool), format!("\"error\":{error}"))).into();
    let server = ScriptedServer::start(kind, json!(ERRORS.map(|(name, ..)| tool_definition(name))), canned).await;
    let gw = server.start_gateway(TestGateway::builder().policy(ALLOW_ALL)).await;
    let mut client = TestClient::open(&gw, transport).await;
    for (tool, error, status) in ERRORS {
        let case = format!("{tool} over {transport:?} to {kind:?}");
        let reply = client.call(tool, json!({})).await;
        assert_eq!(reply.response()["id"], 3, "{case}: {reply:?}");
        assert!(reply.text().contains(&format!("\"error\":{error}")), "{case}: byte for byte: {reply:?}");
        let expected = if transport.is_stateless() { status } else { 200 };
        assert_eq!(reply.status.unwrap_or(expected), expected, "{case}: {reply:?}");
    }
    assert_eq!(server.count("tools/call"), ERRORS.len(), "{transport:?} to {kind:?}: no call is repeated");
}

/// Key of a tool in the canned responses.
fn response_key(tool: &str) -> &'static str {
    match tool {
        "own" => "tools/call own",
        "params" => "tools/call params",
        "odd" => "tools/call odd",
        "inner" => "tools/call inner",
        "method" => "tools/call method",
        "lacks" => "tools/call lacks",
        _ => panic!("{tool}"),
    }
}

#[tokio::test]
async fn http_server_error_reaches_every_transport_byte_for_byte() {
    for transport in ClientTransport::ALL {
        assert_errors_are_unchanged(ServerKind::StatefulHttp, transport).await;
        assert_errors_are_unchanged(ServerKind::StatelessHttp, transport).await;
    }
}

#[tokio::test]
async fn stdio_and_sse_server_error_reaches_every_transport_byte_for_byte() {
    for kind in [ServerKind::Sse, ServerKind::StatefulStdio, ServerKind::StatelessStdio] {
        for transport in ClientTransport::ALL {
            assert_errors_are_unchanged(kind, transport).await;
        }
    }
}

#[tokio::test]
async fn error_without_id_ends_the_only_call_in_flight() {
    let canned = || -> CannedResponses {
        let message =
            |id: &str| format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"what?","data":1.10}}}}"#);
        vec![("tools/call null", message(r#""id":null,"#)), ("tools/call none", message(""))]
    };
    for kind in ServerKind::ALL {
        // Many clients share a stateless process, so the error cannot be assigned to a call; the call times out.
        let is_shared = kind == ServerKind::StatelessStdio;
        let transports: &[ClientTransport] = if is_shared {
            &[ClientTransport::StatefulHttp, ClientTransport::StatelessHttp]
        } else {
            &ClientTransport::ALL
        };
        for transport in transports.iter().copied() {
            let case = format!("{transport:?} to {kind:?}");
            let server =
                ScriptedServer::start(kind, json!([tool_definition("null"), tool_definition("none")]), canned()).await;
            let call_timeout = Duration::from_secs(if is_shared { 4 } else { 30 });
            let settings = GatewaySettings { call_timeout, ..GatewaySettings::default() };
            let gw = server.start_gateway(TestGateway::builder().policy(ALLOW_ALL).settings(settings)).await;
            let mut client = TestClient::open(&gw, transport).await;
            for name in ["null", "none"] {
                let reply = client.call(name, json!({})).await;
                assert_eq!(reply.response()["id"], 3, "{case}: {reply:?}");
                if is_shared {
                    assert!(reply.tool_text().contains("did not answer in time"), "{case}: {reply:?}");
                    break;
                }
                assert!(
                    reply.text().contains(r#""error":{"code":-32700,"message":"what?","data":1.10}"#),
                    "{case}: {reply:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn only_the_code_of_a_missing_resource_is_translated() {
    let error = r#"{"x":1.10 ,"code":-32002,"data":{"uri":"note:\/\/1"},"message":"no \u00e9"}"#;
    let kinds = [ServerKind::StatefulHttp, ServerKind::StatelessHttp, ServerKind::Sse];
    for (kind, transport) in kinds.into_iter().flat_map(|kind| ClientTransport::ALL.map(|transport| (kind, transport)))
    {
        let server =
            ScriptedServer::start(kind, json!([]), vec![("resources/read", format!("\"error\":{error},\"y\":1e2"))])
                .await;
        let gw = server.start_gateway(TestGateway::builder().policy(ALLOW_ALL)).await;
        let reply = TestClient::open(&gw, transport)
            .await
            .request("resources/read", json!({"uri": transport.exposed_uri("note://1")}))
            .await;
        let mut expected = format!("\"error\":{error},\"y\":1e2");
        if transport.is_stateless() && !kind.is_stateless() {
            expected = expected.replace("-32002", "-32602");
        }
        if transport.is_aggregate() {
            expected = expected.replace("note:\\/\\/1", "x-desk+note://1");
        }
        assert!(reply.text().contains(&expected), "{transport:?} to {kind:?}: {reply:?}");
    }
}

/// Stateful server that forgets its session once, at the next request of method `forget_at`.
#[derive(Default)]
struct ForgetfulServer {
    sessions_opened: AtomicUsize,
    forget_at: Mutex<Option<&'static str>>,
}

impl ForgetfulServer {
    fn response(&self, hit: &RecordedRequest) -> Option<ResponseScript> {
        let method = hit.method();
        if method == "initialize" {
            let session = self.sessions_opened.fetch_add(1, Ordering::AcqRel) + 1;
            let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}});
            return Some(json_response(
                "200 OK",
                &format!("mcp-session-id: s-{session}\r\n"),
                &result_message(hit, &result).to_string(),
            ));
        }
        let forgets_now = self.forget_at.lock().expect("a method").take_if(|due| *due == method).is_some();
        if forgets_now {
            self.sessions_opened.fetch_add(1, Ordering::AcqRel);
        }
        let known = format!("s-{}", self.sessions_opened.load(Ordering::Acquire));
        if hit.message()["id"].is_null() || method == "server/discover" || hit.header("mcp-session-id") == Some(&known)
        {
            return None;
        }
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}"#;
        Some(json_response("404 Not Found", "", body))
    }
}

#[tokio::test]
async fn call_in_a_forgotten_session_is_not_resent_and_the_next_one_works() {
    let requests = [
        ("tools/call", json!({"name": "read", "arguments": {}})),
        ("resources/read", json!({"uri": "note://1"})),
        ("prompts/get", json!({"name": "greet"})),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {}})),
    ];
    for transport in ClientTransport::ALL {
        for (method, params) in &requests {
            let case = format!("{method} over {transport:?}");
            let server_state = Arc::new(ForgetfulServer::default());
            let state = Arc::clone(&server_state);
            let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit| state.response(hit)).await;
            let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
            let mut client = TestClient::open(&gw, transport).await;
            let mut send_request = async || client.request(method, transport.exposed_params(params.clone())).await;
            assert!(send_request().await.response()["result"].is_object(), "{case}");
            let handshakes = request_count(&upstream, "initialize");
            *server_state.forget_at.lock().expect("a method") = Some(method);

            let lost = send_request().await;
            let parts = ["no longer knew the session", "the call may have run"];
            assert!(parts.iter().all(|part| lost.text().contains(part)), "{case}: {lost:?}");
            let response = lost.response();
            assert!(response["error"].is_object() || response["result"]["isError"] == true, "{case}: {lost:?}");
            assert_eq!(request_count(&upstream, method), 2, "{case}: the request is not repeated");
            assert_eq!(lost.status.unwrap_or(200), 200, "{case}: the client keeps its own session");

            let next = send_request().await;
            assert!(next.response()["result"].is_object() && !next.text().contains("isError"), "{case}: {next:?}");
            assert_eq!(request_count(&upstream, method), 3, "{case}");
            assert_eq!(request_count(&upstream, "initialize"), handshakes + 1, "{case}: one more handshake");
        }
    }
}

async fn assert_arrives_whole(kind: ServerKind, transports: &[ClientTransport]) {
    let canned = vec![("tools/call", format!("\"result\":{}", *LARGE_RESULT))];
    let server = ScriptedServer::start(kind, json!([tool_definition("large")]), canned).await;
    for transport in transports {
        let gw = server.start_gateway(TestGateway::builder().policy(ALLOW_ALL)).await;
        let reply = TestClient::open(&gw, *transport).await.call("large", json!({})).await;
        let start = reply.text().find("\"result\":").expect("a result") + "\"result\":".len();
        let received = reply.text().get(start..).unwrap_or_default();
        assert!(
            received.strip_suffix('}') == Some(LARGE_RESULT.as_str()),
            "{transport:?} to {kind:?}: {} bytes arrived",
            received.len()
        );
    }
}

#[tokio::test]
async fn twelve_megabyte_result_of_a_stdio_server_arrives_whole() {
    assert_arrives_whole(ServerKind::StatefulStdio, &[ClientTransport::StatefulHttp, ClientTransport::StatelessHttp])
        .await;
    assert_arrives_whole(ServerKind::StatelessStdio, &[ClientTransport::StatelessAggregate]).await;
}

#[tokio::test]
async fn twelve_megabyte_result_of_an_sse_server_arrives_whole() {
    assert_arrives_whole(
        ServerKind::Sse,
        &[ClientTransport::StatefulHttp, ClientTransport::StatelessHttp, ClientTransport::StatefulAggregate],
    )
    .await;
}

#[tokio::test]
async fn oversized_message_fails_its_call_and_the_next_one_works() {
    for kind in [ServerKind::Sse, ServerKind::StatefulStdio, ServerKind::StatelessStdio] {
        for transport in [ClientTransport::StatefulHttp, ClientTransport::StatelessHttp] {
            let large = json!({"content": [{"type": "text", "text": "x".repeat(200_000)}]});
            let small = json!({"content": [{"type": "text", "text": "small"}]});
            let result_member = |result: &Value| format!("\"result\":{result}");
            let canned = vec![("tools/call large", result_member(&large)), ("tools/call small", result_member(&small))];
            let server =
                ScriptedServer::start(kind, json!([tool_definition("large"), tool_definition("small")]), canned).await;
            let mut settings = GatewaySettings { call_timeout: Duration::from_secs(5), ..GatewaySettings::default() };
            settings.reply_limits.max_bytes = 64 << 10;
            let gw = server.start_gateway(TestGateway::builder().policy(ALLOW_ALL).settings(settings)).await;
            let mut client = TestClient::open(&gw, transport).await;
            let case = format!("{transport:?} to {kind:?}");
            let refused = client.call("large", json!({})).await;
            assert_eq!(refused.response()["result"]["isError"], true, "{case}: {refused:?}");
            assert!(refused.tool_text().starts_with("[UPSTREAM] "), "{case}: {refused:?}");
            assert_eq!(client.call("small", json!({})).await.tool_text(), "small", "{case}: the next one works");
            assert_eq!(server.count("tools/call"), 2, "{case}");
        }
    }
}
