//! `resources/subscribe` for stateful clients. Subscriptions are stored with the session.

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, Method, code};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use http::StatusCode;

use super::call_handler::{self, AllowedCallResult, EvaluatedCall, UnrecordedRefusal};
use crate::call_recorder::CallRecorder;
use crate::pipeline::authorize::{authorize, early_denial};
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream_session::handshake;

/// Handles `resources/subscribe` and `resources/unsubscribe`. They are evaluated like a call; for a stateless server,
/// which cannot store subscriptions, the gateway replies itself.
pub(crate) async fn handle_subscription(call: EvaluatedCall<'_>, mut recorder: CallRecorder, mut responder: Responder) {
    let EvaluatedCall { gw, ctx, request, subject } = call;
    recorder.set_subject(ctx, subject.target(), None);
    if !mutant!("unsubscribe-depends-on-policy") || early_denial(ctx, subject, &recorder).is_none() {
        remove_subscription(gw, ctx, request, subject).await;
    }
    let ended = run(call, &mut recorder, &mut responder).await;
    if let Ok(AllowedCallResult::LocalReply { .. } | AllowedCallResult::Response { outcome: CallOutcome::Ok, .. }) =
        ended
    {
        // Before the client knows that it is subscribed.
        store_subscription(gw, ctx, request, subject).await;
    }
    call_handler::finish(call, recorder, responder, ended).await;
}

async fn run(
    call: EvaluatedCall<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) -> Result<AllowedCallResult, UnrecordedRefusal> {
    let EvaluatedCall { gw, ctx, request, subject } = call;
    responder.acquire_in_flight(ctx, request.method())?;
    handshake::reopen_if_closed(gw, ctx).await;
    let _held = ctx.upstream_session().map(|session| session.mark_in_use());
    let terms = authorize(ctx, subject, None, recorder)?;
    check_subscription_limit(ctx, request, subject)?;
    let reservation = call.reserve_charges(terms, false, recorder).await?;
    if ctx.local_session().is_some() {
        return Ok(AllowedCallResult::LocalReply { text: gatelodge_mcp::result_response(request.id(), "{}") });
    }
    call.send(reservation, None, None, recorder, responder).await
}

/// Checks the limit on subscriptions per session.
///
/// # Errors
/// The limit is reached.
fn check_subscription_limit(
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

async fn store_subscription(
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
