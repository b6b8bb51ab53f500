//! `resources/subscribe` for stateful clients. Subscriptions are stored with the session.

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, Method, code};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use http::StatusCode;

use super::call_handler::{self, AllowedCallResult, PolicyCall, UnrecordedRefusal};
use crate::call_recorder::CallRecorder;
use crate::pipeline::authorize::early_denial;
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;

/// Handles `resources/subscribe` and `resources/unsubscribe`. They go through the pipeline like a call; for a stateless
/// server, which cannot store subscriptions, the gateway replies itself.
pub(crate) async fn handle_subscription(call: PolicyCall<'_>, mut recorder: CallRecorder, mut responder: Responder) {
    let PolicyCall { gw, ctx, request, subject } = call;
    recorder.set_subject(ctx, subject.target(), None);
    if !mutant!("unsubscribe-depends-on-policy") || early_denial(ctx, subject, &recorder).is_none() {
        remove_subscription(gw, ctx, request, subject).await;
    }
    let ended = run(call, &mut recorder, &mut responder).await;
    call_handler::finish(call, recorder, responder, ended).await;
}

/// Runs the pipeline and stores the subscription, while the session is held.
async fn run(
    call: PolicyCall<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) -> Result<AllowedCallResult, UnrecordedRefusal> {
    let _held = call.hold_session(responder).await?;
    let ended = call_handler::run_pipeline(call, recorder, responder).await?;
    if let AllowedCallResult::LocalReply { .. } | AllowedCallResult::Response { outcome: CallOutcome::Ok, .. } = ended {
        // Before the client knows that it is subscribed.
        store_subscription(call).await;
    }
    Ok(ended)
}

/// Checks the limit on subscriptions per session.
///
/// # Errors
/// The request is a subscription, and the limit is reached.
pub(super) fn check_subscription_limit(call: PolicyCall<'_>) -> Result<(), Refusal> {
    let PolicyCall { ctx, request, subject, .. } = call;
    if *request.method() != Method::ResourcesSubscribe {
        return Ok(());
    }
    match ctx.session().zip(subject.target()) {
        Some((session, uri)) if !session.subscriptions.has_room_for(uri) => {
            let what = "the session has too many resource subscriptions";
            Err(Refusal::Protocol(ProtocolError::new(StatusCode::OK, code::INVALID_PARAMS, what)))
        }
        _ => Ok(()),
    }
}

/// Returns the reply to a subscription request if the server cannot store subscriptions, so that it is not sent there.
pub(super) fn local_subscription_reply(call: PolicyCall<'_>) -> Option<String> {
    let PolicyCall { ctx, request, .. } = call;
    let is_local = ctx.has_local_subscriptions() && is_subscription_method(request.method());
    is_local.then(|| gatelodge_mcp::result_response(request.id(), "{}"))
}

pub(super) fn is_subscription_method(method: &Method<'_>) -> bool {
    matches!(method, Method::ResourcesSubscribe | Method::ResourcesUnsubscribe)
}

async fn store_subscription(call: PolicyCall<'_>) {
    let PolicyCall { gw, ctx, request, subject } = call;
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
