//! Grants with a minimum protocol revision: clients of older revisions are refused on every transport.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_mcp::Revision;
use gatelodge_store::CallLogRow;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, SseTestClient, TestGateway, TestResponse, json_response,
    tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const ALL: &str = r#"{"version":"1","default":"allow"}"#;
const STATELESS: &str = "2026-07-28";

/// A stateful server that negotiates 2025-06-18 or older.
fn respond(request: &RecordedRequest) -> Option<ResponseScript> {
    let message = request.message();
    match request.method().as_str() {
        "initialize" => {
            let requested = message["params"]["protocolVersion"].as_str().unwrap_or_default();
            let agreed = if requested > "2025-06-18" { "2025-06-18" } else { requested };
            let result = json!({"protocolVersion": agreed, "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"}});
            let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            Some(json_response("200 OK", "mcp-session-id: s-1\r\n", &text))
        }
        _ => None,
    }
}

async fn start_gateway(minimum: Revision) -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), respond).await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    set_minimum(&gw, minimum);
    (upstream, gw)
}

fn set_minimum(gw: &TestGateway, minimum: Revision) {
    gw.change_grants(|grants| grants[0].minimum_revision = Some(minimum));
}

fn initialize_request(revision: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": revision,
        "capabilities": {}, "clientInfo": {"name": "old client", "version": "1"}}})
    .to_string()
}

fn list_request(revision: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientCapabilities": {}});
    json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": meta}}).to_string()
}

async fn list_stateless(gw: &TestGateway, revision: &str) -> TestResponse {
    gw.post(&[("MCP-Protocol-Version", revision), ("Mcp-Method", "tools/list")], &list_request(revision)).await
}

fn request_count(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|request| request.method() == method).count()
}

fn has_refusal(rows: &[CallLogRow]) -> bool {
    rows.iter().any(|row| row.record.message.as_deref().is_some_and(|message| message.contains("2025-06-18 or newer")))
}

/// Asserts that `error` refuses the revision `requested` because the grant requires `minimum`.
fn assert_refused(error: &Value, minimum: &str, requested: &str) {
    assert_eq!(error["code"], -32602);
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(&format!("requires protocol revision {minimum} or newer")), "{message}");
    assert!(message.contains(requested), "{message}");
    assert_eq!(error["data"]["requested"], requested);
    let supported = error["data"]["supported"].as_array().expect("a list");
    assert!(supported.iter().all(|revision| revision.as_str() >= Some(minimum)), "{supported:?}");
    assert!(!supported.is_empty());
}

#[tokio::test]
async fn initialize_without_a_revision_is_refused_and_not_sent() {
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), respond).await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    for version in [json!(5), Value::Null, json!({})] {
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": version,
            "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
        let reply = gw.post(&[], &initialize.to_string()).await;
        assert_eq!(reply.code(), -32602, "{}", reply.body);
        assert!(reply.body.contains("names a revision"), "{}", reply.body);
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn initialize_of_an_older_revision_is_refused_recorded_and_not_sent() {
    let (upstream, gw) = start_gateway(Revision::R2025_06_18).await;
    for revision in ["2024-11-05", "2025-03-26"] {
        let reply = gw.post(&[], &initialize_request(revision)).await;
        assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
        assert_refused(&reply.message()["error"], "2025-06-18", revision);
    }
    assert_eq!(upstream.requests().len(), 0);
    assert!(has_refusal(&gw.rows().await), "{:?}", gw.rows().await);
    assert!(gw.post(&[], &initialize_request("2025-06-18")).await.header("mcp-session-id").is_some());
}

#[tokio::test]
async fn a_session_is_refused_and_closed_if_the_server_negotiates_an_older_revision() {
    let (upstream, gw) = start_gateway(Revision::R2025_11_25).await;
    let reply = gw.post(&[], &initialize_request("2025-11-25")).await;
    assert_eq!(reply.header("mcp-session-id"), None);
    assert_refused(&reply.message()["error"], "2025-11-25", "2025-06-18");
    let ended = upstream
        .requests()
        .into_iter()
        .find(|request| request.request_line.starts_with("DELETE"))
        .expect("a DELETE of the upstream session");
    assert_eq!(ended.header("mcp-session-id"), Some("s-1"));
}

#[tokio::test]
async fn an_open_session_ends_when_the_minimum_revision_rises() {
    let (upstream, gw) = start_gateway(Revision::R2024_11_05).await;
    let reply = gw.post(&[], &initialize_request("2025-06-18")).await;
    let session = reply.header("mcp-session-id").expect("a session").to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    assert_eq!(gw.post(&[("Mcp-Session-Id", &session)], &list).await.status, 200);
    let before = request_count(&upstream, "tools/list");
    set_minimum(&gw, Revision::R2025_11_25);
    let refused = gw.post(&[("Mcp-Session-Id", &session)], &list).await;
    assert_eq!(refused.status, 404, "404 makes the client initialize again");
    assert_refused(&refused.message()["error"], "2025-11-25", "2025-06-18");
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers =
        [("Authorization", bearer.as_str()), ("Accept", "text/event-stream"), ("Mcp-Session-Id", session.as_str())];
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &headers, b"").await.status, 404);
    assert_eq!(request_count(&upstream, "tools/list"), before);
}

#[tokio::test]
async fn an_error_for_an_unknown_revision_lists_only_revisions_the_grant_accepts() {
    let (_, gw) = start_gateway(Revision::R2026_07_28).await;
    assert_eq!(list_stateless(&gw, STATELESS).await.status, 200);
    let unknown = list_stateless(&gw, "2099-01-01").await.message()["error"].clone();
    assert_eq!((&unknown["code"], &unknown["data"]["supported"]), (&json!(-32022), &json!([STATELESS])));
    assert_refused(&gw.post(&[], &initialize_request("2025-11-25")).await.message()["error"], STATELESS, "2025-11-25");
}

/// A server that lists `supported_versions` in `server/discover`. If that is only the stateless revision, it has no
/// `initialize`.
async fn start_server_supporting(supported_versions: Value) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("read")]), move |request: &RecordedRequest| match request.method().as_str() {
        "server/discover" => {
            let result = json!({"resultType": "complete", "supportedVersions": supported_versions, "capabilities": {"tools": {}}});
            let text = json!({"jsonrpc": "2.0", "id": request.message()["id"], "result": result}).to_string();
            Some(json_response("200 OK", "", &text))
        }
        "initialize" if supported_versions == json!([STATELESS]) => Some(json_response("404 Not Found", "", "")),
        _ => respond(request),
    })
    .await
}

#[tokio::test]
async fn refused_revisions_are_answered_with_the_revisions_that_work() {
    let (only_stateless, only_stateful, both) =
        (json!([STATELESS]), json!(["2025-06-18"]), json!([STATELESS, "2025-06-18"]));
    for (supported_versions, minimum, for_stateless, for_stateful) in [
        (&only_stateless, None, &only_stateless, None),
        // The server has no `initialize`; the gateway answers it.
        (&only_stateless, Some(Revision::R2025_11_25), &only_stateless, Some(json!([STATELESS, "2025-11-25"]))),
        (&only_stateless, Some(Revision::R2026_07_28), &only_stateless, Some(only_stateless.clone())),
        (&both, None, &both, None),
        (&both, Some(Revision::R2025_11_25), &only_stateless, Some(only_stateless.clone())),
        // The server is stateful; the gateway translates for stateless clients.
        (&only_stateful, None, &both, None),
        (&only_stateful, Some(Revision::R2025_06_18), &both, Some(both.clone())),
        (&only_stateful, Some(Revision::R2025_11_25), &only_stateless, Some(only_stateless.clone())),
    ] {
        let case = format!("{supported_versions} {minimum:?}");
        let upstream = start_server_supporting(supported_versions.clone()).await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        gw.change_grants(|grants| grants[0].minimum_revision = minimum);
        assert_eq!(list_stateless(&gw, STATELESS).await.status, 200, "{case}");
        let unknown = list_stateless(&gw, "2099-01-01").await.message()["error"].clone();
        assert_eq!((&unknown["code"], &unknown["data"]["supported"]), (&json!(-32022), for_stateless), "{case}");
        let Some(supported) = for_stateful else { continue };
        let refused = gw.post(&[], &initialize_request("2025-03-26")).await.message()["error"].clone();
        assert_eq!(refused["data"]["supported"], supported, "{case}");
        for revision in supported.as_array().expect("a list").iter().filter_map(Value::as_str) {
            let works = match revision {
                STATELESS => list_stateless(&gw, revision).await.message()["result"].is_object(),
                _ => {
                    gw.post(&[], &initialize_request(revision)).await.message()["result"]["protocolVersion"] == revision
                }
            };
            assert!(works, "{revision} of {case}");
        }
    }
}

#[tokio::test]
async fn an_older_initialize_over_http_and_sse_is_refused() {
    let (upstream, gw) = start_gateway(Revision::R2025_06_18).await;
    let mut sse_client = SseTestClient::open(&gw).await;
    sse_client.post(&initialize_request("2024-11-05")).await;
    assert_refused(&sse_client.next_message().await["error"], "2025-06-18", "2024-11-05");
    assert_eq!(request_count(&upstream, "initialize"), 0);
    assert!(has_refusal(&gw.rows().await));
}

#[tokio::test]
async fn an_older_initialize_over_stdio_is_refused() {
    let (upstream, gw) = start_gateway(Revision::R2025_06_18).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, replies) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    client.write_all(format!("{}\n", initialize_request("2025-03-26")).as_bytes()).await.expect("the pipe is writable");
    let mut line = String::new();
    BufReader::new(replies).read_line(&mut line).await.expect("a reply");
    let reply: Value = serde_json::from_str(&line).expect("JSON");
    assert_refused(&reply["error"], "2025-06-18", "2025-03-26");
    assert_eq!(request_count(&upstream, "initialize"), 0);
    drop(client);
    running.await.expect("the task ends").expect("stdio is served without error");
}
