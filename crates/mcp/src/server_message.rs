//! An upstream's message: split into its envelope, the payload left as it is.

use gatelodge_json::{JsonError, JsonLimits, RawMember, SegmentedText, read, split_object, split_object_str};

use crate::confusable_members::{ENVELOPE_MEMBERS, is_confusable};
use crate::message_error::{MessageError, code, quote_excerpt};
use crate::message_rewrite::{MIN_SHARED_TAIL_BYTES, TextEdit, splice, splice_segmented};
use crate::method::Method;
use crate::params::reference_member;
use crate::request_id::{RequestId, SCALAR_LIMITS, plain_string};

/// A longer string is no name, and no word of the protocol, however it is written.
const MIN_OPAQUE_STRING_BYTES: usize = 1 << 10;

/// What an upstream says.
#[derive(Debug, Clone)]
pub enum ServerMessage<'a> {
    /// Answers a request.
    Response(ServerResponse<'a>),
    /// Asks the client something; legacy only.
    Request(ServerRequest<'a>),
    /// Tells the client something.
    Notification(ServerNotification<'a>),
}

/// An answer. Only an error may come without an id.
#[derive(Debug, Clone)]
pub struct ServerResponse<'a> {
    text: &'a str,
    id: Option<RequestId<'a>>,
    id_span: Option<(usize, usize)>,
    payload: ServerResponsePayload<'a>,
    payload_span: (usize, usize),
    longest_string: (usize, usize),
}

/// Where the parts of a [`ServerResponse`] stand in its text, for whoever keeps the text and comes back to it.
#[derive(Debug, Clone, Copy)]
pub struct ServerResponseSpans {
    id: Option<(usize, usize)>,
    payload: (usize, usize),
    /// The longest string of the payload.
    longest_string: (usize, usize),
    is_error: bool,
}

impl ServerResponseSpans {
    /// Where the result stands; none for an error.
    pub fn result(&self) -> Option<std::ops::Range<usize>> {
        (!self.is_error).then_some(self.payload.0..self.payload.1)
    }

    /// A text that has these places, but for a string that is too long to be a name or a word of the protocol.
    pub fn without_longest_string<'t>(&self, text: &'t [u8]) -> [&'t [u8]; 2] {
        let (start, end) = self.longest_string;
        let (start, end) = if end - start > MIN_OPAQUE_STRING_BYTES { (start, end) } else { (text.len(), text.len()) };
        [text.get(..start).unwrap_or(text), text.get(end..).unwrap_or_default()]
    }

    /// Writes a text that has these places under another id, as far as it changes, and gives where it goes on as it is.
    /// None from a text that has no such places.
    pub fn with_id_prefix(&self, text: &[u8], id: &RequestId<'_>) -> Option<(String, usize)> {
        let end = self.id.map_or_else(|| memchr::memchr(b'{', text).map_or(0, |at| at + 1), |(_, end)| end);
        let is_short = text.len().saturating_sub(end) < MIN_SHARED_TAIL_BYTES;
        let head = str::from_utf8(if is_short { text } else { text.get(..end)? }).ok()?;
        Some((splice(head, vec![id_edit(head, self.id, id)]), head.len()))
    }

    /// Writes a text that has these places, and whose middle stands apart, under another id: what stands before the middle,
    /// and what behind it. None from a text that has no such places.
    pub fn with_id_segmented(&self, folded: &SegmentedText, id: &RequestId<'_>) -> Option<(String, String)> {
        splice_segmented(folded, vec![TextEdit { span: self.id?, replacement: id.raw().into() }])
    }

    /// Whether two texts, the first of which has these places, differ in nothing but the id. It is as long in both, so the
    /// second has the same places.
    pub fn is_same_except_id(&self, text: &[u8], other: &[u8]) -> bool {
        let Some((start, end)) = self.id else { return false };
        text.len() == other.len() && text.get(..start) == other.get(..start) && text.get(end..) == other.get(end..)
    }

    /// What stands before the id in a text that has these places, and what behind it.
    pub fn split_at_id<'t>(&self, text: &'t [u8]) -> [&'t [u8]; 2] {
        let (start, end) = self.id.unwrap_or_default();
        [text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default()]
    }

    /// The id in a text that has these places, as it is written.
    pub fn id_bytes<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let (start, end) = self.id?;
        text.get(start..end)
    }
}

/// The payload of a [`ServerResponse`], as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerResponsePayload<'a> {
    /// The result.
    Result(&'a str),
    /// The error.
    Error(&'a str),
}

/// The members of an error, read when somebody asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcErrorObject<'a> {
    /// The code as it is written; it may be beyond 64 bits.
    pub code: &'a str,
    /// The message.
    pub message: String,
    /// Further facts as they are written.
    pub data: Option<&'a str>,
}

/// A request of an upstream.
#[derive(Debug, Clone)]
pub struct ServerRequest<'a> {
    text: &'a str,
    id: RequestId<'a>,
    id_span: (usize, usize),
    method: Method<'a>,
    params: Option<&'a str>,
}

/// A notification of an upstream.
#[derive(Debug, Clone)]
pub struct ServerNotification<'a> {
    text: &'a str,
    method: Method<'a>,
    params: Option<RawMember<'a>>,
}

/// Splits one message of an upstream.
///
/// # Errors
/// The envelope is not sound. What the payload holds is not looked at, but its brackets and strings are balanced.
pub fn read_server_message<'a>(bytes: &'a [u8], limits: &JsonLimits) -> Result<ServerMessage<'a>, MessageError> {
    let of_fault = |fault: JsonError| MessageError::from_json_error(bytes, &fault);
    let (text, parts) = match str::from_utf8(bytes) {
        Ok(text) => (text, split_object_str(text, limits).map_err(of_fault)?),
        // What is wrong with it, `split` says.
        Err(_) => ("", split_object(bytes, limits).map_err(of_fault)?),
    };
    let invalid = |part: Option<&RawMember<'_>>, what: &str| {
        let span = part.map_or((0, 0), value_span);
        Err(MessageError::new(code::INVALID_REQUEST, bytes, span, what))
    };
    if let Some(part) = parts.iter().find(|part| is_confusable(&part.key, ENVELOPE_MEMBERS)) {
        let what = format!("the member {} could be taken for one of the protocol", quote_excerpt(&part.key));
        return invalid(Some(part), &what);
    }
    let find = |key: &str| parts.iter().find(|part| part.key == key);
    if !find("jsonrpc").is_some_and(|part| is_string(part.value, "2.0")) {
        return invalid(find("jsonrpc"), "`jsonrpc` must be \"2.0\"");
    }
    let id_part = find("id");
    let id = id_part.and_then(|part| RequestId::read(part.value));
    let id_span = id_part.map(value_span);
    // Null is for errors only: the upstream could not read what it answers.
    let may_be_null = find("error").is_some();
    if id.is_none() && id_part.is_some_and(|part| part.value != "null" || !may_be_null) {
        return invalid(id_part, "`id` must be a string or an integer");
    }
    match (find("method"), find("result"), find("error")) {
        (Some(method), None, None) => match unescape_string(method.value) {
            None => invalid(Some(method), "`method` must be a string"),
            Some(name) => Ok(request_or_notification(text, id.zip(id_span), Method::of(name.into()), find("params"))),
        },
        (None, Some(result), None) if id.is_none() => invalid(Some(result), "a result needs the id of what it answers"),
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
        (None, None, None) => invalid(None, "a message has a method, a result or an error"),
        (_, result, error) => invalid(result.or(error), "a message has one of method, result and error"),
    }
}

/// Reads a result whose middle stands apart: the id it answers, and where its parts stand in the whole text. None for
/// anything else, and where only the whole text tells.
pub fn read_segmented_result<'a>(
    folded: &'a SegmentedText,
    limits: &JsonLimits,
) -> Option<(RequestId<'a>, ServerResponseSpans)> {
    let short = Some(folded.outer_text()).filter(|_| folded.len() <= limits.max_bytes)?;
    let Ok(ServerMessage::Response(reply)) = read_server_message(short.as_bytes(), limits) else { return None };
    let places = reply.spans();
    if places.is_error || !folded.is_split_in_string_value(places.longest_string) {
        return None;
    }
    let places = ServerResponseSpans {
        id: places.id.map(|id| folded.to_full_span(id)),
        payload: folded.to_full_span(places.payload),
        longest_string: folded.to_full_span(places.longest_string),
        is_error: false,
    };
    Some((reply.id?, places))
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

/// What a raw string stands for; none for what is no string.
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
    /// Where its parts stand.
    pub fn spans(&self) -> ServerResponseSpans {
        let is_error = matches!(self.payload, ServerResponsePayload::Error(_));
        ServerResponseSpans {
            id: self.id_span,
            payload: self.payload_span,
            longest_string: self.longest_string,
            is_error,
        }
    }

    /// The same reply from the same text; none from a text that has no such places.
    pub fn from_spans(text: &'a [u8], places: &ServerResponseSpans) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let payload = text.get(places.payload.0..places.payload.1)?;
        let id = match places.id {
            Some((start, end)) => RequestId::read(text.get(start..end)?),
            None => None,
        };
        let payload = if places.is_error {
            ServerResponsePayload::Error(payload)
        } else {
            ServerResponsePayload::Result(payload)
        };
        Some(Self {
            text,
            id,
            id_span: places.id,
            payload,
            payload_span: places.payload,
            longest_string: places.longest_string,
        })
    }

    /// The id of what is answered; none for an error of which the upstream did not know.
    pub fn id(&self) -> Option<&RequestId<'a>> {
        self.id.as_ref()
    }

    /// The result or the error as it is written.
    pub fn payload(&self) -> ServerResponsePayload<'a> {
        self.payload
    }

    /// The whole message as it came.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The error's members; none for a result, or if the error is not an object with a code and a message.
    pub fn error(&self) -> Option<RpcErrorObject<'a>> {
        let ServerResponsePayload::Error(raw) = self.payload else { return None };
        let parts = split_object_str(raw, &JsonLimits::REPLY).ok()?;
        let find = |key: &str| parts.iter().find(|part| part.key == key).map(|part| part.value);
        let code = find("code").filter(|code| RequestId::read(code).is_some_and(|id| id.as_str().is_none()))?;
        Some(RpcErrorObject { code, message: unescape_string(find("message")?)?, data: find("data") })
    }

    /// Writes the answer under another id.
    pub fn with_id(&self, id: &RequestId<'_>) -> String {
        splice(self.text, vec![self.id_edit(id)])
    }

    /// Writes the answer under another id and with another payload.
    pub fn with_payload(&self, id: &RequestId<'_>, payload: &str) -> String {
        splice(self.text, vec![self.id_edit(id), TextEdit { span: self.payload_span, replacement: payload.into() }])
    }

    /// Writes the answer with another payload, for whichever id: what stands before it, and what behind. None if it has no
    /// id.
    pub fn template_around_id(&self, payload: &str) -> Option<(String, String)> {
        let (start, end) = self.id_span?;
        let (before, behind) = (self.text.get(..start)?, self.text.get(end..)?);
        let with = |text, (from, to)| splice(text, vec![TextEdit { span: (from, to), replacement: payload.into() }]);
        let (from, to) = self.payload_span;
        Some(match from < start {
            true => (with(before, (from, to)), behind.to_owned()),
            false => (before.to_owned(), with(behind, (from - end, to - end))),
        })
    }

    /// Writes an error under another id and with another code.
    pub fn with_code(&self, id: &RequestId<'_>, code: i64) -> String {
        let mut edits = vec![self.id_edit(id)];
        if let ServerResponsePayload::Error(raw) = self.payload {
            let parts = split_object_str(raw, &JsonLimits::REPLY).unwrap_or_default();
            let place = parts.iter().find(|part| part.key == "code").map(value_span);
            let offset = self.payload_span.0;
            edits.extend(place.map(|(start, end)| TextEdit {
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

fn id_edit<'r>(text: &str, place: Option<(usize, usize)>, id: &'r RequestId<'_>) -> TextEdit<'r> {
    if let Some(span) = place {
        return TextEdit { span, replacement: id.raw().into() };
    }
    // An error without an id: it has other members, so a comma belongs behind ours.
    let inside = text.find('{').map_or(0, |at| at + 1);
    TextEdit { span: (inside, inside), replacement: format!("\"id\":{id},").into() }
}

impl<'a> ServerRequest<'a> {
    /// The upstream's id.
    pub fn id(&self) -> &RequestId<'a> {
        &self.id
    }

    /// The method.
    pub fn method(&self) -> &Method<'a> {
        &self.method
    }

    /// The parameters as they are written.
    pub fn params(&self) -> Option<&'a str> {
        self.params
    }

    /// The whole message as it came.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Writes the request under another id.
    pub fn with_id(&self, id: &RequestId<'_>) -> String {
        splice(self.text, vec![TextEdit { span: self.id_span, replacement: id.raw().into() }])
    }
}

impl<'a> ServerNotification<'a> {
    /// The method.
    pub fn method(&self) -> &Method<'a> {
        &self.method
    }

    /// The parameters as they are written.
    pub fn params(&self) -> Option<&'a str> {
        self.params.as_ref().map(|part| part.value)
    }

    /// The whole message as it came.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The request that is cancelled, or the token whose progress is told.
    pub fn reference(&self) -> Option<RequestId<'a>> {
        let part = self.reference_member()?;
        RequestId::read(part.value)
    }

    /// How far it has come, as it is written.
    pub fn progress(&self) -> Option<&'a str> {
        let parts = split_object_str(self.params()?, &JsonLimits::REPLY).ok()?;
        parts.into_iter().find(|part| part.key == "progress").map(|part| part.value)
    }

    /// Writes the notification with another request id or token to refer to; none if it refers to nothing.
    pub fn with_reference(&self, id: &RequestId<'_>) -> Option<String> {
        let part = self.reference_member()?;
        let (start, end) = value_span(&part);
        let offset = self.params.as_ref()?.start;
        Some(splice(self.text, vec![TextEdit { span: (offset + start, offset + end), replacement: id.raw().into() }]))
    }

    /// Writes the notification with other parameters, which are JSON.
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
