//! The client's HTTP transport, with limits on time and size. Redirects are not followed.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gatelodge_mcp::SseDecoder;
use gatelodge_policy::format_duration;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::RootCertStore;
use rustls_platform_verifier::ConfigVerifierExt;
use serde_json::Value;
use tokio::time::timeout;

use super::McpClientError;
use super::rpc_message::{TransportResponse, parse_rpc_error};

/// Maximum size of a response.
pub const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP connections to one server.
#[derive(Clone)]
pub struct ClientHttpTransport {
    connections: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    headers: HeaderMap,
    timeout: Duration,
}

impl ClientHttpTransport {
    /// Creates a transport without connecting. `headers` are sent with every request.
    pub fn new(url: Uri, headers: HeaderMap, timeout: Duration) -> Result<Self, McpClientError> {
        // An error means that a provider is installed already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        // Plain HTTP must also work on a machine without root certificates.
        let tls = if url.scheme() == Some(&Scheme::HTTPS) {
            rustls::ClientConfig::with_platform_verifier()
                .map_err(|error| McpClientError::Unreachable(format!("cannot set up TLS: {error}")))?
        } else {
            rustls::ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Self { connections: Pool::builder(TokioExecutor::new()).build(connector), url, headers, timeout })
    }

    /// Sends a request, and reads its complete response.
    pub async fn post(&self, body: String, headers: &HeaderMap) -> Result<TransportResponse, McpClientError> {
        let exchange = async {
            let response = self.send(&self.url, Method::POST, body.into(), headers).await?;
            let (head, body) = response.into_parts();
            let session = head.headers.get("mcp-session-id").cloned();
            let content_type =
                head.headers.get(CONTENT_TYPE).and_then(|content_type| content_type.to_str().ok()).unwrap_or_default();
            let is_stream = content_type.starts_with("text/event-stream");
            if !head.status.is_success() {
                return Err(status_error(head.status, body).await);
            }
            let messages = if is_stream { read_events(body).await? } else { vec![read_body(body).await?] };
            Ok(TransportResponse { session_id: session, messages })
        };
        self.with_timeout(exchange).await
    }

    /// Sends a message that gets no response.
    pub async fn notify(&self, body: String, headers: &HeaderMap) -> Result<(), McpClientError> {
        self.notify_at(&self.url, body, headers).await
    }

    /// Like [`Self::notify`], but sends the message to a different URL on the same server.
    pub async fn notify_at(&self, url: &Uri, body: String, headers: &HeaderMap) -> Result<(), McpClientError> {
        self.with_timeout(async {
            let response = self.send(url, Method::POST, body.into(), headers).await?;
            let (head, body) = response.into_parts();
            if head.status.is_success() { Ok(()) } else { Err(status_error(head.status, body).await) }
        })
        .await
    }

    /// Ends a session. Errors are ignored.
    pub async fn delete_session(&self, headers: &HeaderMap) {
        let _ = self.with_timeout(self.send(&self.url, Method::DELETE, Bytes::new(), headers)).await;
    }

    pub fn url(&self) -> &Uri {
        &self.url
    }

    pub async fn send(
        &self,
        url: &Uri,
        method: Method,
        body: Bytes,
        headers: &HeaderMap,
    ) -> Result<Response<Incoming>, McpClientError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.clone();
        let request_headers = request.headers_mut();
        request_headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request_headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        request_headers.extend(headers.clone());
        request_headers.extend(self.headers.clone());
        self.connections.request(request).await.map_err(|error| McpClientError::Unreachable(root_cause(&error)))
    }

    pub async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, McpClientError>>,
    ) -> Result<T, McpClientError> {
        let limit = format_duration(self.timeout);
        let timed_out = |_| McpClientError::Unreachable(format!("no response within {limit}"));
        timeout(self.timeout, work).await.map_err(timed_out)?
    }
}

/// Sends a GET request, and returns the response status.
pub async fn get_status(url: Uri, time: Duration) -> Result<u16, McpClientError> {
    let transport = ClientHttpTransport::new(url, HeaderMap::new(), time)?;
    let response =
        transport.with_timeout(transport.send(&transport.url, Method::GET, Bytes::new(), &HeaderMap::new())).await?;
    Ok(response.status().as_u16())
}

/// Sends a POST request, and returns the response status.
pub async fn post_for_status(
    url: Uri,
    body: String,
    headers: &HeaderMap,
    time: Duration,
) -> Result<u16, McpClientError> {
    let transport = ClientHttpTransport::new(url, HeaderMap::new(), time)?;
    let response = transport.with_timeout(transport.send(&transport.url, Method::POST, body.into(), headers)).await?;
    Ok(response.status().as_u16())
}

/// Downloads a file of at most `max_bytes`, without following redirects. `idle_timeout` limits each wait for data, and
/// `time` limits the whole download.
pub async fn download_bytes(
    url: Uri,
    time: Duration,
    idle_timeout: Duration,
    max_bytes: usize,
) -> Result<Bytes, McpClientError> {
    let transport = ClientHttpTransport::new(url, HeaderMap::new(), time)?;
    let idle_error = |_| McpClientError::Unreachable(format!("no data received for {}", format_duration(idle_timeout)));
    let exchange = async {
        let headers = HeaderMap::new();
        let sent = transport.send(&transport.url, Method::GET, Bytes::new(), &headers);
        let response = timeout(idle_timeout, sent).await.map_err(idle_error)??;
        let status = response.status();
        if status.is_redirection() {
            return Err(McpClientError::Status(status.as_u16(), "it redirects elsewhere; use that URL".to_owned()));
        }
        if !status.is_success() {
            return Err(McpClientError::Status(status.as_u16(), String::new()));
        }
        let mut body = Limited::new(response.into_body(), max_bytes);
        let mut bytes = BytesMut::new();
        while let Some(frame) = timeout(idle_timeout, body.frame()).await.map_err(idle_error)? {
            let frame = frame.map_err(|error| {
                McpClientError::Unreachable(format!("the file is incomplete or too large: {error}"))
            })?;
            bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        }
        Ok(bytes.freeze())
    };
    transport.with_timeout(exchange).await
}

async fn read_body(body: Incoming) -> Result<Bytes, McpClientError> {
    let exchange = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
    exchange
        .map(|exchange| exchange.to_bytes())
        .map_err(|error| McpClientError::Protocol(format!("the response is incomplete: {error}")))
}

async fn read_events(body: Incoming) -> Result<Vec<Bytes>, McpClientError> {
    let mut body = Limited::new(body, MAX_RESPONSE_BYTES);
    let mut decoder = SseDecoder::new(MAX_RESPONSE_BYTES);
    let mut messages: Vec<Bytes> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| McpClientError::Protocol(format!("the response is incomplete: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let pushed = decoder.push(&data, |message| messages.push(message.into()));
        pushed.map_err(|error| McpClientError::Protocol(error.to_string()))?;
        // Some servers keep the stream open after the response.
        if messages.iter().any(|message| is_response(message)) {
            break;
        }
    }
    Ok(messages)
}

pub fn is_response(message: &[u8]) -> bool {
    let message: Option<Value> = serde_json::from_slice(message).ok();
    message.is_some_and(|message| message.get("result").is_some() || message.get("error").is_some())
}

async fn status_error(status: StatusCode, body: Incoming) -> McpClientError {
    let text = read_body(body).await.unwrap_or_default();
    let message: Option<Value> = serde_json::from_slice(&text).ok();
    let reason = message.and_then(|message| message.get("error").map(|error| parse_rpc_error(error).message));
    McpClientError::Status(status.as_u16(), crate::diagnostic_report::escape_for_terminal(&reason.unwrap_or_default()))
}

/// Returns the innermost cause of an error, which says what happened. The outer errors only say where in the HTTP
/// library it happened.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
