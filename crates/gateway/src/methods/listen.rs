//! `subscriptions/listen`: a stateless client's stream of notifications, filtered by what it may see.

mod session;

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{Limits, Value, read};
use gatelodge_mcp::{Id, Method, Request, Upstream as Said, code, error, read_upstream, result};
use gatelodge_store::{CallId, Outcome};
use http::StatusCode;

use super::pass::fail;
use super::server::{MayHear, may_hear_of, unaddressed};
use super::stream::LOOK;
use super::tasks::{self, not_to_hear};
use crate::Gateway;
use crate::call::{Facts, Permit, Refusal, Trail, answer, status_of};
use crate::http::line::Line;
use crate::http::reply;
use crate::lists::{Lists, SUBSCRIPTION, changed_for};
use crate::now::Now;
use crate::session::{UnderWay, cancelled};
use crate::telemetry::ClientSpan;
use crate::upstream::{Exchange, Outgoing, SendError};
use crate::visit::{Crossing, Visit};

/// How a stream ends.
enum End {
    /// With the server's answer, as the caller gets it.
    Answered(StatusCode, Bytes, Outcome),
    /// The client wants to hear nothing more.
    Unwanted,
    /// The server has no more to say, or we do not pass it on any more.
    Over,
}

/// Holds the stream open until either side ends it.
pub(crate) async fn listen(gw: &Gateway, visit: &Visit, request: &Request<'_>, mut trail: Trail, mut line: Line) {
    let heard = match may_listen(gw, visit, request) {
        Ok(heard) => heard,
        Err((uri, refusal)) => return refused(gw, visit, request, trail, line, (uri, refusal)).await,
    };
    let entry = visit.calls().and_then(|calls| calls.begin(request.id(), trail.call()));
    let under_way = entry.as_ref().map(|entry| entry.under_way.as_ref());
    if visit.crossing() == Crossing::ToSession {
        let end = session::listen(gw, visit, (request, under_way), heard, &mut line).await;
        return ended(gw, visit, request, trail, line, end).await;
    }
    let unheard = match not_to_hear(gw, visit, request, &mut line).await {
        Ok(unheard) => unheard,
        Err(fault) => return tasks::refuse(gw, request, trail, line, &Refusal::Store(fault)).await,
    };
    if let Some(task) = unheard {
        gw.metrics.refused(Refusal::Unaddressed.code());
        trail.about(visit, Some(&task), None);
        let facts = line.as_known(&Facts::Task { id: task.into(), tool: String::new() });
        line.finish(reply::not_there(visit.era(), &facts, request.id()).into()).await;
        return gw.write(trail.refused(&Refusal::Unaddressed)).await;
    }
    let method = request.method().name();
    let hop = visit.hop(method, None);
    let text = request.paged(&Id::string(trail.call().as_str()), None, hop.as_ref().map(|hop| &hop.own));
    let outgoing = visit.addressed_about(Outgoing::request(text, trail.call()), method, None).within(hop);
    let end = match Permit::of_always_allowed(method, outgoing) {
        Some(permit) => {
            let span = ClientSpan::begin(visit, permit.hop(), trail.call(), gw.clock.now());
            let end = opened(gw, visit, (request, under_way), (trail.call(), permit), &mut line).await;
            if let Some(span) = span {
                span.end_stream(end.as_ref().err());
            }
            end
        }
        None => Err(SendError::NotSent("the method has to be judged".to_owned())),
    };
    match end {
        Ok(end) => ended(gw, visit, request, trail, line, end).await,
        Err(fault) => fail(gw, request.id(), &mut trail, fault, line).await,
    }
}

async fn ended(gw: &Gateway, visit: &Visit, request: &Request<'_>, mut trail: Trail, line: Line, end: End) {
    let outcome = match end {
        End::Answered(status, text, outcome) => {
            line.finish_with(status, text).await;
            outcome
        }
        End::Unwanted => {
            line.hang_up();
            Outcome::Ok
        }
        End::Over => {
            line.close(last_word(gw, visit, request.id())).await;
            Outcome::Ok
        }
    };
    gw.write(trail.outcome(outcome, None)).await;
}

/// What a client is told that has to listen anew, or may not.
fn last_word(gw: &Gateway, visit: &Visit, id: &Id<'_>) -> String {
    match gw.now(visit) {
        Now::Over => {
            let what = "the grant, or its way to the server, is not in force any more";
            error(Some(id), code::INVALID_REQUEST, what, None)
        }
        Now::Same | Now::Other(_) => {
            result(id, &format!(r#"{{"resultType":"complete","_meta":{{"{SUBSCRIPTION}":{id}}}}}"#))
        }
    }
}

/// Waits until the client wants to hear nothing more: it hangs up, or cancels the request where it can name it.
async fn unwanted(line: &mut Line, under_way: Option<&UnderWay>) {
    tokio::select! {
        () = line.gone() => {}
        () = cancelled(under_way) => {}
    }
}

/// Whether the grant may hear of everything it names. Whatever it may not read, wherever it stands in the filter, the
/// server does not learn of it.
pub(crate) fn may_listen(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
) -> Result<Vec<MayHear>, (String, Refusal)> {
    let named = request.params().and_then(|params| params.get("notifications")?.get("resourceSubscriptions"));
    let uris = named.iter().flat_map(|named| named.elements()).filter_map(|uri| uri.as_str());
    uris.map(|uri| may_hear_of(gw, visit, &uri).map_err(|reason| (uri.to_string(), Refusal::Denied(reason)))).collect()
}

pub(crate) async fn refused(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    mut trail: Trail,
    line: Line,
    (uri, refusal): (String, Refusal),
) {
    gw.metrics.refused(refusal.code());
    trail.about(visit, Some(&uri), None);
    let facts = Facts::Resource { uri: uri.into() };
    let (status, text) = reply::refusal(visit, &facts, &line, (request.id(), trail.call()), &refusal);
    line.finish_with(status, text.into()).await;
    gw.write(trail.refused(&refusal)).await
}

async fn opened(
    gw: &Gateway,
    visit: &Visit,
    asked: (&Request<'_>, Option<&UnderWay>),
    (call, permit): (CallId, Permit),
    line: &mut Line,
) -> Result<End, SendError> {
    let opening = tokio::time::timeout(gw.settings.call_time, gw.client.send(&visit.upstream, permit));
    let mut exchange = opening.await.unwrap_or(Err(SendError::Timeout))?;
    pump(gw, visit, asked, call, &mut exchange, line).await
}

async fn pump(
    gw: &Gateway,
    visit: &Visit,
    (request, under_way): (&Request<'_>, Option<&UnderWay>),
    call: CallId,
    exchange: &mut Exchange,
    line: &mut Line,
) -> Result<End, SendError> {
    let period = gw.settings.keep_alive;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    let mut look = tokio::time::interval(LOOK);
    let mut listener = Listener::new(visit, None);
    let wanted = Lists::named(request.params().and_then(|params| params.get("notifications")));
    loop {
        let message = {
            let mut next = std::pin::pin!(exchange.next());
            loop {
                tokio::select! {
                    message = &mut next => break message?,
                    _ = keep_alive.tick() => line.keep_alive().await,
                    _ = look.tick() => {
                        if !listener.look(gw, request, line).await {
                            return Ok(End::Over);
                        }
                    }
                    () = unwanted(line, under_way) => return Ok(End::Unwanted),
                    () = gw.stopping() => return Ok(End::Over),
                }
            }
        };
        let Some(message) = message else { return Ok(End::Over) };
        let visit = &listener.visit;
        match read_upstream(&message, &gw.settings.reply) {
            Ok(Said::Reply(_)) => {
                let (text, outcome) = answer(visit, &message, request.id(), &gw.settings.reply)
                    .ok_or_else(|| SendError::Unusable("the answer cannot be read".to_owned()))?;
                let status = status_of(visit.era(), &message, call, exchange.status, &gw.settings.reply);
                let tagged =
                    str::from_utf8(&text).ok().and_then(|text| retagged(text, request.id(), &gw.settings.reply));
                return Ok(End::Answered(status, tagged.map_or(text, Bytes::from), outcome));
            }
            Ok(Said::Notification(said)) => {
                // Of a list that nobody asked for nobody is told, whatever the server says.
                let is_wanted = !Lists::ALL.has(said.method()) || wanted.has(said.method());
                if let Some(text) = unaddressed(gw, visit, &said).await.filter(|_| is_wanted) {
                    let text = retagged(&text, request.id(), &gw.settings.reply).unwrap_or(text);
                    line.send(&visit.upstream.secrets().cut_json(text)).await;
                }
                if *said.method() == Method::SubscriptionsAcknowledged {
                    listener.promised = Some(acknowledged(request, said.params().unwrap_or_default()));
                    listener.tell(request, line).await;
                }
            }
            Ok(Said::Request(_)) | Err(_) => gw.metrics.dropped(),
        }
    }
}

/// By what is in force somebody listens, and of which lists they hear.
struct Listener {
    visit: Visit,
    /// None until they were told of which.
    promised: Option<Lists>,
    /// Whether the lists are others by now, and nobody has said so.
    is_due: bool,
}

impl Listener {
    fn new(visit: &Visit, promised: Option<Lists>) -> Self {
        Self { visit: visit.clone(), promised, is_due: false }
    }

    /// Looks whether something else is in force, tells the client, and goes on by that. False where the stream has to
    /// end: where the server is another one, or the grant may not hear any more of something that the client named, the
    /// client listens anew, and is told.
    async fn look(&mut self, gw: &Gateway, request: &Request<'_>, line: &mut Line) -> bool {
        let next = match gw.now(&self.visit) {
            Now::Same => return true,
            Now::Over => return false,
            // Whoever listens to all servers is told once for all of them.
            Now::Other(_) if line.is_of_many() => return false,
            Now::Other(next) => *next,
        };
        self.is_due = true;
        self.tell(request, line).await;
        let before = std::mem::replace(&mut self.visit, next);
        Arc::ptr_eq(&before.upstream, &self.visit.upstream)
            && may_listen(gw, &self.visit, request).is_ok()
            && self.hears_of_tasks(gw, request, line).await
    }

    /// Whether the client may hear of all tasks that it named. With what is in force, what the server offers is to be
    /// asked for anew, and without that nothing is said of a task.
    async fn hears_of_tasks(&self, gw: &Gateway, request: &Request<'_>, line: &mut Line) -> bool {
        self.visit.crossing() != Crossing::None || matches!(not_to_hear(gw, &self.visit, request, line).await, Ok(None))
    }

    /// Tells the client that its lists are others now, if that is to be said.
    async fn tell(&mut self, request: &Request<'_>, line: &mut Line) {
        let Some(promised) = self.promised.filter(|_| std::mem::take(&mut self.is_due)) else { return };
        for method in promised.methods() {
            line.send(&changed_for(&method, request.id())).await;
        }
    }
}

/// Of the lists that a client wants to hear of, those that a server says it will tell of.
fn acknowledged(request: &Request<'_>, params: &str) -> Lists {
    let wanted = Lists::named(request.params().and_then(|params| params.get("notifications")));
    let document = read(params.as_bytes(), &Limits::REPLY).ok();
    wanted.and(Lists::named(document.as_ref().and_then(|document| document.root().get("notifications"))))
}

/// A notification, or the answer, tagged with the caller's own id of the request; the upstream's tag is our id.
fn retagged(text: &str, id: &Id<'_>, limits: &Limits) -> Option<String> {
    let document = read(text.as_bytes(), limits).ok()?;
    let said = document.root().get("params").or_else(|| document.root().get("result"))?;
    let tag: Value<'_> = said.get("_meta")?.get(SUBSCRIPTION)?;
    let (start, end) = tag.span();
    Some(format!("{}{}{}", text.get(..start)?, id.raw(), text.get(end..)?))
}
