//! Test support for the integration tests: stateless requests, raw streams, scripted responses and captured logs.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use data_encoding::BASE64;
use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{DocumentFormat, parse};
use gatelodge_store::{GrantId, GrantToken, PolicyVersionNumber};
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

pub const ALLOW_ALL: &str = r#"{"version":"1","default":"allow"}"#;
pub const STATELESS_REVISION: &str = "2026-07-28";
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Body of a stateless request with id 3.
pub fn stateless_request(method: &str, mut params: Value, capabilities: &Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(STATELESS_REVISION);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string()
}

/// Client that sends stateless requests with one token to one endpoint.
#[derive(Clone, Copy)]
pub struct StatelessTestClient<'a> {
    gw: &'a TestGateway,
    token: &'a GrantToken,
    path: &'a str,
}

impl<'a> StatelessTestClient<'a> {
    pub fn new(gw: &'a TestGateway) -> Self {
        Self { gw, token: &gw.token, path: "/mcp/desk" }
    }

    pub fn with_token(self, token: &'a GrantToken) -> Self {
        Self { token, ..self }
    }

    pub fn at_aggregate(self) -> Self {
        Self { path: "/mcp", ..self }
    }

    pub async fn request(self, method: &str, params: Value) -> TestResponse {
        self.request_with_capabilities(method, params, &json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {TASKS_EXTENSION: {}}})).await
    }

    pub async fn call(self, tool: &str, arguments: Value) -> TestResponse {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    pub async fn request_with_capabilities(self, method: &str, params: Value, capabilities: &Value) -> TestResponse {
        let name = mcp_name(&params).map(|name| header_value(&name));
        self.request_with_name(name.as_deref(), method, params, capabilities).await
    }

    /// Sends a request with `name` as its `Mcp-Name` header, whatever the body says.
    pub async fn request_with_name(
        self,
        name: Option<&str>,
        method: &str,
        params: Value,
        capabilities: &Value,
    ) -> TestResponse {
        let text = self.http_request(name, method, params, capabilities, "Connection: close\r\n");
        exchange(self.gw.address, text.as_bytes()).await
    }

    /// Sends a request and returns its connection; the response is left to read.
    pub async fn start_request(self, method: &str, params: Value) -> TcpStream {
        self.start_request_with_capabilities(method, params, &json!({"elicitation": {}})).await
    }

    pub async fn start_request_with_capabilities(self, method: &str, params: Value, capabilities: &Value) -> TcpStream {
        let name = mcp_name(&params).map(|name| header_value(&name));
        let text = self.http_request(name.as_deref(), method, params, capabilities, "");
        connect_and_send(self.gw, &text).await
    }

    fn http_request(
        self,
        name: Option<&str>,
        method: &str,
        params: Value,
        capabilities: &Value,
        extra_headers: &str,
    ) -> String {
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let headers =
            format!("{extra_headers}MCP-Protocol-Version: {STATELESS_REVISION}\r\nMcp-Method: {method}\r\n{name}");
        format_request(
            self.gw,
            "POST",
            self.path,
            self.token,
            &headers,
            &stateless_request(method, params, capabilities),
        )
    }
}

/// Value of the `Mcp-Name` header for these parameters.
fn mcp_name(params: &Value) -> Option<String> {
    ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()).map(str::to_owned)
}

/// Encodes a name for a header: unchanged if it is printable ASCII, otherwise as Base64.
pub fn header_value(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_graphic()) { name.to_owned() } else { base64_header_value(name) }
}

pub fn base64_header_value(name: &str) -> String {
    format!("=?base64?{}?=", BASE64.encode(name.as_bytes()))
}

fn format_request(
    gw: &TestGateway,
    http_method: &str,
    path: &str,
    token: &GrantToken,
    headers: &str,
    body: &str,
) -> String {
    format!(
        "{http_method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        gw.address,
        token.reveal(),
        body.len()
    )
}

async fn connect_and_send(gw: &TestGateway, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
    stream.write_all(text.as_bytes()).await.expect("writable stream");
    stream
}

/// Sends a request in the session of `gw` and returns its connection; the response is left to read.
pub async fn start_in_session(
    gw: &TestGateway,
    http_method: &str,
    path: &str,
    extra_headers: &str,
    body: &str,
) -> TcpStream {
    let headers = format!("Mcp-Session-Id: {}\r\n{extra_headers}", gw.session());
    connect_and_send(gw, &format_request(gw, http_method, path, &gw.token, &headers, body)).await
}

pub async fn delete_session(gw: &TestGateway, path: &str, extra_headers: &[(&str, &str)]) -> TestResponse {
    let (bearer, session) = (format!("Bearer {}", gw.token.reveal()), gw.session());
    let required = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_str())];
    let headers: Vec<_> = required.iter().chain(extra_headers).copied().collect();
    gw.send_raw("DELETE", path, &headers, b"").await
}

/// Reads until `pattern` has arrived `count` times and returns everything that was read.
pub async fn read_until(stream: &mut TcpStream, pattern: &str, count: usize) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    let reading = async {
        while String::from_utf8_lossy(&all).matches(pattern).count() < count {
            let read = stream.read(&mut buffer).await.expect("readable stream");
            assert_ne!(read, 0, "the stream ended before `{pattern}`: {}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&buffer[..read]);
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(5), reading).await;
    assert!(done.is_ok(), "`{pattern}` did not arrive: {}", String::from_utf8_lossy(&all));
    String::from_utf8_lossy(&all).into_owned()
}

/// Reads for `time`, or until the stream ends.
pub async fn read_for(stream: &mut TcpStream, time: Duration) -> String {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(time, stream.read_to_end(&mut all)).await;
    String::from_utf8_lossy(&all).into_owned()
}

/// Polls `condition` for up to five seconds.
pub async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..250 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("timed out waiting until {what}");
}

/// Like [`wait_until`], for a condition that has to await.
pub async fn wait_until_async(what: &str, condition: impl AsyncFn() -> bool) {
    for _ in 0..250 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("timed out waiting until {what}");
}

/// Stops a server and waits until it refuses connections.
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
    panic!("the stopped server still accepts connections");
}

/// Runs cases concurrently, because they mostly wait.
pub async fn run_concurrently(cases: impl IntoIterator<Item = impl Future<Output = ()> + Send + 'static>) {
    let mut running: JoinSet<()> = cases.into_iter().collect();
    while let Some(done) = running.join_next().await {
        done.expect("a case that passes");
    }
}

/// Replaces the policy of the grant `ci` on all its servers.
pub fn activate_policy(gw: &TestGateway, policy: &str) {
    let policy = parse(policy.as_bytes(), DocumentFormat::Json).expect("a policy");
    let active =
        Arc::new(ActivePolicy { name: "books".parse().expect("a name"), version: PolicyVersionNumber(2), policy });
    gw.change_grants(|grants| {
        let grant = grants.iter_mut().find(|grant| grant.id == GrantId("ci".into())).expect("the grant");
        grant.servers.values_mut().for_each(|attachment| attachment.policy = Some(Arc::clone(&active)));
    });
}

pub fn request_count(upstream: &FakeUpstream, method: &str) -> usize {
    upstream.requests().iter().filter(|hit| hit.method() == method).count()
}

pub fn result_message(hit: &RecordedRequest, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result})
}

/// HTTP response with a JSON-RPC result.
pub fn result_response(hit: &RecordedRequest, result: &Value) -> Option<ResponseScript> {
    Some(json_response("200 OK", "", &result_message(hit, result).to_string()))
}

/// Responses that all stateless servers share; `None` for other methods.
pub fn stateless_response(hit: &RecordedRequest, tools: &Value, capabilities: &Value) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "initialize" => Some(json_response(
            "404 Not Found",
            "",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}"#,
        )),
        "server/discover" => result_response(
            hit,
            &json!({"resultType": "complete", "supportedVersions": [STATELESS_REVISION], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public"}),
        ),
        "tools/list" => {
            result_response(hit, &json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"}))
        }
        _ => None,
    }
}

pub fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// Event stream that pauses before it writes each part, and ends after the last.
pub fn timed_stream(parts: &[(&str, Duration)]) -> ResponseScript {
    let mut script = stream_headers();
    for (text, pause) in parts {
        script.push(ScriptStep::Pause(*pause));
        script.push(ScriptStep::Write(chunk(text)));
    }
    script.push(ScriptStep::Write(b"0\r\n\r\n".to_vec()));
    script
}

/// Status line and headers of an event stream in chunked encoding.
pub fn stream_headers() -> ResponseScript {
    let headers = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    vec![ScriptStep::Write(headers.as_bytes().to_vec())]
}

pub fn chunk(text: &str) -> Vec<u8> {
    if text.is_empty() { Vec::new() } else { format!("{:x}\r\n{text}\r\n", text.len()).into_bytes() }
}

/// Log output of a test thread.
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
