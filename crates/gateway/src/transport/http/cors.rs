//! CORS headers for web pages. Only requests with an origin that the `HostOriginGuard` accepts reach this module.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderValue, VARY,
};
use http::{Method, Request, Response, StatusCode};

use crate::reply::{ReplyBody, http_response};

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const ALLOWED_REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name",
);
const EXPOSED_RESPONSE_HEADERS: HeaderValue =
    HeaderValue::from_static("mcp-session-id, mcp-protocol-version, www-authenticate");
const PREFLIGHT_MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("600");

/// Returns the response to a CORS preflight request. It reveals nothing, so no token is needed.
pub(crate) fn preflight_response<B>(request: &Request<B>) -> Option<Response<ReplyBody>> {
    let asks = request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if !asks {
        return None;
    }
    let mut response = http_response::empty_response(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_REQUEST_HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE_SECONDS);
    Some(response)
}

/// Adds the headers that let a web page read the response.
pub(crate) fn allow_origin(mut response: Response<ReplyBody>, origin: HeaderValue) -> Response<ReplyBody> {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_RESPONSE_HEADERS);
    headers.insert(VARY, HeaderValue::from_static("origin"));
    response
}
