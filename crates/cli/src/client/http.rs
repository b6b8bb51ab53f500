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

use super::ClientError;
use super::message::{Answer, refused};

/// The largest answer.
pub const MAX_BYTES: usize = 64 << 20;
/// The longest wait for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The way to one server.
#[derive(Clone)]
pub struct Wire {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    headers: HeaderMap,
    time: Duration,
}

impl Wire {
    /// Makes the way; nothing is sent yet. `headers` go with every request.
    pub fn new(url: Uri, headers: HeaderMap, time: Duration) -> Result<Self, ClientError> {
        // An error means that one is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        // A plain server can be reached from a machine that trusts nobody.
        let tls = if url.scheme() == Some(&Scheme::HTTPS) {
            rustls::ClientConfig::with_platform_verifier()
                .map_err(|error| ClientError::Unreachable(format!("cannot set up TLS: {error}")))?
        } else {
            rustls::ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIME));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Self { pool: Pool::builder(TokioExecutor::new()).build(connector), url, headers, time })
    }

    /// Sends a request, and reads its answer to the end.
    pub async fn post(&self, body: String, headers: &HeaderMap) -> Result<Answer, ClientError> {
        let whole = async {
            let response = self.send(&self.url, Method::POST, body.into(), headers).await?;
            let (head, body) = response.into_parts();
            let session = head.headers.get("mcp-session-id").cloned();
            let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let is_stream = kind.starts_with("text/event-stream");
            if !head.status.is_success() {
                return Err(said_no(head.status, body).await);
            }
            let messages = if is_stream { events(body).await? } else { vec![read(body).await?] };
            Ok(Answer { session, messages })
        };
        self.within(whole).await
    }

    /// Sends what has no answer.
    pub async fn tell(&self, body: String, headers: &HeaderMap) -> Result<(), ClientError> {
        self.tell_at(&self.url, body, headers).await
    }

    /// The same at another address of the server.
    pub async fn tell_at(&self, url: &Uri, body: String, headers: &HeaderMap) -> Result<(), ClientError> {
        self.within(async {
            let response = self.send(url, Method::POST, body.into(), headers).await?;
            let (head, body) = response.into_parts();
            if head.status.is_success() { Ok(()) } else { Err(said_no(head.status, body).await) }
        })
        .await
    }

    /// Ends a session. Whether the server cares is its business.
    pub async fn end(&self, headers: &HeaderMap) {
        let _ = self.within(self.send(&self.url, Method::DELETE, Bytes::new(), headers)).await;
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
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.clone();
        let own = request.headers_mut();
        own.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        own.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        own.extend(headers.clone());
        own.extend(self.headers.clone());
        self.pool.request(request).await.map_err(|error| ClientError::Unreachable(innermost(&error)))
    }

    pub async fn within<T>(&self, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        let seconds = self.time.as_secs();
        let late = |_| ClientError::Unreachable(format!("no answer within {seconds} s"));
        timeout(self.time, work).await.map_err(late)?
    }
}

/// Gets a page, and gives its status.
pub async fn get(url: Uri, time: Duration) -> Result<u16, ClientError> {
    let wire = Wire::new(url, HeaderMap::new(), time)?;
    let response = wire.within(wire.send(&wire.url, Method::GET, Bytes::new(), &HeaderMap::new())).await?;
    Ok(response.status().as_u16())
}

/// Posts a text, and gives the status of the answer.
pub async fn post(url: Uri, body: String, headers: &HeaderMap, time: Duration) -> Result<u16, ClientError> {
    let wire = Wire::new(url, HeaderMap::new(), time)?;
    let response = wire.within(wire.send(&wire.url, Method::POST, body.into(), headers)).await?;
    Ok(response.status().as_u16())
}

/// Gets a file of at most so many bytes. It is not looked for elsewhere. Whoever says nothing for as long as `silence` is
/// not waited for; `time` is for the whole.
pub async fn download(url: Uri, time: Duration, silence: Duration, most: usize) -> Result<Bytes, ClientError> {
    let wire = Wire::new(url, HeaderMap::new(), time)?;
    let still = |_| ClientError::Unreachable(format!("nothing came for {} s", silence.as_secs()));
    let whole = async {
        let headers = HeaderMap::new();
        let sent = wire.send(&wire.url, Method::GET, Bytes::new(), &headers);
        let response = timeout(silence, sent).await.map_err(still)??;
        let status = response.status();
        if status.is_redirection() {
            return Err(ClientError::Status(status.as_u16(), "it leads elsewhere; name that address".to_owned()));
        }
        if !status.is_success() {
            return Err(ClientError::Status(status.as_u16(), String::new()));
        }
        let mut body = Limited::new(response.into_body(), most);
        let mut bytes = BytesMut::new();
        while let Some(frame) = timeout(silence, body.frame()).await.map_err(still)? {
            let frame = frame
                .map_err(|error| ClientError::Unreachable(format!("the file broke off or is too large: {error}")))?;
            bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        }
        Ok(bytes.freeze())
    };
    wire.within(whole).await
}

async fn read(body: Incoming) -> Result<Bytes, ClientError> {
    let whole = Limited::new(body, MAX_BYTES).collect().await;
    whole.map(|whole| whole.to_bytes()).map_err(|error| ClientError::NotMcp(format!("the answer broke off: {error}")))
}

async fn events(body: Incoming) -> Result<Vec<Bytes>, ClientError> {
    let mut body = Limited::new(body, MAX_BYTES);
    let mut decoder = SseDecoder::new(MAX_BYTES);
    let mut messages: Vec<Bytes> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ClientError::NotMcp(format!("the answer broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let pushed = decoder.push(&data, |message| messages.push(message.into()));
        pushed.map_err(|error| ClientError::NotMcp(error.to_string()))?;
        // Some servers keep the stream open after the answer.
        if messages.iter().any(|message| is_answer(message)) {
            break;
        }
    }
    Ok(messages)
}

pub fn is_answer(message: &[u8]) -> bool {
    let message: Option<Value> = serde_json::from_slice(message).ok();
    message.is_some_and(|message| message.get("result").is_some() || message.get("error").is_some())
}

async fn said_no(status: StatusCode, body: Incoming) -> ClientError {
    let text = read(body).await.unwrap_or_default();
    let message: Option<Value> = serde_json::from_slice(&text).ok();
    let why = message.and_then(|message| message.get("error").map(|error| refused(error).message));
    ClientError::Status(status.as_u16(), crate::diagnostic_report::escape_for_terminal(&why.unwrap_or_default()))
}

/// The last cause says what happened; those before it say where in the library.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
