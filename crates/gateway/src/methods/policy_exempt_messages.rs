//! Forwards messages that no policy rule names: pings, log levels, notifications and client responses. Only methods on
//! a fixed list are forwarded this way; all others are evaluated like a call.

use bytes::Bytes;
use gatelodge_mcp::{
    ClientMessage, ClientNotification, ClientRequest, ClientResponse, ClientResponsePayload, Method, RequestId,
};
use gatelodge_store::CallOutcome;
use http::StatusCode;

use crate::call_recorder::CallRecorder;
use crate::pipeline::input_policy::is_input_method;
use crate::pipeline::server_message_filter::{check_input_response_allowed, decline_permit};
use crate::pipeline::{ForwardContext, ForwardOutcome, forward, response_for_client, rewrite_for_upstream};
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::{ClientResponseDestination, ProgressRelay, SessionManager};
use crate::upstream::{Permit, UpstreamRequest, UpstreamResponse, UpstreamSendError};
use crate::upstream_session::handshake::reopen_if_stale;
use crate::upstream_session::local_session::handle_locally;
use crate::upstream_session::upstream_exchange::send_one_way;

/// Forwards a request that every policy allows, and its response.
pub(crate) async fn forward_request(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    match exchange_for_client(gw, ctx, request, &recorder, &mut responder).await {
        Ok((status, text, outcome, mut exchange)) => {
            if outcome == CallOutcome::Ok {
                store_log_level(&gw.sessions, ctx, request).await;
            }
            responder.finish_with_status(status, text).await;
            gw.write_row(recorder.outcome_row(outcome, Some(exchange.status.as_u16()))).await;
            exchange.drain(&gw.metrics).await;
        }
        Err(error) => reply_failure(gw, request.id(), &mut recorder, error, responder).await,
    }
}

/// Stores the client's log level, to restore it after the server has lost the session.
async fn store_log_level(sessions: &SessionManager, ctx: &RequestContext, request: &ClientRequest<'_>) {
    let level = request.params().filter(|_| *request.method() == Method::SetLevel);
    let level = level.and_then(|params| params.get("level")?.as_str());
    if let Some((session, level)) = ctx.session().zip(level) {
        sessions.persist_log_level(session, &level).await;
    }
}

/// Replies to a request that is not subject to the policy and got no response from the upstream.
pub(crate) async fn reply_failure(
    gw: &GatewayServices,
    id: &RequestId<'_>,
    recorder: &mut CallRecorder,
    error: UpstreamSendError,
    responder: Responder,
) {
    let outcome = error.outcome();
    reply_refusal(gw, id, recorder, (Refusal::NoResponse(error), outcome), responder).await;
}

/// Like [`reply_failure`], with a given refusal and outcome.
pub(super) async fn reply_refusal(
    gw: &GatewayServices,
    id: &RequestId<'_>,
    recorder: &mut CallRecorder,
    why: (Refusal, CallOutcome),
    responder: Responder,
) {
    let (refusal, outcome) = why;
    if outcome == CallOutcome::Cancelled {
        responder.hang_up();
        return gw.write_row(recorder.outcome_row(outcome, None)).await;
    }
    gw.metrics.count_refusal(refusal.code());
    responder.finish(reply::internal_error_reply(id, recorder.call_id(), &refusal)).await;
    gw.write_row(recorder.failure_row(&refusal, outcome)).await;
}

async fn exchange_for_client(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    recorder: &CallRecorder,
    responder: &mut Responder,
) -> Result<(StatusCode, Bytes, CallOutcome, UpstreamResponse), UpstreamSendError> {
    let (message, exchange) = exchange_with_upstream(gw, ctx, request, recorder, responder).await?;
    match response_for_client(ctx, &message, request.id(), &gw.settings.reply_limits) {
        Some((text, outcome)) => {
            let status = ctx.response_status(
                &message.clone().into(),
                recorder.call_id(),
                exchange.status,
                &gw.settings.reply_limits,
            );
            Ok((status, text, outcome, exchange))
        }
        None => Err(UpstreamSendError::InvalidResponse("the response cannot be read".to_owned())),
    }
}

/// Sends a request with an id assigned by the gateway, and returns the upstream's response unchanged.
pub(crate) async fn exchange_with_upstream(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    recorder: &CallRecorder,
    responder: &mut Responder,
) -> Result<(Bytes, UpstreamResponse), UpstreamSendError> {
    let progress = ProgressRelay::of(request);
    let outgoing = rewrite_for_upstream(ctx, request, recorder.call_id(), None);
    let permit = Permit::for_policy_exempt(request.method().name(), outgoing)
        .ok_or_else(|| UpstreamSendError::NotSent("the method is subject to the policy".to_owned()))?;
    let forward_ctx = ForwardContext {
        gw,
        ctx,
        call: recorder.call_id(),
        progress: progress.as_ref(),
        cancels_on_disconnect: true,
        is_client_request: true,
        can_suspend: false,
        previous_response: None,
        deadline_timer: None,
    };
    let sending = async {
        match forward(&forward_ctx, permit, responder).await? {
            (ForwardOutcome::Response(message, _), Some(exchange)) => Ok((message.into_bytes(), exchange)),
            _ => Err(UpstreamSendError::ClientGone),
        }
    };
    tokio::time::timeout(gw.settings.call_timeout, sending).await.unwrap_or(Err(UpstreamSendError::Timeout))
}

/// Forwards a notification or response, with its ids translated to the upstream's.
pub(crate) async fn forward_one_way(gw: &GatewayServices, ctx: &RequestContext, message: &ClientMessage<'_>) {
    if handle_locally(gw, ctx, message).await {
        return;
    }
    let mut recorder = gw.new_recorder(ctx);
    if cancel_locally(ctx, message) {
        recorder.set_method(Method::Cancelled.name());
        return gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
    }
    reopen_if_stale(gw, ctx).await;
    let permit = match message {
        ClientMessage::Notification(notification) => {
            recorder.set_method(notification.method().name());
            notification_permit(ctx, notification)
        }
        ClientMessage::Response(response) => {
            recorder.set_method("response");
            match response_permit(gw, ctx, response, &mut recorder) {
                Ok(permit) => permit,
                Err(refused) => {
                    let (refusal, permit) = *refused;
                    gw.record_refusal(&mut recorder, &refusal).await;
                    // Best effort: the server waits for a response, but may not receive this one.
                    let _ = send_one_way(gw, ctx, permit).await;
                    return;
                }
            }
        }
        ClientMessage::Request(_) => None,
    };
    let Some(permit) = permit else {
        gw.metrics.count_dropped_message();
        return gw.write_row(recorder.refusal_row(&Refusal::UnknownReference)).await;
    };
    let is_progress =
        matches!(message, ClientMessage::Notification(notification) if *notification.method() == Method::Progress);
    match send_one_way(gw, ctx, permit).await {
        // Successful progress notifications are not recorded: there may be thousands, and they decide nothing.
        Ok(_) if is_progress => {}
        Ok(status) => gw.write_row(recorder.outcome_row(CallOutcome::Ok, Some(status))).await,
        Err(error) => {
            let outcome = error.outcome();
            gw.write_row(recorder.failure_row(&Refusal::Upstream(error), outcome)).await;
        }
    }
}

/// Signals the cancellation of a request that has no single id upstream, such as a list with several pages; its handler
/// then cancels it upstream. Returns whether there is such a request.
fn cancel_locally(ctx: &RequestContext, message: &ClientMessage<'_>) -> bool {
    let ClientMessage::Notification(notification) = message else { return false };
    let named = notification.reference().ok().flatten().filter(|_| *notification.method() == Method::Cancelled);
    let in_flight = ctx.session().zip(named).and_then(|(session, id)| session.find_request(&id));
    in_flight.filter(|own| own.call.is_none()).inspect(|own| own.cancel_signal.notify_one()).is_some()
}

fn notification_permit(ctx: &RequestContext, notification: &ClientNotification<'_>) -> Option<Permit> {
    let session = ctx.session()?;
    let text = match notification.method() {
        Method::Cancelled => {
            let in_flight = session.find_request(&notification.reference().ok()??)?;
            in_flight.cancel_signal.notify_one();
            notification.with_reference(&RequestId::string(in_flight.call?.as_str())).ok()?
        }
        // Progress of the client on a server request; the token is the upstream's own.
        _ => notification.text().to_owned(),
    };
    Permit::for_policy_exempt(
        notification.method().name(),
        ctx.message_for_upstream(UpstreamRequest::notification(text)),
    )
}

/// Returns the permit for a client's response to a server request, or `None` if there is no such request.
///
/// # Errors
/// The active policy no longer allows the server request. The error contains a permit for declining it.
fn response_permit(
    gw: &GatewayServices,
    ctx: &RequestContext,
    response: &ClientResponse<'_>,
    recorder: &mut CallRecorder,
) -> Result<Option<Permit>, Box<(Refusal, Permit)>> {
    let origin = ctx.session().and_then(|session| Some((session, session.server_requests.take(response.id())?)));
    match origin {
        Some((session, ClientResponseDestination::Upstream(request_id, method))) => {
            if is_input_method(&method)
                && let Err(refusal) = check_input_response_allowed(gw, ctx, &method, recorder)
            {
                let permit = decline_permit(ctx, &request_id, &refusal);
                return Err(Box::new((refusal, permit)));
            }
            if let ClientResponsePayload::Result(result) = response.payload() {
                session.tasks.note_client_result(result.raw(), method);
            }
            Ok(Some(Permit::for_server_request_response(
                &request_id,
                ctx.message_for_upstream(UpstreamRequest::notification(response.with_id(&request_id))),
            )))
        }
        Some((_, ClientResponseDestination::Call(_))) | None => Ok(None),
    }
}
