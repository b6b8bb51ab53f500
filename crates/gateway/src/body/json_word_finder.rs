//! Finds out quickly that a JSON message does not contain certain words, so that most messages need no second look.

use std::sync::LazyLock;

use memchr::memchr2_iter;
use memchr::memmem::Finder;

/// Finds the names of the members that create a task or ask for input, and names that a lenient client takes for them. A
/// response that contains none of them does neither.
pub(crate) static TASK_OR_INPUT_FINDER: JsonWordFinder = JsonWordFinder { groups: &[INPUT_WORDS, TASK_WORDS] };
/// Finds the names of the members that ask for input. A response that contains none of them does not.
pub(crate) static INPUT_FINDER: JsonWordFinder = JsonWordFinder { groups: &[INPUT_WORDS] };

/// Start of `inputRequests` and `input_required`.
const INPUT_WORDS: WordGroup = WordGroup { rare_letter: b'q', words: &["inputreq", "input_req", "input-req"] };
/// `taskId`.
const TASK_WORDS: WordGroup = WordGroup { rare_letter: b'k', words: &["taskid", "task_id", "task-id"] };

static ESCAPE_FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u00"));

/// Searches JSON messages for words, which may be written in upper case or with escapes.
pub(crate) struct JsonWordFinder {
    groups: &'static [WordGroup],
}

/// Words in lower case that all contain one letter, which is rare in other texts: the search looks for the letter.
struct WordGroup {
    rare_letter: u8,
    words: &'static [&'static str],
}

impl JsonWordFinder {
    /// Returns whether a message may contain one of the words.
    pub fn can_occur_in(&self, text: &[u8]) -> bool {
        self.groups.iter().any(|group| group.occurs_in(text)) || has_escaped_letter(text)
    }
}

impl WordGroup {
    fn occurs_in(&self, text: &[u8]) -> bool {
        let letter = self.rare_letter;
        let mut found = memchr2_iter(letter, letter.to_ascii_uppercase(), text);
        found.any(|at| self.words.iter().any(|word| is_word_around(text, at, word.as_bytes(), letter)))
    }
}

/// Returns whether the letter at `at` is the one in `word`.
fn is_word_around(text: &[u8], at: usize, word: &[u8], letter: u8) -> bool {
    let start = word.iter().position(|byte| *byte == letter).and_then(|before| at.checked_sub(before));
    let found = start.and_then(|start| text.get(start..start + word.len()));
    found.is_some_and(|found| found.eq_ignore_ascii_case(word))
}

/// Returns whether a message contains an escaped ASCII letter or underscore, so that a search for words may miss one.
pub(crate) fn has_escaped_letter(text: &[u8]) -> bool {
    let is_letter = |at: usize| text.get(at + 4).is_some_and(|digit| (b'4'..=b'7').contains(digit));
    ESCAPE_FINDER.find_iter(text).any(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_every_spelling_and_nothing_else() {
        for (text, has_input, has_task) in [
            (r#"{"inputRequests":{}}"#, true, false),
            (r#"{"resultType":"input_required"}"#, true, false),
            (r#"{"INPUT_REQUESTS":{}}"#, true, false),
            (r#"{"taskId":"t"}"#, false, true),
            (r#"{"TASK_ID":"t"}"#, false, true),
            (r#"{"t\u0061skId":"t"}"#, true, true),
            (r#"{"input\u005frequired":1}"#, true, true),
            (r#"{"content":[{"text":"the \u003ctask\u003e asks for quick input, \u001b[0m"}]}"#, false, false),
            ("q", false, false),
            ("taskI", false, false),
            ("", false, false),
        ] {
            let found =
                (INPUT_FINDER.can_occur_in(text.as_bytes()), TASK_OR_INPUT_FINDER.can_occur_in(text.as_bytes()));
            assert_eq!(found, (has_input, has_input || has_task), "{text}");
        }
    }
}
