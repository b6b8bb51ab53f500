//! Counts requests without a valid token and writes one log row per address and minute.
//!
//! One row per request would let an unauthenticated client flood the log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gatelodge_store::{CallRecord, RecordKind};

use crate::Gateway;

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

    fn take_counts(&self) -> HashMap<Arc<str>, u64> {
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Gateway {
    /// Writes one row per address for the failures since the previous call.
    pub(crate) async fn write_auth_failures(&self) {
        for (address, count) in self.auth_failures.take_counts() {
            self.metrics.unauthenticated.inc_by(count);
            let mut record = CallRecord::new(RecordKind::Unauthenticated, self.new_call_id(), self.clock.now());
            record.address = Some(address);
            record.count = Some(count);
            self.write_row(record).await;
        }
    }
}
