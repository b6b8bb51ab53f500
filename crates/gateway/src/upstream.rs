//! The connection to a configured server: its transport, its tools, and sending messages to it.

mod definition_fingerprint;
mod http_client;
mod message_demux;
mod multiplexed_peer;
mod restart_backoff;
mod secret_redactor;
mod server_process;
mod tool_registry;
mod upstream_request;
mod upstream_response;
mod upstream_sse_client;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use ::http::Uri;
use ::http::header::{HOST, HeaderMap};
use ::http::uri::Scheme;
use arc_swap::ArcSwapOption;
use gatelodge_mcp::{ProtocolGeneration, Revision};
use gatelodge_store::{ServerName, ServerTools};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{Mutex, Semaphore};

pub(crate) use http_client::CollectorClient;
pub use secret_redactor::{MIN_SECRET_BYTES, SecretRedactor};
pub use server_process::UpstreamProcessConfig;
pub(crate) use server_process::{ServerProcess, to_line};
pub(crate) use tool_registry::{CachedToolList, ListResponseBaseline, ToolListing, ToolRegistry, UpstreamTool};
pub(crate) use upstream_request::{
    StatelessHeaders, UpstreamRequest, UpstreamRequestKind, UpstreamSendError, UpstreamSessionLink,
    UpstreamStreamResumeTarget,
};
pub(crate) use upstream_response::UpstreamResponse;

use self::http_client::UpstreamHttpClient;
use self::message_demux::UpstreamConnectionSharing;
use self::multiplexed_peer::MultiplexedPeer;
use self::restart_backoff::RestartBackoff;
use self::server_process::ProcessSpawner;
use self::upstream_sse_client::UpstreamSseConnection;
use crate::pipeline::Permit;
use crate::runtime::InFlightLimit;
use crate::settings::{GatewaySettings, InjectedHeader};
use crate::tool_categories::ServerToolCategories;

/// Configuration of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Name of the server, which is the last segment of its URL at the gateway.
    pub name: ServerName,
    /// Transport and address.
    pub transport: UpstreamTransport,
    /// Whether the call log keeps argument values.
    pub log_arguments: bool,
    /// Which tool definitions are pinned automatically.
    pub pinning: PinningSettings,
}

/// Which tool definitions are pinned without an operator's review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinningSettings {
    /// Require a review of every definition, including those in the first listing.
    pub review: bool,
    /// Pin new tools automatically.
    pub accept_new: bool,
    /// Maximum age of the tool listing when a tool is called, because not every server sends `list_changed`. If zero,
    /// the tools are listed before each call.
    pub check_definitions: Duration,
}

impl Default for PinningSettings {
    fn default() -> Self {
        Self { review: false, accept_new: false, check_definitions: Duration::from_secs(60) }
    }
}

impl UpstreamConfig {
    /// Returns whether the server is reached over TLS.
    fn uses_tls(&self) -> bool {
        matches!(&self.transport, UpstreamTransport::Http(config) if config.url.scheme() == Some(&Scheme::HTTPS))
    }

    /// Returns a redactor for all secrets sent to the server.
    pub fn secret_redactor(&self) -> SecretRedactor {
        match &self.transport {
            UpstreamTransport::Process(process) => SecretRedactor::new(&process.secrets),
            UpstreamTransport::Http(http) => {
                // URL queries may hold keys too. Only secret-looking parameters: other values occur in normal
                // responses.
                let pairs = http.url.query().into_iter().flat_map(|query| query.split('&'));
                let values = pairs.filter_map(|pair| pair.split_once('=').filter(|(name, _)| is_secret_name(name)));
                let values: Vec<String> = values.map(|(_, value)| value.to_owned()).collect();
                SecretRedactor::new(http.headers.iter().flat_map(|header| &header.secrets).chain(&values))
            }
        }
    }
}

/// Returns whether a query parameter with this name is likely to hold a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "password", "auth", "sig", "credential", "code"].iter().any(|part| name.contains(part))
}

/// Transport of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamTransport {
    /// Streamable HTTP, or HTTP+SSE.
    Http(UpstreamHttpConfig),
    /// Stdio: a process started by the gateway.
    Process(UpstreamProcessConfig),
}

/// Address of an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamHttpConfig {
    /// URL of the MCP endpoint.
    pub url: Uri,
    /// Headers sent with each request.
    pub headers: Vec<InjectedHeader>,
}

/// A server in the active configuration.
#[derive(Debug)]
pub struct Upstream {
    config: UpstreamConfig,
    /// Headers sent with each request: the configured ones and `Host`.
    headers: HeaderMap,
    secrets: Arc<SecretRedactor>,
    pub(crate) in_flight: Arc<InFlightLimit>,
    pub(crate) tool_registry: Arc<ToolRegistry>,
    /// Categories of the pinned tools when they were last loaded.
    pub(crate) tool_categories: ArcSwapOption<ServerToolCategories>,
    /// Hash of the pinned definitions and category overrides when they were last loaded.
    pins_hash: std::sync::Mutex<Option<u64>>,
    /// How many times `pins_hash` has changed.
    pins_epoch: AtomicU64,
    /// Limits how many processes the server may have.
    process_slots: Arc<Semaphore>,
    restart_backoff: Arc<RestartBackoff>,
    /// The process that serves stateless requests.
    shared_process: std::sync::Mutex<Option<Arc<ServerProcess>>>,
    /// Whether the server supports the stateless protocol: 0 unknown, 1 yes, 2 no. Written by the probe, read by every
    /// request from a stateless client.
    stateless_support: AtomicU8,
    /// Whether the server has declared support for tasks in stateless requests, or has created a task.
    has_tasks: AtomicBool,
    /// Whether the last handshake used HTTP+SSE, in which case the next one tries it first. Written by each handshake.
    uses_sse_transport: AtomicBool,
    /// The revisions listed by `server/discover`; empty until then. Written and read together with `stateless_support`.
    supported_revisions: std::sync::Mutex<Vec<Revision>>,
    /// Held while the server is probed, so that concurrent requests probe it only once.
    pub(crate) probe_lock: Mutex<()>,
}

impl Upstream {
    pub(crate) fn new(config: UpstreamConfig, in_flight: usize, processes: usize) -> Self {
        let mut headers = HeaderMap::new();
        if let UpstreamTransport::Http(http) = &config.transport {
            for header in &http.headers {
                let mut value = header.value.clone();
                value.set_sensitive(true);
                headers.append(header.name.clone(), value);
            }
            if !headers.contains_key(HOST) {
                headers.extend(http_client::host_header(&http.url).map(|host| (HOST, host)));
            }
        }
        let secrets = Arc::new(config.secret_redactor());
        Self {
            config,
            headers,
            secrets,
            in_flight: InFlightLimit::new(in_flight),
            tool_registry: Arc::default(),
            tool_categories: ArcSwapOption::empty(),
            pins_hash: std::sync::Mutex::default(),
            pins_epoch: AtomicU64::new(0),
            process_slots: Arc::new(Semaphore::new(processes)),
            restart_backoff: Arc::default(),
            shared_process: std::sync::Mutex::default(),
            stateless_support: AtomicU8::new(0),
            has_tasks: AtomicBool::new(false),
            uses_sse_transport: AtomicBool::new(false),
            supported_revisions: std::sync::Mutex::default(),
            probe_lock: Mutex::default(),
        }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &UpstreamConfig {
        &self.config
    }

    pub(crate) fn name(&self) -> &ServerName {
        &self.config.name
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) fn secret_redactor(&self) -> &Arc<SecretRedactor> {
        &self.secrets
    }

    /// Records the hash of pins and overrides. A change starts a new epoch, which revalidates open streams. The first
    /// listing does not start one, because no client can have seen it yet.
    pub(crate) fn note_pins(&self, tools: &ServerTools, is_first: bool) {
        let pins = tools.pinned.iter().map(|pin| hash_of(&(&pin.definition.name, &pin.definition.fingerprint)));
        let overrides = tools
            .category_overrides
            .iter()
            .map(|overrides| hash_of(&(&overrides.tool, overrides.category.as_str(), &overrides.fingerprint)));
        // The sum does not depend on the order.
        let now = pins.chain(overrides).fold(0, u64::wrapping_add);
        let mut hash = self.pins_hash.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if hash.replace(now).is_some_and(|before| before != now) && !is_first {
            self.pins_epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Records that the store has no pins for this server.
    pub(crate) fn note_no_pins(&self) {
        self.pins_hash.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(0);
    }

    /// Returns how many times pins or overrides have changed.
    pub(crate) fn pins_epoch(&self) -> u64 {
        self.pins_epoch.load(Ordering::Acquire)
    }

    /// Returns the process for stateless requests, starting it if it is not running.
    fn get_or_start_shared_process(
        &self,
        config: &UpstreamProcessConfig,
        spawner: &ProcessSpawner,
    ) -> Result<Arc<ServerProcess>, UpstreamSendError> {
        let mut shared = self.shared_process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(process) = shared.as_ref().filter(|process| !process.is_ended()) {
            return Ok(Arc::clone(process));
        }
        let process = ServerProcess::start(self, config, spawner, UpstreamConnectionSharing::Shared)?;
        *shared = Some(Arc::clone(&process));
        Ok(process)
    }

    /// Returns whether the process for stateless requests has an unanswered call.
    pub(crate) fn has_pending_call(&self) -> bool {
        let shared = self.shared_process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.as_ref().is_some_and(|process| process.demux().has_pending_call())
    }

    /// Returns whether another process may be started.
    pub(crate) fn has_free_process_slot(&self) -> bool {
        self.process_slots.available_permits() > 0
    }

    /// Waits until another process may be started.
    pub(crate) async fn wait_for_process_slot(&self) {
        // The permit is released immediately; starting a process acquires one and may still fail.
        let _ = self.process_slots.acquire().await;
    }

    pub(crate) fn is_process(&self) -> bool {
        matches!(self.config.transport, UpstreamTransport::Process(_))
    }

    /// Stops the process for stateless requests.
    pub(crate) fn stop_shared_process(&self) {
        *self.shared_process.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    pub(crate) fn supports_stateless(&self) -> Option<bool> {
        match self.stateless_support.load(Ordering::Relaxed) {
            1 => Some(true),
            2 => Some(false),
            _ => None,
        }
    }

    pub(crate) fn has_tasks(&self) -> bool {
        self.has_tasks.load(Ordering::Relaxed)
    }

    pub(crate) fn note_tasks(&self) {
        self.has_tasks.store(true, Ordering::Relaxed);
    }

    /// Forgets the result of the probe, so that the next stateless client triggers a new one.
    pub(crate) fn forget_stateless_support(&self) {
        self.stateless_support.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_supports_stateless(&self, is_supported: bool) {
        self.stateless_support.store(if is_supported { 1 } else { 2 }, Ordering::Relaxed);
    }

    /// Returns the revisions available to clients of a generation. Clients of both generations can use every server,
    /// because the gateway translates between the generations. The stateful revisions are those listed by the server,
    /// or all if it lists none. For stateless clients of a stateless server, the server's own list applies.
    pub(crate) fn supported_revisions(&self, generation: ProtocolGeneration) -> Vec<Revision> {
        let named = self.supported_revisions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if generation == ProtocolGeneration::Stateless && named.contains(&Revision::R2026_07_28) {
            return named.clone();
        }
        let has_handshake = |own: &Revision| own.generation() == ProtocolGeneration::Stateful;
        let names_any = named.iter().any(has_handshake);
        let is_supported = |own: &Revision| !has_handshake(own) || !names_any || named.contains(own);
        Revision::ALL.into_iter().filter(is_supported).collect()
    }

    pub(crate) fn set_supported_revisions(&self, mut supported: Vec<Revision>) {
        supported.sort_unstable();
        supported.dedup();
        *self.supported_revisions.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = supported;
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hash = DefaultHasher::new();
    value.hash(&mut hash);
    hash.finish()
}

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
