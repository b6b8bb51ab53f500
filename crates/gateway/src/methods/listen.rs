//! `subscriptions/listen`: a stateless client's stream of notifications, filtered by what it may see.

use gatelodge_json::{Value, read};
use gatelodge_mcp::{Id, Request, Upstream as Said, read_upstream};
use gatelodge_store::Outcome;

use super::server::unaddressed;
use super::stream::LOOK;
use crate::Gateway;
use crate::call::{Permit, Refusal, Trail, answer};
use crate::http::line::Line;
use crate::http::mcp::outgoing_about;
use crate::upstream::{Exchange, Outgoing, SendError};
use crate::visit::Visit;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Holds the stream open until either side ends it.
pub(crate) async fn listen(gw: &Gateway, visit: &Visit, request: &Request<'_>, mut trail: Trail, mut line: Line) {
    let text = request.paged(&Id::string(trail.call().as_str()), None);
    let method = request.method().name();
    let permit = Permit::of_always_allowed(method, outgoing_about(visit, Outgoing::post(text), method, None));
    let ended = match permit {
        Some(permit) => opened(gw, visit, request, permit, &mut line).await,
        None => Err(SendError::NotSent("the method has to be judged".to_owned())),
    };
    match ended {
        Ok(Some(text)) => line.finish(text).await,
        Ok(None) => line.hang_up(),
        Err(fault) => {
            let refusal = Refusal::Upstream(fault);
            let words = refusal.text(trail.call().as_str());
            let text = gatelodge_mcp::error(Some(request.id()), gatelodge_mcp::code::INTERNAL_ERROR, &words, None);
            line.finish(text.into()).await;
        }
    }
    gw.write(trail.outcome(Outcome::Ok, None)).await;
}

async fn opened(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    permit: Permit,
    line: &mut Line,
) -> Result<Option<bytes::Bytes>, SendError> {
    let opening = tokio::time::timeout(gw.settings.call_time, gw.client.send(&visit.upstream, permit));
    let mut exchange = opening.await.unwrap_or(Err(SendError::Timeout))?;
    pump(gw, visit, request, &mut exchange, line).await
}

async fn pump(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    exchange: &mut Exchange,
    line: &mut Line,
) -> Result<Option<bytes::Bytes>, SendError> {
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
                return Ok(answer(visit, &message, request.id(), &gw.settings.reply).map(|(text, _)| text));
            }
            Ok(Said::Notification(said)) => {
                if let Some(text) = unaddressed(visit, &said) {
                    let text = retagged(&text, request.id()).unwrap_or(text);
                    line.send(&visit.upstream.secrets().cut_text(&text)).await;
                }
            }
            Ok(Said::Request(_)) | Err(_) => gw.metrics.dropped(),
        }
    }
}

/// The notification tagged with the caller's own id of the request; the upstream's tag is our id.
fn retagged(text: &str, id: &Id<'_>) -> Option<String> {
    let document = read(text.as_bytes(), &gatelodge_json::Limits::REPLY).ok()?;
    let tag: Value<'_> = document.root().get("params")?.get("_meta")?.get(SUBSCRIPTION)?;
    let (start, end) = tag.span();
    Some(format!("{}{}{}", text.get(..start)?, id.raw(), text.get(end..)?))
}
