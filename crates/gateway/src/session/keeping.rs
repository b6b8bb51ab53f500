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
const PATIENCE: Duration = Duration::from_secs(1);
/// Look-ups at a time: whoever makes up ids waits, and takes no thread from anybody.
const LOOK_UPS: usize = 4;
/// Ids that are remembered for not being there.
const MAX_GONE: usize = 4_096;
/// The most bytes of a log level that is kept; the protocol's own have up to nine.
const MAX_LEVEL: usize = 64;
/// Sessions that were used within so long are noted as used. Longer than the time between two notes.
const IN_USE: Duration = Duration::from_secs(120);

/// Where sessions are kept, and what is known of those that are not.
pub(crate) struct Keeping {
    rows: Arc<dyn Sessions>,
    look_ups: Semaphore,
    gone: Mutex<Gone>,
    /// Those that have ended, and that the store could not be told to forget.
    unforgotten: Mutex<Vec<IdHash>>,
}

/// Ids that have ended, or that were looked for and not found. Ids are random, so none of them ever comes to be.
#[derive(Default)]
struct Gone {
    ids: HashSet<IdHash>,
    order: VecDeque<IdHash>,
}

impl Gone {
    fn add(&mut self, id: IdHash) {
        if !self.ids.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_GONE
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

impl Keeping {
    pub fn new(rows: Arc<dyn Sessions>) -> Self {
        Self { rows, look_ups: Semaphore::new(LOOK_UPS), gone: Mutex::default(), unforgotten: Mutex::default() }
    }

    fn is_gone(&self, id: &IdHash) -> bool {
        lock(&self.gone).ids.contains(id)
    }

    async fn look_up(&self, id: IdHash) -> Result<Option<SessionRow>, StoreError> {
        let looking = async {
            // INVARIANT: nobody closes the semaphore.
            let _turn = self.look_ups.acquire().await;
            self.rows.find(id).await
        };
        in_time(looking).await
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || Err(StoreError::Unavailable("it did not answer".to_owned()));
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| late())
}

/// Whether a text could be one of our ids. Nothing else is looked for.
fn is_id(text: &str) -> bool {
    text.len() == 2 * SESSION_ID_BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Gateway {
    /// Keeps a session that was opened.
    pub(crate) async fn keep_session(&self, session: &Session) {
        if let Err(fault) = in_time(self.session_persistence.rows.put(session.to_row(self.clock.now()))).await {
            warn!(error = %fault, "a session will not survive a restart of the gateway: {fault}");
        }
    }

    /// Keeps what a session listens for, if the session is kept.
    pub(crate) async fn keep_watched(&self, watched: &ResourceSubscriptions) {
        let writing = async {
            let _turn =
                Some(watched.lock_for_write().await).filter(|_| !mutant!("subscription-rows-written-in-any-order"));
            let (id, uris) = watched.to_row();
            self.session_persistence.rows.set_subscriptions(id, uris).await
        };
        if let Err(fault) = in_time(writing).await {
            warn!(error = %fault, "what a session listens for will not survive a restart of the gateway: {fault}");
        }
    }

    /// Notes which log messages the client of a session wants, and keeps that if the session is kept.
    pub(crate) async fn keep_level(&self, session: &Session, level: &str) {
        session.set_client_log_level(level);
        if level.len() > MAX_LEVEL {
            return;
        }
        if let Err(fault) =
            in_time(self.session_persistence.rows.set_log_level(session.id_hash(), level.to_owned())).await
        {
            warn!(error = %fault, "which log messages a session wants will not survive a restart of the gateway: {fault}");
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
        if !is_id(id) || self.sessions.has(id) || self.session_persistence.is_gone(&hash) {
            return Ok(None);
        }
        let found = self.session_persistence.look_up(hash).await.map_err(|fault| {
            warn!(error = %fault, "a session cannot be looked for: {fault}");
            not_now("the record of sessions cannot be read; try again later")
        })?;
        match found {
            Some(row) if row.grant == grant.config.id && row.server.as_ref() == server => {
                self.restore_session(id, row, grant).await
            }
            Some(_) => Ok(None),
            None => {
                lock(&self.session_persistence.gone).add(hash);
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
        let room = self.place_for_session(grant).await;
        let room = room.ok_or_else(|| not_now("too many sessions; try again when some have ended"))?;
        let restored = Session::restore(id, row, room).and_then(|session| self.sessions.insert(session));
        if self.session_persistence.is_gone(&hash) {
            // It was ended while we looked.
            self.sessions.remove(id);
            return Ok(None);
        }
        Ok(restored)
    }

    /// Forgets a session for good.
    pub(crate) async fn forget_session(&self, session: &Session) {
        self.end_session(session);
        let hash = session.id_hash();
        if let Err(fault) = in_time(self.session_persistence.rows.delete(vec![hash])).await {
            warn!(error = %fault, "a session that has ended cannot be forgotten yet: {fault}");
            lock(&self.session_persistence.unforgotten).push(hash);
        }
    }

    /// From now on nobody finds it, whatever has to be done yet.
    pub(crate) fn end_session(&self, session: &Session) {
        lock(&self.session_persistence.gone).add(session.id_hash());
        self.sessions.remove(session.id());
        session.clear_server_requests();
        // Who only listens learns in no other way that it must begin anew.
        session.end_stream();
    }

    /// Notes which sessions are in use, and forgets those that are not any more.
    pub(crate) async fn note_sessions(&self) {
        let now = self.clock.now();
        let unforgotten = std::mem::take(&mut *lock(&self.session_persistence.unforgotten));
        let oldest = now.checked_sub(self.settings.session_idle).unwrap_or_default();
        let rows = &self.session_persistence.rows;
        let noting = async {
            rows.touch(self.sessions.used_within(IN_USE), now).await?;
            rows.delete(unforgotten.clone()).await?;
            rows.sweep(oldest).await
        };
        if let Err(fault) = noting.await {
            warn!(error = %fault, "it cannot be noted which sessions are in use: {fault}");
            lock(&self.session_persistence.unforgotten).extend(unforgotten);
        }
    }
}

/// The client keeps its session, and comes again.
fn not_now(what: &str) -> ProtocolError {
    ProtocolError::new(StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL_ERROR, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_the_form_of_an_id_is_looked_for() {
        assert!(is_id(&"0f".repeat(32)));
        for other in ["", "abc", &"0F".repeat(32), &"0g".repeat(32), &"00".repeat(33)] {
            assert!(!is_id(other), "{other}");
        }
    }

    #[test]
    fn what_is_gone_is_remembered_within_bounds() {
        let mut gone = Gone::default();
        let id = |number: usize| IdHash::of(&[&number.to_string()]);
        (0..=MAX_GONE).for_each(|number| gone.add(id(number)));
        gone.add(id(MAX_GONE));
        assert_eq!((gone.ids.len(), gone.order.len()), (MAX_GONE, MAX_GONE));
        assert!(!gone.ids.contains(&id(0)) && gone.ids.contains(&id(1)));
    }
}
