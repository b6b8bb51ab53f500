//! The pipeline of one call: evaluates the policy, reserves the charges, forwards the call and responds. Every exit
//! path writes a record.
//!
//! [`run_pipeline`] is what every call goes through. What concerns few calls is before it (`call_session`,
//! `resumed_call`) or after it (`unrecorded_refusal`).

mod call_rounds;
mod call_session;
mod resumed_call;
mod tool_listing;
mod unrecorded_refusal;

use std::sync::Arc;

use gatelodge_mcp::ClientRequest;
use gatelodge_mutants::mutant;
use gatelodge_policy::AllowTerms;
use gatelodge_store::{CallOutcome, EnforcementMode};
use http::{HeaderMap, StatusCode};

use self::call_rounds::CallRounds;
use self::call_session::prepare_session;
use self::resumed_call::{recheck_suspended, take_suspended};
use self::tool_listing::load_tool_listing;
use self::unrecorded_refusal::{AbortRowKind, UnrecordedRefusal, finish_aborted};
use super::resources_subscribe;
use crate::body::MessageBody;
use crate::call_recorder::CallRecorder;
use crate::pipeline::authorize::{authorize, early_denial};
use crate::pipeline::{CallReservation, reserve, task_ownership};
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::ProgressRelay;
use crate::suspended_calls::SuspendedCall;
use crate::upstream::{ToolListing, UpstreamResponse, UpstreamSendError};

pub(crate) use self::unrecorded_refusal::{handle_unreachable, refuse};

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

/// A call that is subject to the policy.
#[derive(Clone, Copy)]
struct EvaluatedCall<'a> {
    gw: &'a GatewayServices,
    ctx: &'a RequestContext,
    request: &'a ClientRequest<'a>,
    subject: &'a RequestSubject<'a>,
}

/// What few calls have.
struct CallExtras {
    /// `Mcp-Param-*` headers for the upstream.
    param_headers: Option<Box<HeaderMap>>,
    /// The suspended call that the request resumes.
    resumed: Option<Box<SuspendedCall>>,
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
    match run(gw, ctx, request, subject, &mut recorder, &mut responder).await {
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

/// Runs the pipeline in the session of the call, which is held until the upstream has responded.
async fn run(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) -> Result<AllowedCallResult, UnrecordedRefusal> {
    let call_ctx = prepare_session(gw, ctx, request, subject, recorder, responder).await?;
    let ctx = call_ctx.as_ref().unwrap_or(ctx);
    let _held = ctx.upstream_session().map(|session| session.mark_in_use());
    run_pipeline(EvaluatedCall { gw, ctx, request, subject }, recorder, responder).await
}

/// Carries a call from the evaluation of the policy to the response of its server.
async fn run_pipeline(
    call: EvaluatedCall<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) -> Result<AllowedCallResult, UnrecordedRefusal> {
    let EvaluatedCall { gw, ctx, subject, .. } = call;
    let listing = load_tool_listing(gw, ctx, subject, recorder, responder).await?;
    let terms = authorize(ctx, subject, listing.as_deref(), recorder)?;
    let extras = call.check_extras(listing.as_deref(), recorder)?;
    // Charges and intent: one durable step. Terms that ask for a person are refused here until approvals exist.
    let (reservation, extras) = call.reserve_charges(terms, extras, recorder, responder).await?;
    if let Some(reply) = call.reply_locally().await {
        return Ok(reply);
    }
    // Sending consumes a permit, which only the reservation gives.
    match call.forward(&reservation, extras, recorder, responder).await {
        Ok(result) => Ok(result),
        Err(error) => Err(call.settle(reservation, error, recorder).await),
    }
}

impl EvaluatedCall<'_> {
    /// Checks what concerns few calls: limits on subscriptions, headers that repeat arguments, and input for a call
    /// that was suspended.
    fn check_extras(&self, listing: Option<&ToolListing>, recorder: &mut CallRecorder) -> Result<CallExtras, Refusal> {
        let Self { gw, ctx, request, subject } = *self;
        resources_subscribe::check_subscription_limit(ctx, request, subject)?;
        let param_headers = ctx.param_headers(subject, listing)?;
        let resumed = recheck_suspended(gw, ctx, request, subject, recorder)?;
        Ok(CallExtras { param_headers, resumed })
    }

    /// Reserves the charges for the call. In observe mode, a call that exceeds its limits is recorded but not refused.
    /// A resumed call is not charged again.
    async fn reserve_charges(
        &self,
        terms: AllowTerms,
        extras: CallExtras,
        recorder: &mut CallRecorder,
        responder: &mut Responder,
    ) -> Result<(CallReservation, CallExtras), Refusal> {
        let Self { gw, ctx, .. } = *self;
        let terms = if extras.resumed.is_some() { AllowTerms::default() } else { terms };
        let reserved = match reserve(gw, ctx, &terms, recorder).await {
            Err(refusal)
                if ctx.server_access.mode == EnforcementMode::Observe && !matches!(refusal, Refusal::Store(_)) =>
            {
                recorder.record_observed_denial(&refusal);
                reserve(gw, ctx, &AllowTerms::default(), recorder).await
            }
            outcome => outcome,
        };
        match reserved {
            Ok(reservation) => Ok((reservation, extras)),
            Err(refusal) => {
                if mutant!("refused-call-still-sent") {
                    Box::pin(self.send_refused(recorder, responder)).await;
                }
                // Nothing can resume the call any more.
                extras.resumed.into_iter().for_each(|suspended| gw.cancel_suspended_call(*suspended));
                Err(refusal)
            }
        }
    }

    /// Handles subscriptions for a stateless upstream, which cannot store them.
    async fn reply_locally(&self) -> Option<AllowedCallResult> {
        let Self { gw, ctx, request, subject } = *self;
        let text = resources_subscribe::subscribe_locally(gw, ctx, request, subject).await?;
        Some(AllowedCallResult::LocalReply { text })
    }

    /// Sends the call, and stores what its response entails before the client sees the response.
    async fn forward(
        &self,
        reservation: &CallReservation,
        extras: CallExtras,
        recorder: &CallRecorder,
        responder: &mut Responder,
    ) -> Result<AllowedCallResult, UpstreamSendError> {
        let Self { gw, ctx, request, subject } = *self;
        let CallExtras { param_headers, resumed } = extras;
        let progress = ProgressRelay::of(request).map(Arc::new);
        let deadline_timer = responder.deadline_timer();
        let rounds = CallRounds { gw, ctx, request, subject, progress, param_headers, reservation, deadline_timer };
        let result = rounds.run(resumed, recorder.call_id(), responder).await?;
        self.record_side_effects(rounds.progress.as_ref(), recorder, &result).await;
        Ok(result)
    }

    /// Stores the task ownership or resource subscription that results from a response.
    async fn record_side_effects(
        &self,
        progress: Option<&Arc<ProgressRelay>>,
        recorder: &CallRecorder,
        result: &AllowedCallResult,
    ) {
        let Self { gw, ctx, request, subject } = *self;
        let AllowedCallResult::Response { text, outcome, .. } = result else { return };
        if let RequestSubject::Tool { name, .. } = subject {
            let call = recorder.call_id();
            let progress = progress.map(|progress| (call.as_str(), Arc::clone(progress)));
            task_ownership::record_task_owner(gw, ctx, name, text, progress).await;
        }
        if *outcome == CallOutcome::Ok {
            resources_subscribe::store_subscription(gw, ctx, request, subject).await;
        }
    }

    /// Settles the reservation of a call without a response: releases the charges if nothing was sent.
    async fn settle(
        &self,
        reserved: CallReservation,
        error: UpstreamSendError,
        recorder: &mut CallRecorder,
    ) -> UnrecordedRefusal {
        let gw = self.gw;
        if !matches!(error, UpstreamSendError::NotSent(_)) {
            let outcome = error.outcome();
            if mutant!("refund-after-server-error") {
                let row = recorder.outcome_row(CallOutcome::NoValidResponse, None);
                let _ = gw.ledger.release(reserved.reservation, &row).await;
            }
            return UnrecordedRefusal { refusal: error.into(), unwritten: AbortRowKind::Outcome(outcome) };
        }
        let refusal = Refusal::Upstream(error);
        let mut record = recorder.failure_row(&refusal, CallOutcome::NotSent);
        record.at = gw.clock.now();
        // No byte was sent, so the charges are released; the same step writes the outcome row.
        let unwritten = match gw.ledger.release(reserved.reservation, &record).await {
            Ok(_) => AbortRowKind::Nothing,
            Err(_) => AbortRowKind::Outcome(CallOutcome::NotSent),
        };
        UnrecordedRefusal { refusal, unwritten }
    }

    /// Mutant of [`Self::reserve_charges`] for mutation tests: sends a call even though it exceeds its limits.
    async fn send_refused(&self, recorder: &mut CallRecorder, responder: &mut Responder) {
        let Ok(reserved) = reserve(self.gw, self.ctx, &AllowTerms::default(), recorder).await else { return };
        let extras = CallExtras { param_headers: None, resumed: None };
        let _ = self.forward(&reserved, extras, recorder, responder).await;
    }
}
