//! Messages from upstreams: split into the envelope and an unparsed payload.

use gatelodge_json::{JsonError, JsonLimits, RawMember, SegmentedText, read, split_object, split_object_str};

use crate::confusable_members::{ENVELOPE_MEMBERS, is_confusable};
use crate::message_error::{MessageError, code, quote_excerpt};
use crate::message_rewrite::{MIN_SHARED_TAIL_BYTES, TextEdit, splice, splice_segmented};
use crate::method::Method;
use crate::params::reference_member;
use crate::request_id::{RequestId, SCALAR_LIMITS, plain_string};

/// Strings longer than this cannot be names or keywords of the protocol, however they are escaped.
const MIN_OPAQUE_STRING_BYTES: usize = 1 << 10;

/// A message from an upstream.
#[derive(Debug, Clone)]
pub enum ServerMessage<'a> {
    /// A response to a request.
    Response(ServerResponse<'a>),
    /// A request that asks the client for input; stateful protocol only.
    Request(ServerRequest<'a>),
    /// A notification, which expects no response.
    Notification(ServerNotification<'a>),
}

/// A response. Only an error may lack an id.
#[derive(Debug, Clone)]
pub struct ServerResponse<'a> {
    text: &'a str,
    id: Option<RequestId<'a>>,
    id_span: Option<(usize, usize)>,
    payload: ServerResponsePayload<'a>,
    payload_span: (usize, usize),
    longest_string: (usize, usize),
}

/// Byte ranges of the parts of a [`ServerResponse`], for code that stores the response and needs the parts later.
#[derive(Debug, Clone, Copy)]
pub struct ServerResponseOffsets {
    id: Option<(usize, usize)>,
    payload: (usize, usize),
    /// Byte range of the longest string in the payload.
    longest_string: (usize, usize),
    is_error: bool,
}

impl ServerResponseOffsets {
    /// Byte range of the result; `None` for an error.
    pub fn result(&self) -> Option<std::ops::Range<usize>> {
        (!self.is_error).then_some(self.payload.0..self.payload.1)
    }

    /// Splits `text` around its longest string if that string is too long to be a name or keyword of the protocol.
    /// Otherwise, the first part is the whole text and the second part is empty.
    pub fn without_longest_string<'t>(&self, text: &'t [u8]) -> [&'t [u8]; 2] {
        let (start, end) = self.longest_string;
        let (start, end) = if end - start > MIN_OPAQUE_STRING_BYTES { (start, end) } else { (text.len(), text.len()) };
        [text.get(..start).unwrap_or(text), text.get(end..).unwrap_or_default()]
    }

    /// Writes the response with a different id, but only up to the end of the id, and also returns the offset in `text`
    /// where the unchanged tail begins. A short tail is copied anyway. `None` if the byte ranges do not fit the text.
    pub fn with_id_prefix(&self, text: &[u8], id: &RequestId<'_>) -> Option<(String, usize)> {
        let end = self.id.map_or_else(|| memchr::memchr(b'{', text).map_or(0, |at| at + 1), |(_, end)| end);
        let is_short = text.len().saturating_sub(end) < MIN_SHARED_TAIL_BYTES;
        let prefix = str::from_utf8(if is_short { text } else { text.get(..end)? }).ok()?;
        Some((splice(prefix, vec![id_edit(prefix, self.id, id)]), prefix.len()))
    }

    /// Writes a segmented response with a different id: returns the text before its chunks and the text after them, so
    /// that the chunks need not be copied. `None` if the response has no id or the id is inside the chunks.
    pub fn with_id_segmented(&self, segmented: &SegmentedText, id: &RequestId<'_>) -> Option<(String, String)> {
        splice_segmented(segmented, vec![TextEdit { span: self.id?, replacement: id.raw().into() }])
    }

    /// Returns whether two responses have the same length and differ only in the id. The byte ranges must belong to
    /// `text`. If the result is `true`, they are valid for `other` as well.
    pub fn is_same_except_id(&self, text: &[u8], other: &[u8]) -> bool {
        let Some((start, end)) = self.id else { return false };
        text.len() == other.len() && text.get(..start) == other.get(..start) && text.get(end..) == other.get(end..)
    }

    /// The text before and after the id.
    pub fn split_at_id<'t>(&self, text: &'t [u8]) -> [&'t [u8]; 2] {
        let (start, end) = self.id.unwrap_or_default();
        [text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default()]
    }

    /// The id as written in the text.
    pub fn id_bytes<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let (start, end) = self.id?;
        text.get(start..end)
    }
}

/// The payload of a [`ServerResponse`], as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerResponsePayload<'a> {
    /// The result.
    Result(&'a str),
    /// The error.
    Error(&'a str),
}

/// The members of an error object, parsed on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcErrorObject<'a> {
    /// The error code as written; it may exceed 64 bits.
    pub code: &'a str,
    /// The message.
    pub message: String,
    /// The `data` member as written.
    pub data: Option<&'a str>,
}

/// A request from an upstream.
#[derive(Debug, Clone)]
pub struct ServerRequest<'a> {
    text: &'a str,
    id: RequestId<'a>,
    id_span: (usize, usize),
    method: Method<'a>,
    params: Option<&'a str>,
}

/// A notification from an upstream.
#[derive(Debug, Clone)]
pub struct ServerNotification<'a> {
    text: &'a str,
    method: Method<'a>,
    params: Option<RawMember<'a>>,
}

/// Splits one message from an upstream.
///
/// ```
/// use gatelodge_json::JsonLimits;
/// use gatelodge_mcp::{RequestId, ServerMessage, read_server_message};
///
/// let text = br#"{"jsonrpc":"2.0","id":"gw-7","result":{"content":[]}}"#;
/// let ServerMessage::Response(response) = read_server_message(text, &JsonLimits::REPLY)? else {
///     panic!("not a response")
/// };
/// assert_eq!(response.with_id(&RequestId::number(1)), r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
/// # Ok::<(), gatelodge_mcp::MessageError>(())
/// ```
///
/// # Errors
/// The envelope is invalid. The payload is not parsed, but its brackets and quotes must be balanced.
pub fn read_server_message<'a>(bytes: &'a [u8], limits: &JsonLimits) -> Result<ServerMessage<'a>, MessageError> {
    let to_error = |error: JsonError| MessageError::from_json_error(bytes, &error);
    let (text, parts) = match str::from_utf8(bytes) {
        Ok(text) => (text, split_object_str(text, limits).map_err(to_error)?),
        // `split_object` reports where the UTF-8 is invalid.
        Err(_) => ("", split_object(bytes, limits).map_err(to_error)?),
    };
    let invalid = |part: Option<&RawMember<'_>>, what: &str| {
        let span = part.map_or((0, 0), value_span);
        Err(MessageError::new(code::INVALID_REQUEST, bytes, span, what))
    };
    if let Some(part) = parts.iter().find(|part| is_confusable(&part.key, ENVELOPE_MEMBERS)) {
        let what = format!("the member {} could be mistaken for a member of the protocol", quote_excerpt(&part.key));
        return invalid(Some(part), &what);
    }
    let find = |key: &str| parts.iter().find(|part| part.key == key);
    if !find("jsonrpc").is_some_and(|part| is_string(part.value, "2.0")) {
        return invalid(find("jsonrpc"), "`jsonrpc` must be \"2.0\"");
    }
    let id_part = find("id");
    let id = id_part.and_then(|part| RequestId::read(part.value));
    let id_span = id_part.map(value_span);
    // Only an error may have a null id: the upstream could not read the id of the request.
    let may_be_null = find("error").is_some();
    if id.is_none() && id_part.is_some_and(|part| part.value != "null" || !may_be_null) {
        return invalid(id_part, "`id` must be a string or an integer");
    }
    match (find("method"), find("result"), find("error")) {
        (Some(method), None, None) => match unescape_string(method.value) {
            None => invalid(Some(method), "`method` must be a string"),
            Some(name) => Ok(request_or_notification(text, id.zip(id_span), Method::of(name.into()), find("params"))),
        },
        (None, Some(result), None) if id.is_none() => invalid(Some(result), "a result needs the `id` of its request"),
        (None, Some(result), None) => {
            let payload = ServerResponsePayload::Result(result.value);
            Ok(ServerMessage::Response(ServerResponse {
                text,
                id,
                id_span,
                payload,
                payload_span: value_span(result),
                longest_string: result.longest_string,
            }))
        }
        (None, None, Some(error)) => {
            let payload = ServerResponsePayload::Error(error.value);
            Ok(ServerMessage::Response(ServerResponse {
                text,
                id,
                id_span,
                payload,
                payload_span: value_span(error),
                longest_string: error.longest_string,
            }))
        }
        (None, None, None) => invalid(None, "a message needs `method`, `result` or `error`"),
        (_, result, error) => invalid(result.or(error), "a message has only one of `method`, `result` and `error`"),
    }
}

/// Parses a segmented response that contains a result, without joining its segments. Returns the id of the request and
/// the byte ranges in the whole response. `None` for other messages, or if the response cannot be parsed reliably
/// without joining the segments.
pub fn read_segmented_result<'a>(
    segmented: &'a SegmentedText,
    limits: &JsonLimits,
) -> Option<(RequestId<'a>, ServerResponseOffsets)> {
    let outer_text = Some(segmented.outer_text()).filter(|_| segmented.len() <= limits.max_bytes)?;
    let Ok(ServerMessage::Response(reply)) = read_server_message(outer_text.as_bytes(), limits) else { return None };
    let spans = reply.spans();
    if spans.is_error || !segmented.is_split_in_string_value(spans.longest_string) {
        return None;
    }
    let spans = ServerResponseOffsets {
        id: spans.id.map(|id| segmented.to_full_span(id)),
        payload: segmented.to_full_span(spans.payload),
        longest_string: segmented.to_full_span(spans.longest_string),
        is_error: false,
    };
    Some((reply.id?, spans))
}

fn request_or_notification<'a>(
    text: &'a str,
    id: Option<(RequestId<'a>, (usize, usize))>,
    method: Method<'a>,
    params: Option<&RawMember<'a>>,
) -> ServerMessage<'a> {
    match id {
        Some((id, id_span)) => {
            ServerMessage::Request(ServerRequest { text, id, id_span, method, params: params.map(|part| part.value) })
        }
        None => ServerMessage::Notification(ServerNotification { text, method, params: params.cloned() }),
    }
}

fn value_span(part: &RawMember<'_>) -> (usize, usize) {
    (part.start, part.start + part.value.len())
}

/// Returns the unescaped content of a raw JSON string; `None` for other values.
fn unescape_string(raw: &str) -> Option<String> {
    if let Some(text) = plain_string(raw) {
        return Some(text.to_owned());
    }
    let document = read(raw.as_bytes(), &SCALAR_LIMITS).ok()?;
    document.root().as_str().map(|text| text.into_owned())
}

fn is_string(raw: &str, text: &str) -> bool {
    plain_string(raw) == Some(text) || unescape_string(raw).is_some_and(|own| own == text)
}

impl<'a> ServerResponse<'a> {
    /// Returns the byte ranges of the response's parts.
    pub fn spans(&self) -> ServerResponseOffsets {
        let is_error = matches!(self.payload, ServerResponsePayload::Error(_));
        ServerResponseOffsets {
            id: self.id_span,
            payload: self.payload_span,
            longest_string: self.longest_string,
            is_error,
        }
    }

    /// Restores a response from its text and byte ranges; `None` if the ranges do not fit the text.
    pub fn from_spans(text: &'a [u8], spans: &ServerResponseOffsets) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let payload = text.get(spans.payload.0..spans.payload.1)?;
        let id = match spans.id {
            Some((start, end)) => RequestId::read(text.get(start..end)?),
            None => None,
        };
        let payload =
            if spans.is_error { ServerResponsePayload::Error(payload) } else { ServerResponsePayload::Result(payload) };
        Some(Self {
            text,
            id,
            id_span: spans.id,
            payload,
            payload_span: spans.payload,
            longest_string: spans.longest_string,
        })
    }

    /// The id of the request; `None` for an error if the upstream did not know the id.
    pub fn id(&self) -> Option<&RequestId<'a>> {
        self.id.as_ref()
    }

    /// The result or the error as written.
    pub fn payload(&self) -> ServerResponsePayload<'a> {
        self.payload
    }

    /// The whole message as received.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The members of the error; `None` for a result, or if the error is not an object with a code and a message.
    pub fn error(&self) -> Option<RpcErrorObject<'a>> {
        let ServerResponsePayload::Error(raw) = self.payload else { return None };
        let parts = split_object_str(raw, &JsonLimits::REPLY).ok()?;
        let find = |key: &str| parts.iter().find(|part| part.key == key).map(|part| part.value);
        let code = find("code").filter(|code| RequestId::read(code).is_some_and(|id| id.as_str().is_none()))?;
        Some(RpcErrorObject { code, message: unescape_string(find("message")?)?, data: find("data") })
    }

    /// Writes the response with a different id.
    pub fn with_id(&self, id: &RequestId<'_>) -> String {
        splice(self.text, vec![self.id_edit(id)])
    }

    /// Writes the response with a different id and payload.
    pub fn with_payload(&self, id: &RequestId<'_>, payload: &str) -> String {
        splice(self.text, vec![self.id_edit(id), TextEdit { span: self.payload_span, replacement: payload.into() }])
    }

    /// Returns the response with another payload and without its id, as the text before the id and the text after it.
    /// `None` if the response has no id.
    pub fn template_around_id(&self, payload: &str) -> Option<(String, String)> {
        let (start, end) = self.id_span?;
        let (prefix, suffix) = (self.text.get(..start)?, self.text.get(end..)?);
        let replaced =
            |text, (from, to)| splice(text, vec![TextEdit { span: (from, to), replacement: payload.into() }]);
        let (from, to) = self.payload_span;
        Some(match from < start {
            true => (replaced(prefix, (from, to)), suffix.to_owned()),
            false => (prefix.to_owned(), replaced(suffix, (from - end, to - end))),
        })
    }

    /// Writes this error response with its id and code replaced.
    pub fn with_code(&self, id: &RequestId<'_>, code: i64) -> String {
        let mut edits = vec![self.id_edit(id)];
        if let ServerResponsePayload::Error(raw) = self.payload {
            let parts = split_object_str(raw, &JsonLimits::REPLY).unwrap_or_default();
            let span = parts.iter().find(|part| part.key == "code").map(value_span);
            let offset = self.payload_span.0;
            edits.extend(span.map(|(start, end)| TextEdit {
                span: (offset + start, offset + end),
                replacement: code.to_string().into(),
            }));
        }
        splice(self.text, edits)
    }

    fn id_edit<'r>(&self, id: &'r RequestId<'_>) -> TextEdit<'r> {
        id_edit(self.text, self.id_span, id)
    }
}

fn id_edit<'r>(text: &str, id_span: Option<(usize, usize)>, id: &'r RequestId<'_>) -> TextEdit<'r> {
    if let Some(span) = id_span {
        return TextEdit { span, replacement: id.raw().into() };
    }
    // An error without an id: it has other members, so a comma must follow the new one.
    let inside = text.find('{').map_or(0, |at| at + 1);
    TextEdit { span: (inside, inside), replacement: format!("\"id\":{id},").into() }
}

impl<'a> ServerRequest<'a> {
    /// The upstream's id for the request.
    pub fn id(&self) -> &RequestId<'a> {
        &self.id
    }

    /// The method.
    pub fn method(&self) -> &Method<'a> {
        &self.method
    }

    /// The parameters as written.
    pub fn params(&self) -> Option<&'a str> {
        self.params
    }

    /// The whole message as received.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Writes the request with a different id.
    pub fn with_id(&self, id: &RequestId<'_>) -> String {
        splice(self.text, vec![TextEdit { span: self.id_span, replacement: id.raw().into() }])
    }
}

impl<'a> ServerNotification<'a> {
    /// The method.
    pub fn method(&self) -> &Method<'a> {
        &self.method
    }

    /// The parameters as written.
    pub fn params(&self) -> Option<&'a str> {
        self.params.as_ref().map(|part| part.value)
    }

    /// The whole message as received.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The id of the cancelled request, or the progress token.
    pub fn reference(&self) -> Option<RequestId<'a>> {
        let part = self.reference_member()?;
        RequestId::read(part.value)
    }

    /// The `progress` member as written.
    pub fn progress(&self) -> Option<&'a str> {
        let parts = split_object_str(self.params()?, &JsonLimits::REPLY).ok()?;
        parts.into_iter().find(|part| part.key == "progress").map(|part| part.value)
    }

    /// Writes the notification with a different request id or progress token; `None` if it has neither.
    pub fn with_reference(&self, id: &RequestId<'_>) -> Option<String> {
        let part = self.reference_member()?;
        let (start, end) = value_span(&part);
        let offset = self.params.as_ref()?.start;
        Some(splice(self.text, vec![TextEdit { span: (offset + start, offset + end), replacement: id.raw().into() }]))
    }

    /// Writes the notification with different parameters, given as JSON.
    pub fn with_params(&self, params: &str) -> String {
        let edit = match &self.params {
            Some(part) => TextEdit { span: value_span(part), replacement: params.into() },
            None => {
                let end = self.text.rfind('}').unwrap_or(self.text.len());
                TextEdit { span: (end, end), replacement: format!(",\"params\":{params}").into() }
            }
        };
        splice(self.text, vec![edit])
    }

    fn reference_member(&self) -> Option<RawMember<'a>> {
        let member = reference_member(&self.method)?;
        let parts = split_object_str(self.params()?, &JsonLimits::REPLY).ok()?;
        parts.into_iter().find(|part| part.key == member)
    }
}
