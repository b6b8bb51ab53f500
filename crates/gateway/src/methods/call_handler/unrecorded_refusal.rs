//! What happens after a call ended without a response: its reply and its last row.

use gatelodge_mcp::ClientRequest;
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;

use super::PolicyCall;
use super::resumed_call::settle_suspended;
use super::tool_listing::as_unsent_refusal;
use crate::call_recorder::CallRecorder;
use crate::methods::resources_subscribe;
use crate::pipeline::CallReservation;
use crate::pipeline::authorize::hidden_reason;
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream::UpstreamSendError;

/// Why the pipeline ended early.
pub(in crate::methods) struct UnrecordedRefusal {
    pub refusal: Refusal,
    pub unwritten: AbortRowKind,
}

/// The row that still has to be written for a call without a response.
pub(in crate::methods) enum AbortRowKind {
    /// The refusal row.
    Refusal,
    /// The outcome row; the intent row has already been written.
    Outcome(CallOutcome),
    /// No row is left to write: `Ledger::release` wrote the outcome together with the refund.
    Nothing,
}

impl From<Refusal> for UnrecordedRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, unwritten: AbortRowKind::Refusal }
    }
}

/// Settles the reservation of a call without a response: releases the charges if nothing was sent.
pub(super) async fn settle(
    gw: &GatewayServices,
    reserved: CallReservation,
    error: UpstreamSendError,
    recorder: &mut CallRecorder,
) -> UnrecordedRefusal {
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

/// Replies to a refused call and writes its row.
pub(super) async fn finish_refused(
    call: PolicyCall<'_>,
    recorder: CallRecorder,
    mut responder: Responder,
    abort: UnrecordedRefusal,
) {
    let PolicyCall { gw, ctx, request, subject } = call;
    settle_suspended(call, &abort.refusal, &mut responder);
    finish_aborted(gw, ctx, request, subject, recorder, responder, abort).await;
}

/// Replies to a call that got no response, and writes the row that is left.
async fn finish_aborted(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
    abort: UnrecordedRefusal,
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

/// Refuses a request before it is evaluated.
pub(crate) async fn refuse(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
    refusal: Refusal,
) {
    recorder.set_subject(ctx, subject.target(), subject.arguments());
    finish_aborted(gw, ctx, request, subject, recorder, responder, refusal.into()).await;
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
