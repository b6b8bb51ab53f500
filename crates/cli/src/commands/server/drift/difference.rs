//! What changed in a definition, line by line.

use gatelodge_store::ToolDefinition;
use serde_json::Value;
use similar::TextDiff;

/// The difference between two definitions; either may be missing.
pub(super) fn difference(before: Option<&ToolDefinition>, now: Option<&ToolDefinition>) -> String {
    let (before, now) = (before.map(laid_out).unwrap_or_default(), now.map(laid_out).unwrap_or_default());
    TextDiff::from_lines(&before, &now).unified_diff().context_radius(2).to_string()
}

/// A definition over lines, members in order, so that only what it says makes a difference.
fn laid_out(definition: &ToolDefinition) -> String {
    let value: Value = serde_json::from_str(&definition.text).unwrap_or_default();
    let text = serde_json::to_string_pretty(&sorted(value)).unwrap_or_default();
    format!("{text}\n")
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(sorted).collect()),
        other => other,
    }
}
