//! The file as it may be shown: everything that could be a secret is starred out, every byte stays in its place.

use std::ops::Range;

/// What each of our tokens begins with.
const TOKEN_PREFIX: &str = "glt_";

/// Whether a token, or what is left of one, is in a text.
pub fn has_token(text: &str) -> bool {
    text.contains(TOKEN_PREFIX)
}

/// Stars out whatever looks like a token in a message.
pub fn redact_tokens(text: String) -> String {
    match has_token(&text) {
        true => String::from_utf8_lossy(&redact_spans(&text, &[])).into_owned(),
        false => text,
    }
}

/// Stars out the given places, and whatever looks like a token: all up to a space, a quote or a bracket.
pub fn redact_spans(text: &str, secrets: &[Range<usize>]) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    let tokens = text.match_indices(TOKEN_PREFIX).map(|(at, _)| {
        let rest = text.get(at..).unwrap_or_default();
        let ends = |character: char| character.is_whitespace() || "\"'`,;[](){}<>".contains(character);
        at..at + rest.find(ends).unwrap_or(rest.len())
    });
    for span in secrets.iter().cloned().chain(tokens) {
        overwrite_with_stars(out.get_mut(span).unwrap_or_default());
    }
    out
}

/// Stars out all but names and headings: for a text that is no TOML, where nobody knows what is a value.
pub fn redact_values(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let name = line.find('=').and_then(|at| line.get(..at));
        let kept = match name {
            Some(name) if is_key_text(name) && !has_token(name) => name.len() + 1,
            _ if line.trim_start().starts_with('[') && !has_token(line) => line.len(),
            _ => 0,
        };
        let mut bytes = line.as_bytes().to_vec();
        overwrite_with_stars(bytes.get_mut(kept..).unwrap_or_default());
        out.extend(bytes);
    }
    out
}

fn is_key_text(text: &str) -> bool {
    let name = text.trim();
    name.len() <= 40
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'"'))
}

fn overwrite_with_stars(bytes: &mut [u8]) {
    for byte in bytes {
        if !matches!(byte, b'\n' | b'\r' | b' ' | b'\t' | b'"' | b'\'') {
            *byte = b'*';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stay_and_secrets_go() {
        let text = "a = \"sécret\" # glt_abc1\n";
        let shown = String::from_utf8(redact_spans(text, std::slice::from_ref(&(4..13)))).expect("text");
        assert_eq!(shown, "a = \"*******\" # ********\n");
        assert_eq!(shown.len(), text.len());
    }

    #[test]
    fn of_a_broken_text_only_names_are_shown() {
        let text = "[[grants]]\ntoken = sk-123\n  more-of-it\n\"Authorization\" = \"Bearer x\n";
        let shown = String::from_utf8(redact_values(text)).expect("text");
        assert_eq!(shown, "[[grants]]\ntoken = ******\n  **********\n\"Authorization\" = \"****** *\n");
    }
}
