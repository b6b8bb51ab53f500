//! A session: of a stateful client, or one that the gateway opened at a server. It authorizes nothing: every request must
//! carry the grant's token, and sessions that belong to another grant are not found.

mod cancellable_requests;
mod client_handshake_profile;
mod client_info;
mod lazy_box;
pub(crate) mod list_changed;
mod negotiated;
mod notification_hub;
mod pending_server_requests;
mod progress_relay;
mod replay;
mod resource_subscriptions;
mod server_sessions;
mod session_identity;
mod session_manager;
mod session_mcp_tasks;
mod session_persistence;
mod session_pool;
pub(crate) mod session_pool_group;
mod session_registry;
mod session_use;
mod stream_state;
mod upstream_link;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_json::{JsonLimits, read};
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{RequestId, Revision};
use gatelodge_mutants::mutant;
use gatelodge_store::{GrantId, IdDigest, ServerName, SessionRow};
use http::HeaderValue;
use jiff::Timestamp;
use tokio::sync::OwnedSemaphorePermit;

use self::lazy_box::LazyBox;
use self::negotiated::Negotiated;
use self::notification_hub::NotificationHub;
use self::pending_server_requests::PendingServerRequests;
use self::resource_subscriptions::ResourceSubscriptions;
use self::server_sessions::ServerSessions;
use self::session_identity::SessionIdentity;
use self::session_mcp_tasks::SessionTaskTracking;
use self::session_use::SessionUse;
use self::stream_state::StreamState;
use self::upstream_link::UpstreamLink;
use crate::upstream::UpstreamSessionLink;

pub(crate) use self::cancellable_requests::{
    CancellableRequests, InFlightRequest, RequestRegistration, wait_for_cancel,
};
pub(crate) use self::client_info::ClientInfo;
pub(crate) use self::notification_hub::StandaloneStreamState;
pub(crate) use self::pending_server_requests::ClientResponseDestination;
pub(crate) use self::progress_relay::ProgressRelay;
pub(crate) use self::replay::{STANDALONE_STREAM, SseEventId};
pub(crate) use self::session_manager::SessionManager;
pub(crate) use self::session_pool::{SessionPool, SessionPoolKey};
pub(crate) use self::session_pool_group::ExclusiveSession;
pub(crate) use self::session_registry::SessionRegistry;
pub(crate) use self::session_use::SessionUseGuard;

/// Number of random bytes in a session id, which is written as hexadecimal digits.
const SESSION_ID_BYTES: usize = 32;

/// A session: the result of its handshake, and its running requests and streams.
#[derive(Debug)]
pub(crate) struct Session {
    identity: SessionIdentity,
    pub negotiated: Negotiated,
    /// The connection to the upstream.
    pub upstream_link: UpstreamLink,
    pub streams: StreamState,
    /// The resources to which the client is subscribed.
    pub subscriptions: ResourceSubscriptions,
    /// Distributes the upstream's notifications to stateless clients.
    pub notification_hub: Arc<LazyBox<NotificationHub>>,
    /// Task state: whether the server supports tasks, and the tasks that the client runs for it.
    pub tasks: SessionTaskTracking,
    /// The client's requests in flight, keyed by the client's ids. Each is notified when the client cancels it.
    cancellable_requests: Arc<CancellableRequests>,
    /// Requests from the upstream to the client.
    pub server_requests: LazyBox<PendingServerRequests>,
    /// The sessions with individual servers, if this is a session on the aggregate endpoint.
    pub server_sessions: LazyBox<ServerSessions>,
    usage: SessionUse,
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
    /// Whether the session exists only in the gateway, because the server is stateless.
    pub is_local: bool,
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
            is_local: row.is_upstream_stateless,
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
            is_local,
            accepts_log_messages,
        } = params;
        Some(Self {
            identity: SessionIdentity::new(id, grant, server),
            negotiated: Negotiated::new(revision, client_info, handshake, server_info, is_local, accepts_log_messages),
            upstream_link: UpstreamLink::new(upstream_link),
            streams: StreamState::new()?,
            subscriptions: ResourceSubscriptions::new(IdDigest::of(&[id]), subscriptions),
            notification_hub: Arc::default(),
            tasks: SessionTaskTracking::default(),
            cancellable_requests: Arc::default(),
            server_requests: LazyBox::default(),
            server_sessions: LazyBox::default(),
            usage: SessionUse::begin(),
            _session_permit: session_permit,
        })
    }

    /// Returns the row to store.
    pub fn to_row(&self, used_at: Timestamp) -> SessionRow {
        let negotiated = &self.negotiated;
        SessionRow {
            id: self.id_hash(),
            grant: self.grant().clone(),
            server: self.server().cloned(),
            revision: negotiated.revision.as_str().to_owned(),
            client_name: negotiated.client_info.name.clone(),
            client_version: negotiated.client_info.version.clone(),
            // INVARIANT: the handshake was parsed as a message, so it is UTF-8.
            handshake: str::from_utf8(&negotiated.handshake).unwrap_or_default().to_owned(),
            is_upstream_stateless: negotiated.is_local(),
            subscribed_uris: self.subscriptions.to_row().1,
            // Set and stored after the handshake.
            log_level: None,
            last_used_at: used_at,
        }
    }

    pub fn id(&self) -> &str {
        &self.identity.id
    }

    /// Returns the key under which the session is stored and counted.
    pub fn id_hash(&self) -> IdDigest {
        self.identity.id_hash
    }

    pub fn limit_key(&self) -> IdDigest {
        self.identity.limit_key
    }

    pub fn grant(&self) -> &GrantId {
        &self.identity.grant
    }

    /// Returns the server; `None` for the aggregate endpoint.
    pub fn server(&self) -> Option<&ServerName> {
        self.identity.server.as_ref()
    }

    pub fn revision(&self) -> Revision {
        self.negotiated.revision
    }

    /// Returns whether the client understands the event without data with which a resumable stream starts. Older clients
    /// treat it as a broken message.
    pub fn has_priming_events(&self) -> bool {
        self.revision() >= Revision::R2025_11_25
    }

    /// Turns this session into the server session of `whole`, a session on the aggregate endpoint.
    pub fn into_server_session_of(mut self, whole: &Self) -> Self {
        if let Some(server) = &self.identity.server {
            self.identity.limit_key = IdDigest::of(&[whole.id(), server.as_str()]);
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

    /// Keeps the session from expiring as idle until the guard is dropped.
    pub fn mark_in_use(self: &Arc<Self>) -> SessionUseGuard {
        SessionUseGuard::new(self)
    }

    /// Records the last event id received since handshake `attempt`. Ignored if the session has been reopened since
    /// then, because event ids are only valid within one upstream session.
    pub fn set_last_event_id(&self, last: Option<HeaderValue>, attempt: u64) {
        self.streams.set_last_event_id(last, || self.upstream_link.handshake_attempts() == attempt);
    }

    /// Installs the link that a repeated handshake has opened.
    pub fn set_upstream_link(&self, link: UpstreamSessionLink) {
        // Before clearing the event id: `set_last_event_id` either sees the new attempt or is cleared below.
        self.upstream_link.replace(link);
        // Unconditionally: `set_last_event_id` initializes the box before it compares attempts.
        self.streams.set_last_event_id(None, || true);
        // The old upstream session no longer waits for these answers, and the new one may reuse the ids.
        self.clear_server_requests();
    }

    /// Forgets all requests from the upstream to the client.
    pub fn clear_server_requests(&self) {
        if let Some(requests) = self.server_requests.get_if_initialized() {
            requests.clear();
        }
    }

    /// Returns whether the server may support tasks. For a restored session, returns true until the session is
    /// reopened, because the answer is not known before.
    pub fn may_have_tasks(&self) -> bool {
        self.tasks.server_has_tasks() || self.upstream_link.is_not_opened()
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

    /// Records the client's log level: in the profile for a stateless upstream, in the session for a repeated
    /// handshake, or in the sessions with individual servers.
    pub fn set_client_log_level(&self, level: &str) {
        match (&self.negotiated.handshake_profile, self.server()) {
            (Some(profile), _) => *lock(&profile.log_level) = Some(to_json_string(level)),
            (None, Some(_)) => self.negotiated.note_upstream_log_level(level),
            (None, None) => self.server_sessions.set_log_level(level),
        }
    }

    fn is_idle(&self, limit: Duration) -> bool {
        self.is_unused(limit) && !self.streams.is_open()
    }

    fn is_unused(&self, limit: Duration) -> bool {
        self.usage.is_over_since(limit) && self.cancellable_requests.is_empty()
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
