//! Secrets that we inject, cut from everything that comes back.

use aho_corasick::AhoCorasick;
use bytes::Bytes;
use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use gatelodge_json::{quote_into, unescape};
use gatelodge_mutants::mutant;

/// What stands in place of a secret.
const REDACTED_TEXT: &str = "***";
/// Shorter texts occur by chance; cutting them would garble answers. The configuration warns of them.
pub const MIN_SECRET_BYTES: usize = 6;
/// Shorter lines of a secret with several, like `-----`, are no secret.
const MIN_SECRET_LINE_BYTES: usize = 12;

/// Finds secrets in any of the forms in which a server could give them back.
#[derive(Debug, Default)]
pub struct SecretRedactor {
    pattern_matcher: Option<AhoCorasick>,
}

impl SecretRedactor {
    /// Takes the secrets of a server.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a String>) -> Self {
        let long = secrets.into_iter().filter(|secret| secret.len() >= MIN_SECRET_BYTES);
        // Where a text is read line by line, a secret of several lines comes in parts.
        let lines =
            |secret: &'a String| secret.lines().filter(|line| line.len() >= MIN_SECRET_LINE_BYTES).map(str::to_owned);
        let parts: Vec<String> = long.flat_map(|secret| lines(secret).chain([secret.clone()])).collect();
        let mut forms: Vec<Vec<u8>> = parts.iter().flat_map(|secret| encoded_forms(secret)).collect();
        forms.sort_unstable();
        forms.dedup();
        if forms.is_empty() {
            return Self::default();
        }
        // The longest match wins, so that no end of a secret stays behind.
        let builder = AhoCorasick::builder().match_kind(aho_corasick::MatchKind::LeftmostLongest).build(forms);
        Self { pattern_matcher: builder.ok() }
    }

    /// Whether there is none to be cut.
    pub fn is_empty(&self) -> bool {
        self.pattern_matcher.is_none()
    }

    /// The most bytes that a secret has in any of its forms.
    pub(super) fn max_secret_bytes(&self) -> usize {
        self.pattern_matcher.as_ref().map_or(0, AhoCorasick::max_pattern_len)
    }

    /// Cuts every secret from a JSON text; one without any is handed back as it is.
    pub fn redact(&self, text: Bytes) -> Bytes {
        let Some(finder) = &self.pattern_matcher else { return text };
        let text = if finder.is_match(&text[..]) {
            let cuts = vec![REDACTED_TEXT; finder.patterns_len()];
            finder.replace_all_bytes(&text, &cuts).into()
        } else {
            text
        };
        // Characters may be written by their numbers, each server in its own way; what counts is what they say.
        let is_usual = |at: usize| matches!(text.get(at + 1), Some(b'"' | b'\\' | b'n' | b'r' | b't'));
        if memchr::memchr_iter(b'\\', &text).all(is_usual) {
            return text;
        }
        match str::from_utf8(&text).ok().and_then(|text| self.redact_escaped(text)) {
            Some(cut) => cut.into(),
            None => text,
        }
    }

    /// The same for a text of which we have a copy.
    pub fn redact_json(&self, text: String) -> String {
        let cut = self.redact(Bytes::from(text));
        String::from_utf8_lossy(&cut).into_owned()
    }

    /// The text without secrets in strings that have escapes; none if there are none.
    fn redact_escaped(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut written = 0;
        for (start, end) in json_string_ranges(text) {
            let string = text.get(start..end)?;
            if !string.contains('\\') {
                continue;
            }
            // What a careful reader refuses others may read, so it is not asked whether it is sound.
            let said = unescape(string.get(1..string.len() - 1)?);
            let cut = self.redact_text(&said);
            if cut != said {
                out.push_str(text.get(written..start)?);
                quote_into(&cut, &mut out);
                written = end;
            }
        }
        out.push_str(text.get(written..)?);
        (written > 0 && !mutant!("escaped-secret-not-redacted")).then_some(out)
    }

    /// Cuts every secret from a text of ours.
    pub fn redact_text(&self, text: &str) -> String {
        match &self.pattern_matcher {
            Some(finder) => finder.replace_all(text, &vec![REDACTED_TEXT; finder.patterns_len()]),
            None => text.to_owned(),
        }
    }
}

/// Where the strings of a JSON text are, quotes included.
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

/// The secret as it is, inside a JSON string, in a URL, in hexadecimal and in Base64 at each offset.
fn encoded_forms(secret: &str) -> Vec<Vec<u8>> {
    let mut json = String::new();
    quote_into(secret, &mut json);
    let json = json.get(1..json.len() - 1).unwrap_or_default().to_owned();
    let bytes = secret.as_bytes();
    let mut forms = vec![
        json.replace('/', "\\/"),
        json,
        // As the encoders of Go and .NET write them, and as a careful one would.
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
    // What stands before and behind shares its first and last character with the secret; those are left.
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

/// The inside of a JSON string in which some characters are written by their numbers.
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
    fn a_secret_is_cut_in_every_form_a_server_could_echo() {
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
            let cut = secrets.redact(Bytes::from(echo.clone()));
            assert!(cut.windows(3).any(|part| part == b"***"), "{echo}");
            let cut = String::from_utf8(cut.to_vec()).expect("text");
            assert!(cut.len() < 24, "little more than what stands around it is left: {cut}");
        }
    }

    #[test]
    fn a_secret_written_by_its_characters_numbers_is_cut() {
        let secret = "qT+d8s9Yx+1/ab==".to_owned();
        let secrets = SecretRedactor::new([&secret]);
        let everything: String = secret.chars().map(|character| format!("\\u{:04x}", u32::from(character))).collect();
        for written in ["qT+d8s9Yx+1/ab\\u003d\\u003d", "qT\\u002bd8s9Yx\\u002B1\\/ab==", everything.as_str()] {
            let text = format!(r#"{{"a\\":"x","text":"key {written}\n end","n":1.10}}"#);
            let cut = secrets.redact(text.into());
            assert_eq!(
                str::from_utf8(&cut).expect("text"),
                r#"{"a\\":"x","text":"key ***\n end","n":1.10}"#,
                "{written}"
            );
        }
        let harmless = Bytes::from_static(br#"{"a":"\u00e4\/\ud83d\ude00","b":"\ud83d\q"}"#);
        assert_eq!(secrets.redact(harmless.clone()).as_ptr(), harmless.as_ptr());
    }

    #[test]
    fn no_string_that_a_careful_reader_refuses_hides_a_secret() {
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
                let cut = secrets.redact(Bytes::from(text.clone()));
                let cut = str::from_utf8(&cut).expect("text");
                assert!(cut.contains("***") && !cut.contains("d8s9Yx"), "{text}: {cut}");
            }
        }
    }

    #[test]
    fn a_text_without_a_secret_is_not_copied() {
        let secrets = SecretRedactor::new([&"longsecret".to_owned(), &"short".to_owned()]);
        let text = Bytes::from_static(b"a short answer");
        assert_eq!(secrets.redact(text.clone()).as_ptr(), text.as_ptr());
        assert_eq!(secrets.redact_text("no longsecret here"), "no *** here");
    }
}
