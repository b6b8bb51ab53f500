//! The protocol's header names, and the encoding of their values.

use data_encoding::BASE64;
use http::header::HeaderName;

/// Session id of a stateful client or upstream.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// Protocol revision in use.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a stateless request.
pub const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The name, URI or task id that a stateless request targets.
pub const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Id of the last event that a client received from a stream.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const BASE64_PREFIX: &str = "=?base64?";
const BASE64_SUFFIX: &str = "?=";

/// Encodes text as a header value. Text that contains anything other than printable ASCII, starts or ends with white
/// space, or starts with the prefix of encoded values is encoded in Base64. Other text stays unchanged.
///
/// ```
/// use gatelodge_mcp::http_headers::{decode_value, encode_value};
///
/// assert_eq!(encode_value("read_note"), "read_note");
/// assert_eq!(encode_value("ü"), "=?base64?w7w=?=");
/// assert_eq!(decode_value(b"=?base64?w7w=?=").as_deref(), Some("ü"));
/// ```
pub fn encode_value(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && text.trim() == text;
    if is_plain && !text.starts_with(BASE64_PREFIX) {
        return text.to_owned();
    }
    format!("{BASE64_PREFIX}{}{BASE64_SUFFIX}", BASE64.encode(text.as_bytes()))
}

/// Decodes a header value, plain or in Base64; `None` if it is neither.
pub fn decode_value(value: &[u8]) -> Option<String> {
    let is_plain = value.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e));
    let text = str::from_utf8(value).ok().filter(|_| is_plain)?;
    // A value is encoded only if it has both the prefix and the suffix.
    let encoded = text.strip_prefix(BASE64_PREFIX).and_then(|rest| rest.strip_suffix(BASE64_SUFFIX));
    let Some(encoded) = encoded else { return Some(text.to_owned()) };
    String::from_utf8(BASE64.decode(encoded.as_bytes()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_encoding_as_a_header_value() {
        for text in ["read_note", "näh", " padded ", "=?base64?eA==?=", "a\r\nb", ""] {
            let encoded = encode_value(text);
            assert!(encoded.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{encoded:?}");
            assert_eq!(decode_value(encoded.as_bytes()).as_deref(), Some(text));
        }
        assert_eq!(decode_value(b"=?base64?!?="), None);
        assert_eq!(decode_value(b"=?base64?eA==").as_deref(), Some("=?base64?eA=="));
        assert_eq!(decode_value("n\u{e4}h".as_bytes()), None);
    }
}
