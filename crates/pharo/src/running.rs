//! Requests under way: how many there may be, and that each can be cancelled, by the session that began it and its id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gatelodge_mcp::RequestId;
use gatelodge_mutants::mutant;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// More at once than an image could do anything with.
const CALLS: usize = 64;
/// Open for as long as their clients are there, at no cost to the image; they must not keep calls out.
const STREAMS: usize = 64;

type Key = (String, RequestId<'static>);

/// The requests under way.
#[derive(Debug)]
pub(crate) struct Running {
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Those of a session. Without one nobody can cancel: two callers may well use the same id.
    cancellable: Mutex<HashMap<Key, Arc<Notify>>>,
}

/// Among which a request has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Those that end by themselves.
    Call,
    /// Those that end with their clients.
    Stream,
}

/// A place among them. It is kept until the answer is taken: a client that does not read cannot pile up answers.
pub(crate) type Room = Arc<OwnedSemaphorePermit>;

/// One of them; its id leaves with this.
#[derive(Debug)]
pub(crate) struct Entry {
    running: Arc<Running>,
    key: Option<Key>,
    cancelled: Arc<Notify>,
    pub room: Room,
}

/// Why a request is not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BeginError {
    /// All places are taken.
    #[error("too many requests are under way; ask again when some have ended")]
    Busy,
    /// Its id is.
    #[error("a request with this id is under way")]
    Repeated,
}

impl Running {
    pub fn new() -> Self {
        let (calls, streams) = (Arc::new(Semaphore::new(CALLS)), Arc::new(Semaphore::new(STREAMS)));
        Self { calls, streams, cancellable: Mutex::default() }
    }

    /// Begins a request.
    pub fn begin(
        self: &Arc<Self>,
        place: Place,
        session: Option<&str>,
        id: &RequestId<'_>,
    ) -> Result<Entry, BeginError> {
        let places = match place {
            Place::Call => &self.calls,
            Place::Stream => &self.streams,
        };
        let room = Arc::clone(places).try_acquire_owned().map_err(|_| BeginError::Busy)?;
        let key = session.map(|session| key(session, id));
        let cancelled = Arc::new(Notify::new());
        if let Some(key) = &key {
            let mut requests = self.lock();
            if requests.contains_key(key) {
                return Err(BeginError::Repeated);
            }
            requests.insert(key.clone(), Arc::clone(&cancelled));
        }
        Ok(Entry { running: Arc::clone(self), key, cancelled, room: Arc::new(room) })
    }

    /// Cancels a request; one that has ended is left alone.
    pub fn cancel(&self, session: &str, id: &RequestId<'_>) {
        let running = self.lock();
        let found = if mutant!("cancel-from-any-session") {
            running.iter().find(|((_, own), _)| own == id).map(|(_, request)| request)
        } else {
            running.get(&key(session, id))
        };
        if let Some(request) = found {
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

fn key(session: &str, id: &RequestId<'_>) -> Key {
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
