//! What no rule speaks of by name: pings, levels, notifications and the client's answers. There is a list of what may
//! pass; everything else is judged like a call.

use bytes::Bytes;
use gatelodge_mcp::{
    ClientMessage, ClientNotification, ClientRequest, ClientResponse, ClientResponsePayload as Answer, Method,
    ProtocolGeneration, RequestId, find_created_task,
};
use gatelodge_store::CallOutcome;
use http::StatusCode;

use super::client_input::is_input_method;
use super::initialize::reopen_if_stale;
use super::unsolicited_messages::{may_be_answered, send_one_way};
use crate::Gateway;
use crate::http_server::reply;
use crate::http_server::responder::Responder;
use crate::pipeline::{
    CallRecorder, ForwardContext, ForwardOutcome, Permit, ProgressRelay, Refusal, forward, response_for_client,
    response_status, rewrite_for_upstream,
};
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::session::ServerRequestOrigin;
use crate::upstream::{SendError, UpstreamRequest, UpstreamResponse};

/// Sends a request on that passes under every policy, and gives the answer back.
pub(crate) async fn forward_request(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    match exchange_for_client(gw, ctx, request, &recorder, &mut responder).await {
        Ok((status, text, outcome, mut exchange)) => {
            if outcome == CallOutcome::Ok {
                store_log_level(gw, ctx, request).await;
            }
            responder.finish_with_status(status, text).await;
            gw.write_row(recorder.outcome_row(outcome, Some(exchange.status.as_u16()))).await;
            exchange.drain(gw).await;
        }
        Err(error) => reply_failure(gw, request.id(), &mut recorder, error, responder).await,
    }
}

/// Notes which log messages the client wants, for a server that forgets the session.
async fn store_log_level(gw: &Gateway, ctx: &RequestContext, request: &ClientRequest<'_>) {
    let level = request.params().filter(|_| *request.method() == Method::SetLevel);
    let level = level.and_then(|params| params.get("level")?.as_str());
    if let Some((session, level)) = ctx.session().zip(level) {
        gw.persist_log_level(session, &level).await;
    }
}

/// Ends a request that is not judged, and to which the upstream gave no answer.
pub(crate) async fn reply_failure(
    gw: &Gateway,
    id: &RequestId<'_>,
    recorder: &mut CallRecorder,
    error: SendError,
    responder: Responder,
) {
    let outcome = error.outcome();
    reply_refusal(gw, id, recorder, (Refusal::NoResponse(error), outcome), responder).await;
}

/// The same with the reason as it is to be said.
pub(super) async fn reply_refusal(
    gw: &Gateway,
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
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    recorder: &CallRecorder,
    responder: &mut Responder,
) -> Result<(StatusCode, Bytes, CallOutcome, UpstreamResponse), SendError> {
    let (message, exchange) = exchange_with_upstream(gw, ctx, request, recorder, responder).await?;
    match response_for_client(ctx, &message, request.id(), &gw.settings.reply_limits) {
        Some((text, outcome)) => {
            let status = response_status(
                ctx.generation(),
                &message.clone().into(),
                recorder.call_id(),
                exchange.status,
                &gw.settings.reply_limits,
            );
            Ok((status, text, outcome, exchange))
        }
        None => Err(SendError::InvalidResponse("the response cannot be read".to_owned())),
    }
}

/// Sends a request under our id and waits for its answer, which is given as the upstream wrote it.
pub(crate) async fn exchange_with_upstream(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    recorder: &CallRecorder,
    responder: &mut Responder,
) -> Result<(Bytes, UpstreamResponse), SendError> {
    let progress = ProgressRelay::of(request);
    let outgoing = rewrite_for_upstream(ctx, request, recorder.call_id(), None);
    let permit = Permit::for_always_allowed(request.method().name(), outgoing)
        .ok_or_else(|| SendError::NotSent("the method has to be judged".to_owned()))?;
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
            _ => Err(SendError::ClientGone),
        }
    };
    tokio::time::timeout(gw.settings.call_time, sending).await.unwrap_or(Err(SendError::Timeout))
}

/// Sends a message on that wants no answer, with ids of ours turned into those of the other side.
pub(crate) async fn forward_one_way(gw: &Gateway, ctx: &RequestContext, message: &ClientMessage<'_>) {
    if ctx.translation() == ProtocolTranslation::ToStateless {
        return handle_locally(gw, ctx, message).await;
    }
    let mut recorder = CallRecorder::for_request(ctx, gw.new_call_id(), gw.clock.now());
    if cancel_locally(ctx, message) {
        recorder.set_method(Method::Cancelled.name());
        return gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
    }
    reopen_if_stale(gw, ctx).await;
    let permit = match message {
        ClientMessage::Notification(said) => {
            recorder.set_method(said.method().name());
            notification_permit(ctx, said)
        }
        ClientMessage::Response(said) => {
            recorder.set_method("response");
            match response_permit(gw, ctx, said, &mut recorder) {
                Ok(permit) => permit,
                Err(refused) => {
                    let (refusal, permit) = *refused;
                    gw.record_refusal(&mut recorder, &refusal).await;
                    // It waits; one that cannot be told will have to find out by itself.
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
    let is_progress = matches!(message, ClientMessage::Notification(said) if *said.method() == Method::Progress);
    match send_one_way(gw, ctx, permit).await {
        // There may be thousands of these, and they decide nothing.
        Ok(_) if is_progress => {}
        Ok(status) => gw.write_row(recorder.outcome_row(CallOutcome::Ok, Some(status))).await,
        Err(error) => {
            let outcome = error.outcome();
            gw.write_row(recorder.failure_row(&Refusal::Upstream(error), outcome)).await;
        }
    }
}

/// What the upstream has no ear for: a cancelled request hangs up, an answer goes with the next request, and the rest
/// is of no use there.
async fn handle_locally(gw: &Gateway, ctx: &RequestContext, message: &ClientMessage<'_>) {
    let Some(session) = ctx.session() else { return };
    let mut recorder = CallRecorder::for_request(ctx, gw.new_call_id(), gw.clock.now());
    let is_taken = match message {
        ClientMessage::Notification(said) if *said.method() == Method::Cancelled => {
            recorder.set_method(said.method().name());
            said.reference().ok().flatten().is_some_and(|id| session.cancel_request(&id))
        }
        ClientMessage::Response(said) => {
            recorder.set_method("response");
            match session.server_requests.take(said.id()) {
                Some(ServerRequestOrigin::Call(waiting)) => {
                    waiting.send(Bytes::copy_from_slice(said.text().as_bytes())).is_ok()
                }
                Some(ServerRequestOrigin::Upstream(..)) | None => false,
            }
        }
        // They decide nothing, and nobody hears of them.
        ClientMessage::Notification(_) | ClientMessage::Request(_) => return,
    };
    if is_taken {
        return gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
    }
    gw.metrics.count_dropped_message();
    gw.write_row(recorder.refusal_row(&Refusal::UnknownReference)).await;
}

/// Cancels a request that the server knows by ids of which the client cannot speak: whoever carries it tells the server.
fn cancel_locally(ctx: &RequestContext, message: &ClientMessage<'_>) -> bool {
    let ClientMessage::Notification(said) = message else { return false };
    let named = said.reference().ok().flatten().filter(|_| *said.method() == Method::Cancelled);
    let under_way = ctx.session().zip(named).and_then(|(session, id)| session.find_request(&id));
    under_way.filter(|own| own.call.is_none()).inspect(|own| own.cancel_signal.notify_one()).is_some()
}

fn notification_permit(ctx: &RequestContext, said: &ClientNotification<'_>) -> Option<Permit> {
    let session = ctx.session()?;
    let text = match said.method() {
        Method::Cancelled => {
            let under_way = session.find_request(&said.reference().ok()??)?;
            under_way.cancel_signal.notify_one();
            said.with_reference(&RequestId::string(under_way.call?.as_str())).ok()?
        }
        // The client tells of progress on what the upstream asked it; the token is the upstream's own.
        _ => said.text().to_owned(),
    };
    Permit::for_always_allowed(said.method().name(), ctx.message_for_upstream(UpstreamRequest::notification(text)))
}

/// What a client answers, to who asked; none if nobody did.
///
/// # Errors
/// The policy in force does not let the server ask any more, and this tells it so.
fn response_permit(
    gw: &Gateway,
    ctx: &RequestContext,
    said: &ClientResponse<'_>,
    recorder: &mut CallRecorder,
) -> Result<Option<Permit>, Box<(Refusal, Permit)>> {
    let asked = ctx.session().and_then(|session| Some((session, session.server_requests.take(said.id())?)));
    match asked {
        Some((session, ServerRequestOrigin::Upstream(asked, method))) => {
            if is_input_method(&method)
                && let Err(refusal) = may_be_answered(gw, ctx, &method, recorder)
            {
                let permit = Permit::for_declined_server_request(ctx, &asked, &refusal);
                return Err(Box::new((refusal, permit)));
            }
            if let Answer::Result(result) = said.payload()
                && let Some(task) = find_created_task(result.raw(), ProtocolGeneration::Stateful)
            {
                session.tasks.note_client_task(task.id, method);
            }
            Ok(Some(Permit::for_server_request_response(
                &asked,
                ctx.message_for_upstream(UpstreamRequest::notification(said.with_id(&asked))),
            )))
        }
        Some((_, ServerRequestOrigin::Call(_))) | None => Ok(None),
    }
}
