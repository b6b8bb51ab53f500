//! A stateful client's session. It authorizes nothing: every request must carry the grant's token, and sessions that
//! belong to another grant are not found.

mod cancellable_requests;
mod client_handshake_profile;
mod client_info;
mod lazy_box;
pub(crate) mod list_changed;
mod notification_hub;
mod pending_server_requests;
mod progress_relay;
mod replay;
mod resource_subscriptions;
mod server_sessions;
mod session_manager;
mod session_mcp_tasks;
mod session_persistence;
mod session_pool;
pub(crate) mod session_pool_group;
mod session_registry;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_json::{JsonLimits, read};
use gatelodge_mcp::translate::{ClientInputResponses, to_json_string};
use gatelodge_mcp::{ClientCapabilities, RequestId, Revision};
use gatelodge_mutants::mutant;
use gatelodge_store::{GrantId, IdDigest, ServerName, SessionRow};
use http::HeaderValue;
use jiff::Timestamp;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use self::client_handshake_profile::{ClientHandshakeProfile, handshake_capabilities};
use self::lazy_box::LazyBox;
use self::list_changed::ListChangedSet;
use self::notification_hub::NotificationHub;
use self::pending_server_requests::PendingServerRequests;
use self::resource_subscriptions::ResourceSubscriptions;
use self::server_sessions::ServerSessions;
use self::session_mcp_tasks::SessionMcpTasks;
use crate::upstream::{ServerProcess, UpstreamSessionLink};

pub(crate) use self::cancellable_requests::{
    CancellableRequests, InFlightRequest, RequestRegistration, wait_for_cancel,
};
pub(crate) use self::client_info::ClientInfo;
pub(crate) use self::notification_hub::StandaloneStreamState;
pub(crate) use self::pending_server_requests::ClientResponseDestination;
pub(crate) use self::progress_relay::ProgressRelay;
pub(crate) use self::replay::{ReplayBuffers, STANDALONE_STREAM, SseEventId};
pub(crate) use self::session_manager::SessionManager;
pub(crate) use self::session_pool::{SessionPool, SessionPoolKey};
pub(crate) use self::session_pool_group::ExclusiveSession;
pub(crate) use self::session_registry::SessionRegistry;

/// Number of random bytes in a session id, which is written as hexadecimal digits.
const SESSION_ID_BYTES: usize = 32;

/// A session: the result of its handshake, and its running requests and streams.
#[derive(Debug)]
pub(crate) struct Session {
    id: Arc<str>,
    /// The key under which the session is stored.
    id_hash: IdDigest,
    /// The key under which limits count the session. For a server session that belongs to an aggregate session, it is
    /// derived from both sessions, so that reopening the server session does not reset its limits.
    limit_key: IdDigest,
    /// The minimum log level requested from the upstream.
    upstream_log_level: Mutex<Option<Box<str>>>,
    /// Each [`SessionUseGuard`] holds a clone, and the session does not expire as idle while there are any.
    use_count: Arc<()>,
    grant: GrantId,
    /// The server; `None` for the aggregate endpoint.
    server: Option<ServerName>,
    revision: Revision,
    client_info: ClientInfo,
    /// The client's handshake message, which is repeated if the upstream loses its session.
    handshake: Bytes,
    /// The capabilities that the client declared.
    client_capabilities: ClientCapabilities,
    /// The upstream's `initialize` or `server/discover` result.
    pub server_info: Bytes,
    /// The lists for which `listChanged` was advertised to the client; `None` for a restored session until the server
    /// has been asked again.
    list_changed: Mutex<Option<ListChangedSet>>,
    pub accepts_log_messages: bool,
    /// Client properties sent with each request to a stateless upstream.
    handshake_profile: Option<Box<ClientHandshakeProfile>>,
    /// The connection to the upstream. Set by the handshake and each time it is repeated.
    upstream_link: Mutex<UpstreamSessionLink>,
    handshake_attempts: AtomicU64,
    link_epoch: AtomicU64,
    /// Task state: whether the server supports tasks, and the tasks that the client runs for it.
    pub tasks: SessionMcpTasks,
    /// The client's requests in flight, keyed by the client's ids. Each is notified when the client cancels it.
    cancellable_requests: Arc<CancellableRequests>,
    /// Requests from the upstream to the client.
    pub server_requests: LazyBox<PendingServerRequests>,
    /// Signal for the client's open standalone stream. Notified when another stream is opened or the session ends; the
    /// task that serves the stream waits for it.
    stream_end_signal: Mutex<Option<Arc<Notify>>>,
    /// Distributes the upstream's notifications to stateless clients.
    pub notification_hub: Arc<LazyBox<NotificationHub>>,
    /// The resources to which the client is subscribed.
    pub subscriptions: ResourceSubscriptions,
    replay_buffers: ReplayBuffers,
    /// Id of the last event on the upstream's standalone stream.
    last_event_id: LazyBox<Mutex<Option<HeaderValue>>>,
    /// Held while the client's stream is being served, so that the next stream finds all events that were sent.
    pub stream_lock: LazyBox<tokio::sync::Mutex<()>>,
    last_used: Mutex<Instant>,
    /// Held while the handshake is repeated, so that concurrent calls that find the session lost repeat it only once.
    pub reopen_lock: LazyBox<tokio::sync::Mutex<()>>,
    /// The sessions with individual servers, if this is a session on the aggregate endpoint.
    pub server_sessions: LazyBox<ServerSessions>,
    /// Permit that counts towards the grant's session limit.
    _session_permit: OwnedSemaphorePermit,
}

/// Parameters for a new session.
#[derive(Debug)]
pub(crate) struct SessionParams {
    pub grant: GrantId,
    pub server: Option<ServerName>,
    pub revision: Revision,
    pub client_info: ClientInfo,
    pub handshake: Bytes,
    pub server_info: Bytes,
    pub upstream_link: UpstreamSessionLink,
    pub session_permit: OwnedSemaphorePermit,
    /// Whether the upstream is stateless and therefore has no session.
    pub is_upstream_stateless: bool,
    /// Whether the session forwards log messages. A stateless client asks for them with each request.
    pub accepts_log_messages: bool,
}

impl Session {
    /// Creates a session; `None` if no random bytes are available.
    pub fn new(params: SessionParams) -> Option<Self> {
        let mut random = [0; SESSION_ID_BYTES];
        getrandom::fill(&mut random).ok()?;
        Self::with_id(&HEXLOWER.encode(&random), params, Vec::new())
    }

    /// Creates a session from its stored row. Its upstream session must be opened before the first request.
    pub fn restore(id: &str, row: SessionRow, session_permit: OwnedSemaphorePermit) -> Option<Self> {
        let params = SessionParams {
            grant: row.grant,
            server: row.server,
            revision: row.revision.parse().ok()?,
            client_info: ClientInfo::new(row.client_name, row.client_version),
            handshake: row.handshake.into(),
            server_info: Bytes::new(),
            upstream_link: if row.is_upstream_stateless {
                UpstreamSessionLink::NoSession
            } else {
                UpstreamSessionLink::NotOpened
            },
            session_permit,
            is_upstream_stateless: row.is_upstream_stateless,
            accepts_log_messages: true,
        };
        let subscriptions = if mutant!("subscriptions-lost-at-restart") { Vec::new() } else { row.subscribed_uris };
        let session = Self::with_id(id, params, subscriptions)?;
        if let Some(level) = row.log_level {
            session.set_client_log_level(&level);
        }
        Some(session)
    }

    fn with_id(id: &str, params: SessionParams, subscriptions: Vec<String>) -> Option<Self> {
        let SessionParams {
            grant,
            server,
            revision,
            client_info,
            handshake,
            server_info,
            upstream_link,
            session_permit,
            is_upstream_stateless,
            accepts_log_messages,
        } = params;
        Some(Self {
            id: id.into(),
            id_hash: IdDigest::of(&[id]),
            limit_key: IdDigest::of(&[id]),
            upstream_log_level: Mutex::default(),
            use_count: Arc::default(),
            grant,
            server,
            revision,
            client_info,
            handshake_profile: is_upstream_stateless.then(|| Box::new(ClientHandshakeProfile::of(&handshake))),
            client_capabilities: handshake_capabilities(&handshake),
            handshake,
            list_changed: Mutex::new((!server_info.is_empty()).then(|| ListChangedSet::advertised(&server_info))),
            server_info,
            accepts_log_messages,
            upstream_link: Mutex::new(upstream_link),
            handshake_attempts: AtomicU64::new(0),
            link_epoch: AtomicU64::new(0),
            tasks: SessionMcpTasks::default(),
            cancellable_requests: Arc::default(),
            server_requests: LazyBox::default(),
            stream_end_signal: Mutex::default(),
            notification_hub: Arc::default(),
            subscriptions: ResourceSubscriptions::new(IdDigest::of(&[id]), subscriptions),
            replay_buffers: ReplayBuffers::new(replay::replay_budget(0))?,
            last_event_id: LazyBox::default(),
            stream_lock: LazyBox::default(),
            last_used: Mutex::new(Instant::now()),
            reopen_lock: LazyBox::default(),
            server_sessions: LazyBox::default(),
            _session_permit: session_permit,
        })
    }

    /// Returns the row to store.
    pub fn to_row(&self, used_at: Timestamp) -> SessionRow {
        SessionRow {
            id: self.id_hash,
            grant: self.grant.clone(),
            server: self.server.clone(),
            revision: self.revision.as_str().to_owned(),
            client_name: self.client_info.name.clone(),
            client_version: self.client_info.version.clone(),
            // INVARIANT: the handshake was parsed as a message, so it is UTF-8.
            handshake: str::from_utf8(&self.handshake).unwrap_or_default().to_owned(),
            is_upstream_stateless: self.is_upstream_stateless(),
            subscribed_uris: self.subscriptions.to_row().1,
            // Set and stored after the handshake.
            log_level: None,
            last_used_at: used_at,
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the key under which the session is stored and counted. The id itself is never written to disk.
    pub fn id_hash(&self) -> IdDigest {
        self.id_hash
    }

    pub fn limit_key(&self) -> IdDigest {
        self.limit_key
    }

    /// Turns this session into the server session of `whole`, a session on the aggregate endpoint.
    pub fn into_server_session_of(mut self, whole: &Self) -> Self {
        if let Some(server) = &self.server {
            self.limit_key = IdDigest::of(&[whole.id(), server.as_str()]);
            self.subscriptions = whole.subscriptions.for_server(server);
        }
        self
    }

    /// Shares the notification hub of another session with the same server, so that notifications received by either
    /// reach all subscribers.
    pub fn sharing_hub_with(mut self, other: &Self) -> Self {
        self.notification_hub = Arc::clone(&other.notification_hub);
        self
    }

    /// Records the lists that the server advertised, unless they are already known.
    pub fn note_list_changed(&self, server_info: &[u8]) {
        lock(&self.list_changed).get_or_insert_with(|| ListChangedSet::advertised(server_info));
    }

    pub fn list_changed(&self) -> Option<ListChangedSet> {
        *lock(&self.list_changed)
    }

    /// Records the log level requested from the upstream, so that a repeated handshake can set it again.
    pub fn note_upstream_log_level(&self, level: &str) {
        *lock(&self.upstream_log_level) = Some(level.into());
    }

    pub fn upstream_log_level(&self) -> Option<Box<str>> {
        lock(&self.upstream_log_level).clone()
    }

    /// Keeps the session from expiring as idle until the guard is dropped.
    pub fn mark_in_use(self: &Arc<Self>) -> SessionUseGuard {
        SessionUseGuard { session: Arc::clone(self), _use_count: Arc::clone(&self.use_count) }
    }

    pub fn grant(&self) -> &GrantId {
        &self.grant
    }

    /// Returns the server; `None` for the aggregate endpoint.
    pub fn server(&self) -> Option<&ServerName> {
        self.server.as_ref()
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn protocol_version_header(&self) -> Option<Revision> {
        protocol_version_header(self.revision)
    }

    pub fn client_info(&self) -> &ClientInfo {
        &self.client_info
    }

    pub fn client_capabilities(&self) -> ClientCapabilities {
        self.client_capabilities
    }

    pub fn handshake(&self) -> &Bytes {
        &self.handshake
    }

    pub fn replay_buffers(&self) -> &ReplayBuffers {
        &self.replay_buffers
    }

    /// Returns the id of the last event on the upstream's standalone stream.
    pub fn last_event_id(&self) -> Option<HeaderValue> {
        self.last_event_id.get_if_initialized().and_then(|last_event_id| lock(last_event_id).clone())
    }

    /// Records the last event id received since handshake `attempt`. Ignored if the session has been reopened since
    /// then, because event ids are only valid within one upstream session.
    pub fn set_last_event_id(&self, last: Option<HeaderValue>, attempt: u64) {
        let mut last_event_id = lock(&self.last_event_id);
        if self.handshake_attempts() == attempt {
            *last_event_id = last;
        }
    }

    pub fn upstream_link(&self) -> UpstreamSessionLink {
        lock(&self.upstream_link).clone()
    }

    /// Returns the process dedicated to this session, if it has one.
    pub fn server_process(&self) -> Option<Arc<ServerProcess>> {
        match &*lock(&self.upstream_link) {
            UpstreamSessionLink::Process(process) => Some(Arc::clone(process)),
            _ => None,
        }
    }

    pub fn set_upstream_link(&self, link: UpstreamSessionLink) {
        // Before the link: a reader of the new link sees the new epoch too.
        self.link_epoch.fetch_add(1, Ordering::AcqRel);
        *lock(&self.upstream_link) = link;
        // Before clearing the event id: `set_last_event_id` either sees the new attempt or is cleared below.
        self.note_handshake_attempt();
        // Unconditionally: `set_last_event_id` initializes the box before it compares attempts.
        *lock(&self.last_event_id) = None;
        // The old upstream session no longer waits for these answers, and the new one may reuse the ids.
        self.clear_server_requests();
    }

    /// Forgets all requests from the upstream to the client.
    pub fn clear_server_requests(&self) {
        if let Some(requests) = self.server_requests.get_if_initialized() {
            requests.clear();
        }
    }

    /// Counts an attempt to open the upstream session.
    pub fn note_handshake_attempt(&self) {
        self.handshake_attempts.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of attempts to open the upstream session since the client's handshake.
    pub fn handshake_attempts(&self) -> u64 {
        self.handshake_attempts.load(Ordering::Acquire)
    }

    /// Returns how many times the upstream session has been replaced.
    pub fn link_epoch(&self) -> u64 {
        self.link_epoch.load(Ordering::Acquire)
    }

    /// Returns whether the server may support tasks. For a restored session, returns true until the session is
    /// reopened, because the answer is not known before.
    pub fn may_have_tasks(&self) -> bool {
        self.tasks.server_has_tasks() || matches!(*lock(&self.upstream_link), UpstreamSessionLink::NotOpened)
    }

    /// Returns the client's requests in flight.
    pub fn cancellable_requests(&self) -> &Arc<CancellableRequests> {
        &self.cancellable_requests
    }

    /// Finds a request in flight by the client's id.
    pub fn find_request(&self, id: &RequestId<'_>) -> Option<InFlightRequest> {
        self.cancellable_requests.find(id)
    }

    /// Cancels one of the client's requests. Returns false if no request has this id.
    pub fn cancel_request(&self, id: &RequestId<'_>) -> bool {
        self.find_request(id).inspect(|in_flight| in_flight.cancel_signal.notify_one()).is_some()
    }

    /// Returns whether the upstream is stateless.
    pub fn is_upstream_stateless(&self) -> bool {
        self.handshake_profile.is_some()
    }

    /// Translates a client request to the stateless protocol.
    pub fn to_stateless_request(&self, text: &str, retry: Option<&ClientInputResponses<'_>>) -> Option<String> {
        self.handshake_profile.as_ref()?.to_stateless_request(text, retry)
    }

    /// Returns whether the upstream is stateless and the client has set a log level.
    pub fn wants_log_messages(&self) -> bool {
        self.handshake_profile.as_ref().is_some_and(|profile| lock(&profile.log_level).is_some())
    }

    /// Records the client's log level: in the profile for a stateless upstream, in the session for a repeated
    /// handshake, or in the sessions with individual servers.
    pub fn set_client_log_level(&self, level: &str) {
        match (&self.handshake_profile, &self.server) {
            (Some(profile), _) => *lock(&profile.log_level) = Some(to_json_string(level)),
            (None, Some(_)) => self.note_upstream_log_level(level),
            (None, None) => self.server_sessions.set_log_level(level),
        }
    }

    /// Registers the session's standalone stream and ends any earlier one. The returned signal is notified when the new
    /// stream must end.
    pub fn open_stream(&self) -> Arc<Notify> {
        let handle = Arc::new(Notify::new());
        if let Some(previous) = lock(&self.stream_end_signal).replace(Arc::clone(&handle)) {
            previous.notify_one();
        }
        handle
    }

    /// Unregisters a stream that has ended.
    pub fn close_stream(&self, handle: &Arc<Notify>) {
        let mut stream = lock(&self.stream_end_signal);
        if stream.as_ref().is_some_and(|own| Arc::ptr_eq(own, handle)) {
            *stream = None;
        }
    }

    /// Tells the open stream to end.
    pub fn end_stream(&self) {
        if let Some(stream) = lock(&self.stream_end_signal).take() {
            stream.notify_one();
        }
    }

    fn last_used(&self) -> Instant {
        *lock(&self.last_used)
    }

    fn touch(&self) {
        *lock(&self.last_used) = Instant::now();
    }

    fn is_idle(&self, limit: Duration) -> bool {
        self.is_unused(limit) && lock(&self.stream_end_signal).is_none()
    }

    fn is_unused(&self, limit: Duration) -> bool {
        let is_held = Arc::strong_count(&self.use_count) > 1;
        !is_held && lock(&self.last_used).elapsed() > limit && self.cancellable_requests.is_empty()
    }
}

/// Marks a session as in use until the guard is dropped.
#[derive(Debug)]
pub(crate) struct SessionUseGuard {
    session: Arc<Session>,
    _use_count: Arc<()>,
}

impl Drop for SessionUseGuard {
    fn drop(&mut self) {
        // The idle time starts at the end of the use.
        self.session.touch();
    }
}

/// Returns the revision for the `MCP-Protocol-Version` header, which revisions before 2025-06-18 do not have.
pub(crate) fn protocol_version_header(revision: Revision) -> Option<Revision> {
    Some(revision).filter(|revision| *revision >= Revision::R2025_06_18)
}

/// Returns whether the upstream's server information declares the `logging` capability.
pub(crate) fn has_logging_capability(server_info: &[u8]) -> bool {
    let server_info = read(server_info, &JsonLimits::REPLY).ok();
    server_info
        .is_some_and(|server_info| server_info.root().get("capabilities").and_then(|own| own.get("logging")).is_some())
}

/// Locks a mutex and ignores poisoning: every change under these locks is a single call, so a panic leaves the data
/// consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn session_is_unused_from_the_end_of_its_last_use() {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("a permit");
        let params = SessionParams {
            grant: GrantId("ci".into()),
            server: None,
            revision: Revision::R2025_11_25,
            client_info: ClientInfo::default(),
            handshake: Bytes::new(),
            server_info: Bytes::new(),
            upstream_link: UpstreamSessionLink::NoSession,
            session_permit: permit,
            is_upstream_stateless: false,
            accepts_log_messages: false,
        };
        let (session, minute) = (Arc::new(Session::new(params).expect("a session")), Duration::from_secs(60));
        let long_ago = || Instant::now().checked_sub(minute * 2).expect("a time");
        let held = session.mark_in_use();
        *lock(&session.last_used) = long_ago();
        assert!(!session.is_unused(minute), "it is in use");
        drop(held);
        assert!(!session.is_unused(minute), "it was in use until now");
        *lock(&session.last_used) = long_ago();
        assert!(session.is_unused(minute));
    }
}
