//! Requests of a client that are under way, by the ids that it gave them.

use std::collections::hash_map::Entry as Place;
use std::sync::{Arc, Mutex};

use foldhash::HashMap;
use gatelodge_mcp::RequestId;
use gatelodge_store::CallId;
use tokio::sync::Notify;

use super::lock;

/// A request under way.
#[derive(Debug, Clone)]
pub(crate) struct InFlightRequest {
    /// Our id of it at the server; none where it goes there under others, or not at all.
    pub call: Option<CallId>,
    /// Told when the client cancels; whoever carries the request listens. Many entries of one request share it.
    pub cancel_signal: Arc<Notify>,
}

/// Those of one client.
#[derive(Debug, Default)]
pub(crate) struct CancellableRequests(Mutex<HashMap<RequestId<'static>, InFlightRequest>>);

/// Keeps a request among those under way until it is dropped.
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
    /// Notes one; none if there is one of the same id.
    pub fn register(self: &Arc<Self>, id: &RequestId<'_>, in_flight: InFlightRequest) -> Option<RequestRegistration> {
        let id = id.clone().into_owned();
        match lock(&self.0).entry(id.clone()) {
            Place::Occupied(_) => None,
            Place::Vacant(place) => {
                place.insert(in_flight);
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

/// Waits until the client cancels a request. For one that it cannot name, this waits for ever.
pub(crate) async fn wait_for_cancel(cancel_signal: Option<&Notify>) {
    match cancel_signal {
        Some(cancel_signal) => cancel_signal.notified().await,
        None => std::future::pending().await,
    }
}
