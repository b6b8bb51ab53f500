//! Finds the grant of a request by its bearer token, and the server by its path.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gatelodge_mcp::http_headers::HeaderRejection;
use gatelodge_store::{GrantTokenError, TokenHash, TokenHashPair};
use http::header::{AUTHORIZATION, HeaderMap};
use http::request::Parts;
use http::{StatusCode, Uri};

use super::listener::ClientConnectionContext;
use crate::aggregate::AggregateRequest;
use crate::client::request_endpoint::RequestEndpoint;
use crate::config_snapshot::ActiveGrant;
use crate::request_context::{ClientProtocol, RequestContext};
use crate::transport::TransportState;

/// The last token seen on a connection, with its hash: nearly all requests on a connection use the same token. It is
/// kept in memory only, and its grant is looked up for each request.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTokenCache(Mutex<Option<TokenHashPair>>);

impl ConnectionTokenCache {
    fn token_hash(&self, token: &str) -> Result<TokenHash, GrantTokenError> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(known) if known.matches(token) => Ok(known.hash()),
            _ => Ok(last.insert(TokenHashPair::parse(token)?).hash()),
        }
    }
}

/// Finds the grant by the token and the server by the path.
pub(crate) fn authenticate(
    state: &TransportState,
    connection: &ClientConnectionContext,
    head: &Parts,
) -> Result<RequestEndpoint, HeaderRejection> {
    let gw = &state.services;
    let not_found = |what| Err((StatusCode::NOT_FOUND, what));
    let path = head.uri.path();
    let path = path.strip_suffix('/').unwrap_or(path);
    let Some(name) = path.strip_prefix("/mcp").filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return not_found("not found; servers are at /mcp/<server>, and combined at /mcp");
    };
    let snapshot = gw.config.snapshot();
    let address = Arc::clone(&connection.client_address);
    let token = bearer_token_hash(&head.headers, &head.uri, &connection.token_cache);
    let token = token.inspect_err(|_| gw.auth_failures.record_failure(&address))?;
    let is_valid = |grant: &&Arc<ActiveGrant>| grant.config.expires.is_none_or(|end| end > gw.clock.now());
    let grant = snapshot.find_grant(&token).filter(is_valid);
    let Some(grant) = grant else {
        gw.auth_failures.record_failure(&address);
        return Err((StatusCode::UNAUTHORIZED, "the token is unknown, expired or revoked"));
    };
    let Some(name) = name.strip_prefix('/') else {
        return Ok(RequestEndpoint::Aggregate(Box::new(AggregateRequest::new(
            &snapshot,
            grant,
            &address,
            &state.aggregate_caches,
        ))));
    };
    let found = grant.config.servers.get(name).cloned().zip(snapshot.find_server(name).cloned());
    // A server of another grant looks the same as one that does not exist.
    let Some((server_access, upstream)) = found else { return not_found("this grant has no server with that name") };
    let (grant, client_protocol, pins_epoch) =
        (Arc::clone(grant), ClientProtocol::Stateful(None), upstream.pins_epoch());
    Ok(RequestEndpoint::Server(RequestContext {
        grant,
        server_access,
        upstream,
        pins_epoch,
        client_address: address,
        client_protocol,
        trace: None,
        request_body: Bytes::new(),
        streaming_digest: None,
    }))
}

/// Returns the hash of the request's token.
///
/// # Errors
/// The token is missing, malformed, repeated or in the URL. In these cases no grant is looked up.
fn bearer_token_hash(
    headers: &HeaderMap,
    uri: &Uri,
    last: &ConnectionTokenCache,
) -> Result<TokenHash, HeaderRejection> {
    let unauthorized = |what| Err((StatusCode::UNAUTHORIZED, what));
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err((StatusCode::BAD_REQUEST, "the request has more than one `Authorization` header"));
    }
    let is_in_query = uri.query().is_some_and(|query| query.contains("glt_"));
    let Some(value) = first else {
        return unauthorized(if is_in_query {
            "a token in the URL is not accepted; send `Authorization: Bearer <token>`"
        } else {
            "send the grant's token as `Authorization: Bearer <token>`"
        });
    };
    if is_in_query {
        return Err((StatusCode::BAD_REQUEST, "the request has a token in a header and another in its URL"));
    }
    let Some((scheme, token)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
        return unauthorized("the `Authorization` header must read `Bearer <token>`");
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return unauthorized("the `Authorization` header must read `Bearer <token>`");
    }
    match last.token_hash(token.trim()) {
        Ok(hash) => Ok(hash),
        Err(_) => unauthorized("the token is malformed; send it exactly as it was issued"),
    }
}

#[cfg(test)]
mod tests {
    use gatelodge_store::GrantToken;
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
        let found = bearer_token_hash(&headers(pairs), &Uri::from_static(target), &ConnectionTokenCache::default());
        found.map_or_else(|(status, _)| status.as_u16(), |_| 200)
    }

    #[test]
    fn exactly_one_token_is_accepted_and_only_in_a_header() {
        let token = GrantToken::random().expect("randomness");
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
    fn token_cache_never_confuses_the_tokens_of_a_connection() {
        let (last, tokens) =
            (ConnectionTokenCache::default(), [(); 2].map(|()| GrantToken::random().expect("randomness")));
        let found = |text: &str| {
            let pairs = [("authorization", format!("Bearer {text}"))];
            let headers = headers(&[(pairs[0].0, &pairs[0].1)]);
            bearer_token_hash(&headers, &Uri::from_static("/mcp/x"), &last).ok()
        };
        for own in [&tokens[0], &tokens[0], &tokens[1], &tokens[0]] {
            assert_eq!(found(own.reveal()), Some(own.hash()));
            let cut = own.reveal().get(..own.reveal().len() - 1).expect("letters");
            assert_eq!(found(cut), None, "a prefix of the last token is not accepted");
        }
    }
}
