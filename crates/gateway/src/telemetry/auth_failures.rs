//! Counts requests without a valid token, for one row of the call log per address and minute.
//!
//! One row per request would let an unauthenticated client flood the log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of addresses counted separately per minute. Further addresses share the row `others`.
const MAX_TRACKED_ADDRESSES: usize = 1_000;

/// Authentication failures by client address since the last write.
#[derive(Debug, Default)]
pub(crate) struct AuthFailureCounter {
    counts: Mutex<HashMap<Arc<str>, u64>>,
}

impl AuthFailureCounter {
    pub fn record_failure(&self, address: &Arc<str>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = counts.contains_key(address) || counts.len() < MAX_TRACKED_ADDRESSES;
        let address = if is_known { Arc::clone(address) } else { "others".into() };
        *counts.entry(address).or_default() += 1;
    }

    /// Returns the failures since the previous call.
    pub fn take_counts(&self) -> HashMap<Arc<str>, u64> {
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
