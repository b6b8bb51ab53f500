//! Helpers that the tests share: a stateless client, incremental reads of a stream, and building blocks for scripted
//! servers.
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

/// A policy that allows everything.
pub const ALLOW_ALL: &str = r#"{"version":"1","default":"allow"}"#;
pub const VERSION: &str = "2026-07-28";
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Returns a stateless request with the id 3.
pub fn stateless_request(method: &str, mut params: Value, capabilities: &Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string()
}

/// A stateless client: the token that it sends, and the path that it sends requests to.
#[derive(Clone, Copy)]
pub struct StatelessClient<'a> {
    gw: &'a TestGateway,
    token: &'a GrantToken,
    path: &'a str,
}

impl<'a> StatelessClient<'a> {
    /// Returns a client of the first grant, at the endpoint of its first server.
    pub fn new(gw: &'a TestGateway) -> Self {
        Self { gw, token: &gw.token, path: "/mcp/desk" }
    }

    pub fn with_token(self, token: &'a GrantToken) -> Self {
        Self { token, ..self }
    }

    pub fn at_aggregate(self) -> Self {
        Self { path: "/mcp", ..self }
    }

    /// Sends a request as a client with all capabilities, and returns the response.
    pub async fn request(self, method: &str, params: Value) -> TestResponse {
        self.request_with_capabilities(method, params, &json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {TASKS_EXTENSION: {}}})).await
    }

    pub async fn call(self, tool: &str, arguments: Value) -> TestResponse {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    pub async fn request_with_capabilities(self, method: &str, params: Value, capabilities: &Value) -> TestResponse {
        let name = subject_name(&params).map(|name| header_value(&name));
        self.request_with_name(name.as_deref(), method, params, capabilities).await
    }

    /// Sends a request with `name` as the `Mcp-Name` header, without encoding it.
    pub async fn request_with_name(
        self,
        name: Option<&str>,
        method: &str,
        params: Value,
        capabilities: &Value,
    ) -> TestResponse {
        let text = self.text(name, method, params, capabilities, "Connection: close\r\n");
        exchange(self.gw.address, text.as_bytes()).await
    }

    /// Sends a request and returns the connection, from which the test reads the response.
    pub async fn start_request(self, method: &str, params: Value) -> TcpStream {
        self.start_request_with_capabilities(method, params, &json!({"elicitation": {}})).await
    }

    pub async fn start_request_with_capabilities(self, method: &str, params: Value, capabilities: &Value) -> TcpStream {
        let name = subject_name(&params).map(|name| header_value(&name));
        let text = self.text(name.as_deref(), method, params, capabilities, "");
        connect_and_send(self.gw, &text).await
    }

    fn text(self, name: Option<&str>, method: &str, params: Value, capabilities: &Value, more: &str) -> String {
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let headers = format!("{more}MCP-Protocol-Version: {VERSION}\r\nMcp-Method: {method}\r\n{name}");
        http_request(self.gw, "POST", self.path, self.token, &headers, &stateless_request(method, params, capabilities))
    }
}

/// Returns what the `Mcp-Name` header of a request with these parameters must contain.
fn subject_name(params: &Value) -> Option<String> {
    ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()).map(str::to_owned)
}

/// Returns a name as a header value, encoded if it contains anything but visible ASCII.
pub fn header_value(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_graphic()) { name.to_owned() } else { base64_header_value(name) }
}

pub fn base64_header_value(name: &str) -> String {
    format!("=?base64?{}?=", BASE64.encode(name.as_bytes()))
}

fn http_request(gw: &TestGateway, verb: &str, path: &str, token: &GrantToken, headers: &str, body: &str) -> String {
    format!(
        "{verb} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        gw.address,
        token.reveal(),
        body.len()
    )
}

async fn connect_and_send(gw: &TestGateway, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    stream.write_all(text.as_bytes()).await.expect("sent");
    stream
}

/// Sends a request in the session of [`TestGateway`] and returns the connection, from which the test reads the response.
pub async fn start_request_in_session(gw: &TestGateway, verb: &str, path: &str, more: &str, body: &str) -> TcpStream {
    let headers = format!("Mcp-Session-Id: {}\r\n{more}", gw.session());
    connect_and_send(gw, &http_request(gw, verb, path, &gw.token, &headers, body)).await
}

pub async fn delete_session(gw: &TestGateway, path: &str, more: &[(&str, &str)]) -> TestResponse {
    let (bearer, session) = (format!("Bearer {}", gw.token.reveal()), gw.session());
    let required = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_str())];
    let headers: Vec<_> = required.iter().chain(more).copied().collect();
    gw.send_raw("DELETE", path, &headers, b"").await
}

/// Reads from a stream until it contains `text` `count` times, and returns all that was read.
pub async fn read_until(stream: &mut TcpStream, text: &str, count: usize) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    let reading = async {
        while String::from_utf8_lossy(&all).matches(text).count() < count {
            let read = stream.read(&mut buffer).await.expect("readable");
            assert_ne!(read, 0, "the stream ended before {text}: {}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&buffer[..read]);
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(5), reading).await;
    assert!(done.is_ok(), "no {text} in time: {}", String::from_utf8_lossy(&all));
    String::from_utf8_lossy(&all).into_owned()
}

/// Returns what arrives on a stream within `time`.
pub async fn read_for(stream: &mut TcpStream, time: Duration) -> String {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(time, stream.read_to_end(&mut all)).await;
    String::from_utf8_lossy(&all).into_owned()
}

/// Polls a condition for up to 5 s.
pub async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..250 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("did not happen in time: {what}");
}

/// Stops a server and waits until connecting to it fails.
pub async fn stop_and_wait(upstream: &FakeUpstream) {
    upstream.stop();
    let url = upstream.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    for _ in 0..250 {
        if TcpStream::connect(address).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server still accepts connections");
}

/// Runs cases concurrently, because they wait most of the time.
pub async fn run_concurrently(cases: impl IntoIterator<Item = impl Future<Output = ()> + Send + 'static>) {
    let mut running: JoinSet<()> = cases.into_iter().collect();
    while let Some(done) = running.join_next().await {
        done.expect("no case panics");
    }
}

/// Replaces the policy of the first grant for all its servers.
pub fn replace_policy(gw: &TestGateway, policy: &str) {
    let policy = parse(policy.as_bytes(), DocumentFormat::Json).expect("a policy");
    let active = Arc::new(ActivePolicy { name: "books".parse().expect("a name"), version: PolicyVersion(2), policy });
    gw.change_grants(|grants| {
        let grant = grants.iter_mut().find(|grant| grant.id == GrantId("ci".into())).expect("the grant");
        grant.servers.values_mut().for_each(|attachment| attachment.policy = Some(Arc::clone(&active)));
    });
}

/// Returns how many requests with a method reached an upstream.
pub fn count_requests(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|hit| hit.method() == method).count()
}

/// Returns the JSON-RPC response to a request.
pub fn result_message(hit: &RecordedRequest, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result})
}

/// Responds to a request with a result.
pub fn result_response(hit: &RecordedRequest, result: &Value) -> Option<ResponseScript> {
    Some(json_response("200 OK", "", &result_message(hit, result).to_string()))
}

/// Responds as a minimal stateless server. Returns `None` for methods other than discovery and `tools/list`.
pub fn stateless_server_response(hit: &RecordedRequest, tools: &Value, capabilities: &Value) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "initialize" => Some(json_response(
            "404 Not Found",
            "",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}"#,
        )),
        "server/discover" => result_response(
            hit,
            &json!({"resultType": "complete", "supportedVersions": [VERSION], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public"}),
        ),
        "tools/list" => {
            result_response(hit, &json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"}))
        }
        _ => None,
    }
}

/// Returns a message as an event of a stream.
pub fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// Returns an event stream that writes each part after its pause, and then ends.
pub fn event_stream(parts: &[(&str, Duration)]) -> ResponseScript {
    let mut script = event_stream_headers();
    for (text, pause) in parts {
        script.push(ScriptStep::Pause(*pause));
        script.push(ScriptStep::Write(chunk(text)));
    }
    script.push(ScriptStep::Write(b"0\r\n\r\n".to_vec()));
    script
}

/// Returns the status line and headers of an event stream.
pub fn event_stream_headers() -> ResponseScript {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    vec![ScriptStep::Write(head.as_bytes().to_vec())]
}

/// Returns a text as a chunk of a chunked body.
pub fn chunk(text: &str) -> Vec<u8> {
    if text.is_empty() { Vec::new() } else { format!("{:x}\r\n{text}\r\n", text.len()).into_bytes() }
}

/// Captured log output.
#[derive(Clone, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Captures what this thread logs until the guard is dropped.
    pub fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_ansi(false);
        let guard = tracing::subscriber::set_default(subscriber.with_writer(log.clone()).finish());
        (log, guard)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for CapturedLog {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
