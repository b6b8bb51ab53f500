//! Escapes untrusted text for display.

use std::fmt::Write;

pub(crate) use gatelodge_json::is_unprintable;

/// Maximum number of characters to display. Longer text is truncated; the tool definition contains the full text.
const MAX_SHOWN_CHARS: usize = 120;

/// Formats untrusted text on one line: escapes unprintable characters and truncates long text.
///
/// ```
/// assert_eq!(gatelodge_catalogue::escape_for_display("a\u{202e}b"), r"a\u{202e}b");
/// ```
pub fn escape_for_display(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_SHOWN_CHARS));
    for (count, letter) in text.chars().enumerate() {
        if count == MAX_SHOWN_CHARS {
            out.push('…');
            break;
        }
        if is_unprintable(letter) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out
}

/// Returns whether a character is invisible. Control characters, such as line breaks and tabs, do not count.
pub(crate) fn is_invisible(letter: char) -> bool {
    is_unprintable(letter) && !letter.is_control()
}

#[cfg(test)]
mod tests {
    use super::escape_for_display;

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(escape_for_display("a\u{202e}b\u{200b}\u{1b}[1m\nc"), "a\\u{202e}b\\u{200b}\\u{1b}[1m\\u{a}c");
    }

    #[test]
    fn long_text_is_truncated() {
        assert_eq!(escape_for_display(&"x".repeat(1_000)).chars().count(), 121);
    }
}
