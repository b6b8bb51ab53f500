//! Why a message was refused, the codes for it, and foreign text made fit to be shown.

use std::fmt::Write;

use gatelodge_json::{JsonError, JsonErrorKind, JsonText, JsonValue, LineColumn};

use crate::confusable_members::is_blank_or_invisible;
use crate::request_id::RequestId;

/// JSON-RPC error codes, by what they mean on this wire.
pub mod code {
    /// Not JSON, or not UTF-8.
    pub const PARSE_ERROR: i64 = -32700;
    /// A repeated or look-alike member, a batch, a bad envelope or id, a text beyond the limits.
    pub const INVALID_REQUEST: i64 = -32600;
    /// A method that is unknown, or that this side does not send.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// `params` or a member of it is of the wrong type; an unknown tool; from 2026-07-28, an unknown resource.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A fault on our side.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// An unknown resource, up to 2025-11-25.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// A page must be visited before the call is repeated; 2025-11-25 only.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// A header and the body disagree, or a required header is missing; from 2026-07-28.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare a capability that the request needs; from 2026-07-28.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// A revision that is not spoken here; `data.supported` lists those that are; from 2026-07-28.
    pub const UNSUPPORTED_REVISION: i64 = -32022;
    /// A visible resource or prompt that the policy refuses. Our own: the protocol reserves -32768 to -32000.
    pub const REFUSED_BY_POLICY: i64 = -31000;
}

/// How many characters of a foreign text are shown.
const MAX_EXCERPT_CHARS: usize = 80;

/// A message that is not taken: nothing of it may be sent on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MessageError {
    /// The JSON-RPC code, one of [`code`].
    pub code: i64,
    /// What is wrong and where, fit to be shown to the caller.
    pub message: String,
    /// The id to answer under, if the message had one that could be read.
    pub id: Option<RequestId<'static>>,
    /// Byte offsets of what is wrong.
    pub span: (usize, usize),
    /// The HTTP status to answer with: 400, or 413 for a text that is too large.
    pub status: u16,
}

impl MessageError {
    /// Refuses a text for what stands at `span`.
    pub(crate) fn new(code: i64, text: &[u8], span: (usize, usize), what: &str) -> Self {
        let message = format!("{what}, at {}", LineColumn::of(text, span.0));
        Self { code, message, id: None, span, status: 400 }
    }

    /// Refuses a text for one of its values.
    pub(crate) fn at_value(code: i64, text: JsonText<'_>, value: JsonValue<'_>, what: &str) -> Self {
        Self::new(code, text.as_str().as_bytes(), value.span(), what)
    }

    /// Refuses a text that the reader does not take.
    pub(crate) fn from_json_error(text: &[u8], fault: &JsonError) -> Self {
        let what = match &fault.kind {
            JsonErrorKind::DuplicateKey(key) => format!("the key {} is repeated", quote_excerpt(key)),
            kind => kind.to_string(),
        };
        let error = Self::new(rpc_code(&fault.kind), text, (fault.start, fault.end), &what);
        let status = if matches!(fault.kind, JsonErrorKind::TooLarge { .. }) { 413 } else { 400 };
        Self { status, ..error }
    }

    /// Answers under an id, if there is one.
    pub(crate) fn with_id(self, id: Option<RequestId<'_>>) -> Self {
        Self { id: id.map(RequestId::into_owned), ..self }
    }
}

/// What is JSON by its grammar and refused nevertheless is an invalid request; all else is a parse error.
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

/// Writes foreign text in backticks, cut to a bounded length, with everything that does not show itself escaped.
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
