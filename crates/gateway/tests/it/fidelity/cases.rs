//! Random requests and responses, with placeholders for the values that the gateway may change.

use super::random_json::RandomJson;

/// Placeholders for values that differ between client and server. No generated text contains U+0001.
pub const ID: &str = "\u{1}id\u{1}";
pub const TOKEN: &str = "\u{1}token\u{1}";
pub const SPAN: &str = "\u{1}span\u{1}";
pub const TTL: &str = "\u{1}ttl\u{1}";
pub const SCOPE: &str = "\u{1}scope\u{1}";
/// The subject of a request, and the prompt that a completion refers to.
pub const NAME: &str = "\u{1}name\u{1}";
pub const REFERENCE: &str = "\u{1}reference\u{1}";

/// Replaces placeholders in `template`.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value))
}

/// Protocol generation of a client or server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generation {
    Stateful,
    Stateless,
}

pub const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa01c902b7-01";

/// A request, and all messages with which the server responds.
pub struct Case {
    pub key: String,
    pub method: &'static str,
    pub name: Option<&'static str>,
    /// The client's own id and progress token.
    pub id: String,
    pub token: Option<String>,
    pub has_span: bool,
    pub request: String,
    /// Messages before the response: notifications and, from stateful servers, server requests.
    pub preceding: Vec<ServerMessage>,
    pub response: String,
    pub is_stream: bool,
}

/// A notification or request of the server.
pub struct ServerMessage {
    pub text: String,
    /// Id of a server request; `None` for a notification.
    pub request_id: Option<String>,
    /// The client's response to a server request.
    pub client_response: String,
}

fn id(random: &mut RandomJson) -> String {
    match random.below(4) {
        0 => random.below(9).to_string(),
        1 => format!("\"{}\"", random.below(9)),
        2 => random.pick(&["-7", "12345678901234567890123", "\"a\\u0062\"", "\"\\\"\"", "\"ü\""]).to_owned(),
        _ => format!("\"{:x}\"", random.next()),
    }
}

/// Method, subject, and the only protocol generation that has the method.
const METHODS: &[(&str, Option<&str>, Option<Generation>)] = &[
    ("tools/call", Some("t"), None),
    ("tools/call", Some("t"), None),
    ("tools/call", Some("t"), None),
    ("resources/read", Some("note://x/%C3%BC"), None),
    ("prompts/get", Some("pü ñ"), None),
    ("completion/complete", None, None),
    ("vendor/odd.method", None, None),
    ("vendor/other", None, None),
    ("resources/list", None, None),
    ("prompts/list", None, None),
    ("resources/templates/list", None, None),
    ("ping", None, Some(Generation::Stateful)),
    ("logging/setLevel", None, Some(Generation::Stateful)),
    ("resources/subscribe", Some("note://x/1"), Some(Generation::Stateful)),
    ("server/discover", None, Some(Generation::Stateless)),
];

impl Case {
    pub fn new(random: &mut RandomJson, generation: Generation, key: String) -> Self {
        let capabilities = random.object(2, true, &[]);
        Self::with_generations(random, (generation, generation), &capabilities, key)
    }

    /// A request of a client of the first generation, and messages of a server of the second.
    pub fn with_generations(
        random: &mut RandomJson,
        (client, server): (Generation, Generation),
        capabilities: &str,
        key: String,
    ) -> Self {
        let (method, name) = loop {
            let (method, name, only) = METHODS[random.below(METHODS.len())];
            if only.is_none_or(|only| only == client && only == server) {
                break (method, name);
            }
        };
        let token = random.one_in(3).then(|| id(random));
        let has_span = random.one_in(3);
        let is_stream = random.one_in(3);
        let meta = meta(random, client, capabilities, token.is_some(), has_span);
        let request = request(random, client, &key, method, name, meta);
        // Server requests exist only in the stateful protocol; translation changes their form.
        let has_server_requests = (client, server) == (Generation::Stateful, Generation::Stateful);
        let mut preceding =
            if is_stream { preceding_messages(random, has_server_requests, &key, token.is_some()) } else { Vec::new() };
        if (client, server) == (Generation::Stateless, Generation::Stateless) {
            // A stateless client receives changes only on its subscriptions, and log messages only with a log level.
            let is_dropped = |message: &ServerMessage| {
                ["s/message\"", "list_changed\""].iter().any(|method| message.text.contains(method))
            };
            preceding.retain(|message| !is_dropped(message));
        }
        let response = response(random, server, method, !is_stream);
        Self { id: id(random), key, method, name, token, has_span, request, preceding, response, is_stream }
    }

    /// Returns the values of the name placeholders, mapped by `name` or `uri`.
    pub fn names(&self, name: impl Fn(&str) -> String, uri: impl Fn(&str) -> String) -> [(&'static str, String); 2] {
        let subject = self.name.unwrap_or_default();
        let subject = if self.method.starts_with("resources/") { uri(subject) } else { name(subject) };
        [(NAME, subject), (REFERENCE, name("p"))]
    }
}

fn meta(
    random: &mut RandomJson,
    generation: Generation,
    capabilities: &str,
    has_token: bool,
    has_span: bool,
) -> Option<String> {
    let mut members = Vec::new();
    if generation == Generation::Stateless {
        members.push(("io.modelcontextprotocol/protocolVersion", "\"2026-07-28\"".to_owned()));
        members.push(("io.modelcontextprotocol/clientCapabilities", capabilities.to_owned()));
        if random.one_in(2) {
            let name = [("name", "\"odd\"".to_owned())];
            members.push(("io.modelcontextprotocol/clientInfo", random.object(1, true, &name)));
        }
    }
    if has_token {
        members.push(("progressToken", TOKEN.to_owned()));
    }
    if has_span {
        members.push(("traceparent", format!("\"{SPAN}\"")));
        if random.one_in(2) {
            members.push(("tracestate", "\"v=\\u0031,w=2\"".to_owned()));
        }
    }
    if random.one_in(4) {
        members.push(("baggage", "\"a=b;c\"".to_owned()));
    }
    let has_meta = !members.is_empty() || random.one_in(3);
    has_meta.then(|| random.object(2, true, &members))
}

fn request(
    random: &mut RandomJson,
    generation: Generation,
    key: &str,
    method: &str,
    name: Option<&str>,
    meta: Option<String>,
) -> String {
    let mut params = Vec::new();
    params.extend(meta.map(|meta| ("_meta", meta)));
    let subject = if method.starts_with("resources/") { "uri" } else { "name" };
    params.extend(name.map(|_| (subject, format!("\"{NAME}\""))));
    match method {
        "tools/call" | "prompts/get" if random.one_in(6) => params.push(("arguments", "null".to_owned())),
        "tools/call" | "prompts/get" => params.push(("arguments", random.object(3, true, &[]))),
        "completion/complete" => {
            params.push(("ref", format!(r#"{{ "type":"ref/prompt" ,"name":"{REFERENCE}"}}"#)));
            params.push(("argument", random.object(1, true, &[])));
        }
        "logging/setLevel" => params.push(("level", "\"odd\"".to_owned())),
        _ => {}
    }
    if generation == Generation::Stateless && random.one_in(4) {
        params.push(("requestState", random.string()));
        params.push(("inputResponses", random.object(2, true, &[])));
    }
    let method = method.replace('/', random.pick(&["/", "\\/"]));
    let mut members =
        vec![("jsonrpc", "\"2.0\"".to_owned()), ("id", ID.to_owned()), ("method", format!("\"{method}\""))];
    members.push(("x-case", format!("\"{key}\"")));
    if !params.is_empty() || random.one_in(2) {
        members.push(("params", random.object(2, true, &params)));
    }
    let (before, after) = (random.white_space(true), random.white_space(true));
    format!("{before}{}{after}", random.object(1, true, &members))
}

/// Progress values in unusual spellings, each group greater than the previous one: progress that does not increase is not
/// forwarded.
const INCREASING_PROGRESS: [&[&str]; 5] = [
    &["-98765432109876543210.0123456789012345678900", "-1.50e-7", "-0"],
    &["0.1", "1.0", "1.10"],
    &["1e2", "1E+2", "100.50"],
    &["9007199254740993", "18446744073709551616"],
    &["123456789012345678901234567890", "2e30"],
];

/// Returns the messages that a server sends before its response.
fn preceding_messages(
    random: &mut RandomJson,
    has_server_requests: bool,
    key: &str,
    has_token: bool,
) -> Vec<ServerMessage> {
    (0..random.below(5))
        .map(|nth| match random.below(4) {
            0 if has_token => {
                let progress = random.pick(INCREASING_PROGRESS[nth % INCREASING_PROGRESS.len()]).to_owned();
                let members = [("progressToken", TOKEN.to_owned()), ("progress", progress)];
                ServerMessage {
                    text: notification_text(random, "notifications/progress", &members),
                    request_id: None,
                    client_response: String::new(),
                }
            }
            1 if has_server_requests => server_request(random, &format!("{key}:{nth}")),
            _ => ServerMessage { text: notification(random, &[]), request_id: None, client_response: String::new() },
        })
        .collect()
}

pub fn notification_text(random: &mut RandomJson, method: &str, params: &[(&str, String)]) -> String {
    let params = random.object(2, false, params);
    let members = [("jsonrpc", "\"2.0\"".to_owned()), ("method", format!("\"{method}\"")), ("params", params)];
    random.object(1, false, &members)
}

/// Returns a notification that the gateway forwards without interpreting it.
pub fn notification(random: &mut RandomJson, meta: &[(&str, String)]) -> String {
    let method = random.pick(&[
        "notifications/message",
        "notifications/vendor/odd",
        "notifications/prompts/list_changed",
        "notifications/elicitation/complete",
    ]);
    let meta = random.object(1, false, meta);
    notification_text(random, method, &[("_meta", meta)])
}

/// Returns a server request and the client's response to it.
fn server_request(random: &mut RandomJson, key: &str) -> ServerMessage {
    let method = random.pick(&["sampling/createMessage", "elicitation/create", "roots/list", "ping", "vendor/ask"]);
    let params = random.object(2, false, &[]);
    let members = [
        ("jsonrpc", "\"2.0\"".to_owned()),
        ("id", ID.to_owned()),
        ("method", format!("\"{method}\"")),
        ("params", params),
    ];
    let text = random.object(1, false, &members);
    let member = if random.one_in(4) { "error" } else { "result" };
    let payload = random.object(3, true, &[]);
    let members =
        [("jsonrpc", "\"2.0\"".to_owned()), ("id", ID.to_owned()), ("x-case", format!("\"{key}\"")), (member, payload)];
    ServerMessage { text, request_id: Some(id(random)), client_response: random.object(1, true, &members) }
}

fn response(random: &mut RandomJson, generation: Generation, method: &str, line_breaks: bool) -> String {
    let (member, payload) = match method {
        _ if random.one_in(8) => ("error", error(random, line_breaks)),
        "resources/list" => ("result", list(random, generation, "resources", "uri", line_breaks)),
        "prompts/list" => ("result", list(random, generation, "prompts", "name", line_breaks)),
        "resources/templates/list" => {
            ("result", list(random, generation, "resourceTemplates", "uriTemplate", line_breaks))
        }
        "resources/read" => {
            let contents: Vec<String> = (0..random.below(3)).map(|_| random.object(2, line_breaks, &[])).collect();
            ("result", result(random, line_breaks, vec![("contents", format!("[{}]", contents.join(",")))]))
        }
        _ => ("result", result(random, line_breaks, Vec::new())),
    };
    let members = [("jsonrpc", "\"2.0\"".to_owned()), ("id", ID.to_owned()), (member, payload)];
    let (before, after) = (random.white_space(line_breaks), random.white_space(line_breaks));
    format!("{before}{}{after}", random.object(1, line_breaks, &members))
}

fn error(random: &mut RandomJson, line_breaks: bool) -> String {
    let code = random.pick(&["-32602", "-32099", "17", "123456789012345678901234567890", "-32042"]).to_owned();
    let members = [("code", code), ("message", random.string()), ("data", random.value(3, line_breaks))];
    random.object(2, line_breaks, &members)
}

/// Returns a result with unknown content types.
fn result(random: &mut RandomJson, line_breaks: bool, mut members: Vec<(&'static str, String)>) -> String {
    let content: Vec<String> = (0..random.below(3))
        .map(|_| {
            let kind = random.pick(&["\"text\"", "\"hologram\"", "\"x/y\"", "7"]).to_owned();
            let text = random.string();
            random.object(2, line_breaks, &[("type", kind), ("text", text)])
        })
        .collect();
    members.push(("content", format!("[{}]", content.join(","))));
    if random.one_in(2) {
        members.push(("resultType", random.pick(&["\"complete\"", "\"vendor/odd\"", "\"task\""]).to_owned()));
    }
    if random.one_in(2) {
        members.push(("structuredContent", random.value(3, line_breaks)));
    }
    if random.one_in(4) {
        members.push(("isError", random.pick(&["true", "false"]).to_owned()));
    }
    if random.one_in(3) {
        members.push(("capabilities", random.object(2, line_breaks, &[])));
        members.push(("_meta", random.object(2, line_breaks, &[])));
    }
    random.object(2, line_breaks, &members)
}

/// Returns a list. The gateway joins its entries again, so there is no white space between them.
fn list(
    random: &mut RandomJson,
    generation: Generation,
    member: &'static str,
    key: &'static str,
    line_breaks: bool,
) -> String {
    let entries: Vec<String> = (0..random.below(4))
        .map(|nth| random.object(3, line_breaks, &[(key, format!("\"x://{nth}/\\u0061\""))]))
        .collect();
    let mut members = vec![(member, format!("[{}]", entries.join(",")))];
    if generation == Generation::Stateless {
        members.push(("ttlMs", TTL.to_owned()));
        members.push(("cacheScope", SCOPE.to_owned()));
    }
    random.object(2, line_breaks, &members)
}
