//! Messages are forwarded byte for byte, except for what `docs/protocol.md` lists: ids, progress tokens, subscription ids,
//! spans, and cache members of lists. The tests send random messages through a gateway in both directions and both protocol
//! generations, and compare every byte; values that may change are placeholders, filled in before the comparison.
//!
//! `GATELODGE_FIDELITY_MESSAGES` sets the number of messages, `GATELODGE_SEED` the seed.
#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and takes its size from the environment"
)]

#[path = "fidelity/cases.rs"]
mod cases;
#[path = "fidelity/json_tree.rs"]
mod json_tree;
#[path = "fidelity/notifications.rs"]
mod notifications;
#[path = "fidelity/pairings.rs"]
mod pairings;
#[path = "fidelity/random_json.rs"]
mod random_json;
#[path = "fidelity/scripted_server.rs"]
mod scripted_server;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use gatelodge_gateway::GatewaySettings;
use gatelodge_mcp::http_headers;
use gatelodge_testkit::TestGateway;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use self::cases::{Case, Generation, ID, PARENT, SCOPE, SPAN, TOKEN, TTL, fill};
use self::random_json::RandomJson;
use self::scripted_server::{Script, ScriptedServer};

const POLICY: &str = r#"{"version":"1","default":"allow"}"#;
const WORKERS: usize = 8;
/// Number of messages unless `GATELODGE_FIDELITY_MESSAGES` is set: enough to find most bugs in a short run.
const DEFAULT_MESSAGES: usize = 10_000;

fn env_number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// A client, a gateway and a server, with the generations of client and server.
struct Setup {
    client_generation: Generation,
    path: &'static str,
    seed: u64,
    server: ScriptedServer,
    gw: TestGateway,
    client: Client<HttpConnector, Full<Bytes>>,
    session: Option<String>,
    /// Number of messages that were compared and found unchanged.
    message_count: AtomicUsize,
}

struct Reply {
    status: u16,
    session: Option<String>,
    /// The response, or all messages of the stream.
    texts: Vec<String>,
}

impl Setup {
    async fn start(client_generation: Generation) -> Arc<Self> {
        let mut setup = Self::connect(client_generation, client_generation, "/mcp/desk").await;
        if client_generation == Generation::Stateful {
            setup.session = setup.handshake(&mut RandomJson::new(setup.seed), "start").await;
        }
        Arc::new(setup)
    }

    async fn connect(client_generation: Generation, server_generation: Generation, path: &'static str) -> Self {
        let server = ScriptedServer::start(server_generation).await;
        let settings =
            GatewaySettings { max_sessions_per_grant: 100_000, max_sessions: 100_000, ..GatewaySettings::default() };
        let gw = TestGateway::builder().policy(POLICY).settings(settings).start_at(&server.url()).await;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let seed = env_number("GATELODGE_SEED", 1) as u64;
        Self { client_generation, path, seed, server, gw, client, session: None, message_count: AtomicUsize::new(0) }
    }

    fn count_messages(&self, count: usize) {
        self.message_count.fetch_add(count, Ordering::Relaxed);
    }

    async fn send(&self, headers: &[(&str, &str)], verb: &str, body: String) -> Reply {
        let mut request = Request::builder()
            .method(verb)
            .uri(format!("http://{}{}", self.gw.address, self.path))
            .header("authorization", format!("Bearer {}", self.gw.token.reveal()))
            .header("content-type", "application/json")
            .header("accept", if verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" });
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let response = self.client.request(request).await.expect("a response");
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().expect("text").to_owned());
        let is_stream = header("content-type").is_some_and(|kind| kind == "text/event-stream");
        let (status, session) = (response.status().as_u16(), header("mcp-session-id"));
        let body = response.into_body().collect().await.expect("the whole response").to_bytes();
        let text = String::from_utf8(body.to_vec()).expect("UTF-8");
        let texts = if is_stream { events(&text) } else { vec![text] };
        Reply { status, session, texts }
    }

    /// Sends a message in the form of the client's protocol generation.
    async fn post(&self, method: &str, name: Option<&str>, body: String) -> Reply {
        match &self.session {
            Some(session) => self.send(&[("mcp-session-id", session)], "POST", body).await,
            None => {
                let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
                let name = name.map(http_headers::encode_value);
                headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
                self.send(&headers, "POST", body).await
            }
        }
    }

    /// A handshake with unknown capabilities on both sides.
    async fn handshake(&self, random: &mut RandomJson, key: &str) -> Option<String> {
        let declared = ["elicitation", "sampling", "roots"].map(|name| (name, "{}".to_owned()));
        let capabilities = random.object(3, true, &declared);
        let client = random.object(1, true, &[("name", "\"odd\"".to_owned()), ("version", "\"1\"".to_owned())]);
        let params =
            [("protocolVersion", "\"2025-11-25\"".to_owned()), ("capabilities", capabilities), ("clientInfo", client)];
        let params = random.object(2, true, &params);
        let members = [
            ("jsonrpc", "\"2.0\"".to_owned()),
            ("id", ID.to_owned()),
            ("method", "\"initialize\"".to_owned()),
            ("x-case", format!("\"{key}\"")),
            ("params", params),
        ];
        let request = random.object(1, true, &members);
        let capabilities = random.object(3, true, &[]);
        let result = [("protocolVersion", "\"2025-11-25\"".to_owned()), ("capabilities", capabilities)];
        let result = random.object(2, true, &result);
        let members = [("jsonrpc", "\"2.0\"".to_owned()), ("id", ID.to_owned()), ("result", result)];
        let response = random.object(1, true, &members);
        self.server.set_script(key, Script { texts: vec![response.clone()], is_stream: false });
        let reply = self.send(&[], "POST", fill(&request, &[(ID, "7")])).await;
        let received = self.server.take_received(key, &format!("{:?}", reply.texts));
        let gateway_id = received.gateway_id();
        assert_eq!(received.text, fill(&request, &[(ID, &gateway_id)]), "{key}");
        assert_eq!(reply.texts, [fill(&response, &[(ID, "7")])], "{key}");
        self.count_messages(2);
        reply.session
    }

    /// Sends one random request and compares all messages on both sides.
    async fn check(&self, random: &mut RandomJson, key: String) {
        let mut case = Case::new(random, self.client_generation, key);
        for (placeholder, name) in case.names(str::to_owned, str::to_owned) {
            case.request = fill(&case.request, &[(placeholder, &name)]);
        }
        let texts = case.preceding.iter().map(|message| match &message.request_id {
            Some(id) => fill(&message.text, &[(ID, id)]),
            None => message.text.clone(),
        });
        let response = fill(&case.response, &[(TTL, "60000"), (SCOPE, "\"public\"")]);
        let texts = texts.chain([response]).collect();
        self.server.set_script(&case.key, Script { texts, is_stream: case.is_stream });
        let token = case.token.as_deref().unwrap_or_default();
        let sent = fill(&case.request, &[(ID, &case.id), (TOKEN, token), (SPAN, PARENT)]);
        let reply = self.post(case.method, case.name, sent.clone()).await;
        let context = || format!("seed {} case {}\nsent {sent:?}\ngot {:?}", self.seed, case.key, reply.texts);
        assert_eq!(reply.status, 200, "{}", context());

        let received = self.server.take_received(&case.key, &context());
        let gateway_id = received.gateway_id();
        let span = if case.has_span { received.span() } else { String::new() };
        let expected = fill(&case.request, &[(ID, &gateway_id), (TOKEN, &gateway_id), (SPAN, &span)]);
        assert_eq!(received.text, expected, "received by the server\n{}", context());

        let mut expected: Vec<String> =
            case.preceding.iter().map(|message| fill(&message.text, &[(TOKEN, token)])).collect();
        expected.push(fill(&case.response, &[(ID, &case.id), (TTL, "0"), (SCOPE, "\"private\"")]));
        assert_eq!(reply.texts.len(), expected.len(), "{}", context());
        for (at, (reply, expected)) in reply.texts.iter().zip(&expected).enumerate() {
            let server_request = case.preceding.get(at).filter(|message| message.request_id.is_some());
            match server_request {
                None => assert_eq!(reply, expected, "received by the client\n{}", context()),
                Some(message) => {
                    let id = serde_json::from_str::<Value>(reply).expect("JSON")["id"].to_string();
                    assert_eq!(
                        *reply,
                        fill(expected, &[(ID, &id)]),
                        "server request received by the client\n{}",
                        context()
                    );
                    self.respond_to(&format!("{}:{at}", case.key), message, &id).await;
                }
            }
        }
        self.count_messages(1 + expected.len());
    }

    /// Sends the client's response to a server request.
    async fn respond_to(&self, key: &str, message: &cases::ServerMessage, id: &str) {
        let reply = self.post("", None, fill(&message.client_response, &[(ID, id)])).await;
        assert_eq!(reply.status, 202, "{key}: {:?}", reply.texts);
        let server_id = message.request_id.as_deref().expect("a server request");
        assert_eq!(
            self.server.take_received(key, "").text,
            fill(&message.client_response, &[(ID, server_id)]),
            "{key}"
        );
        self.count_messages(1);
    }

    /// Sends a notification of the client.
    async fn send_notification(&self, random: &mut RandomJson, key: &str) {
        let method = random.pick(&["notifications/roots/list_changed", "notifications/progress"]);
        let token = [("progressToken", "\"theirs\"".to_owned()), ("progress", random.number())];
        let params = random.object(2, true, if method.ends_with("progress") { &token } else { &[] });
        let members = [
            ("jsonrpc", "\"2.0\"".to_owned()),
            ("method", format!("\"{method}\"")),
            ("x-case", format!("\"{key}\"")),
            ("params", params),
        ];
        let text = random.object(1, true, &members);
        let reply = self.post(method, None, text.clone()).await;
        assert_eq!(reply.status, 202, "{key}: {:?}", reply.texts);
        assert_eq!(self.server.take_received(key, "").text, text, "{key}");
        self.count_messages(1);
    }

    /// Compares notifications on the standalone stream.
    async fn check_standalone_stream(&self, random: &mut RandomJson, count: usize) {
        let texts: Vec<String> = (0..count).map(|_| cases::notification(random, &[])).collect();
        self.server.set_script("GET", Script { texts: texts.clone(), is_stream: true });
        let session = self.session.clone().expect("a session");
        let request = Request::get(format!("http://{}/mcp/desk", self.gw.address))
            .header("authorization", format!("Bearer {}", self.gw.token.reveal()))
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session)
            .body(Full::default())
            .expect("a request");
        let mut body = self.client.request(request).await.expect("a response").into_body();
        let mut raw = Vec::new();
        let mut reply = Vec::new();
        while reply.len() < count {
            let frame = body.frame().await.expect("more").expect("a frame");
            raw.extend_from_slice(frame.data_ref().expect("data"));
            if raw.ends_with(b"\n\n") {
                reply.extend(events(&String::from_utf8(std::mem::take(&mut raw)).expect("UTF-8")));
            }
        }
        assert_eq!(reply, texts);
        self.count_messages(count);
    }

    /// Compares notifications of a subscription, which carry the id of its request.
    async fn check_listen(&self, random: &mut RandomJson, count: usize) {
        let tag = [("io.modelcontextprotocol/subscriptionId", ID.to_owned())];
        let filter = r#"{"x":1.10,"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;
        let mut texts = vec![format!(
            r#"{{"method":"notifications/subscriptions/acknowledged", "jsonrpc":"2.0","params":{{"y":1.10,"notifications":{filter},"_meta":{{"{}":{ID}}}}}}}"#,
            tag[0].0
        )];
        // The gateway does not send `elicitation/complete` in the stateless revision.
        let notifications = (0..count).map(|_| cases::notification(random, &tag));
        texts.extend(notifications.filter(|text| !text.contains("elicitation/complete")));
        texts.push(format!(r#"{{"result" : {{"resultType":"complete"}},"jsonrpc":"2.0","id":{ID}}}"#));
        self.server.set_script("listen", Script { texts: texts.clone(), is_stream: true });
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"debug"}"#;
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":"own","method":"subscriptions/listen","x-case":"listen","params":{{"_meta":{meta},"notifications":{filter}}}}}"#
        );
        let reply = self.post("subscriptions/listen", None, request.clone()).await;
        let received = self.server.take_received("listen", &format!("{:?}", reply.texts));
        let gateway_id = received.gateway_id();
        assert_eq!(received.text, request.replace("\"own\"", &gateway_id));
        let texts: Vec<String> = texts.iter().map(|text| fill(text, &[(ID, "\"own\"")])).collect();
        assert_eq!(reply.texts, texts);
        self.count_messages(1 + texts.len());
    }
}

/// Returns the data of all events.
fn events(text: &str) -> Vec<String> {
    let of_event = |event: &str| {
        let data: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        (!data.is_empty()).then(|| data.join("\n"))
    };
    text.split("\n\n").filter_map(of_event).collect()
}

/// Sends requests until `messages` messages were compared.
async fn run(setup: &Arc<Setup>, messages: usize) {
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let setup = Arc::clone(setup);
        workers.spawn(async move {
            let mut random = RandomJson::new(setup.seed.wrapping_mul(1_000_003).wrapping_add(worker as u64));
            let mut nth = 0;
            while setup.message_count.load(Ordering::Relaxed) < messages {
                let key = format!("{worker}-{nth}");
                match (setup.client_generation, nth % 50) {
                    (Generation::Stateful, 10) => drop(setup.handshake(&mut random, &key).await),
                    (Generation::Stateful, 20 | 40) => setup.send_notification(&mut random, &key).await,
                    _ => setup.check(&mut random, key).await,
                }
                nth += 1;
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.expect("the worker finds no difference");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_between_stateful_clients_and_servers_are_forwarded_unchanged() {
    let messages = env_number("GATELODGE_FIDELITY_MESSAGES", DEFAULT_MESSAGES) / 2;
    let setup = Setup::start(Generation::Stateful).await;
    setup.check_standalone_stream(&mut RandomJson::new(setup.seed), messages / 5).await;
    run(&setup, messages).await;
    assert!(setup.message_count.load(Ordering::Relaxed) >= messages);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_between_stateless_clients_and_servers_are_forwarded_unchanged() {
    let messages = env_number("GATELODGE_FIDELITY_MESSAGES", DEFAULT_MESSAGES) / 2;
    let setup = Setup::start(Generation::Stateless).await;
    setup.check_listen(&mut RandomJson::new(setup.seed), messages / 5).await;
    run(&setup, messages).await;
    assert!(setup.message_count.load(Ordering::Relaxed) >= messages);
}
