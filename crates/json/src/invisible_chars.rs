//! Letters that are not seen, and text in which they are.

use std::fmt::Write;

use crate::string_escape::quote_into;

/// Makes the sign before it a picture; what it does is seen.
const EMOJI_VARIATION_SELECTOR: char = '\u{fe0f}';

/// Whether a letter leaves no mark of its own: format characters, and those that Unicode lets a display ignore.
/// Controls and white space are not among them.
pub fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1345f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a letter steers a terminal, is not seen, or changes how others are seen: for people it is written out.
pub fn is_unprintable(letter: char) -> bool {
    letter.is_control() || (letter != EMOJI_VARIATION_SELECTOR && is_invisible(letter))
}

/// Foreign text on one line, in which nothing is hidden: as JSON writes it.
pub fn escape_unprintable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_unprintable(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(letter);
        }
    }
    out
}

/// A text as a JSON string, with its quotes, in which nothing is hidden from whoever reads it.
pub fn quote_for_display(text: &str) -> String {
    let mut raw = String::new();
    quote_into(text, &mut raw);
    escape_unprintable(&raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_written_out_and_stands_for_the_same() {
        let text = "a\u{202e}b\u{200b}\u{e0041}\n\u{1b}[1m\"\u{9b}c ❤\u{fe0f}é";
        let written = quote_for_display(text);
        assert_eq!(written, r#""a\u202eb\u200b\udb40\udc41\n\u001b[1m\"\u009bc ❤️é""#);
        let limits = crate::JsonLimits::REQUEST;
        let read = crate::read(written.as_bytes(), &limits).expect("JSON");
        assert_eq!(read.root().as_str().as_deref(), Some(text));
    }

    #[test]
    fn every_letter_that_is_written_out_is_hidden_and_no_other() {
        for letter in '\0'..=char::MAX {
            assert_eq!(
                escape_unprintable(&letter.to_string()) != letter.to_string(),
                is_unprintable(letter),
                "{letter:?}"
            );
        }
    }
}
