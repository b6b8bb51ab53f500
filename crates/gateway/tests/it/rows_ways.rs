//! What tests of rows share that hold on every way: a client that comes in one of seven, before a server of one of five
//! kinds that says what it was told to say.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use gatelodge_testkit::{
    FakeSseUpstream, FakeUpstream, RecordedRequest, ScriptStep, SsePostReply, SseTestClient, TestGateway,
    TestGatewayBuilder, TestResponse, json_response,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};

use super::rows_kit::{VERSION, in_head};

/// How a client comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Session,
    Stateless,
    Sse,
    Lines,
    StatelessLines,
    SessionAtAll,
    StatelessAtAll,
}

impl Way {
    pub const EVERY: [Self; 7] = [
        Self::Session,
        Self::Stateless,
        Self::Sse,
        Self::Lines,
        Self::StatelessLines,
        Self::SessionAtAll,
        Self::StatelessAtAll,
    ];

    pub fn is_stateless(self) -> bool {
        matches!(self, Self::Stateless | Self::StatelessLines | Self::StatelessAtAll)
    }

    pub fn is_at_all(self) -> bool {
        matches!(self, Self::SessionAtAll | Self::StatelessAtAll)
    }

    /// Whether each request has a head of its own.
    pub fn has_heads(self) -> bool {
        !matches!(self, Self::Sse | Self::Lines | Self::StatelessLines)
    }

    pub fn path(self) -> &'static str {
        if self.is_at_all() { "/mcp" } else { "/mcp/desk" }
    }

    /// A tool, a prompt or a task as a client of this way calls it.
    pub fn name(self, own: &str) -> String {
        if self.is_at_all() { format!("desk__{own}") } else { own.to_owned() }
    }

    pub fn uri(self, own: &str) -> String {
        if self.is_at_all() { format!("x-desk+{own}") } else { own.to_owned() }
    }

    /// The parameters of a request with the names that this client knows.
    pub fn named(self, mut params: Value) -> Value {
        for place in ["name", "uri", "taskId"] {
            let make = if place == "uri" { Self::uri } else { Self::name };
            for at in ["", "/ref"] {
                if let Some(own) = params.pointer_mut(&format!("{at}/{place}")) {
                    *own = json!(make(self, own.as_str().expect("a name")));
                }
            }
        }
        params
    }
}

/// All that came for one request. Only what comes by HTTP of its own has a status and a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub status: Option<u16>,
    pub headers: Vec<(String, String)>,
    /// The messages; the last is the answer.
    pub texts: Vec<String>,
}

impl Heard {
    fn of(answer: &TestResponse) -> Self {
        let headers = answer.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
        let is_stream = answer.header("content-type") == Some("text/event-stream");
        let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        let texts = if is_stream { data.collect() } else { vec![answer.body.clone()] };
        Self { status: Some(answer.status), headers, texts }
    }

    pub fn text(&self) -> &str {
        self.texts.last().expect("an answer")
    }

    pub fn answer(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub fn code(&self) -> i64 {
        self.answer()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {self:?}"))
    }

    /// What a tool said.
    pub fn said(&self) -> String {
        self.answer()["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {self:?}")).to_owned()
    }

    /// The same with another word in place of one.
    pub fn with(mut self, one: &str, other: &str) -> Self {
        self.texts.iter_mut().for_each(|text| *text = text.replace(one, other));
        self
    }
}

/// A client that has shaken hands where its way has handshakes.
pub struct Client<'g> {
    pub way: Way,
    gw: &'g TestGateway,
    session: Option<String>,
    events: Option<SseTestClient>,
    lines: Option<(DuplexStream, Lines<BufReader<DuplexStream>>)>,
}

impl<'g> Client<'g> {
    pub async fn open(gw: &'g TestGateway, way: Way) -> Self {
        Self::open_in(gw, way, "2025-11-25").await
    }

    /// Shakes hands in a revision, where its way has handshakes.
    pub async fn open_in(gw: &'g TestGateway, way: Way, revision: &str) -> Self {
        let mut own = Self { way, gw, session: None, events: None, lines: None };
        match way {
            Way::Sse => own.events = Some(SseTestClient::open(gw).await),
            Way::Lines | Way::StatelessLines => own.lines = Some(own.at_lines()),
            _ => {}
        }
        if !way.is_stateless() {
            let hello =
                json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}});
            let heard = own.ask("initialize", hello).await;
            assert_eq!(heard.answer()["result"]["protocolVersion"], revision, "{way:?}: {heard:?}");
            own.session = heard.headers.iter().find(|(name, _)| name == "mcp-session-id").map(|(_, id)| id.clone());
            own.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        }
        own
    }

    fn at_lines(&self) -> (DuplexStream, Lines<BufReader<DuplexStream>>) {
        let (own, input) = tokio::io::duplex(64 << 10);
        let (output, answers) = tokio::io::duplex(64 << 10);
        let (gateway, token) = (self.gw.gateway.clone(), self.gw.token.hash());
        let name = "desk".parse().expect("a name");
        tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
        (own, BufReader::new(answers).lines())
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> Heard {
        self.ask("tools/call", json!({"name": self.way.name(tool), "arguments": arguments})).await
    }

    pub async fn ask(&mut self, method: &str, params: Value) -> Heard {
        self.ask_with(&[], method, params).await
    }

    /// With further members of the head, where there is one; what stands alone has its usual ones beside them, if they
    /// do not say otherwise.
    pub async fn ask_with(&mut self, headers: &[(&str, &str)], method: &str, mut params: Value) -> Heard {
        let named = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()).map(in_head);
        let mut all = headers.to_vec();
        if self.way.is_stateless() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
            let name = named.as_deref().map(|name| ("Mcp-Name", name));
            let usual = [Some(("MCP-Protocol-Version", VERSION)), Some(("Mcp-Method", method)), name];
            let is_said = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
            all.extend(usual.into_iter().flatten().filter(|(name, _)| !is_said(name)));
            all.retain(|(_, value)| !value.is_empty());
        }
        let text = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string();
        self.send(&all, &text).await
    }

    /// Sends a text as it is, and gives what comes until an answer does.
    pub async fn send(&mut self, headers: &[(&str, &str)], text: &str) -> Heard {
        if self.way.has_heads() {
            return Heard::of(&self.post(headers, text).await);
        }
        self.say(text).await;
        let mut texts = Vec::new();
        loop {
            let text = self.next().await;
            let message: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
            texts.push(text);
            if message["method"].is_null() {
                return Heard { status: None, headers: Vec::new(), texts };
            }
        }
    }

    /// What comes next on the one stream of this client.
    pub async fn next(&mut self) -> String {
        let next = async {
            match (&mut self.events, &mut self.lines) {
                (Some(events), _) => events.next_event().await.expect("an event").1,
                (_, Some((_, lines))) => lines.next_line().await.expect("it can be read").expect("a line"),
                _ => panic!("{:?} has no stream", self.way),
            }
        };
        tokio::time::timeout(Duration::from_secs(30), next).await.expect("something in time")
    }

    async fn post(&self, headers: &[(&str, &str)], text: &str) -> TestResponse {
        let bearer = format!("Bearer {}", self.gw.token.reveal());
        let mut all = vec![
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        all.extend(self.session.as_deref().map(|session| ("Mcp-Session-Id", session)));
        all.extend_from_slice(headers);
        self.gw.send_raw("POST", self.way.path(), &all, text.as_bytes()).await
    }

    /// Sends what wants no answer.
    pub async fn say(&mut self, text: &str) {
        match (&self.events, &mut self.lines) {
            (Some(events), _) => assert_eq!(events.post(text).await.status, 202, "{text}"),
            (_, Some((input, _))) => {
                input.write_all(format!("{text}\n").as_bytes()).await.expect("it can be written");
            }
            _ => assert_eq!(self.post(&[], text).await.status, 202, "{text}"),
        }
    }
}

/// What kind of server there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    Legacy,
    Modern,
    Sse,
    Child,
    ModernChild,
}

impl ServerKind {
    pub const EVERY: [Self; 5] = [Self::Legacy, Self::Modern, Self::Sse, Self::Child, Self::ModernChild];

    pub fn is_modern(self) -> bool {
        matches!(self, Self::Modern | Self::ModernChild)
    }
}

/// What a server says: under a method, or a method and what it names, the member of the answer as it is written, or all
/// of the answer. In a handshake it agrees to `REVISION`.
pub type Words = Vec<(&'static str, String)>;

/// A server, and everything that it got.
pub enum Server {
    Http(FakeUpstream),
    Sse(FakeSseUpstream),
    Child(TempDir, String),
}

impl Server {
    pub async fn start(kind: ServerKind, tools: Value, words: Words) -> Self {
        let words = Arc::new(all_words(kind, &tools, words));
        match kind {
            ServerKind::Legacy | ServerKind::Modern => Self::Http(
                FakeUpstream::start(tools, move |hit| {
                    let answer = answer_to(hit, &words)?;
                    let session = if hit.method() == "initialize" { "mcp-session-id: theirs\r\n" } else { "" };
                    let status = if answer.contains("no such method") { "404 Not Found" } else { "200 OK" };
                    Some(json_response(status, session, &answer))
                })
                .await,
            ),
            ServerKind::Sse => {
                let handler = move |hit: &RecordedRequest| {
                    let event = format!("event: message\ndata: {}\n\n", answer_to(hit, &words)?);
                    Some(SsePostReply::accept_then(vec![ScriptStep::Write(event.into_bytes())]))
                };
                Self::Sse(FakeSseUpstream::start(&[], handler).await)
            }
            ServerKind::Child | ServerKind::ModernChild => {
                let directory = tempfile::tempdir().expect("a directory");
                let at = |file: &str| directory.path().join(file);
                std::fs::write(at("server.py"), PROCESS).expect("written");
                let table: serde_json::Map<String, Value> =
                    words.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
                std::fs::write(at("words"), Value::Object(table).to_string()).expect("written");
                let script = ["server.py", "words", "heard"].map(|file| at(file).display().to_string()).join(" ");
                let environment = format!("env | sed 's/^/environment /' >> {}", at("heard").display());
                Self::Child(directory, format!("{environment}; exec python3 {script}"))
            }
        }
    }

    /// Starts a gateway before it.
    pub async fn before(&self, builder: TestGatewayBuilder) -> TestGateway {
        match self {
            Self::Http(server) => builder.start(server).await,
            Self::Sse(server) => builder.start_at(&server.url()).await,
            Self::Child(_, script) => builder.start_process(script).await,
        }
    }

    /// Everything that it got, as it came: heads and bodies, or the environment and lines.
    pub fn raw(&self) -> String {
        let all = |hits: Vec<RecordedRequest>| hits.iter().map(|hit| format!("{hit:?}\n")).collect();
        match self {
            Self::Http(server) => all(server.requests()),
            Self::Sse(server) => all(server.requests()),
            Self::Child(directory, _) => std::fs::read_to_string(directory.path().join("heard")).unwrap_or_default(),
        }
    }

    /// The messages that reached it.
    pub fn messages(&self) -> Vec<Value> {
        let messages =
            |hits: Vec<RecordedRequest>| hits.iter().map(RecordedRequest::message).filter(Value::is_object).collect();
        match self {
            Self::Http(server) => messages(server.requests()),
            // It is asked in other ways first.
            Self::Sse(server) => {
                messages(server.requests().into_iter().filter(|hit| hit.request_line.contains("/message")).collect())
            }
            Self::Child(..) => {
                let raw = self.raw();
                let lines = raw.lines().filter(|line| !line.starts_with("environment"));
                lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
            }
        }
    }

    pub fn count(&self, method: &str) -> usize {
        self.messages().iter().filter(|message| message["method"] == method).count()
    }
}

/// A process that writes down what it hears, and says what it was told to. Its shell writes down its environment.
const PROCESS: &str = r#"
import json, sys
words, heard = json.load(open(sys.argv[1])), open(sys.argv[2], "a")
for line in sys.stdin:
    heard.write(line)
    heard.flush()
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method is None or "id" not in message:
        continue
    about = params.get("name") or params.get("uri") or ""
    said = words.get(method + " " + about) or words.get(method) or '"result":{}'
    said = said.replace("REVISION", params.get("protocolVersion", ""))
    print(said if said[0] == "{" else '{"jsonrpc":"2.0","id":' + json.dumps(message["id"]) + "," + said + "}", flush=True)
"#;

fn all_words(kind: ServerKind, tools: &Value, words: Words) -> Words {
    let able = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
    let welcome =
        json!({"protocolVersion": "REVISION", "capabilities": able, "serverInfo": {"name": "s", "version": "1"}});
    let discovered = json!({"resultType": "complete", "supportedVersions": [VERSION], "capabilities": able, "ttlMs": 0, "cacheScope": "public"});
    let none = r#""error":{"code":-32601,"message":"no such method"}"#.to_owned();
    let (hello, discover) = match kind.is_modern() {
        true => (none, format!("\"result\":{discovered}")),
        false => (format!("\"result\":{welcome}"), none),
    };
    let list = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"});
    let own = [("initialize", hello), ("server/discover", discover), ("tools/list", format!("\"result\":{list}"))];
    words.into_iter().chain(own).collect()
}

fn answer_to(hit: &RecordedRequest, words: &Words) -> Option<String> {
    let (message, method) = (hit.message(), hit.method());
    let about = ["name", "uri"].iter().find_map(|key| message["params"][key].as_str()).unwrap_or_default();
    let find = |key: &str| words.iter().find(|(own, _)| *own == key).map(|(_, text)| text);
    let said = find(&format!("{method} {about}")).or_else(|| find(&method))?;
    let said = said.replace("REVISION", message["params"]["protocolVersion"].as_str().unwrap_or_default());
    let whole = || format!(r#"{{"jsonrpc":"2.0","id":{},{said}}}"#, message["id"]);
    Some(if said.starts_with('{') { said.clone() } else { whole() })
}
