//! Asks an index politely: again when it is busy, never without bounds.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
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

/// The longest wait for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(15);
/// The longest wait for a whole answer.
const TIME: Duration = Duration::from_secs(180);
/// Waits before another try.
const WAITS: [u64; 4] = [1, 3, 10, 30];
/// The longest wait that an index may ask for.
const LONGEST_WAIT: u64 = 120;
const MOST_REDIRECTS: usize = 5;
/// Tries of each connection after which one that has never answered is not there.
const FIRST_TRIES: usize = 3;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("not found")]
    NotFound,
    #[error("larger than may be")]
    TooLarge,
    #[error("status {0}")]
    Status(u16, Option<u64>),
    #[error("{0}")]
    Broken(String),
    /// Nobody has answered for long, whatever was asked for.
    #[error("nobody answers: {0}")]
    Gone(String),
}

impl FetchError {
    fn may_pass(&self) -> bool {
        match self {
            // Our own word for leading in a circle.
            Self::Status(508, _) | Self::NotFound | Self::TooLarge | Self::Gone(_) => false,
            Self::Status(status, _) => matches!(status, 429 | 408 | 500..),
            Self::Broken(_) => true,
        }
    }
}

/// What came, as indexes write it.
pub struct Hashes {
    /// In hexadecimal digits.
    pub sha256: String,
    /// In base64.
    pub sha512: String,
}

/// The way to an index and the files it lists.
pub struct Fetcher {
    pool: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    /// What the index's address says of who asks, and by which scheme and at which host it is told: nowhere else.
    credentials: Option<(String, String, HeaderValue)>,
    silence: Silence,
}

/// How long nobody has answered. It counts tries of all connections; an answer of any kind ends it.
#[derive(Default)]
struct Silence {
    tries: AtomicUsize,
    has_answered: AtomicBool,
    connections: usize,
}

impl Silence {
    fn end(&self) {
        self.tries.store(0, Ordering::Relaxed);
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Whether all connections have tried so often that nobody is there. Who answered before is waited for longer.
    fn is_long(&self) -> bool {
        let each = if self.has_answered.load(Ordering::Relaxed) { WAITS.len() + 1 } else { FIRST_TRIES };
        self.tries.load(Ordering::Relaxed) >= each * self.connections
    }
}

impl Fetcher {
    pub fn new(index: &Uri, connections: usize) -> Result<Self> {
        // An error means that one is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let tls = rustls::ClientConfig::with_platform_verifier().context("cannot set up TLS")?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIME));
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
        let silence = Silence { connections, ..Silence::default() };
        Ok(Self { pool: Client::builder(TokioExecutor::new()).build(connector), credentials, silence })
    }

    /// Gets a page as text.
    pub async fn text(&self, address: &Uri, accept: &'static str, most: usize) -> Result<String, FetchError> {
        self.patiently(async || {
            let mut bytes = Vec::new();
            self.body(address, accept, most, &mut |chunk| {
                bytes.extend_from_slice(chunk);
                Ok(())
            })
            .await?;
            String::from_utf8(bytes).map_err(|_| FetchError::Broken("the page is not text".to_owned()))
        })
        .await
    }

    /// Gets a file, into an empty file; gives the hashes of what came.
    pub async fn file(
        &self,
        address: &Uri,
        accept: &'static str,
        most: usize,
        fresh: impl Fn() -> std::io::Result<File>,
    ) -> Result<(File, Hashes), FetchError> {
        let broken = |error: std::io::Error| FetchError::Broken(error.to_string());
        self.patiently(async || {
            let mut file = fresh().map_err(broken)?;
            let (mut sha256, mut sha512) = (Sha256::new(), Sha512::new());
            self.body(address, accept, most, &mut |chunk| {
                sha256.update(chunk);
                sha512.update(chunk);
                file.write_all(chunk).map_err(broken)
            })
            .await?;
            let sha256 = HEXLOWER.encode(&sha256.finalize());
            Ok((file, Hashes { sha256, sha512: BASE64.encode(&sha512.finalize()) }))
        })
        .await
    }

    /// Tries again after what may pass.
    async fn patiently<T>(&self, attempt: impl AsyncFn() -> Result<T, FetchError>) -> Result<T, FetchError> {
        let in_time = async || {
            let late = |_| Err(FetchError::Broken(format!("no whole answer within {} s", TIME.as_secs())));
            tokio::time::timeout(TIME, attempt()).await.unwrap_or_else(late)
        };
        for wait in WAITS {
            let error = match in_time().await {
                Err(error) if error.may_pass() => error,
                done => return done,
            };
            if self.silence.is_long() {
                return Err(FetchError::Gone(error.to_string()));
            }
            let asked = if let FetchError::Status(_, asked) = error { asked } else { None };
            tokio::time::sleep(Duration::from_secs(asked.unwrap_or(wait).min(LONGEST_WAIT))).await;
        }
        in_time().await
    }

    async fn body(
        &self,
        address: &Uri,
        accept: &'static str,
        most: usize,
        take: &mut dyn FnMut(&[u8]) -> Result<(), FetchError>,
    ) -> Result<(), FetchError> {
        let mut body = self.open(address, accept).await?.into_body();
        let mut left = most;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| FetchError::Broken(format!("the answer broke off: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            left = left.checked_sub(data.len()).ok_or(FetchError::TooLarge)?;
            take(&data)?;
        }
        Ok(())
    }

    async fn open(&self, address: &Uri, accept: &'static str) -> Result<Response<Incoming>, FetchError> {
        let mut address = address.clone();
        for _ in 0..=MOST_REDIRECTS {
            let response = self.ask(&address, accept).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            if !status.is_redirection() {
                return Err(refused(&response));
            }
            let next = response.headers().get(LOCATION).and_then(|next| next.to_str().ok());
            let next = next.and_then(|next| super::address::joined(&address, next));
            let is_safe = |next: &Uri| address.scheme_str() != Some("https") || next.scheme_str() == Some("https");
            address = next.filter(is_safe).ok_or(FetchError::Status(status.as_u16(), None))?;
        }
        Err(FetchError::Status(StatusCode::LOOP_DETECTED.as_u16(), None))
    }

    async fn ask(&self, address: &Uri, accept: &'static str) -> Result<Response<Incoming>, FetchError> {
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
                self.silence.end();
                Ok(response)
            }
            Err(error) => {
                self.silence.tries.fetch_add(1, Ordering::Relaxed);
                Err(FetchError::Broken(innermost(&error)))
            }
        }
    }
}

fn refused(response: &Response<Incoming>) -> FetchError {
    match response.status() {
        StatusCode::NOT_FOUND | StatusCode::GONE => FetchError::NotFound,
        status => {
            let wait = response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok());
            FetchError::Status(status.as_u16(), wait.and_then(|wait| wait.parse().ok()))
        }
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
