//! A benchmark client with its connection and session.

use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::bench_target::BenchTarget;
use super::bench_upstream::{ANSWER_TEXT, read_http_message};

/// Request that a client repeats.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A small call in a session.
    Small,
    /// A small stateless call.
    Stateless,
    /// A call with an argument and a result of one megabyte each.
    Large,
    /// A list of this many tools.
    List(usize),
    /// A small call whose reply is an event stream.
    EventStream,
    /// A small call to one of many servers at the aggregate endpoint.
    Aggregate,
    /// A small call over stdio.
    Stdio,
}

pub const INITIALIZE_REQUEST: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const STATELESS_META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}},"#;

impl RequestKind {
    /// Path at which the upstream replies as this kind needs.
    pub fn upstream_path(self) -> String {
        match self {
            Self::List(count) => format!("/tools/{count}"),
            Self::EventStream => "/events".to_owned(),
            Self::Small | Self::Stateless | Self::Large | Self::Aggregate | Self::Stdio => "/mcp".to_owned(),
        }
    }

    pub fn is_stateless(self) -> bool {
        self == Self::Stateless
    }

    /// Additional headers of every request.
    fn extra_headers(self) -> &'static str {
        match self {
            Self::Stateless => "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: tool_50\r\n",
            _ => "",
        }
    }

    /// Returns the body of a request.
    pub fn request_body(self, at: u64, is_aggregate: bool) -> String {
        let meta = if self.is_stateless() { STATELESS_META } else { "" };
        let tool = if self == Self::Aggregate && is_aggregate { "u7__tool_50" } else { "tool_50" };
        match self {
            Self::List(_) => format!(r#"{{"jsonrpc":"2.0","id":{at},"method":"tools/list"}}"#),
            _ => {
                let note = if self == Self::Large { "x".repeat(1 << 20) } else { "for the books".to_owned() };
                format!(
                    r#"{{"jsonrpc":"2.0","id":{at},"method":"tools/call","params":{{{meta}"name":"{tool}","arguments":{{"amount":5,"currency":"eur","note":"{note}"}}}}}}"#
                )
            }
        }
    }

    /// Asserts that a reply belongs to a request and has the expected content.
    pub fn check_response(self, at: u64, answer: &str) {
        let start = &answer[..answer.len().min(300)];
        assert!(answer.contains(&format!("\"id\":{at},")), "not the reply to {at}: {start}");
        let is_expected = match self {
            Self::List(count) => answer.contains(&format!("\"tool_{}\"", count - 1)),
            _ => answer.contains(ANSWER_TEXT),
        };
        assert!(is_expected, "unexpected reply: {start}");
    }
}

/// A client with its connection.
pub struct BenchClient {
    stream: TcpStream,
    head: String,
    request_kind: RequestKind,
    is_aggregate: bool,
    last_id: u64,
    buffer: Vec<u8>,
}

impl BenchClient {
    /// Connects, and initializes a session if necessary.
    pub async fn open(target: &BenchTarget, talk: RequestKind) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", target.port)).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let token = target.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\n{token}content-type: application/json\r\naccept: application/json, text/event-stream\r\n{}",
            target.path,
            talk.extra_headers()
        );
        let is_aggregate = target.path == "/mcp" && target.token.is_some();
        let mut caller = Self { stream, head, request_kind: talk, is_aggregate, last_id: 0, buffer: Vec::new() };
        if !talk.is_stateless() {
            caller.initialize().await;
        }
        caller
    }

    async fn initialize(&mut self) {
        let (head, answer) = self.exchange(INITIALIZE_REQUEST).await;
        let session = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
        });
        let Some(session) = session else { panic!("no session: {head}\n{answer}") };
        self.head.push_str(&format!("mcp-session-id: {session}\r\n"));
    }

    /// Sends one call, checks the reply, and returns when it arrived.
    pub async fn call(&mut self) -> Instant {
        self.last_id += 1;
        let (at, talk) = (self.last_id, self.request_kind);
        let body = talk.request_body(at, self.is_aggregate);
        let (_, answer) = self.exchange(&body).await;
        let end = Instant::now();
        talk.check_response(at, answer);
        end
    }

    async fn exchange(&mut self, body: &str) -> (&str, &str) {
        let request = format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.write_all(request.as_bytes()).await.expect("sent");
        self.buffer.clear();
        read_http_message(&mut self.stream, &mut self.buffer).await.expect("an answer")
    }
}
