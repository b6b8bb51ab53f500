//! A caller's message: scanned whole, once, and refused unless its envelope can be read in one way only.

use std::borrow::Cow;

use gatelodge_json::{
    JsonDocument, JsonError, JsonKind, JsonLimits, JsonText, JsonValue, NodeIndex, SegmentedText, read, read_segmented,
    split_object,
};

use crate::error::{WireError, code, shown};
use crate::lookalike::{ENVELOPE, PARAMS, REFERENCE, is_look_alike};
use crate::meta::{self, Meta};
use crate::method::{Form, Method};
use crate::request_id::{RequestId, string_value};

/// What a caller says.
#[derive(Debug, Clone)]
pub enum Message<'a> {
    /// Asks for an answer.
    Request(Request<'a>),
    /// Asks for none; one of the four that callers may send.
    Notification(Notification<'a>),
    /// Answers what an upstream asked; legacy only.
    Response(Response<'a>),
}

/// A message with an id and a method. The method may be unknown, but it is one that a caller may send.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    document: JsonDocument<'a>,
    id: RequestId<'a>,
    method: Method<'a>,
    places: Places,
}

/// Where a message has what is asked for again and again.
#[derive(Debug, Clone, Copy)]
struct Places {
    params: Option<NodeIndex>,
    meta: Option<NodeIndex>,
}

/// A message with a method and no id.
#[derive(Debug, Clone)]
pub struct Notification<'a> {
    document: JsonDocument<'a>,
    method: Method<'a>,
}

/// A message with an id and either a result or an error, an object each.
#[derive(Debug, Clone)]
pub struct Response<'a> {
    document: JsonDocument<'a>,
    id: RequestId<'a>,
}

/// What a [`Response`] says.
#[derive(Debug, Clone, Copy)]
pub enum Outcome<'d> {
    /// The result.
    Result(JsonValue<'d>),
    /// The error.
    Error(JsonValue<'d>),
}

/// Reads one message of a caller.
///
/// # Errors
/// Whatever is not a message, could be read as another one, or is not for callers to send.
pub fn read_message<'a>(bytes: &'a [u8], limits: &JsonLimits) -> Result<Message<'a>, WireError> {
    identified(read(bytes, limits).map_err(|fault| refuse_text(bytes, limits, &fault))?)
}

/// The same of a message whose middle stands apart.
///
/// # Errors
/// As for [`read_message`].
pub fn read_folded_message<'a>(folded: &'a SegmentedText, limits: &JsonLimits) -> Result<Message<'a>, WireError> {
    let refuse = |fault: JsonError| refuse_text(folded.as_str().as_bytes(), limits, &fault);
    identified(read_segmented(folded, limits).map_err(refuse)?)
}

fn identified(document: JsonDocument<'_>) -> Result<Message<'_>, WireError> {
    match envelope(&document) {
        Ok(Envelope::Request(id, method, places)) => Ok(Message::Request(Request { document, id, method, places })),
        Ok(Envelope::Notification(method)) => Ok(Message::Notification(Notification { document, method })),
        Ok(Envelope::Response(id)) => Ok(Message::Response(Response { document, id })),
        Err(error) => {
            let id = document.root().get("id").and_then(|value| RequestId::of(value, document.source()));
            Err(error.with_id(id))
        }
    }
}

/// What a message is.
enum Envelope<'a> {
    Request(RequestId<'a>, Method<'a>, Places),
    Notification(Method<'a>),
    Response(RequestId<'a>),
}

/// Where the envelope itself is sound, the answer can still carry the id.
fn refuse_text(bytes: &[u8], limits: &JsonLimits, fault: &JsonError) -> WireError {
    let error = WireError::of_fault(bytes, fault);
    if error.code != code::INVALID_REQUEST {
        return error;
    }
    let parts = split_object(bytes, limits).unwrap_or_default();
    let id = parts.iter().find(|part| part.key == "id").and_then(|part| RequestId::read(part.value));
    error.with_id(id)
}

fn envelope<'a>(document: &JsonDocument<'a>) -> Result<Envelope<'a>, WireError> {
    let text = document.source();
    let root = document.root();
    let invalid = |value, what: &str| Err(WireError::at(code::INVALID_REQUEST, text, value, what));
    match root.kind() {
        JsonKind::Object => {}
        JsonKind::Array => return invalid(root, "a batch is not taken; send one message at a time"),
        kind => return invalid(root, &format!("a message must be an object, not {}", kind.with_article())),
    }
    let ([version, id, method, params, result, error], has_others) = root.pick(ENVELOPE);
    if has_others {
        refuse_look_alike_members(text, root, ENVELOPE)?;
    }
    match version {
        Some(version) if version.is_str("2.0") => {}
        Some(version) => return invalid(version, "`jsonrpc` must be \"2.0\""),
        None => return invalid(root, "`jsonrpc` is missing"),
    }
    let id = match id {
        None => None,
        Some(value) => match RequestId::of(value, text) {
            None => return invalid(value, "`id` must be a string or an integer"),
            id => id,
        },
    };
    match (method, result.or(error)) {
        (Some(_), Some(answer)) => invalid(answer, "a message has either a method or an answer, not both"),
        (None, None) => invalid(root, "`method` is missing"),
        (None, Some(answer)) => {
            let Some(id) = id else { return invalid(root, "an answer needs the id of what it answers") };
            match (params, result, error) {
                (Some(params), ..) => invalid(params, "an answer has no `params`"),
                (_, Some(_), Some(error)) => invalid(error, "an answer has either a result or an error, not both"),
                _ if answer.kind() != JsonKind::Object => invalid(answer, "a result or an error must be an object"),
                _ => Ok(Envelope::Response(id)),
            }
        }
        (Some(method), None) => match string_value(text, method) {
            None => invalid(method, "`method` must be a string"),
            Some(name) => request_or_notification(document, id, name, params),
        },
    }
}

fn request_or_notification<'a>(
    document: &JsonDocument<'a>,
    id: Option<RequestId<'a>>,
    name: Cow<'a, str>,
    params: Option<JsonValue<'_>>,
) -> Result<Envelope<'a>, WireError> {
    let method = Method::of(name);
    let form = if id.is_some() { Form::Request } else { Form::Notification };
    check_method(document, &method, form)?;
    let meta = params.map_or(Ok(None), |params| check_params(document.source(), params))?;
    let places = Places { params: params.map(|params| params.index()), meta: meta.map(|meta| meta.index()) };
    Ok(match id {
        Some(id) => Envelope::Request(id, method, places),
        None => Envelope::Notification(method),
    })
}

fn check_method(document: &JsonDocument<'_>, method: &Method<'_>, form: Form) -> Result<(), WireError> {
    if method.is_for_callers(form) {
        return Ok(());
    }
    let place = document.root().get("method").unwrap_or(document.root());
    let name = shown(method.name());
    let (code, what) = match form {
        Form::Notification if method.is_for_callers(Form::Request) && method.traits().is_some() => {
            (code::INVALID_REQUEST, format!("{name} needs an id"))
        }
        Form::Request if method.is_for_callers(Form::Notification) => {
            (code::INVALID_REQUEST, format!("{name} is a notification and has no id"))
        }
        Form::Request => (code::METHOD_NOT_FOUND, format!("unknown method {name}")),
        Form::Notification => (code::METHOD_NOT_FOUND, format!("unknown notification {name}")),
    };
    Err(WireError::at(code, document.source(), place, &what))
}

/// Refuses parameters whose members a reader could mistake; gives their `_meta`.
fn check_params<'d>(text: JsonText<'_>, params: JsonValue<'d>) -> Result<Option<JsonValue<'d>>, WireError> {
    if params.kind() != JsonKind::Object {
        let what = format!("`params` must be an object, not {}", params.kind().with_article());
        return Err(WireError::at(code::INVALID_PARAMS, text, params, &what));
    }
    let ([meta, reference, ..], has_others) = params.pick(PARAMS);
    if has_others {
        refuse_look_alike_members(text, params, PARAMS)?;
    }
    if let Some(reference) = reference {
        refuse_look_alike_members(text, reference, REFERENCE)?;
    }
    meta.map_or(Ok(()), |meta| meta::check(text, meta))?;
    Ok(meta)
}

/// Refuses an object with a member that a lenient reader would take for one of the known.
pub(crate) fn refuse_look_alike_members(
    text: JsonText<'_>,
    object: JsonValue<'_>,
    known: &[&str],
) -> Result<(), WireError> {
    for (key, _) in object.members() {
        let name = key.as_str().unwrap_or_default();
        if is_look_alike(&name, known) {
            let what = format!("the member {} could be taken for one of the protocol", shown(&name));
            return Err(WireError::at(code::INVALID_REQUEST, text, key, &what));
        }
    }
    Ok(())
}

impl<'a> Request<'a> {
    /// The id as the caller wrote it.
    pub fn id(&self) -> &RequestId<'a> {
        &self.id
    }

    /// The method.
    pub fn method(&self) -> &Method<'a> {
        &self.method
    }

    /// The parameters, always an object.
    pub fn params(&self) -> Option<JsonValue<'_>> {
        self.places.params.map(|params| self.document.value_at(params))
    }

    /// The `_meta` of the parameters.
    pub fn meta(&self) -> Meta<'_> {
        Meta::new(self.places.meta.map(|meta| self.document.value_at(meta)), self.source())
    }

    /// The whole message as it was read, in one piece.
    pub fn text(&self) -> &'a str {
        self.document.text()
    }

    /// The whole message as it was read.
    pub fn source(&self) -> JsonText<'a> {
        self.document.source()
    }

    pub(crate) fn root(&self) -> JsonValue<'_> {
        self.document.root()
    }
}

impl<'a> Notification<'a> {
    /// The method.
    pub fn method(&self) -> &Method<'a> {
        &self.method
    }

    /// The parameters, always an object.
    pub fn params(&self) -> Option<JsonValue<'_>> {
        self.document.root().get("params")
    }

    /// The whole message as it was read.
    pub fn text(&self) -> &'a str {
        self.document.text()
    }

    pub(crate) fn source(&self) -> JsonText<'a> {
        self.document.source()
    }
}

impl<'a> Response<'a> {
    /// The id of what is answered.
    pub fn id(&self) -> &RequestId<'a> {
        &self.id
    }

    /// The result or the error.
    pub fn outcome(&self) -> Outcome<'_> {
        let root = self.document.root();
        match root.get("result") {
            Some(result) => Outcome::Result(result),
            // INVARIANT: `response` has found one of the two.
            None => Outcome::Error(root.get("error").unwrap_or(root)),
        }
    }

    /// The whole message as it was read.
    pub fn text(&self) -> &'a str {
        self.document.text()
    }

    pub(crate) fn root(&self) -> JsonValue<'_> {
        self.document.root()
    }
}
