//! Removes old rows from the call log.

use std::time::Duration;

use gatelodge_store::StoreError;
use jiff::Timestamp;
use serde_json::json;

use crate::administration::Administration;

/// The rows that were removed from the call log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrunedCalls {
    /// How many there were.
    pub rows: u64,
    /// The time from which on rows were kept.
    pub before: Timestamp,
}

/// Why the call log was not pruned.
#[derive(Debug, thiserror::Error)]
pub enum PruneCallsError {
    /// The rows to keep would begin before the earliest date.
    #[error("the date is out of range")]
    DateOutOfRange,
    /// The rows are removed, but the admin log has no entry for that.
    #[error("removed the rows, but cannot write the admin log")]
    NotLogged(#[source] StoreError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Administration {
    /// Removes the rows of the call log that are older than `age`.
    pub async fn prune_calls(&self, age: Duration) -> Result<PrunedCalls, PruneCallsError> {
        let before = self.clock.now().checked_sub(age).map_err(|_| PruneCallsError::DateOutOfRange)?;
        let rows = self.stores.call_log.prune(before).await?;
        if rows > 0 {
            // The admin log is another file, so this entry is not written atomically with the removal. The call log
            // has its own `pruned` row.
            let entry = self.log_entry("audit.prune", "calls", json!({"before": before, "rows": rows}));
            self.stores.admin_log.append(entry).await.map_err(PruneCallsError::NotLogged)?;
        }
        Ok(PrunedCalls { rows, before })
    }
}
