//! MCP methods of the demo server, for stateful and stateless clients.

use gatelodge_json::quote_into;
use gatelodge_mcp::{ClientRequest, Method, RequestId, Revision, code, error_response, result_response};
use http::StatusCode;

use super::demo_notes::DemoNotes;
use super::demo_tools;

const SERVER_INFO: &str = concat!(r#"{"name":"gatelodge-demo","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
const CAPABILITIES: &str = r#"{"tools":{},"resources":{},"prompts":{}}"#;
const GUIDE: &str = "note://guide";
const GUIDE_TEXT: &str = "Notes are plain text. Payments are simulated.";

/// Handles one request.
pub fn handle_request(notes: &DemoNotes, request: &ClientRequest<'_>) -> (StatusCode, String) {
    let is_stateless = request.meta().protocol_version().is_some();
    let id = request.id();
    let outcome = match request.method() {
        Method::Initialize => Some(Ok(initialize_result(request))),
        Method::Discover => Some(Ok(format!(
            r#"{{"supportedVersions":["{}"],"capabilities":{CAPABILITIES},"instructions":"A demonstration."{}}}"#,
            Revision::R2026_07_28,
            cache_members(true)
        ))),
        Method::Ping => Some(Ok("{}".to_owned())),
        Method::ToolsList => {
            Some(Ok(format!(r#"{{"tools":{}{}}}"#, demo_tools::TOOL_DEFINITIONS, cache_members(is_stateless))))
        }
        Method::ToolsCall => Some(call_tool(notes, request)),
        Method::ResourcesList => {
            let listed = format!(r#"[{{"uri":"{GUIDE}","name":"guide","mimeType":"text/plain"}}]"#);
            Some(Ok(format!(r#"{{"resources":{listed}{}}}"#, cache_members(is_stateless))))
        }
        Method::ResourceTemplatesList => {
            Some(Ok(format!(r#"{{"resourceTemplates":[]{}}}"#, cache_members(is_stateless))))
        }
        Method::ResourcesRead => Some(read_resource(request, is_stateless)),
        Method::PromptsList => {
            let listed = r#"[{"name":"tidy_up","description":"Asks to tidy the notes."}]"#;
            Some(Ok(format!(r#"{{"prompts":{listed}{}}}"#, cache_members(is_stateless))))
        }
        Method::PromptsGet => Some(get_prompt(request)),
        _ => None,
    };
    match outcome {
        Some(Ok(text)) => (StatusCode::OK, result_response(id, &add_stateless_members(text, is_stateless))),
        Some(Err(message)) => (StatusCode::OK, error_response(Some(id), code::INVALID_PARAMS, &message, None)),
        None => method_not_found(id, is_stateless),
    }
}

fn method_not_found(id: &RequestId<'_>, is_stateless: bool) -> (StatusCode, String) {
    let status = if is_stateless { StatusCode::NOT_FOUND } else { StatusCode::OK };
    (status, error_response(Some(id), code::METHOD_NOT_FOUND, "the demo server does not know this method", None))
}

/// Adds the members that every result in the stateless protocol has.
fn add_stateless_members(text: String, is_stateless: bool) -> String {
    let Some(members) = text.strip_suffix('}').filter(|_| is_stateless) else { return text };
    let comma = if members.ends_with('{') { "" } else { "," };
    format!(
        r#"{members}{comma}"resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{SERVER_INFO}}}}}"#
    )
}

fn cache_members(is_stateless: bool) -> &'static str {
    if is_stateless { r#","ttlMs":0,"cacheScope":"private""# } else { "" }
}

fn initialize_result(request: &ClientRequest<'_>) -> String {
    let requested =
        request.params().and_then(|params| params.get("protocolVersion")).and_then(|version| version.as_str());
    let requested = requested.and_then(|version| version.parse::<Revision>().ok());
    let revision = requested.filter(|revision| *revision < Revision::R2026_07_28).unwrap_or(Revision::R2025_11_25);
    format!(r#"{{"protocolVersion":"{revision}","capabilities":{CAPABILITIES},"serverInfo":{SERVER_INFO}}}"#)
}

fn call_tool(notes: &DemoNotes, request: &ClientRequest<'_>) -> Result<String, String> {
    let call = request.tool_call().map_err(|error| error.message)?;
    let done = demo_tools::run_tool(notes, &call.name, call.arguments)
        .ok_or_else(|| format!("unknown tool `{}`", call.name))?;
    let (text, is_error) = match done {
        Ok(text) => (text, false),
        Err(text) => (text, true),
    };
    let mut out = r#"{"content":[{"type":"text","text":"#.to_owned();
    quote_into(&text, &mut out);
    out.push_str(&format!(r#"}}],"isError":{is_error}}}"#));
    Ok(out)
}

fn read_resource(request: &ClientRequest<'_>, is_stateless: bool) -> Result<String, String> {
    let uri = request.resource_uri().map_err(|error| error.message)?;
    if uri != GUIDE {
        return Err("there is no such resource".to_owned());
    }
    let contents = format!(r#"[{{"uri":"{GUIDE}","mimeType":"text/plain","text":"{GUIDE_TEXT}"}}]"#);
    Ok(format!(r#"{{"contents":{contents}{}}}"#, cache_members(is_stateless)))
}

fn get_prompt(request: &ClientRequest<'_>) -> Result<String, String> {
    let prompt = request.prompt().map_err(|error| error.message)?;
    if prompt.name != "tidy_up" {
        return Err("there is no such prompt".to_owned());
    }
    let content = r#"{"type":"text","text":"Read all notes and say which could go."}"#;
    Ok(format!(r#"{{"messages":[{{"role":"user","content":{content}}}]}}"#))
}
