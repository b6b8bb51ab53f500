//! Computes a line diff between two tool definitions.

use gatelodge_store::ToolDefinition;
use serde_json::Value;
use similar::TextDiff;

/// Returns a unified diff between two tool definitions. A missing definition is treated as empty.
pub(super) fn definition_diff(before: Option<&ToolDefinition>, now: Option<&ToolDefinition>) -> String {
    let (before, now) =
        (before.map(pretty_definition).unwrap_or_default(), now.map(pretty_definition).unwrap_or_default());
    TextDiff::from_lines(&before, &now).unified_diff().context_radius(2).to_string()
}

/// Pretty-prints a definition with its members sorted, so that a different member order does not show up in the diff.
fn pretty_definition(definition: &ToolDefinition) -> String {
    let value: Value = serde_json::from_str(&definition.text).unwrap_or_default();
    let text = serde_json::to_string_pretty(&sort_members(value)).unwrap_or_default();
    format!("{text}\n")
}

fn sort_members(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(name, value)| (name, sort_members(value))).collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(sort_members).collect()),
        other => other,
    }
}
