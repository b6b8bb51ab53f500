//! Requests to upstreams over HTTP. They are always built anew: nothing of a caller's head goes through.

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

pub(crate) use connection_pool::HttpConnectionPool;
pub(super) use connection_pool::host_header;
pub(super) use response_reader::HttpResponseReader;

use self::connection_pool::HttpRequestError;
use self::connector::{Connector, TlsError};
use super::{
    SendError, Upstream, UpstreamHttpConfig, UpstreamLink, UpstreamRequest, UpstreamRequestKind, UpstreamResponse,
};
use crate::message_body::MessageBody;
use crate::request_trace::UpstreamSpanContext;
use crate::workers;

/// What is read of an answer that says nothing, and for how long.
const MAX_DRAINED_BYTES: usize = 16 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
const ACCEPT_JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const ACCEPT_EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const CONTENT_TYPE_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The way out to upstreams over HTTP.
#[derive(Debug, Clone)]
pub(super) struct UpstreamHttpClient {
    /// One for each lane: a connection is read by the thread that opened it.
    pools: Arc<[HttpConnectionPool]>,
    /// Of all of them.
    connector: Connector,
    /// The most bytes of one message.
    max_bytes: usize,
    connect_time: Duration,
}

/// Makes a pool of connections.
pub(crate) fn new_connection_pool(connect_time: Duration) -> HttpConnectionPool {
    HttpConnectionPool::new(Connector::new(connect_time))
}

impl UpstreamHttpClient {
    pub fn new(connect_time: Duration, lanes: usize, max_bytes: usize) -> Self {
        // They share what is trusted.
        let connector = Connector::new(connect_time);
        let pools = (0..lanes).map(|_| HttpConnectionPool::new(connector.clone())).collect();
        Self { pools, connector, max_bytes, connect_time }
    }

    /// Sets TLS up before it is needed, where nobody waits yet.
    pub fn prepare_tls(&self) -> Result<(), TlsError> {
        self.connector.tls_connector().map(drop)
    }

    /// Sends a message when it is waited for, and gives the beginning of the answer. Redirects are not followed.
    // The request is made at once, so that who waits keeps that and not what it is made of.
    pub fn send<'a>(
        &'a self,
        upstream: &'a Upstream,
        to: &'a UpstreamHttpConfig,
        outgoing: UpstreamRequest,
    ) -> impl Future<Output = Result<UpstreamResponse, SendError>> + use<'a> {
        let requested = self.request(upstream.headers(), &to.url, outgoing);
        async move {
            let started = HttpResponseReader::begin(requested.await?, &to.url, self.max_bytes);
            started.map_err(|send_error| send_error.redact(upstream.secret_redactor()))
        }
    }

    /// Sends a message with the headers that are configured, and gives the answer as it comes.
    pub fn request(
        &self,
        headers: &HeaderMap,
        url: &Uri,
        outgoing: UpstreamRequest,
    ) -> impl Future<Output = Result<Response<Incoming>, SendError>> + use<> {
        let pool = self.pools.get(workers::current_worker()).or(self.pools.first());
        // In a box: whoever waits for it holds it twice, and whoever waits for that four times.
        let requested = pool.map(|pool| Box::pin(pool.clone().request(build_request(headers, url, outgoing))));
        async move {
            // INVARIANT: there is a pool for each lane.
            let Some(requested) = requested else { return Err(SendError::NotSent("no connections".to_owned())) };
            requested.await.map_err(|error| match &error {
                HttpRequestError::Connect(_) => SendError::NotSent(root_cause(&error)),
                HttpRequestError::ConnectionLost(_) => SendError::ConnectionLost(root_cause(&error)),
            })
        }
    }

    /// The same where only the status counts.
    pub async fn post(
        &self,
        headers: &HeaderMap,
        url: &Uri,
        outgoing: UpstreamRequest,
    ) -> Result<StatusCode, SendError> {
        let response = self.request(headers, url, outgoing).await?;
        let status = response.status();
        // Read to its end, so that the connection can be used again; a long one is not worth it.
        let rest = Limited::new(response.into_body(), MAX_DRAINED_BYTES).collect();
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
        Ok(status)
    }

    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// How long a server may take to begin.
    pub fn connect_time(&self) -> Duration {
        self.connect_time
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
    if let UpstreamLink::Http(session) = &outgoing.session_link
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
    // What is configured comes last: it wins over everything else.
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

/// The last cause says what happened; those before it say where in the library.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
