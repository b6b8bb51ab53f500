//! A caller's message: scanned whole, once, and refused unless its envelope can be read in one way only.

use std::borrow::Cow;

use gatelodge_json::{
    JsonDocument, JsonError, JsonKind, JsonLimits, JsonText, JsonValue, NodeIndex, SegmentedText, read, read_segmented,
    split_object,
};

use crate::confusable_members::{ENVELOPE_MEMBERS, PARAMS_MEMBERS, REFERENCE_MEMBERS, is_confusable};
use crate::message_error::{MessageError, code, quote_excerpt};
use crate::method::{Method, MethodKind};
use crate::request_id::{RequestId, string_value};
use crate::request_meta::{self, RequestMeta};

/// What a caller says.
#[derive(Debug, Clone)]
pub enum ClientMessage<'a> {
    /// Asks for an answer.
    Request(ClientRequest<'a>),
    /// Asks for none; one of the four that callers may send.
    Notification(ClientNotification<'a>),
    /// Answers what an upstream asked; legacy only.
    Response(ClientResponse<'a>),
}

/// A message with an id and a method. The method may be unknown, but it is one that a caller may send.
#[derive(Debug, Clone)]
pub struct ClientRequest<'a> {
    document: JsonDocument<'a>,
    id: RequestId<'a>,
    method: Method<'a>,
    nodes: ParamsNodes,
}

/// Where a message has what is asked for again and again.
#[derive(Debug, Clone, Copy)]
struct ParamsNodes {
    params_node: Option<NodeIndex>,
    meta_node: Option<NodeIndex>,
}

/// A message with a method and no id.
#[derive(Debug, Clone)]
pub struct ClientNotification<'a> {
    document: JsonDocument<'a>,
    method: Method<'a>,
}

/// A message with an id and either a result or an error, an object each.
#[derive(Debug, Clone)]
pub struct ClientResponse<'a> {
    document: JsonDocument<'a>,
    id: RequestId<'a>,
}

/// What a [`ClientResponse`] says.
#[derive(Debug, Clone, Copy)]
pub enum ClientResponsePayload<'d> {
    /// The result.
    Result(JsonValue<'d>),
    /// The error.
    Error(JsonValue<'d>),
}

/// Reads one message of a caller.
///
/// # Errors
/// Whatever is not a message, could be read as another one, or is not for callers to send.
pub fn read_client_message<'a>(bytes: &'a [u8], limits: &JsonLimits) -> Result<ClientMessage<'a>, MessageError> {
    classify(read(bytes, limits).map_err(|fault| to_message_error(bytes, limits, &fault))?)
}

/// The same of a message whose middle stands apart.
///
/// # Errors
/// As for [`read_client_message`].
pub fn read_segmented_client_message<'a>(
    folded: &'a SegmentedText,
    limits: &JsonLimits,
) -> Result<ClientMessage<'a>, MessageError> {
    let refuse = |fault: JsonError| to_message_error(folded.as_str().as_bytes(), limits, &fault);
    classify(read_segmented(folded, limits).map_err(refuse)?)
}

fn classify(document: JsonDocument<'_>) -> Result<ClientMessage<'_>, MessageError> {
    match read_envelope(&document) {
        Ok(ClientEnvelope::Request(id, method, places)) => {
            Ok(ClientMessage::Request(ClientRequest { document, id, method, nodes: places }))
        }
        Ok(ClientEnvelope::Notification(method)) => {
            Ok(ClientMessage::Notification(ClientNotification { document, method }))
        }
        Ok(ClientEnvelope::Response(id)) => Ok(ClientMessage::Response(ClientResponse { document, id })),
        Err(error) => {
            let id = document.root().get("id").and_then(|value| RequestId::of(value, document.source()));
            Err(error.with_id(id))
        }
    }
}

/// What a message is.
enum ClientEnvelope<'a> {
    Request(RequestId<'a>, Method<'a>, ParamsNodes),
    Notification(Method<'a>),
    Response(RequestId<'a>),
}

/// Where the envelope itself is sound, the answer can still carry the id.
fn to_message_error(bytes: &[u8], limits: &JsonLimits, fault: &JsonError) -> MessageError {
    let error = MessageError::from_json_error(bytes, fault);
    if error.code != code::INVALID_REQUEST {
        return error;
    }
    let parts = split_object(bytes, limits).unwrap_or_default();
    let id = parts.iter().find(|part| part.key == "id").and_then(|part| RequestId::read(part.value));
    error.with_id(id)
}

fn read_envelope<'a>(document: &JsonDocument<'a>) -> Result<ClientEnvelope<'a>, MessageError> {
    let text = document.source();
    let root = document.root();
    let invalid = |value, what: &str| Err(MessageError::at_value(code::INVALID_REQUEST, text, value, what));
    match root.kind() {
        JsonKind::Object => {}
        JsonKind::Array => return invalid(root, "a batch is not taken; send one message at a time"),
        kind => return invalid(root, &format!("a message must be an object, not {}", kind.with_article())),
    }
    let ([version, id, method, params, result, error], has_others) = root.pick(ENVELOPE_MEMBERS);
    if has_others {
        reject_confusable_members(text, root, ENVELOPE_MEMBERS)?;
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
                _ => Ok(ClientEnvelope::Response(id)),
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
) -> Result<ClientEnvelope<'a>, MessageError> {
    let method = Method::of(name);
    let form = if id.is_some() { MethodKind::Request } else { MethodKind::Notification };
    check_method(document, &method, form)?;
    let meta = params.map_or(Ok(None), |params| check_params(document.source(), params))?;
    let places =
        ParamsNodes { params_node: params.map(|params| params.index()), meta_node: meta.map(|meta| meta.index()) };
    Ok(match id {
        Some(id) => ClientEnvelope::Request(id, method, places),
        None => ClientEnvelope::Notification(method),
    })
}

fn check_method(document: &JsonDocument<'_>, method: &Method<'_>, form: MethodKind) -> Result<(), MessageError> {
    if method.can_client_send(form) {
        return Ok(());
    }
    let place = document.root().get("method").unwrap_or(document.root());
    let name = quote_excerpt(method.name());
    let (code, what) = match form {
        MethodKind::Notification
            if method.can_client_send(MethodKind::Request) && method.kind_and_direction().is_some() =>
        {
            (code::INVALID_REQUEST, format!("{name} needs an id"))
        }
        MethodKind::Request if method.can_client_send(MethodKind::Notification) => {
            (code::INVALID_REQUEST, format!("{name} is a notification and has no id"))
        }
        MethodKind::Request => (code::METHOD_NOT_FOUND, format!("unknown method {name}")),
        MethodKind::Notification => (code::METHOD_NOT_FOUND, format!("unknown notification {name}")),
    };
    Err(MessageError::at_value(code, document.source(), place, &what))
}

/// Refuses parameters whose members a reader could mistake; gives their `_meta`.
fn check_params<'d>(text: JsonText<'_>, params: JsonValue<'d>) -> Result<Option<JsonValue<'d>>, MessageError> {
    if params.kind() != JsonKind::Object {
        let what = format!("`params` must be an object, not {}", params.kind().with_article());
        return Err(MessageError::at_value(code::INVALID_PARAMS, text, params, &what));
    }
    let ([meta, reference, ..], has_others) = params.pick(PARAMS_MEMBERS);
    if has_others {
        reject_confusable_members(text, params, PARAMS_MEMBERS)?;
    }
    if let Some(reference) = reference {
        reject_confusable_members(text, reference, REFERENCE_MEMBERS)?;
    }
    meta.map_or(Ok(()), |meta| request_meta::check_meta_members(text, meta))?;
    Ok(meta)
}

/// Refuses an object with a member that a lenient reader would take for one of the known.
pub(crate) fn reject_confusable_members(
    text: JsonText<'_>,
    object: JsonValue<'_>,
    known: &[&str],
) -> Result<(), MessageError> {
    for (key, _) in object.members() {
        let name = key.as_str().unwrap_or_default();
        if is_confusable(&name, known) {
            let what = format!("the member {} could be taken for one of the protocol", quote_excerpt(&name));
            return Err(MessageError::at_value(code::INVALID_REQUEST, text, key, &what));
        }
    }
    Ok(())
}

impl<'a> ClientRequest<'a> {
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
        self.nodes.params_node.map(|params| self.document.value_at(params))
    }

    /// The `_meta` of the parameters.
    pub fn meta(&self) -> RequestMeta<'_> {
        RequestMeta::new(self.nodes.meta_node.map(|meta| self.document.value_at(meta)), self.source())
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

impl<'a> ClientNotification<'a> {
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

impl<'a> ClientResponse<'a> {
    /// The id of what is answered.
    pub fn id(&self) -> &RequestId<'a> {
        &self.id
    }

    /// The result or the error.
    pub fn payload(&self) -> ClientResponsePayload<'_> {
        let root = self.document.root();
        match root.get("result") {
            Some(result) => ClientResponsePayload::Result(result),
            // INVARIANT: `response` has found one of the two.
            None => ClientResponsePayload::Error(root.get("error").unwrap_or(root)),
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
