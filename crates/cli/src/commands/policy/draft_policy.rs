//! `policy draft`: writes the smallest policy that covers the calls logged for a grant.

mod draft_report;

use anyhow::Result;
use gatelodge_admin::suggest_name;
use gatelodge_policy::CallLogDraft;
use gatelodge_server::config::{DURATION_SYNTAX, parse_duration, parse_timestamp};
use gatelodge_server::{CallHistoryQuery, GrantCallHistory, ServerCallHistory, collect_call_history};
use jiff::Timestamp;

use super::print;
use crate::cli::DraftPolicyArgs;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::store_command_context::{self, StoreCommandContext, StoreCreationMode};
use crate::{file_output, stdout_output};

pub fn run(args: DraftPolicyArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let since = args.since.as_deref().map(|text| parse_since(text, ctx.clock.now())).transpose()?;
        let query = CallHistoryQuery { grant: &args.grant, server: args.server.as_deref(), since };
        let usage = collect_call_history(ctx.stores.call_log.as_ref(), &query).await?;
        if !usage.has_rows {
            refuse_unknown_grant(&ctx, &args.grant).await?;
        }
        let notes = draft_report::draft_notes(&usage, &query, args.json);
        let Some((server, server_usage)) = single_server(&usage, &args.grant)? else {
            notes.iter().chain(&draft_report::unsent_lines(&usage)).for_each(|note| print_stderr(note));
            print_stderr(&nothing_to_draft_text(&args, &usage));
            return Ok(CommandExitCode::Findings);
        };
        let drafted = write_draft(&args.grant, server, server_usage)?;
        if let Some(path) = &args.out {
            file_output::write_new_file(path, &drafted.policy)?;
        }
        if args.json {
            stdout_output::print_json(&draft_report::draft_json(&args, server, server_usage, &drafted, &notes))?;
            return Ok(CommandExitCode::Success);
        }
        notes.iter().chain(&draft_report::excluded_lines(server_usage, &drafted)).for_each(|note| print_stderr(note));
        match &args.out {
            Some(file) => {
                print_stderr(&format!("wrote the draft to `{}`; next: {}", file.display(), next_step(&args, server)))
            }
            None => print(&drafted.policy)?,
        }
        Ok(CommandExitCode::Success)
    })
}

/// Parses the value of `--since`: a date, a time, or a duration before now.
fn parse_since(text: &str, now: Timestamp) -> Result<Timestamp, UsageError> {
    let back = parse_duration(text).and_then(|length| now.checked_sub(length).ok());
    let form = "a date like `2026-11-15`, a time like `2026-11-15T12:00:00Z`, or a duration before now";
    back.or_else(|| parse_timestamp(text)).ok_or_else(|| {
        UsageError(format!("`{}` is not a time: write {form}, {DURATION_SYNTAX}", escape_for_terminal(text)))
    })
}

/// Returns an error if the grant does not exist. Must be called only if the log has no rows for the grant, because
/// grants created by `wrap` or defined in an earlier configuration file may appear only in the log.
async fn refuse_unknown_grant(ctx: &StoreCommandContext, name: &str) -> Result<()> {
    let configured =
        ctx.config_entries().grants.iter().map(|grant| (grant.id.to_string(), grant.label.to_string())).collect();
    let mut known: Vec<(String, String)> = configured;
    known.extend(ctx.stores.grants.list().await?.into_iter().map(|grant| (grant.id.to_string(), grant.label)));
    if known.iter().any(|(id, label)| id == name || label == name) {
        return Ok(());
    }
    let labels: Vec<&str> = known.iter().map(|(_, label)| label.as_str()).collect();
    let help = suggest_name(name, &labels);
    Err(UsageError(format!(
        "there is no grant `{}`, and the call log has none of this label: {help}",
        escape_for_terminal(name)
    ))
    .into())
}

/// Returns the server to which the grant's calls were sent. Returns an error if there are several, because a policy
/// applies to one server.
fn single_server<'g>(
    usage: &'g GrantCallHistory,
    grant: &str,
) -> Result<Option<(&'g str, &'g ServerCallHistory)>, UsageError> {
    let mut sent = usage.servers_with_calls();
    match (sent.next(), sent.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => {
            let names: Vec<String> = usage
                .servers_with_calls()
                .map(|(server, server_usage)| {
                    format!("`{server}` ({})", draft_report::call_count_text(server_usage.sent))
                })
                .collect();
            let (grant, names) = (escape_for_terminal(grant), names.join(", "));
            Err(UsageError(format!("`{grant}` called more than one server; name one with `--server`: {names}")))
        }
    }
}

fn nothing_to_draft_text(args: &DraftPolicyArgs, usage: &GrantCallHistory) -> String {
    let grant = escape_for_terminal(&args.grant);
    let server =
        args.server.as_ref().map(|server| format!(" at `{}`", escape_for_terminal(server))).unwrap_or_default();
    let is_length = |since: &&String| parse_duration(since).is_some();
    let since = match args.since.as_ref() {
        Some(since) if is_length(&since) => format!(" in the last {}", escape_for_terminal(since)),
        Some(since) => format!(" since {}", escape_for_terminal(since)),
        None => String::new(),
    };
    let help =
        "let it run in observe mode for a while: `gatelodge grant attach LABEL --server NAME --policy NAME --observe`";
    let other: Vec<&str> = usage
        .called_servers
        .iter()
        .filter(|name| Some(name.as_str()) != args.server.as_deref())
        .map(String::as_str)
        .collect();
    let other: Vec<String> = other.iter().map(|name| format!("`{}`", escape_for_terminal(name))).collect();
    let other = match (other.is_empty(), args.server.is_some()) {
        (true, _) => String::new(),
        (false, true) => format!("; it called only {}", other.join(", ")),
        (false, false) => format!("; it tried to call {}", other.join(", ")),
    };
    format!("no calls of `{grant}` were sent{server}{since}{other}; there is nothing to draft from: {help}")
}

fn write_draft(grant: &str, server: &str, server_usage: &ServerCallHistory) -> Result<CallLogDraft> {
    server_usage.write_draft(grant, server).map_err(|diagnostics| {
        let why = diagnostics.first().map(|diagnostic| diagnostic.message.clone()).unwrap_or_default();
        UsageError(format!("the calls do not fit into one policy: {why}; limit them with `--since`")).into()
    })
}

fn next_step(args: &DraftPolicyArgs, server: &str) -> String {
    let file = args.out.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    format!("read it, then `gatelodge policy put {server} {file}`")
}
