//! Checks the HTTP headers of requests in every protocol revision. The gateway and the MCP servers in this workspace
//! share these checks.

mod header_names;
mod host_origin;
mod param_headers;
mod sse_endpoint;

use gatelodge_json::quote_into;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, UPGRADE};
use http::{HeaderName, StatusCode};

pub use header_names::{LAST_EVENT_ID, MCP_METHOD, MCP_NAME, PROTOCOL_VERSION, SESSION_ID, decode_value, encode_value};
pub use host_origin::{HostOriginError, HostOriginGuard};
pub use param_headers::{HeaderAnnotationError, ParamHeaderMapping, param_headers};
pub use sse_endpoint::resolve_endpoint;

use crate::client_message::ClientRequest;
use crate::message_error::{MessageError, code, quote_excerpt};
use crate::method::Method;
use crate::revision::{ProtocolGeneration, Revision};

/// Maximum number of bytes that an error quotes from the requested revision.
const MAX_REQUESTED_REVISION_BYTES: usize = 64;

/// Rejection of request headers: the status, and a message for the client's log.
pub type HeaderRejection = (StatusCode, &'static str);

/// Rejection of a message that breaks the rules of its client's protocol generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError {
    /// HTTP status of the response.
    pub status: StatusCode,
    /// The JSON-RPC code.
    pub code: i64,
    /// The error message.
    pub message: String,
    /// Additional error data, as JSON.
    pub data: Option<String>,
}

impl ProtocolError {
    /// Makes an error without `data`.
    pub fn new(status: StatusCode, code: i64, message: &str) -> Self {
        Self { status, code, message: message.to_owned(), data: None }
    }

    /// Makes the error for an unsupported revision; `data` lists the supported ones.
    pub fn unsupported_revision(requested: &str, supported: &[Revision]) -> Self {
        let supported: Vec<String> = supported.iter().rev().map(|revision| format!("\"{revision}\"")).collect();
        let mut data = String::from("{\"requested\":");
        quote_into(
            requested.get(..requested.floor_char_boundary(MAX_REQUESTED_REVISION_BYTES)).unwrap_or_default(),
            &mut data,
        );
        data.push_str(&format!(",\"supported\":[{}]}}", supported.join(",")));
        let message = format!("protocol revision {} is not supported", quote_excerpt(requested));
        Self { status: StatusCode::BAD_REQUEST, code: code::UNSUPPORTED_REVISION, message, data: Some(data) }
    }

    fn header_mismatch(what: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, what)
    }

    fn missing_meta(what: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, what)
    }
}

const MISSING_REVISION_MESSAGE: &str = "`params._meta` does not name the protocol revision; a stateless request needs \
    `io.modelcontextprotocol/protocolVersion` there";
const MISSING_CAPABILITIES_MESSAGE: &str = "`params._meta` does not list the client's capabilities; a stateless \
    request needs `io.modelcontextprotocol/clientCapabilities` there, even if it is `{}`";

/// The revision in the `MCP-Protocol-Version` header; `None` if the header is missing.
///
/// # Errors
/// The revision is unknown; the error lists the revisions in `supported`.
pub fn revision(
    headers: &HeaderMap,
    supported: impl FnOnce() -> Vec<Revision>,
) -> Result<Option<Revision>, ProtocolError> {
    let Some(value) = headers.get(PROTOCOL_VERSION) else { return Ok(None) };
    parse_revision(value.to_str().unwrap_or("?"), supported).map(Some)
}

/// Returns whether the headers or the body mark a request as stateless. They may still contradict each other, or name
/// an unknown revision.
pub fn is_stateless(headers: &HeaderMap, request: &ClientRequest<'_>) -> bool {
    has_stateless_header(headers) || has_stateless_meta(request)
}

/// Returns whether the headers mark a request as stateless.
pub fn has_stateless_header(headers: &HeaderMap) -> bool {
    headers.get_all(PROTOCOL_VERSION).iter().any(|value| value == Revision::R2026_07_28.as_str())
}

/// Returns whether the body marks a request as stateless, that is, whether its `_meta` names a revision that is unknown
/// or has no handshake.
pub fn has_stateless_meta(request: &ClientRequest<'_>) -> bool {
    let named = request.meta().protocol_version();
    named.is_some_and(|named| {
        named.parse().map_or(true, |revision: Revision| revision.generation() == ProtocolGeneration::Stateless)
    })
}

/// Checks that the headers and the body of a stateless request agree, and returns the revision.
///
/// # Errors
/// The headers and the body disagree, one of them lacks a required value, or the revision is unknown; in the last case
/// the error lists the revisions in `supported`.
pub fn check_stateless(
    headers: &HeaderMap,
    request: &ClientRequest<'_>,
    supported: &[Revision],
) -> Result<Revision, ProtocolError> {
    let Some(named) = request.meta().protocol_version() else {
        return Err(ProtocolError::missing_meta(MISSING_REVISION_MESSAGE));
    };
    // Compare the texts first: a contradiction is reported as such even if both revisions are unknown.
    let is_same = single_value(headers, &PROTOCOL_VERSION).is_some_and(|sent| sent == named);
    if !is_same {
        return Err(mismatch(headers, &PROTOCOL_VERSION, "MCP-Protocol-Version", "the revision in `params._meta`"));
    }
    let revision = check_meta(request, supported)?;
    if single_value(headers, &MCP_METHOD).as_deref() != Some(request.method().name()) {
        return Err(mismatch(headers, &MCP_METHOD, "Mcp-Method", "`method`"));
    }
    let member = match request.method() {
        Method::ToolsCall | Method::PromptsGet => "name",
        Method::ResourcesRead => "uri",
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => "taskId",
        _ => return Ok(revision),
    };
    if let Some(target) = request.params().and_then(|params| params.get(member)) {
        let is_same = single_value(headers, &MCP_NAME).is_some_and(|name| target.is_str(&name));
        if !is_same {
            return Err(mismatch(headers, &MCP_NAME, "Mcp-Name", &format!("`params.{member}`")));
        }
    }
    Ok(revision)
}

/// Makes the error for a header that should repeat a value from the body but does not.
fn mismatch(headers: &HeaderMap, name: &HeaderName, shown: &str, value: &str) -> ProtocolError {
    let problem = match headers.get_all(name).iter().count() {
        0 => "is missing",
        1 => "differs from the body",
        _ => "occurs more than once",
    };
    ProtocolError::header_mismatch(&format!("the `{shown}` header {problem}; send it once, with the value of {value}"))
}

/// Checks the `_meta` of a stateless request on a transport without headers, and returns the revision.
///
/// # Errors
/// A required member is missing, or the revision is unknown; in the latter case the error lists the revisions in
/// `supported`.
pub fn check_meta(request: &ClientRequest<'_>, supported: &[Revision]) -> Result<Revision, ProtocolError> {
    let Some(named) = request.meta().protocol_version() else {
        return Err(ProtocolError::missing_meta(MISSING_REVISION_MESSAGE));
    };
    let revision = parse_revision(&named, || supported.to_vec())?;
    if request.meta().client_capabilities().is_none() {
        return Err(ProtocolError::missing_meta(MISSING_CAPABILITIES_MESSAGE));
    }
    Ok(revision)
}

/// The HTTP status of the response to a message that was refused.
pub fn error_status(error: &MessageError, generation: ProtocolGeneration) -> StatusCode {
    match (generation, error.code) {
        // By the status, a stateless client sees that the method is missing and not the server.
        (ProtocolGeneration::Stateless, code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        // A notification gets no response. In a session, 404 would mean that the session is over.
        (ProtocolGeneration::Stateful, code::METHOD_NOT_FOUND) if error.id.is_none() => StatusCode::ACCEPTED,
        (ProtocolGeneration::Stateful, code::METHOD_NOT_FOUND | code::INVALID_PARAMS) if error.id.is_some() => {
            StatusCode::OK
        }
        _ => StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST),
    }
}

fn parse_revision(text: &str, supported: impl FnOnce() -> Vec<Revision>) -> Result<Revision, ProtocolError> {
    text.parse().map_err(|_| ProtocolError::unsupported_revision(text, &supported()))
}

/// The decoded value of a header that occurs exactly once.
fn single_value(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { decode_value(first.as_bytes()) }
}

/// Checks the content type and the `Accept` header of a POST.
///
/// ```
/// use gatelodge_mcp::http_headers::check_post;
/// use http::HeaderMap;
/// use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
///
/// let mut headers = HeaderMap::new();
/// headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
/// headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
/// assert!(check_post(&headers).is_ok());
/// headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
/// assert!(check_post(&headers).is_err());
/// ```
///
/// # Errors
/// The body is not plain JSON, or the client does not accept both JSON and event streams.
pub fn check_post(headers: &HeaderMap) -> Result<(), HeaderRejection> {
    check_body(headers)?;
    // The spelling of nearly all clients.
    if headers.get(ACCEPT).is_some_and(|value| value == "application/json, text/event-stream") {
        return Ok(());
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        return Err((
            StatusCode::NOT_ACCEPTABLE,
            "the client must accept both content types; send `Accept: application/json, text/event-stream`",
        ));
    }
    Ok(())
}

/// Checks the content type of a POST.
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
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not supported"));
    }
    if headers.contains_key(UPGRADE) {
        return Err((StatusCode::BAD_REQUEST, "protocol upgrades are not supported"));
    }
    Ok(())
}

/// Returns whether `Accept` includes a content type, by its name or by a range such as `text/*`. Entries with quality
/// zero do not count.
pub fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let group = kind.split('/').next().unwrap_or_default();
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    ranges.flat_map(|value| value.split(',')).any(|range| {
        // The spelling of nearly all clients.
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
    fn a_post_needs_a_json_body_and_must_accept_json_and_event_streams() {
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
