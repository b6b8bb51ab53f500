//! Requests to the writer, and the state that it shares with callers.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::batch_executor::WriteOutcome;
use super::writer_queue::CallerThreadId;
use crate::clock::to_unix_nanoseconds;
use crate::model::{AppliedCharge, CallRecord, CounterCharge, ExhaustedCounter, StoreError, not_sent_record};

/// After this many consecutive calls that were each alone in their batch, the next call is also expected to be alone.
const SOLO_CALL_THRESHOLD: usize = 16;

/// Sends a reply to a caller. Closed if the caller has stopped waiting.
pub(super) type ReplySender<T> = oneshot::Sender<Result<T, StoreError>>;

/// A request to the writer.
#[derive(Debug)]
pub(super) enum WriterRequest {
    /// Reserve charges and write the intent row.
    Reserve(ReserveRequest),
    /// Write a row and refund charges.
    Append(AppendRequest),
    /// Reply once all earlier requests are written.
    Flush(ReplySender<()>),
    /// Move the anchor to a row, and reply with the number of pruned rows.
    Prune { through: u64, answer: ReplySender<u64> },
    /// Delete some pruned rows, and reply whether there are more.
    Sweep(ReplySender<bool>),
    /// Check for orphaned reservations.
    Wake,
    /// Manipulate the connection, for tests only.
    #[cfg(test)]
    Tamper(fn(&rusqlite::Connection), ReplySender<()>),
}

/// A request to reserve charges.
#[derive(Debug)]
pub(super) struct ReserveRequest {
    /// The caller's thread.
    pub caller: CallerThreadId,
    pub charges: Vec<CounterCharge>,
    pub intent: EncodedRow,
    pub reply: ReplySender<ReserveReply>,
}

/// A row to write, possibly with charges to refund.
#[derive(Debug)]
pub(super) struct AppendRequest {
    pub row: EncodedRow,
    pub refunds: Vec<AppliedCharge>,
}

/// A row without a sequence number. It is serialized by the caller rather than the writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EncodedRow {
    pub at: i64,
    pub body: String,
}

/// Result of a reservation.
#[derive(Debug)]
pub(super) enum ReserveReply {
    Taken(GrantedReservation),
    Exhausted(ExhaustedCounter),
}

/// The charges that were reserved and the intent row that was written.
#[derive(Debug)]
pub(super) struct GrantedReservation {
    pub charges: Vec<AppliedCharge>,
    pub intent: String,
}

impl EncodedRow {
    pub fn of(record: &CallRecord) -> Result<Self, StoreError> {
        Ok(Self { at: to_unix_nanoseconds(record.at), body: record.to_body()? })
    }
}

impl GrantedReservation {
    /// Creates the request that refunds a reservation whose caller is gone.
    pub fn into_refund(self, now: Timestamp) -> Result<AppendRequest, StoreError> {
        let outcome = not_sent_record(CallRecord::from_body(&self.intent)?, now);
        Ok(AppendRequest { row: EncodedRow::of(&outcome)?, refunds: self.charges })
    }
}

impl WriterRequest {
    /// Returns the row of a reservation or append request if, according to `outcome`, it was written.
    pub fn written_row(&self, outcome: &WriteOutcome) -> Option<&EncodedRow> {
        match (self, outcome) {
            (Self::Reserve(reserve), WriteOutcome::Taken(_)) => Some(&reserve.intent),
            (Self::Append(append), WriteOutcome::Done) => Some(&append.row),
            _ => None,
        }
    }

    /// Returns whether the request only appends a row and does not read the log table.
    pub fn is_append_only(&self) -> bool {
        matches!(self, Self::Reserve(_) | Self::Append(_))
    }

    /// Returns whether the request is still needed. It is not if its caller is gone.
    pub fn is_awaited(&self) -> bool {
        match self {
            Self::Reserve(reserve) => !reserve.reply.is_closed(),
            Self::Flush(answer) => !answer.is_closed(),
            Self::Prune { answer, .. } => !answer.is_closed(),
            Self::Sweep(answer) => !answer.is_closed(),
            Self::Append(_) => true,
            Self::Wake => false,
            #[cfg(test)]
            Self::Tamper(..) => true,
        }
    }
}

/// State shared by the writer and its callers.
#[derive(Debug, Default)]
pub(super) struct SharedWriterState {
    /// Granted reservations whose callers are gone. The writer refunds them with its next batch; a
    /// [`WriterRequest::Wake`] is queued to ensure that there is a next batch.
    orphans: Mutex<Vec<GrantedReservation>>,
    errors: AtomicU64,
    /// Number of syncs of the write-ahead log.
    syncs: AtomicU64,
    /// Number of times that the writer thread has run.
    thread_runs: AtomicU64,
    /// Number of times that several replies were added to a mailbox together.
    reply_batches: AtomicU64,
    /// Whether the write-ahead log was checkpointed and nothing has been written since. The sync thread sets it and the
    /// writer thread clears it. While it is set, callers leave the next batch to the writer thread.
    is_checkpointed: AtomicBool,
    /// Whether anything is confirmed but not committed. The holder of the writer lock sets it. Readers make sure that
    /// it is committed before they read.
    has_uncommitted: AtomicBool,
    /// Number of calls since the last batch with more than one call.
    solo_calls: AtomicUsize,
}

impl SharedWriterState {
    pub fn add_orphan(&self, granted: GrantedReservation) {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).push(granted);
    }

    pub fn has_orphans(&self) -> bool {
        !self.orphans.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn take_orphans(&self) -> Vec<GrantedReservation> {
        std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn count_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn set_checkpointed(&self) {
        self.is_checkpointed.store(true, Ordering::Release);
    }

    pub fn clear_checkpointed(&self) {
        self.is_checkpointed.store(false, Ordering::Release);
    }

    pub fn is_checkpointed(&self) -> bool {
        self.is_checkpointed.load(Ordering::Acquire)
    }

    pub fn set_uncommitted(&self, has_uncommitted: bool) {
        self.has_uncommitted.store(has_uncommitted, Ordering::Release);
    }

    pub fn has_uncommitted(&self) -> bool {
        self.has_uncommitted.load(Ordering::Acquire)
    }

    /// Counts a call, and returns whether other calls are likely to join its batch, so that it is worth waiting for
    /// them. After many calls that were alone in their batches, this returns `true` only occasionally.
    pub fn is_batch_likely(&self) -> bool {
        let solo_calls = self.solo_calls.fetch_add(1, Ordering::Relaxed);
        solo_calls < SOLO_CALL_THRESHOLD || solo_calls.is_multiple_of(SOLO_CALL_THRESHOLD)
    }

    /// Records the number of requests in a batch.
    pub fn record_batch_size(&self, requests: usize) {
        // A call usually comes with the outcome of the previous one.
        if requests > 2 {
            self.solo_calls.store(0, Ordering::Relaxed);
        }
    }

    pub fn count_thread_run(&self) {
        self.thread_runs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_reply_batch(&self) {
        self.reply_batches.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub fn thread_runs(&self) -> u64 {
        self.thread_runs.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub fn reply_batches(&self) -> u64 {
        self.reply_batches.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub fn count_errors(&self, count: u64) {
        self.errors.fetch_add(count, Ordering::Relaxed);
    }

    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}
