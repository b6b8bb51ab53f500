//! HTTP client for upstreams. Requests are built from scratch: no header of the client's request is forwarded.

mod collector_client;
mod connection_pool;
mod connector;
mod response_reader;

use std::sync::Arc;
use std::time::Duration;

use gatelodge_mcp::{BAGGAGE, TRACEPARENT, TRACESTATE, http_headers};
use gatelodge_mutants::mutant;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use self::connection_pool::{HttpConnectionPool, UpstreamHttpError};
use self::connector::{Connector, TlsError};
use super::{
    Upstream, UpstreamHttpConfig, UpstreamRequest, UpstreamRequestKind, UpstreamResponse, UpstreamSendError,
    UpstreamSessionLink,
};
use crate::body::MessageBody;
use crate::runtime::workers;
use crate::telemetry::UpstreamSpanContext;

pub(crate) use collector_client::CollectorClient;
pub(super) use connection_pool::host_header;
pub(super) use response_reader::HttpResponseReader;

/// Maximum number of bytes read from a response whose body is ignored.
const MAX_DRAINED_BYTES: usize = 16 << 10;
/// Time limit for reading a body that is ignored.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
const ACCEPT_JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const ACCEPT_EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const CONTENT_TYPE_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Sends HTTP requests to all upstreams.
#[derive(Debug, Clone)]
pub(super) struct UpstreamHttpClient {
    /// One pool per worker: a connection is read by the thread that opened it.
    pools: Arc<[HttpConnectionPool]>,
    /// Shared by all pools.
    connector: Connector,
    /// Maximum size of a message.
    max_bytes: usize,
    connect_timeout: Duration,
}

impl UpstreamHttpClient {
    pub fn new(connect_timeout: Duration, workers: usize, max_bytes: usize) -> Self {
        // One connector, so that trusted certificates are loaded once.
        let connector = Connector::new(connect_timeout);
        let pools = (0..workers).map(|_| HttpConnectionPool::new(connector.clone())).collect();
        Self { pools, connector, max_bytes, connect_timeout }
    }

    /// Sets up TLS in advance, so that no call waits for it.
    pub fn prepare_tls(&self) -> Result<(), TlsError> {
        self.connector.tls_connector().map(drop)
    }

    /// Sends a message when polled and returns the start of the response. Redirects are not followed.
    // The request is built immediately, so that the future holds the request and not its parts.
    pub fn send<'a>(
        &'a self,
        upstream: &'a Upstream,
        config: &'a UpstreamHttpConfig,
        outgoing: UpstreamRequest,
    ) -> impl Future<Output = Result<UpstreamResponse, UpstreamSendError>> + use<'a> {
        let requested = self.request(upstream.headers(), &config.url, outgoing);
        async move {
            let started = HttpResponseReader::begin(requested.await?, &config.url, self.max_bytes);
            started.map_err(|send_error| send_error.redact(upstream.secret_redactor()))
        }
    }

    /// Sends a message with the configured headers and returns the response.
    pub fn request(
        &self,
        headers: &HeaderMap,
        url: &Uri,
        outgoing: UpstreamRequest,
    ) -> impl Future<Output = Result<Response<Incoming>, UpstreamSendError>> + use<> {
        let pool = self.pools.get(workers::current_worker()).or(self.pools.first());
        // Boxed: each enclosing future would store it twice.
        let requested = pool.map(|pool| Box::pin(pool.clone().request(build_request(headers, url, outgoing))));
        async move {
            // INVARIANT: there is at least one pool.
            let Some(requested) = requested else {
                return Err(UpstreamSendError::NotSent("no connection pool".to_owned()));
            };
            requested.await.map_err(|error| match &error {
                UpstreamHttpError::Connect(_) => UpstreamSendError::NotSent(root_cause(&error)),
                UpstreamHttpError::ConnectionLost(_) => UpstreamSendError::ConnectionLost(root_cause(&error)),
            })
        }
    }

    /// Like [`Self::request`], but returns only the status.
    pub async fn post(
        &self,
        headers: &HeaderMap,
        url: &Uri,
        outgoing: UpstreamRequest,
    ) -> Result<StatusCode, UpstreamSendError> {
        let response = self.request(headers, url, outgoing).await?;
        let status = response.status();
        // Read to the end, so that the connection can be reused, unless the body is long.
        let rest = Limited::new(response.into_body(), MAX_DRAINED_BYTES).collect();
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
        Ok(status)
    }

    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Returns the time limit for connecting to a server.
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }
}

fn build_request(configured: &HeaderMap, url: &Uri, outgoing: UpstreamRequest) -> Request<MessageBody> {
    let mut headers = HeaderMap::new();
    if outgoing.kind == UpstreamRequestKind::SendMessage {
        headers.insert(CONTENT_TYPE, CONTENT_TYPE_JSON);
        headers.insert(ACCEPT, ACCEPT_JSON_OR_EVENTS);
    } else {
        headers.insert(ACCEPT, ACCEPT_EVENTS);
    }
    if let UpstreamSessionLink::Http(session) = &outgoing.session_link
        && let Some(id) = &session.id
    {
        headers.insert(http_headers::SESSION_ID, id.clone());
    }
    if let Some(last) = outgoing.last_event_id {
        headers.insert(http_headers::LAST_EVENT_ID, last);
    }
    if let Some(revision) = outgoing.revision {
        headers.insert(http_headers::PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
    }
    if let Some(stateless) = outgoing.stateless_headers {
        if let Some(params) = outgoing.param_headers {
            headers.extend(*params);
        }
        insert_encoded(&mut headers, http_headers::MCP_METHOD, &stateless.method);
        if let Some(name) = &stateless.name {
            insert_encoded(&mut headers, http_headers::MCP_NAME, name);
        }
    }
    if let Some(span) = outgoing.span {
        insert_trace(&mut headers, *span);
    }
    if mutant!("client-token-forwarded") {
        headers.insert("authorization", HeaderValue::from_static("Bearer glt_"));
    }
    // Configured headers are set last: they override all others.
    for name in configured.keys() {
        headers.remove(name);
        for value in configured.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    let mut request = Request::new(outgoing.body);
    *request.method_mut() = match outgoing.kind {
        UpstreamRequestKind::SendMessage => http::Method::POST,
        UpstreamRequestKind::OpenStream => http::Method::GET,
        UpstreamRequestKind::EndSession => http::Method::DELETE,
    };
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers;
    request
}

fn insert_trace(headers: &mut HeaderMap, span: UpstreamSpanContext) {
    let parent = HeaderValue::try_from(span.context.to_string()).ok();
    for (name, value) in [(TRACEPARENT, parent), (TRACESTATE, span.trace_state), (BAGGAGE, span.baggage)] {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
}

fn insert_encoded(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::try_from(http_headers::encode_value(text)) {
        headers.insert(name, value);
    }
}

/// Returns the innermost cause, which says what happened; the outer errors only name layers of the HTTP library.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
