//! What browsers want to hear before a web page may call, and with each answer. Only origins that the guard lets in
//! come so far.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderValue, ORIGIN, VARY,
};
use http::{Method, Request, Response, StatusCode};

use super::body::Body;
use super::reply;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const SENT: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name",
);
const READ: HeaderValue = HeaderValue::from_static("mcp-session-id, mcp-protocol-version, www-authenticate");
const SECONDS: HeaderValue = HeaderValue::from_static("600");

/// The page that asks, as its browser says.
pub(crate) fn page<B>(request: &Request<B>) -> Option<HeaderValue> {
    request.headers().get(ORIGIN).cloned()
}

/// The answer to a browser that asks whether a page may call. Nothing but that is told, so no token is needed.
pub(crate) fn preflight<B>(request: &Request<B>) -> Option<Response<Body>> {
    let asks = request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if !asks {
        return None;
    }
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, SENT);
    headers.insert(ACCESS_CONTROL_MAX_AGE, SECONDS);
    Some(response)
}

/// Lets the page read the answer.
pub(crate) fn allow(mut response: Response<Body>, page: HeaderValue) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READ);
    headers.insert(VARY, HeaderValue::from_static("origin"));
    response
}
