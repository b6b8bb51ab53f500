//! `server list` and `server show`: print the servers, or one server with the risks of its tools.

use anyhow::Result;
use serde::Serialize;

use super::tool_risks::{ToolRisk, tool_risks};
use super::{ServerView, all_servers, require_server, view_of_unlisted};
use crate::cli::{ListArgs, NamedItemArgs};
use crate::commands::time_text::local_time;
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::CommandExitCode;
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

pub fn run(args: ListArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let all = all_servers(&ctx).await?;
        let none = "there are no servers; add one with `gatelodge server add NAME URL`";
        let row = |view: &ServerView| vec![vec![view.name.clone(), view.url.clone(), view.source.to_owned()]];
        stdout_output::print_list(&all, args.json, none, row)?;
        Ok(CommandExitCode::Success)
    })
}

pub fn show(args: NamedItemArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let name = super::parse_server_name(&args.name)?;
        let server_tools = ctx.stores.tool_pins.server_tools(&name).await?;
        let view = match (require_server(all_servers(&ctx).await?, &args.name), &server_tools) {
            (Err(_), Some(_)) => view_of_unlisted(args.name.clone(), "where `gatelodge wrap` runs it", "wrap"),
            (view, _) => view?,
        };
        let tools = server_tools.map(|server_tools| tool_risks(&name, &server_tools)).unwrap_or_default();
        if args.json {
            stdout_output::print_json(&ServerDetails { server: &view, tools: &tools })?;
            return Ok(CommandExitCode::Success);
        }
        let list = |names: &[String]| {
            if names.is_empty() { "none".to_owned() } else { escape_for_terminal(&names.join(", ")) }
        };
        let mut rows = vec![
            vec!["name".to_owned(), view.name.clone()],
            target_row(&view),
            vec!["headers".to_owned(), list(&view.headers)],
            vec!["variables".to_owned(), list(&view.variables)],
            vec!["arguments".to_owned(), if view.log_arguments { "logged" } else { "not logged" }.to_owned()],
            vec!["grants".to_owned(), list(&view.grants)],
            vec!["defined in".to_owned(), source_text(view.source).to_owned()],
        ];
        if let Some(at) = view.created_at {
            rows.push(vec!["added".to_owned(), local_time(at)]);
        }
        stdout_output::print(&stdout_output::format_table(&rows))?;
        if !tools.is_empty() {
            let rows: Vec<Vec<String>> = tools.iter().flat_map(ToolRisk::rows).collect();
            stdout_output::print(&format!(
                "\naccepted tools, riskiest first:\n{}",
                stdout_output::format_table(&rows)
            ))?;
        }
        Ok(CommandExitCode::Success)
    })
}

/// Labels what a server is: a URL, or a program that the gateway runs.
fn target_row(view: &ServerView) -> Vec<String> {
    let (label, target) = match view.url.strip_prefix("runs ") {
        Some(command) => ("command", command),
        None if view.url.starts_with("http") => ("url", view.url.as_str()),
        None => ("where", view.url.as_str()),
    };
    vec![label.to_owned(), target.to_owned()]
}

/// Says where an item is defined.
pub fn source_text(source: &str) -> &str {
    match source {
        "file" => "the configuration file",
        "store" => "the store, by a command",
        "process" => "the running gateway",
        "wrap" => "`gatelodge wrap`",
        other => other,
    }
}

/// A server and its tools, for `--json`.
#[derive(Serialize)]
struct ServerDetails<'s> {
    #[serde(flatten)]
    server: &'s ServerView,
    tools: &'s [ToolRisk],
}
