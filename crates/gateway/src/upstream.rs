//! The connection to a configured server: its transport, its tools, and sending messages to it.

mod confusables;
mod definition_fingerprint;
mod http;
mod message_demux;
mod multiplexed_peer;
pub(crate) mod permit;
mod process;
mod secret_redactor;
mod send_error;
mod session_link;
mod sse;
mod tool_categories;
mod tool_registry;
mod upstream_client;
mod upstream_config;
mod upstream_request;
mod upstream_response;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use ::http::header::{HOST, HeaderMap};
use arc_swap::ArcSwapOption;
use gatelodge_mcp::{ProtocolGeneration, Revision};
use gatelodge_store::{ServerName, ServerTools};
use tokio::sync::{Mutex, Semaphore};

use self::message_demux::UpstreamConnectionSharing;
use self::process::ProcessSpawner;
use self::process::restart_backoff::RestartBackoff;
use crate::runtime::InFlightLimit;

pub use self::confusables::confusable_names;
pub(crate) use self::http::CollectorClient;
pub(crate) use self::permit::Permit;
pub use self::process::UpstreamProcessConfig;
pub(crate) use self::process::{ServerProcess, to_line};
pub use self::secret_redactor::{MIN_SECRET_BYTES, SecretRedactor};
pub(crate) use self::send_error::UpstreamSendError;
pub(crate) use self::session_link::UpstreamSessionLink;
pub(crate) use self::tool_categories::ServerToolCategories;
pub use self::tool_categories::{ToolCategorization, categorize_accepted_tools, categorize_tools};
pub(crate) use self::tool_registry::{
    CachedToolList, ListResponseBaseline, ToolListCacheKey, ToolListing, ToolRegistry, UpstreamTool,
};
pub(crate) use self::upstream_client::UpstreamClient;
pub use self::upstream_config::{PinningSettings, UpstreamConfig, UpstreamHttpConfig, UpstreamTransport};
pub(crate) use self::upstream_request::{
    StatelessHeaders, UpstreamRequest, UpstreamRequestKind, UpstreamStreamResumeTarget,
};
pub(crate) use self::upstream_response::UpstreamResponse;

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
                headers.extend(http::host_header(&http.url).map(|host| (HOST, host)));
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

    /// Returns whether the server is known to take `Mcp-Param-*` headers.
    pub(crate) fn takes_param_headers(&self) -> bool {
        self.supports_stateless() == Some(true) && !self.is_process()
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
