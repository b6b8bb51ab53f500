//! The spine: carries one judged request from what was asked to what is answered. Every way out is on the trail.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::head::Misfit;
use gatelodge_mcp::{Method, Request, code};
use gatelodge_policy::{Code, Decision, Reason, Terms, decide};
use gatelodge_store::{CallId, Mode, Outcome};
use http::StatusCode;

use super::offer::offer_for;
use super::{crossing, initialize, tasks};
use crate::Gateway;
use crate::call::{
    Bond, Ended, Errand, Facts, Paused, Permit, Progress, Refusal, Trail, answer, forward, go_on, mirrored, status_of,
    take, under_our_id,
};
use crate::http::line::Line;
use crate::http::reply;
use crate::session::UnderWay;
use crate::upstream::{Exchange, Offer, Outgoing, SendError};
use crate::visit::{Crossing, Visit};

/// How often an upstream may ask the client before it answers.
const MAX_ROUNDS: usize = 16;

/// What is left to do when the caller has its answer.
enum Carried {
    /// The upstream answered.
    Answered { status: StatusCode, text: Bytes, outcome: Outcome, exchange: Box<Exchange> },
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
    visit: &Visit,
    request: &Request<'_>,
    facts: &Facts<'_>,
    mut trail: Trail,
    mut line: Line,
) {
    trail.about(visit, facts.target(), facts.arguments());
    match walk(gw, visit, request, facts, &mut trail, &mut line).await {
        Ok(Carried::Answered { status, text, outcome, mut exchange }) => {
            gw.metrics.answered();
            line.finish_with(status, text).await;
            gw.write(trail.outcome(outcome, Some(exchange.status.as_u16()))).await;
            exchange.drain(gw).await;
        }
        Ok(Carried::Told { text } | Carried::InputRequired { result: text }) => {
            line.finish(text.into()).await;
            gw.write(trail.outcome(Outcome::Ok, None)).await;
        }
        Ok(Carried::Cancelled) => {
            line.hang_up();
            gw.write(trail.outcome(Outcome::Cancelled, None)).await;
        }
        Err(stop) => {
            let is_denied = matches!(stop.refusal, Refusal::Denied(_));
            stopped(gw, visit, request, facts, trail, line, stop).await;
            // What waits for answers that nobody may give any more, waits in vain.
            if is_denied && let Ok(Some(paused)) = resumed(gw, visit, request, facts) {
                gw.cancel(*paused);
            }
        }
    }
}

async fn stopped(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    facts: &Facts<'_>,
    mut trail: Trail,
    line: Line,
    stop: Stop,
) {
    gw.metrics.refused(stop.refusal.code());
    let (status, text) = reply::refusal(visit, facts, &line, (request.id(), trail.call()), &stop.refusal);
    line.finish_with(status, text.into()).await;
    match stop.left {
        Left::Refusal => gw.write(trail.refused(&stop.refusal)).await,
        Left::Outcome(outcome) => gw.write(trail.failed(&stop.refusal, outcome)).await,
        Left::Nothing => {}
    }
}

/// Ends a request to a server that cannot be spoken to at all. What the policy hides is hidden all the same.
pub(crate) async fn unreachable(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    facts: &Facts<'_>,
    refusal: Refusal,
    line: Line,
) {
    let mut trail = Trail::begin(visit, request, gw.new_call(), gw.clock.now());
    trail.about(visit, facts.target(), facts.arguments());
    let refusal = hidden(visit, facts, &trail).map_or_else(|| not_sent(refusal), Refusal::Denied);
    stopped(gw, visit, request, facts, trail, line, refusal.into()).await;
}

/// Why the policy does not show a tool, whatever its server says of it.
fn hidden(visit: &Visit, facts: &Facts<'_>, trail: &Trail) -> Option<Reason> {
    if visit.door.policy.as_ref().is_some_and(|policy| policy.policy.goes_by_category()) {
        return None;
    }
    match judged(visit, facts, None, trail) {
        Decision::Deny(reason) if visit.door.mode == Mode::Enforce => {
            matches!(reason.code, Code::Hidden | Code::NotListed | Code::NoPolicy).then_some(reason)
        }
        _ => None,
    }
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
    Outcome(Outcome),
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
    visit: &Visit,
    request: &Request<'_>,
    facts: &Facts<'_>,
    trail: &mut Trail,
    line: &mut Line,
) -> Result<Carried, Stop> {
    line.take_room(visit, request.method())?;
    crossing::carried(visit, request)?;
    initialize::reopen_if_over(gw, visit).await;
    let entry = visit.calls().and_then(|calls| calls.begin(request.id(), trail.call()));
    let _held = visit.far_session().map(|session| session.hold());
    let offer = offered(gw, visit, facts, trail, line).await?;
    let (fingerprint, category) = facts.definition(offer.as_deref());
    if facts.tool().is_some() {
        trail.definition(fingerprint, category);
    }
    let terms = judge(visit, facts, offer.as_deref(), trail)?;
    let params = mirrored(visit, facts, offer.as_deref())?;
    let resumed = judged_anew(gw, visit, request, facts, trail)?;
    // What goes on was paid for when it began.
    let terms = if resumed.is_some() { Terms::default() } else { terms };
    let taken = match take(gw, visit, &terms, trail).await {
        Err(refusal) if visit.door.mode == Mode::Observe && !matches!(refusal, Refusal::Store(_)) => {
            trail.observed(&refusal);
            take(gw, visit, &Terms::default(), trail).await
        }
        outcome => outcome,
    };
    let reserved = match (taken, resumed.as_ref()) {
        (Ok(reserved), _) => reserved,
        (Err(refusal), None) => return Err(refusal.into()),
        // Nobody can go on with it any more.
        (Err(refusal), Some(paused)) => {
            gw.tell_cancelled(&paused.upstream, &paused.session, paused.call).await;
            return Err(refusal.into());
        }
    };
    let about = facts.in_head(request.method());
    if let Some(text) = kept_here(visit, request, facts) {
        return Ok(Carried::Told { text });
    }
    let mut step = match resumed {
        Some(paused) => Step::GoOn(paused),
        None => {
            let outgoing = Outgoing { params: params.clone(), ..under_our_id(visit, request, trail.call(), about) };
            Step::Send(trail.call(), Box::new(Permit::of_reserved(&reserved, outgoing)))
        }
    };
    let under_way = entry.as_ref().map(|entry| entry.under_way.as_ref());
    let progress = Progress::of(request).map(Arc::new);
    let mut rounds = 0;
    let sent = loop {
        let is_first = rounds == 0 && matches!(step, Step::Send(..));
        let sent = send(gw, visit, (request, facts), (under_way, progress.as_deref()), step, line).await;
        let sent = if is_first { sent } else { sent.map_err(SendError::behind_a_call) };
        let Ok(Carried::InputRequired { result }) = sent else { break sent };
        rounds += 1;
        if rounds > MAX_ROUNDS {
            break Err(SendError::Unusable("the server asks the client again and again".to_owned()));
        }
        let asking = super::input::ask_client(gw, visit, under_way, &result, line);
        let unanswered = || Err(SendError::Unusable("the client did not answer what the server asked".to_owned()));
        let next = tokio::time::timeout(gw.settings.answer_time, asking).await.unwrap_or_else(|_| unanswered());
        // The client may think for minutes. What was judged before holds only if nothing has changed.
        if !gw.is_in_force(visit) {
            let what = "the grant, its policy or the server changed while the client was asked";
            break Err(SendError::Unusable(what.to_owned()));
        }
        let call = gw.new_call();
        let next = next.map(|answers| super::input::again(visit, request, call, about, &answers?));
        match next {
            Ok(Some(outgoing)) => {
                let outgoing = Outgoing { params: params.clone(), ..outgoing };
                step = Step::Send(call, Box::new(Permit::of_reserved(&reserved, outgoing)));
            }
            Ok(None) => break Ok(Carried::Cancelled),
            Err(fault) => break Err(fault),
        }
    };
    match sent {
        Ok(carried) => {
            note_task(gw, visit, progress, facts, trail, &carried).await;
            Ok(carried)
        }
        Err(SendError::NotSent(why)) => {
            let refusal = Refusal::Upstream(SendError::NotSent(why));
            let mut record = trail.failed(&refusal, Outcome::NotSent);
            record.at = gw.clock.now();
            // Not one byte was written, so what was taken is given back; the row rides with it.
            let released = gw.ledger.release(reserved.reservation, record).await;
            Err(Stop { refusal, left: if released.is_ok() { Left::Nothing } else { Left::Outcome(Outcome::NotSent) } })
        }
        Err(fault) => {
            let outcome = fault.outcome();
            Err(Stop { refusal: fault.into(), left: Left::Outcome(outcome) })
        }
    }
}

/// Notes whose a task is, before the caller knows of it.
async fn note_task(
    gw: &Gateway,
    visit: &Visit,
    progress: Option<Arc<Progress>>,
    facts: &Facts<'_>,
    trail: &Trail,
    carried: &Carried,
) {
    if let (Facts::Tool { name, .. }, Carried::Answered { text, .. }) = (facts, carried) {
        let call = trail.call();
        tasks::note(gw, visit, name, text, progress.map(|progress| (call.as_str(), progress))).await;
    }
}

/// What the server offers, for tools. A tool that the policy does not show, whatever it can do, is refused without
/// asking the server.
async fn offered(
    gw: &Gateway,
    visit: &Visit,
    facts: &Facts<'_>,
    trail: &Trail,
    line: &mut Line,
) -> Result<Option<Arc<Offer>>, Refusal> {
    let Some(name) = facts.tool() else { return Ok(None) };
    let is_known = visit.offers().current().is_some_and(|offer| offer.tool(name).is_some());
    if !is_known && let Some(reason) = hidden(visit, facts, trail) {
        return Err(Refusal::Denied(reason));
    }
    offer_for(gw, visit, name, line).await.map(Some).map_err(not_sent)
}

/// What went wrong before the call was sent.
fn not_sent(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Upstream(SendError::NotSent(why)) => Refusal::Upstream(SendError::NotSent(why)),
        Refusal::Upstream(fault) => Refusal::Unlisted(fault),
        other => other,
    }
}

/// The terms of the policy, or its reason to refuse.
fn judge(visit: &Visit, facts: &Facts<'_>, offer: Option<&Offer>, trail: &mut Trail) -> Result<Terms, Refusal> {
    match judged(visit, facts, offer, trail) {
        Decision::Allow(terms) => {
            trail.allowed(terms.rule.as_ref());
            Ok(terms)
        }
        Decision::Deny(reason) => {
            let refusal = Refusal::Denied(reason);
            if visit.door.mode == Mode::Enforce {
                return Err(refusal);
            }
            trail.observed(&refusal);
            Ok(Terms::default())
        }
    }
}

fn judged(visit: &Visit, facts: &Facts<'_>, offer: Option<&Offer>, trail: &Trail) -> Decision {
    match &visit.door.policy {
        Some(policy) => decide(&policy.policy, &facts.call(visit, offer), trail.at()),
        None => Decision::Deny(Reason::no_policy()),
    }
}

/// How a request gets to the upstream.
enum Step {
    /// It is sent, under this id.
    Send(CallId, Box<Permit>),
    /// It was sent, and goes on with what the client says.
    GoOn(Box<Paused>),
}

/// The answer to what an upstream without sessions cannot keep: which resources the client wants to hear of.
fn kept_here(visit: &Visit, request: &Request<'_>, facts: &Facts<'_>) -> Option<String> {
    let session = visit.session().filter(|session| session.is_far_stateless())?;
    let uri = facts.target().unwrap_or_default();
    match request.method() {
        Method::ResourcesSubscribe if !session.watched.add(uri) => {
            let what = "the session listens for too many resources";
            return Some(gatelodge_mcp::error(Some(request.id()), code::INVALID_PARAMS, what, None));
        }
        Method::ResourcesSubscribe => {}
        Method::ResourcesUnsubscribe => session.watched.remove(uri),
        _ => return None,
    }
    Some(gatelodge_mcp::result(request.id(), "{}"))
}

/// The call that a request goes on with; none for one that begins.
fn resumed(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    facts: &Facts<'_>,
) -> Result<Option<Box<Paused>>, Refusal> {
    let state = request.params().and_then(|params| params.get("requestState"));
    // An upstream that takes requests which stand alone gave its own state, and knows it.
    let Some(state) = state.filter(|_| visit.crossing() == Crossing::ToSession) else { return Ok(None) };
    let state = state.as_str().unwrap_or_default();
    let paused = gw.paused.take(&state, &Bond::of(visit, request, facts));
    paused.map(|paused| Some(Box::new(paused))).ok_or_else(|| {
        let what = "the request state is not of this request, was used, or is too old; send the request without it";
        Refusal::Misfit(Misfit::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, what))
    })
}

/// The same, if the policy in force lets its client answer. Else nobody goes on with it.
fn judged_anew(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    facts: &Facts<'_>,
    trail: &mut Trail,
) -> Result<Option<Box<Paused>>, Refusal> {
    let resumed = resumed(gw, visit, request, facts)?;
    if let Err(refusal) = super::input::judge_answers(gw, visit, request, resumed.as_deref(), trail) {
        resumed.into_iter().for_each(|paused| gw.cancel(*paused));
        return Err(refusal);
    }
    Ok(resumed)
}

async fn send(
    gw: &Gateway,
    visit: &Visit,
    (request, facts): (&Request<'_>, &Facts<'_>),
    (under_way, progress): (Option<&UnderWay>, Option<&Progress>),
    step: Step,
    line: &mut Line,
) -> Result<Carried, SendError> {
    let call = match &step {
        Step::Send(call, _) => *call,
        Step::GoOn(paused) => paused.call,
    };
    let may_pause = matches!(request.method(), Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead);
    let errand = Errand { gw, visit, call, progress, under_way, is_only_asking: false, is_callers: true, may_pause };
    let brings_answers = matches!(step, Step::Send(..)) && super::input::brings_answers(request);
    let sending = async {
        let ended = match step {
            Step::Send(_, permit) => forward(&errand, *permit, line).await?,
            Step::GoOn(paused) => match super::input::answered(gw, visit, request, *paused).await? {
                Ok(exchange) => go_on(&errand, exchange, line).await?,
                Err(text) => return Ok(Carried::Told { text }),
            },
        };
        let unasked = || SendError::Unusable("the client cannot be asked".to_owned());
        let paused = |asked: &[Bytes], exchange| {
            super::input::paused(&errand, asked, exchange, Bond::of(visit, request, facts)).ok_or_else(unasked)
        };
        // What the client says before it is asked holds for the first questions, and not for those behind them.
        let ended = match ended {
            (Ended::Asked(asked), Some(exchange)) if brings_answers => {
                let told = super::input::answered(gw, visit, request, paused(&asked, exchange)?).await;
                match told.map_err(SendError::behind_a_call)? {
                    Ok(exchange) => go_on(&errand, exchange, line).await?,
                    Err(text) => return Ok(Carried::Told { text }),
                }
            }
            ended => ended,
        };
        match ended {
            (Ended::Asked(asked), Some(exchange)) => {
                let text = gw.paused.keep(paused(&asked, exchange)?, gw.settings.answer_time).map_err(|_| unasked())?;
                Ok(Carried::Told { text: gatelodge_mcp::result(request.id(), &text) })
            }
            (Ended::Answer(message), Some(_))
                if let Some(result) = super::input::wanted(visit, &message, &gw.settings.reply) =>
            {
                Ok(Carried::InputRequired { result })
            }
            (Ended::Answer(message), Some(_)) if !super::input::may_all_be_asked(gw, visit, &message).await => {
                Err(SendError::Unusable("the server asks what the client is not asked".to_owned()))
            }
            (Ended::Answer(message), Some(exchange)) => {
                if may_pause && let Some(text) = super::input::pages(gw, visit, &message).await {
                    return Ok(Carried::Told { text: gatelodge_mcp::result(request.id(), &text) });
                }
                let (text, outcome) = answer(visit, &message, request.id(), &gw.settings.reply)
                    .ok_or_else(|| SendError::Unusable("the answer cannot be read".to_owned()))?;
                let status = status_of(visit.era(), &message, call, exchange.status, &gw.settings.reply);
                Ok(Carried::Answered { status, text, outcome, exchange: Box::new(exchange) })
            }
            _ => {
                super::input::hung_up(gw, visit, call).await;
                Ok(Carried::Cancelled)
            }
        }
    };
    tokio::time::timeout(gw.settings.call_time, sending).await.unwrap_or(Err(SendError::Timeout))
}
