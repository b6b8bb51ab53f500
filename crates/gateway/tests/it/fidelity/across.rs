//! The same across the eras, and where all servers are one: what `docs/protocol.md` says is put back, and all else is
//! what it was.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::chance::Chance;
use super::echo::Script;
use super::said::{Case, Era, ID, PARENT, SCOPE, SPAN, TOKEN, TTL, filled};
use super::tree::Tree;
use super::{FEW, Side, number_of};

/// What a stateless request says of its client.
const OWN: [&str; 3] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
];
const CAPABILITIES: [&str; 2] =
    ["{}", r#"{"x-odd" :{"n":1.10,"\u0061":[ ]},"sampling":{},"roots":{},"elicitation":{}}"#];
/// What a client without a session does not hear on a call: of changes it hears where it listens, of log messages where
/// it says from which level on, and of pages that were visited never.
const OF_SESSIONS: [&str; 3] =
    ["\"notifications/message\"", "\"notifications/prompts/list_changed\"", "\"notifications/elicitation/complete\""];
const INFO: &str = r#"{"version":"1.10" ,"name":"\u006fdd"}"#;

/// A client of one era, a server of the same or the other, at the server's own address or where all are one.
pub struct Across {
    pub side: Side,
    far: Era,
}

impl Across {
    pub async fn start(era: Era, far: Era, path: &'static str) -> Arc<Self> {
        let mut side = Side::between(era, far, path).await;
        if era == Era::Legacy {
            let hello = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{INFO}}}}}"#,
                CAPABILITIES[1]
            );
            side.session = side.send(&[], "POST", hello).await.session;
            assert!(side.session.is_some(), "{era:?} to {far:?} at {path}");
        }
        Arc::new(Self { side, far })
    }

    /// Asks for one random list where all servers are one, and gives its entries, with those that the server has under
    /// the names that clients know.
    async fn listed(&self, chance: &mut Chance, key: &str) -> (Vec<Tree>, Vec<Tree>) {
        let case = loop {
            let case = Case::between(chance, (self.side.era, self.far), "{}", key.to_owned());
            let is_plain = !case.is_stream && case.answer.contains("\"result\"");
            if is_plain && case.method.ends_with("/list") && !case.request.contains("requestState") {
                break case;
            }
        };
        let answer = filled(&case.answer, &[(TTL, "60000"), (SCOPE, "\"public\"")]);
        self.side.echo.will(key, Script { texts: vec![answer.clone()], is_stream: false });
        let token = case.token.as_deref().unwrap_or_default();
        let sent = filled(&case.request, &[(ID, &case.id), (TOKEN, token), (SPAN, PARENT)]);
        let got = self.side.post(case.method, None, sent).await;
        let mut got = Tree::read(got.texts.last().expect("an answer"));
        (entries(case.method, &mut got), named(case.method, &mut Tree::read(&filled(&answer, &[(ID, "0")]))))
    }

    fn is_at_all(&self) -> bool {
        self.side.path == "/mcp"
    }

    /// Sends one random request, and compares what either side gets with what the other said.
    async fn check(&self, chance: &mut Chance, key: String) {
        let capabilities = chance.pick(&CAPABILITIES);
        let case = loop {
            let case = Case::between(chance, (self.side.era, self.far), capabilities, key.clone());
            // Where all servers are one, none has a method that it alone knows, lists are made of many, and some things
            // are answered here. A page to visit is asked for in each era in its own way.
            let is_of_one = !case.method.ends_with("/list") && !case.method.starts_with("vendor/");
            let is_of_one = is_of_one && !["ping", "logging/setLevel", "server/discover"].contains(&case.method);
            let crosses = self.side.era == self.far || !case.answer.contains("-32042");
            // What a client brings back is of a question, and of none here.
            let crosses = crosses && !(self.is_of_sessions() && case.request.contains("requestState"));
            if crosses && (is_of_one || !self.is_at_all()) {
                break case;
            }
        };
        let answer = filled(&case.answer, &[(TTL, "60000"), (SCOPE, "\"public\"")]);
        let asking = case.before.iter().map(|said| match &said.asks {
            Some(id) => filled(&said.text, &[(ID, id)]),
            None => said.text.clone(),
        });
        let texts = asking.chain([answer.clone()]).collect();
        self.side.echo.will(&case.key, Script { texts, is_stream: case.is_stream });
        let all = self.is_at_all();
        let known = case.names(
            |name| if all { format!("desk__{name}") } else { name.to_owned() },
            |uri| if all { format!("x-desk+{uri}") } else { uri.to_owned() },
        );
        let token = case.token.as_deref().unwrap_or_default();
        let sent = filled(&case.request, &[(ID, &case.id), (TOKEN, token), (SPAN, PARENT)]);
        let sent = known.iter().fold(sent, |text, (place, name)| filled(&text, &[(place, name)]));
        let got = self.side.post(case.method, case.name.map(|_| known[0].1.as_str()), sent.clone()).await;
        let context = || {
            let sides = format!("{:?} to {:?} at {}", self.side.era, self.far, self.side.path);
            format!(
                "{sides}, seed {} case {}\nsent {sent:?}\nanswer {answer:?}\ngot {:?}",
                self.side.seed, case.key, got.texts
            )
        };
        assert_eq!(got.status, 200, "{}", context());
        self.compare_request(&case, &context());
        self.compare_answers(&case, &answer, token, &got.texts, &context()).await;
    }

    /// What the server gets is what the client said, but for what the other era says otherwise.
    fn compare_request(&self, case: &Case, context: &str) {
        let seen = self.side.echo.seen(&case.key, context);
        let ours = seen.own_id();
        let span = if case.has_span { seen.span() } else { String::new() };
        let wanted = filled(&case.request, &[(ID, &ours), (TOKEN, &ours), (SPAN, &span)]);
        let own = case.names(str::to_owned, str::to_owned);
        let wanted = own.iter().fold(wanted, |text, (place, name)| filled(&text, &[(place, name)]));
        let (mut wanted, mut got) = (Tree::read(&wanted), Tree::read(&seen.text));
        match (self.side.era, self.far) {
            (Era::Modern, Era::Legacy) => to_session(&mut wanted),
            (Era::Legacy, Era::Modern) => to_stateless(&mut wanted, &mut got, context),
            _ => {}
        }
        assert_eq!(got, wanted, "what the server gets\n{context}");
        self.side.passed(1);
    }

    async fn compare_answers(&self, case: &Case, answer: &str, token: &str, got: &[String], context: &str) {
        let hears = |text: &str| !self.is_of_sessions() || !OF_SESSIONS.iter().any(|own| text.contains(own));
        let before: Vec<_> = case.before.iter().filter(|said| hears(&said.text)).collect();
        assert_eq!(got.len(), before.len() + 1, "{context}");
        for (at, (got, said)) in got.iter().zip(&before).enumerate() {
            let mut wanted = filled(&said.text, &[(TOKEN, token)]);
            if said.asks.is_some() {
                let id = serde_json::from_str::<serde_json::Value>(got).expect("JSON")["id"].to_string();
                wanted = filled(&wanted, &[(ID, &id)]);
                self.side.answer(&format!("{}:{at}", case.key), said, &id).await;
            }
            assert_eq!(Tree::read(got), Tree::read(&wanted), "what the client hears\n{context}");
        }
        let mut wanted = Tree::read(&filled(answer, &[(ID, &case.id)]));
        let mut got = Tree::read(got.last().expect("an answer"));
        self.put_back(case.method, &mut wanted, &mut got);
        assert_eq!(got, wanted, "what the client gets\n{context}");
        self.side.passed(1 + before.len());
    }

    /// Whether the server says things that a client without a session does not hear on a call.
    fn is_of_sessions(&self) -> bool {
        (self.side.era, self.far) == (Era::Modern, Era::Legacy)
    }

    /// Takes from a result what a client without a session must find in it, and how long a list may be kept.
    fn put_back(&self, method: &str, wanted: &mut Tree, got: &mut Tree) {
        let (Some(wanted), Some(got)) = (wanted.get("result"), got.get("result")) else { return };
        let is_list = method.ends_with("/list");
        if (self.side.era, self.far) == (Era::Legacy, Era::Modern)
            && wanted.get("resultType").is_some_and(|kind| *kind == Tree::word("\"complete\""))
        {
            wanted.take("resultType");
        }
        if self.is_of_sessions() {
            let mut added = vec![("resultType", "\"complete\"")];
            if is_list || wanted.get("contents").is_some() {
                added.extend([("ttlMs", "0"), ("cacheScope", "\"private\"")]);
            }
            for (name, value) in added {
                if wanted.get(name).is_none() {
                    assert_eq!(got.take(name), Some(Tree::word(value)), "{method}: {name}");
                }
            }
        } else if is_list && self.side.era == Era::Modern {
            wanted.put("ttlMs", "0");
            wanted.put("cacheScope", "\"private\"");
        }
    }
}

/// A stateless request as a session has it.
fn to_session(wanted: &mut Tree) {
    let params = wanted.get("params").expect("parameters");
    for own in ["inputResponses", "requestState"] {
        params.take(own);
    }
    let meta = params.get("_meta").expect("what it says of its client");
    for own in OWN {
        meta.take(own);
    }
    if meta.members().is_empty() {
        params.take("_meta");
    }
}

/// A request of a session as one that stands alone: what it says of its client is behind all else.
fn to_stateless(wanted: &mut Tree, got: &mut Tree, context: &str) {
    let params = got.get("params").unwrap_or_else(|| panic!("no parameters\n{context}"));
    let mut meta = params.take("_meta").unwrap_or_else(|| panic!("nothing of its client\n{context}"));
    let said = ["\"2026-07-28\"", CAPABILITIES[1], INFO];
    for (own, said) in OWN.iter().zip(said) {
        assert_eq!(meta.take(own), Some(Tree::read(said)), "{own}\n{context}");
    }
    let own = wanted.get("params").and_then(|params| params.take("_meta"));
    assert_eq!(meta, own.unwrap_or(Tree::Object(Vec::new())), "`_meta`\n{context}");
    if wanted.get("params").is_none() {
        assert_eq!(got.take("params"), Some(Tree::Object(Vec::new())), "{context}");
    }
}

/// Where a list has its entries, and what each is called.
fn of_list(method: &str) -> (&'static str, &'static str) {
    match method {
        "prompts/list" => ("prompts", "name"),
        "resources/list" => ("resources", "uri"),
        _ => ("resourceTemplates", "uriTemplate"),
    }
}

fn entries(method: &str, list: &mut Tree) -> Vec<Tree> {
    match list.get("result").and_then(|result| result.take(of_list(method).0)) {
        Some(Tree::List(entries)) => entries,
        other => panic!("no entries: {other:?}"),
    }
}

/// The entries of a server under the names that clients of all servers know.
fn named(method: &str, list: &mut Tree) -> Vec<Tree> {
    let before = if method == "prompts/list" { "desk__" } else { "x-desk+" };
    let mut entries = entries(method, list);
    for (nth, entry) in entries.iter_mut().enumerate() {
        entry.put(of_list(method).1, &format!("\"{before}x://{nth}/a\""));
    }
    entries
}

async fn come_through(era: Era, far: Era, path: &'static str) {
    let across = Across::start(era, far, path).await;
    let messages = (number_of("GATELODGE_FIDELITY_MESSAGES", FEW) / 10).min(4_000);
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..super::WORKERS {
        let across = Arc::clone(&across);
        workers.spawn(async move {
            let mut chance = Chance::new(across.side.seed.wrapping_mul(2_000_003).wrapping_add(worker as u64));
            let mut nth = 0;
            while across.side.count.load(Ordering::Relaxed) < messages {
                across.check(&mut chance, format!("{worker}-{nth}")).await;
                nth += 1;
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.expect("all as it was");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_modern_clients_and_legacy_servers_come_through_but_for_what_the_eras_say_otherwise() {
    come_through(Era::Modern, Era::Legacy, "/mcp/desk").await;
    come_through(Era::Modern, Era::Legacy, "/mcp").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_legacy_clients_and_modern_servers_come_through_but_for_what_the_eras_say_otherwise() {
    come_through(Era::Legacy, Era::Modern, "/mcp/desk").await;
    come_through(Era::Legacy, Era::Modern, "/mcp").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_through_where_all_servers_are_one_but_for_the_names_that_clients_know() {
    come_through(Era::Legacy, Era::Legacy, "/mcp").await;
    come_through(Era::Modern, Era::Modern, "/mcp").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_lists_come_through_where_all_servers_are_one_but_for_the_names_that_clients_know() {
    for (era, far) in
        [(Era::Legacy, Era::Legacy), (Era::Modern, Era::Modern), (Era::Modern, Era::Legacy), (Era::Legacy, Era::Modern)]
    {
        let across = Across::start(era, far, "/mcp").await;
        let mut chance = Chance::new(across.side.seed.wrapping_mul(4_000_037));
        for nth in 0..30 {
            // A server that is slow for once is not waited for, and what it said is in the next list.
            for attempt in 0.. {
                let (got, wanted) = across.listed(&mut chance, &format!("{nth}-{attempt}")).await;
                if got == wanted {
                    break;
                }
                assert!(attempt < 5, "{era:?} to {far:?}, list {nth}\nwanted {wanted:?}\ngot {got:?}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}
