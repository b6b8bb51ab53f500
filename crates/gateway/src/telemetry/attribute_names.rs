//! Names of span attributes. Names without the prefix `gatelodge.` come from OpenTelemetry's conventions for MCP, which
//! are not stable yet; this file is the only place to update.

use gatelodge_mcp::Method;

pub const METHOD: &str = "mcp.method.name";
pub const PROTOCOL_VERSION: &str = "mcp.protocol.version";
pub const SESSION: &str = "mcp.session.id";
pub const RESOURCE_URI: &str = "mcp.resource.uri";
pub const TOOL: &str = "gen_ai.tool.name";
pub const PROMPT: &str = "gen_ai.prompt.name";
pub const OPERATION: &str = "gen_ai.operation.name";
pub const EXECUTE_TOOL: &str = "execute_tool";
pub const REQUEST_ID: &str = "jsonrpc.request.id";
pub const STATUS_CODE: &str = "rpc.response.status_code";
pub const ERROR_TYPE: &str = "error.type";
pub const TOOL_ERROR: &str = "tool_error";
pub const CANCELLED: &str = "cancelled";
pub const TIMEOUT: &str = "timeout";
pub const TRANSPORT: &str = "network.transport";
pub const TCP: &str = "tcp";
pub const PIPE: &str = "pipe";
pub const PROTOCOL: &str = "network.protocol.name";
pub const HTTP: &str = "http";
pub const SERVER_ADDRESS: &str = "server.address";
pub const SERVER_PORT: &str = "server.port";
pub const CLIENT_ADDRESS: &str = "client.address";

/// The gateway's own attributes.
pub const CALL: &str = "gatelodge.call";
pub const GRANT: &str = "gatelodge.grant";
pub const SERVER: &str = "gatelodge.server";
pub const POLICY: &str = "gatelodge.policy";
pub const POLICY_VERSION: &str = "gatelodge.policy.version";
pub const DECISION: &str = "gatelodge.decision";
pub const CODE: &str = "gatelodge.code";
pub const RULE: &str = "gatelodge.rule";
pub const LIMIT: &str = "gatelodge.limit";

/// Returns the attribute for the subject of a method, and whether the subject is part of the span name. URIs are not
/// part of it, because they have too many distinct values.
pub fn target_attribute(method: &str) -> Option<(&'static str, bool)> {
    match Method::of(method.into()) {
        Method::ToolsCall => Some((TOOL, true)),
        Method::PromptsGet => Some((PROMPT, true)),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            Some((RESOURCE_URI, false))
        }
        _ => None,
    }
}
