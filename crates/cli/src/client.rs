//! A small MCP client over HTTP: one server, one call at a time, either era of the protocol.

mod child;
mod http;
mod message;
mod sse;

use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, Uri};
use clap::ValueEnum;
use gatelodge_mcp::Revision;
use serde_json::{Value, json};

pub use child::{Told, tools_of};
use http::Wire;
pub use http::{download, get, post};
use message::Answer;
pub use message::Refused;
use sse::Sse;

/// More pages of a list are not asked for.
const MOST_PAGES: usize = 100;

/// How the server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EraChoice {
    /// Without a handshake if the server knows that, else with one.
    Auto,
    /// Without a handshake, as since 2026-07-28.
    Stateless,
    /// With a handshake and a session, as until 2025-11-25.
    Legacy,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// Nothing answers there, or not in time.
    Unreachable(String),
    /// It answers with a status that says no.
    Status(u16, String),
    /// It does not speak the protocol.
    NotMcp(String),
    /// It answers with an error of the protocol.
    Refused(Refused),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(why) | Self::NotMcp(why) => f.write_str(why),
            Self::Status(status, why) if why.is_empty() => write!(f, "HTTP status {status}"),
            Self::Status(status, why) => write!(f, "HTTP status {status}: {why}"),
            Self::Refused(refused) => write!(f, "error {}: {}", refused.code, refused.message),
        }
    }
}

impl std::error::Error for ClientError {}

/// A server that has been greeted.
pub struct Client {
    wire: Wire,
    /// The connection to a server that speaks only HTTP+SSE.
    sse: Option<Sse>,
    /// What is sent beside the token: the revision, and the session if there is one.
    spoken: HeaderMap,
    is_stateless: bool,
    next_id: u64,
    /// The server's own name and version, as it claims.
    pub server: String,
    /// The revision that is spoken.
    pub revision: String,
}

impl Client {
    /// Greets a server.
    pub async fn open(url: Uri, headers: HeaderMap, era: EraChoice, time: Duration) -> Result<Self, ClientError> {
        let wire = Wire::new(url, headers, time)?;
        if era != EraChoice::Legacy {
            let mut client = Self::new(wire.clone(), true, Revision::R2026_07_28.as_str());
            match client.discover().await {
                Ok(()) => return Ok(client),
                Err(error) if era == EraChoice::Stateless || is_final(&error) => return Err(error),
                Err(_) => {}
            }
        }
        let mut client = Self::new(wire, false, Revision::R2025_11_25.as_str());
        client.initialize().await?;
        Ok(client)
    }

    fn new(wire: Wire, is_stateless: bool, revision: &str) -> Self {
        let revision = revision.to_owned();
        Self { wire, sse: None, spoken: HeaderMap::new(), is_stateless, next_id: 1, server: String::new(), revision }
    }

    async fn discover(&mut self) -> Result<(), ClientError> {
        let result = self.request("server/discover", json!({}), None).await?;
        let versions = result.get("supportedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
        if !versions.iter().any(|version| version == Revision::R2026_07_28.as_str()) {
            return Err(ClientError::NotMcp("the server does not speak without a handshake".to_owned()));
        }
        let own = result.pointer("/_meta/io.modelcontextprotocol~1serverInfo").or(result.get("serverInfo"));
        self.server = server_words(own);
        Ok(())
    }

    async fn initialize(&mut self) -> Result<(), ClientError> {
        let params = message::handshake(&self.revision);
        let body = message::request(self.next_id, "initialize", &params);
        self.next_id += 1;
        let answer = match self.exchange(body.clone(), &self.spoken.clone()).await {
            // What servers of the first revision say to a message at this address.
            Err(refused @ ClientError::Status(400 | 404 | 405, _)) => {
                self.sse = Some(Sse::open(&self.wire, &self.spoken).await?.ok_or(refused)?);
                self.exchange(body, &self.spoken.clone()).await?
            }
            answer => answer?,
        };
        if let Some(session) = answer.session.clone() {
            self.spoken.insert("mcp-session-id", session);
        }
        let result = answer.result(self.next_id - 1)?;
        self.server = server_words(result.get("serverInfo"));
        if let Some(revision) = result.get("protocolVersion").and_then(Value::as_str) {
            self.revision = revision.to_owned();
        }
        if let Ok(value) = HeaderValue::from_str(&self.revision) {
            self.spoken.insert("mcp-protocol-version", value);
        }
        let told = message::notification("notifications/initialized");
        match &self.sse {
            Some(sse) => sse.tell(&self.wire, told, &self.spoken).await,
            None => self.wire.tell(told, &self.spoken).await,
        }
    }

    async fn exchange(&mut self, body: String, headers: &HeaderMap) -> Result<Answer, ClientError> {
        match &mut self.sse {
            Some(sse) => sse.ask(&self.wire, body, headers).await,
            None => self.wire.post(body, headers).await,
        }
    }

    /// Asks, and gives the result.
    pub async fn request(
        &mut self,
        method: &str,
        mut params: Value,
        about: Option<&str>,
    ) -> Result<Value, ClientError> {
        let mut headers = self.spoken.clone();
        if self.is_stateless {
            message::make_stateless(&mut params, &mut headers, method, about);
        }
        let id = self.next_id;
        self.next_id += 1;
        self.exchange(message::request(id, method, &params), &headers).await?.result(id)
    }

    /// Calls a tool.
    pub async fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, ClientError> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}), Some(tool)).await
    }

    /// All tools, over all pages.
    pub async fn tools(&mut self) -> Result<Vec<Value>, ClientError> {
        let mut tools = Vec::new();
        let mut params = json!({});
        for _ in 0..MOST_PAGES {
            let mut page = self.request("tools/list", params, None).await?;
            if let Some(Value::Array(list)) = page.get_mut("tools").map(Value::take) {
                tools.extend(list);
            }
            match page.get("nextCursor").and_then(Value::as_str) {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        Ok(tools)
    }

    /// Ends the session, if there is one.
    pub async fn close(self) {
        if self.spoken.contains_key("mcp-session-id") {
            self.wire.end(&self.spoken).await;
        }
    }
}

/// Whether trying the other era would not help either.
fn is_final(error: &ClientError) -> bool {
    matches!(error, ClientError::Unreachable(_) | ClientError::Status(401 | 403 | 421 | 429, _))
        || matches!(error, ClientError::Status(status, _) if *status >= 500)
}

fn server_words(info: Option<&Value>) -> String {
    let text = |name: &str| info.and_then(|info| info.get(name)).and_then(Value::as_str).unwrap_or_default();
    crate::diagnostic_report::escape_for_terminal(format!("{} {}", text("name"), text("version")).trim())
}
