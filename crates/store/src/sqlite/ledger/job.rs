//! What is asked of the writer, and what it shares with those who ask.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::group::Decided;
use super::queue::Tag;
use crate::StoreError;
use crate::call_record::{CallRecord, not_sent_record};
use crate::clock::to_unix_nanoseconds;
use crate::counter::{AppliedCharge, CounterCharge};
use crate::ledger::ExhaustedCounter;

/// After how many calls that came alone the next is taken to be alone, too.
const LONELY: usize = 16;

/// Where an answer goes. Closed if nobody waits any more.
pub(super) type AnswerTo<T> = oneshot::Sender<Result<T, StoreError>>;

/// One thing to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Take claims and write the intent.
    Reserve(Reserve),
    /// Write a row, and give back what is given back.
    Keep(Keep),
    /// Answer when all before is written.
    Flush(AnswerTo<()>),
    /// Move the anchor to a row, and tell how many rows are behind it now.
    Prune { through: u64, answer: AnswerTo<u64> },
    /// Remove some rows behind the anchor, and tell whether there are more.
    Sweep(AnswerTo<bool>),
    /// Look at what is stranded.
    Wake,
    /// Do something to the connection.
    #[cfg(test)]
    Tamper(fn(&rusqlite::Connection), AnswerTo<()>),
}

/// A reservation to be made.
#[derive(Debug)]
pub(super) struct Reserve {
    /// Whose thread sees to it.
    pub tag: Tag,
    pub claims: Vec<CounterCharge>,
    pub intent: Entry,
    pub answer: AnswerTo<Answer>,
}

/// A row to be written, which may come with something to be given back.
#[derive(Debug)]
pub(super) struct Keep {
    pub entry: Entry,
    pub taken: Vec<AppliedCharge>,
}

/// A row before it has a number. It is put into words where the call runs, not on the writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub at: i64,
    pub body: String,
}

/// What became of a reservation.
#[derive(Debug)]
pub(super) enum Answer {
    Taken(Granted),
    Exhausted(ExhaustedCounter),
}

/// What was taken, with the intent that was written for it.
#[derive(Debug)]
pub(super) struct Granted {
    pub taken: Vec<AppliedCharge>,
    pub intent: String,
}

impl Entry {
    pub fn of(record: &CallRecord) -> Result<Self, StoreError> {
        Ok(Self { at: to_unix_nanoseconds(record.at), body: record.to_body()? })
    }
}

impl Granted {
    /// Gives back what nobody waits for any more.
    pub fn into_keep(self, now: Timestamp) -> Result<Keep, StoreError> {
        let outcome = not_sent_record(CallRecord::from_body(&self.intent)?, now);
        Ok(Keep { entry: Entry::of(&outcome)?, taken: self.taken })
    }
}

impl Job {
    /// The row that was written for it, by what was decided.
    pub fn row(&self, decided: &Decided) -> Option<&Entry> {
        match (self, decided) {
            (Self::Reserve(reserve), Decided::Taken(_)) => Some(&reserve.intent),
            (Self::Keep(keep), Decided::Done) => Some(&keep.entry),
            _ => None,
        }
    }

    /// Whether it only writes a row, and looks at none.
    pub fn is_row(&self) -> bool {
        matches!(self, Self::Reserve(_) | Self::Keep(_))
    }

    /// Whether it is still to be done: not if whoever asked has gone.
    pub fn is_wanted(&self) -> bool {
        match self {
            Self::Reserve(reserve) => !reserve.answer.is_closed(),
            Self::Flush(answer) => !answer.is_closed(),
            Self::Prune { answer, .. } => !answer.is_closed(),
            Self::Sweep(answer) => !answer.is_closed(),
            Self::Keep(_) => true,
            Self::Wake => false,
            #[cfg(test)]
            Self::Tamper(..) => true,
        }
    }
}

/// What the writer shares with those who ask it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Reservations that were answered when nobody waited any more. Callers put them in, the writer takes them out
    /// with its next group; [`Job::Wake`] sees to it that there is one.
    stranded: Mutex<Vec<Granted>>,
    faults: AtomicU64,
    /// How often the log was written through to the disk, how often the thread had a turn, and how often answers went
    /// together.
    syncs: AtomicU64,
    turns: AtomicU64,
    rounds: AtomicU64,
    /// Whether the log was carried over and nothing was written since. The sync thread says so, the writer's takes it
    /// back, and callers leave the next group to that.
    is_carried_over: AtomicBool,
    /// Whether something is answered and not committed, or could not be. Whoever has the writer says so; who reads has it
    /// committed.
    is_held: AtomicBool,
    /// How many calls came since a group had more than one.
    lonely_calls: AtomicUsize,
}

impl Shared {
    pub fn strand(&self, granted: Granted) {
        self.stranded.lock().unwrap_or_else(PoisonError::into_inner).push(granted);
    }

    pub fn has_stranded(&self) -> bool {
        !self.stranded.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn take_stranded(&self) -> Vec<Granted> {
        std::mem::take(&mut *self.stranded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn count_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn note_carried_over(&self) {
        self.is_carried_over.store(true, Ordering::Release);
    }

    pub fn note_begun_anew(&self) {
        self.is_carried_over.store(false, Ordering::Release);
    }

    pub fn is_carried_over(&self) -> bool {
        self.is_carried_over.load(Ordering::Acquire)
    }

    pub fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Release);
    }

    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Whether it is worth waiting for others that may be about to ask. A call that is alone looks now and then.
    pub fn has_company(&self) -> bool {
        let lonely = self.lonely_calls.fetch_add(1, Ordering::Relaxed);
        lonely < LONELY || lonely.is_multiple_of(LONELY)
    }

    /// Notes how many jobs were in a group.
    pub fn note_group(&self, jobs: usize) {
        // A call comes with the outcome of the one before.
        if jobs > 2 {
            self.lonely_calls.store(0, Ordering::Relaxed);
        }
    }

    pub fn count_turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_round(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub fn count_faults(&self, count: u64) {
        self.faults.fetch_add(count, Ordering::Relaxed);
    }

    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }
}
