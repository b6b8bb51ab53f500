//! What is answered to a message, in the form of its era.

use gatelodge_json::{JsonLimits, quote_into};
use gatelodge_mcp::http_headers::{check_meta, names_stateless};
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, ProtocolGeneration, Revision, code, error_response, read_client_message,
    result_response,
};
use serde_json::Value;

use super::catalogue_tools::{self, CatalogueServer};

const SERVER_INFO: &str = concat!(
    r#"{"name":"gatelodge-catalogue","title":"Catalogue of MCP servers","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);
const INSTRUCTIONS: &str = "What published MCP servers let an agent do. Ask check_mcp_server before a server is added; \
    its verdict is proceed, connect-with-rule or ask-first. Nothing here vouches for a server.";

/// The answer; none to what wants none.
pub fn answer(desk: &CatalogueServer, line: &[u8]) -> Option<String> {
    if line.is_empty() {
        return None;
    }
    match read_client_message(line, &JsonLimits::REQUEST) {
        // A notification of some later revision wants no answer.
        Err(fault) if fault.id.is_none() && fault.code == code::METHOD_NOT_FOUND => None,
        Err(fault) => Some(error_response(fault.id.as_ref(), fault.code, &fault.message, None)),
        Ok(ClientMessage::Notification(_) | ClientMessage::Response(_)) => None,
        Ok(ClientMessage::Request(request)) => Some(to_request(desk, &request)),
    }
}

fn to_request(desk: &CatalogueServer, request: &ClientRequest<'_>) -> String {
    let era = if names_stateless(request) {
        match check_meta(request, &Revision::ALL) {
            Ok(revision) => revision.generation(),
            Err(misfit) => {
                return error_response(Some(request.id()), misfit.code, &misfit.message, misfit.data.as_deref());
            }
        }
    } else {
        ProtocolGeneration::Stateful
    };
    let answered = |text: &str| result_response(request.id(), &finished(text, era));
    match (request.method(), era) {
        (Method::Initialize, ProtocolGeneration::Stateful) => answered(&initialized(request)),
        (Method::Ping, ProtocolGeneration::Stateful) => answered("{}"),
        (Method::Discover, ProtocolGeneration::Stateless) => answered(&discovered()),
        (Method::ToolsList, _) => {
            answered(&format!(r#"{{"tools":{}{}}}"#, catalogue_tools::TOOL_DEFINITIONS, caching(era)))
        }
        (Method::ResourcesList, ProtocolGeneration::Stateful) => answered(r#"{"resources":[]}"#),
        (Method::ResourceTemplatesList, ProtocolGeneration::Stateful) => answered(r#"{"resourceTemplates":[]}"#),
        (Method::PromptsList, ProtocolGeneration::Stateful) => answered(r#"{"prompts":[]}"#),
        (Method::ToolsCall, _) => called(desk, request, era),
        (method, _) => {
            let what = format!("this server does not know {}", gatelodge_mcp::quote_excerpt(method.name()));
            error_response(Some(request.id()), code::METHOD_NOT_FOUND, &what, None)
        }
    }
}

fn called(desk: &CatalogueServer, request: &ClientRequest<'_>, era: ProtocolGeneration) -> String {
    let call = match request.tool_call() {
        Ok(call) => call,
        Err(fault) => return error_response(Some(request.id()), fault.code, &fault.message, None),
    };
    let arguments: Value = match call.arguments.map(|arguments| serde_json::from_str(arguments.raw())) {
        Some(Ok(arguments)) => arguments,
        Some(Err(fault)) => return error_response(Some(request.id()), code::INVALID_PARAMS, &fault.to_string(), None),
        None => Value::Object(serde_json::Map::new()),
    };
    match catalogue_tools::call_tool(desk, &call.name, &arguments) {
        None => {
            let what =
                format!("there is no tool {}; `tools/list` names them", gatelodge_mcp::quote_excerpt(&call.name));
            error_response(Some(request.id()), code::INVALID_PARAMS, &what, None)
        }
        Some(Ok(told)) => {
            // Text alone: no tool promises a structure, every client hands text on, and some would hand on both.
            let text = content(&told.to_string());
            result_response(request.id(), &finished(&format!(r#"{{"content":[{text}]}}"#), era))
        }
        Some(Err(why)) => result_response(
            request.id(),
            &finished(&format!(r#"{{"content":[{}],"isError":true}}"#, content(&why)), era),
        ),
    }
}

fn content(text: &str) -> String {
    let mut block = String::from(r#"{"type":"text","text":"#);
    quote_into(text, &mut block);
    block.push('}');
    block
}

/// What a stateless result has to say beside what it is about.
fn finished(text: &str, era: ProtocolGeneration) -> String {
    let Some(members) = text.strip_suffix('}').filter(|_| era == ProtocolGeneration::Stateless) else {
        return text.to_owned();
    };
    let comma = if members.ends_with('{') { "" } else { "," };
    format!(
        r#"{members}{comma}"resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{SERVER_INFO}}}}}"#
    )
}

fn caching(era: ProtocolGeneration) -> &'static str {
    if era == ProtocolGeneration::Stateless { r#","ttlMs":3600000,"cacheScope":"public""# } else { "" }
}

fn initialized(request: &ClientRequest<'_>) -> String {
    let asked = request.params().and_then(|params| params.get("protocolVersion")?.as_str());
    let spoken = asked
        .and_then(|asked| asked.parse().ok())
        .filter(|revision: &Revision| revision.generation() == ProtocolGeneration::Stateful);
    let spoken = spoken.unwrap_or(Revision::R2025_11_25);
    let mut out =
        format!(r#"{{"protocolVersion":"{spoken}","capabilities":{{"tools":{{}}}},"serverInfo":{SERVER_INFO},"#);
    out.push_str(r#""instructions":"#);
    quote_into(INSTRUCTIONS, &mut out);
    out.push('}');
    out
}

fn discovered() -> String {
    let versions: Vec<String> = Revision::ALL.iter().rev().map(|revision| format!("\"{revision}\"")).collect();
    let mut out = format!(r#"{{"supportedVersions":[{}],"capabilities":{{"tools":{{}}}},"#, versions.join(","));
    out.push_str(r#""instructions":"#);
    quote_into(INSTRUCTIONS, &mut out);
    out.push_str(&format!("{}}}", caching(ProtocolGeneration::Stateless)));
    out
}
