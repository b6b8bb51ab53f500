//! Header names of the protocol, and how text travels in them.

use data_encoding::BASE64;
use http::header::HeaderName;

/// The session of a legacy client or upstream.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision that is spoken.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a stateless request.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// What a stateless request is about.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Writes a text as a header's value: as it is, or in Base64 where it would not survive or be mistaken.
pub fn encode(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && text.trim() == text;
    if is_plain && !text.starts_with(OPEN) {
        return text.to_owned();
    }
    format!("{OPEN}{}{CLOSE}", BASE64.encode(text.as_bytes()))
}

/// Reads such a value; none if it is neither form.
pub fn decode(value: &[u8]) -> Option<String> {
    let text = str::from_utf8(value).ok()?;
    let Some(encoded) = text.strip_prefix(OPEN) else { return Some(text.to_owned()) };
    let bytes = BASE64.decode(encoded.strip_suffix(CLOSE)?.as_bytes()).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_in_a_header() {
        for text in ["read_note", "näh", " padded ", "=?base64?eA==?=", "a\r\nb", ""] {
            let encoded = encode(text);
            assert!(encoded.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{encoded:?}");
            assert_eq!(decode(encoded.as_bytes()).as_deref(), Some(text));
        }
        assert_eq!(decode(b"=?base64?!?="), None);
        assert_eq!(decode(b"=?base64?eA=="), None);
    }
}
