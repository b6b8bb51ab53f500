//! Opens TCP and TLS connections to upstreams. TLS is set up on first use: loading the platform's trusted certificates
//! takes time and memory.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::runtime::coalescing_stream::CoalescingStream;

/// Opens connections.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    tls: Arc<OnceLock<HttpsConnector<HttpConnector>>>,
}

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS: {0}")]
pub(crate) struct TlsError(rustls::Error);

pub(super) type ConnectError = Box<dyn Error + Send + Sync>;

impl Connector {
    pub fn new(connect_timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_timeout));
        Self { tcp, tls: Arc::default() }
    }

    /// Opens a plain connection to the host of a URL.
    ///
    /// # Errors
    /// The host cannot be reached.
    pub async fn connect_tcp(self, url: Uri) -> Result<CoalescingStream, ConnectError> {
        let stream: TokioIo<TcpStream> = call_connector(self.tcp, url).await?;
        Ok(CoalescingStream(stream.into_inner()))
    }

    /// Opens a TLS connection to the host of a URL.
    ///
    /// # Errors
    /// The host cannot be reached, its certificate is invalid, or TLS cannot be set up.
    pub async fn connect_tls(self, url: Uri) -> Result<MaybeHttpsStream<TokioIo<TcpStream>>, ConnectError> {
        call_connector(self.tls_connector()?, url).await
    }

    /// Returns the TLS connector. Concurrent first calls may both create one; the first to finish is kept.
    pub fn tls_connector(&self) -> Result<HttpsConnector<HttpConnector>, TlsError> {
        if let Some(known) = self.tls.get() {
            return Ok(known.clone());
        }
        // An error means that a provider is installed already, which is fine.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let tls = rustls::ClientConfig::with_platform_verifier().map_err(TlsError)?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        let connector = builder.https_only().enable_http1().wrap_connector(self.tcp.clone());
        Ok(self.tls.get_or_init(|| connector).clone())
    }
}

async fn call_connector<S: Service<Uri, Error: Into<ConnectError>>>(
    mut connector: S,
    url: Uri,
) -> Result<S::Response, ConnectError> {
    std::future::poll_fn(|cx| connector.poll_ready(cx)).await.map_err(Into::into)?;
    connector.call(url).await.map_err(Into::into)
}
