//! Fidelity between different protocol generations and at the aggregate endpoint: the tests undo the changes that
//! `docs/protocol.md` documents, and compare the rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::cases::{Case, Generation, ID, PARENT, SCOPE, SPAN, TOKEN, TTL, fill};
use super::json_tree::JsonTree;
use super::random_json::RandomJson;
use super::scripted_server::Script;
use super::{DEFAULT_MESSAGES, Setup, env_number};

/// `_meta` members with which a stateless request describes its client.
const CLIENT_META_KEYS: [&str; 3] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
];
const CAPABILITIES: [&str; 2] =
    ["{}", r#"{"x-odd" :{"n":1.10,"\u0061":[ ]},"sampling":{},"roots":{},"elicitation":{}}"#];
/// Notifications that a stateless client does not receive during a call: changes are sent to its subscriptions, log
/// messages need a log level in the request, and `elicitation/complete` is never sent in its revision.
const NOT_SENT_DURING_STATELESS_CALLS: [&str; 3] =
    ["\"notifications/message\"", "\"notifications/prompts/list_changed\"", "\"notifications/elicitation/complete\""];
const CLIENT_INFO: &str = r#"{"version":"1.10" ,"name":"\u006fdd"}"#;

/// A client and a server of two protocol generations, at the endpoint of the server or at the aggregate endpoint.
pub struct Pairing {
    pub setup: Setup,
    server_generation: Generation,
}

impl Pairing {
    pub async fn start(client_generation: Generation, server_generation: Generation, path: &'static str) -> Arc<Self> {
        let mut setup = Setup::connect(client_generation, server_generation, path).await;
        if client_generation == Generation::Stateful {
            let initialize = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{CLIENT_INFO}}}}}"#,
                CAPABILITIES[1]
            );
            setup.session = setup.send(&[], "POST", initialize).await.session;
            assert!(setup.session.is_some(), "{client_generation:?} to {server_generation:?} at {path}");
        }
        Arc::new(Self { setup, server_generation })
    }

    /// Requests one random list at the aggregate endpoint. Returns the received entries, and the server's entries under
    /// the names that clients see.
    /// Returns the received and the expected entries of a list, and whether the server answered too late for it.
    async fn list_entries(&self, random: &mut RandomJson, key: &str) -> (Vec<JsonTree>, Vec<JsonTree>, bool) {
        let case = loop {
            let case = Case::with_generations(
                random,
                (self.setup.client_generation, self.server_generation),
                "{}",
                key.to_owned(),
            );
            let is_plain = !case.is_stream && case.response.contains("\"result\"");
            if is_plain && case.method.ends_with("/list") && !case.request.contains("requestState") {
                break case;
            }
        };
        let response = fill(&case.response, &[(TTL, "60000"), (SCOPE, "\"public\"")]);
        self.setup.server.set_script(key, Script { texts: vec![response.clone()], is_stream: false });
        let token = case.token.as_deref().unwrap_or_default();
        let sent = fill(&case.request, &[(ID, &case.id), (TOKEN, token), (SPAN, PARENT)]);
        let reply = self.setup.post(case.method, None, sent).await;
        let text = reply.texts.last().expect("a response");
        (
            entries(case.method, &mut JsonTree::read(text)),
            entries_with_client_names(case.method, &mut JsonTree::read(&fill(&response, &[(ID, "0")]))),
            text.contains("gatelodge/unavailable"),
        )
    }

    fn is_aggregate(&self) -> bool {
        self.setup.path == "/mcp"
    }

    /// Sends one random request, and compares what each side receives with what the other side sent.
    async fn check(&self, random: &mut RandomJson, key: String) {
        let capabilities = random.pick(&CAPABILITIES);
        let case = loop {
            let case = Case::with_generations(
                random,
                (self.setup.client_generation, self.server_generation),
                capabilities,
                key.clone(),
            );
            // The aggregate endpoint forwards no vendor methods, combines lists, and answers some methods itself. URL
            // elicitation (-32042) differs between the generations.
            let is_forwarded = !case.method.ends_with("/list") && !case.method.starts_with("vendor/");
            let is_forwarded = is_forwarded && !["ping", "logging/setLevel", "server/discover"].contains(&case.method);
            let is_translatable =
                self.setup.client_generation == self.server_generation || !case.response.contains("-32042");
            // A `requestState` is valid only after an `input_required` result.
            let is_translatable =
                is_translatable && !(self.is_stateless_to_stateful() && case.request.contains("requestState"));
            if is_translatable && (is_forwarded || !self.is_aggregate()) {
                break case;
            }
        };
        let response = fill(&case.response, &[(TTL, "60000"), (SCOPE, "\"public\"")]);
        let messages = case.preceding.iter().map(|message| match &message.request_id {
            Some(id) => fill(&message.text, &[(ID, id)]),
            None => message.text.clone(),
        });
        let texts = messages.chain([response.clone()]).collect();
        self.setup.server.set_script(&case.key, Script { texts, is_stream: case.is_stream });
        let is_aggregate = self.is_aggregate();
        let client_names = case.names(
            |name| if is_aggregate { format!("desk__{name}") } else { name.to_owned() },
            |uri| if is_aggregate { format!("x-desk+{uri}") } else { uri.to_owned() },
        );
        let token = case.token.as_deref().unwrap_or_default();
        let sent = fill(&case.request, &[(ID, &case.id), (TOKEN, token), (SPAN, PARENT)]);
        let sent = client_names.iter().fold(sent, |text, (placeholder, name)| fill(&text, &[(placeholder, name)]));
        let reply = self.setup.post(case.method, case.name.map(|_| client_names[0].1.as_str()), sent.clone()).await;
        let context = || {
            let pairing =
                format!("{:?} to {:?} at {}", self.setup.client_generation, self.server_generation, self.setup.path);
            format!(
                "{pairing}, seed {} case {}\nsent {sent:?}\nresponse {response:?}\nreceived {:?}",
                self.setup.seed, case.key, reply.texts
            )
        };
        assert_eq!(reply.status, 200, "{}", context());
        self.compare_request(&case, &context());
        self.compare_responses(&case, &response, token, &reply.texts, &context()).await;
    }

    /// Compares the request that the server received with the one that the client sent, after translating the latter.
    fn compare_request(&self, case: &Case, context: &str) {
        let received = self.setup.server.take_received(&case.key, context);
        let gateway_id = received.gateway_id();
        let span = if case.has_span { received.span() } else { String::new() };
        let expected = fill(&case.request, &[(ID, &gateway_id), (TOKEN, &gateway_id), (SPAN, &span)]);
        let names = case.names(str::to_owned, str::to_owned);
        let expected = names.iter().fold(expected, |text, (placeholder, name)| fill(&text, &[(placeholder, name)]));
        let (mut expected, mut received) = (JsonTree::read(&expected), JsonTree::read(&received.text));
        match (self.setup.client_generation, self.server_generation) {
            (Generation::Stateless, Generation::Stateful) => to_stateful(&mut expected),
            (Generation::Stateful, Generation::Stateless) => to_stateless(&mut expected, &mut received, context),
            _ => {}
        }
        assert_eq!(received, expected, "received by the server\n{context}");
        self.setup.count_messages(1);
    }

    async fn compare_responses(&self, case: &Case, response: &str, token: &str, reply: &[String], context: &str) {
        let is_forwarded = |text: &str| {
            !self.is_stateless_to_stateful()
                || !NOT_SENT_DURING_STATELESS_CALLS.iter().any(|method| text.contains(method))
        };
        let preceding: Vec<_> = case.preceding.iter().filter(|message| is_forwarded(&message.text)).collect();
        assert_eq!(reply.len(), preceding.len() + 1, "{context}");
        for (at, (reply, message)) in reply.iter().zip(&preceding).enumerate() {
            let mut expected = fill(&message.text, &[(TOKEN, token)]);
            if message.request_id.is_some() {
                let id = serde_json::from_str::<serde_json::Value>(reply).expect("JSON")["id"].to_string();
                expected = fill(&expected, &[(ID, &id)]);
                self.setup.respond_to(&format!("{}:{at}", case.key), message, &id).await;
            }
            assert_eq!(
                JsonTree::read(reply),
                JsonTree::read(&expected),
                "received by the client before the response\n{context}"
            );
        }
        let mut expected = JsonTree::read(&fill(response, &[(ID, &case.id)]));
        let mut reply = JsonTree::read(reply.last().expect("a response"));
        self.undo_translation(case.method, &mut expected, &mut reply);
        assert_eq!(reply, expected, "received by the client\n{context}");
        self.setup.count_messages(1 + preceding.len());
    }

    /// Whether a stateless client talks to a stateful server.
    fn is_stateless_to_stateful(&self) -> bool {
        (self.setup.client_generation, self.server_generation) == (Generation::Stateless, Generation::Stateful)
    }

    /// Removes what the translation adds to a result: members that the stateless protocol requires, and cache members of
    /// lists.
    fn undo_translation(&self, method: &str, expected: &mut JsonTree, reply: &mut JsonTree) {
        let (Some(expected), Some(reply)) = (expected.get("result"), reply.get("result")) else { return };
        let is_list = method.ends_with("/list");
        if (self.setup.client_generation, self.server_generation) == (Generation::Stateful, Generation::Stateless)
            && expected.get("resultType").is_some_and(|kind| *kind == JsonTree::scalar("\"complete\""))
        {
            expected.take("resultType");
        }
        if self.is_stateless_to_stateful() {
            let mut added = vec![("resultType", "\"complete\"")];
            if is_list || expected.get("contents").is_some() {
                added.extend([("ttlMs", "0"), ("cacheScope", "\"private\"")]);
            }
            for (name, value) in added {
                if expected.get(name).is_none() {
                    assert_eq!(reply.take(name), Some(JsonTree::scalar(value)), "{method}: {name}");
                }
            }
        } else if is_list && self.setup.client_generation == Generation::Stateless {
            expected.replace("ttlMs", "0");
            expected.replace("cacheScope", "\"private\"");
        }
    }
}

/// Translates a stateless request to its stateful form.
fn to_stateful(expected: &mut JsonTree) {
    let params = expected.get("params").expect("parameters");
    for name in ["inputResponses", "requestState"] {
        params.take(name);
    }
    let meta = params.get("_meta").expect("`_meta`");
    for key in CLIENT_META_KEYS {
        meta.take(key);
    }
    if meta.members().is_empty() {
        params.take("_meta");
    }
}

/// Checks and removes what the translation of a stateful request to the stateless protocol adds.
fn to_stateless(expected: &mut JsonTree, received: &mut JsonTree, context: &str) {
    let params = received.get("params").unwrap_or_else(|| panic!("no parameters\n{context}"));
    let mut meta = params.take("_meta").unwrap_or_else(|| panic!("no `_meta`\n{context}"));
    let values = ["\"2026-07-28\"", CAPABILITIES[1], CLIENT_INFO];
    for (key, value) in CLIENT_META_KEYS.iter().zip(values) {
        assert_eq!(meta.take(key), Some(JsonTree::read(value)), "{key}\n{context}");
    }
    let client_meta = expected.get("params").and_then(|params| params.take("_meta"));
    assert_eq!(meta, client_meta.unwrap_or(JsonTree::Object(Vec::new())), "`_meta`\n{context}");
    if expected.get("params").is_none() {
        assert_eq!(received.take("params"), Some(JsonTree::Object(Vec::new())), "{context}");
    }
}

/// Returns the member with the entries of a list, and the member of an entry with its name.
fn list_members(method: &str) -> (&'static str, &'static str) {
    match method {
        "prompts/list" => ("prompts", "name"),
        "resources/list" => ("resources", "uri"),
        _ => ("resourceTemplates", "uriTemplate"),
    }
}

fn entries(method: &str, list: &mut JsonTree) -> Vec<JsonTree> {
    match list.get("result").and_then(|result| result.take(list_members(method).0)) {
        Some(JsonTree::Array(entries)) => entries,
        other => panic!("no entries: {other:?}"),
    }
}

/// Returns the entries of a server's list under the names that clients see at the aggregate endpoint.
fn entries_with_client_names(method: &str, list: &mut JsonTree) -> Vec<JsonTree> {
    let prefix = if method == "prompts/list" { "desk__" } else { "x-desk+" };
    let mut entries = entries(method, list);
    for (nth, entry) in entries.iter_mut().enumerate() {
        entry.replace(list_members(method).1, &format!("\"{prefix}x://{nth}/a\""));
    }
    entries
}

async fn assert_fidelity(client_generation: Generation, server_generation: Generation, path: &'static str) {
    let pairing = Pairing::start(client_generation, server_generation, path).await;
    let messages = (env_number("GATELODGE_FIDELITY_MESSAGES", DEFAULT_MESSAGES) / 10).min(4_000);
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..super::WORKERS {
        let pairing = Arc::clone(&pairing);
        workers.spawn(async move {
            let mut random = RandomJson::new(pairing.setup.seed.wrapping_mul(2_000_003).wrapping_add(worker as u64));
            let mut nth = 0;
            while pairing.setup.message_count.load(Ordering::Relaxed) < messages {
                pairing.check(&mut random, format!("{worker}-{nth}")).await;
                nth += 1;
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.expect("the worker finds no difference");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_between_stateless_clients_and_stateful_servers_change_only_as_documented() {
    assert_fidelity(Generation::Stateless, Generation::Stateful, "/mcp/desk").await;
    assert_fidelity(Generation::Stateless, Generation::Stateful, "/mcp").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_between_stateful_clients_and_stateless_servers_change_only_as_documented() {
    assert_fidelity(Generation::Stateful, Generation::Stateless, "/mcp/desk").await;
    assert_fidelity(Generation::Stateful, Generation::Stateless, "/mcp").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_at_the_aggregate_endpoint_change_only_in_names() {
    assert_fidelity(Generation::Stateful, Generation::Stateful, "/mcp").await;
    assert_fidelity(Generation::Stateless, Generation::Stateless, "/mcp").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_entries_at_the_aggregate_endpoint_change_only_in_names() {
    for (client_generation, server_generation) in [
        (Generation::Stateful, Generation::Stateful),
        (Generation::Stateless, Generation::Stateless),
        (Generation::Stateless, Generation::Stateful),
        (Generation::Stateful, Generation::Stateless),
    ] {
        let pairing = Pairing::start(client_generation, server_generation, "/mcp").await;
        let mut random = RandomJson::new(pairing.setup.seed.wrapping_mul(4_000_037));
        for nth in 0..30 {
            let mut was_late = false;
            for attempt in 0.. {
                let (received, expected, is_late) =
                    pairing.list_entries(&mut random, &format!("{nth}-{attempt}")).await;
                if received == expected {
                    break;
                }
                was_late |= is_late;
                assert!(
                    was_late && attempt < 5,
                    "{client_generation:?} to {server_generation:?}, list {nth}\nexpected {expected:?}\nreceived {received:?}"
                );
                // The aggregate endpoint does not wait for a server that is slow because the machine is busy. Its
                // late response is part of the next list, so that one differs as well.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}
