//! `resources/subscribe` for stateful clients. Subscriptions are stored with the session.

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, Method, code};
use http::StatusCode;

use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::services::GatewayServices;

/// Checks the limit on subscriptions per session.
///
/// # Errors
/// The limit is reached.
pub(super) fn check_subscription_limit(
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) -> Result<(), Refusal> {
    let Some((session, uri)) = ctx.session().zip(subject.target()) else { return Ok(()) };
    if *request.method() != Method::ResourcesSubscribe || session.subscriptions.has_room_for(uri) {
        return Ok(());
    }
    let what = "the session has too many resource subscriptions";
    Err(Refusal::Protocol(ProtocolError::new(StatusCode::OK, code::INVALID_PARAMS, what)))
}

/// Handles subscriptions for a stateless upstream, which cannot store them.
pub(super) async fn subscribe_locally(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) -> Option<String> {
    ctx.local_session()?;
    if !matches!(request.method(), Method::ResourcesSubscribe | Method::ResourcesUnsubscribe) {
        return None;
    }
    store_subscription(gw, ctx, request, subject).await;
    Some(gatelodge_mcp::result_response(request.id(), "{}"))
}

/// Stores a subscription after the server has accepted it.
pub(super) async fn store_subscription(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) {
    let Some((session, uri)) = ctx.session().zip(subject.target()) else { return };
    if *request.method() == Method::ResourcesSubscribe && session.subscriptions.add(uri) {
        gw.sessions.persist_subscriptions(&session.subscriptions).await;
    }
}

/// Removes a subscription, whether or not the request succeeds.
pub(super) async fn remove_subscription(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) {
    let Some((session, uri)) = ctx.session().zip(subject.target()) else { return };
    // If the server is down, an aggregate session has no server session for it.
    let server_part = session.server().is_none().then(|| session.subscriptions.for_server(ctx.upstream.name()));
    let subscriptions = server_part.as_ref().unwrap_or(&session.subscriptions);
    if *request.method() == Method::ResourcesUnsubscribe && subscriptions.remove(uri) {
        gw.sessions.persist_subscriptions(subscriptions).await;
    }
}
