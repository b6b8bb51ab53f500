//! Formats tool drift for the terminal.

use gatelodge_catalogue::category_name;
use gatelodge_server::{DriftKind, ToolAccessGrant, ToolDrift};

use crate::diagnostic_report::escape_for_terminal;

/// Summarizes the drift of a tool in one line.
pub fn drift_headline(drift: &ToolDrift) -> String {
    let reach = |reach: &ToolAccessGrant| {
        let rule = reach.rule.as_deref().map(|rule| format!(" {}", escape_for_terminal(rule))).unwrap_or_default();
        format!("{} ({}{rule})", escape_for_terminal(&reach.grant), reach.policy)
    };
    let grants: Vec<String> = drift.reached_by.iter().map(reach).collect();
    let grants = if grants.is_empty() { "no grant".to_owned() } else { grants.join(", ") };
    let tool =
        if drift.tool.is_empty() { "a tool without a name".to_owned() } else { escape_for_terminal(&drift.tool) };
    format!("{tool}: {}; callable by {grants}", change_text(drift))
}

/// Describes how the tool has drifted, with its old and new category.
fn change_text(drift: &ToolDrift) -> String {
    let what = match drift.kind {
        DriftKind::New => "new",
        DriftKind::Changed => "changed",
        DriftKind::Gone => "no longer listed",
    };
    match (drift.category_before.map(category_name), drift.category.map(category_name)) {
        (Some(before), Some(now)) if before == now => format!("{what}, {now} as before"),
        (Some(before), Some(now)) => format!("{what}, {before} before, {now} now"),
        (Some(only), None) | (None, Some(only)) => format!("{what}, {only}"),
        (None, None) => what.to_owned(),
    }
}

/// Returns a message if a category override no longer applies because the tool's definition changed.
pub fn lapsed_override_text(drift: &ToolDrift) -> Option<String> {
    let lapsed = drift.lapsed_override.as_ref()?;
    let (by, why) = (escape_for_terminal(&lapsed.by), escape_for_terminal(&lapsed.why));
    let category = lapsed.category.map_or("", category_name);
    Some(format!(
        "{by} set the category {category} for the earlier definition ({why}); it does not apply to the new one"
    ))
}

/// Formats the drift of a tool, including the notes and the diff.
pub fn drift_text(drift: &ToolDrift) -> String {
    let line = |text: String| format!("  {text}\n");
    let refused = drift.rejection.as_deref().map(|why| line(format!("withheld: {why}"))).unwrap_or_default();
    let lapse = lapsed_override_text(drift).map(line).unwrap_or_default();
    let lines: String = drift.diff.lines().map(|line| format!("    {}\n", escape_for_terminal(line))).collect();
    format!("{}\n{refused}{lapse}{lines}", drift_headline(drift))
}
