//! What the head of a request must say: one credential, what the body is, and what the caller can read.

use gatelodge_store::{Token, TokenHash};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, UPGRADE};
use http::{StatusCode, Uri};

/// Why a head is refused: the status, and words for whoever reads the client's log.
pub(crate) type Refused = (StatusCode, &'static str);

/// Finds the one token.
///
/// # Errors
/// There is none, more than one, or something else in its place. Nothing was looked up.
pub(crate) fn token(headers: &HeaderMap, uri: &Uri) -> Result<TokenHash, Refused> {
    let unauthorized = |what| Err((StatusCode::UNAUTHORIZED, what));
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err((StatusCode::BAD_REQUEST, "the request has more than one `Authorization` header"));
    }
    let is_in_query = uri.query().is_some_and(|query| query.contains("glt_"));
    let Some(value) = first else {
        return unauthorized(if is_in_query {
            "a token in the URL is not taken; send `Authorization: Bearer <token>`"
        } else {
            "send the grant's token as `Authorization: Bearer <token>`"
        });
    };
    if is_in_query {
        return Err((StatusCode::BAD_REQUEST, "the request has a token in its head and one in its URL"));
    }
    let Some((scheme, token)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
        return unauthorized("the `Authorization` header must read `Bearer <token>`");
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return unauthorized("the `Authorization` header must read `Bearer <token>`");
    }
    match Token::parse(token.trim()) {
        Ok(token) => Ok(token.hash()),
        Err(_) => unauthorized("the token is not one of this gateway, or a character of it was lost"),
    }
}

/// Checks what a POST says of its body and of the answer it can read.
pub(crate) fn check_post(headers: &HeaderMap) -> Result<(), Refused> {
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
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        return Err((
            StatusCode::NOT_ACCEPTABLE,
            "the client must accept both: `Accept: application/json, text/event-stream`",
        ));
    }
    Ok(())
}

/// Whether a kind of content is accepted: by its name or by a range it falls into, and not at quality zero.
pub(crate) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let group = kind.split('/').next().unwrap_or_default();
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    ranges.flat_map(|value| value.split(',')).any(|range| {
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

    fn status_of_token(pairs: &[(&'static str, &str)], target: &'static str) -> u16 {
        token(&headers(pairs), &Uri::from_static(target)).map_or_else(|(status, _)| status.as_u16(), |_| 200)
    }

    #[test]
    fn there_is_one_token_and_it_is_in_the_head() {
        let token = Token::random().expect("randomness");
        let bearer = format!("Bearer {}", token.reveal());
        assert_eq!(status_of_token(&[("authorization", &bearer)], "/mcp/x"), 200);
        assert_eq!(status_of_token(&[("authorization", &bearer.replace("Bearer", "bearer"))], "/mcp/x"), 200);
        assert_eq!(status_of_token(&[("authorization", &bearer), ("authorization", &bearer)], "/mcp/x"), 400);
        assert_eq!(status_of_token(&[("authorization", &bearer), ("authorization", "Bearer x")], "/mcp/x"), 400);
        assert_eq!(status_of_token(&[("authorization", &format!("{bearer}, {bearer}"))], "/mcp/x"), 401);
        assert_eq!(status_of_token(&[("authorization", &bearer)], "/mcp/x?token=glt_abc"), 400);
        assert_eq!(status_of_token(&[("cookie", &bearer)], "/mcp/x?token=glt_abc"), 401);
        assert_eq!(status_of_token(&[("authorization", "Basic abc")], "/mcp/x"), 401);
        assert_eq!(status_of_token(&[("authorization", "Bearer")], "/mcp/x"), 401);
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
