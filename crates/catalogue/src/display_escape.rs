//! Foreign text, made visible.

use std::fmt::Write;

pub(crate) use gatelodge_json::is_unprintable;

/// Longer pieces are cut; whoever wants all of it has the definition.
const MAX_SHOWN_CHARS: usize = 120;

/// Foreign text on one line: what is not shown or steers a terminal is written out, what is long is cut.
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

/// What is hidden without line ends and tabs, which text may have.
pub(crate) fn is_invisible(letter: char) -> bool {
    is_unprintable(letter) && !letter.is_control()
}

#[cfg(test)]
mod tests {
    use super::escape_for_display;

    #[test]
    fn what_is_not_seen_is_written_out() {
        assert_eq!(escape_for_display("a\u{202e}b\u{200b}\u{1b}[1m\nc"), "a\\u{202e}b\\u{200b}\\u{1b}[1m\\u{a}c");
    }

    #[test]
    fn what_is_long_is_cut() {
        assert_eq!(escape_for_display(&"x".repeat(1_000)).chars().count(), 121);
    }
}
