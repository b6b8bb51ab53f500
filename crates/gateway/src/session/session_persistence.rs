//! Sessions beyond the life of the process: written when they open, found again by whoever shows their id and the token
//! of their grant.
//!
//! Nothing depends on it but the client's comfort, so a store that cannot keep a session takes it from nobody: it lives
//! until the restart. The server's own session is not kept; it is opened anew.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatelodge_mcp::code;
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mutants::mutant;
use gatelodge_store::{IdHash, ServerName, SessionRow, Sessions, StoreError};
use http::StatusCode;
use tokio::sync::Semaphore;
use tracing::warn;

use super::resource_subscriptions::ResourceSubscriptions;
use super::{SESSION_ID_BYTES, Session, lock};
use crate::Gateway;
use crate::config_snapshot::ActiveGrant;

/// No answer waits longer for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);
/// Look-ups at a time: whoever makes up ids waits, and takes no thread from anybody.
const MAX_CONCURRENT_LOOKUPS: usize = 4;
/// Ids that are remembered for not being there.
const MAX_MISSING_SESSIONS: usize = 4_096;
/// The most bytes of a log level that is kept; the protocol's own have up to nine.
const MAX_LOG_LEVEL_BYTES: usize = 64;
/// Sessions that were used within so long are noted as used. Longer than the time between two notes.
const RECENT_USE_WINDOW: Duration = Duration::from_secs(120);

/// Where sessions are kept, and what is known of those that are not.
pub(crate) struct SessionPersistence {
    rows: Arc<dyn Sessions>,
    lookup_slots: Semaphore,
    missing: Mutex<MissingSessionCache>,
    /// Those that have ended, and that the store could not be told to forget.
    pending_deletes: Mutex<Vec<IdHash>>,
}

/// Ids that have ended, or that were looked for and not found. Ids are random, so none of them ever comes to be.
#[derive(Default)]
struct MissingSessionCache {
    ids: HashSet<IdHash>,
    order: VecDeque<IdHash>,
}

impl MissingSessionCache {
    fn insert(&mut self, id: IdHash) {
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

    fn is_missing(&self, id: &IdHash) -> bool {
        lock(&self.missing).ids.contains(id)
    }

    async fn look_up(&self, id: IdHash) -> Result<Option<SessionRow>, StoreError> {
        let looking = async {
            // INVARIANT: nobody closes the semaphore.
            let _turn = self.lookup_slots.acquire().await;
            self.rows.find(id).await
        };
        with_store_timeout(looking).await
    }
}

async fn with_store_timeout<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || Err(StoreError::Unavailable("it did not answer".to_owned()));
    tokio::time::timeout(STORE_TIMEOUT, work).await.unwrap_or_else(|_| late())
}

/// Whether a text could be one of our ids. Nothing else is looked for.
fn is_session_id(text: &str) -> bool {
    text.len() == 2 * SESSION_ID_BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Gateway {
    /// Keeps a session that was opened.
    pub(crate) async fn persist_session(&self, session: &Session) {
        if let Err(error) =
            with_store_timeout(self.session_persistence.rows.put(session.to_row(self.clock.now()))).await
        {
            warn!(error = %error, "a session will not survive a restart of the gateway: {error}");
        }
    }

    /// Keeps what a session listens for, if the session is kept.
    pub(crate) async fn persist_subscriptions(&self, subscriptions: &ResourceSubscriptions) {
        let writing = async {
            let _turn = Some(subscriptions.lock_for_write().await)
                .filter(|_| !mutant!("subscription-rows-written-in-any-order"));
            let (id, uris) = subscriptions.to_row();
            self.session_persistence.rows.set_subscriptions(id, uris).await
        };
        if let Err(error) = with_store_timeout(writing).await {
            warn!(error = %error, "what a session listens for will not survive a restart of the gateway: {error}");
        }
    }

    /// Notes which log messages the client of a session wants, and keeps that if the session is kept.
    pub(crate) async fn persist_log_level(&self, session: &Session, level: &str) {
        session.set_client_log_level(level);
        if level.len() > MAX_LOG_LEVEL_BYTES {
            return;
        }
        if let Err(error) =
            with_store_timeout(self.session_persistence.rows.set_log_level(session.id_hash(), level.to_owned())).await
        {
            warn!(error = %error, "which log messages a session wants will not survive a restart of the gateway: {error}");
        }
    }

    /// Finds a session by its id: here, or among those that were kept. One of another grant is not there.
    ///
    /// # Errors
    /// The store cannot say, or there is no room. The client need not begin anew for that.
    pub(crate) async fn find_session(
        &self,
        id: &str,
        grant: &ActiveGrant,
        server: Option<&ServerName>,
    ) -> Result<Option<Arc<Session>>, ProtocolError> {
        if let Some(session) = self.sessions.find(id, &grant.config.id, server) {
            return Ok(Some(session));
        }
        let hash = IdHash::of(&[id]);
        if !is_session_id(id) || self.sessions.contains(id) || self.session_persistence.is_missing(&hash) {
            return Ok(None);
        }
        let found = self.session_persistence.look_up(hash).await.map_err(|error| {
            warn!(error = %error, "a session cannot be looked for: {error}");
            retry_later("the record of sessions cannot be read; try again later")
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
        let oldest = self.clock.now().checked_sub(self.settings.session_idle).unwrap_or_default();
        if row.last_used_at < oldest {
            return Ok(None);
        }
        let room = self.acquire_session_permit(grant).await;
        let room = room.ok_or_else(|| retry_later("too many sessions; try again when some have ended"))?;
        let restored = Session::restore(id, row, room).and_then(|session| self.sessions.insert(session));
        if self.session_persistence.is_missing(&hash) {
            // It was ended while we looked.
            self.sessions.remove(id);
            return Ok(None);
        }
        Ok(restored)
    }

    /// Forgets a session for good.
    pub(crate) async fn delete_session(&self, session: &Session) {
        self.end_session(session);
        let hash = session.id_hash();
        if let Err(error) = with_store_timeout(self.session_persistence.rows.delete(vec![hash])).await {
            warn!(error = %error, "a session that has ended cannot be forgotten yet: {error}");
            lock(&self.session_persistence.pending_deletes).push(hash);
        }
    }

    /// From now on nobody finds it, whatever has to be done yet.
    pub(crate) fn end_session(&self, session: &Session) {
        lock(&self.session_persistence.missing).insert(session.id_hash());
        self.sessions.remove(session.id());
        session.clear_server_requests();
        // Who only listens learns in no other way that it must begin anew.
        session.end_stream();
    }

    /// Notes which sessions are in use, and forgets those that are not any more.
    pub(crate) async fn persist_session_usage(&self) {
        let now = self.clock.now();
        let unforgotten = std::mem::take(&mut *lock(&self.session_persistence.pending_deletes));
        let oldest = now.checked_sub(self.settings.session_idle).unwrap_or_default();
        let rows = &self.session_persistence.rows;
        let noting = async {
            rows.touch(self.sessions.recently_used(RECENT_USE_WINDOW), now).await?;
            rows.delete(unforgotten.clone()).await?;
            rows.sweep(oldest).await
        };
        if let Err(error) = noting.await {
            warn!(error = %error, "it cannot be noted which sessions are in use: {error}");
            lock(&self.session_persistence.pending_deletes).extend(unforgotten);
        }
    }
}

/// The client keeps its session, and comes again.
fn retry_later(what: &str) -> ProtocolError {
    ProtocolError::new(StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL_ERROR, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_the_form_of_an_id_is_looked_for() {
        assert!(is_session_id(&"0f".repeat(32)));
        for other in ["", "abc", &"0F".repeat(32), &"0g".repeat(32), &"00".repeat(33)] {
            assert!(!is_session_id(other), "{other}");
        }
    }

    #[test]
    fn what_is_gone_is_remembered_within_bounds() {
        let mut gone = MissingSessionCache::default();
        let id = |number: usize| IdHash::of(&[&number.to_string()]);
        (0..=MAX_MISSING_SESSIONS).for_each(|number| gone.insert(id(number)));
        gone.insert(id(MAX_MISSING_SESSIONS));
        assert_eq!((gone.ids.len(), gone.order.len()), (MAX_MISSING_SESSIONS, MAX_MISSING_SESSIONS));
        assert!(!gone.ids.contains(&id(0)) && gone.ids.contains(&id(1)));
    }
}
