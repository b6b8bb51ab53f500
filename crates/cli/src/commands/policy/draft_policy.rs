//! `policy draft`: the smallest policy that covers what a grant did, from the call log.

mod draft_report;
mod grant_usage;

use anyhow::Result;
use gatelodge_policy::DraftPolicy;
use jiff::Timestamp;

use self::grant_usage::{GrantUsage, ServerUsage, UsageQuery};
use super::print;
use crate::admin_context::{self, AdminContext, StoreMode};
use crate::cli::DraftPolicyArgs;
use crate::config::{DURATION_SYNTAX, parse_duration, parse_timestamp, suggest_name};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::{source_file, stdout_output};

pub fn run(args: DraftPolicyArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let since = args.since.as_deref().map(|text| parse_since(text, desk.clock.now())).transpose()?;
        let wanted = UsageQuery { grant: &args.grant, server: args.server.as_deref(), since };
        let gathered = grant_usage::collect_usage(desk.stores.ledger.as_ref(), &wanted).await?;
        if !gathered.has_rows {
            refuse_unknown_grant(&desk, &args.grant).await?;
        }
        let notes = draft_report::draft_notes(&gathered, &wanted);
        let Some((server, found)) = single_server(&gathered, &args.grant)? else {
            notes.iter().chain(&draft_report::unsent_lines(&gathered)).for_each(|note| print_stderr(note));
            print_stderr(&nothing_to_draft_text(&args, &gathered));
            return Ok(CommandExitCode::Findings);
        };
        let drafted = write_draft(&args.grant, server, found)?;
        if let Some(path) = &args.out {
            source_file::write_new_file(path, &drafted.policy)?;
        }
        if args.json {
            stdout_output::print_json(&draft_report::draft_json(&args, server, found, &drafted, &notes))?;
            return Ok(CommandExitCode::Success);
        }
        notes.iter().chain(&draft_report::excluded_lines(found, &drafted)).for_each(|note| print_stderr(note));
        match &args.out {
            Some(file) => {
                print_stderr(&format!("the draft is in `{}`; next: {}", file.display(), next_step(&args, server)))
            }
            None => print(&drafted.policy)?,
        }
        Ok(CommandExitCode::Success)
    })
}

/// Reads a length of time back from now, a date, or a time.
fn parse_since(text: &str, now: Timestamp) -> Result<Timestamp, UsageError> {
    let back = parse_duration(text).and_then(|length| now.checked_sub(length).ok());
    let form = "a date as `2026-11-15`, a time as `2026-11-15T12:00:00Z`, or a length back from now";
    back.or_else(|| parse_timestamp(text)).ok_or_else(|| {
        UsageError(format!("`{}` is not a time: write {form}, {DURATION_SYNTAX}", escape_for_terminal(text)))
    })
}

/// Refuses a grant that is nowhere; one of `wrap`, or one that stood in a file, may be in the log alone.
async fn refuse_unknown_grant(desk: &AdminContext, name: &str) -> Result<()> {
    let of_file =
        desk.config_entries().grants.iter().map(|grant| (grant.id.to_string(), grant.label.to_string())).collect();
    let mut known: Vec<(String, String)> = of_file;
    known.extend(desk.stores.grants.list().await?.into_iter().map(|grant| (grant.id.to_string(), grant.label)));
    if known.iter().any(|(id, label)| id == name || label == name) {
        return Ok(());
    }
    let labels: Vec<&str> = known.iter().map(|(_, label)| label.as_str()).collect();
    let help = suggest_name(name, &labels);
    Err(UsageError(format!("there is no grant `{}`, and the log knows of none: {help}", escape_for_terminal(name)))
        .into())
}

/// The one server with calls that were sent. A policy is for one server: of several, one has to be named.
fn single_server<'g>(gathered: &'g GrantUsage, grant: &str) -> Result<Option<(&'g str, &'g ServerUsage)>, UsageError> {
    let mut sent = gathered.servers.iter().filter(|(_, found)| found.sent > 0);
    match (sent.next(), sent.next()) {
        (first, None) => Ok(first.map(|(server, found)| (server.as_str(), found))),
        (_, Some(_)) => {
            let names: Vec<String> = gathered
                .servers
                .iter()
                .filter(|(_, found)| found.sent > 0)
                .map(|(server, found)| format!("`{server}` ({})", draft_report::call_count_text(found.sent)))
                .collect();
            let (grant, names) = (escape_for_terminal(grant), names.join(", "));
            Err(UsageError(format!("`{grant}` called more than one server; name one with `--server`: {names}")))
        }
    }
}

fn nothing_to_draft_text(args: &DraftPolicyArgs, gathered: &GrantUsage) -> String {
    let grant = escape_for_terminal(&args.grant);
    let server =
        args.server.as_ref().map(|server| format!(" at `{}`", escape_for_terminal(server))).unwrap_or_default();
    let since = args.since.as_ref().map(|since| format!(" since {}", escape_for_terminal(since))).unwrap_or_default();
    let help =
        "let it work in observe mode for a while: `gatelodge grant attach LABEL --server NAME --policy NAME --observe`";
    let other: Vec<&str> = gathered
        .called_servers
        .iter()
        .filter(|name| Some(name.as_str()) != args.server.as_deref())
        .map(String::as_str)
        .collect();
    let other = if other.is_empty() { String::new() } else { format!("; it called {}", other.join(", ")) };
    format!("nothing of `{grant}` was sent{server}{since}{other}; there is nothing to draft from: {help}")
}

fn write_draft(grant: &str, server: &str, found: &ServerUsage) -> Result<DraftPolicy> {
    let origin = format!("what `{grant}` did at `{server}`");
    found.draft.write(&origin).map_err(|faults| {
        let why = faults.first().map(|fault| fault.message.clone()).unwrap_or_default();
        UsageError(format!("all of it does not fit into one policy: {why}; take less with `--since`")).into()
    })
}

fn next_step(args: &DraftPolicyArgs, server: &str) -> String {
    let file = args.out.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    format!("read it, then `gatelodge policy put {server} {file}`")
}
