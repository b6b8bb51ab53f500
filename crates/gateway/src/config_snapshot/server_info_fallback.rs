//! Last known server information per grant, for sessions that start while a server is still starting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use gatelodge_store::ServerName;

use crate::upstream::Upstream;

/// Server information larger than this is not cached.
const MAX_SERVER_INFO_BYTES: usize = 64 << 10;

/// Server information by server name. Each grant has its own cache, so nothing leaks between grants.
#[derive(Debug, Default)]
pub(crate) struct ServerInfoFallback {
    entries: Mutex<HashMap<ServerName, CachedServerInfo>>,
}

#[derive(Debug)]
struct CachedServerInfo {
    /// The upstream that sent the information. A reconfigured server has a new `Upstream`, which invalidates this entry.
    upstream: Weak<Upstream>,
    server_info: Bytes,
    is_local: bool,
}

impl ServerInfoFallback {
    /// Caches a server's information. `is_local` says whether the session with the server is local, so that the
    /// information came from `server/discover`.
    pub fn insert(&self, upstream: &Arc<Upstream>, server_info: &Bytes, is_local: bool) {
        if server_info.len() > MAX_SERVER_INFO_BYTES {
            return;
        }
        let cached =
            CachedServerInfo { upstream: Arc::downgrade(upstream), server_info: server_info.clone(), is_local };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).insert(upstream.name().clone(), cached);
    }

    /// Returns the last known information about a server, and whether it came from `server/discover`.
    pub fn find(&self, upstream: &Arc<Upstream>) -> Option<(Bytes, bool)> {
        let cached = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = cached.get(upstream.name())?;
        let is_same = std::ptr::eq(cached.upstream.as_ptr(), Arc::as_ptr(upstream));
        is_same.then(|| (cached.server_info.clone(), cached.is_local))
    }
}
