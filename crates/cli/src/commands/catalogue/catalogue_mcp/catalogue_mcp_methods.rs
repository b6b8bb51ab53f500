//! Answers requests to the catalogue's MCP server. Supports both stateful and stateless revisions of the protocol.

use gatelodge_json::{JsonLimits, quote_into};
use gatelodge_mcp::http_headers::{check_meta, has_stateless_meta};
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, ProtocolGeneration, Revision, code, error_response, read_client_message,
    result_response,
};
use serde_json::Value;

use super::catalogue_mcp_tools::{self, CatalogueMcpServer};

const SERVER_INFO: &str = concat!(
    r#"{"name":"gatelodge-catalogue","title":"Catalogue of MCP servers","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);
const INSTRUCTIONS: &str = "Describes what published MCP servers let an agent do. Call check_mcp_server before adding a \
    server; its verdict is proceed, connect-with-rule or ask-first. No verdict is a guarantee.";

/// Handles one line of input. Returns `None` for messages that need no response.
pub fn handle_line(catalogue: &CatalogueMcpServer, line: &[u8]) -> Option<String> {
    if line.is_empty() {
        return None;
    }
    match read_client_message(line, &JsonLimits::REQUEST) {
        // Notifications of later revisions get no response.
        Err(error) if error.id.is_none() && error.code == code::METHOD_NOT_FOUND => None,
        Err(error) => Some(error_response(error.id.as_ref(), error.code, &error.message, None)),
        Ok(ClientMessage::Notification(_) | ClientMessage::Response(_)) => None,
        Ok(ClientMessage::Request(request)) => Some(handle_request(catalogue, &request)),
    }
}

fn handle_request(catalogue: &CatalogueMcpServer, request: &ClientRequest<'_>) -> String {
    let generation = if has_stateless_meta(request) {
        match check_meta(request, &Revision::ALL) {
            Ok(revision) => revision.generation(),
            Err(error) => {
                return error_response(Some(request.id()), error.code, &error.message, error.data.as_deref());
            }
        }
    } else {
        ProtocolGeneration::Stateful
    };
    let respond = |text: &str| result_response(request.id(), &add_stateless_members(text, generation));
    match (request.method(), generation) {
        (Method::Initialize, ProtocolGeneration::Stateful) => respond(&initialize_result(request)),
        (Method::Ping, ProtocolGeneration::Stateful) => respond("{}"),
        (Method::Discover, ProtocolGeneration::Stateless) => respond(&discover_result()),
        (Method::ToolsList, _) => {
            respond(&format!(r#"{{"tools":{}{}}}"#, catalogue_mcp_tools::TOOL_DEFINITIONS, cache_members(generation)))
        }
        (Method::ResourcesList, ProtocolGeneration::Stateful) => respond(r#"{"resources":[]}"#),
        (Method::ResourceTemplatesList, ProtocolGeneration::Stateful) => respond(r#"{"resourceTemplates":[]}"#),
        (Method::PromptsList, ProtocolGeneration::Stateful) => respond(r#"{"prompts":[]}"#),
        (Method::ToolsCall, _) => call_tool(catalogue, request, generation),
        (method, _) => {
            let message = format!("method {} is not supported", gatelodge_mcp::quote_excerpt(method.name()));
            error_response(Some(request.id()), code::METHOD_NOT_FOUND, &message, None)
        }
    }
}

fn call_tool(catalogue: &CatalogueMcpServer, request: &ClientRequest<'_>, generation: ProtocolGeneration) -> String {
    let call = match request.tool_call() {
        Ok(call) => call,
        Err(error) => return error_response(Some(request.id()), error.code, &error.message, None),
    };
    let arguments: Value = match call.arguments.map(|arguments| serde_json::from_str(arguments.raw())) {
        Some(Ok(arguments)) => arguments,
        Some(Err(error)) => return error_response(Some(request.id()), code::INVALID_PARAMS, &error.to_string(), None),
        None => Value::Object(serde_json::Map::new()),
    };
    match catalogue_mcp_tools::call_tool(catalogue, &call.name, &arguments) {
        None => {
            let message = format!(
                "there is no tool {}; call `tools/list` for the tools",
                gatelodge_mcp::quote_excerpt(&call.name)
            );
            error_response(Some(request.id()), code::INVALID_PARAMS, &message, None)
        }
        Some(Ok(result)) => {
            // Text only: no tool declares an output schema, every client passes text to the model, and some clients
            // would pass structured content as well.
            let text = text_content(&result.to_string());
            result_response(request.id(), &add_stateless_members(&format!(r#"{{"content":[{text}]}}"#), generation))
        }
        Some(Err(why)) => result_response(
            request.id(),
            &add_stateless_members(&format!(r#"{{"content":[{}],"isError":true}}"#, text_content(&why)), generation),
        ),
    }
}

fn text_content(text: &str) -> String {
    let mut block = String::from(r#"{"type":"text","text":"#);
    quote_into(text, &mut block);
    block.push('}');
    block
}

/// Adds the members that every result must have in stateless revisions of the protocol. For stateful revisions, returns
/// the result unchanged.
fn add_stateless_members(text: &str, generation: ProtocolGeneration) -> String {
    let Some(members) = text.strip_suffix('}').filter(|_| generation == ProtocolGeneration::Stateless) else {
        return text.to_owned();
    };
    let comma = if members.ends_with('{') { "" } else { "," };
    format!(
        r#"{members}{comma}"resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{SERVER_INFO}}}}}"#
    )
}

fn cache_members(generation: ProtocolGeneration) -> &'static str {
    if generation == ProtocolGeneration::Stateless { r#","ttlMs":3600000,"cacheScope":"public""# } else { "" }
}

fn initialize_result(request: &ClientRequest<'_>) -> String {
    let requested = request.params().and_then(|params| params.get("protocolVersion")?.as_str());
    let revision = requested
        .and_then(|requested| requested.parse().ok())
        .filter(|known: &Revision| known.generation() == ProtocolGeneration::Stateful);
    let revision = revision.unwrap_or(Revision::R2025_11_25);
    let mut out =
        format!(r#"{{"protocolVersion":"{revision}","capabilities":{{"tools":{{}}}},"serverInfo":{SERVER_INFO},"#);
    out.push_str(r#""instructions":"#);
    quote_into(INSTRUCTIONS, &mut out);
    out.push('}');
    out
}

fn discover_result() -> String {
    let versions: Vec<String> = Revision::ALL.iter().rev().map(|revision| format!("\"{revision}\"")).collect();
    let mut out = format!(r#"{{"supportedVersions":[{}],"capabilities":{{"tools":{{}}}},"#, versions.join(","));
    out.push_str(r#""instructions":"#);
    quote_into(INSTRUCTIONS, &mut out);
    out.push_str(&format!("{}}}", cache_members(ProtocolGeneration::Stateless)));
    out
}
