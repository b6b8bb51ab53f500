//! Escapes and unescapes JSON strings.

use std::borrow::Cow;
use std::fmt::Write;

use crate::special_bytes::find_special_byte;

/// Unescapes the text between the quotes of a string.
///
/// If the string was not validated, this behaves like a lenient parser: half of a surrogate pair becomes U+FFFD, and an
/// unknown escape becomes the character after the backslash.
///
/// ```
/// assert_eq!(gatelodge_json::unescape(r"\u00e9\n"), "é\n");
/// assert_eq!(gatelodge_json::unescape(r"\ud83d alone"), "\u{fffd} alone");
/// ```
pub fn unescape(inner: &str) -> Cow<'_, str> {
    let Some(first) = inner.find('\\') else { return Cow::Borrowed(inner) };
    let (plain, mut rest) = inner.split_at(first);
    let mut out = String::with_capacity(inner.len());
    out.push_str(plain);
    while let Some(escape) = rest.strip_prefix('\\') {
        rest = push_escape(escape, &mut out);
        let next = rest.find('\\').unwrap_or(rest.len());
        let (plain, tail) = rest.split_at(next);
        out.push_str(plain);
        rest = tail;
    }
    Cow::Owned(out)
}

/// Appends the character that the escape at the start of `text` denotes, and returns the rest of the text. The escape
/// is given without its backslash.
fn push_escape<'a>(text: &'a str, out: &mut String) -> &'a str {
    let mut chars = text.chars();
    let character = match chars.next() {
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => return push_unicode_escape(chars.as_str(), out),
        Some(other) => other,
        None => return "",
    };
    out.push(character);
    chars.as_str()
}

fn push_unicode_escape<'a>(text: &'a str, out: &mut String) -> &'a str {
    let Some((first, rest)) = parse_utf16_unit(text) else {
        out.push('u');
        return text;
    };
    let second = rest.strip_prefix("\\u").and_then(parse_utf16_unit);
    let pair = second.and_then(|(second, rest)| {
        let both = char::decode_utf16([first, second]).next()?.ok()?;
        (both > '\u{ffff}').then_some((both, rest))
    });
    let alone = || (char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), rest);
    let (character, rest) = pair.unwrap_or_else(alone);
    out.push(character);
    rest
}

/// Parses four hexadecimal digits. Returns their value and the text after them.
fn parse_utf16_unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| are_digits).map(|unit| (unit, rest))
}

/// Appends `text` to `out` as a quoted JSON string.
///
/// ```
/// let mut json = String::new();
/// gatelodge_json::quote_into("two\nlines", &mut json);
/// assert_eq!(json, r#""two\nlines""#);
/// ```
pub fn quote_into(text: &str, out: &mut String) {
    out.push('"');
    let plain = find_special_byte(text.as_bytes()).unwrap_or(text.len());
    // INVARIANT: special bytes are ASCII, so this is a character boundary.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unvalidated_strings_are_unescaped_like_lenient_parsers_do() {
        for (inner, said) in [
            (r"a\u00e9\ud83d\ude00\/", "aé😀/"),
            (r"\ud83d x", "\u{fffd} x"),
            (r"\ude00x", "\u{fffd}x"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"\u12G4", "u12G4"),
            (r"\u+123", "u+123"),
            (r"\u12", "u12"),
            (r"\q\x41", "qx41"),
            ("\\u12é4", "u12é4"),
            ("x\\", "x"),
        ] {
            assert_eq!(unescape(inner), said, "{inner}");
        }
    }
}
