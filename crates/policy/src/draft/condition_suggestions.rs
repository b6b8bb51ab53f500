//! Conditions that are offered: arguments that had few values.

use std::collections::{BTreeMap, BTreeSet};

use gatelodge_json::{JsonKind, JsonValue, quote_for_display};

/// More different values than this are no list that somebody chose from.
const MAX_SUGGESTED_VALUES: usize = 5;
/// Each value must have been seen so often, on the average.
const MIN_CALLS_PER_VALUE: u64 = 4;
/// Longer texts are not what a list is made of.
const MAX_VALUE_CHARS: usize = 60;
/// What the log writes in place of a secret.
const SECRET_MASK: &str = "***";
/// Parts of names whose values are secrets more often than not: never shown, whatever the log kept.
const SECRET_NAME_PARTS: [&str; 11] = [
    "passw",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "auth",
    "credential",
    "cookie",
    "session",
];

/// The values that an argument had.
#[derive(Debug, Default)]
pub(super) struct ArgumentValues {
    calls: u64,
    kind: Option<JsonKind>,
    /// As they are written in a policy; none once they are no list any more.
    literals: Option<BTreeSet<Box<str>>>,
}

impl ArgumentValues {
    pub fn add(&mut self, value: JsonValue<'_>) {
        self.calls += 1;
        let is_first = self.calls == 1;
        let is_same_kind = self.kind.replace(value.kind()).is_none_or(|kind| kind == value.kind());
        let mut written = match self.literals.take() {
            None if is_first => BTreeSet::new(),
            None => return,
            Some(written) => written,
        };
        let Some(literal) = literal(value).filter(|_| is_same_kind) else { return };
        written.insert(literal.into());
        self.literals = Some(written).filter(|written| written.len() <= MAX_SUGGESTED_VALUES);
    }
}

/// A text, number or boolean as a policy writes it.
fn literal(value: JsonValue<'_>) -> Option<String> {
    match value.kind() {
        JsonKind::String => {
            let text = value.as_str()?;
            let is_fit = !text.contains(SECRET_MASK) && text.chars().count() <= MAX_VALUE_CHARS;
            is_fit.then(|| quote_for_display(&text))
        }
        JsonKind::Number | JsonKind::Bool => Some(value.raw().to_owned()),
        JsonKind::Null | JsonKind::Array | JsonKind::Object => None,
    }
}

/// Whether values under this name are secrets more often than not.
pub(super) fn is_secret_name(name: &str) -> bool {
    let folded = name.to_ascii_lowercase();
    folded.ends_with("key") || SECRET_NAME_PARTS.iter().any(|part| folded.contains(part))
}

/// The conditions that all of so many calls satisfy.
pub(super) fn suggest_conditions(values: &BTreeMap<Box<str>, ArgumentValues>, calls: u64) -> Vec<String> {
    let mut offers = Vec::new();
    for (name, values) in values {
        // A call that did not tell its arguments might have had any.
        let Some(written) = values.literals.as_ref().filter(|_| values.calls == calls) else { continue };
        if calls >= MIN_CALLS_PER_VALUE * written.len() as u64 {
            let list: Vec<&str> = written.iter().map(AsRef::as_ref).collect();
            let path = quote_for_display(&argument_path(name));
            offers.push(format!(r#"{{ "path": {path}, "op": "in", "value": [{}] }}"#, list.join(", ")));
        }
    }
    offers
}

fn argument_path(name: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if !name.is_empty() && name.chars().all(is_plain) {
        return format!("args.{name}");
    }
    format!("args[{}]", quote_for_display(name))
}
