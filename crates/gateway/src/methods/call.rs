//! The spine: carries one judged request from what was asked to what is answered. Every way out is on the trail.

mod journey;
mod judge;

use std::sync::Arc;

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, code};
use gatelodge_mutants::mutant;
use gatelodge_policy::Terms;
use gatelodge_store::{CallOutcome, EnforcementMode};
use http::StatusCode;

use self::journey::Journey;
use self::judge::{denied_anyway, hidden, judge, not_sent, offered};
use super::{crossing, initialize, pool, subscribe, tasks};
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
enum Carried {
    /// The upstream answered.
    Answered { status: StatusCode, text: MessageBody, outcome: CallOutcome, exchange: Box<UpstreamResponse> },
    /// The answer is ours: the client is asked something, or what it wants is kept here.
    Told { text: String },
    /// The upstream answered that it wants something of the client first.
    InputRequired { result: String },
    /// The caller cancelled after the request was sent.
    Cancelled,
}

/// Carries a request whose subject the policy speaks of.
pub(crate) async fn carry(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    facts: &RequestSubject<'_>,
    mut trail: CallRecorder,
    mut line: Responder,
) {
    trail.set_subject(visit, facts.target(), facts.arguments());
    if !mutant!("unsubscribe-depends-on-policy") || denied_anyway(visit, facts, &trail).is_none() {
        subscribe::ended(gw, visit, request, facts).await;
    }
    match walk(gw, visit, request, facts, &mut trail, &mut line).await {
        Ok(Carried::Answered { status, text, outcome, mut exchange }) => {
            gw.metrics.count_answered_call();
            line.finish_with_body(status, text).await;
            gw.write_row(trail.outcome_row(outcome, Some(exchange.status.as_u16()))).await;
            exchange.drain(gw).await;
        }
        Ok(Carried::Told { text } | Carried::InputRequired { result: text }) => {
            line.finish(text.into()).await;
            gw.write_row(trail.outcome_row(CallOutcome::Ok, None)).await;
        }
        Ok(Carried::Cancelled) => {
            line.hang_up();
            gw.write_row(trail.outcome_row(CallOutcome::Cancelled, None)).await;
        }
        Err(stop) => {
            let is_denied = matches!(stop.refusal, Refusal::Denied(_));
            Box::pin(stopped(gw, visit, request, facts, trail, line, stop)).await;
            // What waits for answers that nobody may give any more, waits in vain.
            if is_denied && let Ok(Some(paused)) = resumed(gw, visit, request, facts) {
                gw.cancel(*paused);
            }
        }
    }
}

async fn stopped(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    facts: &RequestSubject<'_>,
    mut trail: CallRecorder,
    line: Responder,
    stop: Stop,
) {
    if matches!(stop.refusal, Refusal::Upstream(SendError::ClientGone)) {
        line.hang_up();
        return gw.write_row(trail.cancelled_row()).await;
    }
    gw.metrics.count_refusal(stop.refusal.code());
    let (status, text) = reply::refusal_reply(visit, facts, &line, (request.id(), trail.call_id()), &stop.refusal);
    line.finish_with_status(status, text.into()).await;
    match stop.left {
        Left::Refusal => gw.write_row(trail.refusal_row(&stop.refusal)).await,
        Left::Outcome(outcome) => gw.write_row(trail.failure_row(&stop.refusal, outcome)).await,
        Left::Nothing => {}
    }
}

/// Ends a request to a server that cannot be spoken to at all. What the policy hides is hidden all the same.
pub(crate) async fn unreachable(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    facts: &RequestSubject<'_>,
    refusal: Refusal,
    line: Responder,
) {
    let mut trail = CallRecorder::start(visit, request, gw.new_call_id(), gw.clock.now());
    trail.set_subject(visit, facts.target(), facts.arguments());
    if !mutant!("unsubscribe-depends-on-server") {
        subscribe::ended(gw, visit, request, facts).await;
    }
    let refusal = match refusal {
        Refusal::Upstream(SendError::ClientGone) => refusal,
        _ => hidden(visit, facts, &trail).map_or_else(|| not_sent(refusal), Refusal::Denied),
    };
    stopped(gw, visit, request, facts, trail, line, refusal.into()).await;
}

/// Why the road ended early.
struct Stop {
    refusal: Refusal,
    left: Left,
}

/// What is left to be written of a call that got no answer.
enum Left {
    /// That it was refused.
    Refusal,
    /// How it ended; the intent is written.
    Outcome(CallOutcome),
    /// Nothing; the end was written with what was given back.
    Nothing,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, left: Left::Refusal }
    }
}

async fn walk(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    facts: &RequestSubject<'_>,
    trail: &mut CallRecorder,
    line: &mut Responder,
) -> Result<Carried, Stop> {
    let back = back(gw, visit, request, facts, line);
    line.acquire_in_flight(visit, request.method())?;
    crossing::carried(visit, request)?;
    let apart = match back {
        None if state_of(visit, request).is_none() && pool::has_turns(visit, request) => {
            // Nobody gives way, and no process is started, for what the policy refuses. What its own session offers is
            // judged again below; only that takes from limits.
            if let Some(reason) = denied_anyway(visit, facts, trail) {
                return Err(Refusal::Denied(reason).into());
            }
            Some(Box::pin(apart(gw, visit, request, trail, line)).await?)
        }
        back => back,
    };
    let visit = apart.as_ref().unwrap_or(visit);
    initialize::reopen_if_over(gw, visit).await;
    let _held = visit.upstream_session().map(|session| session.mark_in_use());
    let offer = offered(gw, visit, facts, trail, line).await?;
    let (fingerprint, category) = facts.definition(offer.as_deref());
    if facts.tool().is_some() {
        trail.set_definition(fingerprint, category);
    }
    let terms = judge(visit, facts, offer.as_deref(), trail)?;
    subscribe::has_room(visit, request, facts)?;
    let params = upstream_param_headers(visit, facts, offer.as_deref())?;
    let resumed = judged_anew(gw, visit, request, facts, trail)?;
    let reserved = match paid(gw, visit, terms, resumed.is_some(), trail).await {
        Ok(reserved) => reserved,
        Err(refusal) => {
            if mutant!("refused-call-still-sent") {
                Box::pin(send_refused(gw, visit, request, facts, trail, line)).await;
            }
            // Nobody can go on with it any more.
            resumed.into_iter().for_each(|paused| gw.cancel(*paused));
            return Err(refusal.into());
        }
    };
    if let Some(text) = subscribe::kept_here(gw, visit, request, facts).await {
        return Ok(Carried::Told { text });
    }
    let journey = Journey {
        gw,
        visit,
        request,
        facts,
        progress: ProgressRelay::of(request).map(Arc::new),
        params,
        reserved: &reserved,
        alarm: line.deadline_timer(),
    };
    match journey.go(resumed, trail.call_id(), line).await {
        Ok(carried) => {
            note(gw, visit, request, &journey, trail, &carried).await;
            Ok(carried)
        }
        Err(SendError::NotSent(why)) => {
            let refusal = Refusal::Upstream(SendError::NotSent(why));
            let mut record = trail.failure_row(&refusal, CallOutcome::NotSent);
            record.at = gw.clock.now();
            // Not one byte was written, so what was taken is given back; the row rides with it.
            let released = gw.ledger.release(reserved.reservation, &record).await;
            Err(Stop {
                refusal,
                left: if released.is_ok() { Left::Nothing } else { Left::Outcome(CallOutcome::NotSent) },
            })
        }
        Err(fault) => {
            let outcome = fault.outcome();
            if mutant!("refund-after-server-error") {
                let _ = gw
                    .ledger
                    .release(reserved.reservation, &trail.outcome_row(CallOutcome::ConnectionLost, None))
                    .await;
            }
            Err(Stop { refusal: fault.into(), left: Left::Outcome(outcome) })
        }
    }
}

/// Mutant of [`walk`]: sends a call that its limits refuse.
async fn send_refused(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    facts: &RequestSubject<'_>,
    trail: &mut CallRecorder,
    line: &mut Responder,
) {
    let Ok(reserved) = reserve(gw, visit, &Terms::default(), trail).await else { return };
    let (progress, params, alarm) = (None, None, line.deadline_timer());
    let journey = Journey { gw, visit, request, facts, progress, params, reserved: &reserved, alarm };
    let _ = journey.go(None, trail.call_id(), line).await;
}

/// The visit by the session in which a call waits with which the request goes on, in that call's place in flight.
fn back(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    facts: &RequestSubject<'_>,
    line: &mut Responder,
) -> Option<RequestContext> {
    let back = gw.suspended_calls.back(&state_of(visit, request)?, &Bond::of(visit, request, facts))?;
    if let Some(room) = back.room {
        line.hold_in_flight_guard(room);
    }
    Some(visit.by(back.session, back.turn))
}

/// What is written of a call whose caller did not wait for its turn.
const LEFT: &str = "the caller left before it was the call's turn; the call was not sent";

/// The visit by a session that the call has to itself.
async fn apart(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    trail: &CallRecorder,
    line: &mut Responder,
) -> Result<RequestContext, Refusal> {
    let errand = ForwardContext {
        gw,
        ctx: visit,
        call: trail.call_id(),
        progress: None,
        cancels_on_disconnect: false,
        is_client_request: true,
        can_suspend: false,
        previous_response: None,
        deadline_timer: None,
    };
    match wait_or_cancel(&errand, line, std::pin::pin!(pool::apart(gw, visit, request))).await {
        Some(apart) => apart,
        None if abandoned_outcome(gw).is_err() => Err(SendError::NotSent("the gateway was stopped".to_owned()).into()),
        None => Err(Refusal::CapacityReached(LEFT)),
    }
}

/// What a client brings back that was asked in the middle of a call.
fn state_of(visit: &RequestContext, request: &ClientRequest<'_>) -> Option<String> {
    // An upstream that takes requests which stand alone gave its own state, and knows it.
    if visit.translation() != ProtocolTranslation::ToStateful {
        return None;
    }
    Some(request.params()?.get("requestState")?.as_str().unwrap_or_default().into_owned())
}

/// Takes what a call costs. Who only observes is kept from nothing by a limit, and what goes on was paid for when it began.
async fn paid(
    gw: &Gateway,
    visit: &RequestContext,
    terms: Terms,
    goes_on: bool,
    trail: &mut CallRecorder,
) -> Result<CallReservation, Refusal> {
    let terms = if goes_on { Terms::default() } else { terms };
    match reserve(gw, visit, &terms, trail).await {
        Err(refusal)
            if visit.server_access.mode == EnforcementMode::Observe && !matches!(refusal, Refusal::Store(_)) =>
        {
            trail.record_observed_denial(&refusal);
            reserve(gw, visit, &Terms::default(), trail).await
        }
        outcome => outcome,
    }
}

/// Notes what an answer means for later, before the caller knows of it: whose a task is, and what its session listens for.
async fn note(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    journey: &Journey<'_>,
    trail: &CallRecorder,
    carried: &Carried,
) {
    let Carried::Answered { text, outcome, .. } = carried else { return };
    if let RequestSubject::Tool { name, .. } = journey.facts {
        let call = trail.call_id();
        let progress = journey.progress.clone().map(|progress| (call.as_str(), progress));
        tasks::note(gw, visit, name, text, progress).await;
    }
    if *outcome == CallOutcome::Ok {
        subscribe::begun(gw, visit, request, journey.facts).await;
    }
}

/// The call that a request goes on with; none for one that begins.
fn resumed(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    facts: &RequestSubject<'_>,
) -> Result<Option<Box<Paused>>, Refusal> {
    let Some(state) = state_of(visit, request) else { return Ok(None) };
    let paused = gw.suspended_calls.take(&state, &Bond::of(visit, request, facts));
    paused.map(|paused| Some(Box::new(paused))).ok_or_else(|| {
        let what = "the request state is not of this request, was used, is too old, or its call made room for another; \
            send the request without it";
        Refusal::Protocol(ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, what))
    })
}

/// The same, if the policy in force lets its client answer. Else nobody goes on with it.
fn judged_anew(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    facts: &RequestSubject<'_>,
    trail: &mut CallRecorder,
) -> Result<Option<Box<Paused>>, Refusal> {
    let resumed = resumed(gw, visit, request, facts)?;
    if let Err(refusal) = super::input::judge_answers(gw, visit, request, resumed.as_deref(), trail) {
        resumed.into_iter().for_each(|paused| gw.cancel(*paused));
        return Err(refusal);
    }
    Ok(resumed)
}
