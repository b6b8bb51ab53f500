//! For every pairing of client transport and server kind, the client's token is in nothing that the server receives:
//! headers, bodies, stdio lines, environment.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use data_encoding::BASE64;
use gatelodge_testkit::{TestGateway, tool_definition};
use serde_json::{Value, json};

use super::support::{ALLOW_ALL, CapturedLog};
use super::transport_matrix::{CannedResponses, ClientTransport, ScriptedServer, ServerKind, TestClient};

fn canned_responses() -> CannedResponses {
    let done = r#""result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;
    vec![
        ("tools/call", done.to_owned()),
        ("tools/call odd", r#""error":{"code":-32099,"message":"odd"}"#.to_owned()),
        ("prompts/get", r#""result":{"resultType":"complete","messages":[]}"#.to_owned()),
        ("prompts/list", r#""result":{"resultType":"complete","prompts":[]}"#.to_owned()),
        ("resources/list", r#""result":{"resultType":"complete","resources":[]}"#.to_owned()),
        ("resources/read", r#""result":{"resultType":"complete","contents":[]}"#.to_owned()),
        ("completion/complete", r#""result":{"resultType":"complete","completion":{"values":[]}}"#.to_owned()),
    ]
}

fn requests() -> Vec<(&'static str, Value)> {
    vec![
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("tools/call", json!({"name": "read", "arguments": {"n": 1}, "_meta": {"progressToken": "t"}})),
        ("tools/call", json!({"name": "odd", "arguments": {}})),
        ("prompts/get", json!({"name": "p"})),
        ("resources/read", json!({"uri": "note://1"})),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {}})),
    ]
}

async fn assert_server_gets_no_token(kind: ServerKind, transport: ClientTransport) {
    let (log, _logged) = CapturedLog::start();
    let case = format!("{transport:?} to {kind:?}");
    let server =
        ScriptedServer::start(kind, json!([tool_definition("read"), tool_definition("odd")]), canned_responses()).await;
    let gw = server.start_gateway(TestGateway::builder().policy(ALLOW_ALL).log_arguments()).await;
    let token = gw.token.reveal().to_owned();
    let mut client = TestClient::open(&gw, transport).await;
    let mut responses = String::new();
    // The token must not pass in any other header either.
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Cookie", token.as_str()),
        ("Proxy-Authorization", bearer.as_str()),
        ("X-Api-Key", token.as_str()),
        ("Forwarded", token.as_str()),
        ("Referer", token.as_str()),
        ("User-Agent", token.as_str()),
    ];
    for (method, params) in requests() {
        let reply = client.request_with_headers(&headers, method, transport.exposed_params(params)).await;
        assert!(reply.response()["result"].is_object() || reply.code() == -32099, "{case}: {method}: {reply:?}");
        responses += &format!("{reply:?}");
    }
    let rows: String = gw.rows().await.iter().map(|row| serde_json::to_string(row).expect("JSON")).collect();
    let raw = server.recorded_text();
    for sent in ["tools/call", "prompts/get", "resources/read", "completion/complete"] {
        assert!(raw.contains(sent), "{case}: {sent} was sent upstream");
    }
    let encoded = BASE64.encode(token.as_bytes());
    let base64_middle = &encoded[4..encoded.len() - 4];
    // Tokens share a public prefix, which may occur elsewhere.
    let secret_part = token.rsplit('_').next().unwrap_or(&token);
    assert!(secret_part.len() >= 16, "{}", secret_part.len());
    let log = log.text();
    for (label, text) in [("server", &raw), ("replies", &responses), ("rows", &rows), ("log", &log)] {
        for part in [token.as_str(), secret_part, base64_middle] {
            assert!(!text.contains(part), "{case}: {label} contains the token");
        }
    }
    if matches!(kind, ServerKind::StatefulStdio | ServerKind::StatelessStdio) {
        assert_configured_environment(&raw, &case);
    }
}

/// Asserts that the process has only the configured environment and what a shell adds, not the gateway's.
fn assert_configured_environment(raw: &str, case: &str) {
    let environment = raw.lines().filter_map(|line| line.strip_prefix("environment "));
    let names: Vec<&str> = environment.filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"PATH"), "{case}: {names:?}");
    let unexpected: Vec<_> =
        names.iter().filter(|name| !["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
    assert!(unexpected.is_empty(), "{case}: {unexpected:?}");
}

#[tokio::test]
async fn sse_server_never_receives_the_client_token() {
    for transport in ClientTransport::ALL {
        assert_server_gets_no_token(ServerKind::Sse, transport).await;
    }
}

#[tokio::test]
async fn stdio_server_never_receives_the_client_token() {
    for transport in ClientTransport::ALL {
        assert_server_gets_no_token(ServerKind::StatefulStdio, transport).await;
        assert_server_gets_no_token(ServerKind::StatelessStdio, transport).await;
    }
}

#[tokio::test]
async fn http_server_never_receives_the_client_token() {
    for transport in ClientTransport::ALL {
        assert_server_gets_no_token(ServerKind::StatefulHttp, transport).await;
        assert_server_gets_no_token(ServerKind::StatelessHttp, transport).await;
    }
}
