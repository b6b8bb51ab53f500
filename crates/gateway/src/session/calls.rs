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
pub(crate) struct UnderWay {
    /// Our id of it at the server; none where it goes there under others, or not at all.
    pub call: Option<CallId>,
    /// Told when the client cancels; whoever carries the request listens. Many entries of one request share it.
    pub cancelled: Arc<Notify>,
}

/// Those of one client.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<HashMap<RequestId<'static>, UnderWay>>);

/// Keeps a request among those under way until it is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    calls: Arc<Calls>,
    id: RequestId<'static>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.calls.0).remove(&self.id);
    }
}

impl Calls {
    /// Notes one; none if there is one of the same id.
    pub fn begin(self: &Arc<Self>, id: &RequestId<'_>, under_way: UnderWay) -> Option<Entry> {
        let id = id.clone().into_owned();
        match lock(&self.0).entry(id.clone()) {
            Place::Occupied(_) => None,
            Place::Vacant(place) => {
                place.insert(under_way);
                Some(Entry { calls: Arc::clone(self), id })
            }
        }
    }

    pub fn find(&self, id: &RequestId<'_>) -> Option<UnderWay> {
        lock(&self.0).get(&id.clone().into_owned()).cloned()
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

/// Waits until the client cancels a request. For one that it cannot name, this waits for ever.
pub(crate) async fn cancelled(told: Option<&Notify>) {
    match told {
        Some(told) => told.notified().await,
        None => std::future::pending().await,
    }
}
