//! A server behind the gateway: where it is, what it offers, and how messages get there.

mod definition_fingerprint;
mod http_client;
mod message_demux;
mod multiplexed_peer;
mod restart_backoff;
mod secret_redactor;
mod server_process;
mod sse_client;
mod tool_registry;
mod upstream_request;
mod upstream_response;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use ::http::Uri;
use ::http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use ::http::uri::Scheme;
use arc_swap::ArcSwapOption;
use gatelodge_mcp::{ProtocolGeneration, Revision};
use gatelodge_store::{ServerName, ServerTools};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{Mutex, Semaphore};

pub(crate) use http_client::{HttpConnectionPool, new_connection_pool, root_cause};
pub use secret_redactor::{MIN_SECRET_BYTES, SecretRedactor};
pub use server_process::UpstreamProcessConfig;
pub(crate) use server_process::{ServerProcess, to_line};
pub(crate) use tool_registry::{CachedToolList, PreviousResponse, ToolListing, ToolRegistry, UpstreamTool};
pub(crate) use upstream_request::{
    ResumeTarget, SendError, StatelessHeaders, UpstreamLink, UpstreamRequest, UpstreamRequestKind,
};
pub(crate) use upstream_response::UpstreamResponse;

use self::http_client::UpstreamHttpClient;
use self::message_demux::ConnectionScope;
use self::multiplexed_peer::MultiplexedPeer;
use self::restart_backoff::RestartBackoff;
use self::server_process::ProcessSpawner;
use self::sse_client::UpstreamSseConnection;
use crate::GatewaySettings;
use crate::in_flight_limit::InFlightLimit;
use crate::pipeline::Permit;
use crate::tool_categories::ServerToolCategories;

/// A header that is sent with each request to an upstream.
#[derive(Clone, PartialEq, Eq)]
pub struct InjectedHeader {
    /// Its name.
    pub name: HeaderName,
    /// Its value, with everything from the environment in its place.
    pub value: HeaderValue,
    /// What must never be seen on the caller's side: the values from the environment.
    pub secrets: Vec<String>,
}

// A header's value may be a secret, and configurations get printed.
impl fmt::Debug for InjectedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

/// What is configured of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Its name, the last part of its URL at the gateway.
    pub name: ServerName,
    /// How it is reached.
    pub transport: UpstreamTransport,
    /// Whether the call log keeps the values of arguments.
    pub log_arguments: bool,
    /// What is accepted of its definitions without asking a person.
    pub pinning: PinningSettings,
}

/// What is accepted of a server's definitions without asking a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinningSettings {
    /// Nothing, not even what it offers at first.
    pub review: bool,
    /// Tools that are new.
    pub accept_new: bool,
    /// How old what it offers may be when a tool is called: not every server tells when it changes. Zero asks before
    /// each call.
    pub check_definitions: Duration,
}

impl Default for PinningSettings {
    fn default() -> Self {
        Self { review: false, accept_new: false, check_definitions: Duration::from_secs(60) }
    }
}

impl UpstreamConfig {
    /// Whether it is reached within TLS.
    fn uses_tls(&self) -> bool {
        matches!(&self.transport, UpstreamTransport::Http(to) if to.url.scheme() == Some(&Scheme::HTTPS))
    }

    /// What must never be seen on the caller's side.
    pub fn secret_redactor(&self) -> SecretRedactor {
        match &self.transport {
            UpstreamTransport::Process(process) => SecretRedactor::new(&process.secrets),
            UpstreamTransport::Http(http) => {
                // A key may stand in the URL as well; other values are words that answers have, too.
                let pairs = http.url.query().into_iter().flat_map(|query| query.split('&'));
                let values = pairs.filter_map(|pair| pair.split_once('=').filter(|(name, _)| is_secret_name(name)));
                let values: Vec<String> = values.map(|(_, value)| value.to_owned()).collect();
                SecretRedactor::new(http.headers.iter().flat_map(|header| &header.secrets).chain(&values))
            }
        }
    }
}

/// Whether a value of this name in a URL is likely a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "password", "auth", "sig", "credential", "code"].iter().any(|part| name.contains(part))
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamTransport {
    /// Over HTTP.
    Http(UpstreamHttpConfig),
    /// By running it.
    Process(UpstreamProcessConfig),
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamHttpConfig {
    /// Its URL.
    pub url: Uri,
    /// What is sent with each request.
    pub headers: Vec<InjectedHeader>,
}

/// A server in force.
#[derive(Debug)]
pub struct Upstream {
    config: UpstreamConfig,
    /// What is sent with each request: what was configured, and the host.
    headers: HeaderMap,
    secrets: Arc<SecretRedactor>,
    pub(crate) in_flight: Arc<InFlightLimit>,
    pub(crate) tool_registry: Arc<ToolRegistry>,
    /// What its accepted tools can do, as it was found last.
    pub(crate) tool_categories: ArcSwapOption<ServerToolCategories>,
    /// What was accepted and said of its tools, as it was found last, and how often that was something else than before.
    pins_hash: std::sync::Mutex<Option<u64>>,
    pins_epoch: AtomicU64,
    /// Bounds the processes that run for it.
    process_slots: Arc<Semaphore>,
    restart_backoff: Arc<RestartBackoff>,
    /// The process that takes requests which stand alone.
    shared_process: std::sync::Mutex<Option<Arc<ServerProcess>>>,
    /// Whether it speaks without handshakes: 0 unknown, 1 yes, 2 no. Written by whoever asked it, read by every request
    /// of a modern client.
    stateless_support: AtomicU8,
    /// Whether it has said that it has tasks for requests that stand alone, or has made one.
    has_tasks: AtomicBool,
    /// Whether it took the last handshake by HTTP+SSE, so that the next begins there. Written by each handshake.
    uses_sse_transport: AtomicBool,
    /// The revisions that it named when it was asked; empty before. Written and read with what is above.
    supported_revisions: std::sync::Mutex<Vec<Revision>>,
    /// Held while it is asked, so that many requests ask once.
    pub(crate) probe_lock: Mutex<()>,
}

impl Upstream {
    pub(crate) fn new(config: UpstreamConfig, in_flight: usize, processes: usize) -> Self {
        let mut headers = HeaderMap::new();
        if let UpstreamTransport::Http(to) = &config.transport {
            for header in &to.headers {
                let mut value = header.value.clone();
                value.set_sensitive(true);
                headers.append(header.name.clone(), value);
            }
            if !headers.contains_key(HOST) {
                headers.extend(http_client::host_header(&to.url).map(|host| (HOST, host)));
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

    /// What was configured.
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

    /// Notes what was accepted and said of its tools. Where that is something else than before, so are the lists of all
    /// who listen, unless nobody could have seen one.
    pub(crate) fn note_pins(&self, known: &ServerTools, is_first: bool) {
        let pins = known.pinned.iter().map(|pin| hash_of(&(&pin.definition.name, &pin.definition.fingerprint)));
        let overrides = known
            .category_overrides
            .iter()
            .map(|overrides| hash_of(&(&overrides.tool, overrides.category.as_str(), &overrides.fingerprint)));
        // In whatever order they come.
        let now = pins.chain(overrides).fold(0, u64::wrapping_add);
        let mut accepted = self.pins_hash.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if accepted.replace(now).is_some_and(|before| before != now) && !is_first {
            self.pins_epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Notes that nobody has asked it for its tools, in no life of the gateway.
    pub(crate) fn note_no_pins(&self) {
        self.pins_hash.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(0);
    }

    /// How often something else was accepted or said of its tools.
    pub(crate) fn pins_epoch(&self) -> u64 {
        self.pins_epoch.load(Ordering::Acquire)
    }

    /// The process for requests that stand alone; started if none runs.
    fn get_or_start_shared_process(
        &self,
        config: &UpstreamProcessConfig,
        keeping: &ProcessSpawner,
    ) -> Result<Arc<ServerProcess>, SendError> {
        let mut shared = self.shared_process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(process) = shared.as_ref().filter(|process| !process.is_ended()) {
            return Ok(Arc::clone(process));
        }
        let process = ServerProcess::start(self, config, keeping, ConnectionScope::Shared)?;
        *shared = Some(Arc::clone(&process));
        Ok(process)
    }

    /// Whether the process for requests that stand alone has a call that it has not answered.
    pub(crate) fn has_pending_call(&self) -> bool {
        let shared = self.shared_process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.as_ref().is_some_and(|process| process.demux().has_pending_call())
    }

    /// Whether one more process may run for it.
    pub(crate) fn has_free_process_slot(&self) -> bool {
        self.process_slots.available_permits() > 0
    }

    /// Waits until one more may.
    pub(crate) async fn wait_for_process_slot(&self) {
        // It is given back at once; whoever starts a process takes it then, and may still come too late.
        let _ = self.process_slots.acquire().await;
    }

    pub(crate) fn is_process(&self) -> bool {
        matches!(self.config.transport, UpstreamTransport::Process(_))
    }

    /// Ends the process for requests that stand alone.
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

    /// The verdict did not hold; the next client asks again.
    pub(crate) fn forget_stateless_support(&self) {
        self.stateless_support.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_supports_stateless(&self, speaks: bool) {
        self.stateless_support.store(if speaks { 1 } else { 2 }, Ordering::Relaxed);
    }

    /// The revisions that are spoken through us, as a client of an era is told. We carry between the eras, so one of each
    /// is spoken whatever the server speaks; of those with a handshake, the ones that it names, and any where it names
    /// none. To requests that stand alone the server itself says which there are, and so do we.
    pub(crate) fn supported_revisions(&self, generation: ProtocolGeneration) -> Vec<Revision> {
        let named = self.supported_revisions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if generation == ProtocolGeneration::Stateless && named.contains(&Revision::R2026_07_28) {
            return named.clone();
        }
        let has_handshake = |own: &Revision| own.generation() == ProtocolGeneration::Stateful;
        let names_any = named.iter().any(has_handshake);
        let is_spoken = |own: &Revision| !has_handshake(own) || !names_any || named.contains(own);
        Revision::ALL.into_iter().filter(is_spoken).collect()
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

/// A message that is sent when it is waited for.
enum SendFuture<'a, P> {
    Http(P),
    Boxed(Pin<Box<dyn Future<Output = Result<UpstreamResponse, SendError>> + Send + 'a>>),
    /// Its session is no more.
    SessionLost,
}

/// The one way out to upstreams.
pub(crate) struct UpstreamClient {
    http: UpstreamHttpClient,
    process_spawner: ProcessSpawner,
}

impl UpstreamClient {
    pub fn new(settings: &GatewaySettings, workers: usize, dropped: Counter) -> Self {
        let max_bytes = settings.reply_limits.max_bytes;
        let process_spawner =
            ProcessSpawner { supervisor: settings.supervisor.clone(), max_bytes, dropped_messages: dropped };
        Self { http: UpstreamHttpClient::new(settings.connect_time, workers, max_bytes), process_spawner }
    }

    /// Makes ready for servers that come into force. Where TLS cannot be set up, each call to a server that wants it is
    /// told so; whoever runs the gateway hears it now.
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

    /// Sends what a permit allows, and gives the beginning of the answer.
    // In boxes: what waits for a plain answer over HTTP should not have the size of all the rest.
    pub fn send<'a>(
        &'a self,
        upstream: &'a Upstream,
        permit: Permit,
    ) -> impl Future<Output = Result<UpstreamResponse, SendError>> + use<'a> {
        let outgoing = permit.into_request();
        let sending = match &upstream.config.transport {
            _ if outgoing.session_link.needs_reopen(upstream) => SendFuture::SessionLost,
            UpstreamTransport::Http(to)
                if matches!(outgoing.session_link, UpstreamLink::Http(_)) || outgoing.stateless_headers.is_some() =>
            {
                SendFuture::Http(self.http.send(upstream, to, outgoing))
            }
            UpstreamTransport::Http(to) => SendFuture::Boxed(Box::pin(self.send_over_http(upstream, to, outgoing))),
            UpstreamTransport::Process(config) => {
                SendFuture::Boxed(Box::pin(self.send_to_process(upstream, config, outgoing)))
            }
        };
        async move {
            match sending {
                SendFuture::Http(sending) => sending.await,
                SendFuture::Boxed(sending) => sending.await,
                SendFuture::SessionLost => {
                    Err(SendError::NotSent("the session could not be opened again at the server".to_owned()))
                }
            }
        }
    }

    async fn send_to_process(
        &self,
        upstream: &Upstream,
        config: &UpstreamProcessConfig,
        outgoing: UpstreamRequest,
    ) -> Result<UpstreamResponse, SendError> {
        let process = match (&outgoing.session_link, &outgoing.stateless_headers) {
            (UpstreamLink::Process(process), _) => Arc::clone(process),
            (_, Some(_)) => upstream.get_or_start_shared_process(config, &self.process_spawner)?,
            // A handshake begins a session, and each session has a process of its own.
            (_, None) => ServerProcess::start(upstream, config, &self.process_spawner, ConnectionScope::Session)?,
        };
        MultiplexedPeer::Process(process).send(outgoing).await
    }

    /// Sends what may begin a session, or goes on in one whose answers come by HTTP+SSE.
    async fn send_over_http(
        &self,
        upstream: &Upstream,
        to: &UpstreamHttpConfig,
        outgoing: UpstreamRequest,
    ) -> Result<UpstreamResponse, SendError> {
        if let UpstreamLink::Sse(connection) = &outgoing.session_link {
            return MultiplexedPeer::Sse(Arc::clone(connection)).send(outgoing).await;
        }
        if upstream.uses_sse_transport.load(Ordering::Relaxed) && outgoing.is_handshake() {
            if let Ok(Some(connection)) = self.open_sse(upstream, to).await {
                return MultiplexedPeer::Sse(connection).send(outgoing).await;
            }
            // It may be another server by now.
            upstream.uses_sse_transport.store(false, Ordering::Relaxed);
        }
        let sent = self.http.send(upstream, to, outgoing.clone()).await;
        let status = match &sent {
            Ok(exchange) => exchange.status.as_u16(),
            Err(SendError::Status(status)) => *status,
            Err(_) => return sent,
        };
        // What servers of the first revision say to a message at this address; whether it is one, its stream tells.
        let may_be = matches!(status, 400 | 404 | 405) && upstream.supports_stateless() != Some(true);
        if !may_be || !outgoing.is_handshake() {
            return sent;
        }
        match self.open_sse(upstream, to).await? {
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
        to: &UpstreamHttpConfig,
    ) -> Result<Option<Arc<UpstreamSseConnection>>, SendError> {
        UpstreamSseConnection::open(&self.http, upstream, to, &self.process_spawner.dropped_messages).await
    }
}
