//! HTTP client for package registries, with size limits, timeouts and retries.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use gatelodge_policy::format_duration;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls_platform_verifier::ConfigVerifierExt;
use sha2::{Digest, Sha256, Sha512};

/// Time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for a complete response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(180);
/// Delays before retries.
const RETRY_DELAYS_SECONDS: [u64; 4] = [1, 3, 10, 30];
/// Longest `Retry-After` delay that is honored.
const MAX_RETRY_DELAY_SECONDS: u64 = 120;
const MAX_REDIRECTS: usize = 5;
/// Number of failed attempts per connection after which the registry is considered unreachable, as long as it has never
/// answered.
const TRIES_BEFORE_FIRST_RESPONSE: usize = 3;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("not found")]
    NotFound,
    #[error("larger than the limit")]
    TooLarge,
    #[error("status {0}")]
    Status(u16, Option<u64>),
    #[error("{0}")]
    Failed(String),
    /// The registry has not answered any request for some time.
    #[error("no answer: {0}")]
    Unresponsive(String),
}

impl FetchError {
    fn is_transient(&self) -> bool {
        match self {
            // Our own status for too many redirects.
            Self::Status(508, _) | Self::NotFound | Self::TooLarge | Self::Unresponsive(_) => false,
            Self::Status(status, _) => matches!(status, 429 | 408 | 500..),
            Self::Failed(_) => true,
        }
    }
}

/// Hashes of a fetched file, in the encodings that registries use.
pub struct FileHashes {
    /// The SHA-256 hash in hexadecimal.
    pub sha256: String,
    /// The SHA-512 hash in base64.
    pub sha512: String,
}

/// Client for one registry and the files that it lists.
pub struct RegistryClient {
    pool: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    /// Scheme and host of the registry, and the credentials from its URL, which are sent only to that scheme and host.
    credentials: Option<(String, String, HeaderValue)>,
    outage_detector: OutageDetector,
}

/// Detects that the registry is unreachable by counting the attempts that have failed, on any connection, since the
/// last response.
#[derive(Default)]
struct OutageDetector {
    failed_tries: AtomicUsize,
    has_responded: AtomicBool,
    connections: usize,
}

impl OutageDetector {
    fn record_response(&self) {
        self.failed_tries.store(0, Ordering::Relaxed);
        self.has_responded.store(true, Ordering::Relaxed);
    }

    /// Returns whether enough attempts have failed to consider the registry unreachable. More attempts are allowed if
    /// it has answered before.
    fn is_outage(&self) -> bool {
        let each = if self.has_responded.load(Ordering::Relaxed) {
            RETRY_DELAYS_SECONDS.len() + 1
        } else {
            TRIES_BEFORE_FIRST_RESPONSE
        };
        self.failed_tries.load(Ordering::Relaxed) >= each * self.connections
    }
}

impl RegistryClient {
    pub fn new(index: &Uri, connections: usize) -> Result<Self> {
        // An error means that a provider is already installed.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let tls = rustls::ClientConfig::with_platform_verifier().context("cannot set up TLS")?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let userinfo = index.authority().and_then(|authority| authority.as_str().rsplit_once('@'));
        let credentials = userinfo.and_then(|(user, host)| {
            let mut value = HeaderValue::try_from(format!("Basic {}", BASE64.encode(user.as_bytes()))).ok()?;
            value.set_sensitive(true);
            Some((index.scheme_str()?.to_owned(), host.to_owned(), value))
        });
        let silence = OutageDetector { connections, ..OutageDetector::default() };
        Ok(Self { pool: Client::builder(TokioExecutor::new()).build(connector), credentials, outage_detector: silence })
    }

    /// Fetches a page as text.
    pub async fn fetch_text(&self, address: &Uri, accept: &'static str, most: usize) -> Result<String, FetchError> {
        self.retry(async || {
            let mut bytes = Vec::new();
            self.read_body(address, accept, most, &mut |chunk| {
                bytes.extend_from_slice(chunk);
                Ok(())
            })
            .await?;
            String::from_utf8(bytes).map_err(|_| FetchError::Failed("the page is not text".to_owned()))
        })
        .await
    }

    /// Fetches a file into `file`, which must be empty, and returns its hashes.
    pub async fn fetch_file(
        &self,
        address: &Uri,
        accept: &'static str,
        most: usize,
        fresh: impl Fn() -> std::io::Result<File>,
    ) -> Result<(File, FileHashes), FetchError> {
        let broken = |error: std::io::Error| FetchError::Failed(error.to_string());
        self.retry(async || {
            let mut file = fresh().map_err(broken)?;
            let (mut sha256, mut sha512) = (Sha256::new(), Sha512::new());
            self.read_body(address, accept, most, &mut |chunk| {
                sha256.update(chunk);
                sha512.update(chunk);
                file.write_all(chunk).map_err(broken)
            })
            .await?;
            let sha256 = HEXLOWER.encode(&sha256.finalize());
            Ok((file, FileHashes { sha256, sha512: BASE64.encode(&sha512.finalize()) }))
        })
        .await
    }

    /// Runs `attempt`, and repeats it after transient errors.
    async fn retry<T>(&self, attempt: impl AsyncFn() -> Result<T, FetchError>) -> Result<T, FetchError> {
        let in_time = async || {
            let late = |_| {
                Err(FetchError::Failed(format!("no complete response within {}", format_duration(RESPONSE_TIMEOUT))))
            };
            tokio::time::timeout(RESPONSE_TIMEOUT, attempt()).await.unwrap_or_else(late)
        };
        for wait in RETRY_DELAYS_SECONDS {
            let error = match in_time().await {
                Err(error) if error.is_transient() => error,
                done => return done,
            };
            if self.outage_detector.is_outage() {
                return Err(FetchError::Unresponsive(error.to_string()));
            }
            let asked = if let FetchError::Status(_, asked) = error { asked } else { None };
            tokio::time::sleep(Duration::from_secs(asked.unwrap_or(wait).min(MAX_RETRY_DELAY_SECONDS))).await;
        }
        in_time().await
    }

    async fn read_body(
        &self,
        address: &Uri,
        accept: &'static str,
        most: usize,
        take: &mut dyn FnMut(&[u8]) -> Result<(), FetchError>,
    ) -> Result<(), FetchError> {
        let mut body = self.follow_redirects(address, accept).await?.into_body();
        let mut left = most;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| FetchError::Failed(format!("the response ended early: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            left = left.checked_sub(data.len()).ok_or(FetchError::TooLarge)?;
            take(&data)?;
        }
        Ok(())
    }

    async fn follow_redirects(&self, address: &Uri, accept: &'static str) -> Result<Response<Incoming>, FetchError> {
        let mut address = address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_request(&address, accept).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            if !status.is_redirection() {
                return Err(status_error(&response));
            }
            let next = response.headers().get(LOCATION).and_then(|next| next.to_str().ok());
            let next = next.and_then(|next| super::registry_url::resolve_url(&address, next));
            let is_safe = |next: &Uri| address.scheme_str() != Some("https") || next.scheme_str() == Some("https");
            address = next.filter(is_safe).ok_or(FetchError::Status(status.as_u16(), None))?;
        }
        Err(FetchError::Status(StatusCode::LOOP_DETECTED.as_u16(), None))
    }

    async fn send_request(&self, address: &Uri, accept: &'static str) -> Result<Response<Incoming>, FetchError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = address.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("gatelodge/", env!("CARGO_PKG_VERSION"))));
        if let (Some((scheme, host, value)), Some(authority)) = (&self.credentials, address.authority())
            && authority.as_str().rsplit('@').next() == Some(host)
            && address.scheme_str() == Some(scheme)
        {
            headers.insert(AUTHORIZATION, value.clone());
        }
        match self.pool.request(request).await {
            Ok(response) => {
                self.outage_detector.record_response();
                Ok(response)
            }
            Err(error) => {
                self.outage_detector.failed_tries.fetch_add(1, Ordering::Relaxed);
                Err(FetchError::Failed(root_cause(&error)))
            }
        }
    }
}

fn status_error(response: &Response<Incoming>) -> FetchError {
    match response.status() {
        StatusCode::NOT_FOUND | StatusCode::GONE => FetchError::NotFound,
        status => {
            let wait = response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok());
            FetchError::Status(status.as_u16(), wait.and_then(|wait| wait.parse().ok()))
        }
    }
}

/// Returns the innermost cause of an error. The outer errors only name layers of the HTTP library.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
