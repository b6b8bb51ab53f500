//! The spine: carries one judged request from what was asked to what is answered. Every way out is on the trail.

mod authorize;
mod call_rounds;

use std::sync::Arc;

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, code};
use gatelodge_mutants::mutant;
use gatelodge_policy::Terms;
use gatelodge_store::{CallOutcome, EnforcementMode};
use http::StatusCode;

use self::authorize::{as_unsent_refusal, authorize, early_denial, hidden_reason, load_tool_listing};
use self::call_rounds::CallRounds;
use super::{initialize, resources_subscribe, session_pool, task_requests, translation_gaps};
use crate::Gateway;
use crate::http_server::reply;
use crate::http_server::responder::Responder;
use crate::message_body::MessageBody;
use crate::pipeline::{
    Bond, CallRecorder, CallReservation, ForwardContext, Paused, ProgressRelay, Refusal, RequestSubject,
    abandoned_outcome, reserve, upstream_param_headers, wait_or_cancel,
};
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::upstream::{SendError, UpstreamResponse};

/// What is left to do when the caller has its answer.
enum CallResult {
    /// The upstream answered.
    Response { status: StatusCode, text: MessageBody, outcome: CallOutcome, exchange: Box<UpstreamResponse> },
    /// The answer is ours: the client is asked something, or what it wants is kept here.
    LocalReply { text: String },
    /// The upstream answered that it wants something of the client first.
    InputRequired { result: String },
    /// The caller cancelled after the request was sent.
    Cancelled,
}

/// Carries a request whose subject the policy speaks of.
pub(crate) async fn handle_call(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    recorder.set_subject(ctx, subject.target(), subject.arguments());
    if !mutant!("unsubscribe-depends-on-policy") || early_denial(ctx, subject, &recorder).is_none() {
        resources_subscribe::remove_subscription(gw, ctx, request, subject).await;
    }
    match run_pipeline(gw, ctx, request, subject, &mut recorder, &mut responder).await {
        Ok(CallResult::Response { status, text, outcome, mut exchange }) => {
            gw.metrics.count_answered_call();
            responder.finish_with_body(status, text).await;
            gw.write_row(recorder.outcome_row(outcome, Some(exchange.status.as_u16()))).await;
            exchange.drain(gw).await;
        }
        Ok(CallResult::LocalReply { text } | CallResult::InputRequired { result: text }) => {
            responder.finish(text.into()).await;
            gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
        }
        Ok(CallResult::Cancelled) => {
            responder.hang_up();
            gw.write_row(recorder.outcome_row(CallOutcome::Cancelled, None)).await;
        }
        Err(stop) => {
            let is_denied = matches!(stop.refusal, Refusal::Denied(_));
            Box::pin(finish_aborted(gw, ctx, request, subject, recorder, responder, stop)).await;
            // What waits for answers that nobody may give any more, waits in vain.
            if is_denied && let Ok(Some(suspended)) = take_suspended(gw, ctx, request, subject) {
                gw.cancel_suspended_call(*suspended);
            }
        }
    }
}

async fn finish_aborted(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
    stop: CallAbort,
) {
    if matches!(stop.refusal, Refusal::Upstream(SendError::ClientGone)) {
        responder.hang_up();
        return gw.write_row(recorder.cancelled_row()).await;
    }
    gw.metrics.count_refusal(stop.refusal.code());
    let (status, text) =
        reply::refusal_reply(ctx, subject, &responder, (request.id(), recorder.call_id()), &stop.refusal);
    responder.finish_with_status(status, text.into()).await;
    match stop.unwritten {
        UnwrittenRow::Refusal => gw.write_row(recorder.refusal_row(&stop.refusal)).await,
        UnwrittenRow::Outcome(outcome) => gw.write_row(recorder.failure_row(&stop.refusal, outcome)).await,
        UnwrittenRow::Nothing => {}
    }
}

/// Ends a request to a server that cannot be spoken to at all. What the policy hides is hidden all the same.
pub(crate) async fn handle_unreachable(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    refusal: Refusal,
    responder: Responder,
) {
    let mut recorder = CallRecorder::start(ctx, request, gw.new_call_id(), gw.clock.now());
    recorder.set_subject(ctx, subject.target(), subject.arguments());
    if !mutant!("unsubscribe-depends-on-server") {
        resources_subscribe::remove_subscription(gw, ctx, request, subject).await;
    }
    let refusal = match refusal {
        Refusal::Upstream(SendError::ClientGone) => refusal,
        _ => hidden_reason(ctx, subject, &recorder).map_or_else(|| as_unsent_refusal(refusal), Refusal::Denied),
    };
    finish_aborted(gw, ctx, request, subject, recorder, responder, refusal.into()).await;
}

/// Why the road ended early.
struct CallAbort {
    refusal: Refusal,
    unwritten: UnwrittenRow,
}

/// What is left to be written of a call that got no answer.
enum UnwrittenRow {
    /// That it was refused.
    Refusal,
    /// How it ended; the intent is written.
    Outcome(CallOutcome),
    /// Nothing; the end was written with what was given back.
    Nothing,
}

impl From<Refusal> for CallAbort {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, unwritten: UnwrittenRow::Refusal }
    }
}

async fn run_pipeline(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) -> Result<CallResult, CallAbort> {
    let suspended_ctx = find_suspended_context(gw, ctx, request, subject, responder);
    responder.acquire_in_flight(ctx, request.method())?;
    translation_gaps::check_translatable(ctx, request)?;
    let exclusive_ctx = match suspended_ctx {
        None if request_state(ctx, request).is_none() && session_pool::needs_exclusive_session(ctx, request) => {
            // Nobody gives way, and no process is started, for what the policy refuses. What its own session offers is
            // judged again below; only that takes from limits.
            if let Some(reason) = early_denial(ctx, subject, recorder) {
                return Err(Refusal::Denied(reason).into());
            }
            Some(Box::pin(with_exclusive_session(gw, ctx, request, recorder, responder)).await?)
        }
        back => back,
    };
    let ctx = exclusive_ctx.as_ref().unwrap_or(ctx);
    initialize::reopen_if_closed(gw, ctx).await;
    let _held = ctx.upstream_session().map(|session| session.mark_in_use());
    let listing = load_tool_listing(gw, ctx, subject, recorder, responder).await?;
    let (fingerprint, category) = subject.definition(listing.as_deref());
    if subject.tool().is_some() {
        recorder.set_definition(fingerprint, category);
    }
    let terms = authorize(ctx, subject, listing.as_deref(), recorder)?;
    resources_subscribe::check_subscription_limit(ctx, request, subject)?;
    let params = upstream_param_headers(ctx, subject, listing.as_deref())?;
    let resumed = recheck_suspended(gw, ctx, request, subject, recorder)?;
    let reserved = match reserve_charges(gw, ctx, terms, resumed.is_some(), recorder).await {
        Ok(reserved) => reserved,
        Err(refusal) => {
            if mutant!("refused-call-still-sent") {
                Box::pin(send_refused(gw, ctx, request, subject, recorder, responder)).await;
            }
            // Nobody can go on with it any more.
            resumed.into_iter().for_each(|suspended| gw.cancel_suspended_call(*suspended));
            return Err(refusal.into());
        }
    };
    if let Some(text) = resources_subscribe::subscribe_locally(gw, ctx, request, subject).await {
        return Ok(CallResult::LocalReply { text });
    }
    let journey = CallRounds {
        gw,
        ctx,
        request,
        subject,
        progress: ProgressRelay::of(request).map(Arc::new),
        param_headers: params,
        reservation: &reserved,
        deadline_timer: responder.deadline_timer(),
    };
    match journey.run(resumed, recorder.call_id(), responder).await {
        Ok(carried) => {
            record_side_effects(gw, ctx, request, &journey, recorder, &carried).await;
            Ok(carried)
        }
        Err(SendError::NotSent(why)) => {
            let refusal = Refusal::Upstream(SendError::NotSent(why));
            let mut record = recorder.failure_row(&refusal, CallOutcome::NotSent);
            record.at = gw.clock.now();
            // Not one byte was written, so what was taken is given back; the row rides with it.
            let released = gw.ledger.release(reserved.reservation, &record).await;
            Err(CallAbort {
                refusal,
                unwritten: if released.is_ok() {
                    UnwrittenRow::Nothing
                } else {
                    UnwrittenRow::Outcome(CallOutcome::NotSent)
                },
            })
        }
        Err(error) => {
            let outcome = error.outcome();
            if mutant!("refund-after-server-error") {
                let _ = gw
                    .ledger
                    .release(reserved.reservation, &recorder.outcome_row(CallOutcome::ConnectionLost, None))
                    .await;
            }
            Err(CallAbort { refusal: error.into(), unwritten: UnwrittenRow::Outcome(outcome) })
        }
    }
}

/// Mutant of [`run_pipeline`]: sends a call that its limits refuse.
async fn send_refused(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) {
    let Ok(reserved) = reserve(gw, ctx, &Terms::default(), recorder).await else { return };
    let (progress, params, alarm) = (None, None, responder.deadline_timer());
    let journey = CallRounds {
        gw,
        ctx,
        request,
        subject,
        progress,
        param_headers: params,
        reservation: &reserved,
        deadline_timer: alarm,
    };
    let _ = journey.run(None, recorder.call_id(), responder).await;
}

/// The visit by the session in which a call waits with which the request goes on, in that call's place in flight.
fn find_suspended_context(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    responder: &mut Responder,
) -> Option<RequestContext> {
    let back = gw.suspended_calls.back(&request_state(ctx, request)?, &Bond::of(ctx, request, subject))?;
    if let Some(in_flight) = back.room {
        responder.hold_in_flight_guard(in_flight);
    }
    Some(ctx.with_upstream_session(back.session, back.turn))
}

/// What is written of a call whose caller did not wait for its turn.
const CLIENT_LEFT_MESSAGE: &str = "the caller left before it was the call's turn; the call was not sent";

/// The visit by a session that the call has to itself.
async fn with_exclusive_session(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    recorder: &CallRecorder,
    responder: &mut Responder,
) -> Result<RequestContext, Refusal> {
    let forward_ctx = ForwardContext {
        gw,
        ctx,
        call: recorder.call_id(),
        progress: None,
        cancels_on_disconnect: false,
        is_client_request: true,
        can_suspend: false,
        previous_response: None,
        deadline_timer: None,
    };
    match wait_or_cancel(
        &forward_ctx,
        responder,
        std::pin::pin!(session_pool::acquire_exclusive_session(gw, ctx, request)),
    )
    .await
    {
        Some(exclusive_ctx) => exclusive_ctx,
        None if abandoned_outcome(gw).is_err() => Err(SendError::NotSent("the gateway was stopped".to_owned()).into()),
        None => Err(Refusal::CapacityReached(CLIENT_LEFT_MESSAGE)),
    }
}

/// What a client brings back that was asked in the middle of a call.
fn request_state(ctx: &RequestContext, request: &ClientRequest<'_>) -> Option<String> {
    // An upstream that takes requests which stand alone gave its own state, and knows it.
    if ctx.translation() != ProtocolTranslation::ToStateful {
        return None;
    }
    Some(request.params()?.get("requestState")?.as_str().unwrap_or_default().into_owned())
}

/// Takes what a call costs. Who only observes is kept from nothing by a limit, and what goes on was paid for when it began.
async fn reserve_charges(
    gw: &Gateway,
    ctx: &RequestContext,
    terms: Terms,
    goes_on: bool,
    recorder: &mut CallRecorder,
) -> Result<CallReservation, Refusal> {
    let terms = if goes_on { Terms::default() } else { terms };
    match reserve(gw, ctx, &terms, recorder).await {
        Err(refusal) if ctx.server_access.mode == EnforcementMode::Observe && !matches!(refusal, Refusal::Store(_)) => {
            recorder.record_observed_denial(&refusal);
            reserve(gw, ctx, &Terms::default(), recorder).await
        }
        outcome => outcome,
    }
}

/// Notes what an answer means for later, before the caller knows of it: whose a task is, and what its session listens for.
async fn record_side_effects(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    journey: &CallRounds<'_>,
    recorder: &CallRecorder,
    carried: &CallResult,
) {
    let CallResult::Response { text, outcome, .. } = carried else { return };
    if let RequestSubject::Tool { name, .. } = journey.subject {
        let call = recorder.call_id();
        let progress = journey.progress.clone().map(|progress| (call.as_str(), progress));
        task_requests::record_task_owner(gw, ctx, name, text, progress).await;
    }
    if *outcome == CallOutcome::Ok {
        resources_subscribe::store_subscription(gw, ctx, request, journey.subject).await;
    }
}

/// The call that a request goes on with; none for one that begins.
fn take_suspended(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) -> Result<Option<Box<Paused>>, Refusal> {
    let Some(state) = request_state(ctx, request) else { return Ok(None) };
    let suspended = gw.suspended_calls.take(&state, &Bond::of(ctx, request, subject));
    suspended.map(|suspended| Some(Box::new(suspended))).ok_or_else(|| {
        let what = "the request state is not of this request, was used, is too old, or its call made room for another; \
            send the request without it";
        Refusal::Protocol(ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, what))
    })
}

/// The same, if the policy in force lets its client answer. Else nobody goes on with it.
fn recheck_suspended(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: &mut CallRecorder,
) -> Result<Option<Box<Paused>>, Refusal> {
    let resumed = take_suspended(gw, ctx, request, subject)?;
    if let Err(refusal) = super::client_input::authorize_responses(gw, ctx, request, resumed.as_deref(), recorder) {
        resumed.into_iter().for_each(|suspended| gw.cancel_suspended_call(*suspended));
        return Err(refusal);
    }
    Ok(resumed)
}
