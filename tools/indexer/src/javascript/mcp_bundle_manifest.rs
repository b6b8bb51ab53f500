//! Reads the `manifest.json` of an MCP bundle, which lists the bundle's tools.

use serde_json::Value as Json;

use super::file_selection::is_package_file;
use super::tool_builder;
use gatelodge_catalogue::SourceFile;

use crate::tool_extraction::ToolExtraction;

/// Returns the tools listed in the manifest, without schemas. They are used only if no tools are found in the code.
pub(super) fn manifest_tools(files: &[SourceFile<'_>]) -> ToolExtraction {
    let manifest =
        files.iter().filter(|file| is_package_file(file.path, "manifest.json")).min_by_key(|file| file.path.len());
    let Some(Ok(Json::Object(manifest))) = manifest.map(|file| serde_json::from_str(file.text)) else {
        return ToolExtraction::default();
    };
    // Manifests of other kinds have the same file name and no `server`.
    if !manifest.contains_key("server") {
        return ToolExtraction::default();
    }
    let listed = manifest.get("tools").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let tools = listed.iter().filter_map(|listed| {
        let mut found = tool_builder::empty_tool(listed.get("name")?.as_str()?)?;
        found.description = listed.get("description").and_then(Json::as_str).map(str::to_owned);
        Some(found)
    });
    ToolExtraction::from_definitions(tools.collect(), tool_builder::detail_rank)
}
