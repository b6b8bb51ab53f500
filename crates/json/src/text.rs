//! Strings: what an escaped text stands for, and a text as JSON writes it.

use std::borrow::Cow;
use std::fmt::Write;

use crate::plain::first_odd;

/// Gives what a checked string stands for; `inner` is the text between its quotes.
pub(crate) fn unescape(inner: &str) -> Cow<'_, str> {
    let Some(first) = inner.find('\\') else { return Cow::Borrowed(inner) };
    let (plain, mut rest) = inner.split_at(first);
    let mut out = String::with_capacity(inner.len());
    out.push_str(plain);
    while let Some(escape) = rest.strip_prefix('\\') {
        rest = push_escape(escape, &mut out);
        let next = rest.find('\\').unwrap_or(rest.len());
        let (plain, behind) = rest.split_at(next);
        out.push_str(plain);
        rest = behind;
    }
    Cow::Owned(out)
}

/// Writes the character of the escape that `text` begins with (behind its backslash); gives the rest.
fn push_escape<'a>(text: &'a str, out: &mut String) -> &'a str {
    let mut chars = text.chars();
    let character = match chars.next() {
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => return push_unicode(chars.as_str(), out),
        Some(other) => other,
        None => return "",
    };
    out.push(character);
    chars.as_str()
}

fn push_unicode<'a>(text: &'a str, out: &mut String) -> &'a str {
    let unit = |text: &str| text.get(..4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let first = unit(text).unwrap_or(0);
    let rest = text.get(4..).unwrap_or_default();
    if !(0xD800..0xDC00).contains(&first) {
        // INVARIANT: the scan has refused lone surrogates, so this is a character.
        out.extend(char::from_u32(first));
        return rest;
    }
    let second = rest.get(2..).and_then(unit).unwrap_or(0xDC00);
    out.extend(char::from_u32(0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF)));
    rest.get(6..).unwrap_or_default()
}

/// Writes a text as a JSON string, with its quotes.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    let plain = first_odd(text.as_bytes()).unwrap_or(text.len());
    // INVARIANT: what is odd is one byte long, so it begins at the border of a character.
    let (plain, rest) = text.split_at_checked(plain).unwrap_or(("", text));
    out.push_str(plain);
    for character in rest.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
