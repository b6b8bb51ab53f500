//! Connections over HTTP that are used again, by where they lead. Most requests find one that is free, so that costs
//! little: a look at a table, and no task of its own.

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
use crate::http_server::listener::MAX_READ_BYTES;
use crate::message_body::MessageBody;

/// Connections to one origin that are kept though nobody uses them.
const IDLE_CONNECTIONS: usize = 512;
/// Servers often close after 5 s or more without use; below that a kept connection is rarely stale.
const IDLE_TIME: Duration = Duration::from_secs(4);

type Connection = SendRequest<MessageBody>;

/// Connections over HTTP, with or without TLS.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connector: Connector,
    idle: Mutex<Idle>,
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// No connection; not one byte of the request was written.
    #[error("cannot connect")]
    Connect(#[source] Box<dyn Error + Send + Sync>),
    /// The connection broke; the request may have been carried out.
    #[error("the connection broke")]
    Gone(#[source] hyper::Error),
}

/// Connections that nobody uses, by the authority they lead to.
#[derive(Debug, Default)]
struct Idle {
    plain: HashMap<Box<str>, Vec<Unused>>,
    secure: HashMap<Box<str>, Vec<Unused>>,
    /// Whether a task looks after those that get old.
    is_swept: bool,
}

#[derive(Debug)]
struct Unused {
    connection: Connection,
    since: Instant,
}

/// Where a connection leads.
struct Origin {
    is_secure: bool,
    authority: Authority,
}

impl Pool {
    pub(super) fn new(connector: Connector) -> Self {
        Self(Arc::new(Inner { connector, idle: Mutex::default() }))
    }

    /// Sends a request to where its URL says, and gives the beginning of the answer.
    ///
    /// # Errors
    /// There is none. Nothing is sent a second time: another connection is tried only where a kept one was closed before
    /// anything of the request was written.
    pub async fn request(self, mut request: Request<MessageBody>) -> Result<Response<Incoming>, RequestError> {
        let Some(origin) = Origin::of(request.uri()) else {
            return Err(RequestError::Connect("the URL has no host".into()));
        };
        if !request.headers().contains_key(HOST)
            && let Some(host) = host_of(request.uri())
        {
            request.headers_mut().insert(HOST, host);
        }
        let path = request.uri().path_and_query().cloned();
        let url = std::mem::replace(request.uri_mut(), path.map_or_else(Uri::default, Uri::from));
        while let Some(mut connection) = self.unused(&origin) {
            match connection.try_send_request(request).await {
                Ok(response) => return Ok(self.answered(origin, connection, response)),
                Err(mut broken) => match broken.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(RequestError::Gone(broken.into_error())),
                },
            }
        }
        let mut connection = Box::pin(connect(self.0.connector.clone(), url)).await?;
        let response = connection.send_request(request).await.map_err(RequestError::Gone)?;
        Ok(self.answered(origin, connection, response))
    }

    fn unused(&self, origin: &Origin) -> Option<Connection> {
        self.0.idle().take(origin)
    }

    /// Keeps a connection for the next request, when the answer to this one has been read.
    fn answered(self, origin: Origin, mut connection: Connection, answer: Response<Incoming>) -> Response<Incoming> {
        if connection.is_ready() {
            self.keep(&origin, connection);
        } else if !connection.is_closed() {
            tokio::spawn(async move {
                if connection.ready().await.is_ok() {
                    self.keep(&origin, connection);
                }
            });
        }
        answer
    }

    fn keep(&self, origin: &Origin, connection: Connection) {
        let mut idle = self.0.idle();
        idle.put(origin, connection);
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }
}

impl Inner {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes what nobody has used for too long, as long as there is something.
async fn sweep(pool: Weak<Inner>) {
    loop {
        tokio::time::sleep(IDLE_TIME).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        idle.forget_old();
        if idle.plain.is_empty() && idle.secure.is_empty() {
            idle.is_swept = false;
            return;
        }
    }
}

impl Idle {
    fn to(&mut self, origin: &Origin) -> &mut HashMap<Box<str>, Vec<Unused>> {
        if origin.is_secure { &mut self.secure } else { &mut self.plain }
    }

    /// The one that was used last, if it can still be used.
    fn take(&mut self, origin: &Origin) -> Option<Connection> {
        let unused = self.to(origin).get_mut(origin.authority.as_str())?;
        while let Some(last) = unused.pop() {
            if last.can_be_used() {
                return Some(last.connection);
            }
        }
        None
    }

    fn put(&mut self, origin: &Origin, connection: Connection) {
        let unused = Unused { connection, since: Instant::now() };
        match self.to(origin).get_mut(origin.authority.as_str()) {
            Some(others) if others.len() < IDLE_CONNECTIONS => others.push(unused),
            Some(_) => {}
            None => drop(self.to(origin).insert(origin.authority.as_str().into(), vec![unused])),
        }
    }

    fn forget_old(&mut self) {
        for table in [&mut self.plain, &mut self.secure] {
            table.retain(|_, unused| {
                unused.retain(Unused::can_be_used);
                !unused.is_empty()
            });
        }
    }
}

impl Unused {
    fn can_be_used(&self) -> bool {
        self.connection.is_ready() && self.since.elapsed() < IDLE_TIME
    }
}

impl Origin {
    fn of(url: &Uri) -> Option<Self> {
        Some(Self { is_secure: url.scheme() == Some(&Scheme::HTTPS), authority: url.authority()?.clone() })
    }
}

/// What the `UrlHost` header of requests to a URL says; none if it has no host.
pub(crate) fn host_of(url: &Uri) -> Option<HeaderValue> {
    let usual = if url.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = url.host()?;
    match url.port_u16().filter(|port| *port != usual) {
        Some(port) => HeaderValue::try_from(format!("{host}:{port}")).ok(),
        None => HeaderValue::from_str(host).ok(),
    }
}

async fn connect(connector: Connector, url: Uri) -> Result<Connection, RequestError> {
    match url.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => {
            shake_hands(connector.secure(url).await.map_err(RequestError::Connect)?).await
        }
        Some(scheme) if *scheme == Scheme::HTTP => {
            shake_hands(TokioIo::new(connector.plain(url).await.map_err(RequestError::Connect)?)).await
        }
        _ => Err(RequestError::Connect("the URL is neither http nor https".into())),
    }
}

async fn shake_hands<S: Read + Write + Unpin + Send + 'static>(stream: S) -> Result<Connection, RequestError> {
    let handshake = http1::Builder::new().max_buf_size(MAX_READ_BYTES).handshake(stream);
    let (connection, driver) = handshake.await.map_err(RequestError::Gone)?;
    // It ends with the connection, which ends when nobody has it any more. What it ends with, whoever waits hears.
    tokio::spawn(async move { drop(driver.await) });
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn to_what_is_neither_http_nor_https_nothing_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        for scheme in ["ws", "httpss"] {
            let request =
                Request::post(format!("{scheme}://{address}/")).body(MessageBody::default()).expect("a request");
            let sending = Pool::new(Connector::new(IDLE_TIME)).request(request);
            tokio::select! {
                biased;
                answer = sending => assert!(matches!(answer, Err(RequestError::Connect(_))), "{scheme}"),
                _ = listener.accept() => panic!("a connection was opened to {scheme}"),
            }
        }
    }
}
