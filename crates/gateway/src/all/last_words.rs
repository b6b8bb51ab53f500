//! What each server of a grant last said of itself: for a session that begins while the server still starts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use gatelodge_store::ServerName;

use crate::upstream::Upstream;

/// The longest that is kept.
const LONGEST: usize = 64 << 10;

/// By server. One grant never hears what another was told.
#[derive(Debug, Default)]
pub(crate) struct LastWords {
    kept: Mutex<HashMap<ServerName, Kept>>,
}

#[derive(Debug)]
struct Kept {
    /// A server that is configured otherwise has said nothing yet.
    upstream: Weak<Upstream>,
    welcome: Bytes,
    is_stateless: bool,
}

impl LastWords {
    /// Keeps what a server says of itself, and whether it says it to requests that stand alone.
    pub fn keep(&self, upstream: &Arc<Upstream>, welcome: &Bytes, is_stateless: bool) {
        if welcome.len() > LONGEST {
            return;
        }
        let kept = Kept { upstream: Arc::downgrade(upstream), welcome: welcome.clone(), is_stateless };
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(upstream.name().clone(), kept);
    }

    /// What it said last; none if it has not said anything.
    pub fn of(&self, upstream: &Arc<Upstream>) -> Option<(Bytes, bool)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get(upstream.name())?;
        let is_same = std::ptr::eq(kept.upstream.as_ptr(), Arc::as_ptr(upstream));
        is_same.then(|| (kept.welcome.clone(), kept.is_stateless))
    }
}
