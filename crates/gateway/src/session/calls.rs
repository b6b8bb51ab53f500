//! Requests of a client that are under way, by the ids that it gave them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use gatelodge_mcp::Id;
use gatelodge_store::CallId;
use tokio::sync::Notify;

use super::lock;

/// A request under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub call: CallId,
    pub cancelled: Notify,
}

/// Those of one client.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<HashMap<Id<'static>, Arc<UnderWay>>>);

/// Keeps a request among those under way until it is dropped.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    calls: &'a Calls,
    id: Id<'static>,
    pub under_way: Arc<UnderWay>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        lock(&self.calls.0).remove(&self.id);
    }
}

impl Calls {
    /// Notes one; none if there is one of the same id.
    pub fn begin(&self, id: &Id<'_>, call: CallId) -> Option<Entry<'_>> {
        let id = id.clone().into_owned();
        let mut calls = lock(&self.0);
        if calls.contains_key(&id) {
            return None;
        }
        let under_way = Arc::new(UnderWay { call, cancelled: Notify::new() });
        calls.insert(id.clone(), Arc::clone(&under_way));
        Some(Entry { calls: self, id, under_way })
    }

    pub fn find(&self, id: &Id<'_>) -> Option<Arc<UnderWay>> {
        lock(&self.0).get(&id.clone().into_owned()).cloned()
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

/// Waits until the client cancels a request. For one that it cannot name, this waits for ever.
pub(crate) async fn cancelled(under_way: Option<&UnderWay>) {
    match under_way {
        Some(under_way) => under_way.cancelled.notified().await,
        None => std::future::pending().await,
    }
}
