//! Sessions with individual servers that belong to one aggregate session. Each is opened when it is first needed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use gatelodge_mcp::RequestId;
use gatelodge_store::ServerName;

use super::{Session, lock};

/// The server sessions of one aggregate session.
#[derive(Debug, Default)]
pub(crate) struct ServerSessions {
    open: Mutex<BTreeMap<ServerName, Arc<Session>>>,
    /// Ended sessions that still have requests in flight.
    ended: Mutex<Vec<(ServerName, Arc<Session>)>>,
    /// Held while the session with a server is opened, so that concurrent requests open it once.
    open_locks: Mutex<HashMap<ServerName, Arc<tokio::sync::Mutex<()>>>>,
    /// The client's log level, for sessions opened later.
    log_level: Mutex<Option<String>>,
}

impl ServerSessions {
    pub fn find(&self, server: &ServerName) -> Option<Arc<Session>> {
        lock(&self.open).get(server).cloned()
    }

    pub fn insert(&self, server: &ServerName, session: Arc<Session>) {
        let previous = lock(&self.open).insert(server.clone(), session);
        if let Some(previous) = previous {
            lock(&self.ended).push((server.clone(), previous));
        }
    }

    /// Removes ended sessions without requests in flight.
    pub fn sweep(&self, is_open: impl Fn(&Session) -> bool) {
        let mut ended = lock(&self.ended);
        lock(&self.open).retain(|server, own| {
            let is_open = is_open(own);
            if !is_open {
                ended.push((server.clone(), Arc::clone(own)));
            }
            is_open
        });
        ended.retain(|(_, own)| !own.cancellable_requests().is_empty());
    }

    /// Returns the sessions, open or ended, in which the client's request with this id is in flight.
    pub fn all_with_request(&self, id: &RequestId<'_>) -> Vec<(ServerName, Arc<Session>)> {
        let mut all = self.all();
        all.extend(lock(&self.ended).iter().cloned());
        all.retain(|(_, session)| session.find_request(id).is_some());
        all
    }

    /// Returns the open sessions by server.
    pub fn all(&self) -> Vec<(ServerName, Arc<Session>)> {
        lock(&self.open).iter().map(|(server, session)| (server.clone(), Arc::clone(session))).collect()
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
