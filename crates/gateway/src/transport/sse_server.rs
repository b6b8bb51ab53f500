//! HTTP+SSE, the transport of revision 2024-11-05: a GET opens an event stream, whose first event contains the URL for
//! the client's messages. The connection is the session: when one ends, so does the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_mcp::http_headers::{ProtocolError, check_body, revision};
use gatelodge_mcp::{ProtocolGeneration, SSE_KEEP_ALIVE, sse_endpoint_event, sse_event};
use gatelodge_mutants::mutant;
use gatelodge_store::{GrantId, ServerName};
use http::header::HeaderMap;
use http::{Response, StatusCode, Uri};
use hyper::body::Incoming;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::TransportState;
use super::http::rejection::reject_http;
use super::http::request_body::read_request_body;
use crate::client::single_session_client::{SingleSessionClient, end_session, stop_event_forwarder};
use crate::methods::standalone_stream;
use crate::reply::{ReplyBody, http_response};
use crate::request_context::{RequestContext, StreamRevalidation};
use crate::responder::ClientSessionCell;
use crate::services::GatewayServices;

/// Query parameter that the SDKs use for the connection id.
const SESSION_ID_PARAM: &str = "sessionId";
/// How many messages are queued for a slow client before the upstream has to wait.
const MESSAGE_QUEUE_LENGTH: usize = 64;
/// How many unprocessed messages a client may have; further ones are refused.
const MAX_QUEUED_POSTS: usize = 64;
/// Time limit for writing the last messages after the drain period.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// All open connections, by id.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientSseConnections(Arc<Mutex<HashMap<Box<str>, Arc<ClientSseConnection>>>>);

/// A connection with its grant, its server and the session of its client.
#[derive(Debug)]
struct ClientSseConnection {
    grant: GrantId,
    server: ServerName,
    client: SingleSessionClient,
    /// Keeps messages in order, because a message that follows a handshake belongs to the new session.
    order_lock: Arc<tokio::sync::Mutex<()>>,
    post_slots: Arc<Semaphore>,
}

impl ClientSseConnections {
    /// Adds a connection and returns its id; `None` if no random bytes are available.
    fn insert(&self, connection: ClientSseConnection) -> Option<Box<str>> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).ok()?;
        let id: Box<str> = HEXLOWER.encode(&random).into();
        self.lock().insert(id.clone(), Arc::new(connection));
        Some(id)
    }

    /// Finds a connection by id, only within the same grant and server.
    fn find(&self, id: &str, ctx: &RequestContext) -> Option<Arc<ClientSseConnection>> {
        let found = self.lock().get(id).cloned()?;
        let is_of_grant = found.grant == ctx.grant.config.id || mutant!("sse-connection-open-to-any-grant");
        let is_own = is_of_grant && found.server == *ctx.upstream.name();
        is_own.then_some(found)
    }

    fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Arc<ClientSseConnection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the connection id in a URL.
pub(crate) fn connection_id(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| *name == SESSION_ID_PARAM).map(|(_, id)| id).next()
}

/// Opens a connection. It ends when the client disconnects, when its grant or server is removed, or when the gateway
/// stops.
pub(crate) async fn open_connection(state: &TransportState, ctx: RequestContext) -> Response<ReplyBody> {
    let gw = &state.services;
    if let Err(ProtocolError { code, message, .. }) = ctx.grant.check_stream_allowed() {
        gw.record_rejection(gw.new_recorder(&ctx), code, &message).await;
        return http_response::method_not_allowed_response("POST", &message);
    }
    let guard = match standalone_stream::acquire_stream_slot(gw, &ctx).await {
        Ok(guard) => guard,
        Err(refusal) => return http_response::http_error_response(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
    };
    let (texts, queue) = mpsc::channel(MESSAGE_QUEUE_LENGTH);
    let slot = ClientSessionCell::default();
    let connection = ClientSseConnection {
        grant: ctx.grant.config.id.clone(),
        server: ctx.upstream.name().clone(),
        // The stateless protocol has no such streams, so only the stateful one is accepted.
        client: SingleSessionClient::new(texts, Arc::clone(&slot), &[ProtocolGeneration::Stateful]),
        order_lock: Arc::default(),
        post_slots: Arc::new(Semaphore::new(MAX_QUEUED_POSTS)),
    };
    let Some(id) = state.sse_connections.insert(connection) else {
        return http_response::http_error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "no random bytes available for a connection id",
        );
    };
    let (events, receiver) = mpsc::channel(1);
    let (task, connections) = (Arc::clone(gw), state.sse_connections.clone());
    gw.tasks.spawn(async move {
        serve_connection(&task, &connections, &ctx, &id, &slot, events, queue).await;
        drop(guard);
    });
    http_response::event_stream_response(receiver)
}

async fn serve_connection(
    gw: &GatewayServices,
    connections: &ClientSseConnections,
    ctx: &RequestContext,
    id: &str,
    slot: &ClientSessionCell,
    events: mpsc::Sender<Bytes>,
    mut queue: mpsc::Receiver<Bytes>,
) {
    let address = format!("/mcp/{}?{SESSION_ID_PARAM}={id}", ctx.upstream.name());
    let _ = events.send(sse_endpoint_event(&address).into()).await;
    relay_messages(gw, ctx, slot, &events, &mut queue).await;
    // No more messages are accepted. Requests in flight get the drain period to finish.
    connections.remove(id);
    stop_event_forwarder(slot);
    let rest = async {
        while let Some(text) = queue.recv().await {
            let _ = events.send(to_event(&text)).await;
        }
    };
    let _ = tokio::time::timeout(gw.settings.drain_timeout + FINAL_WRITE_TIMEOUT, rest).await;
    // Requests that still run notice by this that the client is gone.
    drop(queue);
    end_session(gw, ctx, slot).await;
}

/// Relays messages as events until the client disconnects, the grant loses access, or the gateway stops.
async fn relay_messages(
    gw: &GatewayServices,
    ctx: &RequestContext,
    slot: &ClientSessionCell,
    events: &mpsc::Sender<Bytes>,
    queue: &mut mpsc::Receiver<Bytes>,
) {
    let period = gw.settings.keep_alive_interval;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    let mut recheck = tokio::time::interval(standalone_stream::REVALIDATION_INTERVAL);
    loop {
        let next = tokio::select! {
            Some(text) = queue.recv() => to_event(&text),
            _ = keep_alive.tick() => Bytes::from_static(SSE_KEEP_ALIVE.as_bytes()),
            _ = recheck.tick() => {
                // The grant may no longer allow the negotiated revision.
                let session = slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let session_ctx = session.map_or_else(|| ctx.clone(), |session| ctx.with_session(session));
                match gw.config.revalidate(&session_ctx) {
                    StreamRevalidation::Revoked => return,
                    StreamRevalidation::Unchanged | StreamRevalidation::Replaced(_) => continue,
                }
            }
            () = events.closed() => return,
            () = gw.shutdown.wait() => return,
        };
        if events.send(next).await.is_err() {
            return;
        }
    }
}

fn to_event(text: &Bytes) -> Bytes {
    // INVARIANT: messages are UTF-8, because they were parsed or written as text.
    sse_event(str::from_utf8(text).unwrap_or_default()).into()
}

/// Accepts a client's message. Its result is sent as an event, because clients drop a connection whose POST fails.
pub(crate) async fn handle_post(
    state: &TransportState,
    ctx: RequestContext,
    id: &str,
    headers: &HeaderMap,
    incoming: Incoming,
) -> Response<ReplyBody> {
    let gw = &state.services;
    let reject = async |status, what: &str| reject_http(gw, gw.new_recorder(&ctx), "POST", (status, what)).await;
    if let Err((status, what)) = check_body(headers) {
        return reject(status, what).await;
    }
    let Some(connection) = state.sse_connections.find(id, &ctx) else {
        let what = "the connection is unknown or has ended; open one with a GET";
        return reject(StatusCode::NOT_FOUND, what).await;
    };
    if let Err(what) = check_header_revision(gw, &ctx, &connection, headers) {
        return reject(StatusCode::BAD_REQUEST, &what).await;
    }
    let Ok(place) = Arc::clone(&connection.post_slots).try_acquire_owned() else {
        return http_response::http_error_response(
            StatusCode::TOO_MANY_REQUESTS,
            "too many unprocessed messages on this connection",
        );
    };
    let text = match read_request_body(incoming, gw.settings.request_limits.max_bytes, gw.settings.body_timeout).await {
        Ok(text) => text.into_bytes(),
        Err((status, what)) => return reject(status, &what).await,
    };
    let (done, taken) = oneshot::channel();
    let task = Arc::clone(gw);
    // In a task of its own: a client that disconnects must not skip the record or leak a reservation.
    gw.tasks.spawn(async move {
        let turn = connection.order_lock.lock().await;
        let handshake = connection.client.handle_message(&task, ctx.clone(), text).await;
        let _ = done.send(());
        if let Some(over) = handshake {
            let _ = over.await;
            // The client disconnected during the handshake.
            if connection.client.is_disconnected() {
                connection.client.end_session(&task, &ctx).await;
            }
        }
        drop((turn, place));
    });
    match taken.await {
        Ok(()) => http_response::empty_response(StatusCode::ACCEPTED),
        Err(_) => http_response::http_error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the gateway could not handle the message",
        ),
    }
}

/// Checks that the version header, if present, matches the negotiated revision.
fn check_header_revision(
    gw: &GatewayServices,
    ctx: &RequestContext,
    connection: &ClientSseConnection,
    headers: &HeaderMap,
) -> Result<(), String> {
    let named = revision(headers, || ctx.supported_revisions(ProtocolGeneration::Stateful))
        .map_err(|protocol_error| protocol_error.message)?;
    let session = connection.client.session(gw, ctx);
    match session.map(|session| session.revision()).zip(named) {
        Some((agreed, named)) if agreed != named => Err(format!("the session uses revision {agreed}")),
        _ => Ok(()),
    }
}
