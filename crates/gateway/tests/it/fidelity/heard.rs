//! The same for what servers say to nobody in particular: on the stream of a session, or to who listens, in each era,
//! across them, and where all servers are one.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};

use super::across::Across;
use super::chance::Chance;
use super::echo::Script;
use super::said::{self, Era, ID, filled};
use super::tree::Tree;
use super::{Side, events};

const TAG: &str = "io.modelcontextprotocol/subscriptionId";
/// What the client calls its request to listen.
const OWN: &str = "\"o\\u0077n\"";
/// What only the server says. We tell of lists, too, where a server is slow to answer.
const OF_SERVER: &str = "\"x-nth\"";
const COUNT: usize = 40;

/// Notifications that a client is promised, each with members that nobody knows.
fn said(chance: &mut Chance, far: Era) -> Vec<String> {
    let tag = [(TAG, ID.to_owned())];
    let tag = if far == Era::Modern { &tag[..] } else { &[] };
    let mut texts = Vec::new();
    if far == Era::Modern {
        let meta = chance.object(1, false, tag);
        let heard = chance.object(1, false, &[("promptsListChanged", "true".to_owned())]);
        let params = [("_meta", meta), ("notifications", heard)];
        texts.push(said::told(chance, "notifications/subscriptions/acknowledged", &params));
    }
    texts.extend((0..COUNT).map(|nth| {
        let meta = chance.object(2, false, tag);
        let params = [("_meta", meta), ("x-nth", nth.to_string())];
        said::told(chance, "notifications/prompts/list_changed", &params)
    }));
    texts
}

/// A notification without the tag of who listens, which stands where our era puts it, and what that was.
fn untagged(text: &str) -> (Tree, Vec<(String, Tree)>, Option<Tree>) {
    let mut tree = Tree::read(text);
    let mut meta = tree.get("params").and_then(|params| params.take("_meta")).unwrap_or(Tree::Object(Vec::new()));
    let tag = meta.take(TAG);
    (tree, std::mem::take(meta.members()), tag)
}

/// Opens the stream by which the client hears, and gives what came on it of that list.
async fn heard(side: &Side) -> Vec<String> {
    let meta =
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let listen = format!(
        r#"{{"jsonrpc":"2.0","id":{OWN},"method":"subscriptions/listen","x-case":"listen","params":{{"_meta":{meta},"notifications":{{"promptsListChanged":true}}}}}}"#
    );
    let request = Request::builder()
        .uri(format!("http://{}{}", side.gw.address, side.path))
        .header("authorization", format!("Bearer {}", side.gw.token.reveal()))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    let request = match &side.session {
        Some(session) => request.method("GET").header("mcp-session-id", session).body(Full::default()),
        None => {
            let request = request.header("mcp-protocol-version", "2026-07-28");
            request.method("POST").header("mcp-method", "subscriptions/listen").body(Full::new(Bytes::from(listen)))
        }
    };
    let mut body = side.client.request(request.expect("a request")).await.expect("an answer").into_body();
    let (mut raw, mut got) = (Vec::new(), Vec::new());
    let reading = async {
        while got.len() < COUNT {
            let Some(frame) = body.frame().await else { break };
            raw.extend_from_slice(frame.expect("a frame").data_ref().expect("data"));
            if raw.ends_with(b"\n\n") {
                let text = String::from_utf8(std::mem::take(&mut raw)).expect("UTF-8");
                got.extend(events(&text).into_iter().filter(|text| text.contains(OF_SERVER)));
            }
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(20), reading).await;
    assert!(in_time.is_ok(), "{} of {COUNT} came", got.len());
    got
}

async fn come_through(era: Era, far: Era, path: &'static str) {
    let across = Across::start(era, far, path).await;
    let mut chance = Chance::new(across.side.seed.wrapping_mul(3_000_017));
    let texts = said(&mut chance, far);
    // What the gateway asks on its own has no key, and a client's own request has one.
    let key = if far == Era::Modern && era == Era::Modern { "listen" } else { "GET" };
    across.side.echo.will(key, Script { texts: texts.clone(), is_stream: true });
    let got = heard(&across.side).await;
    let wanted = texts.iter().filter(|text| text.contains(OF_SERVER));
    for (got, wanted) in got.iter().zip(wanted) {
        let context = format!("{era:?} to {far:?} at {path}\nsaid {wanted:?}\ngot {got:?}");
        let ((got, meta, tag), (wanted, wanted_meta, _)) = (untagged(got), untagged(&filled(wanted, &[(ID, "0")])));
        assert_eq!((got, meta), (wanted, wanted_meta), "{context}");
        assert_eq!(tag, (era == Era::Modern).then(|| Tree::word(OWN)), "{context}");
    }
    assert_eq!(got.len(), COUNT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_servers_say_to_nobody_in_particular_comes_through_across_the_eras() {
    come_through(Era::Modern, Era::Legacy, "/mcp/desk").await;
    come_through(Era::Legacy, Era::Modern, "/mcp/desk").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_servers_say_to_nobody_in_particular_comes_through_where_all_servers_are_one() {
    for (era, far) in
        [(Era::Legacy, Era::Legacy), (Era::Modern, Era::Modern), (Era::Modern, Era::Legacy), (Era::Legacy, Era::Modern)]
    {
        come_through(era, far, "/mcp").await;
    }
}
