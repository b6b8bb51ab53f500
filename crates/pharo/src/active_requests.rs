//! Requests under way: how many there may be, and that each can be cancelled, by the session that began it and its id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gatelodge_mcp::RequestId;
use gatelodge_mutants::mutant;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// More at once than an image could do anything with.
const MAX_CALLS: usize = 64;
/// Open for as long as their clients are there, at no cost to the image; they must not keep calls out.
const MAX_STREAMS: usize = 64;

type ActiveRequestKey = (String, RequestId<'static>);

/// The requests under way.
#[derive(Debug)]
pub(crate) struct ActiveRequests {
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Those of a session. Without one nobody can cancel: two callers may well use the same id.
    cancellable: Mutex<HashMap<ActiveRequestKey, Arc<Notify>>>,
}

/// Among which a request has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestSlotKind {
    /// Those that end by themselves.
    Call,
    /// Those that end with their clients.
    Stream,
}

/// A place among them. It is kept until the answer is taken: a client that does not read cannot pile up answers.
pub(crate) type RequestSlot = Arc<OwnedSemaphorePermit>;

/// One of them; its id leaves with this.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    registry: Arc<ActiveRequests>,
    key: Option<ActiveRequestKey>,
    cancelled: Arc<Notify>,
    pub slot: RequestSlot,
}

/// Why a request is not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BeginRequestError {
    /// All places are taken.
    #[error("too many requests are under way; ask again when some have ended")]
    Busy,
    /// Its id is.
    #[error("a request with this id is under way")]
    DuplicateId,
}

impl ActiveRequests {
    pub fn new() -> Self {
        let (calls, streams) = (Arc::new(Semaphore::new(MAX_CALLS)), Arc::new(Semaphore::new(MAX_STREAMS)));
        Self { calls, streams, cancellable: Mutex::default() }
    }

    /// Begins a request.
    pub fn begin(
        self: &Arc<Self>,
        kind: RequestSlotKind,
        session: Option<&str>,
        id: &RequestId<'_>,
    ) -> Result<ActiveRequest, BeginRequestError> {
        let slots = match kind {
            RequestSlotKind::Call => &self.calls,
            RequestSlotKind::Stream => &self.streams,
        };
        let slot = Arc::clone(slots).try_acquire_owned().map_err(|_| BeginRequestError::Busy)?;
        let key = session.map(|session| request_key(session, id));
        let cancelled = Arc::new(Notify::new());
        if let Some(key) = &key {
            let mut requests = self.lock();
            if requests.contains_key(key) {
                return Err(BeginRequestError::DuplicateId);
            }
            requests.insert(key.clone(), Arc::clone(&cancelled));
        }
        Ok(ActiveRequest { registry: Arc::clone(self), key, cancelled, slot: Arc::new(slot) })
    }

    /// Cancels a request; one that has ended is left alone.
    pub fn cancel(&self, session: &str, id: &RequestId<'_>) {
        let running = self.lock();
        let found = if mutant!("cancel-from-any-session") {
            running.iter().find(|((_, own), _)| own == id).map(|(_, request)| request)
        } else {
            running.get(&request_key(session, id))
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

    fn lock(&self) -> MutexGuard<'_, HashMap<ActiveRequestKey, Arc<Notify>>> {
        self.cancellable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn request_key(session: &str, id: &RequestId<'_>) -> ActiveRequestKey {
    (session.to_owned(), id.clone().into_owned())
}

impl ActiveRequest {
    /// Waits until the request is cancelled.
    pub async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.registry.lock().remove(key);
        }
    }
}
