//! The facts of a server whose list of tools is at hand.

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{PackageFacts, PackageName};
use gatelodge_crawl::{FoundTool, Release, facts};
use serde_json::{Map, Value};

use super::super::known;
use crate::exit::{Exit, Failed, Usage};
use crate::report::shown;

/// Facts of `npm:@acme/files@1.2.0=tools.json`.
pub fn facts_of(named: &str) -> Result<PackageFacts> {
    let odd = || Usage(format!("`{}` is none; say it as `npm:@acme/files@1.2.0=tools.json`", shown(named)));
    let (package, path) = named.split_once('=').ok_or_else(odd)?;
    let package = PackageName::read(package).ok_or_else(odd)?;
    let (Some(source), Some(version)) = (package.source, package.version) else { return Err(odd().into()) };
    let text = known::read(Path::new(path))?.text;
    let refused = |why: &str| Failed(Exit::Findings, format!("`{}`: {why}; nothing was written", shown(path)));
    let list: Value = serde_json::from_slice(&text).map_err(|error| refused(&error.to_string()))?;
    let list = list.get("result").unwrap_or(&list);
    let entries = list.get("tools").and_then(Value::as_array).ok_or_else(|| refused("it has no `tools`"))?;
    let tools: Option<Vec<FoundTool>> = entries.iter().map(tool).collect();
    let tools = tools.ok_or_else(|| refused("a tool in it has no `name`"))?;
    Ok(facts(&Release { source, package: package.name, version, date: None }, &tools))
}

fn tool(entry: &Value) -> Option<FoundTool> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut annotations = entry.get("annotations").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    // It is read as one of the claims, so that text for the model is found there, too.
    if let Some(title) = text("title") {
        annotations.entry("title").or_insert(title.into());
    }
    Some(FoundTool {
        name: text("name")?,
        description: text("description"),
        input_schema: entry.get("inputSchema").cloned().unwrap_or_default(),
        annotations,
        optional: false,
    })
}
