//! Sends permitted requests to upstreams, over the transport of each.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;

use super::http::UpstreamHttpClient;
use super::message_demux::UpstreamConnectionSharing;
use super::multiplexed_peer::MultiplexedPeer;
use super::process::ProcessSpawner;
use super::sse::UpstreamSseConnection;
use super::{
    Permit, ServerProcess, Upstream, UpstreamConfig, UpstreamHttpConfig, UpstreamProcessConfig, UpstreamRequest,
    UpstreamResponse, UpstreamSendError, UpstreamSessionLink, UpstreamTransport,
};
use crate::settings::GatewaySettings;

/// The future that sends a request, with one variant per transport.
enum SendFuture<'a, P> {
    Http(P),
    Boxed(Pin<Box<dyn Future<Output = Result<UpstreamResponse, UpstreamSendError>> + Send + 'a>>),
    /// The upstream session was lost and must be reopened first.
    SessionLost,
}

/// Sends all requests to upstreams.
pub(crate) struct UpstreamClient {
    http: UpstreamHttpClient,
    process_spawner: ProcessSpawner,
}

impl UpstreamClient {
    pub fn new(settings: &GatewaySettings, workers: usize, dropped_messages: Counter) -> Self {
        let max_bytes = settings.reply_limits.max_bytes;
        let process_spawner = ProcessSpawner { supervisor: settings.supervisor.clone(), max_bytes, dropped_messages };
        Self { http: UpstreamHttpClient::new(settings.connect_timeout, workers, max_bytes), process_spawner }
    }

    /// Sets up TLS before the first call. A failure is logged immediately and returned by each call to a server with
    /// TLS.
    pub fn prepare_tls_for(&self, servers: &[UpstreamConfig]) {
        let mut secure = servers.iter().filter(|server| server.uses_tls()).peekable();
        if secure.peek().is_some()
            && let Err(error) = self.http.prepare_tls()
        {
            for UpstreamConfig { name, .. } in secure {
                tracing::error!(server.name = %name, %error, "calls to `{name}` will not be sent: {error}");
            }
        }
    }

    /// Sends the request that a permit allows, and returns the start of the response.
    // Boxed except for plain HTTP, so that the common future stays small.
    pub fn send<'a>(
        &'a self,
        upstream: &'a Upstream,
        permit: Permit,
    ) -> impl Future<Output = Result<UpstreamResponse, UpstreamSendError>> + use<'a> {
        let outgoing = permit.into_request();
        let sending = match &upstream.config.transport {
            _ if outgoing.session_link.needs_reopen(upstream) => SendFuture::SessionLost,
            UpstreamTransport::Http(config)
                if matches!(outgoing.session_link, UpstreamSessionLink::Http(_))
                    || outgoing.stateless_headers.is_some() =>
            {
                SendFuture::Http(self.http.send(upstream, config, outgoing))
            }
            UpstreamTransport::Http(config) => {
                SendFuture::Boxed(Box::pin(self.send_over_http(upstream, config, outgoing)))
            }
            UpstreamTransport::Process(config) => {
                SendFuture::Boxed(Box::pin(self.send_to_process(upstream, config, outgoing)))
            }
        };
        async move {
            match sending {
                SendFuture::Http(sending) => sending.await,
                SendFuture::Boxed(sending) => sending.await,
                SendFuture::SessionLost => {
                    Err(UpstreamSendError::NotSent("the session could not be reopened at the server".to_owned()))
                }
            }
        }
    }

    async fn send_to_process(
        &self,
        upstream: &Upstream,
        config: &UpstreamProcessConfig,
        outgoing: UpstreamRequest,
    ) -> Result<UpstreamResponse, UpstreamSendError> {
        let process = match (&outgoing.session_link, &outgoing.stateless_headers) {
            (UpstreamSessionLink::Process(process), _) => Arc::clone(process),
            (_, Some(_)) => upstream.get_or_start_shared_process(config, &self.process_spawner)?,
            // A handshake starts a session, and each session has its own process.
            (_, None) => {
                ServerProcess::start(upstream, config, &self.process_spawner, UpstreamConnectionSharing::Session)?
            }
        };
        MultiplexedPeer::Process(process).send(outgoing).await
    }

    /// Sends a request that may start a session, or that belongs to an HTTP+SSE session.
    async fn send_over_http(
        &self,
        upstream: &Upstream,
        config: &UpstreamHttpConfig,
        outgoing: UpstreamRequest,
    ) -> Result<UpstreamResponse, UpstreamSendError> {
        if let UpstreamSessionLink::Sse(connection) = &outgoing.session_link {
            return MultiplexedPeer::Sse(Arc::clone(connection)).send(outgoing).await;
        }
        if upstream.uses_sse_transport.load(Ordering::Relaxed) && outgoing.is_handshake() {
            if let Ok(Some(connection)) = self.open_sse(upstream, config).await {
                return MultiplexedPeer::Sse(connection).send(outgoing).await;
            }
            // The server may have been replaced.
            upstream.uses_sse_transport.store(false, Ordering::Relaxed);
        }
        let sent = self.http.send(upstream, config, outgoing.clone()).await;
        let status = match &sent {
            Ok(exchange) => exchange.status.as_u16(),
            Err(UpstreamSendError::Status(status)) => *status,
            Err(_) => return sent,
        };
        // Replies of HTTP+SSE servers to a POST at this URL. Opening the stream shows whether it is one.
        let may_be_sse = matches!(status, 400 | 404 | 405) && upstream.supports_stateless() != Some(true);
        if !may_be_sse || !outgoing.is_handshake() {
            return sent;
        }
        match self.open_sse(upstream, config).await? {
            Some(connection) => {
                upstream.uses_sse_transport.store(true, Ordering::Relaxed);
                MultiplexedPeer::Sse(connection).send(outgoing).await
            }
            None => sent,
        }
    }

    async fn open_sse(
        &self,
        upstream: &Upstream,
        config: &UpstreamHttpConfig,
    ) -> Result<Option<Arc<UpstreamSseConnection>>, UpstreamSendError> {
        UpstreamSseConnection::open(&self.http, upstream, config, &self.process_spawner.dropped_messages).await
    }
}
