//! Suggests conditions for arguments that had few distinct values.

use std::collections::{BTreeMap, BTreeSet};

use gatelodge_json::{JsonKind, JsonValue, quote_for_display};

/// Arguments with more distinct values than this are not treated as an enumeration.
const MAX_SUGGESTED_VALUES: usize = 5;
/// Minimum average number of calls per distinct value.
const MIN_CALLS_PER_VALUE: u64 = 4;
/// Strings longer than this are not treated as members of an enumeration.
const MAX_VALUE_CHARS: usize = 60;
/// The placeholder for secrets in the log.
const SECRET_MASK: &str = "***";
/// An argument whose name contains one of these substrings probably holds a secret. The values of such arguments are
/// never shown, even if the log contains them.
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

/// The distinct values of one argument.
#[derive(Debug, Default)]
pub(super) struct ArgumentValueTally {
    calls: u64,
    kind: Option<JsonKind>,
    /// The values as JSON literals. `None` once there are too many values, they differ in type, or one of them cannot
    /// be used in an `in` condition.
    literals: Option<BTreeSet<Box<str>>>,
}

impl ArgumentValueTally {
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

/// Returns a string, number or boolean as a JSON literal.
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

/// Returns whether arguments with this name usually hold secrets.
pub(super) fn is_secret_name(name: &str) -> bool {
    let lowercase = name.to_ascii_lowercase();
    lowercase.ends_with("key") || SECRET_NAME_PARTS.iter().any(|section| lowercase.contains(section))
}

/// Suggests conditions that all recorded calls satisfy. `calls` is the number of recorded calls.
pub(super) fn suggest_conditions(values: &BTreeMap<Box<str>, ArgumentValueTally>, calls: u64) -> Vec<String> {
    let mut suggestions = Vec::new();
    for (name, values) in values {
        // A call without recorded arguments could have had any value.
        let Some(written) = values.literals.as_ref().filter(|_| values.calls == calls) else { continue };
        if calls >= MIN_CALLS_PER_VALUE * written.len() as u64 {
            let list: Vec<&str> = written.iter().map(AsRef::as_ref).collect();
            let path = quote_for_display(&argument_path(name));
            suggestions.push(format!(r#"{{ "path": {path}, "op": "in", "value": [{}] }}"#, list.join(", ")));
        }
    }
    suggestions
}

fn argument_path(name: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if !name.is_empty() && name.chars().all(is_plain) {
        return format!("args.{name}");
    }
    format!("args[{}]", quote_for_display(name))
}
