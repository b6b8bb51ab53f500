//! Rows of the call log about a pruning: they keep the head of the rows that were removed.

use jiff::Timestamp;

use super::ChainHead;
use crate::model::{CallId, CallRecord, RecordKind, StoreError};

/// Returns the row that records a pruning.
pub(crate) fn prune_record(through: ChainHead, count: u64, at: Timestamp) -> Result<CallRecord, StoreError> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let mut record = CallRecord::new(RecordKind::Pruned, CallId::new(at, random), at);
    record.through = Some(through.to_string().into());
    record.count = Some(count);
    Ok(record)
}

/// Returns the last pruned row that a row of the call log records, if it records a pruning.
pub(crate) fn find_pruned_head(body: &str) -> Option<ChainHead> {
    // Only rows that may record a pruning are parsed.
    if !body.contains(r#""kind":"pruned""#) {
        return None;
    }
    let record: CallRecord = serde_json::from_str(body).ok()?;
    if record.kind == RecordKind::Pruned { record.through?.parse().ok() } else { None }
}
