//! What no rule speaks of by name: pings, levels, notifications and the client's answers. There is a list of what may
//! pass; everything else is judged like a call.

use bytes::Bytes;
use gatelodge_mcp::{Id, Message, Method, Notification, Request, Response, Rewrite, code, error};
use gatelodge_store::Outcome;

use super::server::tell;
use crate::Gateway;
use crate::call::{Ended, Errand, Permit, Refusal, Trail, answer, forward};
use crate::http::line::Line;
use crate::http::mcp::{outgoing, outgoing_about};
use crate::upstream::{Exchange, Outgoing, SendError};
use crate::visit::Visit;

/// Sends a request on that passes under every policy, and gives the answer back.
pub(crate) async fn request(gw: &Gateway, visit: &Visit, request: &Request<'_>, mut trail: Trail, mut line: Line) {
    match sent(gw, visit, request, &trail, &mut line).await {
        Ok((text, outcome, mut exchange)) => {
            line.finish(text).await;
            gw.write(trail.outcome(outcome, Some(exchange.status.as_u16()))).await;
            exchange.drain(gw).await;
        }
        Err(fault) => {
            let refusal = Refusal::Upstream(fault);
            let text = error(Some(request.id()), code::INTERNAL_ERROR, &refusal.text(trail.call().as_str()), None);
            line.finish(text.into()).await;
            gw.write(trail.refused(&refusal)).await;
        }
    }
}

/// Sends a request under our id and waits for its answer under the caller's.
pub(crate) async fn sent(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    trail: &Trail,
    line: &mut Line,
) -> Result<(Bytes, Outcome, Exchange), SendError> {
    let (message, exchange) = exchanged(gw, visit, request, trail, line).await?;
    match answer(visit, &message, request.id(), &gw.settings.reply) {
        Some((text, outcome)) => Ok((text, outcome, exchange)),
        None => Err(SendError::Gone("the answer cannot be read".to_owned())),
    }
}

/// The same, with the answer as the upstream gave it.
pub(crate) async fn exchanged(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    trail: &Trail,
    line: &mut Line,
) -> Result<(Bytes, Exchange), SendError> {
    let id = Id::string(trail.call().as_str());
    let progress = request.meta().progress_token();
    let rewrite = Rewrite { id: &id, target: None, progress_token: progress.as_ref().map(|_| &id) };
    // INVARIANT: only a token that is there is replaced, so the rewrite cannot fail.
    let text = request.rewritten(&rewrite).unwrap_or_default();
    let method = request.method().name();
    let permit = Permit::of_always_allowed(method, outgoing_about(visit, Outgoing::post(text), method, None))
        .ok_or_else(|| SendError::NotSent("the method has to be judged".to_owned()))?;
    let errand = Errand { gw, visit, call: trail.call(), progress: progress.as_ref(), under_way: None };
    let sending = async {
        match forward(&errand, permit, line).await? {
            (Ended::Answer(message), Some(exchange)) => Ok((message, exchange)),
            _ => Err(SendError::Gone("the caller hung up".to_owned())),
        }
    };
    tokio::time::timeout(gw.settings.call_time, sending).await.unwrap_or(Err(SendError::Timeout))
}

/// Sends a message on that wants no answer, with ids of ours turned into those of the other side.
pub(crate) async fn one_way(gw: &Gateway, visit: &Visit, message: &Message<'_>) {
    let mut trail = Trail::of_visit(visit, gw.new_call(), gw.clock.now());
    let permit = match message {
        Message::Notification(said) => {
            trail.method(said.method().name());
            notification(visit, said)
        }
        Message::Response(said) => {
            trail.method("response");
            response(visit, said)
        }
        Message::Request(_) => None,
    };
    let Some(permit) = permit else {
        gw.metrics.dropped();
        return;
    };
    tell(gw, visit, permit).await;
    if !matches!(message, Message::Notification(said) if *said.method() == Method::Progress) {
        gw.write(trail.outcome(Outcome::Ok, None)).await;
    }
}

fn notification(visit: &Visit, said: &Notification<'_>) -> Option<Permit> {
    let session = visit.session()?;
    let text = match said.method() {
        Method::Cancelled => {
            let under_way = session.find(&said.reference().ok()??)?;
            under_way.cancelled.notify_one();
            said.referring_to(&Id::string(under_way.call.as_str())).ok()?
        }
        // The client tells of progress on what the upstream asked it; the token is the upstream's own.
        _ => said.text().to_owned(),
    };
    Permit::of_always_allowed(said.method().name(), outgoing(visit, Outgoing::post(text)))
}

fn response(visit: &Visit, said: &Response<'_>) -> Option<Permit> {
    let asked = visit.session()?.answered(said.id())?;
    Some(Permit::of_answer(&asked, outgoing(visit, Outgoing::post(said.with_id(&asked)))))
}
