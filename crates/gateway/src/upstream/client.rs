//! Requests to upstreams. They are always built anew: nothing of a caller's head goes through.

use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::Revision;
use gatelodge_store::Outcome;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Request};
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls_platform_verifier::ConfigVerifierExt;

use super::{Exchange, Secrets, Upstream};
use crate::call::Permit;
use crate::http::names;

/// Connections to one upstream that are kept though nobody uses them.
const IDLE_CONNECTIONS: usize = 64;
/// Servers often close after 5 s or more without use; below that a kept connection is rarely stale.
const IDLE_TIME: Duration = Duration::from_secs(4);
const BOTH_KINDS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Why an upstream gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    /// No connection; not one byte of the request was written.
    #[error("cannot connect: {0}")]
    NotSent(String),
    /// The connection broke, or what came is no answer; the request may have been carried out.
    #[error("{0}")]
    Gone(String),
    /// It took too long; the request may have been carried out.
    #[error("no answer in time")]
    Timeout,
    /// It answered with an HTTP status that says no.
    #[error("HTTP status {0}")]
    Status(u16),
}

impl SendError {
    /// What the log says of a message that ended so.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NotSent(_) => Outcome::NotSent,
            Self::Timeout => Outcome::Timeout,
            Self::Gone(_) | Self::Status(_) => Outcome::Gone,
        }
    }

    /// Cuts what the upstream gave back of our secrets.
    pub fn cut(self, secrets: &Secrets) -> Self {
        match self {
            Self::NotSent(why) => Self::NotSent(secrets.cut_text(&why)),
            Self::Gone(why) => Self::Gone(secrets.cut_text(&why)),
            other @ (Self::Timeout | Self::Status(_)) => other,
        }
    }
}

/// A message on its way to an upstream.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub verb: http::Method,
    pub body: Bytes,
    pub session: Option<HeaderValue>,
    pub revision: Option<Revision>,
    /// What the stateless revision wants in the head: the method, and what it is about.
    pub modern: Option<ModernHead>,
}

/// The head of a stateless request, made from the body that was judged.
#[derive(Debug, Clone)]
pub(crate) struct ModernHead {
    pub method: String,
    pub name: Option<String>,
}

impl Outgoing {
    pub fn post(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self { verb: http::Method::POST, body, session: None, revision: None, modern: None }
    }

    pub fn empty(verb: http::Method) -> Self {
        Self { verb, ..Self::post(Bytes::new()) }
    }
}

/// The one way out to upstreams.
#[derive(Clone)]
pub(crate) struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The most bytes of one message.
    max_bytes: usize,
}

/// The client cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS")]
pub struct TlsError(#[from] rustls::Error);

impl Client {
    pub fn new(connect_time: Duration, max_bytes: usize) -> Result<Self, TlsError> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        // An error means that one is installed already, which is as good.
        let _ = provider.install_default();
        let tls = rustls::ClientConfig::with_platform_verifier()?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_time));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let pool = Pool::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self { pool, max_bytes })
    }

    /// Sends what a permit allows, and gives the beginning of the answer. Redirects are not followed.
    pub async fn send(&self, upstream: &Upstream, permit: Permit) -> Result<Exchange, SendError> {
        let request = build(upstream, permit.into_outgoing());
        let response = self.pool.request(request).await.map_err(|error| {
            let cause = innermost(&error);
            if error.is_connect() { SendError::NotSent(cause) } else { SendError::Gone(cause) }
        })?;
        Exchange::begin(response, self.max_bytes).map_err(|fault| fault.cut(upstream.secrets()))
    }
}

fn build(upstream: &Upstream, outgoing: Outgoing) -> Request<Full<Bytes>> {
    let mut headers = HeaderMap::new();
    if outgoing.verb == http::Method::POST {
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, BOTH_KINDS);
    } else {
        headers.insert(ACCEPT, EVENTS);
    }
    if let Some(session) = outgoing.session {
        headers.insert(names::SESSION, session);
    }
    if let Some(revision) = outgoing.revision {
        headers.insert(names::PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
    }
    if let Some(modern) = outgoing.modern {
        insert_encoded(&mut headers, names::METHOD, &modern.method);
        if let Some(name) = &modern.name {
            insert_encoded(&mut headers, names::NAME, name);
        }
    }
    // What is configured comes last: it wins over everything else.
    for name in upstream.headers().keys() {
        headers.remove(name);
        for value in upstream.headers().get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    let mut request = Request::new(Full::new(outgoing.body));
    *request.method_mut() = outgoing.verb;
    *request.uri_mut() = upstream.config().url.clone();
    *request.headers_mut() = headers;
    request
}

fn insert_encoded(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::try_from(names::encode(text)) {
        headers.insert(name, value);
    }
}

/// The last cause says what happened; those before it say where in the library.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
