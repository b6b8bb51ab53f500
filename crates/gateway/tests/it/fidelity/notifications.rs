//! Fidelity of notifications outside a call: on the standalone stream of a session and on a `subscriptions/listen`, for
//! all pairings of protocol generations and at the aggregate endpoint.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};

use super::cases::{self, Generation, ID, fill};
use super::json_tree::JsonTree;
use super::pairings::Pairing;
use super::random_json::RandomJson;
use super::scripted_server::Script;
use super::{Setup, events};

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Id of the client's `subscriptions/listen`.
const LISTEN_ID: &str = "\"o\\u0077n\"";
/// Member that marks the server's notifications. The gateway itself sends `list_changed` when a server is slow to list.
const SERVER_MARK: &str = "\"x-nth\"";
const COUNT: usize = 40;

/// Returns notifications that the client subscribed to, each with unknown members.
fn server_notifications(random: &mut RandomJson, server_generation: Generation) -> Vec<String> {
    let subscription_id = [(SUBSCRIPTION_ID, ID.to_owned())];
    let subscription_id = if server_generation == Generation::Stateless { &subscription_id[..] } else { &[] };
    let mut texts = Vec::new();
    if server_generation == Generation::Stateless {
        let meta = random.object(1, false, subscription_id);
        let accepted = random.object(1, false, &[("promptsListChanged", "true".to_owned())]);
        let params = [("_meta", meta), ("notifications", accepted)];
        texts.push(cases::notification_text(random, "notifications/subscriptions/acknowledged", &params));
    }
    texts.extend((0..COUNT).map(|nth| {
        let meta = random.object(2, false, subscription_id);
        let params = [("_meta", meta), ("x-nth", nth.to_string())];
        cases::notification_text(random, "notifications/prompts/list_changed", &params)
    }));
    texts
}

/// Splits a notification into the rest, its `_meta` members, and its subscription id, which the gateway can move.
fn split_subscription_id(text: &str) -> (JsonTree, Vec<(String, JsonTree)>, Option<JsonTree>) {
    let mut tree = JsonTree::read(text);
    let mut meta = tree.get("params").and_then(|params| params.take("_meta")).unwrap_or(JsonTree::Object(Vec::new()));
    let subscription_id = meta.take(SUBSCRIPTION_ID);
    (tree, std::mem::take(meta.members()), subscription_id)
}

/// Opens the stream on which the client receives notifications, and returns those of the server.
async fn receive_notifications(setup: &Setup) -> Vec<String> {
    let meta =
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let listen = format!(
        r#"{{"jsonrpc":"2.0","id":{LISTEN_ID},"method":"subscriptions/listen","x-case":"listen","params":{{"_meta":{meta},"notifications":{{"promptsListChanged":true}}}}}}"#
    );
    let request = Request::builder()
        .uri(format!("http://{}{}", setup.gw.address, setup.path))
        .header("authorization", format!("Bearer {}", setup.gw.token.reveal()))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    let request = match &setup.session {
        Some(session) => request.method("GET").header("mcp-session-id", session).body(Full::default()),
        None => {
            let request = request.header("mcp-protocol-version", "2026-07-28");
            request.method("POST").header("mcp-method", "subscriptions/listen").body(Full::new(Bytes::from(listen)))
        }
    };
    let mut body = setup.client.request(request.expect("a request")).await.expect("a response").into_body();
    let (mut raw, mut received) = (Vec::new(), Vec::new());
    let reading = async {
        while received.len() < COUNT {
            let Some(frame) = body.frame().await else { break };
            raw.extend_from_slice(frame.expect("a frame").data_ref().expect("data"));
            if raw.ends_with(b"\n\n") {
                let text = String::from_utf8(std::mem::take(&mut raw)).expect("UTF-8");
                received.extend(events(&text).into_iter().filter(|text| text.contains(SERVER_MARK)));
            }
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(20), reading).await;
    assert!(in_time.is_ok(), "{} of {COUNT} notifications arrived", received.len());
    received
}

async fn assert_fidelity(client_generation: Generation, server_generation: Generation, path: &'static str) {
    let pairing = Pairing::start(client_generation, server_generation, path).await;
    let mut random = RandomJson::new(pairing.setup.seed.wrapping_mul(3_000_017));
    let texts = server_notifications(&mut random, server_generation);
    // Only a client's `subscriptions/listen` that is forwarded has a key; streams of the gateway itself have none.
    let key = if server_generation == Generation::Stateless && client_generation == Generation::Stateless {
        "listen"
    } else {
        "GET"
    };
    pairing.setup.server.set_script(key, Script { texts: texts.clone(), is_stream: true });
    let received = receive_notifications(&pairing.setup).await;
    let expected = texts.iter().filter(|text| text.contains(SERVER_MARK));
    for (received, expected) in received.iter().zip(expected) {
        let context = format!(
            "{client_generation:?} to {server_generation:?} at {path}\nsent {expected:?}\nreceived {received:?}"
        );
        let ((received, meta, subscription_id), (expected, expected_meta, _)) =
            (split_subscription_id(received), split_subscription_id(&fill(expected, &[(ID, "0")])));
        assert_eq!((received, meta), (expected, expected_meta), "{context}");
        assert_eq!(
            subscription_id,
            (client_generation == Generation::Stateless).then(|| JsonTree::scalar(LISTEN_ID)),
            "{context}"
        );
    }
    assert_eq!(received.len(), COUNT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_between_different_generations_are_forwarded_unchanged() {
    assert_fidelity(Generation::Stateless, Generation::Stateful, "/mcp/desk").await;
    assert_fidelity(Generation::Stateful, Generation::Stateless, "/mcp/desk").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_at_the_aggregate_endpoint_are_forwarded_unchanged() {
    for (client_generation, server_generation) in [
        (Generation::Stateful, Generation::Stateful),
        (Generation::Stateless, Generation::Stateless),
        (Generation::Stateless, Generation::Stateful),
        (Generation::Stateful, Generation::Stateless),
    ] {
        assert_fidelity(client_generation, server_generation, "/mcp").await;
    }
}
