//! One client: its connection, its session if it has one, and what it asks.

use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::target::Target;
use super::upstream::{ANSWER, read};

/// What a client asks again and again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Talk {
    /// A small call in a session.
    Small,
    /// A small call that stands alone.
    Stateless,
    /// A call with an argument and an answer of a megabyte.
    Large,
    /// The list of so many tools.
    List(usize),
    /// A small call that is answered by a stream.
    Events,
    /// A small call to one of many servers under one address.
    Together,
    /// A small call over standard streams.
    Lines,
}

pub const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}},"#;

impl Talk {
    /// Where the upstream answers as this talk wants it.
    pub fn upstream_path(self) -> String {
        match self {
            Self::List(count) => format!("/tools/{count}"),
            Self::Events => "/events".to_owned(),
            Self::Small | Self::Stateless | Self::Large | Self::Together | Self::Lines => "/mcp".to_owned(),
        }
    }

    pub fn is_stateless(self) -> bool {
        self == Self::Stateless
    }

    /// The headers of a request that every one has.
    fn head(self) -> &'static str {
        match self {
            Self::Stateless => "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: tool_50\r\n",
            _ => "",
        }
    }

    /// The request of a number.
    pub fn body(self, at: u64, is_behind_all: bool) -> String {
        let meta = if self.is_stateless() { META } else { "" };
        let tool = if self == Self::Together && is_behind_all { "u7__tool_50" } else { "tool_50" };
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
    pub fn check(self, at: u64, answer: &str) {
        let start = &answer[..answer.len().min(300)];
        assert!(answer.contains(&format!("\"id\":{at},")), "another answer than to {at}: {start}");
        let is_told = match self {
            Self::List(count) => answer.contains(&format!("\"tool_{}\"", count - 1)),
            _ => answer.contains(ANSWER),
        };
        assert!(is_told, "not what was asked for: {start}");
    }
}

/// A client on its connection.
pub struct Caller {
    stream: TcpStream,
    head: String,
    talk: Talk,
    is_behind_all: bool,
    at: u64,
    buffer: Vec<u8>,
}

impl Caller {
    /// Connects, and shakes hands where that is done.
    pub async fn open(target: &Target, talk: Talk) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", target.port)).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let token = target.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\n{token}content-type: application/json\r\naccept: application/json, text/event-stream\r\n{}",
            target.path,
            talk.head()
        );
        let is_behind_all = target.path == "/mcp" && target.token.is_some();
        let mut caller = Self { stream, head, talk, is_behind_all, at: 0, buffer: Vec::new() };
        if !talk.is_stateless() {
            caller.shake_hands().await;
        }
        caller
    }

    async fn shake_hands(&mut self) {
        let (head, answer) = self.send(HELLO).await;
        let session = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
        });
        let Some(session) = session else { panic!("no session: {head}\n{answer}") };
        self.head.push_str(&format!("mcp-session-id: {session}\r\n"));
    }

    /// Asks once, looks at the answer, and tells when it was there.
    pub async fn ask(&mut self) -> Instant {
        self.at += 1;
        let (at, talk) = (self.at, self.talk);
        let body = talk.body(at, self.is_behind_all);
        let (_, answer) = self.send(&body).await;
        let end = Instant::now();
        talk.check(at, answer);
        end
    }

    async fn send(&mut self, body: &str) -> (&str, &str) {
        let request = format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.write_all(request.as_bytes()).await.expect("sent");
        self.buffer.clear();
        read(&mut self.stream, &mut self.buffer).await.expect("an answer")
    }
}
