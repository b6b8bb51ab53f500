//! What is said beside a draft.

use gatelodge_policy::DraftPolicy;
use serde_json::{Value, json};

use super::grant_usage::{GrantUsage, ServerUsage, UsageQuery};
use crate::cli::DraftPolicyArgs;
use crate::diagnostic_report::escape_for_terminal;

/// More lines than this are counted, not shown.
const MAX_PRINTED_LINES: usize = 20;

/// What has to be known before a draft is believed.
pub fn draft_notes(gathered: &GrantUsage, wanted: &UsageQuery<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let oldest = gathered.oldest.filter(|oldest| wanted.since.is_none_or(|since| since < *oldest));
    if let Some(oldest) = oldest.filter(|_| gathered.pruned_rows > 0) {
        let removed = gathered.pruned_rows;
        notes.push(format!("the log was pruned of {removed} rows: what was done before {oldest} is not in the draft"));
    }
    if gathered.grants.len() > 1 {
        let ids: Vec<String> = gathered.grants.iter().map(|id| format!("`{}`", escape_for_terminal(id))).collect();
        let grant = escape_for_terminal(wanted.grant);
        notes
            .push(format!("several grants are called `{grant}`; all count, or name one by its id: {}", ids.join(", ")));
    }
    for (server, found) in &gathered.servers {
        for tool in &found.unaccepted {
            let tool = escape_for_terminal(tool);
            notes.push(format!(
                "nobody accepted the definition of `{tool}` as it is: no policy lets it pass before; see `gatelodge server diff {server}`"
            ));
        }
    }
    notes
}

/// What was not sent, of all servers.
pub fn unsent_lines(gathered: &GrantUsage) -> Vec<String> {
    truncate_lines(gathered.servers.values().flat_map(exclusion_lines).collect())
}

/// What the draft does not cover, and why.
pub fn excluded_lines(found: &ServerUsage, drafted: &DraftPolicy) -> Vec<String> {
    let of_draft = drafted.uncovered.iter().map(|left| exclusion_line(&left.description, left.calls, left.reason));
    truncate_lines(exclusion_lines(found).chain(of_draft).collect())
}

fn exclusion_lines(found: &ServerUsage) -> impl Iterator<Item = String> {
    found.left_out.iter().map(|((what, why), count)| exclusion_line(what, *count, why))
}

fn exclusion_line(what: &str, count: u64, why: &str) -> String {
    format!("left out: {} ({}): {}", escape_for_terminal(what), call_count_text(count), escape_for_terminal(why))
}

fn truncate_lines(mut lines: Vec<String>) -> Vec<String> {
    let rest = lines.len().saturating_sub(MAX_PRINTED_LINES);
    if rest > 0 {
        lines.truncate(MAX_PRINTED_LINES);
        lines.push(format!("and {rest} more; `--json` names all"));
    }
    lines
}

pub fn call_count_text(count: u64) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

/// Everything, for programs.
pub fn draft_json(
    args: &DraftPolicyArgs,
    server: &str,
    found: &ServerUsage,
    drafted: &DraftPolicy,
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
    let of_log = found.left_out.iter().map(|((what, why), calls)| json!({"what": what, "calls": calls, "why": why}));
    let of_draft =
        drafted.uncovered.iter().map(|left| json!({"what": left.description, "calls": left.calls, "why": left.reason}));
    json!({
        "grant": args.grant, "server": server, "policy": drafted.policy, "calls": found.sent, "used": used,
        "left_out": of_log.chain(of_draft).collect::<Vec<_>>(), "notes": notes,
    })
}
