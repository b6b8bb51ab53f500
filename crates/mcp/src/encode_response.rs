//! Messages of our own: envelopes, and the tool result that says no.

use gatelodge_json::quote_into;

use crate::request_id::RequestId;
use crate::revision::ProtocolGeneration;

/// Writes an error. Without an id the answer says `null`, as JSON-RPC wants it. `data` is JSON.
pub fn error_response(id: Option<&RequestId<'_>>, code: i64, message: &str, data: Option<&str>) -> String {
    let id = id.map_or("null", |id| id.raw());
    let mut out = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":");
    quote_into(message, &mut out);
    push_member(&mut out, "data", data);
    out.push_str("}}");
    out
}

/// Writes an answer. `result` is JSON.
pub fn result_response(id: &RequestId<'_>, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// Writes the result of a tool call that was refused or failed: text for the model, facts for programs.
///
/// There is no `structuredContent`: strict clients hold even an error's against the tool's schema. `meta` is JSON.
pub fn tool_error_result(text: &str, meta: Option<&str>, era: ProtocolGeneration) -> String {
    let mut out = String::from("{\"content\":[{\"type\":\"text\",\"text\":");
    quote_into(text, &mut out);
    out.push_str("}],\"isError\":true");
    match era {
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
