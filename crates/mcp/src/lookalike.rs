//! Members that a lenient reader would take for a member of the protocol.
//!
//! Some readers ignore case, some fold compatible letters, some accept `task_id` for `taskId` or `meta` for `_meta`.
//! What they would find must be what was judged, so a look-alike is refused, whether or not the real one is there.

use unicode_normalization::UnicodeNormalization;

/// The members of a message.
pub(crate) const ENVELOPE: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of `params`, of all methods that callers send.
pub(crate) const PARAMS: &[&str] = &[
    "_meta",
    "name",
    "arguments",
    "uri",
    "cursor",
    "ref",
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
pub(crate) const META: &[&str] = &[
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/subscriptionId",
];

/// The members of `params.ref`.
pub(crate) const REFERENCE: &[&str] = &["type", "name", "uri", "title"];

/// Characters that are not seen: format characters and those that Unicode lets a display ignore.
const INVISIBLE: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1345f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether `key` is none of the known names, yet one of them to a lenient reader.
pub(crate) fn is_look_alike(key: &str, known: &[&str]) -> bool {
    if known.contains(&key) {
        return false;
    }
    let folded = fold(key);
    let is_same = |name: &&str| {
        let plain = name.bytes().filter(|byte| !is_separator(char::from(*byte)));
        plain.map(|byte| byte.to_ascii_lowercase()).eq(folded.bytes())
    };
    known.iter().any(is_same)
}

/// Whether a character leaves no mark of its own: controls, white space and what is invisible.
pub(crate) fn is_hidden(character: char) -> bool {
    let is_in = |&(first, last): &(char, char)| (first..=last).contains(&character);
    character.is_control() || character.is_whitespace() || (character > '\u{7f}' && INVISIBLE.iter().any(is_in))
}

/// Compatible letters made one, case folded, separators and what is not seen left out.
fn fold(key: &str) -> String {
    let shown = key.nfkd().filter(|&character| !is_hidden(character) && !is_separator(character));
    // Upper case first: it brings together what lower case keeps apart, such as the dotless i and the long s.
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
    fn no_known_name_is_a_look_alike_of_another() {
        for known in [ENVELOPE, PARAMS, META, REFERENCE] {
            assert!(known.iter().all(|name| !is_look_alike(name, known)));
            assert!(known.iter().all(|name| is_look_alike(&name.to_uppercase(), known)));
        }
    }

    #[test]
    fn every_character_that_folds_to_a_letter_of_a_name_is_found() {
        for character in '\0'..=char::MAX {
            let text = character.to_string();
            let compatible: String = text.nfkc().flat_map(char::to_lowercase).collect();
            let forms = [text.to_lowercase(), text.to_uppercase().to_lowercase(), compatible];
            for form in forms.iter().filter(|form| form.len() == 1 && form.bytes().all(|b| b.is_ascii_lowercase())) {
                assert_eq!(&fold(&text), form, "U+{:04X}", u32::from(character));
            }
        }
    }

    #[test]
    fn other_names_are_left_alone() {
        for key in ["names", "nom", "n", "", "x-name", "ñame", "名前", "args", "vendor/name"] {
            assert!(!is_look_alike(key, PARAMS), "{key}");
        }
    }
}
