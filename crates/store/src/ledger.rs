//! The ledger: counters and the call log, which change together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatelodge_policy::Amount;
use jiff::Timestamp;
use serde::Serialize;

use crate::StoreError;
use crate::call_record::{CallRecord, RecordKind};
use crate::counter::{AppliedCharge, CounterCharge, CounterKey};
use crate::hash_chain::{ChainBreak, ChainHead};
use crate::log_page::ChainedRow;

/// What a call took. If the process dies with it, it is spent.
#[derive(Debug, Default)]
#[must_use = "a reservation is spent by sending the call, or given back by `release`"]
pub struct Reservation {
    pub(crate) charges: Vec<AppliedCharge>,
}

/// The answer to a reservation.
#[derive(Debug)]
pub enum ReserveOutcome {
    /// All charges were taken and the intent is written.
    Taken(Reservation),
    /// One counter had no room; nothing was taken and nothing written.
    Exhausted(ExhaustedCounter),
}

/// The first counter without room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExhaustedCounter {
    /// Which of the claims.
    pub charge_index: usize,
    /// How long until there is room; none if waiting does not help.
    pub retry_after: Option<Duration>,
}

/// A row of the call log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallLogRow {
    /// Its number.
    pub seq: u64,
    /// What it says.
    #[serde(flatten)]
    pub record: CallRecord,
}

/// Which rows to show.
#[derive(Debug, Clone, Default)]
pub struct CallLogFilter {
    /// Only rows behind this one.
    pub after: Option<u64>,
    /// Only rows before this one.
    pub before: Option<u64>,
    /// Only of the grant with this id or label.
    pub grant: Option<String>,
    /// Only of this server.
    pub server: Option<String>,
    /// Only about this tool, resource or prompt.
    pub target: Option<String>,
    /// Only of this call.
    pub call: Option<String>,
    /// Only what was refused, or would have been.
    pub refused_only: bool,
    /// At most so many: the newest.
    pub limit: usize,
}

impl CallLogFilter {
    /// Whether a row is to be shown, as far as it alone can tell.
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

/// A counter as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterUsage {
    /// Which.
    pub key: CounterKey,
    /// What was used in the window of its last charge, which may have passed.
    pub used: Amount,
}

/// What a walk along a chain found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// How many rows were looked at.
    pub rows: u64,
    /// The end of the chain as far as it holds.
    pub head: ChainHead,
    /// Where it does not hold.
    pub chain_break: Option<ChainBreak>,
    /// The note that there were rows and no head beside them, if there is one: nothing told then whether the end was
    /// cut off. It stays until somebody removes it.
    pub missing_head_marker: Option<PathBuf>,
}

/// Counters and the call log.
///
/// Windows follow the ledger's own clock. What a call waits for (`reservation`, `release`, `write`, `flush`) answers within
/// two seconds; where it cannot do what it should, it answers [`StoreError::Unavailable`] and has done nothing. What
/// reads or removes rows takes as long as there are rows, and nothing else waits for it.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Takes all claims or none, and writes the intent, in one step that a killed process does not lose.
    ///
    /// The first claim without room, in their order, is the one that is named. Two claims never have the same key.
    /// If the caller stops waiting, whatever was taken is given back.
    async fn reserve(&self, charges: Vec<CounterCharge>, intent: &CallRecord) -> Result<ReserveOutcome, StoreError>;

    /// Gives back what a call took that was never sent, and writes how it ended. Queued: it waits for room in the
    /// queue, not for the disk. What no longer counts is not given back.
    async fn release(&self, reservation: Reservation, outcome: &CallRecord) -> Result<(), StoreError>;

    /// Writes a row. Queued like [`Ledger::reservation_release`].
    async fn write(&self, record: &CallRecord) -> Result<(), StoreError>;

    /// Waits until everything queued before is written, as durable as a reservation.
    async fn flush(&self) -> Result<(), StoreError>;

    /// The newest rows that match, oldest of them first.
    async fn rows(&self, filter: CallLogFilter) -> Result<Vec<CallLogRow>, StoreError>;

    /// The next rows behind a number, oldest first, as they are kept; none if there are no more. It gives so many that
    /// they are little to hold.
    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError>;

    /// The end of the chain.
    async fn head(&self) -> Result<ChainHead, StoreError>;

    /// Walks the whole chain from its anchor, against the head that is kept apart and those that are given.
    async fn verify(&self, known: Vec<ChainHead>) -> Result<ChainReport, StoreError>;

    /// Removes rows older than a time, keeps the last one's hash as the anchor, and writes a row that says so.
    /// Gives the number of rows removed.
    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// The counters, by key.
    async fn usage(&self) -> Result<Vec<CounterUsage>, StoreError>;
}

/// A ledger that several parts share.
pub type SharedLedger = Arc<dyn Ledger>;
