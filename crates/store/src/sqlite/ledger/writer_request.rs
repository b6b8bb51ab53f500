//! What is asked of the writer, and what it shares with those who ask.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::batch_executor::WriteOutcome;
use super::writer_queue::CallerThread;
use crate::StoreError;
use crate::call_record::{CallRecord, not_sent_record};
use crate::clock::to_unix_nanoseconds;
use crate::counter::{AppliedCharge, CounterCharge};
use crate::ledger::ExhaustedCounter;

/// After how many calls that came alone the next is taken to be alone, too.
const SOLO_CALL_THRESHOLD: usize = 16;

/// Where an answer goes. Closed if nobody waits any more.
pub(super) type ReplySender<T> = oneshot::Sender<Result<T, StoreError>>;

/// One thing to do.
#[derive(Debug)]
pub(super) enum WriterRequest {
    /// Take claims and write the intent.
    Reserve(ReserveRequest),
    /// Write a row, and give back what is given back.
    Append(AppendRequest),
    /// Answer when all before is written.
    Flush(ReplySender<()>),
    /// Move the anchor to a row, and tell how many rows are behind it now.
    Prune { through: u64, answer: ReplySender<u64> },
    /// Remove some rows behind the anchor, and tell whether there are more.
    Sweep(ReplySender<bool>),
    /// Look at what is stranded.
    Wake,
    /// Do something to the connection.
    #[cfg(test)]
    Tamper(fn(&rusqlite::Connection), ReplySender<()>),
}

/// A reservation to be made.
#[derive(Debug)]
pub(super) struct ReserveRequest {
    /// Whose thread sees to it.
    pub caller: CallerThread,
    pub charges: Vec<CounterCharge>,
    pub intent: EncodedRow,
    pub reply: ReplySender<ReserveReply>,
}

/// A row to be written, which may come with something to be given back.
#[derive(Debug)]
pub(super) struct AppendRequest {
    pub row: EncodedRow,
    pub refunds: Vec<AppliedCharge>,
}

/// A row before it has a number. It is put into words where the call runs, not on the writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EncodedRow {
    pub at: i64,
    pub body: String,
}

/// What became of a reservation.
#[derive(Debug)]
pub(super) enum ReserveReply {
    Taken(GrantedReservation),
    Exhausted(ExhaustedCounter),
}

/// What was taken, with the intent that was written for it.
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
    /// Gives back what nobody waits for any more.
    pub fn into_refund(self, now: Timestamp) -> Result<AppendRequest, StoreError> {
        let outcome = not_sent_record(CallRecord::from_body(&self.intent)?, now);
        Ok(AppendRequest { row: EncodedRow::of(&outcome)?, refunds: self.charges })
    }
}

impl WriterRequest {
    /// The row that was written for it, by what was decided.
    pub fn written_row(&self, decided: &WriteOutcome) -> Option<&EncodedRow> {
        match (self, decided) {
            (Self::Reserve(reserve), WriteOutcome::Taken(_)) => Some(&reserve.intent),
            (Self::Append(keep), WriteOutcome::Done) => Some(&keep.row),
            _ => None,
        }
    }

    /// Whether it only writes a row, and looks at none.
    pub fn is_append_only(&self) -> bool {
        matches!(self, Self::Reserve(_) | Self::Append(_))
    }

    /// Whether it is still to be done: not if whoever asked has gone.
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

/// What the writer shares with those who ask it.
#[derive(Debug, Default)]
pub(super) struct SharedWriterState {
    /// Reservations that were answered when nobody waited any more. Callers put them in, the writer takes them out
    /// with its next group; [`WriterRequest::Wake`] sees to it that there is one.
    orphans: Mutex<Vec<GrantedReservation>>,
    errors: AtomicU64,
    /// How often the log was written through to the disk, how often the thread had a turn, and how often answers went
    /// together.
    syncs: AtomicU64,
    thread_runs: AtomicU64,
    reply_batches: AtomicU64,
    /// Whether the log was carried over and nothing was written since. The sync thread says so, the writer's takes it
    /// back, and callers leave the next group to that.
    is_checkpointed: AtomicBool,
    /// Whether something is answered and not committed, or could not be. Whoever has the writer says so; who reads has it
    /// committed.
    has_uncommitted: AtomicBool,
    /// How many calls came since a group had more than one.
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

    pub fn set_uncommitted(&self, is_held: bool) {
        self.has_uncommitted.store(is_held, Ordering::Release);
    }

    pub fn has_uncommitted(&self) -> bool {
        self.has_uncommitted.load(Ordering::Acquire)
    }

    /// Whether it is worth waiting for others that may be about to ask. A call that is alone looks now and then.
    pub fn is_batch_likely(&self) -> bool {
        let lonely = self.solo_calls.fetch_add(1, Ordering::Relaxed);
        lonely < SOLO_CALL_THRESHOLD || lonely.is_multiple_of(SOLO_CALL_THRESHOLD)
    }

    /// Notes how many jobs were in a group.
    pub fn record_batch_size(&self, jobs: usize) {
        // A call comes with the outcome of the one before.
        if jobs > 2 {
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
