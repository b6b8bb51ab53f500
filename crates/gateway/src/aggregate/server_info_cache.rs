//! What each server of a grant last said of itself: for a session that begins while the server still starts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use gatelodge_store::ServerName;

use crate::upstream::Upstream;

/// The longest that is kept.
const MAX_SERVER_INFO_BYTES: usize = 64 << 10;

/// By server. One grant never hears what another was told.
#[derive(Debug, Default)]
pub(crate) struct ServerInfoCache {
    entries: Mutex<HashMap<ServerName, CachedServerInfo>>,
}

#[derive(Debug)]
struct CachedServerInfo {
    /// A server that is configured otherwise has said nothing yet.
    upstream: Weak<Upstream>,
    server_info: Bytes,
    is_stateless: bool,
}

impl ServerInfoCache {
    /// Keeps what a server says of itself, and whether it says it to requests that stand alone.
    pub fn insert(&self, upstream: &Arc<Upstream>, server_info: &Bytes, is_stateless: bool) {
        if server_info.len() > MAX_SERVER_INFO_BYTES {
            return;
        }
        let kept =
            CachedServerInfo { upstream: Arc::downgrade(upstream), server_info: server_info.clone(), is_stateless };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).insert(upstream.name().clone(), kept);
    }

    /// What it said last; none if it has not said anything.
    pub fn find(&self, upstream: &Arc<Upstream>) -> Option<(Bytes, bool)> {
        let kept = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get(upstream.name())?;
        let is_same = std::ptr::eq(kept.upstream.as_ptr(), Arc::as_ptr(upstream));
        is_same.then(|| (kept.server_info.clone(), kept.is_stateless))
    }
}
