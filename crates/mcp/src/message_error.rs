//! Errors in messages, their JSON-RPC codes, and the quoting of untrusted text.

use std::fmt::Write;

use gatelodge_json::{JsonDocumentText, JsonError, JsonErrorKind, JsonValue, LineColumn};

use crate::confusable_members::is_blank_or_invisible;
use crate::request_id::RequestId;

/// JSON-RPC error codes, and when they are used.
pub mod code {
    /// The message is not JSON or not UTF-8.
    pub const PARSE_ERROR: i64 = -32700;
    /// A repeated or confusable member, a batch, an invalid envelope or id, or a message that exceeds the limits.
    pub const INVALID_REQUEST: i64 = -32600;
    /// An unknown method, or one that the sender must not use.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// `params` or one of its members has the wrong type; an unknown tool; from 2026-07-28, an unknown resource.
    pub const INVALID_PARAMS: i64 = -32602;
    /// An error inside the gateway.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// An unknown resource, up to 2025-11-25.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user must visit a web page before the call can be repeated; 2025-11-25 only.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// A header and the body disagree, or a required header is missing; from 2026-07-28.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare a capability that the request needs; from 2026-07-28.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// An unsupported revision; `data.supported` lists the supported ones; from 2026-07-28.
    pub const UNSUPPORTED_REVISION: i64 = -32022;
    /// A visible resource or prompt that the policy refuses. Not a standard code: the protocol reserves -32768 to
    /// -32000.
    pub const REFUSED_BY_POLICY: i64 = -31000;
}

/// Maximum number of characters of untrusted text that a message quotes.
const MAX_EXCERPT_CHARS: usize = 80;

/// A message that was refused; no part of it may be forwarded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MessageError {
    /// The JSON-RPC code, one of [`code`].
    pub code: i64,
    /// Description of the error and its location, which may be sent to the client.
    pub message: String,
    /// The id for the response, if the message had a readable one.
    pub id: Option<RequestId<'static>>,
    /// Byte range of the offending text.
    pub span: (usize, usize),
    /// The HTTP status: 400, or 413 if the message is too large.
    pub status: u16,
}

impl MessageError {
    /// Makes an error about the text at `span`.
    pub(crate) fn new(code: i64, text: &[u8], span: (usize, usize), what: &str) -> Self {
        let message = format!("{what}, at {}", LineColumn::of(text, span.0));
        Self { code, message, id: None, span, status: 400 }
    }

    /// Makes an error about one value in the message.
    pub(crate) fn at_value(code: i64, text: JsonDocumentText<'_>, value: JsonValue<'_>, what: &str) -> Self {
        Self::new(code, text.as_str().as_bytes(), value.span(), what)
    }

    /// Converts an error from the JSON parser.
    pub(crate) fn from_json_error(text: &[u8], json_error: &JsonError) -> Self {
        let what = match &json_error.kind {
            JsonErrorKind::DuplicateKey(key) => format!("the key {} is repeated", quote_excerpt(key)),
            kind => kind.to_string(),
        };
        let error = Self::new(rpc_code(&json_error.kind), text, (json_error.start, json_error.end), &what);
        let status = if matches!(json_error.kind, JsonErrorKind::TooLarge { .. }) { 413 } else { 400 };
        Self { status, ..error }
    }

    /// Sets the id for the response.
    pub(crate) fn with_id(self, id: Option<RequestId<'_>>) -> Self {
        Self { id: id.map(RequestId::into_owned), ..self }
    }
}

/// Returns the JSON-RPC code for a parser error: "invalid request" if the text is valid JSON but is refused, and "parse
/// error" otherwise.
fn rpc_code(kind: &JsonErrorKind) -> i64 {
    match kind {
        JsonErrorKind::DuplicateKey(_)
        | JsonErrorKind::LoneSurrogate
        | JsonErrorKind::NumberTooLong
        | JsonErrorKind::NumberTooLarge
        | JsonErrorKind::TooDeep { .. }
        | JsonErrorKind::TooManyMembers { .. }
        | JsonErrorKind::TooLarge { .. } => code::INVALID_REQUEST,
        JsonErrorKind::Empty
        | JsonErrorKind::InvalidUtf8
        | JsonErrorKind::ByteOrderMark
        | JsonErrorKind::UnexpectedEnd(_)
        | JsonErrorKind::Expected(_)
        | JsonErrorKind::TrailingComma
        | JsonErrorKind::TrailingText
        | JsonErrorKind::Comment
        | JsonErrorKind::UnclosedComment
        | JsonErrorKind::ControlCharacter
        | JsonErrorKind::InvalidEscape
        | JsonErrorKind::InvalidNumber => code::PARSE_ERROR,
    }
}

/// Quotes untrusted text in backticks, shortened and with invisible characters escaped.
pub fn quote_excerpt(text: &str) -> String {
    let mut out = String::from("`");
    for (count, character) in text.chars().enumerate() {
        if count == MAX_EXCERPT_CHARS {
            out.push('…');
            break;
        }
        if character == '`' || (character != ' ' && is_blank_or_invisible(character)) {
            let _ = write!(out, "\\u{{{:04x}}}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out.push('`');
    out
}
