//! A small MCP client over HTTP, for one server and one request at a time, with the stateful or stateless protocol.

mod client_http_transport;
mod client_sse_transport;
mod rpc_message;
mod stdio_probe;

use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, Uri};
use clap::ValueEnum;
use gatelodge_mcp::Revision;
use serde_json::{Value, json};

use client_http_transport::ClientHttpTransport;
pub use client_http_transport::{download_bytes, get_status, post_for_status};
use client_sse_transport::ClientSseTransport;
pub use rpc_message::RpcError;
use rpc_message::TransportResponse;
pub use stdio_probe::{ServerProbe, probe_command};

/// Maximum number of pages requested for one list.
const MAX_LIST_PAGES: usize = 100;

/// Protocol generation to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum McpProtocolChoice {
    /// Stateless if the server supports it, otherwise stateful
    Auto,
    /// Without a handshake, as in revision 2026-07-28 and later
    Stateless,
    /// With a handshake and a session, as in revisions up to 2025-11-25
    Stateful,
}

/// Why a request failed.
#[derive(Debug)]
pub enum McpClientError {
    /// The server cannot be reached, or did not respond in time.
    Unreachable(String),
    /// The server responded with an HTTP error status.
    Status(u16, String),
    /// The server violated the protocol.
    Protocol(String),
    /// The server responded with a JSON-RPC error.
    Rpc(RpcError),
}

impl std::fmt::Display for McpClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(reason) | Self::Protocol(reason) => f.write_str(reason),
            Self::Status(status, reason) if reason.is_empty() => write!(f, "HTTP status {status}"),
            Self::Status(status, reason) => write!(f, "HTTP status {status}: {reason}"),
            Self::Rpc(error) => write!(f, "error {}: {}", error.code, error.message),
        }
    }
}

impl std::error::Error for McpClientError {}

/// A client that has connected to a server.
pub struct McpClient {
    http: ClientHttpTransport,
    /// Connection to a server that supports only HTTP+SSE.
    sse: Option<ClientSseTransport>,
    /// Headers sent with each request in addition to the configured ones: the revision, and the session if there is
    /// one.
    protocol_headers: HeaderMap,
    is_stateless: bool,
    next_id: u64,
    /// Name and version reported by the server.
    pub server_label: String,
    /// Protocol revision in use.
    pub revision: String,
}

impl McpClient {
    /// Connects to a server and performs the handshake or discovery.
    pub async fn open(
        url: Uri,
        headers: HeaderMap,
        protocol: McpProtocolChoice,
        timeout: Duration,
    ) -> Result<Self, McpClientError> {
        let transport = ClientHttpTransport::new(url, headers, timeout)?;
        if protocol != McpProtocolChoice::Stateful {
            let mut client = Self::new(transport.clone(), true, Revision::R2026_07_28.as_str());
            match client.discover().await {
                Ok(()) => return Ok(client),
                Err(error) if protocol == McpProtocolChoice::Stateless || is_final_error(&error) => return Err(error),
                Err(_) => {}
            }
        }
        let mut client = Self::new(transport, false, Revision::R2025_11_25.as_str());
        client.initialize().await?;
        Ok(client)
    }

    fn new(http: ClientHttpTransport, is_stateless: bool, revision: &str) -> Self {
        let revision = revision.to_owned();
        Self {
            http,
            sse: None,
            protocol_headers: HeaderMap::new(),
            is_stateless,
            next_id: 1,
            server_label: String::new(),
            revision,
        }
    }

    async fn discover(&mut self) -> Result<(), McpClientError> {
        let result = self.request("server/discover", json!({}), None).await?;
        let versions = result.get("supportedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
        if !versions.iter().any(|version| version == Revision::R2026_07_28.as_str()) {
            return Err(McpClientError::Protocol("the server does not support the stateless protocol".to_owned()));
        }
        let info = result.pointer("/_meta/io.modelcontextprotocol~1serverInfo").or(result.get("serverInfo"));
        self.server_label = server_label(info);
        Ok(())
    }

    async fn initialize(&mut self) -> Result<(), McpClientError> {
        let params = rpc_message::initialize_params(&self.revision);
        let body = rpc_message::request(self.next_id, "initialize", &params);
        self.next_id += 1;
        let response = match self.exchange(body.clone(), &self.protocol_headers.clone()).await {
            // Servers of the first revision respond like this to a POST to the URL of their event stream.
            Err(error @ McpClientError::Status(400 | 404 | 405, _)) => {
                self.sse = Some(ClientSseTransport::open(&self.http, &self.protocol_headers).await?.ok_or(error)?);
                self.exchange(body, &self.protocol_headers.clone()).await?
            }
            response => response?,
        };
        if let Some(session) = response.session_id.clone() {
            self.protocol_headers.insert("mcp-session-id", session);
        }
        let result = response.result(self.next_id - 1)?;
        self.server_label = server_label(result.get("serverInfo"));
        if let Some(revision) = result.get("protocolVersion").and_then(Value::as_str) {
            self.revision = revision.to_owned();
        }
        if let Ok(value) = HeaderValue::from_str(&self.revision) {
            self.protocol_headers.insert("mcp-protocol-version", value);
        }
        let initialized = rpc_message::notification("notifications/initialized");
        match &self.sse {
            Some(sse) => sse.notify(&self.http, initialized, &self.protocol_headers).await,
            None => self.http.notify(initialized, &self.protocol_headers).await,
        }
    }

    async fn exchange(&mut self, body: String, headers: &HeaderMap) -> Result<TransportResponse, McpClientError> {
        match &mut self.sse {
            Some(sse) => sse.request(&self.http, body, headers).await,
            None => self.http.post(body, headers).await,
        }
    }

    /// Sends a request and returns its result. `subject` is the tool, resource or prompt that the request is for, if
    /// any.
    pub async fn request(
        &mut self,
        method: &str,
        mut params: Value,
        subject: Option<&str>,
    ) -> Result<Value, McpClientError> {
        let mut headers = self.protocol_headers.clone();
        if self.is_stateless {
            rpc_message::add_stateless_metadata(&mut params, &mut headers, method, subject);
        }
        let id = self.next_id;
        self.next_id += 1;
        self.exchange(rpc_message::request(id, method, &params), &headers).await?.result(id)
    }

    /// Calls a tool.
    pub async fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, McpClientError> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}), Some(tool)).await
    }

    /// Lists all tools, reading every page.
    pub async fn list_tools(&mut self) -> Result<Vec<Value>, McpClientError> {
        let mut tools = Vec::new();
        let mut params = json!({});
        for _ in 0..MAX_LIST_PAGES {
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
        if self.protocol_headers.contains_key("mcp-session-id") {
            self.http.delete_session(&self.protocol_headers).await;
        }
    }
}

/// Returns whether trying the other protocol generation is pointless, because the request would fail there as well.
fn is_final_error(error: &McpClientError) -> bool {
    matches!(error, McpClientError::Unreachable(_) | McpClientError::Status(401 | 403 | 421 | 429, _))
        || matches!(error, McpClientError::Status(status, _) if *status >= 500)
}

fn server_label(info: Option<&Value>) -> String {
    let text = |name: &str| info.and_then(|info| info.get(name)).and_then(Value::as_str).unwrap_or_default();
    crate::diagnostic_report::escape_for_terminal(format!("{} {}", text("name"), text("version")).trim())
}
