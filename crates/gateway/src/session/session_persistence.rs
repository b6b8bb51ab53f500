//! Persists sessions across restarts. A session is stored when it is opened, and restored when a request presents its
//! id and the token of its grant.
//!
//! This is a convenience for clients: if the store fails, the session still works until the gateway restarts. The
//! upstream session is not stored; it is opened again.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatelodge_store::{IdDigest, SessionRow, Sessions, StoreError};
use tokio::sync::Semaphore;

use super::{SESSION_ID_BYTES, lock};

/// How long a reply waits for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of concurrent look-ups. A client that guesses ids only delays itself and cannot occupy the store's
/// threads.
const MAX_CONCURRENT_LOOKUPS: usize = 4;
/// Maximum number of ids remembered as not found.
const MAX_MISSING_SESSIONS: usize = 4_096;

/// The session store, with a cache of ids that are not in it.
pub(crate) struct SessionPersistence {
    pub rows: Arc<dyn Sessions>,
    lookup_slots: Semaphore,
    pub missing: Mutex<MissingSessionCache>,
    /// Ended sessions that could not be deleted from the store yet.
    pub pending_deletes: Mutex<Vec<IdDigest>>,
}

/// Ids of sessions that have ended or were not found. Ids are random, so a missing id never becomes valid later.
#[derive(Default)]
pub(super) struct MissingSessionCache {
    ids: HashSet<IdDigest>,
    order: VecDeque<IdDigest>,
}

impl MissingSessionCache {
    pub fn insert(&mut self, id: IdDigest) {
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

    pub fn is_missing(&self, id: &IdDigest) -> bool {
        lock(&self.missing).ids.contains(id)
    }

    pub async fn look_up(&self, id: IdDigest) -> Result<Option<SessionRow>, StoreError> {
        let lookup = async {
            // INVARIANT: the semaphore is never closed.
            let _slot = self.lookup_slots.acquire().await;
            self.rows.find(id).await
        };
        with_store_timeout(lookup).await
    }
}

pub(super) async fn with_store_timeout<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || Err(StoreError::Unavailable("timed out".to_owned()));
    tokio::time::timeout(STORE_TIMEOUT, work).await.unwrap_or_else(|_| late())
}

/// Returns whether a string has the format of a session id. Other strings are not looked up.
pub(super) fn is_session_id(text: &str) -> bool {
    text.len() == 2 * SESSION_ID_BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
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
