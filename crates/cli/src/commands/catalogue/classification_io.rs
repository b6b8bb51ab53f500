//! Tools that were told, among their siblings, and what is known of each.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{Classification, ReadToolError, ServerContext, ToolEntry, ToolSpec};
use gatelodge_json::JsonLimits;
use serde_json::{Value, json};

use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::UsageError;
use crate::source_file::{self, NamedSource};

/// Reads what is to be classified.
pub fn read_tool_definitions(path: &Path) -> Result<NamedSource> {
    let source =
        source_file::try_read_reply(path).map_err(|error| UsageError(format!("{}; {}", error.message, error.help)))?;
    if source.text.len() > JsonLimits::REPLY.max_bytes {
        return Err(UsageError(format!(
            "`{}` is larger than 64 MiB; give it in parts",
            escape_for_terminal(&source.name)
        ))
        .into());
    }
    Ok(source)
}

/// The servers of some tools, by family.
pub fn group_servers<'t>(tools: impl IntoIterator<Item = &'t ToolEntry<'t>>) -> BTreeMap<String, ServerContext> {
    let mut families: BTreeMap<String, (String, Vec<&str>)> = BTreeMap::new();
    for item in tools {
        let family = families.entry(item.server_key()).or_insert_with(|| (item.server.to_string(), Vec::new()));
        family.1.push(&item.tool.name);
    }
    families.into_iter().map(|(family, (name, tools))| (family, ServerContext::new(&name, None, tools))).collect()
}

/// Tells what is no tool.
pub fn report_errors(errors: &[ReadToolError]) {
    report_messages(errors.iter().map(ToString::to_string).collect());
}

/// The same, each in its own words.
pub fn report_messages(errors: Vec<String>) {
    /// Nobody reads more.
    const MAX_PRINTED_ERRORS: usize = 20;
    for error in errors.iter().take(MAX_PRINTED_ERRORS) {
        print_stderr(&format!("not classified: {}", escape_for_terminal(error)));
    }
    if errors.len() > MAX_PRINTED_ERRORS {
        print_stderr(&format!("and {} more", errors.len() - MAX_PRINTED_ERRORS));
    }
}

/// All that is known of a tool, for programs.
pub fn classification_json(server: &str, tool: &ToolSpec<'_>, known: &Classification) -> Result<Value> {
    let mut all = json!({"server": server, "name": tool.name});
    if let (Value::Object(all), Value::Object(known)) = (&mut all, serde_json::to_value(known)?) {
        all.extend(known);
    }
    Ok(all)
}

/// A line of a table, for people.
pub fn classification_row(tool: &ToolSpec<'_>, known: &Classification) -> Vec<String> {
    let why = known.evidence.first().cloned().unwrap_or_else(|| "nothing in its definition says".to_owned());
    let confidence = format!("{:.2}", known.confidence);
    let (level, category) = (known.level.as_str().to_owned(), known.qualified_category_name());
    let why = if known.optional { format!("{why}; only under a setting") } else { why };
    vec![level, category, confidence, escape_for_terminal(&tool.name), why]
}
