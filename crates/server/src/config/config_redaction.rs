//! Redacts the configuration file for messages: overwrites everything that could be a secret with asterisks, so that
//! all byte offsets stay the same.

use std::ops::Range;

use gatelodge_store::GrantToken;

/// Returns whether a string contains a token or the beginning of one.
pub fn has_token(text: &str) -> bool {
    text.contains(GrantToken::PREFIX)
}

/// Redacts everything in a message that looks like a token.
pub fn redact_tokens(text: String) -> String {
    match has_token(&text) {
        true => String::from_utf8_lossy(&redact_spans(&text, &[])).into_owned(),
        false => text,
    }
}

/// Redacts the given ranges, and everything that looks like a token. A token ends at a space, a quote, a bracket, `,`
/// or `;`.
pub fn redact_spans(text: &str, secrets: &[Range<usize>]) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    let tokens = text.match_indices(GrantToken::PREFIX).map(|(at, _)| {
        let rest = text.get(at..).unwrap_or_default();
        let ends = |character: char| character.is_whitespace() || "\"'`,;[](){}<>".contains(character);
        let length = rest.find(ends).unwrap_or(rest.len());
        // The prefix alone is no secret, and our own messages name it.
        if length == GrantToken::PREFIX.len() { at..at } else { at..at + length }
    });
    for span in secrets.iter().cloned().chain(tokens) {
        overwrite_with_stars(out.get_mut(span).unwrap_or_default());
    }
    out
}

/// Redacts everything except names and headings, for a file that is not valid TOML, in which values cannot be located.
pub fn redact_values(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let name = line.find('=').and_then(|at| line.get(..at));
        let shown_length = match name {
            Some(name) if is_key_text(name) && !has_token(name) => name.len() + 1,
            _ if line.trim_start().starts_with('[') && !has_token(line) => line.len(),
            _ => 0,
        };
        let mut bytes = line.as_bytes().to_vec();
        overwrite_with_stars(bytes.get_mut(shown_length..).unwrap_or_default());
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
    fn secrets_are_redacted_and_positions_are_kept() {
        let text = "a = \"sécret\" # glt_abc1\n";
        let shown = String::from_utf8(redact_spans(text, std::slice::from_ref(&(4..13)))).expect("text");
        assert_eq!(shown, "a = \"*******\" # ********\n");
        assert_eq!(shown.len(), text.len());
    }

    #[test]
    fn of_invalid_toml_only_names_and_headings_are_shown() {
        let text = "[[grants]]\ntoken = sk-123\n  more-of-it\n\"Authorization\" = \"Bearer x\n";
        let shown = String::from_utf8(redact_values(text)).expect("text");
        assert_eq!(shown, "[[grants]]\ntoken = ******\n  **********\n\"Authorization\" = \"****** *\n");
    }
}
