//! Reads tool definitions and prints their classification.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{Classification, ReadToolError, ServerContext, ToolListEntry, ToolSpec};
use gatelodge_json::JsonLimits;
use gatelodge_server::input_file::{self, InputFileText};
use serde_json::{Value, json};

use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::UsageError;

/// Reads a file of at most 64 MiB that contains tool definitions.
pub fn read_tool_definitions(path: &Path) -> Result<InputFileText> {
    let source =
        input_file::read_reply(path).map_err(|error| UsageError(format!("{}; {}", error.message, error.help)))?;
    if source.text.len() > JsonLimits::REPLY.max_bytes {
        return Err(
            UsageError(format!("`{}` is larger than 64 MiB; split it", escape_for_terminal(&source.name))).into()
        );
    }
    Ok(source)
}

/// Groups tools by server, because a tool is classified in the context of the server's other tools.
pub fn group_servers<'t>(tools: impl IntoIterator<Item = &'t ToolListEntry<'t>>) -> BTreeMap<String, ServerContext> {
    let mut groups: BTreeMap<String, (String, Vec<&str>)> = BTreeMap::new();
    for item in tools {
        let group = groups.entry(item.server_key()).or_insert_with(|| (item.server.to_string(), Vec::new()));
        group.1.push(&item.tool.name);
    }
    groups.into_iter().map(|(group, (name, tools))| (group, ServerContext::new(&name, None, tools))).collect()
}

/// Prints an error for each entry that is not a valid tool definition.
pub fn report_errors(errors: &[ReadToolError]) {
    report_messages(errors.iter().map(ToString::to_string).collect());
}

/// Prints the reasons why tools could not be classified, one per line.
pub fn report_messages(errors: Vec<String>) {
    /// Maximum number of reasons to print. The rest are summarized as a count.
    const MAX_PRINTED_ERRORS: usize = 20;
    for error in errors.iter().take(MAX_PRINTED_ERRORS) {
        print_stderr(&format!("not classified: {}", escape_for_terminal(error)));
    }
    if errors.len() > MAX_PRINTED_ERRORS {
        print_stderr(&format!("and {} more", errors.len() - MAX_PRINTED_ERRORS));
    }
}

/// Returns a tool's classification for `--json`.
pub fn classification_json(server: &str, tool: &ToolSpec<'_>, known: &Classification) -> Result<Value> {
    let mut all = json!({"server": server, "name": tool.name});
    if let (Value::Object(all), Value::Object(known)) = (&mut all, serde_json::to_value(known)?) {
        all.extend(known);
    }
    Ok(all)
}

/// Returns a tool's classification as a table row.
pub fn classification_row(tool: &ToolSpec<'_>, known: &Classification) -> Vec<String> {
    let why = known.evidence.first().cloned().unwrap_or_else(|| "its definition has no evidence".to_owned());
    let confidence = format!("{:.2}", known.confidence);
    let (level, category) = (known.level.as_str().to_owned(), known.qualified_category_name());
    let why = if known.optional { format!("{why}; only under a setting") } else { why };
    vec![level, category, confidence, escape_for_terminal(&tool.name), why]
}
