//! Pool of sessions with stateful upstreams, for stateless clients. There is one shared session for each combination of
//! grant and declared client capabilities, so that a server asks a client only for what the client has declared.
//! Additional exclusive sessions are opened where a server request could not otherwise be attributed to a call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gatelodge_store::{GrantId, ServerName};

use super::session_pool_group::SessionPoolGroup;

/// Key of a group of pooled sessions. Clients with the same key share sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionPoolKey {
    pub grant: GrantId,
    pub server: ServerName,
    /// Hash of the client's capabilities and log level.
    pub capabilities_hash: [u8; 32],
}

/// The session groups, by key.
#[derive(Debug, Default)]
pub(crate) struct SessionPool {
    groups: Mutex<HashMap<SessionPoolKey, Arc<SessionPoolGroup>>>,
}

impl SessionPool {
    pub fn group(&self, key: &SessionPoolKey) -> Arc<SessionPoolGroup> {
        Arc::clone(self.lock().entry(key.clone()).or_default())
    }

    /// Removes groups whose shared session has ended.
    pub fn remove_closed(&self, is_open: impl Fn(&str, &GrantId, &ServerName) -> bool) {
        self.lock().retain(|key, group| match group.shared_slot().try_lock() {
            Ok(id) => {
                group.is_in_use_or_expanded() || id.as_ref().is_some_and(|id| is_open(id, &key.grant, &key.server))
            }
            // The session is being opened.
            Err(_) => true,
        });
    }

    /// Removes unused exclusive sessions and returns their ids.
    pub fn take_unused(&self, is_unused: impl Fn(&str) -> bool) -> Vec<Box<str>> {
        self.lock().values().flat_map(|group| group.take_unused(&is_unused)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionPoolKey, Arc<SessionPoolGroup>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
