//! Nothing of a message is lost or changed on its way, but for what is written down: ids, progress tokens, the tags of
//! subscriptions, spans, and how long a list may be kept. Random messages go through a gateway in both directions and
//! both eras, each byte is compared, and what may change is put back where it stood.
//!
//! `GATELODGE_FIDELITY_MESSAGES` says how many, `GATELODGE_SEED` which.
#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and takes its size from the environment"
)]

#[path = "fidelity/across.rs"]
mod across;
#[path = "fidelity/chance.rs"]
mod chance;
#[path = "fidelity/echo.rs"]
mod echo;
#[path = "fidelity/heard.rs"]
mod heard;
#[path = "fidelity/said.rs"]
mod said;
#[path = "fidelity/tree.rs"]
mod tree;

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

use self::chance::Chance;
use self::echo::{Echo, Script};
use self::said::{Case, Era, ID, PARENT, SCOPE, SPAN, TOKEN, TTL, filled};

const POLICY: &str = r#"{"version":"1","default":"allow"}"#;
const WORKERS: usize = 8;
/// How many messages, where nobody says: enough to find what is wrong, and quickly.
const FEW: usize = 10_000;

fn number_of(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// One client of one era, and the server behind the gateway.
struct Side {
    era: Era,
    path: &'static str,
    seed: u64,
    echo: Echo,
    gw: TestGateway,
    client: Client<HttpConnector, Full<Bytes>>,
    session: Option<String>,
    /// Messages that came through as they were.
    count: AtomicUsize,
}

struct Got {
    status: u16,
    session: Option<String>,
    /// The answer, or all that the stream said.
    texts: Vec<String>,
}

impl Side {
    async fn start(era: Era) -> Arc<Self> {
        let mut side = Self::between(era, era, "/mcp/desk").await;
        if era == Era::Legacy {
            side.session = side.handshake(&mut Chance::new(side.seed), "start").await;
        }
        Arc::new(side)
    }

    async fn between(era: Era, far: Era, path: &'static str) -> Self {
        let echo = Echo::start(far).await;
        let settings =
            GatewaySettings { max_sessions_per_grant: 100_000, max_sessions: 100_000, ..GatewaySettings::default() };
        let gw = TestGateway::builder().policy(POLICY).settings(settings).start_at(&echo.url()).await;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let seed = number_of("GATELODGE_SEED", 1) as u64;
        Self { era, path, seed, echo, gw, client, session: None, count: AtomicUsize::new(0) }
    }

    fn passed(&self, count: usize) {
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    async fn send(&self, headers: &[(&str, &str)], verb: &str, body: String) -> Got {
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
        let response = self.client.request(request).await.expect("an answer");
        let said = |name: &str| response.headers().get(name).map(|value| value.to_str().expect("text").to_owned());
        let is_stream = said("content-type").is_some_and(|kind| kind == "text/event-stream");
        let (status, session) = (response.status().as_u16(), said("mcp-session-id"));
        let body = response.into_body().collect().await.expect("the whole answer").to_bytes();
        let text = String::from_utf8(body.to_vec()).expect("UTF-8");
        let texts = if is_stream { events(&text) } else { vec![text] };
        Got { status, session, texts }
    }

    /// Sends a message as this era does.
    async fn post(&self, method: &str, name: Option<&str>, body: String) -> Got {
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

    /// A handshake in which both sides can do what nobody has heard of.
    async fn handshake(&self, chance: &mut Chance, key: &str) -> Option<String> {
        let asked = ["elicitation", "sampling", "roots"].map(|name| (name, "{}".to_owned()));
        let capabilities = chance.object(3, true, &asked);
        let client = chance.object(1, true, &[("name", "\"odd\"".to_owned()), ("version", "\"1\"".to_owned())]);
        let params =
            [("protocolVersion", "\"2025-11-25\"".to_owned()), ("capabilities", capabilities), ("clientInfo", client)];
        let params = chance.object(2, true, &params);
        let members = [
            ("jsonrpc", "\"2.0\"".to_owned()),
            ("id", ID.to_owned()),
            ("method", "\"initialize\"".to_owned()),
            ("x-case", format!("\"{key}\"")),
            ("params", params),
        ];
        let request = chance.object(1, true, &members);
        let capabilities = chance.object(3, true, &[]);
        let result = [("protocolVersion", "\"2025-11-25\"".to_owned()), ("capabilities", capabilities)];
        let result = chance.object(2, true, &result);
        let members = [("jsonrpc", "\"2.0\"".to_owned()), ("id", ID.to_owned()), ("result", result)];
        let answer = chance.object(1, true, &members);
        self.echo.will(key, Script { texts: vec![answer.clone()], is_stream: false });
        let got = self.send(&[], "POST", filled(&request, &[(ID, "7")])).await;
        let seen = self.echo.seen(key, &format!("{:?}", got.texts));
        let ours = seen.own_id();
        assert_eq!(seen.text, filled(&request, &[(ID, &ours)]), "{key}");
        assert_eq!(got.texts, [filled(&answer, &[(ID, "7")])], "{key}");
        self.passed(2);
        got.session
    }

    /// Sends one random request and compares everything that was said on either side.
    async fn check(&self, chance: &mut Chance, key: String) {
        let mut case = Case::new(chance, self.era, key);
        for (place, own) in case.names(str::to_owned, str::to_owned) {
            case.request = filled(&case.request, &[(place, &own)]);
        }
        let texts = case.before.iter().map(|said| match &said.asks {
            Some(id) => filled(&said.text, &[(ID, id)]),
            None => said.text.clone(),
        });
        let answer = filled(&case.answer, &[(TTL, "60000"), (SCOPE, "\"public\"")]);
        let texts = texts.chain([answer]).collect();
        self.echo.will(&case.key, Script { texts, is_stream: case.is_stream });
        let token = case.token.as_deref().unwrap_or_default();
        let sent = filled(&case.request, &[(ID, &case.id), (TOKEN, token), (SPAN, PARENT)]);
        let got = self.post(case.method, case.name, sent.clone()).await;
        let context = || format!("seed {} case {}\nsent {sent:?}\ngot {:?}", self.seed, case.key, got.texts);
        assert_eq!(got.status, 200, "{}", context());

        let seen = self.echo.seen(&case.key, &context());
        let ours = seen.own_id();
        let span = if case.has_span { seen.span() } else { String::new() };
        let expected = filled(&case.request, &[(ID, &ours), (TOKEN, &ours), (SPAN, &span)]);
        assert_eq!(seen.text, expected, "what the server gets\n{}", context());

        let mut expected: Vec<String> = case.before.iter().map(|said| filled(&said.text, &[(TOKEN, token)])).collect();
        expected.push(filled(&case.answer, &[(ID, &case.id), (TTL, "0"), (SCOPE, "\"private\"")]));
        assert_eq!(got.texts.len(), expected.len(), "{}", context());
        for (at, (got, expected)) in got.texts.iter().zip(&expected).enumerate() {
            let asked = case.before.get(at).filter(|said| said.asks.is_some());
            match asked {
                None => assert_eq!(got, expected, "what the client gets\n{}", context()),
                Some(said) => {
                    let id = serde_json::from_str::<Value>(got).expect("JSON")["id"].to_string();
                    assert_eq!(*got, filled(expected, &[(ID, &id)]), "what the client is asked\n{}", context());
                    self.answer(&format!("{}:{at}", case.key), said, &id).await;
                }
            }
        }
        self.passed(1 + expected.len());
    }

    /// Answers what the server asked.
    async fn answer(&self, key: &str, said: &said::Said, id: &str) {
        let got = self.post("", None, filled(&said.reply, &[(ID, id)])).await;
        assert_eq!(got.status, 202, "{key}: {:?}", got.texts);
        let theirs = said.asks.as_deref().expect("it was asked");
        assert_eq!(self.echo.seen(key, "").text, filled(&said.reply, &[(ID, theirs)]), "{key}");
        self.passed(1);
    }

    /// What a client tells without being asked.
    async fn tell(&self, chance: &mut Chance, key: &str) {
        let method = chance.pick(&["notifications/roots/list_changed", "notifications/progress"]);
        let token = [("progressToken", "\"theirs\"".to_owned()), ("progress", chance.number())];
        let params = chance.object(2, true, if method.ends_with("progress") { &token } else { &[] });
        let members = [
            ("jsonrpc", "\"2.0\"".to_owned()),
            ("method", format!("\"{method}\"")),
            ("x-case", format!("\"{key}\"")),
            ("params", params),
        ];
        let text = chance.object(1, true, &members);
        let got = self.post(method, None, text.clone()).await;
        assert_eq!(got.status, 202, "{key}: {:?}", got.texts);
        assert_eq!(self.echo.seen(key, "").text, text, "{key}");
        self.passed(1);
    }

    /// A stream of notifications that nobody asked for.
    async fn hear(&self, chance: &mut Chance, count: usize) {
        let texts: Vec<String> = (0..count).map(|_| said::notification(chance, &[])).collect();
        self.echo.will("GET", Script { texts: texts.clone(), is_stream: true });
        let session = self.session.clone().expect("a session");
        let request = Request::get(format!("http://{}/mcp/desk", self.gw.address))
            .header("authorization", format!("Bearer {}", self.gw.token.reveal()))
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session)
            .body(Full::default())
            .expect("a request");
        let mut body = self.client.request(request).await.expect("an answer").into_body();
        let mut raw = Vec::new();
        let mut got = Vec::new();
        while got.len() < count {
            let frame = body.frame().await.expect("more").expect("a frame");
            raw.extend_from_slice(frame.data_ref().expect("data"));
            if raw.ends_with(b"\n\n") {
                got.extend(events(&String::from_utf8(std::mem::take(&mut raw)).expect("UTF-8")));
            }
        }
        assert_eq!(got, texts);
        self.passed(count);
    }

    /// A stream of notifications that were asked for, tagged with the request's id.
    async fn listen(&self, chance: &mut Chance, count: usize) {
        let tag = [("io.modelcontextprotocol/subscriptionId", ID.to_owned())];
        let wanted = r#"{"x":1.10,"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;
        let mut texts = vec![format!(
            r#"{{"method":"notifications/subscriptions/acknowledged", "jsonrpc":"2.0","params":{{"y":1.10,"notifications":{wanted},"_meta":{{"{}":{ID}}}}}}}"#,
            tag[0].0
        )];
        // Of pages that were visited nobody is told in this revision.
        let told = (0..count).map(|_| said::notification(chance, &tag));
        texts.extend(told.filter(|text| !text.contains("elicitation/complete")));
        texts.push(format!(r#"{{"result" : {{"resultType":"complete"}},"jsonrpc":"2.0","id":{ID}}}"#));
        self.echo.will("listen", Script { texts: texts.clone(), is_stream: true });
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"debug"}"#;
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":"own","method":"subscriptions/listen","x-case":"listen","params":{{"_meta":{meta},"notifications":{wanted}}}}}"#
        );
        let got = self.post("subscriptions/listen", None, request.clone()).await;
        let seen = self.echo.seen("listen", &format!("{:?}", got.texts));
        let ours = seen.own_id();
        assert_eq!(seen.text, request.replace("\"own\"", &ours));
        let texts: Vec<String> = texts.iter().map(|text| filled(text, &[(ID, "\"own\"")])).collect();
        assert_eq!(got.texts, texts);
        self.passed(1 + texts.len());
    }
}

/// The data of all events.
fn events(text: &str) -> Vec<String> {
    let of_event = |event: &str| {
        let data: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        (!data.is_empty()).then(|| data.join("\n"))
    };
    text.split("\n\n").filter_map(of_event).collect()
}

/// Sends requests until so many messages went through.
async fn run(side: &Arc<Side>, messages: usize) {
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let side = Arc::clone(side);
        workers.spawn(async move {
            let mut chance = Chance::new(side.seed.wrapping_mul(1_000_003).wrapping_add(worker as u64));
            let mut nth = 0;
            while side.count.load(Ordering::Relaxed) < messages {
                let key = format!("{worker}-{nth}");
                match (side.era, nth % 50) {
                    (Era::Legacy, 10) => drop(side.handshake(&mut chance, &key).await),
                    (Era::Legacy, 20 | 40) => side.tell(&mut chance, &key).await,
                    _ => side.check(&mut chance, key).await,
                }
                nth += 1;
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.expect("all as it was");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_legacy_clients_and_servers_come_through_as_they_were() {
    let messages = number_of("GATELODGE_FIDELITY_MESSAGES", FEW) / 2;
    let side = Side::start(Era::Legacy).await;
    side.hear(&mut Chance::new(side.seed), messages / 5).await;
    run(&side, messages).await;
    assert!(side.count.load(Ordering::Relaxed) >= messages);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_modern_clients_and_servers_come_through_as_they_were() {
    let messages = number_of("GATELODGE_FIDELITY_MESSAGES", FEW) / 2;
    let side = Side::start(Era::Modern).await;
    side.listen(&mut Chance::new(side.seed), messages / 5).await;
    run(&side, messages).await;
    assert!(side.count.load(Ordering::Relaxed) >= messages);
}
