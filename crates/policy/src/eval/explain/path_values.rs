//! Finds the values at a path in a call, for display.

use gatelodge_json::{JsonKind, JsonValue, quote_into};

use crate::call::call_path::{CallPath, CallPathRoot, CallPathSegment};
use crate::call::call_value::CallValue;
use crate::call::{Call, CallTarget};
use crate::eval::call_fact::{EvaluationTime, call_fact};

/// Limits on the number of values shown and on the length of each.
const MAX_SHOWN_VALUES: usize = 8;
const MAX_SHOWN_CHARACTERS: usize = 120;

pub(super) fn values_at_path(path: &CallPath, call: &Call<'_>, moment: EvaluationTime<'_>) -> Vec<String> {
    let mut values = Vec::new();
    match (&path.root, call.target, call.arguments) {
        (CallPathRoot::Args, CallTarget::Resource { uri }, _) => {
            if matches!(path.segments.as_slice(), [CallPathSegment::Name(name)] if &**name == "uri") {
                values.push(quoted_text(uri));
            }
        }
        (CallPathRoot::Args, _, Some(arguments)) => collect_values(arguments, &path.segments, &mut values),
        (CallPathRoot::Args, _, None) => {}
        (root, _, _) => values.extend(call_fact(root, call, moment).map(|operand| operand_json(&operand, moment))),
    }
    values
}

fn collect_values(value: JsonValue<'_>, segments: &[CallPathSegment], values: &mut Vec<String>) {
    if values.len() >= MAX_SHOWN_VALUES {
        return;
    }
    let Some((segment, rest)) = segments.split_first() else {
        return values.push(truncate_json(value.raw()));
    };
    match (segment, value.kind()) {
        (CallPathSegment::Name(name), JsonKind::Object) => {
            value.get(name).into_iter().for_each(|next| collect_values(next, rest, values))
        }
        (CallPathSegment::Index(index), JsonKind::Array) => {
            value.elements().nth(*index).into_iter().for_each(|next| collect_values(next, rest, values));
        }
        (CallPathSegment::Wildcard, JsonKind::Array) => {
            value.elements().for_each(|next| collect_values(next, rest, values))
        }
        (_, JsonKind::Null) => {}
        // A value that blocks the path is what the mismatch is about.
        _ => values.push(truncate_json(value.raw())),
    }
}

/// Returns a fact as JSON. All facts other than arguments are strings, except the hour.
fn operand_json(operand: &CallValue<'_>, moment: EvaluationTime<'_>) -> String {
    match operand {
        CallValue::Text(own) => quoted_text(own),
        _ => moment.at.to_zoned(moment.time_zone.clone()).hour().to_string(),
    }
}

fn quoted_text(own: &str) -> String {
    let mut out = String::new();
    quote_into(own, &mut out);
    truncate_json(&out)
}

fn truncate_json(json: &str) -> String {
    match json.char_indices().nth(MAX_SHOWN_CHARACTERS) {
        None => json.to_owned(),
        Some((at, _)) => format!("{}… ({} bytes)", json.get(..at).unwrap_or_default(), json.len()),
    }
}
