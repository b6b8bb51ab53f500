//! Shared by the tests of this crate: a fake image, and clients over stdio and HTTP.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "for tests only")]

mod image;
mod stdio_client;
mod test_http_server;

use std::sync::Arc;
use std::time::Duration;

use gatelodge_pharo::{PharoImage, PharoServer, PharoSettings};
use serde_json::{Value, json};

pub use image::{FakeImage, Script, Step, failure, page, raw, success};
pub use stdio_client::StdioClient;
pub use test_http_server::{TestHttpServer, initialize};

/// Time limit for everything that should happen.
pub const SOON: Duration = Duration::from_secs(20);
/// Maximum size of an image's response in tests.
pub const MAX_BYTES: usize = 1 << 20;

pub fn settings() -> PharoSettings {
    PharoSettings {
        timeout: SOON,
        long_timeout: SOON,
        progress_interval: SOON,
        // A test that waits for these fails.
        call_drain_timeout: SOON * 10,
        output_drain_timeout: SOON * 10,
        read_screenshot: None,
        compat: false,
    }
}

/// Creates a server for an image at a local port.
pub fn server(port: u16, settings: PharoSettings) -> Arc<PharoServer> {
    server_for("127.0.0.1", port, settings)
}

pub fn server_for(host: &str, port: u16, settings: PharoSettings) -> Arc<PharoServer> {
    Arc::new(PharoServer::new(
        PharoImage { host: host.to_owned(), port, allow_remote: false, max_response_bytes: MAX_BYTES },
        settings,
    ))
}

pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

pub fn eval(id: impl Into<Value>) -> Value {
    call(id, "eval", json!({"code": "3 + 4"}))
}

/// Converts a request to one of a stateless client.
pub fn as_stateless(mut request: Value) -> Value {
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request
}

/// Adds a progress token to a request.
pub fn with_token(mut request: Value, token: impl Into<Value>) -> Value {
    request["params"]["_meta"]["progressToken"] = token.into();
    request
}

pub fn cancelled(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}})
}

/// Returns the text of a result.
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

/// Returns the text of an error result, after checking that it has nothing else.
#[track_caller]
pub fn error_text(answer: &Value) -> &str {
    let result = &answer["result"];
    assert_eq!(result["isError"], json!(true), "{answer}");
    assert_eq!(result.get("structuredContent"), None, "{answer}");
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "{answer}");
    text(answer)
}

/// Returns the code of a JSON-RPC error.
#[track_caller]
pub fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error in {answer}"))
}

/// Awaits something that should happen soon.
pub async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, happens).await.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
}
