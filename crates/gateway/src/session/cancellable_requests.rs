//! A client's requests in flight, by the ids that the client gave them.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use foldhash::HashMap;
use gatelodge_mcp::RequestId;
use gatelodge_store::CallId;
use tokio::sync::Notify;

use super::lock;

/// A request in flight.
#[derive(Debug, Clone)]
pub(crate) struct InFlightRequest {
    /// The call id used upstream. `None` for a request that is split into several upstream requests or not forwarded.
    pub call: Option<CallId>,
    /// Notified when the client cancels; the task that carries out the request waits for it. All entries for one
    /// request share it.
    pub cancel_signal: Arc<Notify>,
}

/// The requests of one client.
#[derive(Debug, Default)]
pub(crate) struct CancellableRequests(Mutex<HashMap<RequestId<'static>, InFlightRequest>>);

/// Keeps a request registered until dropped.
#[derive(Debug)]
pub(crate) struct RequestRegistration {
    calls: Arc<CancellableRequests>,
    id: RequestId<'static>,
}

impl Drop for RequestRegistration {
    fn drop(&mut self) {
        lock(&self.calls.0).remove(&self.id);
    }
}

impl CancellableRequests {
    /// Registers a request; `None` if the id is in use.
    pub fn register(self: &Arc<Self>, id: &RequestId<'_>, in_flight: InFlightRequest) -> Option<RequestRegistration> {
        let id = id.clone().into_owned();
        match lock(&self.0).entry(id.clone()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(entry) => {
                entry.insert(in_flight);
                Some(RequestRegistration { calls: Arc::clone(self), id })
            }
        }
    }

    pub fn find(&self, id: &RequestId<'_>) -> Option<InFlightRequest> {
        lock(&self.0).get(&id.clone().into_owned()).cloned()
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

/// Waits until the client cancels a request. Never returns if there is no signal, because a request without an id
/// cannot be cancelled.
pub(crate) async fn wait_for_cancel(cancel_signal: Option<&Notify>) {
    match cancel_signal {
        Some(cancel_signal) => cancel_signal.notified().await,
        None => std::future::pending().await,
    }
}
