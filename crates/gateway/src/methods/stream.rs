//! The stream that a legacy client holds open for what belongs to no request of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::{KEEP_ALIVE, Upstream as Said, event, read_upstream};
use http::Response;
use tokio::sync::mpsc;

use super::server::{question, unaddressed};
use crate::Gateway;
use crate::call::Permit;
use crate::http::body::Body;
use crate::http::mcp::outgoing;
use crate::http::reply;
use crate::upstream::{Exchange, Outgoing};
use crate::visit::Visit;

const WAITING_EVENTS: usize = 64;
/// After the upstream ends its stream, we wait so long before asking for it again.
const AGAIN: Duration = Duration::from_secs(1);

/// Opens the stream. It lives until the client hangs up, opens another, or the gateway stops.
pub(crate) fn open(gw: &Arc<Gateway>, visit: Visit) -> Response<Body> {
    let (events, receiver) = mpsc::channel(WAITING_EVENTS);
    if let Some(session) = visit.session() {
        session.set_outbox(Some(events.clone()));
    }
    gw.spawn("stream", serve(Arc::clone(gw), visit, events));
    reply::stream(receiver)
}

async fn serve(gw: Arc<Gateway>, visit: Visit, events: mpsc::Sender<Bytes>) {
    // The head goes out with the first bytes; clients wait for it.
    let _ = events.send(Bytes::from_static(KEEP_ALIVE.as_bytes())).await;
    let mut keep_alive = tokio::time::interval(gw.settings.keep_alive);
    let mut upstream = std::pin::pin!(follow(&gw, &visit, &events));
    loop {
        tokio::select! {
            () = &mut upstream => break,
            _ = keep_alive.tick() => {
                if events.send(Bytes::from_static(KEEP_ALIVE.as_bytes())).await.is_err() {
                    break;
                }
            }
            () = events.closed() => break,
            () = gw.stopping() => break,
        }
    }
}

/// Follows the upstream's own stream. Where it has none, this waits for ever: the client's stays open all the same.
async fn follow(gw: &Gateway, visit: &Visit, events: &mpsc::Sender<Bytes>) {
    loop {
        let permit = Permit::of_housekeeping(outgoing(visit, Outgoing::empty(http::Method::GET)));
        match gw.client.send(&visit.upstream, permit).await {
            Ok(mut exchange) if exchange.is_stream() => pump(gw, visit, &mut exchange, events).await,
            // It has no such stream, or none now; a call will tell if it is gone.
            _ => return std::future::pending().await,
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn pump(gw: &Gateway, visit: &Visit, exchange: &mut Exchange, events: &mpsc::Sender<Bytes>) {
    while let Ok(Some(message)) = exchange.next().await {
        let text = match read_upstream(&message, &gw.settings.reply) {
            Ok(Said::Notification(said)) => unaddressed(visit, &said),
            Ok(Said::Request(asked)) => question(gw, visit, &asked).await,
            Ok(Said::Reply(_)) | Err(_) => {
                gw.metrics.dropped();
                None
            }
        };
        if let Some(text) = text {
            let text = visit.upstream.secrets().cut_text(&text);
            if events.send(event(&text).into()).await.is_err() {
                return;
            }
        }
    }
}
