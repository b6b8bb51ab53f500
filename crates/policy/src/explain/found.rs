//! The values that a path finds in a call, for people.

use gatelodge_json::{JsonKind, JsonValue, quote_into};

use crate::call::{Call, CallTarget};
use crate::condition::{Moment, fact};
use crate::path::{Path, Root, Segment};
use crate::scalar::Operand;

/// So many values are shown, and so much of each.
const MOST_VALUES: usize = 8;
const MOST_CHARACTERS: usize = 120;

pub(super) fn found(path: &Path, call: &Call<'_>, moment: Moment<'_>) -> Vec<String> {
    let mut values = Vec::new();
    match (&path.root, call.target, call.arguments) {
        (Root::Args, CallTarget::Resource { uri }, _) => {
            if matches!(path.segments.as_slice(), [Segment::Name(name)] if &**name == "uri") {
                values.push(text(uri));
            }
        }
        (Root::Args, _, Some(arguments)) => walk(arguments, &path.segments, &mut values),
        (Root::Args, _, None) => {}
        (root, _, _) => values.extend(fact(root, call, moment).map(|operand| written(&operand, moment))),
    }
    values
}

fn walk(value: JsonValue<'_>, segments: &[Segment], values: &mut Vec<String>) {
    if values.len() >= MOST_VALUES {
        return;
    }
    let Some((segment, rest)) = segments.split_first() else {
        return values.push(cut(value.raw()));
    };
    match (segment, value.kind()) {
        (Segment::Name(name), JsonKind::Object) => {
            value.get(name).into_iter().for_each(|next| walk(next, rest, values))
        }
        (Segment::Index(index), JsonKind::Array) => {
            value.elements().nth(*index).into_iter().for_each(|next| walk(next, rest, values));
        }
        (Segment::Every, JsonKind::Array) => value.elements().for_each(|next| walk(next, rest, values)),
        (_, JsonKind::Null) => {}
        // What stands in the way is what the mismatch is about.
        _ => values.push(cut(value.raw())),
    }
}

/// The facts outside the arguments are texts, but for the hour.
fn written(operand: &Operand<'_>, moment: Moment<'_>) -> String {
    match operand {
        Operand::Text(own) => text(own),
        _ => moment.at.to_zoned(moment.zone.clone()).hour().to_string(),
    }
}

fn text(own: &str) -> String {
    let mut out = String::new();
    quote_into(own, &mut out);
    cut(&out)
}

fn cut(json: &str) -> String {
    match json.char_indices().nth(MOST_CHARACTERS) {
        None => json.to_owned(),
        Some((at, _)) => format!("{}… ({} bytes)", json.get(..at).unwrap_or_default(), json.len()),
    }
}
