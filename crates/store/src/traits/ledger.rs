//! The ledger: counters and the call log, which are updated together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatelodge_policy::Amount;
use jiff::Timestamp;
use serde::Serialize;

use crate::StoreError;
use crate::audit_chain::{ChainBreak, ChainHead, ChainedRow};
use crate::counters::{AppliedCharge, CounterCharge, CounterKey};
use crate::model::{CallRecord, RecordKind};

/// The charges that a call has reserved. If the process dies, they are not refunded.
#[derive(Debug, Default)]
#[must_use = "a reservation is spent by sending the call, or refunded by `release`"]
pub struct Reservation {
    pub(crate) charges: Vec<AppliedCharge>,
}

/// Result of a reservation.
#[derive(Debug)]
pub enum ReserveOutcome {
    /// All charges were reserved and the intent row was written.
    Taken(Reservation),
    /// A counter was exhausted; nothing was charged or written.
    Exhausted(ExhaustedCounter),
}

/// The first counter that was found exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExhaustedCounter {
    /// Index of the charge that did not fit.
    pub charge_index: usize,
    /// Time until the charge would fit; `None` if waiting does not help.
    pub retry_after: Option<Duration>,
}

/// A row in the call log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallLogRow {
    /// Sequence number of the row.
    pub seq: u64,
    /// The call record.
    #[serde(flatten)]
    pub record: CallRecord,
}

/// Filter for rows in the call log.
#[derive(Debug, Clone, Default)]
pub struct CallLogFilter {
    /// Only rows after this sequence number.
    pub after: Option<u64>,
    /// Only rows before this sequence number.
    pub before: Option<u64>,
    /// Only rows for the grant with this id or label.
    pub grant: Option<String>,
    /// Only rows for this server.
    pub server: Option<String>,
    /// Only rows about this tool, resource or prompt.
    pub target: Option<String>,
    /// Only rows for this call.
    pub call: Option<String>,
    /// Only calls that were refused, or would have been refused.
    pub refused_only: bool,
    /// Maximum number of rows; the newest are returned.
    pub limit: usize,
}

impl CallLogFilter {
    /// Returns whether the filter matches a row, regardless of `limit`.
    pub fn admits(&self, row: &CallLogRow) -> bool {
        let CallRecord { kind, call, grant, label, server, target, observed, .. } = &row.record;
        let is = |wanted: &Option<String>, own: Option<&str>| match wanted {
            Some(wanted) => own == Some(wanted.as_str()),
            None => true,
        };
        let grant_id = grant.as_ref().map(|id| id.0.as_ref());
        self.after.is_none_or(|after| row.seq > after)
            && self.before.is_none_or(|before| row.seq < before)
            && (is(&self.grant, grant_id) || is(&self.grant, label.as_deref()))
            && is(&self.server, server.as_ref().map(|name| name.as_str()))
            && is(&self.target, target.as_deref())
            && is(&self.call, Some(call.as_str()))
            && (!self.refused_only || *kind == RecordKind::Refused || *observed)
    }
}

/// How much of a counter is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterUsage {
    /// The counter.
    pub key: CounterKey,
    /// Amount used as of the last charge. The window may have ended since then.
    pub used: Amount,
}

/// Result of verifying a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// Number of verified rows.
    pub rows: u64,
    /// Head of the valid part of the chain: the last row before the break, or the newest row if there is no break.
    pub head: ChainHead,
    /// The first break in the chain, if any.
    pub chain_break: Option<ChainBreak>,
    /// Marker file written when a log with rows had no head file, in which case a truncation could not be detected. It
    /// stays until an operator removes it.
    pub missing_head_marker: Option<PathBuf>,
}

/// Counters and the call log.
///
/// Windows are based on the time of the ledger's clock. The methods that a call has to wait for (`reserve`, `release`,
/// `write`, `flush`) return within two seconds; if they fail, they return [`StoreError::Unavailable`] and have had no
/// effect. Methods that read or remove rows take time in proportion to the number of rows, but do not block other
/// methods.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Reserves either all charges or none, and writes the intent row, in one atomic step. Once
    /// confirmed, a reservation is not lost if the process is killed.
    ///
    /// Reports the first charge, in the given order, that does not fit. No two charges may have the same key. If the
    /// caller stops waiting, any charges already reserved are refunded.
    async fn reserve(&self, charges: Vec<CounterCharge>, intent: &CallRecord) -> Result<ReserveOutcome, StoreError>;

    /// Refunds the charges of a call that was not sent, and writes its outcome. The request is only queued: this method
    /// may wait for space in the queue, but not for the disk. Charges that no longer count towards their limits are not
    /// refunded.
    async fn release(&self, reservation: Reservation, outcome: &CallRecord) -> Result<(), StoreError>;

    /// Writes a row. As with [`Ledger::release`], the request is only queued.
    async fn write(&self, record: &CallRecord) -> Result<(), StoreError>;

    /// Waits until everything queued so far has been written and is as durable as a confirmed reservation.
    async fn flush(&self) -> Result<(), StoreError>;

    /// Returns the newest matching rows, oldest first.
    async fn rows(&self, filter: CallLogFilter) -> Result<Vec<CallLogRow>, StoreError>;

    /// Returns the next page of stored rows after a sequence number, oldest first. Pages are limited in size; an empty
    /// page means that there are no more rows.
    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError>;

    /// Returns the head of the chain.
    async fn head(&self) -> Result<ChainHead, StoreError>;

    /// Verifies the whole chain from its anchor, against the head file and the given heads.
    async fn verify(&self, known: Vec<ChainHead>) -> Result<ChainReport, StoreError>;

    /// Removes rows older than `before`, keeps the hash of the last removed row as the anchor, and writes a row that
    /// records the pruning. Returns the number of removed rows.
    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Returns all counters, ordered by key.
    async fn usage(&self) -> Result<Vec<CounterUsage>, StoreError>;
}

/// A ledger shared by several parts of the program.
pub type SharedLedger = Arc<dyn Ledger>;
