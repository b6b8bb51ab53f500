//! `catalogue classify`: classifies the tool definitions in a file and prints one line per tool.

use anyhow::Result;
use gatelodge_catalogue::{ReadToolError, ServerContext, ToolListEntry, classify, read_tools};
use serde_json::json;

use super::classification_io;
use crate::cli::ClassifyToolsArgs;
use crate::exit_code::CommandExitCode;
use crate::stdout_output;

pub fn run(args: &ClassifyToolsArgs) -> Result<CommandExitCode> {
    let source = classification_io::read_tool_definitions(&args.file)?;
    let documents = read_tools(&source.text);
    let mut items: Vec<Result<ToolListEntry<'_>, ReadToolError>> = Vec::new();
    for (number, document) in &documents {
        match document {
            Ok(document) => items.extend(ToolListEntry::read_all(document, *number)),
            Err(error) => items.push(Err(error.clone())),
        }
    }
    let servers = classification_io::group_servers(items.iter().flatten());
    let (mut out, mut rows, mut errors) = (String::new(), Vec::new(), Vec::new());
    let unknown_server = ServerContext::default();
    for item in items {
        match item {
            Ok(item) => {
                let classification = classify(&item.tool, servers.get(&item.server_key()).unwrap_or(&unknown_server));
                match args.json {
                    true => out.push_str(&stdout_output::json_line(&classification_io::classification_json(
                        &item.server,
                        &item.tool,
                        &classification,
                    )?)?),
                    false => rows.push(classification_io::classification_row(&item.tool, &classification)),
                }
            }
            Err(error) => {
                // Every entry of the input gets a line, also one that cannot be classified.
                if args.json {
                    out.push_str(&stdout_output::json_line(&json!({"line": error.number, "error": error.why}))?);
                }
                errors.push(error);
            }
        }
    }
    out.push_str(&stdout_output::format_table(&rows));
    stdout_output::print(&out)?;
    classification_io::report_errors(&errors);
    Ok(if errors.is_empty() { CommandExitCode::Success } else { CommandExitCode::Findings })
}
