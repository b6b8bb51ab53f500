//! What the head of an HTTP request must say, in every revision: the same rules for the gateway and for a server.

mod header_names;
mod host_origin;
mod param_headers;
mod sse_endpoint;

use gatelodge_json::quote_into;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, UPGRADE};
use http::{HeaderName, StatusCode};

pub use header_names::{LAST_EVENT_ID, MCP_METHOD, MCP_NAME, PROTOCOL_VERSION, SESSION_ID, decode_value, encode_value};
pub use host_origin::{HostOriginError, HostOriginGuard};
pub use param_headers::{ParamHeaderError, ParamHeaderMapping, param_headers};
pub use sse_endpoint::resolve_endpoint;

use crate::client_message::ClientRequest;
use crate::message_error::{MessageError, code, quote_excerpt};
use crate::method::Method;
use crate::revision::{ProtocolGeneration, Revision};

/// The most of a revision that is given back to whoever asked for it.
const MAX_REQUESTED_REVISION_BYTES: usize = 64;

/// Why a head is refused: the status, and words for whoever reads the client's log.
pub type HeaderRejection = (StatusCode, &'static str);

/// Why a message does not fit the way in which its client speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError {
    /// The status to answer with.
    pub status: StatusCode,
    /// The JSON-RPC code.
    pub code: i64,
    /// What is wrong.
    pub message: String,
    /// Further facts, as JSON.
    pub data: Option<String>,
}

impl ProtocolError {
    /// Without further facts.
    pub fn new(status: StatusCode, code: i64, message: &str) -> Self {
        Self { status, code, message: message.to_owned(), data: None }
    }

    /// A revision that is not spoken, with those that are.
    pub fn unsupported_revision(requested: &str, spoken: &[Revision]) -> Self {
        let supported: Vec<String> = spoken.iter().rev().map(|revision| format!("\"{revision}\"")).collect();
        let mut data = String::from("{\"requested\":");
        quote_into(
            requested.get(..requested.floor_char_boundary(MAX_REQUESTED_REVISION_BYTES)).unwrap_or_default(),
            &mut data,
        );
        data.push_str(&format!(",\"supported\":[{}]}}", supported.join(",")));
        let message = format!("the revision {} is not spoken here", quote_excerpt(requested));
        Self { status: StatusCode::BAD_REQUEST, code: code::UNSUPPORTED_REVISION, message, data: Some(data) }
    }

    fn header_mismatch(what: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, what)
    }

    fn missing_meta(what: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, what)
    }
}

const MISSING_REVISION_MESSAGE: &str = "`params._meta` does not say the revision; a request that stands alone has \
    `io.modelcontextprotocol/protocolVersion` there";
const NO_CAPABILITIES: &str = "`params._meta` does not say the client's capabilities; a request that stands alone has \
    `io.modelcontextprotocol/clientCapabilities` there, be it `{}`";

/// The revision that the head names; none if it names none.
///
/// # Errors
/// It names one that is not known; whoever asks is told those `spoken`.
pub fn revision(
    headers: &HeaderMap,
    spoken: impl FnOnce() -> Vec<Revision>,
) -> Result<Option<Revision>, ProtocolError> {
    let Some(value) = headers.get(PROTOCOL_VERSION) else { return Ok(None) };
    known(value.to_str().unwrap_or("?"), spoken).map(Some)
}

/// Whether a request stands alone, by its head or by its body. What they say may yet disagree, or be unknown here.
pub fn is_stateless(headers: &HeaderMap, request: &ClientRequest<'_>) -> bool {
    says_stateless(headers) || names_stateless(request)
}

/// The same by the head alone.
pub fn says_stateless(headers: &HeaderMap) -> bool {
    headers.get_all(PROTOCOL_VERSION).iter().any(|value| value == Revision::R2026_07_28.as_str())
}

/// The same by the body alone: it names a revision, and not one that has a handshake.
pub fn names_stateless(request: &ClientRequest<'_>) -> bool {
    let named = request.meta().protocol_version();
    named.is_some_and(|named| {
        named.parse().map_or(true, |revision: Revision| revision.generation() == ProtocolGeneration::Stateless)
    })
}

/// Checks that head and body of a stateless request say the same, and gives the revision.
///
/// # Errors
/// They do not, or one of them does not say what it must, or the revision is not known; whoever asks is told those
/// `spoken`.
pub fn check_stateless(
    headers: &HeaderMap,
    request: &ClientRequest<'_>,
    spoken: &[Revision],
) -> Result<Revision, ProtocolError> {
    let Some(named) = request.meta().protocol_version() else {
        return Err(ProtocolError::missing_meta(MISSING_REVISION_MESSAGE));
    };
    // The texts first: whoever says two things is told so, be they known here or not.
    let is_same = says(headers, &PROTOCOL_VERSION).is_some_and(|said| said == named);
    if !is_same {
        return Err(unlike(headers, &PROTOCOL_VERSION, "MCP-Protocol-Version", "the revision in `params._meta`"));
    }
    let revision = check_meta(request, spoken)?;
    if says(headers, &MCP_METHOD).as_deref() != Some(request.method().name()) {
        return Err(unlike(headers, &MCP_METHOD, "Mcp-Method", "`method`"));
    }
    let member = match request.method() {
        Method::ToolsCall | Method::PromptsGet => "name",
        Method::ResourcesRead => "uri",
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => "taskId",
        _ => return Ok(revision),
    };
    if let Some(about) = request.params().and_then(|params| params.get(member)) {
        let is_same = says(headers, &MCP_NAME).is_some_and(|name| about.is_str(&name));
        if !is_same {
            return Err(unlike(headers, &MCP_NAME, "Mcp-Name", &format!("`params.{member}`")));
        }
    }
    Ok(revision)
}

/// What is wrong with a header that has to say what a place of the body says.
fn unlike(headers: &HeaderMap, name: &HeaderName, shown: &str, place: &str) -> ProtocolError {
    let how = match headers.get_all(name).iter().count() {
        0 => "is missing",
        1 => "says something else than the body",
        _ => "is there more than once",
    };
    ProtocolError::header_mismatch(&format!("the `{shown}` header {how}; send it once, with the value of {place}"))
}

/// Checks what a stateless request says of itself, where there is no head, and gives the revision.
///
/// # Errors
/// It does not say what it must, or the revision is not known; whoever asks is told those `spoken`.
pub fn check_meta(request: &ClientRequest<'_>, spoken: &[Revision]) -> Result<Revision, ProtocolError> {
    let Some(named) = request.meta().protocol_version() else {
        return Err(ProtocolError::missing_meta(MISSING_REVISION_MESSAGE));
    };
    let revision = known(&named, || spoken.to_vec())?;
    if request.meta().client_capabilities().is_none() {
        return Err(ProtocolError::missing_meta(NO_CAPABILITIES));
    }
    Ok(revision)
}

/// The status to answer with to a message that cannot be taken.
pub fn fault_status(fault: &MessageError, era: ProtocolGeneration) -> StatusCode {
    match (era, fault.code) {
        // A stateless client tells by the status that the method, not the server, is missing.
        (ProtocolGeneration::Stateless, code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        // What wants no answer gets none. In a session 404 would say that the session is over.
        (ProtocolGeneration::Stateful, code::METHOD_NOT_FOUND) if fault.id.is_none() => StatusCode::ACCEPTED,
        (ProtocolGeneration::Stateful, code::METHOD_NOT_FOUND | code::INVALID_PARAMS) if fault.id.is_some() => {
            StatusCode::OK
        }
        _ => StatusCode::from_u16(fault.status).unwrap_or(StatusCode::BAD_REQUEST),
    }
}

fn known(text: &str, spoken: impl FnOnce() -> Vec<Revision>) -> Result<Revision, ProtocolError> {
    text.parse().map_err(|_| ProtocolError::unsupported_revision(text, &spoken()))
}

/// The one value of a header of the protocol.
fn says(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { decode_value(first.as_bytes()) }
}

/// Checks what a POST says of its body and of the answer it can read.
///
/// # Errors
/// The body is not plain JSON, or the caller does not take both kinds of answer.
pub fn check_post(headers: &HeaderMap) -> Result<(), HeaderRejection> {
    check_body(headers)?;
    // As nearly all clients write it.
    if headers.get(ACCEPT).is_some_and(|value| value == "application/json, text/event-stream") {
        return Ok(());
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        return Err((
            StatusCode::NOT_ACCEPTABLE,
            "the client must accept both: `Accept: application/json, text/event-stream`",
        ));
    }
    Ok(())
}

/// Checks what a POST says of its body.
///
/// # Errors
/// The body is not plain JSON.
pub fn check_body(headers: &HeaderMap) -> Result<(), HeaderRejection> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = kind.split(';');
    let is_json = parts.next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    let is_utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    });
    if !is_json || !is_utf8 || headers.get_all(CONTENT_TYPE).iter().count() > 1 {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be `Content-Type: application/json` in UTF-8"));
    }
    if headers.contains_key(CONTENT_ENCODING) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "a compressed body is not taken"));
    }
    if headers.contains_key(UPGRADE) {
        return Err((StatusCode::BAD_REQUEST, "the connection cannot become another protocol"));
    }
    Ok(())
}

/// Whether a kind of content is accepted: by its name or by a range it falls into, and not at quality zero.
pub fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let group = kind.split('/').next().unwrap_or_default();
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    ranges.flat_map(|value| value.split(',')).any(|range| {
        // As nearly all clients write it.
        if range.trim() == kind {
            return true;
        }
        let mut parts = range.split(';');
        let name = parts.next().unwrap_or_default().trim();
        let fits = name == "*/*"
            || name.eq_ignore_ascii_case(kind)
            || name.strip_suffix("/*").is_some_and(|own| own.eq_ignore_ascii_case(group));
        let is_refused = parts.any(|parameter| {
            let quality = parameter.trim().strip_prefix("q=").or(parameter.trim().strip_prefix("Q="));
            quality.is_some_and(|quality| quality.trim().bytes().all(|byte| matches!(byte, b'0' | b'.')))
        });
        fits && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).expect("a value");
        let mut headers = HeaderMap::new();
        for (name, text) in pairs {
            headers.append(*name, value(text));
        }
        headers
    }

    #[test]
    fn the_body_is_plain_json_and_both_kinds_of_answer_can_be_read() {
        let status = |kind: &str, accept: &str| {
            let headers = headers(&[("content-type", kind), ("accept", accept)]);
            check_post(&headers).map_or_else(|(status, _)| status.as_u16(), |()| 200)
        };
        let both = "application/json, text/event-stream";
        for kind in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""] {
            assert_eq!(status(kind, both), 200, "{kind}");
        }
        for kind in ["text/plain", "application/json; charset=utf-16", "application/jsonx", ""] {
            assert_eq!(status(kind, both), 415, "{kind}");
        }
        for accept in ["*/*", "application/*, text/*", "text/event-stream;q=0.5, application/json"] {
            assert_eq!(status("application/json", accept), 200, "{accept}");
        }
        for accept in
            ["", "text/html", "application/json", "*/*;q=0", "text/event-stream-x, application/json", "*/*;q=0.000"]
        {
            assert_eq!(status("application/json", accept), 406, "{accept}");
        }
        let compressed =
            headers(&[("content-type", "application/json"), ("accept", both), ("content-encoding", "gzip")]);
        assert_eq!(check_post(&compressed).map_err(|(status, _)| status.as_u16()), Err(415));
    }
}
