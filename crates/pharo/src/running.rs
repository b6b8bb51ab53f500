//! Requests under way, so that they can be cancelled: by the session that began them, and its own id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gatelodge_mcp::Id;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// More at once than an image could do anything with.
const MOST: usize = 64;

type Key = (String, Id<'static>);

/// The requests under way.
#[derive(Debug)]
pub(crate) struct Running {
    room: Arc<Semaphore>,
    /// Those of a session. Without one nobody can cancel: two callers may well use the same id.
    cancellable: Mutex<HashMap<Key, Arc<Notify>>>,
}

/// One of them; it leaves with this.
#[derive(Debug)]
pub(crate) struct Entry {
    running: Arc<Running>,
    key: Option<Key>,
    cancelled: Arc<Notify>,
    _room: OwnedSemaphorePermit,
}

impl Running {
    pub fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(MOST)), cancellable: Mutex::default() }
    }

    /// Begins a request.
    ///
    /// # Errors
    /// There are too many, or one of the same id; in words.
    pub fn begin(self: &Arc<Self>, session: Option<&str>, id: &Id<'_>) -> Result<Entry, &'static str> {
        let room = Arc::clone(&self.room).try_acquire_owned();
        let room = room.map_err(|_| "too many requests are under way; ask again when some have ended")?;
        let key = session.map(|session| key(session, id));
        let cancelled = Arc::new(Notify::new());
        if let Some(key) = &key {
            let mut requests = self.lock();
            if requests.contains_key(key) {
                return Err("a request with this id is under way");
            }
            requests.insert(key.clone(), Arc::clone(&cancelled));
        }
        Ok(Entry { running: Arc::clone(self), key, cancelled, _room: room })
    }

    /// Cancels a request; one that has ended is left alone.
    pub fn cancel(&self, session: &str, id: &Id<'_>) {
        if let Some(request) = self.lock().get(&key(session, id)) {
            request.notify_one();
        }
    }

    /// Cancels all requests of a session.
    pub fn cancel_all(&self, session: &str) {
        for ((own, _), request) in self.lock().iter() {
            if own == session {
                request.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Notify>>> {
        self.cancellable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(session: &str, id: &Id<'_>) -> Key {
    (session.to_owned(), id.clone().into_owned())
}

impl Entry {
    /// Waits until the request is cancelled.
    pub async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.running.lock().remove(key);
        }
    }
}
