//! What the tests of single rows share: stateless requests, streams that are read bit by bit, and small servers.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use data_encoding::BASE64;
use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{DocumentFormat, parse};
use gatelodge_store::{GrantId, GrantToken, PolicyVersion};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, exchange, json_response,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

pub const ALL: &str = r#"{"version":"1","default":"allow"}"#;
pub const VERSION: &str = "2026-07-28";
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A stateless request, under the id 3.
pub fn stateless(method: &str, mut params: Value, capabilities: &Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string()
}

/// Whoever asks without a session: by which token, and where.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    gw: &'a TestGateway,
    token: &'a GrantToken,
    path: &'a str,
}

impl<'a> Caller<'a> {
    pub fn of(gw: &'a TestGateway) -> Self {
        Self { gw, token: &gw.token, path: "/mcp/desk" }
    }

    pub fn by(self, token: &'a GrantToken) -> Self {
        Self { token, ..self }
    }

    pub fn at_all(self) -> Self {
        Self { path: "/mcp", ..self }
    }

    pub async fn ask(self, method: &str, params: Value) -> TestResponse {
        self.ask_as(method, params, &json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {EXTENSION: {}}})).await
    }

    pub async fn call(self, tool: &str, arguments: Value) -> TestResponse {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    pub async fn ask_as(self, method: &str, params: Value, capabilities: &Value) -> TestResponse {
        let name = name_of(&params).map(|name| in_head(&name));
        self.ask_under(name.as_deref(), method, params, capabilities).await
    }

    /// With a name in the head as it is given.
    pub async fn ask_under(
        self,
        name: Option<&str>,
        method: &str,
        params: Value,
        capabilities: &Value,
    ) -> TestResponse {
        let text = self.text(name, method, params, capabilities, "Connection: close\r\n");
        exchange(self.gw.address, text.as_bytes()).await
    }

    /// Leaves the answer to be read.
    pub async fn begin(self, method: &str, params: Value) -> TcpStream {
        self.begin_as(method, params, &json!({"elicitation": {}})).await
    }

    pub async fn begin_as(self, method: &str, params: Value, capabilities: &Value) -> TcpStream {
        let name = name_of(&params).map(|name| in_head(&name));
        let text = self.text(name.as_deref(), method, params, capabilities, "");
        opened(self.gw, &text).await
    }

    fn text(self, name: Option<&str>, method: &str, params: Value, capabilities: &Value, more: &str) -> String {
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let headers = format!("{more}MCP-Protocol-Version: {VERSION}\r\nMcp-Method: {method}\r\n{name}");
        head(self.gw, "POST", self.path, self.token, &headers, &stateless(method, params, capabilities))
    }
}

/// What the head names of a request.
fn name_of(params: &Value) -> Option<String> {
    ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()).map(str::to_owned)
}

/// A name as it stands in a head.
pub fn in_head(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_graphic()) { name.to_owned() } else { encoded(name) }
}

pub fn encoded(name: &str) -> String {
    format!("=?base64?{}?=", BASE64.encode(name.as_bytes()))
}

fn head(gw: &TestGateway, verb: &str, path: &str, token: &GrantToken, headers: &str, body: &str) -> String {
    format!(
        "{verb} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        gw.address,
        token.reveal(),
        body.len()
    )
}

async fn opened(gw: &TestGateway, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    stream.write_all(text.as_bytes()).await.expect("it can be written");
    stream
}

/// Opens a request in the gateway's session, and leaves the answer to be read.
pub async fn begin_in_session(gw: &TestGateway, verb: &str, path: &str, more: &str, body: &str) -> TcpStream {
    let headers = format!("Mcp-Session-Id: {}\r\n{more}", gw.session());
    opened(gw, &head(gw, verb, path, &gw.token, &headers, body)).await
}

pub async fn delete_session(gw: &TestGateway, path: &str, more: &[(&str, &str)]) -> TestResponse {
    let (bearer, session) = (format!("Bearer {}", gw.token.reveal()), gw.session());
    let own = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_str())];
    let headers: Vec<_> = own.iter().chain(more).copied().collect();
    gw.send_raw("DELETE", path, &headers, b"").await
}

/// Reads from a stream until so many of a text are there, and gives all that came.
pub async fn read_until(stream: &mut TcpStream, text: &str, count: usize) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    let reading = async {
        while String::from_utf8_lossy(&all).matches(text).count() < count {
            let read = stream.read(&mut buffer).await.expect("it can be read");
            assert_ne!(read, 0, "it ended before {text}: {}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&buffer[..read]);
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(5), reading).await;
    assert!(done.is_ok(), "{text} does not come: {}", String::from_utf8_lossy(&all));
    String::from_utf8_lossy(&all).into_owned()
}

/// What comes on a stream for a while.
pub async fn read_for(stream: &mut TcpStream, time: Duration) -> String {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(time, stream.read_to_end(&mut all)).await;
    String::from_utf8_lossy(&all).into_owned()
}

pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..250 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

/// Has a server go away, and waits until nobody can connect to it.
pub async fn gone(upstream: &FakeUpstream) {
    upstream.stop();
    let url = upstream.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    for _ in 0..250 {
        if TcpStream::connect(address).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it does not go away");
}

/// Runs cases beside one another: most of the time they wait.
pub async fn beside(cases: impl IntoIterator<Item = impl Future<Output = ()> + Send + 'static>) {
    let mut running: JoinSet<()> = cases.into_iter().collect();
    while let Some(done) = running.join_next().await {
        done.expect("each as it should be");
    }
}

/// Gives the first grant another policy.
pub fn put_in_force(gw: &TestGateway, policy: &str) {
    let policy = parse(policy.as_bytes(), DocumentFormat::Json).expect("a policy");
    let live = Arc::new(ActivePolicy { name: "books".parse().expect("a name"), version: PolicyVersion(2), policy });
    gw.change_grants(|grants| {
        let own = grants.iter_mut().find(|grant| grant.id == GrantId("ci".into())).expect("the grant");
        own.servers.values_mut().for_each(|door| door.policy = Some(Arc::clone(&live)));
    });
}

pub fn count(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|hit| hit.method() == method).count()
}

pub fn result_of(hit: &RecordedRequest, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result})
}

/// Answers with a result.
pub fn answered(hit: &RecordedRequest, result: &Value) -> Option<ResponseScript> {
    Some(json_response("200 OK", "", &result_of(hit, result).to_string()))
}

/// Answers as every server without sessions does; none for what it does not know.
pub fn modern_answer(hit: &RecordedRequest, tools: &Value, capabilities: &Value) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "initialize" => Some(json_response(
            "404 Not Found",
            "",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}"#,
        )),
        "server/discover" => answered(
            hit,
            &json!({"resultType": "complete", "supportedVersions": [VERSION], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public"}),
        ),
        "tools/list" => {
            answered(hit, &json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"}))
        }
        _ => None,
    }
}

pub fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// A stream that says one thing after the other, with pauses before each but the first, and then ends.
pub fn stream(parts: &[(&str, Duration)]) -> ResponseScript {
    let mut script = open_stream();
    for (text, pause) in parts {
        script.push(ScriptStep::Pause(*pause));
        script.push(ScriptStep::Write(chunk(text)));
    }
    script.push(ScriptStep::Write(b"0\r\n\r\n".to_vec()));
    script
}

/// The head of a stream.
pub fn open_stream() -> ResponseScript {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    vec![ScriptStep::Write(head.as_bytes().to_vec())]
}

pub fn chunk(text: &str) -> Vec<u8> {
    if text.is_empty() { Vec::new() } else { format!("{:x}\r\n{text}\r\n", text.len()).into_bytes() }
}

/// Everything that was logged.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Begins to note what is logged in this thread, until the guard is dropped.
    pub fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_ansi(false);
        let guard = tracing::subscriber::set_default(subscriber.with_writer(log.clone()).finish());
        (log, guard)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
