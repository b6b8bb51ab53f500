//! Accepts connections up to a limit, and serves them until they end or the gateway stops.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;

use gatelodge_mcp::http_headers::HostOriginGuard;
use http::header::{ORIGIN, TRANSFER_ENCODING};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::unconstrained;
use tracing::{debug, warn};

use super::authentication::ConnectionTokenCache;
use super::smuggling_guard::SmugglingGuardStream;
use super::{cors, health_endpoints, mcp_endpoint};
use crate::reply::{ReplyBody, http_response};
use crate::runtime::deadline_timer::ConnectionHyperTimer;
use crate::settings::MAX_READ_BYTES;
use crate::transport::TransportState;

pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// Which requests a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerRole {
    /// Requests from MCP clients.
    Mcp,
    /// Health checks and metrics.
    Monitoring,
}

/// State shared by the requests of one connection.
pub(crate) struct ClientConnectionContext {
    pub client_address: Arc<str>,
    pub token_cache: ConnectionTokenCache,
}

/// Accepts connections until the gateway stops. Existing connections finish on their own.
pub(crate) async fn accept_connections(
    state: Arc<TransportState>,
    listener: TcpListener,
    role: ListenerRole,
) -> std::io::Result<()> {
    let gw = &state.services;
    let mut stop = gw.shutdown.subscribe();
    let address = listener.local_addr()?;
    let guard = Arc::new(HostOriginGuard::new(address, &gw.settings.hosts, &gw.settings.origins));
    let permits = Arc::new(Semaphore::new(gw.settings.max_connections));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or the client has gone: both are temporary.
                warn!(%error, "cannot accept a connection: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            gw.metrics.refused_connections.inc();
            drop(stream);
            continue;
        };
        let (task, guard, stop) = (Arc::clone(&state), Arc::clone(&guard), stop.clone());
        let Some(worker) = state.workers.next_runtime() else {
            gw.tasks.spawn(async move {
                serve_connection(task, stream, peer, role, guard, stop).await;
                drop(permit);
            });
            continue;
        };
        // Registers the socket with the runtime of the worker that serves it.
        let Ok(stream) = stream.into_std() else { continue };
        gw.tasks.spawn_on(worker, async move {
            if let Ok(stream) = TcpStream::from_std(stream) {
                serve_connection(task, stream, peer, role, guard, stop).await;
            }
            drop(permit);
        });
    }
    Ok(())
}

async fn serve_connection(
    state: Arc<TransportState>,
    stream: TcpStream,
    peer: SocketAddr,
    role: ListenerRole,
    guard: Arc<HostOriginGuard>,
    mut stop: watch::Receiver<bool>,
) {
    // Replies are small and complete; Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let gw = &state.services;
    let header_timeout = gw.settings.header_timeout;
    let (stream, head_bytes) = SmugglingGuardStream::new(stream, gw.settings.body_timeout);
    let shared = ClientConnectionContext {
        client_address: canonical_ip(peer.ip()),
        token_cache: ConnectionTokenCache::default(),
    };
    let (state, guard, shared, head_bytes) = (&*state, &*guard, &shared, &head_bytes);
    let service = service_fn(move |request: Request<Incoming>| async move {
        if request.headers().contains_key(TRANSFER_ENCODING) && head_bytes.has_content_length() {
            return Ok::<_, Infallible>(http_response::ambiguous_length_response());
        }
        Ok(serve_request(state, role, guard, request, shared).await)
    });
    // hyper's default limit of 100 headers is not set explicitly, because that would allocate per request.
    let connection = http1::Builder::new()
        .timer(ConnectionHyperTimer::default())
        .header_read_timeout(header_timeout)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_READ_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // `stop` is polled once to register, and then only after a change: polling it at each step of each connection is
    // costly.
    let (changes, mut was_polled) = (stop.clone(), false);
    // Not subject to the task's cooperative budget: otherwise a poll could return without having registered.
    let mut stopping = std::pin::pin!(unconstrained(stop.wait_for(|stop| *stop)));
    let ended = poll_fn(|cx| {
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(Some(ended));
        }
        let may_stop = !std::mem::replace(&mut was_polled, true) || changes.has_changed().unwrap_or(true);
        if may_stop { stopping.as_mut().poll(cx).map(|_| None) } else { Poll::Pending }
    });
    let ended = ended.await;
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, %peer, "connection from {peer} ended: {error}");
    }
}

/// Serves one request, if its host and origin are accepted.
async fn serve_request(
    state: &TransportState,
    role: ListenerRole,
    guard: &HostOriginGuard,
    request: Request<Incoming>,
    connection: &ClientConnectionContext,
) -> Response<ReplyBody> {
    if let Err(rejected) = guard.check(&request) {
        state.services.metrics.count_refusal("host_or_origin");
        return http_response::http_error_response(rejected.status, &rejected.message);
    }
    // Only web pages send an origin.
    let origin = request.headers().get(ORIGIN).cloned();
    let response = match (role, &origin) {
        (ListenerRole::Monitoring, _) => {
            return health_endpoints::serve_health_endpoints(&state.services, &request).await;
        }
        (ListenerRole::Mcp, Some(_)) if let Some(answer) = cors::preflight_response(&request) => answer,
        (ListenerRole::Mcp, _) => mcp_endpoint::serve(state, connection, request).await,
    };
    match origin {
        Some(origin) => cors::allow_origin(response, origin),
        None => response,
    }
}

/// Returns the client's address in the form used in logs.
fn canonical_ip(address: IpAddr) -> Arc<str> {
    address.to_canonical().to_string().into()
}
