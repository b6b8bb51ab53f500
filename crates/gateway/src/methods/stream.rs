//! The stream that a legacy client holds open for what belongs to no request of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::bridge::quoted;
use gatelodge_mcp::{KEEP_ALIVE, Method, Revision, Upstream as Said, read_upstream};
use gatelodge_store::Outcome;
use http::{HeaderValue, Response, StatusCode};
use tokio::sync::{Notify, mpsc};

use super::initialize::open_if_restored;
use super::server::{question, unaddressed};
use crate::Gateway;
use crate::call::{Permit, Refusal, Room, Trail};
use crate::http::body::Body;
use crate::http::reply;
use crate::lists::changed as changed_list;
use crate::now::Now;
use crate::session::{Place, STANDALONE, Session};
use crate::upstream::{Exchange, Outgoing, SendError};
use crate::visit::Visit;

pub(crate) const WAITING_EVENTS: usize = 64;
/// After the upstream ends its stream, we wait so long before asking for it again.
const AGAIN: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_millis(50);
/// How long one that takes an earlier stream's place waits for it to end.
pub(crate) const HANDING_OVER: Duration = Duration::from_secs(1);
/// How often it looks whether the grant is still what it was.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// Goes on with a stream that the client lost: the one that answers a request, or the one that belongs to none.
pub(crate) async fn resume(gw: &Arc<Gateway>, visit: Visit, last: &str) -> Response<Body> {
    let Some(session) = visit.session() else {
        return reply::http_error(StatusCode::BAD_REQUEST, "begin with `initialize`");
    };
    let place_in = session.streams().place(last);
    if let Some(behind) = place_in.filter(|place| place.stream == STANDALONE) {
        return open(gw, visit, Some(behind)).await;
    }
    let Some(behind) = place_in.filter(|place| session.streams().missed(*place).is_some()) else {
        return unknown(gw, &visit).await;
    };
    match place(gw, &visit).await {
        Err(refusal) => reply::http_error(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
        Ok(room) => match session.streams().resume(behind, room) {
            Some(events) => reply::stream(events),
            None => unknown(gw, &visit).await,
        },
    }
}

/// Answers that nobody knows what a client missed.
async fn unknown(gw: &Gateway, visit: &Visit) -> Response<Body> {
    let mut trail = Trail::of_visit(visit, gw.new_call(), gw.clock.now());
    trail.method("GET");
    gw.metrics.refused(Refusal::Unaddressed.code());
    gw.write(trail.refused(&Refusal::Unaddressed)).await;
    reply::http_error(StatusCode::BAD_REQUEST, "what followed the event in `Last-Event-ID` is not kept here")
}

/// Opens the stream, behind an event that the client has of it. It lives until the client hangs up, opens another or
/// ends the session, until the grant has no way to the server any more, or until the gateway stops.
pub(crate) async fn open(gw: &Arc<Gateway>, visit: Visit, behind: Option<Place>) -> Response<Body> {
    let room = match place(gw, &visit).await {
        Ok(room) => room,
        Err(refusal) => return reply::http_error(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
    };
    let (events, receiver) = mpsc::channel(WAITING_EVENTS);
    let task = Arc::clone(gw);
    gw.spawn(async move {
        serve(task, visit, behind, events).await;
        drop(room);
    });
    reply::stream(receiver)
}

/// A place for one more stream of the grant; what comes of it is written down.
pub(crate) async fn place(gw: &Gateway, visit: &Visit) -> Result<Room, Refusal> {
    let mut trail = Trail::of_visit(visit, gw.new_call(), gw.clock.now());
    trail.method("GET");
    match Room::for_stream(&visit.grant) {
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

async fn serve(gw: Arc<Gateway>, visit: Visit, behind: Option<Place>, events: mpsc::Sender<Bytes>) {
    let Some(session) = visit.session() else { return };
    let handle = session.open_stream();
    // The head goes out with the first bytes; clients wait for it.
    let _ = events.send(Bytes::from_static(KEEP_ALIVE.as_bytes())).await;
    let _earlier_has_ended = tokio::time::timeout(HANDING_OVER, session.streaming.lock()).await;
    let missed = behind.and_then(|place| session.streams().missed(place));
    let heard = missed.as_ref().and_then(|_| session.heard());
    begin(session, missed, &events).await;
    let (mut own, mut heard) = (visit.clone(), heard);
    while let Some(next) = served(&gw, &own, heard, &events, &handle).await {
        for method in gw.promised(&next, session).await.methods() {
            let event = session.streams().stamped(STANDALONE, &changed_list(&method));
            let _ = events.send(event).await;
        }
        // Another server knows nothing of the events of this one.
        heard = session.heard().filter(|_| Arc::ptr_eq(&own.upstream, &next.upstream));
        own = next;
    }
    session.close_stream(&handle);
}

/// Serves the stream by what is in force. Gives the visit to go on by when that is another one; none at the end.
async fn served(
    gw: &Gateway,
    visit: &Visit,
    heard: Option<HeaderValue>,
    events: &mpsc::Sender<Bytes>,
    handle: &Notify,
) -> Option<Visit> {
    let session = visit.session()?;
    let mut keep_alive = tokio::time::interval(gw.settings.keep_alive);
    let mut look = tokio::time::interval(LOOK);
    let mut upstream =
        std::pin::pin!(follow(gw, visit, heard, events, |text| session.streams().stamped(STANDALONE, text)));
    loop {
        tokio::select! {
            () = &mut upstream => return None,
            _ = keep_alive.tick() => {
                if events.send(Bytes::from_static(KEEP_ALIVE.as_bytes())).await.is_err() {
                    return None;
                }
            }
            _ = look.tick() => match gw.now(visit) {
                Now::Same => {}
                Now::Other(next) => return Some(*next),
                Now::Over => return None,
            },
            () = handle.notified() => return None,
            () = events.closed() => return None,
            () = gw.stopping() => return None,
        }
    }
}

/// Gives the client what it missed since the place that it comes from. Where that is not known any more, as after a
/// restart, the stream begins anew, with a place to come back to: what belongs to no request is nobody's answer.
pub(crate) async fn begin(session: &Session, missed: Option<Vec<Bytes>>, events: &mpsc::Sender<Bytes>) {
    let first = match missed {
        Some(missed) => missed,
        None if session.revision() >= Revision::R2025_11_25 => vec![session.streams().priming(STANDALONE)],
        None => Vec::new(),
    };
    for event in first {
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// Follows the upstream's own stream from where it was left, and passes on what is in it as `written` says. Where it
/// has none, this waits for ever: the client's stays open all the same.
pub(crate) async fn follow(
    gw: &Gateway,
    visit: &Visit,
    mut last: Option<HeaderValue>,
    events: &mpsc::Sender<Bytes>,
    written: impl Fn(&str) -> Bytes + Copy,
) {
    let mut pause = AGAIN;
    loop {
        open_if_restored(gw, visit).await;
        let Some(permit) = to_hear(gw, visit, last.clone()) else { return std::future::pending().await };
        match gw.client.send(&visit.upstream, permit).await {
            Ok(mut exchange) if exchange.is_stream() => {
                tokio::select! {
                    () = pump(gw, visit, &mut exchange, events, written) => {}
                    // What is heard of has changed, so the stream is opened anew, at once.
                    () = changed(visit) => continue,
                }
                let (id, retry) = exchange.left_at();
                pause = retry.unwrap_or(AGAIN).clamp(SHORTEST, AT_MOST);
                last = id;
            }
            Ok(exchange) if exchange.status == StatusCode::METHOD_NOT_ALLOWED => return std::future::pending().await,
            Err(SendError::Status(405)) => return std::future::pending().await,
            // Not there now, or it has forgotten the session or the event; a call opens the session again.
            answer => {
                pause = (pause * 2).min(AT_MOST);
                last = last.filter(|_| matches!(answer, Err(SendError::NotSent(_) | SendError::Gone(_))));
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Leave to hear: the stream of a session, or a request that stands alone for all that the session wants to hear of.
fn to_hear(gw: &Gateway, visit: &Visit, last: Option<HeaderValue>) -> Option<Permit> {
    let Some(session) = visit.session().filter(|session| session.is_far_stateless()) else {
        return Some(Permit::to_hear(visit, last));
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
        if let Some(session) = visit.session() {
            session.set_heard(exchange.left_at().0);
        }
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
