//! Persists sessions across restarts. A session is stored when it is opened, and restored when a request presents its
//! id and the token of its grant.
//!
//! This is a convenience for clients: if the store fails, the session still works until the gateway restarts. The
//! upstream session is not stored; it is opened again.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatelodge_mcp::code;
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mutants::mutant;
use gatelodge_store::{IdDigest, ServerName, SessionRow, Sessions, StoreError};
use http::StatusCode;
use tokio::sync::Semaphore;
use tracing::warn;

use super::resource_subscriptions::ResourceSubscriptions;
use super::{SESSION_ID_BYTES, Session, lock};
use crate::Gateway;
use crate::config_snapshot::ActiveGrant;

/// How long a reply waits for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of concurrent look-ups. A client that guesses ids only delays itself and cannot occupy the store's
/// threads.
const MAX_CONCURRENT_LOOKUPS: usize = 4;
/// Maximum number of ids remembered as not found.
const MAX_MISSING_SESSIONS: usize = 4_096;
/// Log levels longer than this are not stored. The protocol's level names have at most nine bytes.
const MAX_LOG_LEVEL_BYTES: usize = 64;
/// A session used within this time is marked in the store as used now. The time is longer than the interval between two
/// writes.
const RECENT_USE_WINDOW: Duration = Duration::from_secs(120);

/// The session store, with a cache of ids that are not in it.
pub(crate) struct SessionPersistence {
    rows: Arc<dyn Sessions>,
    lookup_slots: Semaphore,
    missing: Mutex<MissingSessionCache>,
    /// Ended sessions that could not be deleted from the store yet.
    pending_deletes: Mutex<Vec<IdDigest>>,
}

/// Ids of sessions that have ended or were not found. Ids are random, so a missing id never becomes valid later.
#[derive(Default)]
struct MissingSessionCache {
    ids: HashSet<IdDigest>,
    order: VecDeque<IdDigest>,
}

impl MissingSessionCache {
    fn insert(&mut self, id: IdDigest) {
        if !self.ids.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_MISSING_SESSIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

impl SessionPersistence {
    pub fn new(rows: Arc<dyn Sessions>) -> Self {
        Self {
            rows,
            lookup_slots: Semaphore::new(MAX_CONCURRENT_LOOKUPS),
            missing: Mutex::default(),
            pending_deletes: Mutex::default(),
        }
    }

    fn is_missing(&self, id: &IdDigest) -> bool {
        lock(&self.missing).ids.contains(id)
    }

    async fn look_up(&self, id: IdDigest) -> Result<Option<SessionRow>, StoreError> {
        let lookup = async {
            // INVARIANT: the semaphore is never closed.
            let _slot = self.lookup_slots.acquire().await;
            self.rows.find(id).await
        };
        with_store_timeout(lookup).await
    }
}

async fn with_store_timeout<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || Err(StoreError::Unavailable("timed out".to_owned()));
    tokio::time::timeout(STORE_TIMEOUT, work).await.unwrap_or_else(|_| late())
}

/// Returns whether a string has the format of a session id. Other strings are not looked up.
fn is_session_id(text: &str) -> bool {
    text.len() == 2 * SESSION_ID_BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Gateway {
    /// Stores a newly opened session.
    pub(crate) async fn persist_session(&self, session: &Session) {
        if let Err(error) =
            with_store_timeout(self.session_persistence.rows.put(session.to_row(self.clock.now()))).await
        {
            warn!(error = %error, "cannot persist a session, it will not survive a restart: {error}");
        }
    }

    /// Stores the subscriptions of a session, if the session is stored.
    pub(crate) async fn persist_subscriptions(&self, subscriptions: &ResourceSubscriptions) {
        let writing = async {
            let _write_guard = Some(subscriptions.lock_for_write().await)
                .filter(|_| !mutant!("subscription-rows-written-in-any-order"));
            let (id, uris) = subscriptions.to_row();
            self.session_persistence.rows.set_subscriptions(id, uris).await
        };
        if let Err(error) = with_store_timeout(writing).await {
            warn!(error = %error, "cannot persist a session's subscriptions, they will not survive a restart: {error}");
        }
    }

    /// Sets the log level of a session's client, and stores it if the session is stored.
    pub(crate) async fn persist_log_level(&self, session: &Session, level: &str) {
        session.set_client_log_level(level);
        if level.len() > MAX_LOG_LEVEL_BYTES {
            return;
        }
        if let Err(error) =
            with_store_timeout(self.session_persistence.rows.set_log_level(session.id_hash(), level.to_owned())).await
        {
            warn!(error = %error, "cannot persist a session's log level, it will not survive a restart: {error}");
        }
    }

    /// Finds a session by its id, in memory or in the store. A session of another grant is not found.
    ///
    /// # Errors
    /// The store cannot be read, or the session limit is reached. The client keeps its session and may retry.
    pub(crate) async fn find_session(
        &self,
        id: &str,
        grant: &ActiveGrant,
        server: Option<&ServerName>,
    ) -> Result<Option<Arc<Session>>, ProtocolError> {
        if let Some(session) = self.sessions.find(id, &grant.config.id, server) {
            return Ok(Some(session));
        }
        let hash = IdDigest::of(&[id]);
        if !is_session_id(id) || self.sessions.contains(id) || self.session_persistence.is_missing(&hash) {
            return Ok(None);
        }
        let found = self.session_persistence.look_up(hash).await.map_err(|error| {
            warn!(error = %error, "cannot look up a session: {error}");
            retry_later("stored sessions cannot be read; try again later")
        })?;
        match found {
            Some(row) if row.grant == grant.config.id && row.server.as_ref() == server => {
                self.restore_session(id, row, grant).await
            }
            Some(_) => Ok(None),
            None => {
                lock(&self.session_persistence.missing).insert(hash);
                Ok(None)
            }
        }
    }

    async fn restore_session(
        &self,
        id: &str,
        row: SessionRow,
        grant: &ActiveGrant,
    ) -> Result<Option<Arc<Session>>, ProtocolError> {
        let hash = row.id;
        let oldest = self.clock.now().checked_sub(self.settings.session_idle_timeout).unwrap_or_default();
        if row.last_used_at < oldest {
            return Ok(None);
        }
        let permit = self.acquire_session_permit(grant).await;
        let permit = permit.ok_or_else(|| retry_later("too many sessions; try again when some have finished"))?;
        let restored = Session::restore(id, row, permit).and_then(|session| self.sessions.insert(session));
        if self.session_persistence.is_missing(&hash) {
            // The session was ended during the look-up.
            self.sessions.remove(id);
            return Ok(None);
        }
        Ok(restored)
    }

    /// Ends a session and deletes it from the store.
    pub(crate) async fn delete_session(&self, session: &Session) {
        self.end_session(session);
        let hash = session.id_hash();
        if let Err(error) = with_store_timeout(self.session_persistence.rows.delete(vec![hash])).await {
            warn!(error = %error, "cannot delete an ended session from the store, will retry: {error}");
            lock(&self.session_persistence.pending_deletes).push(hash);
        }
    }

    /// Ends a session. From then on, its id is not found.
    pub(crate) fn end_session(&self, session: &Session) {
        lock(&self.session_persistence.missing).insert(session.id_hash());
        self.sessions.remove(session.id());
        session.clear_server_requests();
        // A client that only listens has no other way to learn that it needs a new session.
        session.end_stream();
    }

    /// Stores which sessions were used recently, and deletes expired ones.
    pub(crate) async fn persist_session_usage(&self) {
        let now = self.clock.now();
        let pending_deletes = std::mem::take(&mut *lock(&self.session_persistence.pending_deletes));
        let oldest = now.checked_sub(self.settings.session_idle_timeout).unwrap_or_default();
        let rows = &self.session_persistence.rows;
        let writing = async {
            rows.touch(self.sessions.recently_used(RECENT_USE_WINDOW), now).await?;
            rows.delete(pending_deletes.clone()).await?;
            rows.sweep(oldest).await
        };
        if let Err(error) = writing.await {
            warn!(error = %error, "cannot store which sessions are in use: {error}");
            lock(&self.session_persistence.pending_deletes).extend(pending_deletes);
        }
    }
}

/// Returns an error after which the client keeps its session and may retry.
fn retry_later(what: &str) -> ProtocolError {
    ProtocolError::new(StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL_ERROR, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_in_session_id_format_are_looked_up() {
        assert!(is_session_id(&"0f".repeat(32)));
        for other in ["", "abc", &"0F".repeat(32), &"0g".repeat(32), &"00".repeat(33)] {
            assert!(!is_session_id(other), "{other}");
        }
    }

    #[test]
    fn missing_session_cache_is_limited() {
        let mut missing = MissingSessionCache::default();
        let id = |number: usize| IdDigest::of(&[&number.to_string()]);
        (0..=MAX_MISSING_SESSIONS).for_each(|number| missing.insert(id(number)));
        missing.insert(id(MAX_MISSING_SESSIONS));
        assert_eq!((missing.ids.len(), missing.order.len()), (MAX_MISSING_SESSIONS, MAX_MISSING_SESSIONS));
        assert!(!missing.ids.contains(&id(0)) && missing.ids.contains(&id(1)));
    }
}
