//! The client's JSON-RPC messages.

use bytes::Bytes;
use data_encoding::BASE64;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::McpClientError;

/// A JSON-RPC error.
#[derive(Debug, Clone)]
pub struct RpcError {
    /// Error code.
    pub code: i64,
    /// Error message.
    pub message: String,
}

/// The messages in one HTTP response or event stream.
pub struct TransportResponse {
    /// The session id, if the server opened a session.
    pub session_id: Option<HeaderValue>,
    /// The messages, not yet parsed.
    pub messages: Vec<Bytes>,
}

/// Builds a request.
pub fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Builds a notification.
pub fn notification(method: &str) -> String {
    json!({"jsonrpc": "2.0", "method": method}).to_string()
}

/// Builds the parameters of `initialize`.
pub fn initialize_params(revision: &str) -> Value {
    let info = json!({"name": "gatelodge", "version": env!("CARGO_PKG_VERSION")});
    json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info})
}

/// Adds the metadata and headers that each stateless request carries.
pub fn add_stateless_metadata(params: &mut Value, headers: &mut HeaderMap, method: &str, subject: Option<&str>) {
    let revision = gatelodge_mcp::Revision::R2026_07_28.as_str();
    if let Value::Object(params) = params {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "gatelodge", "version": env!("CARGO_PKG_VERSION")},
        });
        params.insert("_meta".to_owned(), meta);
    }
    headers.insert("mcp-protocol-version", HeaderValue::from_static(revision));
    let mut insert = |name: &'static str, text: &str| {
        if let Ok(value) = HeaderValue::try_from(encode_header_value(text)) {
            headers.insert(name, value);
        }
    };
    insert("mcp-method", method);
    if let Some(subject) = subject {
        insert("mcp-name", subject);
    }
}

/// Encodes a header value as `=?base64?…?=` unless it can be sent as plain ASCII.
fn encode_header_value(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let needs_encoding = text.starts_with("=?") || text != text.trim();
    if is_plain && !needs_encoding { text.to_owned() } else { format!("=?base64?{}?=", BASE64.encode(text.as_bytes())) }
}

impl TransportResponse {
    /// Returns the result of the request with this id.
    pub fn result(self, id: u64) -> Result<Value, McpClientError> {
        for message in &self.messages {
            let Ok(mut message) = serde_json::from_slice::<Value>(message) else {
                return Err(McpClientError::Protocol("the response is not JSON".to_owned()));
            };
            if let Some(error) = message.get("error") {
                return Err(McpClientError::Rpc(parse_rpc_error(error)));
            }
            if message.get("id").and_then(Value::as_u64) == Some(id)
                && let Some(result) = message.get_mut("result")
            {
                return Ok(result.take());
            }
        }
        Err(McpClientError::Protocol("the response ends without a result".to_owned()))
    }
}

/// Parses a JSON-RPC error object.
pub fn parse_rpc_error(error: &Value) -> RpcError {
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    RpcError { code: error.get("code").and_then(Value::as_i64).unwrap_or_default(), message }
}
