//! What a legacy session remembers. It is no authority: every request shows its token, and a session of another grant
//! is not there.

mod cancellable_requests;
mod client_info;
mod handshake_profile;
mod lazy_box;
mod notification_hub;
mod pending_server_requests;
mod replay;
mod resource_subscriptions;
mod server_sessions;
pub(crate) mod session_persistence;
mod session_registry;
mod session_tasks;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_json::{JsonLimits, read};
use gatelodge_mcp::translate::{RetryInput, to_json_string};
use gatelodge_mcp::{ClientCapabilities, RequestId, Revision};
use gatelodge_mutants::mutant;
use gatelodge_store::{GrantId, IdHash, ServerName, SessionRow};
use http::HeaderValue;
use jiff::Timestamp;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use self::handshake_profile::{HandshakeProfile, handshake_capabilities};
use self::lazy_box::LazyBox;
use self::notification_hub::NotificationHub;
use self::pending_server_requests::PendingServerRequests;
use self::resource_subscriptions::ResourceSubscriptions;
use self::server_sessions::ServerSessions;
use self::session_tasks::SessionTasks;
use crate::list_changed::ListChangedSet;
use crate::upstream::{ServerProcess, UpstreamLink};

pub(crate) use self::cancellable_requests::{
    CancellableRequests, InFlightRequest, RequestRegistration, wait_for_cancel,
};
pub(crate) use self::client_info::ClientInfo;
pub(crate) use self::notification_hub::UpstreamStreamState;
pub(crate) use self::pending_server_requests::ServerRequestOrigin;
pub(crate) use self::replay::{ReplayBuffers, STANDALONE_STREAM, SseEventId};
pub(crate) use self::session_registry::SessionRegistry;

/// An id has 256 random bits, and is written in base sixteen.
const SESSION_ID_BYTES: usize = 32;

/// What was agreed in a handshake, and what is under way.
#[derive(Debug)]
pub(crate) struct Session {
    id: Arc<str>,
    /// By which it is kept.
    id_hash: IdHash,
    /// By which limits count it: a part of another is counted as that one at its server, however often it is opened.
    limit_key: IdHash,
    /// The least severe log message that we have asked the upstream for.
    upstream_log_level: Mutex<Option<Box<str>>>,
    /// Held by those who use it without being its client.
    use_count: Arc<()>,
    grant: GrantId,
    /// At which server; none for all of the grant's together.
    server: Option<ServerName>,
    revision: Revision,
    client_info: ClientInfo,
    /// The client's handshake, for doing it again with an upstream that has forgotten us.
    handshake: Bytes,
    /// What the client declared there.
    client_capabilities: ClientCapabilities,
    /// What the upstream said of itself: the result of its handshake, or of `server/discover`.
    pub server_info: Bytes,
    /// Of which lists the client was promised to hear when they change; none where that is not known any more.
    list_changed: Mutex<Option<ListChangedSet>>,
    pub accepts_log_messages: bool,
    /// What the client said of itself, where the upstream wants it said with each request.
    handshake_profile: Option<Box<HandshakeProfile>>,
    /// The upstream's end. Written at the handshake and when it is done again.
    upstream_link: Mutex<UpstreamLink>,
    handshake_attempts: AtomicU64,
    link_epoch: AtomicU64,
    /// Those of the server, and the client's own.
    pub tasks: SessionTasks,
    /// The client's requests under way, by the ids it gave them: each is told when the client cancels.
    cancellable_requests: Arc<CancellableRequests>,
    /// What the upstream asked of the client.
    pub server_requests: LazyBox<PendingServerRequests>,
    /// The stream that the client holds open. Whoever opens another, or ends the session, tells this one to end; the
    /// task that serves it listens.
    stream_end_signal: Mutex<Option<Arc<Notify>>>,
    /// For clients that listen by requests that stand alone.
    pub notification_hub: Arc<LazyBox<NotificationHub>>,
    /// What its client wants to hear of resources.
    pub subscriptions: ResourceSubscriptions,
    replay_buffers: ReplayBuffers,
    /// The last event of the upstream's own stream of what belongs to no request.
    last_event_id: LazyBox<Mutex<Option<HeaderValue>>>,
    /// Held by whoever serves the client's stream, so that one that takes its place finds all that was sent on it.
    pub stream_lock: LazyBox<tokio::sync::Mutex<()>>,
    last_used: Mutex<Instant>,
    /// Held while the handshake is done again, so that many calls that find the session lost do it once.
    pub reopen_lock: LazyBox<tokio::sync::Mutex<()>>,
    /// The sessions at single servers, where this one is for all of them.
    pub server_sessions: LazyBox<ServerSessions>,
    /// The place among the sessions of its grant.
    _session_permit: OwnedSemaphorePermit,
}

/// What a session begins with.
#[derive(Debug)]
pub(crate) struct SessionParams {
    pub grant: GrantId,
    pub server: Option<ServerName>,
    pub revision: Revision,
    pub client_info: ClientInfo,
    pub handshake: Bytes,
    pub server_info: Bytes,
    pub upstream_link: UpstreamLink,
    pub session_permit: OwnedSemaphorePermit,
    /// Whether the upstream takes requests that stand alone, and knows of no session.
    pub is_upstream_stateless: bool,
    /// Whether log messages are for the client: one whose requests stand alone says so with each.
    pub accepts_log_messages: bool,
}

impl Session {
    /// A new one; none if there is no randomness.
    pub fn new(opening: SessionParams) -> Option<Self> {
        let mut random = [0; SESSION_ID_BYTES];
        getrandom::fill(&mut random).ok()?;
        Self::with_id(&HEXLOWER.encode(&random), opening, Vec::new())
    }

    /// One that was kept. An upstream's end has to be opened before anything can be sent.
    pub fn restore(id: &str, row: SessionRow, room: OwnedSemaphorePermit) -> Option<Self> {
        let opening = SessionParams {
            grant: row.grant,
            server: row.server,
            revision: row.revision.parse().ok()?,
            client_info: ClientInfo::new(row.client_name, row.client_version),
            handshake: row.handshake.into(),
            server_info: Bytes::new(),
            upstream_link: if row.is_upstream_stateless { UpstreamLink::NoSession } else { UpstreamLink::NotOpened },
            session_permit: room,
            is_upstream_stateless: row.is_upstream_stateless,
            accepts_log_messages: true,
        };
        let subscriptions = if mutant!("subscriptions-lost-at-restart") { Vec::new() } else { row.subscribed_uris };
        let session = Self::with_id(id, opening, subscriptions)?;
        if let Some(level) = row.log_level {
            session.set_client_log_level(&level);
        }
        Some(session)
    }

    fn with_id(id: &str, opening: SessionParams, subscriptions: Vec<String>) -> Option<Self> {
        let SessionParams {
            grant,
            server,
            revision,
            client_info: client,
            handshake,
            server_info,
            upstream_link: link,
            session_permit: room,
            is_upstream_stateless: is_far_stateless,
            accepts_log_messages: takes_log,
        } = opening;
        Some(Self {
            id: id.into(),
            id_hash: IdHash::of(&[id]),
            limit_key: IdHash::of(&[id]),
            upstream_log_level: Mutex::default(),
            use_count: Arc::default(),
            grant,
            server,
            revision,
            client_info: client,
            handshake_profile: is_far_stateless.then(|| Box::new(HandshakeProfile::of(&handshake))),
            client_capabilities: handshake_capabilities(&handshake),
            handshake,
            list_changed: Mutex::new((!server_info.is_empty()).then(|| ListChangedSet::advertised(&server_info))),
            server_info,
            accepts_log_messages: takes_log,
            upstream_link: Mutex::new(link),
            handshake_attempts: AtomicU64::new(0),
            link_epoch: AtomicU64::new(0),
            tasks: SessionTasks::default(),
            cancellable_requests: Arc::default(),
            server_requests: LazyBox::default(),
            stream_end_signal: Mutex::default(),
            notification_hub: Arc::default(),
            subscriptions: ResourceSubscriptions::new(IdHash::of(&[id]), subscriptions),
            replay_buffers: ReplayBuffers::new(replay::replay_budget(0))?,
            last_event_id: LazyBox::default(),
            stream_lock: LazyBox::default(),
            last_used: Mutex::new(Instant::now()),
            reopen_lock: LazyBox::default(),
            server_sessions: LazyBox::default(),
            _session_permit: room,
        })
    }

    /// The session as it is kept.
    pub fn to_row(&self, used_at: Timestamp) -> SessionRow {
        SessionRow {
            id: self.id_hash,
            grant: self.grant.clone(),
            server: self.server.clone(),
            revision: self.revision.as_str().to_owned(),
            client_name: self.client_info.name.clone(),
            client_version: self.client_info.version.clone(),
            // INVARIANT: it was read as a message, so it is UTF-8.
            handshake: str::from_utf8(&self.handshake).unwrap_or_default().to_owned(),
            is_upstream_stateless: self.is_upstream_stateless(),
            subscribed_uris: self.subscriptions.to_row().1,
            // It is said after the handshake, and kept then.
            log_level: None,
            last_used_at: used_at,
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// By which it is kept and counted: the id itself is on no disk.
    pub fn id_hash(&self) -> IdHash {
        self.id_hash
    }

    pub fn limit_key(&self) -> IdHash {
        self.limit_key
    }

    /// The same as a part of a session for all servers.
    pub fn into_server_session_of(mut self, whole: &Self) -> Self {
        if let Some(server) = &self.server {
            self.limit_key = IdHash::of(&[whole.id(), server.as_str()]);
            self.subscriptions = whole.subscriptions.for_server(server);
        }
        self
    }

    /// The same beside another at the same server: what either says to nobody in particular is for all who listen there.
    pub fn sharing_hub_with(mut self, other: &Self) -> Self {
        self.notification_hub = Arc::clone(&other.notification_hub);
        self
    }

    /// Notes what the server promised to tell of, unless the client was promised something before.
    pub fn note_list_changed(&self, server_info: &[u8]) {
        lock(&self.list_changed).get_or_insert_with(|| ListChangedSet::advertised(server_info));
    }

    pub fn list_changed(&self) -> Option<ListChangedSet> {
        *lock(&self.list_changed)
    }

    /// Notes which log messages were asked for, for asking again.
    pub fn note_upstream_log_level(&self, level: &str) {
        *lock(&self.upstream_log_level) = Some(level.into());
    }

    pub fn upstream_log_level(&self) -> Option<Box<str>> {
        lock(&self.upstream_log_level).clone()
    }

    /// Keeps it from being taken for one that nobody uses.
    pub fn mark_in_use(self: &Arc<Self>) -> SessionUseGuard {
        SessionUseGuard { session: Arc::clone(self), _use_count: Arc::clone(&self.use_count) }
    }

    pub fn grant(&self) -> &GrantId {
        &self.grant
    }

    /// At which server; none for all of the grant's together.
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

    /// What the client has declared that it can be asked.
    pub fn client_capabilities(&self) -> ClientCapabilities {
        self.client_capabilities
    }

    pub fn handshake(&self) -> &Bytes {
        &self.handshake
    }

    pub fn replay_buffers(&self) -> &ReplayBuffers {
        &self.replay_buffers
    }

    /// Where the upstream's own stream was left.
    pub fn last_event_id(&self) -> Option<HeaderValue> {
        self.last_event_id.get_if_initialized().and_then(|last_event_id| lock(last_event_id).clone())
    }

    /// Notes where it was left in an opening of the session. Another one knows nothing of the events of this.
    pub fn set_last_event_id(&self, last: Option<HeaderValue>, opening: u64) {
        let mut last_event_id = lock(&self.last_event_id);
        if self.handshake_attempts() == opening {
            *last_event_id = last;
        }
    }

    pub fn upstream_link(&self) -> UpstreamLink {
        lock(&self.upstream_link).clone()
    }

    /// The process of its own, if its server is one.
    pub fn server_process(&self) -> Option<Arc<ServerProcess>> {
        match &*lock(&self.upstream_link) {
            UpstreamLink::Process(process) => Some(Arc::clone(process)),
            _ => None,
        }
    }

    pub fn set_upstream_link(&self, link: UpstreamLink) {
        // In this order: who has the new link finds its number, too.
        self.link_epoch.fetch_add(1, Ordering::AcqRel);
        *lock(&self.upstream_link) = link;
        // In this order: who notes an event of the opening before comes too late, or it is forgotten here.
        self.note_handshake_attempt();
        // Not only if it is used: who notes an event makes it, and then asks which opening this is.
        *lock(&self.last_event_id) = None;
        // Nobody waits for the answers to what the old one asked, and the new one may use the same ids.
        self.clear_server_requests();
    }

    /// Nobody will answer any more what the client was asked.
    pub fn clear_server_requests(&self) {
        if let Some(questions) = self.server_requests.get_if_initialized() {
            questions.clear();
        }
    }

    /// Notes that it was tried to open it at the upstream.
    pub fn note_handshake_attempt(&self) {
        self.handshake_attempts.fetch_add(1, Ordering::AcqRel);
    }

    /// How often that was tried since the client's own handshake.
    pub fn handshake_attempts(&self) -> u64 {
        self.handshake_attempts.load(Ordering::Acquire)
    }

    /// How often it was opened anew.
    pub fn link_epoch(&self) -> u64 {
        self.link_epoch.load(Ordering::Acquire)
    }

    /// Whether the server has tasks. Of one that could not be asked again yet nobody knows.
    pub fn may_have_tasks(&self) -> bool {
        self.tasks.server_has_tasks() || matches!(*lock(&self.upstream_link), UpstreamLink::NotOpened)
    }

    /// The client's requests that are under way.
    pub fn cancellable_requests(&self) -> &Arc<CancellableRequests> {
        &self.cancellable_requests
    }

    /// Finds a request of the client by the id it gave it.
    pub fn find_request(&self, id: &RequestId<'_>) -> Option<InFlightRequest> {
        self.cancellable_requests.find(id)
    }

    /// Has a request of the client cancelled; false if there is none of this id.
    pub fn cancel_request(&self, id: &RequestId<'_>) -> bool {
        self.find_request(id).inspect(|in_flight| in_flight.cancel_signal.notify_one()).is_some()
    }

    /// Whether the upstream knows of no session.
    pub fn is_upstream_stateless(&self) -> bool {
        self.handshake_profile.is_some()
    }

    /// A request of the client as one that stands alone.
    pub fn to_stateless_request(&self, text: &str, retry: Option<&RetryInput<'_>>) -> Option<String> {
        self.handshake_profile.as_ref()?.to_stateless_request(text, retry)
    }

    /// Whether the client has said which log messages it wants.
    pub fn wants_log_messages(&self) -> bool {
        self.handshake_profile.as_ref().is_some_and(|words| lock(&words.log_level).is_some())
    }

    /// Notes the least severe log message that the client wants, wherever the session ends: for each request, for asking
    /// again, or for those that are opened at single servers.
    pub fn set_client_log_level(&self, level: &str) {
        match (&self.handshake_profile, &self.server) {
            (Some(words), _) => *lock(&words.log_level) = Some(to_json_string(level)),
            (None, Some(_)) => self.note_upstream_log_level(level),
            (None, None) => self.server_sessions.set_log_level(level),
        }
    }

    /// Opens the one stream of the session; an earlier one is told to end. The handle is told when this one has to.
    pub fn open_stream(&self) -> Arc<Notify> {
        let handle = Arc::new(Notify::new());
        if let Some(previous) = lock(&self.stream_end_signal).replace(Arc::clone(&handle)) {
            previous.notify_one();
        }
        handle
    }

    /// Notes that a stream has ended.
    pub fn close_stream(&self, handle: &Arc<Notify>) {
        let mut stream = lock(&self.stream_end_signal);
        if stream.as_ref().is_some_and(|own| Arc::ptr_eq(own, handle)) {
            *stream = None;
        }
    }

    /// Tells the stream to end.
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

/// The use of a session, until this is dropped.
#[derive(Debug)]
pub(crate) struct SessionUseGuard {
    session: Arc<Session>,
    _use_count: Arc<()>,
}

impl Drop for SessionUseGuard {
    fn drop(&mut self) {
        // How long nobody has used it counts from the end.
        self.session.touch();
    }
}

/// A revision as each request says it in its head; the first revisions had no such header.
pub(crate) fn protocol_version_header(revision: Revision) -> Option<Revision> {
    Some(revision).filter(|revision| *revision >= Revision::R2025_06_18)
}

/// Whether an upstream that speaks of itself so has log messages to ask for.
pub(crate) fn has_logging_capability(server_info: &[u8]) -> bool {
    let server_info = read(server_info, &JsonLimits::REPLY).ok();
    server_info
        .is_some_and(|server_info| server_info.root().get("capabilities").and_then(|own| own.get("logging")).is_some())
}

/// A panic while holding one of these leaves the table whole: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn a_session_is_out_of_use_from_the_end_of_its_last_use_on() {
        let room = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("room");
        let opening = SessionParams {
            grant: GrantId("ci".into()),
            server: None,
            revision: Revision::R2025_11_25,
            client_info: ClientInfo::default(),
            handshake: Bytes::new(),
            server_info: Bytes::new(),
            upstream_link: UpstreamLink::NoSession,
            session_permit: room,
            is_upstream_stateless: false,
            accepts_log_messages: false,
        };
        let (session, minute) = (Arc::new(Session::new(opening).expect("a session")), Duration::from_secs(60));
        let long_ago = || Instant::now().checked_sub(minute * 2).expect("a time");
        let held = session.mark_in_use();
        *lock(&session.last_used) = long_ago();
        assert!(!session.is_unused(minute), "it is in use");
        drop(held);
        assert!(!session.is_unused(minute), "it was until now");
        *lock(&session.last_used) = long_ago();
        assert!(session.is_unused(minute));
    }
}
