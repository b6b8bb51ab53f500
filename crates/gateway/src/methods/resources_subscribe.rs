//! `resources/subscribe` of a client with a session. What it listens for is kept with the session, and asked for anew
//! wherever the server has forgotten it.

use std::sync::Arc;

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{ClientRequest, Method, code};
use gatelodge_mutants::mutant;
use http::StatusCode;

use super::unsolicited_messages::{AllowedResource, authorize_resource};
use crate::Gateway;
use crate::pipeline::{CallRecorder, Permit, Refusal, RequestSubject, await_own_response, result_text};
use crate::request_context::RequestContext;
use crate::session::Session;
use crate::upstream::UpstreamRequest;

/// Holds that a session listens for no more than it keeps.
///
/// # Errors
/// It would be more.
pub(super) fn check_subscription_limit(
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) -> Result<(), Refusal> {
    let Some((session, uri)) = ctx.session().zip(subject.target()) else { return Ok(()) };
    if *request.method() != Method::ResourcesSubscribe || session.subscriptions.has_room_for(uri) {
        return Ok(());
    }
    let what = "the session listens for too many resources";
    Err(Refusal::Protocol(ProtocolError::new(StatusCode::OK, code::INVALID_PARAMS, what)))
}

/// Answers what an upstream without sessions cannot keep.
pub(super) async fn subscribe_locally(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) -> Option<String> {
    ctx.session().filter(|session| session.is_upstream_stateless())?;
    if !matches!(request.method(), Method::ResourcesSubscribe | Method::ResourcesUnsubscribe) {
        return None;
    }
    store_subscription(gw, ctx, request, subject).await;
    Some(gatelodge_mcp::result_response(request.id(), "{}"))
}

/// Notes what a session listens for, now that the server has taken it.
pub(super) async fn store_subscription(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) {
    let Some((session, uri)) = ctx.session().zip(subject.target()) else { return };
    if *request.method() == Method::ResourcesSubscribe && session.subscriptions.add(uri) {
        gw.persist_subscriptions(&session.subscriptions).await;
    }
}

/// Notes what a session does not want to hear of any more, whatever becomes of the request.
pub(super) async fn remove_subscription(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) {
    let Some((session, uri)) = ctx.session().zip(subject.target()) else { return };
    // Where its server cannot be spoken to, a session for all servers has no part there.
    let part = session.server().is_none().then(|| session.subscriptions.for_server(ctx.upstream.name()));
    let watched = part.as_ref().unwrap_or(&session.subscriptions);
    if *request.method() == Method::ResourcesUnsubscribe && watched.remove(uri) {
        gw.persist_subscriptions(watched).await;
    }
}

/// Subscribes anew to what a session listens for, at a server that has opened it anew, if nobody has or not to all of
/// it. No call waits for that.
pub(crate) fn resubscribe(gw: &Gateway, ctx: &RequestContext) {
    let Some(session) = ctx.session().filter(|session| !session.is_upstream_stateless()) else { return };
    if session.upstream_link().is_ended() {
        return;
    }
    let opening = session.handshake_attempts();
    if !session.subscriptions.try_begin_subscribing(opening) || !session.subscriptions.has_any() {
        return;
    }
    let Some(gw) = gw.arc_self() else { return };
    let (own, ctx, session) = (Arc::clone(&gw), ctx.clone(), Arc::clone(session));
    gw.spawn(async move {
        let mut is_answered = true;
        for uri in session.subscriptions.uris() {
            if session.handshake_attempts() != opening || session.upstream_link().is_ended() {
                is_answered = false;
                break;
            }
            // The client may have done with it meanwhile.
            let allowed = authorize_subscription(&own, &ctx, &session, &uri)
                .await
                .filter(|_| session.subscriptions.contains(&uri));
            if let Some(allowed) = allowed {
                is_answered &= send_subscription(&own, &ctx, &Method::ResourcesSubscribe, &allowed).await.is_some();
            }
        }
        if !is_answered && !mutant!("failed-subscription-not-retried") {
            session.subscriptions.request_resubscribe(opening);
        }
    });
}

/// Whether a session may still hear of what it listens for. That it may not is written once, until it may again.
pub(super) async fn authorize_subscription(
    gw: &Gateway,
    ctx: &RequestContext,
    session: &Session,
    uri: &str,
) -> Option<AllowedResource> {
    let reason = match authorize_resource(gw, ctx, uri) {
        Ok(allowed) => {
            session.subscriptions.clear_denied(uri);
            return Some(allowed);
        }
        Err(reason) => reason,
    };
    if session.subscriptions.mark_denied(uri) {
        let mut recorder = CallRecorder::for_request(ctx, gw.new_call_id(), gw.clock.now());
        recorder.set_method(Method::ResourcesSubscribe.name());
        recorder.set_subject(ctx, Some(uri), None);
        gw.record_refusal(&mut recorder, &Refusal::Denied(reason)).await;
    }
    None
}

/// Subscribes at the upstream, or ends that, and gives whether it will have it. None if it does not answer.
pub(super) async fn send_subscription(
    gw: &Gateway,
    ctx: &RequestContext,
    method: &Method<'_>,
    allowed: &AllowedResource,
) -> Option<bool> {
    let (call, uri) = (gw.new_call_id(), to_json_string(allowed.uri()));
    let name = method.name();
    let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{name}","params":{{"uri":{uri}}}}}"#);
    let permit = Permit::for_subscription(allowed, ctx.message_for_upstream(UpstreamRequest::request(text, call)));
    let asking = async {
        let mut exchange = gw.upstream_client.send(&ctx.upstream, permit).await.ok()?;
        let answer = await_own_response(gw, &mut exchange, call).await.ok()?;
        Some(answer.is_some_and(|answer| matches!(result_text(&answer, &gw.settings.reply_limits), Ok(Some(_)))))
    };
    tokio::time::timeout(gw.settings.connect_time * 2, asking).await.ok()?
}
