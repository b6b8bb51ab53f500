//! `catalogue changes`: prints the change events after a cursor, or posts them to a webhook.

mod webhook_delivery;

use anyhow::{Context, Result};
use gatelodge_catalogue::RiskLevel;
use serde_json::{Value, json};

use super::index_access;
use super::index_change_feed::{self, IndexChangePage};
use crate::cli::IndexChangesArgs;
use crate::diagnostic_report::{count_noun, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError};
use crate::stdout_output;

pub fn run(args: &IndexChangesArgs) -> Result<CommandExitCode> {
    let (index, log) = index_access::index_paths(&args.store)?;
    index_access::publish_staged_changes(&index, &log);
    if let Some(url) = &args.post {
        return webhook_delivery::run(args, url, &log);
    }
    let page = load_page(&log, args.since.unwrap_or_default(), args, args.limit)?;
    match args.json {
        true => stdout_output::print_json(&page_json(&page))?,
        false => print_page(&page)?,
    }
    Ok(CommandExitCode::Success)
}

/// Reads the events after `cursor` that have at least the requested risk level.
fn load_page(log: &std::path::Path, cursor: u64, args: &IndexChangesArgs, limit: usize) -> Result<IndexChangePage> {
    let page = index_change_feed::events_after(log, cursor, args.level.unwrap_or(RiskLevel::Low), limit);
    let page = page.with_context(|| format!("cannot read `{}`", log.display()))?;
    page.map_err(|ahead| ExitError(CommandExitCode::Findings, ahead.to_string()).into())
}

/// Returns a page of events as JSON, for `--json` and webhooks.
fn page_json(page: &IndexChangePage) -> Value {
    json!({"events": page.events, "cursor": page.cursor, "has_more": page.has_more, "left_out": page.left_out})
}

fn print_page(page: &IndexChangePage) -> Result<()> {
    let rows: Vec<Vec<String>> = page.events.iter().map(event_row).collect();
    stdout_output::print(&stdout_output::format_table(&rows))?;
    if page.left_out > 0 {
        print_stderr(&format!("{} before these are no longer stored", count_noun(page.left_out as usize, "event")));
    }
    let more = if page.has_more { "; there are more" } else { "" };
    print_stderr(&format!("{}; the cursor is {}{more}", count_noun(page.events.len(), "event"), page.cursor));
    Ok(())
}

fn event_row(event: &Value) -> Vec<String> {
    let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let cursor = event.get("cursor").map(ToString::to_string).unwrap_or_default();
    let package = format!("{}:{} {}", text("source"), text("package"), text("version"));
    vec![cursor, text("date"), text("level"), text("kind"), text("tool"), package]
}
