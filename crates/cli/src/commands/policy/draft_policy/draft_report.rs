//! Formats the notes and the list of excluded calls that are printed with a policy draft.

use gatelodge_policy::CallLogDraft;
use gatelodge_server::{CallHistoryQuery, GrantCallHistory, ServerCallHistory};
use serde_json::{Value, json};

use crate::cli::DraftPolicyArgs;
use crate::commands::time_text::time_text;
use crate::diagnostic_report::{count_noun, escape_for_terminal};

/// Maximum number of lines to print about excluded calls; the rest are only counted.
const MAX_PRINTED_LINES: usize = 20;

/// Returns notes on why the draft may be incomplete.
pub fn draft_notes(usage: &GrantCallHistory, query: &CallHistoryQuery<'_>, json: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let oldest = usage.oldest.filter(|oldest| query.since.is_none_or(|since| since < *oldest));
    if let Some(oldest) = oldest.filter(|_| usage.pruned_rows > 0) {
        let removed = count_noun(usage.pruned_rows as usize, "row");
        let oldest = time_text(oldest, json);
        notes.push(format!("the log was pruned ({removed}): calls before {oldest} are not in the draft"));
    }
    if usage.grants.len() > 1 {
        let ids: Vec<String> = usage.grants.iter().map(|id| format!("`{}`", escape_for_terminal(id))).collect();
        let grant = escape_for_terminal(query.grant);
        notes.push(format!(
            "several grants have the label `{grant}`; all are included, or name one by its id: {}",
            ids.join(", ")
        ));
    }
    for (server, server_usage) in &usage.servers {
        for tool in &server_usage.unaccepted {
            let tool = escape_for_terminal(tool);
            notes.push(format!(
                "the current definition of `{tool}` is not accepted, so no policy allows it yet; see `gatelodge server diff {server}`"
            ));
        }
    }
    notes
}

/// Lists the calls that cannot be used for a draft, for all servers and with the reasons. For example, a call was
/// refused, or the server could not be reached.
pub fn unsent_lines(usage: &GrantCallHistory) -> Vec<String> {
    truncate_lines(usage.servers.values().flat_map(exclusion_lines).collect())
}

/// Lists the calls that the draft does not cover, with the reasons.
pub fn excluded_lines(server_usage: &ServerCallHistory, drafted: &CallLogDraft) -> Vec<String> {
    let of_draft = drafted.uncovered.iter().map(|left| exclusion_line(&left.description, left.calls, left.reason));
    truncate_lines(exclusion_lines(server_usage).chain(of_draft).collect())
}

fn exclusion_lines(server_usage: &ServerCallHistory) -> impl Iterator<Item = String> {
    server_usage.left_out.iter().map(|((what, why), count)| exclusion_line(what, *count, why))
}

fn exclusion_line(what: &str, count: u64, why: &str) -> String {
    format!("left out: {} ({}): {}", escape_for_terminal(what), call_count_text(count), escape_for_terminal(why))
}

fn truncate_lines(mut lines: Vec<String>) -> Vec<String> {
    let rest = lines.len().saturating_sub(MAX_PRINTED_LINES);
    if rest > 0 {
        lines.truncate(MAX_PRINTED_LINES);
        lines.push(format!("and {rest} more; `--json` lists all"));
    }
    lines
}

pub fn call_count_text(count: u64) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

/// Returns the draft for `--json`, with the grant's usage, the excluded calls and the notes.
pub fn draft_json(
    args: &DraftPolicyArgs,
    server: &str,
    server_usage: &ServerCallHistory,
    drafted: &CallLogDraft,
    notes: &[String],
) -> Value {
    let used: Vec<Value> = drafted
        .blocks
        .iter()
        .map(|used| {
            let [minute, hour, day] = used.peaks;
            let counts = |list: &[(String, u64)]| -> Value {
                list.iter().map(|(name, calls)| (name.clone(), json!(calls))).collect::<serde_json::Map<_, _>>().into()
            };
            json!({
                "part": used.section.as_str(), "name": used.name, "calls": used.calls, "first": used.first,
                "last": used.last, "peaks": {"minute": minute, "hour": hour, "day": day},
                "arguments": counts(&used.arguments), "objections": counts(&used.reason_codes),
                "offers": used.suggested_conditions, "rate_limit": used.rate_limit,
            })
        })
        .collect();
    let of_log =
        server_usage.left_out.iter().map(|((what, why), calls)| json!({"what": what, "calls": calls, "why": why}));
    let of_draft =
        drafted.uncovered.iter().map(|left| json!({"what": left.description, "calls": left.calls, "why": left.reason}));
    json!({
        "grant": args.grant, "server": server, "policy": drafted.policy, "calls": server_usage.sent, "used": used,
        "left_out": of_log.chain(of_draft).collect::<Vec<_>>(), "notes": notes,
    })
}
