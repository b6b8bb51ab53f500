//! Detects members that a lenient parser would mistake for members that the protocol defines.
//!
//! Some parsers ignore case, some normalize compatibility characters, and some accept `task_id` for `taskId` or `meta`
//! for `_meta`. A server with such a parser could read a member that the policy did not check. Confusable members are
//! therefore refused, whether or not the member that they resemble is present.

use std::borrow::Cow;

use gatelodge_json::{JsonValue, is_invisible};
use unicode_normalization::UnicodeNormalization;

/// The members of a message's envelope.
pub(crate) const ENVELOPE_MEMBERS: &[&str; 6] = &["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of `params` in all methods that clients send. The message parser relies on `_meta` and `ref` being the
/// first two.
pub(crate) const PARAMS_MEMBERS: &[&str; 23] = &[
    "_meta",
    "ref",
    "name",
    "arguments",
    "uri",
    "cursor",
    "argument",
    "context",
    "level",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "progressToken",
    "progress",
    "total",
    "message",
    "requestId",
    "reason",
    "task",
    "taskId",
    "notifications",
    "inputResponses",
    "requestState",
];

/// The members of `params._meta`.
pub(crate) const META_MEMBERS: &[&str] = &[
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/subscriptionId",
];

/// The members of `params.ref`.
pub(crate) const REFERENCE_MEMBERS: &[&str] = &["type", "name", "uri", "title"];

/// The members of a result that create a task or ask the client for input.
const RESULT_MEMBERS: &[&str] = &["inputRequests", "requestState", "resultType", "taskId"];

/// Returns the name of a member that a lenient client would mistake for one that creates a task or asks for input.
/// `result` is a result or the parameters of a notification about a task.
pub fn find_confusable_result_member<'d>(result: JsonValue<'d>) -> Option<Cow<'d, str>> {
    result.members().filter_map(|(key, _)| key.as_str()).find(|key| is_confusable(key, RESULT_MEMBERS))
}

/// Returns whether `key` is an unknown name that a lenient parser would treat as a known one.
pub(crate) fn is_confusable(key: &str, known: &[&str]) -> bool {
    if known.contains(&key) {
        return false;
    }
    let normalized = normalize_key(key);
    let is_same = |name: &&str| {
        let plain = name.bytes().filter(|byte| !is_separator(char::from(*byte)));
        plain.map(|byte| byte.to_ascii_lowercase()).eq(normalized.bytes())
    };
    known.iter().any(is_same)
}

/// Returns whether a character is a control character, white space or otherwise invisible.
pub(crate) fn is_blank_or_invisible(character: char) -> bool {
    character.is_control() || character.is_whitespace() || is_invisible(character)
}

/// Normalizes compatibility characters and case, and drops separators and invisible characters.
fn normalize_key(key: &str) -> String {
    let shown = key.nfkd().filter(|&character| !is_blank_or_invisible(character) && !is_separator(character));
    // Upper case first: it merges characters that lower case distinguishes, such as the dotless i and the long s.
    let upper = shown.flat_map(char::to_uppercase);
    // A dotted capital I becomes an i and a combining dot; some readers drop the dot.
    upper.flat_map(char::to_lowercase).filter(|&character| character != '\u{307}').collect()
}

fn is_separator(character: char) -> bool {
    matches!(character, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_known_name_is_confusable_with_another() {
        for known in [&ENVELOPE_MEMBERS[..], PARAMS_MEMBERS, META_MEMBERS, REFERENCE_MEMBERS, RESULT_MEMBERS] {
            assert!(known.iter().all(|name| !is_confusable(name, known)));
            assert!(known.iter().all(|name| is_confusable(&name.to_uppercase(), known)));
        }
    }

    #[test]
    fn every_character_that_normalizes_to_an_ascii_letter_is_found() {
        for character in '\0'..=char::MAX {
            let text = character.to_string();
            let compatible: String = text.nfkc().flat_map(char::to_lowercase).collect();
            let forms = [text.to_lowercase(), text.to_uppercase().to_lowercase(), compatible];
            for form in forms.iter().filter(|form| form.len() == 1 && form.bytes().all(|b| b.is_ascii_lowercase())) {
                assert_eq!(&normalize_key(&text), form, "U+{:04X}", u32::from(character));
            }
        }
    }

    #[test]
    fn unrelated_names_are_not_confusable() {
        for key in ["names", "nom", "n", "", "x-name", "ñame", "名前", "args", "vendor/name"] {
            assert!(!is_confusable(key, PARAMS_MEMBERS), "{key}");
        }
    }
}
