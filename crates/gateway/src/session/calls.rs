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

impl Calls {
    /// Notes one; none if there is one of the same id.
    pub fn begin(&self, id: Id<'static>, call: CallId) -> Option<Arc<UnderWay>> {
        let mut calls = lock(&self.0);
        if calls.contains_key(&id) {
            return None;
        }
        let entry = Arc::new(UnderWay { call, cancelled: Notify::new() });
        calls.insert(id, Arc::clone(&entry));
        Some(entry)
    }

    pub fn end(&self, id: &Id<'static>) {
        lock(&self.0).remove(id);
    }

    pub fn find(&self, id: &Id<'_>) -> Option<Arc<UnderWay>> {
        lock(&self.0).get(&id.clone().into_owned()).cloned()
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}
