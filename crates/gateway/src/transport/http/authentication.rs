//! Finds the grant of a request by its token, and the server by its path.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::http_headers::HeaderRejection;
use http::StatusCode;
use http::request::Parts;

use super::bearer_token::bearer_token_hash;
use super::listener::ClientConnectionContext;
use crate::aggregate::AggregateRequest;
use crate::client::request_endpoint::RequestEndpoint;
use crate::config_snapshot::ActiveGrant;
use crate::request_context::{ClientProtocol, RequestContext};
use crate::transport::ClientLeg;

/// Finds the grant by the token and the server by the path.
pub(crate) fn authenticate(
    leg: &ClientLeg,
    connection: &ClientConnectionContext,
    head: &Parts,
) -> Result<RequestEndpoint, HeaderRejection> {
    let gw = &leg.services;
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
            &leg.aggregate_caches,
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
