//! Messages from clients: parsed completely, and refused if two parsers could interpret the envelope differently.

use std::borrow::Cow;

use gatelodge_json::{
    JsonDocument, JsonDocumentText, JsonError, JsonKind, JsonLimits, JsonValue, NodeIndex, SegmentedText, read,
    read_segmented, split_object,
};

use crate::confusable_members::{ENVELOPE_MEMBERS, PARAMS_MEMBERS, REFERENCE_MEMBERS, is_confusable};
use crate::message_error::{MessageError, code, quote_excerpt};
use crate::method::{Method, MethodKind};
use crate::request_id::{RequestId, string_value};
use crate::request_meta::{self, RequestMeta};

/// A message from a client.
#[derive(Debug, Clone)]
pub enum ClientMessage<'a> {
    /// A request, which expects a response.
    Request(ClientRequest<'a>),
    /// A notification, which expects no response. Its method is one of the four that clients may send.
    Notification(ClientNotification<'a>),
    /// A response to a request from a server; stateful protocol only.
    Response(ClientResponse<'a>),
}

/// A message with an id and a method. The method may be unknown, but is never one that only servers may send.
#[derive(Debug, Clone)]
pub struct ClientRequest<'a> {
    document: JsonDocument<'a>,
    id: RequestId<'a>,
    method: Method<'a>,
    nodes: ParamsNodes,
}

/// Positions of `params` and `_meta` in the document, stored because they are looked up often.
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

/// A message with an id and either a result or an error, which is an object in both cases.
#[derive(Debug, Clone)]
pub struct ClientResponse<'a> {
    document: JsonDocument<'a>,
    id: RequestId<'a>,
}

/// The payload of a [`ClientResponse`].
#[derive(Debug, Clone, Copy)]
pub enum ClientResponsePayload<'d> {
    /// The result.
    Result(JsonValue<'d>),
    /// The error.
    Error(JsonValue<'d>),
}

/// Parses one message from a client.
///
/// ```
/// use gatelodge_json::JsonLimits;
/// use gatelodge_mcp::{ClientMessage, read_client_message};
///
/// let text = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund"}}"#;
/// let ClientMessage::Request(request) = read_client_message(text, &JsonLimits::REQUEST)? else {
///     panic!("not a request")
/// };
/// assert_eq!(request.tool_call()?.name, "refund");
///
/// // `Name` would be `name` to a parser that ignores case.
/// let text = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"refund"}}"#;
/// assert!(read_client_message(text, &JsonLimits::REQUEST).is_err());
/// # Ok::<(), gatelodge_mcp::MessageError>(())
/// ```
///
/// # Errors
/// The input is not a valid message, another parser could read it differently, or clients must not send such a message.
pub fn read_client_message<'a>(bytes: &'a [u8], limits: &JsonLimits) -> Result<ClientMessage<'a>, MessageError> {
    classify(read(bytes, limits).map_err(|error| to_message_error(bytes, limits, &error))?)
}

/// Like [`read_client_message`], but for a message that is stored in segments.
///
/// # Errors
/// The same as for [`read_client_message`].
pub fn read_segmented_client_message<'a>(
    segmented: &'a SegmentedText,
    limits: &JsonLimits,
) -> Result<ClientMessage<'a>, MessageError> {
    let refuse = |error: JsonError| to_message_error(segmented.as_str().as_bytes(), limits, &error);
    classify(read_segmented(segmented, limits).map_err(refuse)?)
}

fn classify(document: JsonDocument<'_>) -> Result<ClientMessage<'_>, MessageError> {
    match read_envelope(&document) {
        Ok(ClientEnvelope::Request(id, method, nodes)) => {
            Ok(ClientMessage::Request(ClientRequest { document, id, method, nodes }))
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

/// The kind of a client message, with the members of its envelope.
enum ClientEnvelope<'a> {
    Request(RequestId<'a>, Method<'a>, ParamsNodes),
    Notification(Method<'a>),
    Response(RequestId<'a>),
}

/// Converts an error from the JSON parser. Adds the message's id for the response if the envelope is intact.
fn to_message_error(bytes: &[u8], limits: &JsonLimits, json_error: &JsonError) -> MessageError {
    let error = MessageError::from_json_error(bytes, json_error);
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
        JsonKind::Array => return invalid(root, "batches are not supported; send one message at a time"),
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
        (Some(_), Some(answer)) => invalid(answer, "a message has either `method` or `result` or `error`, not both"),
        (None, None) => invalid(root, "`method` is missing"),
        (None, Some(answer)) => {
            let Some(id) = id else { return invalid(root, "a response needs the `id` of its request") };
            match (params, result, error) {
                (Some(params), ..) => invalid(params, "a response has no `params`"),
                (_, Some(_), Some(error)) => invalid(error, "a response has either `result` or `error`, not both"),
                _ if answer.kind() != JsonKind::Object => invalid(answer, "`result` or `error` must be an object"),
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
    let kind = if id.is_some() { MethodKind::Request } else { MethodKind::Notification };
    check_method(document, &method, kind)?;
    let meta = params.map_or(Ok(None), |params| check_params(document.source(), params))?;
    let nodes =
        ParamsNodes { params_node: params.map(|params| params.index()), meta_node: meta.map(|meta| meta.index()) };
    Ok(match id {
        Some(id) => ClientEnvelope::Request(id, method, nodes),
        None => ClientEnvelope::Notification(method),
    })
}

fn check_method(document: &JsonDocument<'_>, method: &Method<'_>, kind: MethodKind) -> Result<(), MessageError> {
    if method.can_client_send(kind) {
        return Ok(());
    }
    let place = document.root().get("method").unwrap_or(document.root());
    let name = quote_excerpt(method.name());
    let (code, what) = match kind {
        MethodKind::Notification
            if method.can_client_send(MethodKind::Request) && method.kind_and_direction().is_some() =>
        {
            (code::INVALID_REQUEST, format!("{name} needs an `id`"))
        }
        MethodKind::Request if method.can_client_send(MethodKind::Notification) => {
            (code::INVALID_REQUEST, format!("{name} is a notification and must not have an `id`"))
        }
        MethodKind::Request => (code::METHOD_NOT_FOUND, format!("unknown method {name}")),
        MethodKind::Notification => (code::METHOD_NOT_FOUND, format!("unknown notification {name}")),
    };
    Err(MessageError::at_value(code, document.source(), place, &what))
}

/// Returns the `_meta` of the parameters. Fails if the parameters have confusable members.
fn check_params<'d>(text: JsonDocumentText<'_>, params: JsonValue<'d>) -> Result<Option<JsonValue<'d>>, MessageError> {
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

/// Refuses an object with a member that a lenient parser would mistake for a known one.
pub(crate) fn reject_confusable_members(
    text: JsonDocumentText<'_>,
    object: JsonValue<'_>,
    known: &[&str],
) -> Result<(), MessageError> {
    for (key, _) in object.members() {
        let name = key.as_str().unwrap_or_default();
        if is_confusable(&name, known) {
            let what = format!("the member {} could be mistaken for a member of the protocol", quote_excerpt(&name));
            return Err(MessageError::at_value(code::INVALID_REQUEST, text, key, &what));
        }
    }
    Ok(())
}

impl<'a> ClientRequest<'a> {
    /// The id as the client wrote it.
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

    /// The whole message as received, as one contiguous string.
    pub fn text(&self) -> &'a str {
        self.document.text()
    }

    /// The whole message as received, which may be stored in segments.
    pub fn source(&self) -> JsonDocumentText<'a> {
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

    /// The whole message as received.
    pub fn text(&self) -> &'a str {
        self.document.text()
    }

    pub(crate) fn source(&self) -> JsonDocumentText<'a> {
        self.document.source()
    }
}

impl<'a> ClientResponse<'a> {
    /// The id of the request that this responds to.
    pub fn id(&self) -> &RequestId<'a> {
        &self.id
    }

    /// The result or the error.
    pub fn payload(&self) -> ClientResponsePayload<'_> {
        let root = self.document.root();
        match root.get("result") {
            Some(result) => ClientResponsePayload::Result(result),
            // INVARIANT: `read_envelope` found one of the two.
            None => ClientResponsePayload::Error(root.get("error").unwrap_or(root)),
        }
    }

    /// The whole message as received.
    pub fn text(&self) -> &'a str {
        self.document.text()
    }

    pub(crate) fn root(&self) -> JsonValue<'_> {
        self.document.root()
    }
}
