//! HTTP+SSE, the transport of 2024-11-05: a GET opens a stream of events, the first of which names the address that
//! takes the client's messages. The connection is the session: what ends the one ends the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_mcp::http_headers::{check_body, revision};
use gatelodge_mcp::{ProtocolGeneration, SSE_KEEP_ALIVE, sse_endpoint_event, sse_event};
use gatelodge_mutants::mutant;
use gatelodge_store::{GrantId, ServerName};
use http::header::HeaderMap;
use http::{Response, StatusCode, Uri};
use hyper::body::Incoming;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::http_bodies::{self, ReplyBody};
use super::reply;
use super::responder::SessionSlot;
use crate::Gateway;
use crate::methods::standalone_stream;
use crate::request_context::RequestContext;
use crate::revalidation::Revalidation;
use crate::single_session::{SingleSessionClient, end_session, stop_event_forwarder};

/// The name that the SDKs give the id in the address.
const SESSION_ID_PARAM: &str = "sessionId";
/// Texts that wait for a client that does not read; beyond that the upstream waits.
const MESSAGE_QUEUE_LENGTH: usize = 64;
/// Messages of one client that wait to be taken; beyond that they are refused.
const MAX_QUEUED_POSTS: usize = 64;
/// How long the last texts may take when calls have had their time to end.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// All connections that are open, by their ids.
#[derive(Debug, Default)]
pub(crate) struct SseClientConnections(Mutex<HashMap<Box<str>, Arc<SseClientConnection>>>);

/// A connection: the client's seat, and whose it is.
#[derive(Debug)]
struct SseClientConnection {
    grant: GrantId,
    server: ServerName,
    client: SingleSessionClient,
    /// Held by the message that is taken: one follows the other, and what follows a handshake belongs to its session.
    order_lock: Arc<tokio::sync::Mutex<()>>,
    post_slots: Arc<Semaphore>,
}

impl SseClientConnections {
    /// Notes a connection, and gives its id; none without randomness.
    fn insert(&self, connection: SseClientConnection) -> Option<Box<str>> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).ok()?;
        let id: Box<str> = HEXLOWER.encode(&random).into();
        self.lock().insert(id.clone(), Arc::new(connection));
        Some(id)
    }

    /// Finds a connection of a grant to a server. One of another grant is not there.
    fn find(&self, id: &str, ctx: &RequestContext) -> Option<Arc<SseClientConnection>> {
        let found = self.lock().get(id).cloned()?;
        let is_of_grant = found.grant == ctx.grant.config.id || mutant!("sse-connection-open-to-any-grant");
        let is_own = is_of_grant && found.server == *ctx.upstream.name();
        is_own.then_some(found)
    }

    fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Arc<SseClientConnection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection that an address names.
pub(crate) fn connection_id(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| *name == SESSION_ID_PARAM).map(|(_, id)| id).next()
}

/// Opens a connection. It lives until the client hangs up, until its grant or its server is no longer in force, or
/// until the gateway stops.
pub(crate) async fn open_connection(gw: &Arc<Gateway>, ctx: RequestContext) -> Response<ReplyBody> {
    let room = match standalone_stream::acquire_stream_slot(gw, &ctx).await {
        Ok(room) => room,
        Err(refusal) => return reply::http_error_response(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
    };
    let (texts, queue) = mpsc::channel(MESSAGE_QUEUE_LENGTH);
    let slot = SessionSlot::default();
    let connection = SseClientConnection {
        grant: ctx.grant.config.id.clone(),
        server: ctx.upstream.name().clone(),
        // The stateless revision knows no such streams: its clients begin with the handshake here.
        client: SingleSessionClient::new(texts, Arc::clone(&slot), &[ProtocolGeneration::Stateful]),
        order_lock: Arc::default(),
        post_slots: Arc::new(Semaphore::new(MAX_QUEUED_POSTS)),
    };
    let Some(id) = gw.sse_connections.insert(connection) else {
        return reply::http_error_response(StatusCode::INTERNAL_SERVER_ERROR, "there is no randomness for an id");
    };
    let (events, receiver) = mpsc::channel(1);
    let task = Arc::clone(gw);
    gw.spawn(async move {
        serve_connection(&task, &ctx, &id, &slot, events, queue).await;
        drop(room);
    });
    reply::event_stream_response(receiver)
}

async fn serve_connection(
    gw: &Gateway,
    ctx: &RequestContext,
    id: &str,
    slot: &SessionSlot,
    events: mpsc::Sender<Bytes>,
    mut queue: mpsc::Receiver<Bytes>,
) {
    let address = format!("/mcp/{}?{SESSION_ID_PARAM}={id}", ctx.upstream.name());
    let _ = events.send(sse_endpoint_event(&address).into()).await;
    relay_messages(gw, ctx, slot, &events, &mut queue).await;
    // Nothing more is taken. What is under way gets its time to end, as when the gateway stops.
    gw.sse_connections.remove(id);
    stop_event_forwarder(slot);
    let rest = async {
        while let Some(text) = queue.recv().await {
            let _ = events.send(to_event(&text)).await;
        }
    };
    let _ = tokio::time::timeout(gw.settings.drain_time + FINAL_WRITE_TIMEOUT, rest).await;
    // Whoever still runs sees by this that nobody reads any more.
    drop(queue);
    end_session(gw, ctx, slot).await;
}

/// Passes texts on as events until the connection has to end.
async fn relay_messages(
    gw: &Gateway,
    ctx: &RequestContext,
    slot: &SessionSlot,
    events: &mpsc::Sender<Bytes>,
    queue: &mut mpsc::Receiver<Bytes>,
) {
    let period = gw.settings.keep_alive;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    let mut recheck = tokio::time::interval(standalone_stream::REVALIDATION_INTERVAL);
    loop {
        let next = tokio::select! {
            Some(text) = queue.recv() => to_event(&text),
            _ = keep_alive.tick() => Bytes::from_static(SSE_KEEP_ALIVE.as_bytes()),
            _ = recheck.tick() => {
                // What was agreed on in the handshake may be too old by now.
                let session = slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let inside = session.map_or_else(|| ctx.clone(), |session| ctx.with_session(session));
                match gw.revalidate(&inside) {
                    Revalidation::Revoked => return,
                    Revalidation::Unchanged | Revalidation::Replaced(_) => continue,
                }
            }
            () = events.closed() => return,
            () = gw.wait_for_shutdown() => return,
        };
        if events.send(next).await.is_err() {
            return;
        }
    }
}

fn to_event(text: &Bytes) -> Bytes {
    // INVARIANT: texts are UTF-8; they were read or written as such.
    sse_event(str::from_utf8(text).unwrap_or_default()).into()
}

/// Takes a client's message. What comes of it comes as an event: clients give up a connection whose POST fails.
pub(crate) async fn handle_post(
    gw: &Arc<Gateway>,
    ctx: RequestContext,
    id: &str,
    headers: &HeaderMap,
    incoming: Incoming,
) -> Response<ReplyBody> {
    let reject = |status, what: String| gw.reject_http(gw.recorder_for_http_method(&ctx, "POST"), status, what);
    if let Err((status, what)) = check_body(headers) {
        return reject(status, what.to_owned()).await;
    }
    let Some(connection) = gw.sse_connections.find(id, &ctx) else {
        let what = "the connection is unknown or over; open one with a GET";
        return reject(StatusCode::NOT_FOUND, what.to_owned()).await;
    };
    if let Err(what) = check_header_revision(gw, &ctx, &connection, headers) {
        return reject(StatusCode::BAD_REQUEST, what).await;
    }
    let Ok(place) = Arc::clone(&connection.post_slots).try_acquire_owned() else {
        return reply::http_error_response(StatusCode::TOO_MANY_REQUESTS, "too many messages of this connection wait");
    };
    let text =
        match http_bodies::read_request_body(incoming, gw.settings.request_limits.max_bytes, gw.settings.body_time)
            .await
        {
            Ok(text) => text.into_bytes(),
            Err((status, what)) => return reject(status, what).await,
        };
    let (done, taken) = oneshot::channel();
    let task = Arc::clone(gw);
    // In a task of its own: a caller that hangs up must not skip the record or strand a reservation.
    gw.spawn(async move {
        let turn = connection.order_lock.lock().await;
        let handshake = connection.client.handle_message(&task, ctx.clone(), text).await;
        let _ = done.send(());
        if let Some(over) = handshake {
            let _ = over.await;
            // A session that was opened for nobody.
            if connection.client.is_disconnected() {
                connection.client.end_session(&task, &ctx).await;
            }
        }
        drop((turn, place));
    });
    match taken.await {
        Ok(()) => reply::empty_response(StatusCode::ACCEPTED),
        Err(_) => {
            reply::http_error_response(StatusCode::INTERNAL_SERVER_ERROR, "the gateway could not take the message")
        }
    }
}

/// Whether the head names the revision that was agreed, if it names one.
fn check_header_revision(
    gw: &Gateway,
    ctx: &RequestContext,
    connection: &SseClientConnection,
    headers: &HeaderMap,
) -> Result<(), String> {
    let named = revision(headers, || ctx.supported_revisions(ProtocolGeneration::Stateful))
        .map_err(|protocol_error| protocol_error.message)?;
    let session = connection.client.session(gw, ctx);
    match session.map(|session| session.revision()).zip(named) {
        Some((agreed, named)) if agreed != named => Err(format!("the session speaks {agreed}")),
        _ => Ok(()),
    }
}
