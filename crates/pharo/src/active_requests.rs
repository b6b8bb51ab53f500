//! Requests in progress. Limits their number, and cancels them by session and request id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gatelodge_mcp::RequestId;
use gatelodge_mutants::mutant;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum number of concurrent calls. This is more than an image can usefully handle.
const MAX_CALLS: usize = 64;
/// Maximum number of open streams. A stream stays open until its client disconnects, and costs the image nothing.
/// Streams have their own limit so that they do not block calls.
const MAX_STREAMS: usize = 64;

type ActiveRequestKey = (String, RequestId<'static>);

/// Requests in progress.
#[derive(Debug)]
pub(crate) struct ActiveRequests {
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Requests that belong to a session. A request without a session cannot be cancelled, because two clients may use
    /// the same id.
    cancellable: Mutex<HashMap<ActiveRequestKey, Arc<Notify>>>,
}

/// The limit that a request counts towards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestSlotKind {
    /// Ordinary requests, which end with their reply.
    Call,
    /// Streams, which end when their clients disconnect.
    Stream,
}

/// A permit that is held until the client has read the reply, so that unread replies do not pile up.
pub(crate) type RequestSlot = Arc<OwnedSemaphorePermit>;

/// A request in progress. Dropping it frees its id.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    registry: Arc<ActiveRequests>,
    key: Option<ActiveRequestKey>,
    cancelled: Arc<Notify>,
    pub slot: RequestSlot,
}

/// Why a request cannot be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BeginRequestError {
    /// The maximum number of concurrent requests has been reached.
    #[error("too many requests are in progress; try again later")]
    Busy,
    /// The session already has a request in progress with this id.
    #[error("a request with this id is in progress")]
    DuplicateId,
}

impl ActiveRequests {
    pub fn new() -> Self {
        let (calls, streams) = (Arc::new(Semaphore::new(MAX_CALLS)), Arc::new(Semaphore::new(MAX_STREAMS)));
        Self { calls, streams, cancellable: Mutex::default() }
    }

    /// Starts a request.
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

    /// Cancels a request. Does nothing if it has ended.
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

    /// Cancels all requests in a session.
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
