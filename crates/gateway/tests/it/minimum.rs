//! A grant that wants a newer revision of the protocol: whoever speaks an older one is told so, on every transport.
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

/// A server that never speaks anything newer than 2025-06-18 in a session.
fn server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let message = hit.message();
    match hit.method().as_str() {
        "initialize" => {
            let wanted = message["params"]["protocolVersion"].as_str().unwrap_or_default();
            let agreed = if wanted > "2025-06-18" { "2025-06-18" } else { wanted };
            let result = json!({"protocolVersion": agreed, "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"}});
            let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            Some(json_response("200 OK", "mcp-session-id: s-1\r\n", &text))
        }
        _ => None,
    }
}

async fn desk(minimum: Revision) -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), server).await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    want(&gw, minimum);
    (upstream, gw)
}

fn want(gw: &TestGateway, minimum: Revision) {
    gw.change_grants(|grants| grants[0].minimum_revision = Some(minimum));
}

fn handshake(revision: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": revision,
        "capabilities": {}, "clientInfo": {"name": "old client", "version": "1"}}})
    .to_string()
}

fn stateless(revision: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientCapabilities": {}});
    json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": meta}}).to_string()
}

async fn ask_stateless(gw: &TestGateway, revision: &str) -> TestResponse {
    gw.post(&[("MCP-Protocol-Version", revision), ("Mcp-Method", "tools/list")], &stateless(revision)).await
}

fn reached(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|hit| hit.method() == method).count()
}

fn told(rows: &[CallLogRow]) -> bool {
    rows.iter().any(|row| row.record.message.as_deref().is_some_and(|said| said.contains("2025-06-18 or newer")))
}

/// What is said to whoever is too old.
fn assert_refused(error: &Value, wanted: &str, spoken: &str) {
    assert_eq!(error["code"], -32602);
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(&format!("requires protocol revision {wanted} or newer")), "{message}");
    assert!(message.contains(spoken), "{message}");
    assert_eq!(error["data"]["requested"], spoken);
    let supported = error["data"]["supported"].as_array().expect("a list");
    assert!(supported.iter().all(|own| own.as_str() >= Some(wanted)), "{supported:?}");
    assert!(!supported.is_empty());
}

#[tokio::test]
async fn a_handshake_that_names_no_revision_is_refused_before_anything_is_sent() {
    let upstream = FakeUpstream::start(json!([tool_definition("read")]), server).await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    for version in [json!(5), Value::Null, json!({})] {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": version,
            "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
        let answer = gw.post(&[], &hello.to_string()).await;
        assert_eq!(answer.code(), -32602, "{}", answer.body);
        assert!(answer.body.contains("names a revision"), "{}", answer.body);
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn an_older_handshake_is_refused_and_recorded_and_reaches_no_server() {
    let (upstream, gw) = desk(Revision::R2025_06_18).await;
    for revision in ["2024-11-05", "2025-03-26"] {
        let answer = gw.post(&[], &handshake(revision)).await;
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None));
        assert_refused(&answer.message()["error"], "2025-06-18", revision);
    }
    assert_eq!(upstream.requests().len(), 0);
    assert!(told(&gw.rows().await), "{:?}", gw.rows().await);
    assert!(gw.post(&[], &handshake("2025-06-18")).await.header("mcp-session-id").is_some());
}

#[tokio::test]
async fn a_server_that_agrees_on_an_older_revision_gives_no_session() {
    let (upstream, gw) = desk(Revision::R2025_11_25).await;
    let answer = gw.post(&[], &handshake("2025-11-25")).await;
    assert_eq!(answer.header("mcp-session-id"), None);
    assert_refused(&answer.message()["error"], "2025-11-25", "2025-06-18");
    let ended =
        upstream.requests().into_iter().find(|hit| hit.request_line.starts_with("DELETE")).expect("its session ends");
    assert_eq!(ended.header("mcp-session-id"), Some("s-1"));
}

#[tokio::test]
async fn a_session_of_before_is_over_when_the_grant_wants_more() {
    let (upstream, gw) = desk(Revision::R2024_11_05).await;
    let answer = gw.post(&[], &handshake("2025-06-18")).await;
    let session = answer.header("mcp-session-id").expect("a session").to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    assert_eq!(gw.post(&[("Mcp-Session-Id", &session)], &list).await.status, 200);
    let before = reached(&upstream, "tools/list");
    want(&gw, Revision::R2025_11_25);
    let refused = gw.post(&[("Mcp-Session-Id", &session)], &list).await;
    assert_eq!(refused.status, 404, "the client begins anew");
    assert_refused(&refused.message()["error"], "2025-11-25", "2025-06-18");
    let bearer = format!("Bearer {}", gw.token.reveal());
    let headers =
        [("Authorization", bearer.as_str()), ("Accept", "text/event-stream"), ("Mcp-Session-Id", session.as_str())];
    assert_eq!(gw.send_raw("GET", "/mcp/desk", &headers, b"").await.status, 404);
    assert_eq!(reached(&upstream, "tools/list"), before);
}

#[tokio::test]
async fn a_stateless_client_is_new_enough_and_hears_only_of_what_it_may_speak() {
    let (_, gw) = desk(Revision::R2026_07_28).await;
    assert_eq!(ask_stateless(&gw, STATELESS).await.status, 200);
    let unknown = ask_stateless(&gw, "2099-01-01").await.message()["error"].clone();
    assert_eq!((&unknown["code"], &unknown["data"]["supported"]), (&json!(-32022), &json!([STATELESS])));
    assert_refused(&gw.post(&[], &handshake("2025-11-25")).await.message()["error"], STATELESS, "2025-11-25");
}

/// A server that names revisions where it is asked for them; one that names only the last has no handshake.
async fn naming(named: Value) -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("read")]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "server/discover" => {
            let result = json!({"resultType": "complete", "supportedVersions": named, "capabilities": {"tools": {}}});
            let text = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result}).to_string();
            Some(json_response("200 OK", "", &text))
        }
        "initialize" if named == json!([STATELESS]) => Some(json_response("404 Not Found", "", "")),
        _ => server(hit),
    })
    .await
}

#[tokio::test]
async fn whoever_asks_for_what_is_not_spoken_is_told_of_what_truly_is() {
    let (stateless, older, both) = (json!([STATELESS]), json!(["2025-06-18"]), json!([STATELESS, "2025-06-18"]));
    for (named, minimum, alone, in_session) in [
        (&stateless, None, &stateless, None),
        // It says nothing of handshakes, and we shake hands for it.
        (&stateless, Some(Revision::R2025_11_25), &stateless, Some(json!([STATELESS, "2025-11-25"]))),
        (&stateless, Some(Revision::R2026_07_28), &stateless, Some(stateless.clone())),
        (&both, None, &both, None),
        (&both, Some(Revision::R2025_11_25), &stateless, Some(stateless.clone())),
        // It knows of sessions alone, and we have them for those who do not.
        (&older, None, &both, None),
        (&older, Some(Revision::R2025_06_18), &both, Some(both.clone())),
        (&older, Some(Revision::R2025_11_25), &stateless, Some(stateless.clone())),
    ] {
        let case = format!("{named} {minimum:?}");
        let upstream = naming(named.clone()).await;
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        gw.change_grants(|grants| grants[0].minimum_revision = minimum);
        assert_eq!(ask_stateless(&gw, STATELESS).await.status, 200, "{case}");
        let unknown = ask_stateless(&gw, "2099-01-01").await.message()["error"].clone();
        assert_eq!((&unknown["code"], &unknown["data"]["supported"]), (&json!(-32022), alone), "{case}");
        let Some(supported) = in_session else { continue };
        let refused = gw.post(&[], &handshake("2025-03-26")).await.message()["error"].clone();
        assert_eq!(refused["data"]["supported"], supported, "{case}");
        for revision in supported.as_array().expect("a list").iter().filter_map(Value::as_str) {
            let is_spoken = match revision {
                STATELESS => ask_stateless(&gw, revision).await.message()["result"].is_object(),
                _ => gw.post(&[], &handshake(revision)).await.message()["result"]["protocolVersion"] == revision,
            };
            assert!(is_spoken, "{revision} of {case}");
        }
    }
}

#[tokio::test]
async fn the_older_transport_is_refused_by_its_handshake() {
    let (upstream, gw) = desk(Revision::R2025_06_18).await;
    let mut caller = SseTestClient::open(&gw).await;
    caller.post(&handshake("2024-11-05")).await;
    assert_refused(&caller.next_message().await["error"], "2025-06-18", "2024-11-05");
    assert_eq!(reached(&upstream, "initialize"), 0);
    assert!(told(&gw.rows().await));
}

#[tokio::test]
async fn a_client_at_standard_streams_is_refused_by_its_handshake() {
    let (upstream, gw) = desk(Revision::R2025_06_18).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, answers) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    client.write_all(format!("{}\n", handshake("2025-03-26")).as_bytes()).await.expect("it can be written");
    let mut line = String::new();
    BufReader::new(answers).read_line(&mut line).await.expect("an answer");
    let said: Value = serde_json::from_str(&line).expect("JSON");
    assert_refused(&said["error"], "2025-06-18", "2025-03-26");
    assert_eq!(reached(&upstream, "initialize"), 0);
    drop(client);
    running.await.expect("it ends").expect("in order");
}
