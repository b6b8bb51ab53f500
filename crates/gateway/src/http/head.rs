//! Who asks: the one credential in the head of a request.

use gatelodge_mcp::head::Refused;
use gatelodge_store::{Token, TokenHash};
use http::header::{AUTHORIZATION, HeaderMap};
use http::{StatusCode, Uri};

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
}
