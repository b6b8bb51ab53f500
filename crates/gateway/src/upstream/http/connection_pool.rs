//! Pool of HTTP connections by origin.
//!
//! Most requests find an idle connection. Reusing it takes one map look-up and starts no task.
//!
//! It replaces the pool of hyper-util, which did more for each request and did not say whether a byte had been written.
//! The price is about 300 lines and HTTP/1.1 only; the gain was not measured alone
//! (`docs/dev/adr/0004-own-connection-pool.md`).

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use http::header::{HOST, HeaderValue};
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;

use super::connector::Connector;
use crate::body::MessageBody;
use crate::settings::MAX_READ_BYTES;

/// Maximum number of idle connections kept per origin.
const MAX_IDLE_CONNECTIONS_PER_ORIGIN: usize = 512;
/// How long an idle connection is kept. Servers often close connections after 5 s or more of idle time; a shorter
/// timeout makes stale connections rare.
const CONNECTION_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

type PooledConnection = SendRequest<MessageBody>;

/// A pool of HTTP connections with or without TLS.
#[derive(Debug, Clone)]
pub(crate) struct HttpConnectionPool(Arc<ConnectionPoolInner>);

#[derive(Debug)]
struct ConnectionPoolInner {
    connector: Connector,
    idle: Mutex<IdleConnections>,
}

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamHttpError {
    /// Connecting failed; no byte of the request was written.
    #[error("cannot connect")]
    Connect(#[source] Box<dyn Error + Send + Sync>),
    /// The connection was lost; the request may have been executed.
    #[error("the connection was lost")]
    ConnectionLost(#[source] hyper::Error),
}

/// Idle connections by authority.
#[derive(Debug, Default)]
struct IdleConnections {
    plain: HashMap<Box<str>, Vec<IdleConnection>>,
    tls: HashMap<Box<str>, Vec<IdleConnection>>,
    /// Whether a task that removes expired connections is running.
    has_sweep_task: bool,
}

#[derive(Debug)]
struct IdleConnection {
    connection: PooledConnection,
    idle_since: Instant,
}

/// Scheme and authority of a connection.
struct ConnectionOrigin {
    is_secure: bool,
    authority: Authority,
}

impl HttpConnectionPool {
    pub(super) fn new(connector: Connector) -> Self {
        Self(Arc::new(ConnectionPoolInner { connector, idle: Mutex::default() }))
    }

    /// Sends a request to the host of its URL and returns the start of the response.
    ///
    /// # Errors
    /// There was no response. Nothing is sent twice: another connection is tried only if an idle one was closed before
    /// any byte of the request was written.
    pub async fn request(self, mut request: Request<MessageBody>) -> Result<Response<Incoming>, UpstreamHttpError> {
        let Some(origin) = ConnectionOrigin::of(request.uri()) else {
            return Err(UpstreamHttpError::Connect("the URL has no host".into()));
        };
        if !request.headers().contains_key(HOST)
            && let Some(host) = host_header(request.uri())
        {
            request.headers_mut().insert(HOST, host);
        }
        let path = request.uri().path_and_query().cloned();
        let url = std::mem::replace(request.uri_mut(), path.map_or_else(Uri::default, Uri::from));
        while let Some(mut connection) = self.find_idle(&origin) {
            match connection.try_send_request(request).await {
                Ok(response) => return Ok(self.reuse_after(origin, connection, response)),
                Err(mut broken) => match broken.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(UpstreamHttpError::ConnectionLost(broken.into_error())),
                },
            }
        }
        let mut connection = Box::pin(connect(self.0.connector.clone(), url)).await?;
        let response = connection.send_request(request).await.map_err(UpstreamHttpError::ConnectionLost)?;
        Ok(self.reuse_after(origin, connection, response))
    }

    fn find_idle(&self, origin: &ConnectionOrigin) -> Option<PooledConnection> {
        self.0.idle().take(origin)
    }

    /// Returns a connection to the pool once the response has been read.
    fn reuse_after(
        self,
        origin: ConnectionOrigin,
        mut connection: PooledConnection,
        response: Response<Incoming>,
    ) -> Response<Incoming> {
        if connection.is_ready() {
            self.put_back(&origin, connection);
        } else if !connection.is_closed() {
            tokio::spawn(async move {
                if connection.ready().await.is_ok() {
                    self.put_back(&origin, connection);
                }
            });
        }
        response
    }

    fn put_back(&self, origin: &ConnectionOrigin, connection: PooledConnection) {
        let mut idle = self.0.idle();
        idle.put(origin, connection);
        if !std::mem::replace(&mut idle.has_sweep_task, true) {
            tokio::spawn(sweep_idle(Arc::downgrade(&self.0)));
        }
    }
}

impl ConnectionPoolInner {
    fn idle(&self) -> MutexGuard<'_, IdleConnections> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes expired connections for as long as there are idle ones.
async fn sweep_idle(pool: Weak<ConnectionPoolInner>) {
    loop {
        tokio::time::sleep(CONNECTION_IDLE_TIMEOUT).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        idle.remove_expired();
        if idle.plain.is_empty() && idle.tls.is_empty() {
            idle.has_sweep_task = false;
            return;
        }
    }
}

impl IdleConnections {
    fn by_authority(&mut self, origin: &ConnectionOrigin) -> &mut HashMap<Box<str>, Vec<IdleConnection>> {
        if origin.is_secure { &mut self.tls } else { &mut self.plain }
    }

    /// Returns the most recently used connection that is still usable.
    fn take(&mut self, origin: &ConnectionOrigin) -> Option<PooledConnection> {
        let idle = self.by_authority(origin).get_mut(origin.authority.as_str())?;
        while let Some(last) = idle.pop() {
            if last.is_usable() {
                return Some(last.connection);
            }
        }
        None
    }

    fn put(&mut self, origin: &ConnectionOrigin, connection: PooledConnection) {
        let idle = IdleConnection { connection, idle_since: Instant::now() };
        match self.by_authority(origin).get_mut(origin.authority.as_str()) {
            Some(others) if others.len() < MAX_IDLE_CONNECTIONS_PER_ORIGIN => others.push(idle),
            Some(_) => {}
            None => drop(self.by_authority(origin).insert(origin.authority.as_str().into(), vec![idle])),
        }
    }

    fn remove_expired(&mut self) {
        for by_authority in [&mut self.plain, &mut self.tls] {
            by_authority.retain(|_, idle| {
                idle.retain(IdleConnection::is_usable);
                !idle.is_empty()
            });
        }
    }
}

impl IdleConnection {
    fn is_usable(&self) -> bool {
        self.connection.is_ready() && self.idle_since.elapsed() < CONNECTION_IDLE_TIMEOUT
    }
}

impl ConnectionOrigin {
    fn of(url: &Uri) -> Option<Self> {
        Some(Self { is_secure: url.scheme() == Some(&Scheme::HTTPS), authority: url.authority()?.clone() })
    }
}

/// Returns the `Host` header for a URL; `None` if it has no host.
pub(crate) fn host_header(url: &Uri) -> Option<HeaderValue> {
    let default_port = if url.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = url.host()?;
    match url.port_u16().filter(|port| *port != default_port) {
        Some(port) => HeaderValue::try_from(format!("{host}:{port}")).ok(),
        None => HeaderValue::from_str(host).ok(),
    }
}

async fn connect(connector: Connector, url: Uri) -> Result<PooledConnection, UpstreamHttpError> {
    match url.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => {
            http_handshake(connector.connect_tls(url).await.map_err(UpstreamHttpError::Connect)?).await
        }
        Some(scheme) if *scheme == Scheme::HTTP => {
            http_handshake(TokioIo::new(connector.connect_tcp(url).await.map_err(UpstreamHttpError::Connect)?)).await
        }
        _ => Err(UpstreamHttpError::Connect("the URL is neither http nor https".into())),
    }
}

async fn http_handshake<S: Read + Write + Unpin + Send + 'static>(
    stream: S,
) -> Result<PooledConnection, UpstreamHttpError> {
    let handshake = http1::Builder::new().max_buf_size(MAX_READ_BYTES).handshake(stream);
    let (connection, driver) = handshake.await.map_err(UpstreamHttpError::ConnectionLost)?;
    // The driver ends with the connection, when its last user drops it. Its error reaches the waiting request.
    tokio::spawn(async move { drop(driver.await) });
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn nothing_is_sent_to_a_url_that_is_neither_http_nor_https() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        for scheme in ["ws", "httpss"] {
            let request =
                Request::post(format!("{scheme}://{address}/")).body(MessageBody::default()).expect("a request");
            let sending = HttpConnectionPool::new(Connector::new(CONNECTION_IDLE_TIMEOUT)).request(request);
            tokio::select! {
                biased;
                answer = sending => assert!(matches!(answer, Err(UpstreamHttpError::Connect(_))), "{scheme}"),
                _ = listener.accept() => panic!("a connection was opened to {scheme}"),
            }
        }
    }
}
