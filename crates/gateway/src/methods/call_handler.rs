//! The pipeline of one call: evaluates the policy, reserves the charges, forwards the call and responds. Every exit
//! path writes a record.

mod authorize;
mod call_rounds;

use std::sync::Arc;

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, code};
use gatelodge_mutants::mutant;
use gatelodge_policy::AllowTerms;
use gatelodge_store::{CallOutcome, EnforcementMode};
use http::StatusCode;

use self::authorize::{as_unsent_refusal, authorize, early_denial, hidden_reason, load_tool_listing};
use self::call_rounds::CallRounds;
use super::{missing_upstream_methods, resources_subscribe};
use crate::body::MessageBody;
use crate::pipeline::upstream_session::{handshake, pooled_session};
use crate::pipeline::{
    CallRecorder, CallReservation, ForwardContext, SuspendedCall, SuspendedCallBinding, abandoned_outcome, reserve,
    task_ownership, upstream_param_headers, wait_or_cancel,
};
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{ProtocolTranslation, RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::ProgressRelay;
use crate::upstream::{UpstreamResponse, UpstreamSendError};

/// Result of a call that was not refused.
enum AllowedCallResult {
    /// The upstream responded.
    Response { status: StatusCode, text: MessageBody, outcome: CallOutcome, exchange: Box<UpstreamResponse> },
    /// The gateway responds itself: it asks the client for input, or handles the request locally.
    LocalReply { text: String },
    /// The upstream asks for client input before it responds.
    InputRequired { result: String },
    /// The client cancelled after the request was sent.
    Cancelled,
}

/// Handles a request that is subject to the policy.
pub(crate) async fn handle_call(
    gw: &GatewayServices,
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
        Ok(AllowedCallResult::Response { status, text, outcome, mut exchange }) => {
            gw.metrics.count_answered_call();
            responder.finish_with_body(status, text).await;
            gw.write_row(recorder.outcome_row(outcome, Some(exchange.status.as_u16()))).await;
            exchange.drain(&gw.metrics).await;
        }
        Ok(AllowedCallResult::LocalReply { text } | AllowedCallResult::InputRequired { result: text }) => {
            responder.finish(text.into()).await;
            gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
        }
        Ok(AllowedCallResult::Cancelled) => {
            responder.hang_up();
            gw.write_row(recorder.outcome_row(CallOutcome::Cancelled, None)).await;
        }
        Err(abort) => {
            let is_denied = matches!(abort.refusal, Refusal::Denied(_));
            Box::pin(finish_aborted(gw, ctx, request, subject, recorder, responder, abort)).await;
            // After a denial nothing can resume the suspended call any more.
            if is_denied && let Ok(Some(suspended)) = take_suspended(gw, ctx, request, subject) {
                gw.cancel_suspended_call(*suspended);
            }
        }
    }
}

async fn finish_aborted(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
    abort: CallAbort,
) {
    if matches!(abort.refusal, Refusal::Upstream(UpstreamSendError::ClientGone)) {
        responder.hang_up();
        return gw.write_row(recorder.cancelled_row()).await;
    }
    gw.metrics.count_refusal(abort.refusal.code());
    let (status, text) = reply::refusal_reply(
        ctx,
        subject,
        &responder.with_client_names(subject),
        (request.id(), recorder.call_id()),
        &abort.refusal,
    );
    responder.finish_with_status(status, text.into()).await;
    match abort.unwritten {
        AbortRowKind::Refusal => gw.write_row(recorder.refusal_row(&abort.refusal)).await,
        AbortRowKind::Outcome(outcome) => gw.write_row(recorder.failure_row(&abort.refusal, outcome)).await,
        AbortRowKind::Nothing => {}
    }
}

/// Replies to a request whose server cannot be reached. Tools that the policy hides stay hidden.
pub(crate) async fn handle_unreachable(
    gw: &GatewayServices,
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
        Refusal::Upstream(UpstreamSendError::ClientGone) => refusal,
        _ => hidden_reason(ctx, subject, &recorder).map_or_else(|| as_unsent_refusal(refusal), Refusal::Denied),
    };
    finish_aborted(gw, ctx, request, subject, recorder, responder, refusal.into()).await;
}

/// Why the pipeline ended early.
struct CallAbort {
    refusal: Refusal,
    unwritten: AbortRowKind,
}

/// The row that still has to be written for a call without a response.
enum AbortRowKind {
    /// The refusal row.
    Refusal,
    /// The outcome row; the intent row has already been written.
    Outcome(CallOutcome),
    /// No row is left to write: `Ledger::release` wrote the outcome together with the refund.
    Nothing,
}

impl From<Refusal> for CallAbort {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, unwritten: AbortRowKind::Refusal }
    }
}

async fn run_pipeline(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) -> Result<AllowedCallResult, CallAbort> {
    let suspended_ctx = find_suspended_context(gw, ctx, request, subject, responder);
    responder.acquire_in_flight(ctx, request.method())?;
    missing_upstream_methods::check_translatable(ctx, request)?;
    let exclusive_ctx = match suspended_ctx {
        None if request_state(ctx, request).is_none() && pooled_session::needs_exclusive_session(ctx, request) => {
            // Denied calls must not evict a session or start a process. The policy is evaluated again below, with the
            // listing of the exclusive session; only that evaluation takes charges.
            if let Some(reason) = early_denial(ctx, subject, recorder) {
                return Err(Refusal::Denied(reason).into());
            }
            Some(Box::pin(with_exclusive_session(gw, ctx, request, recorder, responder)).await?)
        }
        back => back,
    };
    let ctx = exclusive_ctx.as_ref().unwrap_or(ctx);
    handshake::reopen_if_closed(gw, ctx).await;
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
            // Nothing can resume the call any more.
            resumed.into_iter().for_each(|suspended| gw.cancel_suspended_call(*suspended));
            return Err(refusal.into());
        }
    };
    if let Some(text) = resources_subscribe::subscribe_locally(gw, ctx, request, subject).await {
        return Ok(AllowedCallResult::LocalReply { text });
    }
    let rounds = CallRounds {
        gw,
        ctx,
        request,
        subject,
        progress: ProgressRelay::of(request).map(Arc::new),
        param_headers: params,
        reservation: &reserved,
        deadline_timer: responder.deadline_timer(),
    };
    match rounds.run(resumed, recorder.call_id(), responder).await {
        Ok(result) => {
            record_side_effects(gw, ctx, request, &rounds, recorder, &result).await;
            Ok(result)
        }
        Err(UpstreamSendError::NotSent(why)) => {
            let refusal = Refusal::Upstream(UpstreamSendError::NotSent(why));
            let mut record = recorder.failure_row(&refusal, CallOutcome::NotSent);
            record.at = gw.clock.now();
            // No byte was sent, so the charges are released; the same step writes the outcome row.
            let released = gw.ledger.release(reserved.reservation, &record).await;
            Err(CallAbort {
                refusal,
                unwritten: if released.is_ok() {
                    AbortRowKind::Nothing
                } else {
                    AbortRowKind::Outcome(CallOutcome::NotSent)
                },
            })
        }
        Err(error) => {
            let outcome = error.outcome();
            if mutant!("refund-after-server-error") {
                let _ = gw
                    .ledger
                    .release(reserved.reservation, &recorder.outcome_row(CallOutcome::NoValidResponse, None))
                    .await;
            }
            Err(CallAbort { refusal: error.into(), unwritten: AbortRowKind::Outcome(outcome) })
        }
    }
}

/// Mutant of [`run_pipeline`] for mutation tests: sends a call even though it exceeds its limits.
async fn send_refused(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) {
    let Ok(reserved) = reserve(gw, ctx, &AllowTerms::default(), recorder).await else { return };
    let (progress, params, alarm) = (None, None, responder.deadline_timer());
    let rounds = CallRounds {
        gw,
        ctx,
        request,
        subject,
        progress,
        param_headers: params,
        reservation: &reserved,
        deadline_timer: alarm,
    };
    let _ = rounds.run(None, recorder.call_id(), responder).await;
}

/// Finds the suspended call that the request resumes, and returns a context with that call's session. The call's
/// in-flight guard moves to the responder.
fn find_suspended_context(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    responder: &mut Responder,
) -> Option<RequestContext> {
    let resumed = gw
        .suspended_calls
        .resume_context(&request_state(ctx, request)?, &SuspendedCallBinding::of(ctx, request, subject))?;
    if let Some(in_flight) = resumed.in_flight {
        responder.hold_in_flight_guard(in_flight);
    }
    Some(ctx.with_upstream_session(resumed.session, resumed.exclusive_session))
}

/// Message recorded for a call whose client disconnected while the call waited for an exclusive session.
const CLIENT_LEFT_MESSAGE: &str = "the client disconnected while the call was queued; the call was not sent";

/// Returns a context with a session that is exclusive to this call.
async fn with_exclusive_session(
    gw: &GatewayServices,
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
        std::pin::pin!(pooled_session::acquire_exclusive_session(gw, ctx, request)),
    )
    .await
    {
        Some(exclusive_ctx) => exclusive_ctx,
        None if abandoned_outcome(gw).is_err() => {
            Err(UpstreamSendError::NotSent("the gateway was stopped".to_owned()).into())
        }
        None => Err(Refusal::CapacityReached(CLIENT_LEFT_MESSAGE)),
    }
}

/// Returns the request state that resumes a suspended call.
fn request_state(ctx: &RequestContext, request: &ClientRequest<'_>) -> Option<String> {
    // The state of a stateless upstream is its own, and is passed on.
    if ctx.translation() != ProtocolTranslation::ToStateful {
        return None;
    }
    Some(request.params()?.get("requestState")?.as_str().unwrap_or_default().into_owned())
}

/// Reserves the charges for a call. In observe mode, a call that exceeds its limits is recorded but not refused. A
/// resumed call is not charged again.
async fn reserve_charges(
    gw: &GatewayServices,
    ctx: &RequestContext,
    terms: AllowTerms,
    is_resumed: bool,
    recorder: &mut CallRecorder,
) -> Result<CallReservation, Refusal> {
    let terms = if is_resumed { AllowTerms::default() } else { terms };
    match reserve(gw, ctx, &terms, recorder).await {
        Err(refusal) if ctx.server_access.mode == EnforcementMode::Observe && !matches!(refusal, Refusal::Store(_)) => {
            recorder.record_observed_denial(&refusal);
            reserve(gw, ctx, &AllowTerms::default(), recorder).await
        }
        outcome => outcome,
    }
}

/// Stores the task ownership or resource subscription that results from a response, before the client sees the
/// response.
async fn record_side_effects(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    rounds: &CallRounds<'_>,
    recorder: &CallRecorder,
    result: &AllowedCallResult,
) {
    let AllowedCallResult::Response { text, outcome, .. } = result else { return };
    if let RequestSubject::Tool { name, .. } = rounds.subject {
        let call = recorder.call_id();
        let progress = rounds.progress.clone().map(|progress| (call.as_str(), progress));
        task_ownership::record_task_owner(gw, ctx, name, text, progress).await;
    }
    if *outcome == CallOutcome::Ok {
        resources_subscribe::store_subscription(gw, ctx, request, rounds.subject).await;
    }
}

/// Removes and returns the suspended call that a request resumes; `None` if the request starts a new call.
fn take_suspended(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) -> Result<Option<Box<SuspendedCall>>, Refusal> {
    let Some(state) = request_state(ctx, request) else { return Ok(None) };
    let suspended = gw.suspended_calls.take(&state, &SuspendedCallBinding::of(ctx, request, subject));
    suspended.map(|suspended| Some(Box::new(suspended))).ok_or_else(|| {
        let what = "the request state belongs to another request, was already used, has expired, or its call was evicted; \
            send the request without it";
        Refusal::Protocol(ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, what))
    })
}

/// Like [`take_suspended`], but ends the call if the active policy no longer allows the input responses.
fn recheck_suspended(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: &mut CallRecorder,
) -> Result<Option<Box<SuspendedCall>>, Refusal> {
    let resumed = take_suspended(gw, ctx, request, subject)?;
    if let Err(refusal) =
        crate::pipeline::client_input::authorize_responses(gw, ctx, request, resumed.as_deref(), recorder)
    {
        resumed.into_iter().for_each(|suspended| gw.cancel_suspended_call(*suspended));
        return Err(refusal);
    }
    Ok(resumed)
}
