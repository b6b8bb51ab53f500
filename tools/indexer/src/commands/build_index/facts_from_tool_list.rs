//! Derives a server's facts from its `tools/list` result.

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{
    ExtractedTool, PackageFacts, PackageReference, PackageRelease, ToolListEntry, derive_facts, read_tools,
};
use serde_json::{Map, Value};

use crate::console_output::shown;
use crate::exit::{IndexerError, IndexerExitCode, IndexerUsageError};
use crate::file_io;

/// Returns the facts for a command-line argument such as `npm:@acme/files@1.2.0=tools.json`.
pub fn facts_from_tool_list(named: &str) -> Result<PackageFacts> {
    let odd = || {
        IndexerUsageError(format!(
            "`{}` is not PACKAGE@VERSION=FILE; write it as `npm:@acme/files@1.2.0=tools.json`",
            shown(named)
        ))
    };
    let (package, path) = named.split_once('=').ok_or_else(odd)?;
    let package = PackageReference::read(package).ok_or_else(odd)?;
    let (Some(source), Some(version)) = (package.source, package.version) else { return Err(odd().into()) };
    let text = file_io::read(Path::new(path))?;
    let refused =
        |why: &str| IndexerError(IndexerExitCode::Findings, format!("`{}`: {why}; nothing was written", shown(path)));
    let mut tools = Vec::new();
    for (number, document) in read_tools(&text) {
        let document = document.map_err(|error| refused(&error.to_string()))?;
        for item in ToolListEntry::read_all(&document, number) {
            tools.push(extracted_tool(&item.map_err(|error| refused(&error.to_string()))?));
        }
    }
    Ok(derive_facts(&PackageRelease { source, package: package.name, version, date: None }, &tools))
}

fn extracted_tool(item: &ToolListEntry<'_>) -> ExtractedTool {
    let own = &item.tool;
    let read = |value: Option<gatelodge_json::JsonValue<'_>>| -> Value {
        value.and_then(|value| serde_json::from_str(value.raw()).ok()).unwrap_or_default()
    };
    let mut annotations = match read(item.entry.get("annotations")) {
        Value::Object(annotations) => annotations,
        _ => Map::new(),
    };
    // The title is checked together with the annotations, so that instructions to the model are found in it, too.
    if let Some(title) = item.entry.get("title").and_then(|title| title.as_str()) {
        annotations.entry("title").or_insert(title.into());
    }
    ExtractedTool {
        name: own.name.to_string(),
        description: own.description.as_ref().map(ToString::to_string),
        input_schema: read(own.schema),
        annotations,
        optional: false,
    }
}
