//! Responses that the gateway writes itself, including the tool result for a refused call.

use gatelodge_json::quote_into;

use crate::request_id::RequestId;
use crate::revision::ProtocolGeneration;

/// Writes an error response. If there is no id, the `id` member is `null`, as JSON-RPC requires. `data` is JSON.
///
/// ```
/// use gatelodge_mcp::{RequestId, code, error_response};
///
/// let text = error_response(Some(&RequestId::number(7)), code::METHOD_NOT_FOUND, "unknown method", None);
/// assert_eq!(text, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"unknown method"}}"#);
/// ```
pub fn error_response(id: Option<&RequestId<'_>>, code: i64, message: &str, data: Option<&str>) -> String {
    let id = id.map_or("null", |id| id.raw());
    let mut out = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":");
    quote_into(message, &mut out);
    push_member(&mut out, "data", data);
    out.push_str("}}");
    out
}

/// Writes a successful response. `result` is JSON.
pub fn result_response(id: &RequestId<'_>, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// Writes the result of a tool call that was refused or failed: text for the model, `meta` (JSON) for programs.
///
/// There is no `structuredContent`: strict clients validate it against the tool's output schema even for errors.
pub fn tool_error_result(text: &str, meta: Option<&str>, generation: ProtocolGeneration) -> String {
    let mut out = String::from("{\"content\":[{\"type\":\"text\",\"text\":");
    quote_into(text, &mut out);
    out.push_str("}],\"isError\":true");
    match generation {
        ProtocolGeneration::Stateful => {}
        ProtocolGeneration::Stateless => push_member(&mut out, "resultType", Some("\"complete\"")),
    }
    push_member(&mut out, "_meta", meta);
    out.push('}');
    out
}

fn push_member(out: &mut String, name: &str, json: Option<&str>) {
    if let Some(json) = json {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("\":");
        out.push_str(json);
    }
}
