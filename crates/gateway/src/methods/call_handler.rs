//! The pipeline of one call: evaluates the policy, reserves the charges, forwards the call and responds. Every exit
//! path writes a record.
//!
//! Every call and every subscription to a resource goes through [`run_pipeline`]. What concerns few calls has files of its
//! own: a session for one call (`call_session`), a call that continues after client input (`resumed_call`), a tool listing
//! that is not fresh (`tool_listing`), and a call that ends without a response (`unrecorded_refusal`).

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
use self::call_session::prepare_call_session;
use self::resumed_call::{cancel_if_some, recheck_suspended};
use self::tool_listing::fetch_tool_listing;
use self::unrecorded_refusal::{finish_refused, settle};
use super::resources_subscribe::{check_subscription_limit, local_subscription_reply};
use crate::body::MessageBody;
use crate::call_recorder::CallRecorder;
use crate::pipeline::authorize::{authorize, find_fresh_listing};
use crate::pipeline::{CallReservation, reserve};
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::{ProgressRelay, SessionUseGuard};
use crate::suspended_calls::SuspendedCall;
use crate::upstream::{ToolListing, UpstreamResponse};
use crate::upstream_session::handshake;

pub(super) use self::unrecorded_refusal::UnrecordedRefusal;
pub(crate) use self::unrecorded_refusal::{handle_unreachable, refuse};

/// Result of a call that was not refused.
pub(super) enum AllowedCallResult {
    /// The upstream responded.
    Response { status: StatusCode, text: MessageBody, outcome: CallOutcome, exchange: Box<UpstreamResponse> },
    /// The gateway responds itself: it asks the client for input, or handles the request locally.
    LocalReply { text: String },
    /// The client cancelled after the request was sent.
    Cancelled,
}

/// A call that is subject to the policy.
#[derive(Clone, Copy)]
pub(crate) struct PolicyCall<'a> {
    pub gw: &'a GatewayServices,
    pub ctx: &'a RequestContext,
    pub request: &'a ClientRequest<'a>,
    pub subject: &'a RequestSubject<'a>,
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
    let call = PolicyCall { gw, ctx, request, subject };
    let ended = run(call, &mut recorder, &mut responder).await;
    finish(call, recorder, responder, ended).await;
}

/// Runs the pipeline in the session of the call, which is held until the upstream has responded.
async fn run(
    call: PolicyCall<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) -> Result<AllowedCallResult, UnrecordedRefusal> {
    let call_ctx = if call.ctx.passes_server_requests_in_response() {
        Box::pin(prepare_call_session(call, recorder, responder)).await?
    } else {
        None
    };
    let call = PolicyCall { ctx: call_ctx.as_ref().unwrap_or(call.ctx), ..call };
    let _held = call.hold_session(responder).await?;
    run_pipeline(call, recorder, responder).await
}

/// Carries a call from the evaluation of the policy to the response of its server.
pub(super) async fn run_pipeline(
    call: PolicyCall<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) -> Result<AllowedCallResult, UnrecordedRefusal> {
    let PolicyCall { ctx, subject, .. } = call;
    let listing = call.load_tool_listing(recorder, responder).await?;
    let terms = authorize(ctx, subject, listing.as_deref(), recorder)?;
    let param_headers = ctx.param_headers(subject, listing.as_deref())?;
    check_subscription_limit(call)?;
    let resumed = recheck_suspended(call, recorder)?;
    // Charges and intent: one durable step. Terms that ask for a person are refused here until approvals exist.
    let (reservation, resumed) = call.reserve_or_cancel(terms, resumed, recorder, responder).await?;
    match local_subscription_reply(call) {
        Some(text) => Ok(AllowedCallResult::LocalReply { text }),
        None => call.send(reservation, param_headers, resumed, recorder, responder).await,
    }
}

/// Replies to a call, and writes its last row.
pub(super) async fn finish(
    call: PolicyCall<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
    ended: Result<AllowedCallResult, UnrecordedRefusal>,
) {
    let gw = call.gw;
    match ended {
        Ok(AllowedCallResult::Response { status, text, outcome, mut exchange }) => {
            gw.metrics.count_answered_call();
            responder.finish_with_body(status, text).await;
            gw.write_row(recorder.outcome_row(outcome, Some(exchange.status.as_u16()))).await;
            exchange.drain(&gw.metrics).await;
        }
        Ok(AllowedCallResult::LocalReply { text }) => {
            responder.finish(text.into()).await;
            gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
        }
        Ok(AllowedCallResult::Cancelled) => {
            responder.hang_up();
            gw.write_row(recorder.outcome_row(CallOutcome::Cancelled, None)).await;
        }
        Err(abort) => Box::pin(finish_refused(call, recorder, responder, abort)).await,
    }
}

impl PolicyCall<'_> {
    /// Acquires a slot for the call, reopens its upstream session if that has ended, and marks the session as in use
    /// until the guard is dropped.
    pub(super) async fn hold_session(&self, responder: &mut Responder) -> Result<Option<SessionUseGuard>, Refusal> {
        responder.acquire_in_flight(self.ctx, self.request.method())?;
        handshake::reopen_if_closed(self.gw, self.ctx).await;
        Ok(self.ctx.upstream_session().map(|session| session.mark_in_use()))
    }

    /// Returns the tool listing for a tool call, and records the definition in it.
    async fn load_tool_listing(
        &self,
        recorder: &mut CallRecorder,
        responder: &mut Responder,
    ) -> Result<Option<Arc<ToolListing>>, Refusal> {
        let Self { gw, ctx, subject, .. } = *self;
        let Some(name) = subject.tool() else { return Ok(None) };
        let listing = match find_fresh_listing(ctx, name) {
            Some(listing) => listing,
            None => Box::pin(fetch_tool_listing(gw, ctx, subject, name, (recorder, responder))).await?,
        };
        let (fingerprint, category) = subject.definition(Some(&listing));
        recorder.set_definition(fingerprint, category);
        Ok(Some(listing))
    }

    /// Reserves the charges for the call. If that fails, the suspended call that it resumes is cancelled.
    async fn reserve_or_cancel(
        &self,
        terms: AllowTerms,
        resumed: Option<Box<SuspendedCall>>,
        recorder: &mut CallRecorder,
        responder: &mut Responder,
    ) -> Result<(CallReservation, Option<Box<SuspendedCall>>), Refusal> {
        match self.reserve_charges(terms, resumed.is_some(), recorder).await {
            Ok(reservation) => Ok((reservation, resumed)),
            Err(refusal) => {
                if mutant!("refused-call-still-sent") {
                    Box::pin(self.send_refused(recorder, responder)).await;
                }
                cancel_if_some(self.gw, resumed);
                Err(refusal)
            }
        }
    }

    /// Reserves the charges for the call. In observe mode, a call that exceeds its limits is recorded but not refused.
    /// A resumed call is not charged again.
    async fn reserve_charges(
        &self,
        terms: AllowTerms,
        is_resumed: bool,
        recorder: &mut CallRecorder,
    ) -> Result<CallReservation, Refusal> {
        let Self { gw, ctx, .. } = *self;
        let terms = if is_resumed { AllowTerms::default() } else { terms };
        match reserve(gw, ctx, &terms, recorder).await {
            Err(refusal)
                if ctx.server_access.mode == EnforcementMode::Observe && !matches!(refusal, Refusal::Store(_)) =>
            {
                recorder.record_observed_denial(&refusal);
                reserve(gw, ctx, &AllowTerms::default(), recorder).await
            }
            outcome => outcome,
        }
    }

    /// Sends the call, and settles its reservation if there is no response. Sending consumes a permit, which only the
    /// reservation gives.
    async fn send(
        &self,
        reservation: CallReservation,
        param_headers: Option<Box<HeaderMap>>,
        resumed: Option<Box<SuspendedCall>>,
        recorder: &mut CallRecorder,
        responder: &mut Responder,
    ) -> Result<AllowedCallResult, UnrecordedRefusal> {
        let Self { gw, ctx, request, subject } = *self;
        let rounds = CallRounds {
            gw,
            ctx,
            request,
            subject,
            progress: ProgressRelay::of(request).map(Arc::new),
            param_headers,
            reservation: &reservation,
            deadline_timer: responder.deadline_timer(),
        };
        match rounds.run(resumed, recorder.call_id(), responder).await {
            Ok(result) => Ok(result),
            Err(error) => Err(settle(gw, reservation, error, recorder).await),
        }
    }

    /// Mutant of [`run_pipeline`] for mutation tests: sends a call even though it exceeds its limits.
    async fn send_refused(&self, recorder: &mut CallRecorder, responder: &mut Responder) {
        let Ok(reserved) = reserve(self.gw, self.ctx, &AllowTerms::default(), recorder).await else { return };
        let _ = self.send(reserved, None, None, recorder, responder).await;
    }
}
