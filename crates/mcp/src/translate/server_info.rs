//! Translates what a server says of itself: the results of `initialize` and `server/discover`.

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};

use super::{shared_capabilities, to_json_string};
use crate::revision::Revision;

const SERVER_INFO_META_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Translates the result of `server/discover` into a result of `initialize`. `name` is the server's name if the server
/// does not say one.
pub fn to_initialize_result(discover_result: &[u8], revision: Revision, name: &str) -> String {
    let document = read(discover_result, &JsonLimits::REPLY).ok();
    let root = document.as_ref().map(|document| document.root());
    let info = member(root, "_meta").and_then(|meta| meta.get(SERVER_INFO_META_KEY));
    let info = info.filter(|info| info.kind() == JsonKind::Object).map(|info| info.raw().to_owned());
    let info = info.unwrap_or_else(|| format!(r#"{{"name":"{name}","version":"unknown"}}"#));
    let mut out =
        format!(r#"{{"protocolVersion":"{revision}","capabilities":{},"serverInfo":{info}"#, capabilities(root));
    if let Some(instructions) = member(root, "instructions").filter(|own| own.kind() == JsonKind::String) {
        out.push_str(&format!(r#","instructions":{}"#, instructions.raw()));
    }
    out.push('}');
    out
}

/// Translates the result of `initialize` into a result of `server/discover` that names the supported revisions.
pub fn to_discover_result(initialize_result: &[u8], supported: &[Revision]) -> String {
    let document = read(initialize_result, &JsonLimits::REPLY).ok();
    let root = document.as_ref().map(|document| document.root());
    let versions: Vec<String> = supported.iter().rev().map(|revision| format!("\"{revision}\"")).collect();
    let mut out = format!(
        r#"{{"resultType":"complete","supportedVersions":[{}],"capabilities":{}"#,
        versions.join(","),
        capabilities(root)
    );
    if let Some(instructions) = member(root, "instructions").and_then(|own| own.as_str()) {
        out.push_str(&format!(r#","instructions":{}"#, to_json_string(&instructions)));
    }
    out.push_str(r#","ttlMs":0,"cacheScope":"private""#);
    if let Some(info) = member(root, "serverInfo").filter(|info| info.kind() == JsonKind::Object) {
        out.push_str(&format!(r#","_meta":{{"{SERVER_INFO_META_KEY}":{}}}"#, info.raw()));
    }
    out.push('}');
    out
}

fn member<'d>(root: Option<JsonValue<'d>>, name: &str) -> Option<JsonValue<'d>> {
    root.and_then(|root| root.get(name))
}

fn capabilities(root: Option<JsonValue<'_>>) -> String {
    let declared = member(root, "capabilities").filter(|own| own.kind() == JsonKind::Object);
    declared.map_or_else(|| "{}".to_owned(), shared_capabilities)
}
