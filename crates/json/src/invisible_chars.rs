//! Detects invisible characters, and escapes untrusted text so that none of them stay hidden.

use std::fmt::Write;

use crate::string_escape::quote_into;

/// Character that selects the emoji form of the preceding one. It does not count as unprintable, because its effect is
/// visible.
const EMOJI_VARIATION_SELECTOR: char = '\u{fe0f}';

/// Returns whether a character has no glyph of its own: a Unicode format character or default-ignorable code point.
/// Control characters and white space do not count.
pub fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1345f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether a character controls a terminal, is invisible, or changes how other characters are displayed. Such
/// characters are escaped in output for people.
pub fn is_unprintable(character: char) -> bool {
    character.is_control() || (character != EMOJI_VARIATION_SELECTOR && is_invisible(character))
}

/// Escapes all unprintable characters in untrusted text, using JSON notation. This also keeps the text on one line.
///
/// ```
/// use gatelodge_json::escape_unprintable;
///
/// assert_eq!(escape_unprintable("pay\u{200b}pal\n"), r"pay\u200bpal\u000a");
/// ```
pub fn escape_unprintable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unprintable(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// Escapes control and invisible characters, so that untrusted text stays on one line and cannot control the terminal.
pub fn escape_for_terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unprintable(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// Formats `text` as a quoted JSON string in which unprintable characters are escaped.
pub fn quote_for_display(text: &str) -> String {
    let mut raw = String::new();
    quote_into(text, &mut raw);
    escape_unprintable(&raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_shows_hidden_characters_and_parses_to_the_original() {
        let text = "a\u{202e}b\u{200b}\u{e0041}\n\u{1b}[1m\"\u{9b}c ❤\u{fe0f}é";
        let written = quote_for_display(text);
        assert_eq!(written, r#""a\u202eb\u200b\udb40\udc41\n\u001b[1m\"\u009bc ❤️é""#);
        let limits = crate::JsonLimits::REQUEST;
        let read = crate::read(written.as_bytes(), &limits).expect("JSON");
        assert_eq!(read.root().as_str().as_deref(), Some(text));
    }

    #[test]
    fn exactly_the_unprintable_characters_are_escaped() {
        for character in '\0'..=char::MAX {
            assert_eq!(
                escape_unprintable(&character.to_string()) != character.to_string(),
                is_unprintable(character),
                "{character:?}"
            );
        }
    }
}
