//! What a session for all servers of a grant has: a session at each of them, opened when it is first needed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use gatelodge_mcp::RequestId;
use gatelodge_store::ServerName;

use super::{Session, lock};

/// The sessions at single servers.
#[derive(Debug, Default)]
pub(crate) struct ServerSessions {
    open: Mutex<BTreeMap<ServerName, Arc<Session>>>,
    /// Those that are over, and in which something is under way.
    ended: Mutex<Vec<(ServerName, Arc<Session>)>>,
    /// Held by whoever opens the one of a server, so that of many requests one does it.
    open_locks: Mutex<HashMap<ServerName, Arc<tokio::sync::Mutex<()>>>>,
    /// The least severe log message that the client wants, for those that are opened later.
    log_level: Mutex<Option<String>>,
}

impl ServerSessions {
    pub fn find(&self, server: &ServerName) -> Option<Arc<Session>> {
        lock(&self.open).get(server).cloned()
    }

    pub fn insert(&self, server: &ServerName, part: Arc<Session>) {
        let previous = lock(&self.open).insert(server.clone(), part);
        if let Some(previous) = previous {
            lock(&self.ended).push((server.clone(), previous));
        }
    }

    /// Forgets those that are over, and that nobody uses any more.
    pub fn sweep(&self, is_open: impl Fn(&Session) -> bool) {
        let mut over = lock(&self.ended);
        lock(&self.open).retain(|server, own| {
            let is_open = is_open(own);
            if !is_open {
                over.push((server.clone(), Arc::clone(own)));
            }
            is_open
        });
        over.retain(|(_, own)| !own.cancellable_requests().is_empty());
    }

    /// Those in which a request of the client's is under way, be they over.
    pub fn all_with_request(&self, id: &RequestId<'_>) -> Vec<(ServerName, Arc<Session>)> {
        let mut all = self.all();
        all.extend(lock(&self.ended).iter().cloned());
        all.retain(|(_, part)| part.find_request(id).is_some());
        all
    }

    /// Those that are open, by their servers.
    pub fn all(&self) -> Vec<(ServerName, Arc<Session>)> {
        lock(&self.open).iter().map(|(server, part)| (server.clone(), Arc::clone(part))).collect()
    }

    pub fn open_lock(&self, server: &ServerName) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(lock(&self.open_locks).entry(server.clone()).or_default())
    }

    pub fn log_level(&self) -> Option<String> {
        lock(&self.log_level).clone()
    }

    pub fn set_log_level(&self, level: &str) {
        *lock(&self.log_level) = Some(level.to_owned());
    }
}
