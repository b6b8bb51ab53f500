//! HTTP for the client: bounded in time and size, never redirected.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gatelodge_mcp::SseDecoder;
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

/// The largest answer.
pub const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The way to one server.
#[derive(Clone)]
pub struct HttpTransport {
    connections: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    headers: HeaderMap,
    timeout: Duration,
}

impl HttpTransport {
    /// Makes the way; nothing is sent yet. `headers` go with every request.
    pub fn new(url: Uri, headers: HeaderMap, time: Duration) -> Result<Self, McpClientError> {
        // An error means that one is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        // A plain server can be reached from a machine that trusts nobody.
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
        Ok(Self { connections: Pool::builder(TokioExecutor::new()).build(connector), url, headers, timeout: time })
    }

    /// Sends a request, and reads its answer to the end.
    pub async fn post(&self, body: String, headers: &HeaderMap) -> Result<TransportResponse, McpClientError> {
        let whole = async {
            let response = self.send(&self.url, Method::POST, body.into(), headers).await?;
            let (head, body) = response.into_parts();
            let session = head.headers.get("mcp-session-id").cloned();
            let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let is_stream = kind.starts_with("text/event-stream");
            if !head.status.is_success() {
                return Err(status_error(head.status, body).await);
            }
            let messages = if is_stream { read_events(body).await? } else { vec![read_body(body).await?] };
            Ok(TransportResponse { session_id: session, messages })
        };
        self.with_timeout(whole).await
    }

    /// Sends what has no answer.
    pub async fn notify(&self, body: String, headers: &HeaderMap) -> Result<(), McpClientError> {
        self.notify_at(&self.url, body, headers).await
    }

    /// The same at another address of the server.
    pub async fn notify_at(&self, url: &Uri, body: String, headers: &HeaderMap) -> Result<(), McpClientError> {
        self.with_timeout(async {
            let response = self.send(url, Method::POST, body.into(), headers).await?;
            let (head, body) = response.into_parts();
            if head.status.is_success() { Ok(()) } else { Err(status_error(head.status, body).await) }
        })
        .await
    }

    /// Ends a session. Whether the server cares is its business.
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
        let own = request.headers_mut();
        own.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        own.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        own.extend(headers.clone());
        own.extend(self.headers.clone());
        self.connections.request(request).await.map_err(|error| McpClientError::Unreachable(root_cause(&error)))
    }

    pub async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, McpClientError>>,
    ) -> Result<T, McpClientError> {
        let seconds = self.timeout.as_secs();
        let late = |_| McpClientError::Unreachable(format!("no answer within {seconds} s"));
        timeout(self.timeout, work).await.map_err(late)?
    }
}

/// Gets a page, and gives its status.
pub async fn get_status(url: Uri, time: Duration) -> Result<u16, McpClientError> {
    let wire = HttpTransport::new(url, HeaderMap::new(), time)?;
    let response = wire.with_timeout(wire.send(&wire.url, Method::GET, Bytes::new(), &HeaderMap::new())).await?;
    Ok(response.status().as_u16())
}

/// Posts a text, and gives the status of the answer.
pub async fn post_for_status(
    url: Uri,
    body: String,
    headers: &HeaderMap,
    time: Duration,
) -> Result<u16, McpClientError> {
    let wire = HttpTransport::new(url, HeaderMap::new(), time)?;
    let response = wire.with_timeout(wire.send(&wire.url, Method::POST, body.into(), headers)).await?;
    Ok(response.status().as_u16())
}

/// Gets a file of at most so many bytes. It is not looked for elsewhere. Whoever says nothing for as long as `silence` is
/// not waited for; `time` is for the whole.
pub async fn download_bytes(url: Uri, time: Duration, silence: Duration, most: usize) -> Result<Bytes, McpClientError> {
    let wire = HttpTransport::new(url, HeaderMap::new(), time)?;
    let still = |_| McpClientError::Unreachable(format!("nothing came for {} s", silence.as_secs()));
    let whole = async {
        let headers = HeaderMap::new();
        let sent = wire.send(&wire.url, Method::GET, Bytes::new(), &headers);
        let response = timeout(silence, sent).await.map_err(still)??;
        let status = response.status();
        if status.is_redirection() {
            return Err(McpClientError::Status(status.as_u16(), "it leads elsewhere; name that address".to_owned()));
        }
        if !status.is_success() {
            return Err(McpClientError::Status(status.as_u16(), String::new()));
        }
        let mut body = Limited::new(response.into_body(), most);
        let mut bytes = BytesMut::new();
        while let Some(frame) = timeout(silence, body.frame()).await.map_err(still)? {
            let frame = frame
                .map_err(|error| McpClientError::Unreachable(format!("the file broke off or is too large: {error}")))?;
            bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        }
        Ok(bytes.freeze())
    };
    wire.with_timeout(whole).await
}

async fn read_body(body: Incoming) -> Result<Bytes, McpClientError> {
    let whole = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
    whole
        .map(|whole| whole.to_bytes())
        .map_err(|error| McpClientError::Protocol(format!("the answer broke off: {error}")))
}

async fn read_events(body: Incoming) -> Result<Vec<Bytes>, McpClientError> {
    let mut body = Limited::new(body, MAX_RESPONSE_BYTES);
    let mut decoder = SseDecoder::new(MAX_RESPONSE_BYTES);
    let mut messages: Vec<Bytes> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| McpClientError::Protocol(format!("the answer broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let pushed = decoder.push(&data, |message| messages.push(message.into()));
        pushed.map_err(|error| McpClientError::Protocol(error.to_string()))?;
        // Some servers keep the stream open after the answer.
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
    let why = message.and_then(|message| message.get("error").map(|error| parse_rpc_error(error).message));
    McpClientError::Status(status.as_u16(), crate::diagnostic_report::escape_for_terminal(&why.unwrap_or_default()))
}

/// The last cause says what happened; those before it say where in the library.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
