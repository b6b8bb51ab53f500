//! Drifts, for people.

use gatelodge_catalogue::category_name;

use super::{Drift, Reach, What};
use crate::diagnostic_report::escape_for_terminal;

/// A drift in a line.
pub fn headline(drift: &Drift) -> String {
    let reach = |reach: &Reach| {
        let rule = reach.rule.as_deref().map(|rule| format!(" {}", escape_for_terminal(rule))).unwrap_or_default();
        format!("{} ({}{rule})", escape_for_terminal(&reach.grant), reach.policy)
    };
    let grants: Vec<String> = drift.reached_by.iter().map(reach).collect();
    let grants = if grants.is_empty() { "no grant".to_owned() } else { grants.join(", ") };
    let tool =
        if drift.tool.is_empty() { "a tool without a name".to_owned() } else { escape_for_terminal(&drift.tool) };
    format!("{tool}: {}; reached by {grants}", what(drift))
}

/// How it differs, and what it can do before and after.
fn what(drift: &Drift) -> String {
    let what = match drift.what {
        What::New => "new",
        What::Changed => "changed",
        What::Gone => "not offered any more",
    };
    match (drift.category_before.map(category_name), drift.category.map(category_name)) {
        (Some(before), Some(now)) if before == now => format!("{what}, {now} as before"),
        (Some(before), Some(now)) => format!("{what}, {before} before, {now} now"),
        (Some(only), None) | (None, Some(only)) => format!("{what}, {only}"),
        (None, None) => what.to_owned(),
    }
}

/// What somebody said and what the change undoes.
pub fn lapse(drift: &Drift) -> Option<String> {
    let said = drift.lapses.as_ref()?;
    let (by, why) = (escape_for_terminal(&said.by), escape_for_terminal(&said.why));
    let category = said.category.map_or("", category_name);
    Some(format!("{by} said {category} of the definition before ({why}); this does not hold for the new one"))
}

/// A drift, over lines.
pub fn told(drift: &Drift) -> String {
    let remark = |remark: String| format!("  {remark}\n");
    let refused = drift.refused.as_deref().map(|why| remark(format!("withheld: {why}"))).unwrap_or_default();
    let lapse = lapse(drift).map(remark).unwrap_or_default();
    let lines: String = drift.difference.lines().map(|line| format!("    {}\n", escape_for_terminal(line))).collect();
    format!("{}\n{refused}{lapse}{lines}", headline(drift))
}
