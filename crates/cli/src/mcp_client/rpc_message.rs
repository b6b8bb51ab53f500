//! Messages of the client: requests as they go out, and what is taken from answers.

use bytes::Bytes;
use data_encoding::BASE64;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::McpClientError;

/// An error of the protocol.
#[derive(Debug, Clone)]
pub struct RpcError {
    /// Its number.
    pub code: i64,
    /// What it says.
    pub message: String,
}

/// The messages of one answer.
pub struct TransportResponse {
    /// The session that it opened.
    pub session_id: Option<HeaderValue>,
    /// Each message, as it is written.
    pub messages: Vec<Bytes>,
}

/// Writes a request.
pub fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Writes a notification.
pub fn notification(method: &str) -> String {
    json!({"jsonrpc": "2.0", "method": method}).to_string()
}

/// What a handshake says.
pub fn initialize_params(revision: &str) -> Value {
    let info = json!({"name": "gatelodge", "version": env!("CARGO_PKG_VERSION")});
    json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info})
}

/// Adds what each request of the stateless revision says of itself.
pub fn add_stateless_metadata(params: &mut Value, headers: &mut HeaderMap, method: &str, about: Option<&str>) {
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
    let mut put = |name: &'static str, text: &str| {
        if let Ok(value) = HeaderValue::try_from(encode_header_value(text)) {
            headers.insert(name, value);
        }
    };
    put("mcp-method", method);
    if let Some(about) = about {
        put("mcp-name", about);
    }
}

/// What is no visible ASCII travels as Base64, between marks.
fn encode_header_value(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let is_marked = text.starts_with("=?") || text != text.trim();
    if is_plain && !is_marked { text.to_owned() } else { format!("=?base64?{}?=", BASE64.encode(text.as_bytes())) }
}

impl TransportResponse {
    /// The result of the request with an id.
    pub fn result(self, id: u64) -> Result<Value, McpClientError> {
        for message in &self.messages {
            let Ok(mut message) = serde_json::from_slice::<Value>(message) else {
                return Err(McpClientError::Protocol("the answer is not JSON".to_owned()));
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
        Err(McpClientError::Protocol("the answer ends without a result".to_owned()))
    }
}

/// What an error object says.
pub fn parse_rpc_error(error: &Value) -> RpcError {
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    RpcError { code: error.get("code").and_then(Value::as_i64).unwrap_or_default(), message }
}
