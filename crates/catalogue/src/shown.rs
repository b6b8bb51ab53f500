//! Foreign text, made visible.

use std::fmt::Write;

/// Longer pieces are cut; whoever wants all of it has the definition.
const MOST_LETTERS: usize = 120;

/// Foreign text on one line: what is not shown or steers a terminal is written out, what is long is cut.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MOST_LETTERS));
    for (count, letter) in text.chars().enumerate() {
        if count == MOST_LETTERS {
            out.push('…');
            break;
        }
        if is_hidden(letter) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out
}

/// Whether a letter is not seen, or changes how others are seen.
pub(crate) fn is_hidden(letter: char) -> bool {
    letter.is_control() || is_invisible(letter)
}

/// The same without line ends and tabs, which text may have.
pub(crate) fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
    ) || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}')
        || matches!(letter, '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}')
        || matches!(letter, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_is_not_seen_is_written_out() {
        assert_eq!(shown("a\u{202e}b\u{200b}\u{1b}[1m\nc"), "a\\u{202e}b\\u{200b}\\u{1b}[1m\\u{a}c");
    }

    #[test]
    fn what_is_long_is_cut() {
        assert_eq!(shown(&"x".repeat(1_000)).chars().count(), 121);
    }
}
