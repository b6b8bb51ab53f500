//! One client: its connection, its session if it has one, and what it asks.

use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::bench_target::BenchTarget;
use super::bench_upstream::{ANSWER_TEXT, read_http_message};

/// What a client asks again and again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A small call in a session.
    Small,
    /// A small call that stands alone.
    Stateless,
    /// A call with an argument and an answer of a megabyte.
    Large,
    /// The list of so many tools.
    List(usize),
    /// A small call that is answered by a stream.
    EventStream,
    /// A small call to one of many servers under one address.
    Aggregate,
    /// A small call over standard streams.
    Stdio,
}

pub const INITIALIZE_REQUEST: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const STATELESS_META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}},"#;

impl RequestKind {
    /// Where the upstream answers as this talk wants it.
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

    /// The headers of a request that every one has.
    fn extra_headers(self) -> &'static str {
        match self {
            Self::Stateless => "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: tool_50\r\n",
            _ => "",
        }
    }

    /// The request of a number.
    pub fn request_body(self, at: u64, is_behind_all: bool) -> String {
        let meta = if self.is_stateless() { STATELESS_META } else { "" };
        let tool = if self == Self::Aggregate && is_behind_all { "u7__tool_50" } else { "tool_50" };
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

    /// Holds that an answer is the one to the request of a number.
    pub fn check_response(self, at: u64, answer: &str) {
        let start = &answer[..answer.len().min(300)];
        assert!(answer.contains(&format!("\"id\":{at},")), "another answer than to {at}: {start}");
        let is_told = match self {
            Self::List(count) => answer.contains(&format!("\"tool_{}\"", count - 1)),
            _ => answer.contains(ANSWER_TEXT),
        };
        assert!(is_told, "not what was asked for: {start}");
    }
}

/// A client on its connection.
pub struct BenchClient {
    stream: TcpStream,
    head: String,
    request_kind: RequestKind,
    is_aggregate: bool,
    last_id: u64,
    buffer: Vec<u8>,
}

impl BenchClient {
    /// Connects, and shakes hands where that is done.
    pub async fn open(target: &BenchTarget, talk: RequestKind) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", target.port)).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let token = target.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\n{token}content-type: application/json\r\naccept: application/json, text/event-stream\r\n{}",
            target.path,
            talk.extra_headers()
        );
        let is_behind_all = target.path == "/mcp" && target.token.is_some();
        let mut caller =
            Self { stream, head, request_kind: talk, is_aggregate: is_behind_all, last_id: 0, buffer: Vec::new() };
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

    /// Asks once, looks at the answer, and tells when it was there.
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
