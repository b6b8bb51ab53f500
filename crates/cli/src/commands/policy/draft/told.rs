//! What is said beside a draft.

use gatelodge_policy::DraftPolicy;
use serde_json::{Value, json};

use super::gather::{Found, Gathered, Wanted};
use crate::cli::DraftPolicyArgs;
use crate::diagnostic_report::escape_for_terminal;

/// More lines than this are counted, not shown.
const MOST_LINES: usize = 20;

/// What has to be known before a draft is believed.
pub fn notes(gathered: &Gathered, wanted: &Wanted<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let oldest = gathered.oldest.filter(|oldest| wanted.since.is_none_or(|since| since < *oldest));
    if let Some(oldest) = oldest.filter(|_| gathered.removed > 0) {
        let removed = gathered.removed;
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
pub fn refused(gathered: &Gathered) -> Vec<String> {
    bounded(gathered.servers.values().flat_map(lines).collect())
}

/// What the draft does not cover, and why.
pub fn left_out(found: &Found, drafted: &DraftPolicy) -> Vec<String> {
    let of_draft = drafted.uncovered.iter().map(|left| line(&left.description, left.calls, left.reason));
    bounded(lines(found).chain(of_draft).collect())
}

fn lines(found: &Found) -> impl Iterator<Item = String> {
    found.left_out.iter().map(|((what, why), count)| line(what, *count, why))
}

fn line(what: &str, count: u64, why: &str) -> String {
    format!("left out: {} ({}): {}", escape_for_terminal(what), calls(count), escape_for_terminal(why))
}

fn bounded(mut lines: Vec<String>) -> Vec<String> {
    let rest = lines.len().saturating_sub(MOST_LINES);
    if rest > 0 {
        lines.truncate(MOST_LINES);
        lines.push(format!("and {rest} more; `--json` names all"));
    }
    lines
}

pub fn calls(count: u64) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

/// Everything, for programs.
pub fn json(args: &DraftPolicyArgs, server: &str, found: &Found, drafted: &DraftPolicy, notes: &[String]) -> Value {
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
