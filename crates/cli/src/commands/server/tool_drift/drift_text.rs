//! Drifts, for people.

use gatelodge_catalogue::category_name;

use super::{DriftKind, GrantReach, ToolDrift};
use crate::diagnostic_report::escape_for_terminal;

/// A drift in a line.
pub fn drift_headline(drift: &ToolDrift) -> String {
    let reach = |reach: &GrantReach| {
        let rule = reach.rule.as_deref().map(|rule| format!(" {}", escape_for_terminal(rule))).unwrap_or_default();
        format!("{} ({}{rule})", escape_for_terminal(&reach.grant), reach.policy)
    };
    let grants: Vec<String> = drift.reached_by.iter().map(reach).collect();
    let grants = if grants.is_empty() { "no grant".to_owned() } else { grants.join(", ") };
    let tool =
        if drift.tool.is_empty() { "a tool without a name".to_owned() } else { escape_for_terminal(&drift.tool) };
    format!("{tool}: {}; reached by {grants}", change_text(drift))
}

/// How it differs, and what it can do before and after.
fn change_text(drift: &ToolDrift) -> String {
    let what = match drift.kind {
        DriftKind::New => "new",
        DriftKind::Changed => "changed",
        DriftKind::Gone => "not offered any more",
    };
    match (drift.category_before.map(category_name), drift.category.map(category_name)) {
        (Some(before), Some(now)) if before == now => format!("{what}, {now} as before"),
        (Some(before), Some(now)) => format!("{what}, {before} before, {now} now"),
        (Some(only), None) | (None, Some(only)) => format!("{what}, {only}"),
        (None, None) => what.to_owned(),
    }
}

/// What somebody said and what the change undoes.
pub fn lapsed_override_text(drift: &ToolDrift) -> Option<String> {
    let said = drift.lapsed_override.as_ref()?;
    let (by, why) = (escape_for_terminal(&said.by), escape_for_terminal(&said.why));
    let category = said.category.map_or("", category_name);
    Some(format!("{by} said {category} of the definition before ({why}); this does not hold for the new one"))
}

/// A drift, over lines.
pub fn drift_text(drift: &ToolDrift) -> String {
    let remark = |remark: String| format!("  {remark}\n");
    let refused = drift.rejection.as_deref().map(|why| remark(format!("withheld: {why}"))).unwrap_or_default();
    let lapse = lapsed_override_text(drift).map(remark).unwrap_or_default();
    let lines: String = drift.diff.lines().map(|line| format!("    {}\n", escape_for_terminal(line))).collect();
    format!("{}\n{refused}{lapse}{lines}", drift_headline(drift))
}
