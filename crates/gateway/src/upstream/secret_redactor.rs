//! Removes injected secrets from everything that a server returns.

use aho_corasick::AhoCorasick;
use bytes::Bytes;
use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use gatelodge_json::{quote_into, unescape};
use gatelodge_mutants::mutant;

/// Replacement for a secret.
const REDACTED_TEXT: &str = "***";
/// Secrets shorter than this are not redacted: they also occur in normal text, so redacting them would garble
/// responses. Loading the configuration produces a warning about them.
pub const MIN_SECRET_BYTES: usize = 6;
/// Lines of a multi-line secret that are shorter than this, such as `-----`, are not treated as secret.
const MIN_SECRET_LINE_BYTES: usize = 12;

/// Finds secrets in all encodings in which a server could return them.
#[derive(Debug, Default)]
pub struct SecretRedactor {
    pattern_matcher: Option<AhoCorasick>,
}

impl SecretRedactor {
    /// Creates a redactor for the secrets of a server.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a String>) -> Self {
        let long = secrets.into_iter().filter(|secret| secret.len() >= MIN_SECRET_BYTES);
        // Text that is read line by line contains a multi-line secret in parts.
        let lines =
            |secret: &'a String| secret.lines().filter(|line| line.len() >= MIN_SECRET_LINE_BYTES).map(str::to_owned);
        let parts: Vec<String> = long.flat_map(|secret| lines(secret).chain([secret.clone()])).collect();
        let mut forms: Vec<Vec<u8>> = parts.iter().flat_map(|secret| encoded_forms(secret)).collect();
        forms.sort_unstable();
        forms.dedup();
        if forms.is_empty() {
            return Self::default();
        }
        // The longest match wins, so that no rest of a secret remains.
        let builder = AhoCorasick::builder().match_kind(aho_corasick::MatchKind::LeftmostLongest).build(forms);
        Self { pattern_matcher: builder.ok() }
    }

    /// Returns whether there are no secrets to redact.
    pub fn is_empty(&self) -> bool {
        self.pattern_matcher.is_none()
    }

    /// Returns the length of the longest encoding of a secret.
    pub(super) fn max_secret_bytes(&self) -> usize {
        self.pattern_matcher.as_ref().map_or(0, AhoCorasick::max_pattern_len)
    }

    /// Redacts all secrets in a JSON message. A message without secrets is returned without copying.
    pub fn redact(&self, text: Bytes) -> Bytes {
        let Some(finder) = &self.pattern_matcher else { return text };
        let text = if finder.is_match(&text[..]) {
            let replacements = vec![REDACTED_TEXT; finder.patterns_len()];
            finder.replace_all_bytes(&text, &replacements).into()
        } else {
            text
        };
        // Servers may write any character as `\uXXXX`, so strings with such escapes are compared unescaped.
        let is_usual = |at: usize| matches!(text.get(at + 1), Some(b'"' | b'\\' | b'n' | b'r' | b't'));
        if memchr::memchr_iter(b'\\', &text).all(is_usual) {
            return text;
        }
        match str::from_utf8(&text).ok().and_then(|text| self.redact_escaped(text)) {
            Some(redacted) => redacted.into(),
            None => text,
        }
    }

    /// Like [`Self::redact`], for an owned string.
    pub fn redact_json(&self, text: String) -> String {
        let redacted = self.redact(Bytes::from(text));
        String::from_utf8_lossy(&redacted).into_owned()
    }

    /// Redacts secrets in those strings of a JSON message that contain escapes. Returns `None` if there is nothing to
    /// redact.
    fn redact_escaped(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut written = 0;
        for (start, end) in json_string_ranges(text) {
            let string = text.get(start..end)?;
            if !string.contains('\\') {
                continue;
            }
            // Lenient on purpose: other parsers may accept escapes that a strict one rejects.
            let unescaped = unescape(string.get(1..string.len() - 1)?);
            let redacted = self.redact_text(&unescaped);
            if redacted != unescaped {
                out.push_str(text.get(written..start)?);
                quote_into(&redacted, &mut out);
                written = end;
            }
        }
        out.push_str(text.get(written..)?);
        (written > 0 && !mutant!("escaped-secret-not-redacted")).then_some(out)
    }

    /// Redacts all secrets in plain text.
    pub fn redact_text(&self, text: &str) -> String {
        match &self.pattern_matcher {
            Some(finder) => finder.replace_all(text, &vec![REDACTED_TEXT; finder.patterns_len()]),
            None => text.to_owned(),
        }
    }
}

/// Returns the byte ranges of the strings in a JSON message, including their quotes.
fn json_string_ranges(text: &str) -> Vec<(usize, usize)> {
    let (mut strings, mut start, mut is_escaped) = (Vec::new(), None, false);
    for (at, byte) in text.bytes().enumerate() {
        match (start, byte) {
            _ if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            (Some(from), b'"') => {
                strings.push((from, at + 1));
                start = None;
            }
            (None, b'"') => start = Some(at),
            _ => {}
        }
    }
    strings
}

/// Returns the secret verbatim, JSON-escaped, percent-encoded, in hexadecimal and in Base64. The Base64 form depends on
/// where the secret starts in the encoded data, so each of the three possible alignments is included.
fn encoded_forms(secret: &str) -> Vec<Vec<u8>> {
    let mut json = String::new();
    quote_into(secret, &mut json);
    let json = json.get(1..json.len() - 1).unwrap_or_default().to_owned();
    let bytes = secret.as_bytes();
    let mut forms = vec![
        json.replace('/', "\\/"),
        json,
        // As the JSON encoders of Go and .NET escape, and with everything but letters and digits escaped.
        json_escaped(secret, HexCase::Lower, |character| "&<>".contains(character)),
        json_escaped(secret, HexCase::Upper, |character| "&<>+'\"`".contains(character)),
        json_escaped(secret, HexCase::Lower, |character| !character.is_ascii_alphanumeric()),
        json_escaped(secret, HexCase::Upper, |character| !character.is_ascii_alphanumeric()),
        percent_encoded(secret).replace("%2F", "%2f").replace("%3D", "%3d").replace("%2B", "%2b"),
        percent_encoded(secret),
        HEXLOWER.encode(bytes),
        HEXUPPER.encode(bytes),
        BASE64.encode(bytes),
    ];
    // In Base64 the first and last character may also encode neighboring bytes; those characters are not matched.
    for (before, skip) in [(&b""[..], 0), (b"\0", 2), (b"\0\0", 3)] {
        let shifted = [before, bytes].concat();
        let keep = shifted.len() * 8 / 6;
        for encoding in [&BASE64_NOPAD, &BASE64URL_NOPAD] {
            if let Some(middle) = encoding.encode(&shifted).get(skip..keep) {
                forms.push(middle.to_owned());
            }
        }
    }
    let mut forms: Vec<Vec<u8>> = forms.into_iter().map(String::into_bytes).collect();
    forms.push(bytes.to_vec());
    forms.retain(|form| form.len() >= MIN_SECRET_BYTES && !(mutant!("encoded-secret-not-redacted") && form != bytes));
    forms
}

#[derive(Clone, Copy)]
enum HexCase {
    Lower,
    Upper,
}

/// Returns `text` as the content of a JSON string, with some characters written as `\uXXXX`.
fn json_escaped(text: &str, hex: HexCase, is_escaped: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if !is_escaped(character) {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            out.push_str(&match hex {
                HexCase::Lower => format!("\\u{unit:04x}"),
                HexCase::Upper => format!("\\u{unit:04X}"),
            });
        }
    }
    out
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_redacted_in_every_encoding_a_server_could_return() {
        let secret = "s3cr/t\"k e?y+1".to_owned();
        let secrets = SecretRedactor::new([&secret]);
        let mut quoted = String::new();
        quote_into(&secret, &mut quoted);
        let echoes = [
            format!("key {secret} end"),
            format!("{{\"a\":{quoted}}}"),
            json_escaped(&secret, HexCase::Upper, |character| "&<>+'\"`".contains(character)),
            json_escaped(&secret, HexCase::Lower, |character| !character.is_ascii_alphanumeric()),
            percent_encoded(&secret),
            HEXUPPER.encode(secret.as_bytes()),
            BASE64.encode(secret.as_bytes()),
            BASE64.encode(format!("user:{secret}").as_bytes()),
            BASE64.encode(format!("me:{secret}").as_bytes()),
            BASE64URL_NOPAD.encode(format!("me:{secret} and more").as_bytes()),
        ];
        for echo in echoes {
            let redacted = secrets.redact(Bytes::from(echo.clone()));
            assert!(redacted.windows(3).any(|part| part == b"***"), "{echo}");
            let redacted = String::from_utf8(redacted.to_vec()).expect("text");
            assert!(redacted.len() < 24, "little more than the surrounding text is left: {redacted}");
        }
    }

    #[test]
    fn secret_with_unicode_escapes_is_redacted() {
        let secret = "qT+d8s9Yx+1/ab==".to_owned();
        let secrets = SecretRedactor::new([&secret]);
        let everything: String = secret.chars().map(|character| format!("\\u{:04x}", u32::from(character))).collect();
        for written in ["qT+d8s9Yx+1/ab\\u003d\\u003d", "qT\\u002bd8s9Yx\\u002B1\\/ab==", everything.as_str()] {
            let text = format!(r#"{{"a\\":"x","text":"key {written}\n end","n":1.10}}"#);
            let redacted = secrets.redact(text.into());
            assert_eq!(
                str::from_utf8(&redacted).expect("text"),
                r#"{"a\\":"x","text":"key ***\n end","n":1.10}"#,
                "{written}"
            );
        }
        let harmless = Bytes::from_static(br#"{"a":"\u00e4\/\ud83d\ude00","b":"\ud83d\q"}"#);
        assert_eq!(secrets.redact(harmless.clone()).as_ptr(), harmless.as_ptr());
    }

    #[test]
    fn invalid_escapes_do_not_hide_a_secret() {
        let secret = "qT+d8s9Yx+1/ab==".to_owned();
        let secrets = SecretRedactor::new([&secret]);
        let hidden = r"qT\u002bd8s9Yx+1\/ab=\u003D";
        let odd = [
            r"\ud83d ",
            r"\udE00",
            r"\ud83d\ud83d\ude00",
            r"\ud83d\u0041",
            r"\u12G4",
            r"\u+123",
            r"\q",
            r"\u12",
            r"\x41",
            "\\u\u{e9}",
        ];
        for odd in odd {
            for text in [
                format!(r#"{{"text":"{odd}{hidden}"}}"#),
                format!(r#"{{"text":"{hidden}{odd}"}}"#),
                format!(r#"{{"{odd}":1,"text":"{hidden}"}}"#),
                format!(r#"{{"text":["{hidden}"],"b":"{odd}"}}"#),
                format!(r#"{{"text":"q\T+d8s9Yx+1/ab==","b":"{odd}"}}"#),
            ] {
                let redacted = secrets.redact(Bytes::from(text.clone()));
                let redacted = str::from_utf8(&redacted).expect("text");
                assert!(redacted.contains("***") && !redacted.contains("d8s9Yx"), "{text}: {redacted}");
            }
        }
    }

    #[test]
    fn text_without_a_secret_is_not_copied() {
        let secrets = SecretRedactor::new([&"longsecret".to_owned(), &"short".to_owned()]);
        let text = Bytes::from_static(b"a short answer");
        assert_eq!(secrets.redact(text.clone()).as_ptr(), text.as_ptr());
        assert_eq!(secrets.redact_text("no longsecret here"), "no *** here");
    }
}
