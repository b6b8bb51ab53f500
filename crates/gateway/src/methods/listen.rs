//! `subscriptions/listen`: a stateless client's stream of notifications, filtered by what it may see.

mod session;

use bytes::Bytes;
use gatelodge_json::{Limits, Value, read};
use gatelodge_mcp::{Id, Request, Upstream as Said, read_upstream};
use gatelodge_store::{CallId, Outcome};
use http::StatusCode;

use super::pass::fail;
use super::server::{MayHear, may_hear_of, unaddressed};
use super::stream::LOOK;
use super::tasks::not_to_hear;
use crate::Gateway;
use crate::call::{Facts, Permit, Refusal, Trail, answer, status_of};
use crate::http::line::Line;
use crate::http::reply;
use crate::telemetry::ClientSpan;
use crate::upstream::{Exchange, Outgoing, SendError};
use crate::visit::{Crossing, Visit};

pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The end of a stream: the answer, as the caller gets it.
type Heard = (StatusCode, Bytes, Outcome);

/// Holds the stream open until either side ends it.
pub(crate) async fn listen(gw: &Gateway, visit: &Visit, request: &Request<'_>, mut trail: Trail, mut line: Line) {
    let heard = match may_listen(gw, visit, request) {
        Ok(heard) => heard,
        Err((uri, refusal)) => return refused(gw, visit, request, trail, line, (uri, refusal)).await,
    };
    if visit.crossing() == Crossing::ToSession {
        session::listen(gw, visit, request, heard, &mut line).await;
        line.hang_up();
        return gw.write(trail.outcome(Outcome::Ok, None)).await;
    }
    if let Some(task) = not_to_hear(gw, visit, request, &mut line).await {
        gw.metrics.refused(Refusal::Unaddressed.code());
        trail.about(visit, Some(&task), None);
        line.finish(reply::unknown_task(request.id(), &task).into()).await;
        return gw.write(trail.refused(&Refusal::Unaddressed)).await;
    }
    let method = request.method().name();
    let hop = visit.hop(method, None);
    let text = request.paged(&Id::string(trail.call().as_str()), None, hop.as_ref().map(|hop| &hop.own));
    let outgoing = visit.addressed_about(Outgoing::request(text, trail.call()), method, None).within(hop);
    let ended = match Permit::of_always_allowed(method, outgoing) {
        Some(permit) => {
            let span = ClientSpan::begin(visit, permit.hop(), trail.call(), gw.clock.now());
            let ended = opened(gw, visit, request, (trail.call(), permit), &mut line).await;
            if let Some(span) = span {
                span.end_stream(ended.as_ref().err());
            }
            ended
        }
        None => Err(SendError::NotSent("the method has to be judged".to_owned())),
    };
    match ended {
        Ok(Some((status, text, outcome))) => {
            line.finish_with(status, text).await;
            gw.write(trail.outcome(outcome, None)).await;
        }
        Ok(None) => {
            line.hang_up();
            gw.write(trail.outcome(Outcome::Ok, None)).await;
        }
        Err(fault) => fail(gw, request.id(), &mut trail, fault, line).await,
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
    let (status, text) = reply::refusal(visit, &facts, request.id(), trail.call(), &refusal);
    line.finish_with(status, text.into()).await;
    gw.write(trail.refused(&refusal)).await
}

async fn opened(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    (call, permit): (CallId, Permit),
    line: &mut Line,
) -> Result<Option<Heard>, SendError> {
    let opening = tokio::time::timeout(gw.settings.call_time, gw.client.send(&visit.upstream, permit));
    let mut exchange = opening.await.unwrap_or(Err(SendError::Timeout))?;
    pump(gw, visit, request, call, &mut exchange, line).await
}

async fn pump(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    call: CallId,
    exchange: &mut Exchange,
    line: &mut Line,
) -> Result<Option<Heard>, SendError> {
    let period = gw.settings.keep_alive;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    let mut look = tokio::time::interval(LOOK);
    loop {
        let message = {
            let mut next = std::pin::pin!(exchange.next());
            loop {
                tokio::select! {
                    message = &mut next => break message?,
                    _ = keep_alive.tick() => line.keep_alive().await,
                    _ = look.tick() => {
                        if !gw.still_holds(visit) {
                            return Ok(None);
                        }
                    }
                    () = line.gone() => return Ok(None),
                    () = gw.stopping() => return Ok(None),
                }
            }
        };
        let Some(message) = message else { return Ok(None) };
        match read_upstream(&message, &gw.settings.reply) {
            Ok(Said::Reply(_)) => {
                let (text, outcome) = answer(visit, &message, request.id(), &gw.settings.reply)
                    .ok_or_else(|| SendError::Unusable("the answer cannot be read".to_owned()))?;
                let status = status_of(visit.era(), &message, call, exchange.status, &gw.settings.reply);
                return Ok(Some((status, text, outcome)));
            }
            Ok(Said::Notification(said)) => {
                if let Some(text) = unaddressed(gw, visit, &said).await {
                    let text = retagged(&text, request.id(), &gw.settings.reply).unwrap_or(text);
                    line.send(&visit.upstream.secrets().cut_json(text)).await;
                }
            }
            Ok(Said::Request(_)) | Err(_) => gw.metrics.dropped(),
        }
    }
}

/// The notification tagged with the caller's own id of the request; the upstream's tag is our id.
fn retagged(text: &str, id: &Id<'_>, limits: &Limits) -> Option<String> {
    let document = read(text.as_bytes(), limits).ok()?;
    let tag: Value<'_> = document.root().get("params")?.get("_meta")?.get(SUBSCRIPTION)?;
    let (start, end) = tag.span();
    Some(format!("{}{}{}", text.get(..start)?, id.raw(), text.get(end..)?))
}
