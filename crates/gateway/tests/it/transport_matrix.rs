//! Support for tests of transport pairings: a client over one of seven transports, and a server of one of five kinds
//! with canned responses.
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

use super::support::{STATELESS_REVISION, header_value};

/// Transport, protocol generation and endpoint of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTransport {
    StatefulHttp,
    StatelessHttp,
    Sse,
    StatefulStdio,
    StatelessStdio,
    StatefulAggregate,
    StatelessAggregate,
}

impl ClientTransport {
    pub const ALL: [Self; 7] = [
        Self::StatefulHttp,
        Self::StatelessHttp,
        Self::Sse,
        Self::StatefulStdio,
        Self::StatelessStdio,
        Self::StatefulAggregate,
        Self::StatelessAggregate,
    ];

    pub fn is_stateless(self) -> bool {
        matches!(self, Self::StatelessHttp | Self::StatelessStdio | Self::StatelessAggregate)
    }

    pub fn is_aggregate(self) -> bool {
        matches!(self, Self::StatefulAggregate | Self::StatelessAggregate)
    }

    /// Whether each request has HTTP headers of its own.
    pub fn has_headers(self) -> bool {
        !matches!(self, Self::Sse | Self::StatefulStdio | Self::StatelessStdio)
    }

    pub fn path(self) -> &'static str {
        if self.is_aggregate() { "/mcp" } else { "/mcp/desk" }
    }

    /// Name of a tool, prompt or task as this client sees it.
    pub fn exposed_name(self, name: &str) -> String {
        if self.is_aggregate() { format!("desk__{name}") } else { name.to_owned() }
    }

    pub fn exposed_uri(self, uri: &str) -> String {
        if self.is_aggregate() { format!("x-desk+{uri}") } else { uri.to_owned() }
    }

    /// Parameters of a request with the names that this client sees.
    pub fn exposed_params(self, mut params: Value) -> Value {
        for key in ["name", "uri", "taskId"] {
            let expose = if key == "uri" { Self::exposed_uri } else { Self::exposed_name };
            for parent in ["", "/ref"] {
                if let Some(name) = params.pointer_mut(&format!("{parent}/{key}")) {
                    *name = json!(expose(self, name.as_str().expect("a name")));
                }
            }
        }
        params
    }
}

/// Everything that a client receives for one request. Only transports with an HTTP response per request have a status
/// and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestReply {
    pub status: Option<u16>,
    pub headers: Vec<(String, String)>,
    /// Received messages; the last is the response.
    pub messages: Vec<String>,
}

impl TestReply {
    fn from_response(response: &TestResponse) -> Self {
        let headers = response.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
        let is_stream = response.header("content-type") == Some("text/event-stream");
        let data = response.body.lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        let messages = if is_stream { data.collect() } else { vec![response.body.clone()] };
        Self { status: Some(response.status), headers, messages }
    }

    pub fn text(&self) -> &str {
        self.messages.last().expect("an answer")
    }

    pub fn response(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub fn code(&self) -> i64 {
        self.response()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {self:?}"))
    }

    /// Text of a tool result.
    pub fn tool_text(&self) -> String {
        self.response()["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("no text: {self:?}"))
            .to_owned()
    }

    /// Replaces a text in all messages.
    pub fn replacing(mut self, from: &str, to: &str) -> Self {
        self.messages.iter_mut().for_each(|text| *text = text.replace(from, to));
        self
    }
}

/// Client over any transport; a stateful one has initialized a session.
pub struct TestClient<'g> {
    pub transport: ClientTransport,
    gw: &'g TestGateway,
    session: Option<String>,
    events: Option<SseTestClient>,
    lines: Option<(DuplexStream, Lines<BufReader<DuplexStream>>)>,
}

impl<'g> TestClient<'g> {
    pub async fn open(gw: &'g TestGateway, transport: ClientTransport) -> Self {
        Self::open_with_revision(gw, transport, "2025-11-25").await
    }

    /// Opens a client; a stateful one initializes a session in `revision`.
    pub async fn open_with_revision(gw: &'g TestGateway, transport: ClientTransport, revision: &str) -> Self {
        let mut client = Self { transport, gw, session: None, events: None, lines: None };
        match transport {
            ClientTransport::Sse => client.events = Some(SseTestClient::open(gw).await),
            ClientTransport::StatefulStdio | ClientTransport::StatelessStdio => {
                client.lines = Some(client.open_stdio())
            }
            _ => {}
        }
        if !transport.is_stateless() {
            let initialize =
                json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}});
            let reply = client.request("initialize", initialize).await;
            assert_eq!(reply.response()["result"]["protocolVersion"], revision, "{transport:?}: {reply:?}");
            client.session = reply.headers.iter().find(|(name, _)| name == "mcp-session-id").map(|(_, id)| id.clone());
            client.send_notification(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        }
        client
    }

    fn open_stdio(&self) -> (DuplexStream, Lines<BufReader<DuplexStream>>) {
        let (client, input) = tokio::io::duplex(64 << 10);
        let (output, responses) = tokio::io::duplex(64 << 10);
        let (gateway, token) = (self.gw.gateway.clone(), self.gw.token.hash());
        let name = "desk".parse().expect("a name");
        tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
        (client, BufReader::new(responses).lines())
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> TestReply {
        self.request("tools/call", json!({"name": self.transport.exposed_name(tool), "arguments": arguments})).await
    }

    pub async fn request(&mut self, method: &str, params: Value) -> TestReply {
        self.request_with_headers(&[], method, params).await
    }

    /// Sends a request with extra HTTP headers. A stateless request also gets its usual headers unless `headers`
    /// overrides them; an empty value removes a header.
    pub async fn request_with_headers(
        &mut self,
        headers: &[(&str, &str)],
        method: &str,
        mut params: Value,
    ) -> TestReply {
        let name_header = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()).map(header_value);
        let mut all = headers.to_vec();
        if self.transport.is_stateless() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(STATELESS_REVISION);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
            let name = name_header.as_deref().map(|name| ("Mcp-Name", name));
            let usual = [Some(("MCP-Protocol-Version", STATELESS_REVISION)), Some(("Mcp-Method", method)), name];
            let is_overridden = |name: &str| headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name));
            all.extend(usual.into_iter().flatten().filter(|(name, _)| !is_overridden(name)));
            all.retain(|(_, value)| !value.is_empty());
        }
        let text = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string();
        self.send(&all, &text).await
    }

    /// Sends a text unchanged and reads up to the response.
    pub async fn send(&mut self, headers: &[(&str, &str)], text: &str) -> TestReply {
        if self.transport.has_headers() {
            return TestReply::from_response(&self.post(headers, text).await);
        }
        self.send_notification(text).await;
        let mut messages = Vec::new();
        loop {
            let text = self.next().await;
            let message: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"));
            messages.push(text);
            if message["method"].is_null() {
                return TestReply { status: None, headers: Vec::new(), messages };
            }
        }
    }

    /// Next message on the client's SSE or stdio stream.
    pub async fn next(&mut self) -> String {
        let next = async {
            match (&mut self.events, &mut self.lines) {
                (Some(events), _) => events.next_event().await.expect("an event").1,
                (_, Some((_, lines))) => lines.next_line().await.expect("readable stream").expect("a line"),
                _ => panic!("{:?} has no stream", self.transport),
            }
        };
        tokio::time::timeout(Duration::from_secs(30), next).await.expect("a message within 30 s")
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
        self.gw.send_raw("POST", self.transport.path(), &all, text.as_bytes()).await
    }

    /// Sends a message without reading a response.
    pub async fn send_notification(&mut self, text: &str) {
        match (&self.events, &mut self.lines) {
            (Some(events), _) => assert_eq!(events.post(text).await.status, 202, "{text}"),
            (_, Some((input, _))) => {
                input.write_all(format!("{text}\n").as_bytes()).await.expect("writable stream");
            }
            _ => assert_eq!(self.post(&[], text).await.status, 202, "{text}"),
        }
    }
}

/// Transport and protocol generation of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    StatefulHttp,
    StatelessHttp,
    Sse,
    StatefulStdio,
    StatelessStdio,
}

impl ServerKind {
    pub const ALL: [Self; 5] =
        [Self::StatefulHttp, Self::StatelessHttp, Self::Sse, Self::StatefulStdio, Self::StatelessStdio];

    pub fn is_stateless(self) -> bool {
        matches!(self, Self::StatelessHttp | Self::StatelessStdio)
    }
}

/// Responses of a server. The key is a method, or a method and the tool, prompt or URI. The value is the `result` or
/// `error` member, or the whole message, byte for byte. `REVISION` stands for the revision that the client requested.
pub type CannedResponses = Vec<(&'static str, String)>;

/// Server with canned responses that records what it receives.
pub enum ScriptedServer {
    Http(FakeUpstream),
    Sse(FakeSseUpstream),
    Stdio(TempDir, String),
}

impl ScriptedServer {
    pub async fn start(kind: ServerKind, tools: Value, canned_responses: CannedResponses) -> Self {
        let canned_responses = Arc::new(with_defaults(kind, &tools, canned_responses));
        match kind {
            ServerKind::StatefulHttp | ServerKind::StatelessHttp => Self::Http(
                FakeUpstream::start(tools, move |hit| {
                    let response = canned_response(hit, &canned_responses)?;
                    let session = if hit.method() == "initialize" { "mcp-session-id: theirs\r\n" } else { "" };
                    let status = if response.contains("no such method") { "404 Not Found" } else { "200 OK" };
                    Some(json_response(status, session, &response))
                })
                .await,
            ),
            ServerKind::Sse => {
                let handler = move |hit: &RecordedRequest| {
                    let event = format!("event: message\ndata: {}\n\n", canned_response(hit, &canned_responses)?);
                    Some(SsePostReply::accept_then(vec![ScriptStep::Write(event.into_bytes())]))
                };
                Self::Sse(FakeSseUpstream::start(&[], handler).await)
            }
            ServerKind::StatefulStdio | ServerKind::StatelessStdio => {
                let directory = tempfile::tempdir().expect("a directory");
                let path = |file: &str| directory.path().join(file);
                std::fs::write(path("server.py"), PROCESS).expect("written");
                let table: serde_json::Map<String, Value> =
                    canned_responses.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
                std::fs::write(path("responses"), Value::Object(table).to_string()).expect("written");
                let script =
                    ["server.py", "responses", "received"].map(|file| path(file).display().to_string()).join(" ");
                let environment = format!("env | sed 's/^/environment /' >> {}", path("received").display());
                Self::Stdio(directory, format!("{environment}; exec python3 {script}"))
            }
        }
    }

    /// Starts a gateway in front of this server.
    pub async fn start_gateway(&self, builder: TestGatewayBuilder) -> TestGateway {
        match self {
            Self::Http(server) => builder.start(server).await,
            Self::Sse(server) => builder.start_at(&server.url()).await,
            Self::Stdio(_, script) => builder.start_process(script).await,
        }
    }

    /// Everything that the server received: headers and bodies, or the environment and lines of a process.
    pub fn recorded_text(&self) -> String {
        let all = |hits: Vec<RecordedRequest>| hits.iter().map(|hit| format!("{hit:?}\n")).collect();
        match self {
            Self::Http(server) => all(server.requests()),
            Self::Sse(server) => all(server.requests()),
            Self::Stdio(directory, _) => std::fs::read_to_string(directory.path().join("received")).unwrap_or_default(),
        }
    }

    /// Messages that the server received.
    pub fn messages(&self) -> Vec<Value> {
        let messages =
            |hits: Vec<RecordedRequest>| hits.iter().map(RecordedRequest::message).filter(Value::is_object).collect();
        match self {
            Self::Http(server) => messages(server.requests()),
            // Protocol detection first tries the SSE URL with other requests.
            Self::Sse(server) => {
                messages(server.requests().into_iter().filter(|hit| hit.request_line.contains("/message")).collect())
            }
            Self::Stdio(..) => {
                let raw = self.recorded_text();
                let lines = raw.lines().filter(|line| !line.starts_with("environment"));
                lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
            }
        }
    }

    pub fn count(&self, method: &str) -> usize {
        self.messages().iter().filter(|message| message["method"] == method).count()
    }
}

/// Process that records what it receives and sends the canned responses. Its shell records the environment.
const PROCESS: &str = r#"
import json, sys
responses, received = json.load(open(sys.argv[1])), open(sys.argv[2], "a")
for line in sys.stdin:
    received.write(line)
    received.flush()
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method is None or "id" not in message:
        continue
    target = params.get("name") or params.get("uri") or ""
    text = responses.get(method + " " + target) or responses.get(method) or '"result":{}'
    text = text.replace("REVISION", params.get("protocolVersion", ""))
    print(text if text[0] == "{" else '{"jsonrpc":"2.0","id":' + json.dumps(message["id"]) + "," + text + "}", flush=True)
"#;

fn with_defaults(kind: ServerKind, tools: &Value, canned_responses: CannedResponses) -> CannedResponses {
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
    let initialize_result = json!({"protocolVersion": "REVISION", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}});
    let discover_result = json!({"resultType": "complete", "supportedVersions": [STATELESS_REVISION], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public"});
    let method_not_found = r#""error":{"code":-32601,"message":"no such method"}"#.to_owned();
    let (initialize, discover) = match kind.is_stateless() {
        true => (method_not_found, format!("\"result\":{discover_result}")),
        false => (format!("\"result\":{initialize_result}"), method_not_found),
    };
    let list = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"});
    let defaults =
        [("initialize", initialize), ("server/discover", discover), ("tools/list", format!("\"result\":{list}"))];
    canned_responses.into_iter().chain(defaults).collect()
}

fn canned_response(hit: &RecordedRequest, canned_responses: &CannedResponses) -> Option<String> {
    let (message, method) = (hit.message(), hit.method());
    let target = ["name", "uri"].iter().find_map(|key| message["params"][key].as_str()).unwrap_or_default();
    let find = |key: &str| canned_responses.iter().find(|(entry, _)| *entry == key).map(|(_, text)| text);
    let text = find(&format!("{method} {target}")).or_else(|| find(&method))?;
    let text = text.replace("REVISION", message["params"]["protocolVersion"].as_str().unwrap_or_default());
    let complete_message = || format!(r#"{{"jsonrpc":"2.0","id":{},{text}}}"#, message["id"]);
    Some(if text.starts_with('{') { text.clone() } else { complete_message() })
}
