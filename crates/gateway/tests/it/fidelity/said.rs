//! Messages as they are said, with places for the few values that the gateway may change.

use super::chance::Chance;

/// Stands for a value that differs on the two sides. No generated text has these characters.
pub const ID: &str = "\u{1}id\u{1}";
pub const TOKEN: &str = "\u{1}token\u{1}";
pub const SPAN: &str = "\u{1}span\u{1}";
pub const TTL: &str = "\u{1}ttl\u{1}";
pub const SCOPE: &str = "\u{1}scope\u{1}";
/// What a request is about, and what a completion refers to.
pub const NAME: &str = "\u{1}name\u{1}";
pub const REFERENCE: &str = "\u{1}reference\u{1}";

/// A text with its places filled.
pub fn filled(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |text, (place, value)| text.replace(place, value))
}

/// How a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    Legacy,
    Modern,
}

pub const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa01c902b7-01";

/// A request, and everything that the server says to it.
pub struct Case {
    pub key: String,
    pub method: &'static str,
    pub name: Option<&'static str>,
    /// The client's own id and progress token.
    pub id: String,
    pub token: Option<String>,
    pub has_span: bool,
    pub request: String,
    /// What comes before the answer: notifications and, of old, questions.
    pub before: Vec<Said>,
    pub answer: String,
    pub is_stream: bool,
}

/// A message of the server's.
pub struct Said {
    pub text: String,
    /// The server's own id, if it asks; what the client answers is in `reply`.
    pub asks: Option<String>,
    pub reply: String,
}

fn id(chance: &mut Chance) -> String {
    match chance.below(4) {
        0 => chance.below(9).to_string(),
        1 => format!("\"{}\"", chance.below(9)),
        2 => chance.pick(&["-7", "12345678901234567890123", "\"a\\u0062\"", "\"\\\"\"", "\"ü\""]).to_owned(),
        _ => format!("\"{:x}\"", chance.next()),
    }
}

/// What each method is about, and for which era it is.
const METHODS: &[(&str, Option<&str>, Option<Era>)] = &[
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
    ("ping", None, Some(Era::Legacy)),
    ("logging/setLevel", None, Some(Era::Legacy)),
    ("resources/subscribe", Some("note://x/1"), Some(Era::Legacy)),
    ("server/discover", None, Some(Era::Modern)),
];

impl Case {
    pub fn new(chance: &mut Chance, era: Era, key: String) -> Self {
        let capabilities = chance.object(2, true, &[]);
        Self::between(chance, (era, era), &capabilities, key)
    }

    /// A request of a client that speaks in the first of two eras, and what a server says that speaks in the second.
    pub fn between(chance: &mut Chance, (era, far): (Era, Era), capabilities: &str, key: String) -> Self {
        let (method, name) = loop {
            let (method, name, only) = METHODS[chance.below(METHODS.len())];
            if only.is_none_or(|only| only == era && only == far) {
                break (method, name);
            }
        };
        let token = chance.one_in(3).then(|| id(chance));
        let has_span = chance.one_in(3);
        let is_stream = chance.one_in(3);
        let meta = meta(chance, era, capabilities, token.is_some(), has_span);
        let request = request(chance, era, &key, method, name, meta);
        // What a server asks becomes another thing in the other era.
        let may_ask = (era, far) == (Era::Legacy, Era::Legacy);
        let mut before = if is_stream { before(chance, may_ask, &key, token.is_some()) } else { Vec::new() };
        if (era, far) == (Era::Modern, Era::Modern) {
            // Of these one hears where one listens, or says from which level on.
            let is_astray = |said: &Said| ["s/message\"", "list_changed\""].iter().any(|own| said.text.contains(own));
            before.retain(|said| !is_astray(said));
        }
        let answer = answer(chance, far, method, !is_stream);
        Self { id: id(chance), key, method, name, token, has_span, request, before, answer, is_stream }
    }

    /// What the request names, with something before each name.
    pub fn names(&self, name: impl Fn(&str) -> String, uri: impl Fn(&str) -> String) -> [(&'static str, String); 2] {
        let own = self.name.unwrap_or_default();
        let own = if self.method.starts_with("resources/") { uri(own) } else { name(own) };
        [(NAME, own), (REFERENCE, name("p"))]
    }
}

fn meta(chance: &mut Chance, era: Era, capabilities: &str, has_token: bool, has_span: bool) -> Option<String> {
    let mut members = Vec::new();
    if era == Era::Modern {
        members.push(("io.modelcontextprotocol/protocolVersion", "\"2026-07-28\"".to_owned()));
        members.push(("io.modelcontextprotocol/clientCapabilities", capabilities.to_owned()));
        if chance.one_in(2) {
            let name = [("name", "\"odd\"".to_owned())];
            members.push(("io.modelcontextprotocol/clientInfo", chance.object(1, true, &name)));
        }
    }
    if has_token {
        members.push(("progressToken", TOKEN.to_owned()));
    }
    if has_span {
        members.push(("traceparent", format!("\"{SPAN}\"")));
        if chance.one_in(2) {
            members.push(("tracestate", "\"v=\\u0031,w=2\"".to_owned()));
        }
    }
    if chance.one_in(4) {
        members.push(("baggage", "\"a=b;c\"".to_owned()));
    }
    let is_there = !members.is_empty() || chance.one_in(3);
    is_there.then(|| chance.object(2, true, &members))
}

fn request(chance: &mut Chance, era: Era, key: &str, method: &str, name: Option<&str>, meta: Option<String>) -> String {
    let mut params = Vec::new();
    params.extend(meta.map(|meta| ("_meta", meta)));
    let subject = if method.starts_with("resources/") { "uri" } else { "name" };
    params.extend(name.map(|_| (subject, format!("\"{NAME}\""))));
    match method {
        "tools/call" | "prompts/get" if chance.one_in(6) => params.push(("arguments", "null".to_owned())),
        "tools/call" | "prompts/get" => params.push(("arguments", chance.object(3, true, &[]))),
        "completion/complete" => {
            params.push(("ref", format!(r#"{{ "type":"ref/prompt" ,"name":"{REFERENCE}"}}"#)));
            params.push(("argument", chance.object(1, true, &[])));
        }
        "logging/setLevel" => params.push(("level", "\"odd\"".to_owned())),
        _ => {}
    }
    if era == Era::Modern && chance.one_in(4) {
        params.push(("requestState", chance.string()));
        params.push(("inputResponses", chance.object(2, true, &[])));
    }
    let method = method.replace('/', chance.pick(&["/", "\\/"]));
    let mut members =
        vec![("jsonrpc", "\"2.0\"".to_owned()), ("id", ID.to_owned()), ("method", format!("\"{method}\""))];
    members.push(("x-case", format!("\"{key}\"")));
    if !params.is_empty() || chance.one_in(2) {
        members.push(("params", chance.object(2, true, &params)));
    }
    let (before, behind) = (chance.gap(true), chance.gap(true));
    format!("{before}{}{behind}", chance.object(1, true, &members))
}

/// Values of progress in odd spellings, each group more than the one before: what does not increase is not passed on.
const RISING: [&[&str]; 5] = [
    &["-98765432109876543210.0123456789012345678900", "-1.50e-7", "-0"],
    &["0.1", "1.0", "1.10"],
    &["1e2", "1E+2", "100.50"],
    &["9007199254740993", "18446744073709551616"],
    &["123456789012345678901234567890", "2e30"],
];

/// What a server says before it answers.
fn before(chance: &mut Chance, may_ask: bool, key: &str, has_token: bool) -> Vec<Said> {
    (0..chance.below(5))
        .map(|nth| match chance.below(4) {
            0 if has_token => {
                let progress = chance.pick(RISING[nth % RISING.len()]).to_owned();
                let members = [("progressToken", TOKEN.to_owned()), ("progress", progress)];
                Said { text: told(chance, "notifications/progress", &members), asks: None, reply: String::new() }
            }
            1 if may_ask => asked(chance, &format!("{key}:{nth}")),
            _ => Said { text: notification(chance, &[]), asks: None, reply: String::new() },
        })
        .collect()
}

pub fn told(chance: &mut Chance, method: &str, params: &[(&str, String)]) -> String {
    let params = chance.object(2, false, params);
    let members = [("jsonrpc", "\"2.0\"".to_owned()), ("method", format!("\"{method}\"")), ("params", params)];
    chance.object(1, false, &members)
}

/// A notification that the gateway has no opinion of.
pub fn notification(chance: &mut Chance, meta: &[(&str, String)]) -> String {
    let method = chance.pick(&[
        "notifications/message",
        "notifications/vendor/odd",
        "notifications/prompts/list_changed",
        "notifications/elicitation/complete",
    ]);
    let meta = chance.object(1, false, meta);
    told(chance, method, &[("_meta", meta)])
}

/// A question of an old server, and what its client answers.
fn asked(chance: &mut Chance, key: &str) -> Said {
    let method = chance.pick(&["sampling/createMessage", "elicitation/create", "roots/list", "ping", "vendor/ask"]);
    let params = chance.object(2, false, &[]);
    let members = [
        ("jsonrpc", "\"2.0\"".to_owned()),
        ("id", ID.to_owned()),
        ("method", format!("\"{method}\"")),
        ("params", params),
    ];
    let text = chance.object(1, false, &members);
    let what = if chance.one_in(4) { "error" } else { "result" };
    let said = chance.object(3, true, &[]);
    let members =
        [("jsonrpc", "\"2.0\"".to_owned()), ("id", ID.to_owned()), ("x-case", format!("\"{key}\"")), (what, said)];
    Said { text, asks: Some(id(chance)), reply: chance.object(1, true, &members) }
}

fn answer(chance: &mut Chance, era: Era, method: &str, breaks: bool) -> String {
    let (what, payload) = match method {
        _ if chance.one_in(8) => ("error", error(chance, breaks)),
        "resources/list" => ("result", list(chance, era, "resources", "uri", breaks)),
        "prompts/list" => ("result", list(chance, era, "prompts", "name", breaks)),
        "resources/templates/list" => ("result", list(chance, era, "resourceTemplates", "uriTemplate", breaks)),
        "resources/read" => {
            let contents: Vec<String> = (0..chance.below(3)).map(|_| chance.object(2, breaks, &[])).collect();
            ("result", result(chance, breaks, vec![("contents", format!("[{}]", contents.join(",")))]))
        }
        _ => ("result", result(chance, breaks, Vec::new())),
    };
    let members = [("jsonrpc", "\"2.0\"".to_owned()), ("id", ID.to_owned()), (what, payload)];
    let (before, behind) = (chance.gap(breaks), chance.gap(breaks));
    format!("{before}{}{behind}", chance.object(1, breaks, &members))
}

fn error(chance: &mut Chance, breaks: bool) -> String {
    let code = chance.pick(&["-32602", "-32099", "17", "123456789012345678901234567890", "-32042"]).to_owned();
    let members = [("code", code), ("message", chance.string()), ("data", chance.value(3, breaks))];
    chance.object(2, breaks, &members)
}

/// A result with content of kinds that no revision knows.
fn result(chance: &mut Chance, breaks: bool, mut members: Vec<(&'static str, String)>) -> String {
    let content: Vec<String> = (0..chance.below(3))
        .map(|_| {
            let kind = chance.pick(&["\"text\"", "\"hologram\"", "\"x/y\"", "7"]).to_owned();
            let text = chance.string();
            chance.object(2, breaks, &[("type", kind), ("text", text)])
        })
        .collect();
    members.push(("content", format!("[{}]", content.join(","))));
    if chance.one_in(2) {
        members.push(("resultType", chance.pick(&["\"complete\"", "\"vendor/odd\"", "\"task\""]).to_owned()));
    }
    if chance.one_in(2) {
        members.push(("structuredContent", chance.value(3, breaks)));
    }
    if chance.one_in(4) {
        members.push(("isError", chance.pick(&["true", "false"]).to_owned()));
    }
    if chance.one_in(3) {
        members.push(("capabilities", chance.object(2, breaks, &[])));
        members.push(("_meta", chance.object(2, breaks, &[])));
    }
    chance.object(2, breaks, &members)
}

/// A list. Its entries are joined anew, so they stand side by side; each is as odd as anything.
fn list(chance: &mut Chance, era: Era, member: &'static str, key: &'static str, breaks: bool) -> String {
    let entries: Vec<String> =
        (0..chance.below(4)).map(|nth| chance.object(3, breaks, &[(key, format!("\"x://{nth}/\\u0061\""))])).collect();
    let mut members = vec![(member, format!("[{}]", entries.join(",")))];
    if era == Era::Modern {
        members.push(("ttlMs", TTL.to_owned()));
        members.push(("cacheScope", SCOPE.to_owned()));
    }
    chance.object(2, breaks, &members)
}
