//! `catalogue search`: finds servers and tools by parts of their names.

use anyhow::Result;
use gatelodge_catalogue::{
    IndexQuery, IndexedServer, IndexedTool, RiskLevel, category_name, grade_server, qualified_category_name,
};
use serde_json::{Value, json};

use super::index_access;
use crate::cli::SearchIndexArgs;
use crate::diagnostic_report::{count_noun, escape_for_terminal, print_stderr};
use crate::exit_code::CommandExitCode;
use crate::stdout_output;

pub fn run(args: &SearchIndexArgs) -> Result<CommandExitCode> {
    let index = index_access::open_index(&args.index_source)?;
    let mut query = IndexQuery::from_words(&args.words.join(" "));
    query.is_prefix = args.prefix;
    query.category = args.category;
    query.level = args.level;
    query.signal = args.signal;
    let found = index.search(&query, args.skip, args.limit);
    if args.json {
        stdout_output::print_json(&json!({
            "servers": found.servers.iter().map(server_json).collect::<Vec<_>>(), "server_count": found.server_count,
            "tools": found.tools.iter().map(tool_json).collect::<Vec<_>>(), "tool_count": found.tool_count,
            "index": index.metadata(),
        }))?;
        return Ok(CommandExitCode::Success);
    }
    let mut out = stdout_output::format_table(&found.servers.iter().map(server_row).collect::<Vec<_>>());
    if !found.servers.is_empty() && !found.tools.is_empty() {
        out.push('\n');
    }
    out.push_str(&stdout_output::format_table(&found.tools.iter().map(tool_row).collect::<Vec<_>>()));
    stdout_output::print(&out)?;
    let (servers, tools) = (count_noun(found.server_count, "server"), count_noun(found.tool_count, "tool"));
    let about = index.metadata();
    print_stderr(&format!("{servers} and {tools} match, of {} and {} ({})", about.servers, about.tools, about.date));
    Ok(CommandExitCode::Success)
}

/// Returns the JSON for an indexed server.
pub fn server_json(server: &IndexedServer<'_>) -> Value {
    let facts = server.facts();
    json!({
        "source": server.source(), "package": escape_for_terminal(server.package()), "version": escape_for_terminal(server.version()),
        "date": server.date().map(escape_for_terminal), "tool_count": facts.tools.len(), "grade": grade_server(&facts.tools).letter,
        "level": server.tools().map(|tool| tool.level()).max().map(RiskLevel::as_str),
    })
}

/// Returns the JSON for an indexed tool.
pub fn tool_json(tool: &IndexedTool<'_>) -> Value {
    json!({
        "name": escape_for_terminal(tool.name()), "package": tool.server().map(|server| escape_for_terminal(server.package())),
        "source": tool.server().map(|server| server.source()), "category": category_name(tool.category()),
        "level": tool.level(), "confidence": tool.confidence(),
        "signals": tool.signals().map(|kind| kind.as_str()).collect::<Vec<_>>(), "optional": tool.is_optional(),
    })
}

fn server_row(server: &IndexedServer<'_>) -> Vec<String> {
    let facts = server.facts();
    let level = server.tools().map(|tool| tool.level()).max().unwrap_or(RiskLevel::Low);
    let source = source_name(server);
    let name = format!("{source}:{}", escape_for_terminal(server.package()));
    let grade = format!("grade {}", grade_server(&facts.tools).letter);
    vec![
        level.as_str().to_owned(),
        grade,
        name,
        escape_for_terminal(server.version()),
        count_noun(facts.tools.len(), "tool"),
    ]
}

/// Returns the name of the registry in which a server is published.
pub fn source_name(server: &IndexedServer<'_>) -> &'static str {
    server.source().as_str()
}

fn tool_row(tool: &IndexedTool<'_>) -> Vec<String> {
    let package =
        tool.server().map(|server| format!("{}:{}", source_name(&server), escape_for_terminal(server.package())));
    let category = qualified_category_name(tool.category(), tool.confidence());
    vec![tool.level().as_str().to_owned(), category, escape_for_terminal(tool.name()), package.unwrap_or_default()]
}
