//! Conditions that are offered: arguments that had few values.

use std::collections::{BTreeMap, BTreeSet};

use gatelodge_json::{JsonKind, JsonValue, quote_for_display};

/// More different values than this are no list that somebody chose from.
const MOST_VALUES: usize = 5;
/// Each value must have been seen so often, on the average.
const LEAST_EACH: u64 = 4;
/// Longer texts are not what a list is made of.
const LONGEST_TEXT: usize = 60;
/// What the log writes in place of a secret.
const MASK: &str = "***";
/// Parts of names whose values are secrets more often than not: never shown, whatever the log kept.
const TELLING: [&str; 11] = [
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
pub(super) struct Values {
    calls: u64,
    kind: Option<JsonKind>,
    /// As they are written in a policy; none once they are no list any more.
    written: Option<BTreeSet<Box<str>>>,
}

impl Values {
    pub fn add(&mut self, value: JsonValue<'_>) {
        self.calls += 1;
        let is_first = self.calls == 1;
        let is_same_kind = self.kind.replace(value.kind()).is_none_or(|kind| kind == value.kind());
        let mut written = match self.written.take() {
            None if is_first => BTreeSet::new(),
            None => return,
            Some(written) => written,
        };
        let Some(literal) = literal(value).filter(|_| is_same_kind) else { return };
        written.insert(literal.into());
        self.written = Some(written).filter(|written| written.len() <= MOST_VALUES);
    }
}

/// A text, number or boolean as a policy writes it.
fn literal(value: JsonValue<'_>) -> Option<String> {
    match value.kind() {
        JsonKind::String => {
            let text = value.as_str()?;
            let is_fit = !text.contains(MASK) && text.chars().count() <= LONGEST_TEXT;
            is_fit.then(|| quote_for_display(&text))
        }
        JsonKind::Number | JsonKind::Bool => Some(value.raw().to_owned()),
        JsonKind::Null | JsonKind::Array | JsonKind::Object => None,
    }
}

/// Whether values under this name are secrets more often than not.
pub(super) fn is_telling(name: &str) -> bool {
    let folded = name.to_ascii_lowercase();
    folded.ends_with("key") || TELLING.iter().any(|part| folded.contains(part))
}

/// The conditions that all of so many calls satisfy.
pub(super) fn offers(values: &BTreeMap<Box<str>, Values>, calls: u64) -> Vec<String> {
    let mut offers = Vec::new();
    for (name, values) in values {
        // A call that did not tell its arguments might have had any.
        let Some(written) = values.written.as_ref().filter(|_| values.calls == calls) else { continue };
        if calls >= LEAST_EACH * written.len() as u64 {
            let list: Vec<&str> = written.iter().map(AsRef::as_ref).collect();
            let path = quote_for_display(&path(name));
            offers.push(format!(r#"{{ "path": {path}, "op": "in", "value": [{}] }}"#, list.join(", ")));
        }
    }
    offers
}

fn path(name: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if !name.is_empty() && name.chars().all(is_plain) {
        return format!("args.{name}");
    }
    format!("args[{}]", quote_for_display(name))
}
