//! HTTP responses to clients.

use bytes::Bytes;
use gatelodge_mcp::{code, error_response};
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::sync::mpsc;

use super::ReplyBody;
use crate::body::MessageBody;

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const X_CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

pub(crate) fn json_response(status: StatusCode, text: impl Into<MessageBody>) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::from_message(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(crate) fn event_stream_response(events: mpsc::Receiver<Bytes>) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::EventStream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(crate) fn empty_response(status: StatusCode) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = status;
    response
}

/// Builds an error that concerns the HTTP request itself rather than a message in it.
pub(crate) fn http_error_response(status: StatusCode, message: &str) -> Response<ReplyBody> {
    json_response(status, error_response(None, code::INVALID_REQUEST, message, None))
}

/// Builds the reply to an HTTP method that the URL does not support.
pub(crate) fn method_not_allowed_response(allow: &'static str, what: &str) -> Response<ReplyBody> {
    let mut response = http_error_response(StatusCode::METHOD_NOT_ALLOWED, what);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// Builds the reply to a request whose end is ambiguous. The connection is closed, so nothing after the request is
/// read.
pub(crate) fn ambiguous_length_response() -> Response<ReplyBody> {
    let what = "the request has both a length and chunks, or was sent before the response to the previous request";
    let mut response = http_error_response(StatusCode::BAD_REQUEST, what);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
