//! The stream that a legacy client holds open for what belongs to no request of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::bridge::quoted;
use gatelodge_mcp::{KEEP_ALIVE, Method, Upstream as Said, event, read_upstream};
use gatelodge_store::Outcome;
use http::{Response, StatusCode};
use tokio::sync::mpsc;

use super::initialize::open_if_restored;
use super::server::{question, unaddressed};
use crate::Gateway;
use crate::call::{Permit, Refusal, Room, Trail};
use crate::http::body::Body;
use crate::http::reply;
use crate::upstream::{Exchange, Outgoing, SendError};
use crate::visit::Visit;

const WAITING_EVENTS: usize = 64;
/// After the upstream ends its stream, we wait so long before asking for it again.
const AGAIN: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_secs(60);
/// How often it looks whether the grant is still what it was.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// Opens the stream. It lives until the client hangs up, opens another or ends the session, until the grant is no
/// longer what it was, or until the gateway stops.
pub(crate) async fn open(gw: &Arc<Gateway>, visit: Visit) -> Response<Body> {
    let room = match place(gw, &visit).await {
        Ok(room) => room,
        Err(refusal) => return reply::http_error(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
    };
    let (events, receiver) = mpsc::channel(WAITING_EVENTS);
    let task = Arc::clone(gw);
    gw.spawn(async move {
        serve(task, visit, events).await;
        drop(room);
    });
    reply::stream(receiver)
}

/// A place for one more stream of the grant; what comes of it is written down.
pub(crate) async fn place(gw: &Gateway, visit: &Visit) -> Result<Room, Refusal> {
    let mut trail = Trail::of_visit(visit, gw.new_call(), gw.clock.now());
    trail.method("GET");
    match Room::for_stream(visit) {
        Ok(room) => {
            gw.write(trail.outcome(Outcome::Ok, None)).await;
            Ok(room)
        }
        Err(refusal) => {
            gw.metrics.refused(refusal.code());
            gw.write(trail.refused(&refusal)).await;
            Err(refusal)
        }
    }
}

async fn serve(gw: Arc<Gateway>, visit: Visit, events: mpsc::Sender<Bytes>) {
    let Some(session) = visit.session() else { return };
    let handle = session.open_stream();
    // The head goes out with the first bytes; clients wait for it.
    let _ = events.send(Bytes::from_static(KEEP_ALIVE.as_bytes())).await;
    let mut keep_alive = tokio::time::interval(gw.settings.keep_alive);
    let mut look = tokio::time::interval(LOOK);
    {
        let mut upstream = std::pin::pin!(follow(&gw, &visit, &events, |text| event(text).into()));
        loop {
            tokio::select! {
                () = &mut upstream => break,
                _ = keep_alive.tick() => {
                    if events.send(Bytes::from_static(KEEP_ALIVE.as_bytes())).await.is_err() {
                        break;
                    }
                }
                _ = look.tick() => {
                    if !gw.still_holds(&visit) {
                        break;
                    }
                }
                () = handle.notified() => break,
                () = events.closed() => break,
                () = gw.stopping() => break,
            }
        }
    }
    session.close_stream(&handle);
}

/// Follows the upstream's own stream, and passes on what is in it as `written` says. Where it has none, this waits for ever: the client's stays open all the same.
pub(crate) async fn follow(
    gw: &Gateway,
    visit: &Visit,
    events: &mpsc::Sender<Bytes>,
    written: impl Fn(&str) -> Bytes + Copy,
) {
    let mut pause = AGAIN;
    loop {
        open_if_restored(gw, visit).await;
        let Some(permit) = to_hear(gw, visit) else { return std::future::pending().await };
        match gw.client.send(&visit.upstream, permit).await {
            Ok(mut exchange) if exchange.is_stream() => {
                pause = AGAIN;
                tokio::select! {
                    () = pump(gw, visit, &mut exchange, events, written) => {}
                    // What is heard of has changed, so the stream is opened anew, at once.
                    () = changed(visit) => continue,
                }
            }
            Ok(exchange) if exchange.status == StatusCode::METHOD_NOT_ALLOWED => return std::future::pending().await,
            Err(SendError::Status(405)) => return std::future::pending().await,
            // Not there now, or it has forgotten the session; a call opens it again.
            Ok(_) | Err(_) => pause = (pause * 2).min(AT_MOST),
        }
        tokio::time::sleep(pause).await;
    }
}

/// Leave to hear: the stream of a session, or a request that stands alone for all that the session wants to hear of.
fn to_hear(gw: &Gateway, visit: &Visit) -> Option<Permit> {
    let Some(session) = visit.session().filter(|session| session.is_far_stateless()) else {
        return Some(Permit::to_hear(visit));
    };
    let uris: Vec<String> = session.watched.all().iter().map(|uri| quoted(uri)).collect();
    let (call, method) = (gw.new_call(), Method::Listen.name());
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":"{call}","method":"{method}","params":{{"notifications":{{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[{}]}}}}}}"#,
        uris.join(",")
    );
    Permit::of_always_allowed(method, visit.addressed_about(Outgoing::request(text, call), method, None))
}

async fn changed(visit: &Visit) {
    match visit.session().filter(|session| session.is_far_stateless()) {
        Some(session) => session.watched.changed.notified().await,
        None => std::future::pending().await,
    }
}

async fn pump(
    gw: &Gateway,
    visit: &Visit,
    exchange: &mut Exchange,
    events: &mpsc::Sender<Bytes>,
    written: impl Fn(&str) -> Bytes,
) {
    while let Ok(Some(message)) = exchange.next().await {
        let text = match read_upstream(&message, &gw.settings.reply) {
            Ok(Said::Notification(said)) => unaddressed(gw, visit, &said).await,
            Ok(Said::Request(asked)) => question(gw, visit, &asked).await,
            Ok(Said::Reply(_)) | Err(_) => {
                gw.metrics.dropped();
                None
            }
        };
        if let Some(text) = text {
            let text = visit.upstream.secrets().cut_json(text);
            if events.send(written(&text)).await.is_err() {
                return;
            }
        }
    }
}
