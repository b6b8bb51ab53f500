//! Values of a text with their paths, in order, to compare meanings.

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};

/// Path and value. Numbers keep their spelling, strings are unescaped.
pub type TreeLeaf = (String, String);

/// Reads a valid text. Asserts that every span lies inside that of its container.
pub fn value_leaves(text: &str) -> Vec<TreeLeaf> {
    let document = read(text.as_bytes(), &JsonLimits::REPLY).unwrap_or_else(|fault| panic!("{fault}: {text:?}"));
    let mut leaves = Vec::new();
    collect_leaves(document.root(), String::new(), (0, text.len()), &mut leaves);
    leaves
}

fn collect_leaves(value: JsonValue<'_>, path: String, (from, to): (usize, usize), leaves: &mut Vec<TreeLeaf>) {
    let (start, end) = value.span();
    assert!(from <= start && start < end && end <= to, "the span of {path} is outside its container");
    let says = match value.kind() {
        JsonKind::Object => "{}".to_owned(),
        JsonKind::Array => "[]".to_owned(),
        JsonKind::String => format!("{:?}", value.as_str().expect("a string")),
        JsonKind::Number | JsonKind::Bool | JsonKind::Null => value.raw().to_owned(),
    };
    leaves.push((path.clone(), says));
    for (key, member) in value.members() {
        collect_leaves(member, format!("{path}/{:?}", key.as_str().expect("a key")), (key.span().1, end), leaves);
    }
    for (index, element) in value.elements().enumerate() {
        collect_leaves(element, format!("{path}/{index}"), (start + 1, end), leaves);
    }
}

/// Whether serde_json finds the same structure, keys, strings and literals; numbers are compared by position only.
pub fn is_same_as_serde(text: &str) -> bool {
    let document = read(text.as_bytes(), &JsonLimits::REPLY).expect("readable");
    serde_json::from_str(text).is_ok_and(|theirs| is_same_value(document.root(), &theirs))
}

fn is_same_value(ours: JsonValue<'_>, theirs: &serde_json::Value) -> bool {
    match theirs {
        serde_json::Value::Null => ours.kind() == JsonKind::Null,
        serde_json::Value::Bool(theirs) => ours.as_bool() == Some(*theirs),
        serde_json::Value::Number(_) => ours.kind() == JsonKind::Number,
        serde_json::Value::String(theirs) => ours.is_str(theirs),
        serde_json::Value::Array(theirs) => {
            let pairs = ours.elements().zip(theirs);
            ours.kind() == JsonKind::Array
                && ours.elements().count() == theirs.len()
                && pairs.into_iter().all(|(ours, theirs)| is_same_value(ours, theirs))
        }
        serde_json::Value::Object(theirs) => {
            let mut pairs = ours.members().zip(theirs);
            ours.kind() == JsonKind::Object
                && ours.members().count() == theirs.len()
                && pairs.all(|((key, ours), (name, theirs))| key.is_str(name) && is_same_value(ours, theirs))
        }
    }
}
