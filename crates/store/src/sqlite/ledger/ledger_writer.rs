//! What writes: it takes whatever is queued as one group, has it written, and answers. The thread has it, or, for as long
//! as nothing but rows is to be written, a caller that waits anyway: waking a thread costs more than a group.
//!
//! INVARIANT: jobs are taken from the queue only by whoever has the writer, so those of one thread are written in their
//! order, and how a call ended is written behind that it began.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::batch_executor::WriteOutcome;
use super::ledger_db::{AppendOutcome, BusyPolicy, LedgerDb};
use super::ledger_error::LedgerError;
use super::pending_rows::PendingRows;
use super::reply_dispatcher::{self, PendingReply, ReplyDispatcher};
use super::wal_sync::SyncSignal;
use super::writer_queue::{CallerThread, WriterQueue};
use super::writer_request::{
    GrantedReservation, ReplySender, ReserveReply, ReserveRequest, SharedWriterState, WriterRequest,
};
use crate::StoreError;
use crate::clock::Clock;
use crate::sqlite::Durability;
use crate::sqlite::db_file::DbFile;

/// The most that one transaction takes from the queue. It bounds how long the first of them waits for the last.
const MAX_BATCH_REQUESTS: usize = 512;
/// The most that it takes of what is pending, so that calls go on while much is made up for.
const MAX_BATCH_PENDING_ROWS: usize = 2_048;
/// How long it leaves a database alone that could not take rows, when nobody asks.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How often it tries to write what is left when the ledger is dropped.
const MAX_CLOSE_ATTEMPTS: u32 = 3;

/// What a row takes in the log, and what each commit takes by itself: it writes the last pages of the tables anew.
const ESTIMATED_ROW_BYTES: u64 = 512;
const ESTIMATED_COMMIT_BYTES: u64 = 3 * (16 << 10);
/// For how long the database's file is taken to be in its place while groups follow each other within that time, when so
/// many have done so.
const FILE_RECHECK_INTERVAL: Duration = Duration::from_millis(1);
const MIN_CONSECUTIVE_BATCHES: u32 = 16;
/// How many groups a caller writes for others before it calls the thread.
const MAX_LED_BATCHES: usize = 4;

/// What is written with.
pub(super) struct LedgerWriter {
    file: DbFile,
    durability: Durability,
    clock: Arc<dyn Clock>,
    /// From callers. Closed when the ledger is dropped; then what is pending is written, and the thread ends.
    queue: Arc<WriterQueue>,
    shared: Arc<SharedWriterState>,
    /// To callers, for all answers of a group that do not go by themselves.
    reply_dispatcher: Arc<ReplyDispatcher>,
    replies: Vec<PendingReply>,
    /// The database; none after a fault, until the next group opens it again.
    database: Option<LedgerDb>,
    /// What could not be written yet, oldest first.
    pending: PendingRows,
    /// Those who wait until nothing is pending.
    flush_waiters: Vec<ReplySender<()>>,
    is_failing: bool,
    /// Whether the journal has what was answered and the database has not.
    needs_replay: bool,
    close_attempts_left: u32,
    /// When the database's file was last looked at, when it was last to be written for callers, and how often that was in a
    /// row.
    file_checked_at: Instant,
    last_batch_at: Instant,
    consecutive_batches: u32,
    /// Told of what is to be committed and synced.
    sync_signal: Arc<SyncSignal>,
}

impl LedgerWriter {
    pub fn new(
        file: DbFile,
        durability: Durability,
        clock: Arc<dyn Clock>,
        (queue, shared, reply_dispatcher): (Arc<WriterQueue>, Arc<SharedWriterState>, Arc<ReplyDispatcher>),
        open: LedgerDb,
        sync_signal: Arc<SyncSignal>,
    ) -> Self {
        Self {
            file,
            durability,
            clock,
            queue,
            shared,
            reply_dispatcher,
            replies: Vec::new(),
            database: Some(open),
            pending: PendingRows::default(),
            flush_waiters: Vec::new(),
            is_failing: false,
            needs_replay: false,
            close_attempts_left: MAX_CLOSE_ATTEMPTS,
            file_checked_at: Instant::now(),
            last_batch_at: Instant::now(),
            consecutive_batches: 0,
            sync_signal,
        }
    }

    /// Writes one group. False when there will be no more.
    fn run_batch(&mut self) -> bool {
        let Some(group) = self.next_batch() else {
            self.commit_open_tx();
            // If it fails, who opens the ledger next does it.
            self.replay_redo_log();
            self.shared.count_errors(self.pending.len() as u64);
            return false;
        };
        if !group.is_empty() || !self.flush_waiters.is_empty() || self.needs_replay {
            let written = self.file.check_identity().and_then(|()| Ok(self.commit_batch(&group, BusyPolicy::Wait)?));
            if written.is_ok() {
                self.shared.clear_checkpointed();
            }
            self.complete_batch(group, written);
        }
        true
    }

    /// Writes one group without waiting for other processes: what a caller's thread has queued, or everything. False if
    /// the writer's thread has to, which may wait.
    fn try_run_batch(&mut self, of: Option<CallerThread>) -> bool {
        let is_plain = !self.is_failing && self.flush_waiters.is_empty() && self.pending.is_empty();
        if !is_plain || self.shared.has_orphans() || !self.is_same_file() {
            return false;
        }
        let Some(open) = self.database.as_mut().filter(|open| open.has_redo_capacity()) else { return false };
        let may_join = open.has_open_tx() || (open.has_linked_files() && open.is_ready());
        if !may_join {
            return false;
        }
        let Some(mut group) = self.queue.take_appends(MAX_BATCH_REQUESTS, of) else { return false };
        group.retain(WriterRequest::is_awaited);
        if group.is_empty() {
            return true;
        }
        self.shared.record_batch_size(group.len());
        match self.append_to_open_tx(&group) {
            Ok(decided) => {
                self.complete_batch(group, Ok(decided));
                self.commit_if_due();
            }
            Err(Some(fault)) => self.complete_batch(group, Err(fault.into())),
            // It is for the thread, which may wait.
            Err(None) => {
                self.queue.requeue(group);
                return false;
            }
        }
        true
    }

    /// Whether the database's file is the one that was opened. While groups follow each other, and one transaction takes
    /// them, it is looked at each millisecond and not for each group.
    fn is_same_file(&mut self) -> bool {
        let now = Instant::now();
        let is_soon = |since: Instant| now.duration_since(since) < FILE_RECHECK_INTERVAL;
        self.consecutive_batches =
            if is_soon(self.last_batch_at) { self.consecutive_batches.saturating_add(1) } else { 0 };
        self.last_batch_at = now;
        let is_held = self.database.as_ref().is_some_and(LedgerDb::has_open_tx);
        if is_held && self.consecutive_batches >= MIN_CONSECUTIVE_BATCHES && is_soon(self.file_checked_at) {
            return true;
        }
        let is_in_place = self.file.check_identity().is_ok();
        self.file_checked_at = now;
        if !is_in_place {
            // Whoever comes next looks, too.
            self.consecutive_batches = 0;
        }
        is_in_place
    }

    /// Writes a group without waiting for anybody; no fault where that cannot be done now.
    fn append_to_open_tx(&mut self, group: &[WriterRequest]) -> Result<Vec<WriteOutcome>, Option<LedgerError>> {
        let Some(open) = &mut self.database else { return Err(None) };
        let before = open.uncommitted_bytes();
        match open.append_to_open_tx(group, self.clock.as_ref()) {
            Ok(AppendOutcome::Appended(decided)) => {
                self.shared.set_uncommitted(true);
                // With the first of a transaction, what its commit takes.
                let begun = if before == 0 { ESTIMATED_COMMIT_BYTES } else { 0 };
                self.sync_signal.request_sync(open.wal_file(), begun + open.uncommitted_bytes().saturating_sub(before));
                Ok(decided)
            }
            // The first commit behind a log that was carried over waits for the disk.
            Ok(AppendOutcome::NotExclusive) if self.shared.is_checkpointed() || !open.is_ready() => Err(None),
            Ok(AppendOutcome::NotExclusive) => match self.commit_batch(group, BusyPolicy::FailFast) {
                Err(fault) if fault.is_busy() => Err(None),
                written => written.map_err(Some),
            },
            Err(fault) if open.is_usable_after(&fault) => Err(None),
            Err(fault) => {
                self.abandon_open_tx();
                Err(Some(fault))
            }
        }
    }

    /// What was answered comes back from the journal when the database is opened again.
    fn abandon_open_tx(&mut self) {
        (self.database, self.needs_replay, self.is_failing) = (None, true, true);
    }

    /// Has that done.
    fn replay_redo_log(&mut self) {
        if self.needs_replay && self.file.check_identity().is_ok() {
            let _ = self.commit_batch(&[], BusyPolicy::Wait);
        }
    }

    /// Whether there is nothing to do before somebody calls.
    fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.needs_replay
    }

    /// Commits when much is held, so that no commit takes long.
    fn commit_if_due(&mut self) {
        // The first commit behind a log that was carried over waits for the disk; the thread that syncs makes it.
        if self.database.as_ref().is_some_and(LedgerDb::is_commit_due) && !self.shared.is_checkpointed() {
            self.commit_open_tx();
        }
    }

    /// Commits what is answered and only in the journal yet.
    pub fn commit_open_tx(&mut self) {
        let Some(open) = self.database.as_mut().filter(|open| open.has_open_tx()) else { return };
        // Into a log without a name nothing is committed: what is in the journal goes into the next one.
        let is_committed = open.has_linked_wal() && open.commit_open_tx(self.clock.as_ref()).is_ok();
        if is_committed {
            if !open.write_head() {
                self.shared.count_errors(1);
            }
            self.shared.clear_checkpointed();
            self.shared.set_uncommitted(false);
        } else {
            self.abandon_open_tx();
            self.queue.wake_writer();
        }
    }

    /// Answers all of a group that was written, or refuses it.
    fn complete_batch(&mut self, group: Vec<WriterRequest>, written: Result<Vec<WriteOutcome>, StoreError>) {
        match written {
            Ok(decided) => {
                self.is_failing = false;
                for (job, decided) in group.into_iter().zip(decided) {
                    self.reply(job, decided);
                }
                for granted in self.reply_dispatcher.send_batch(&mut self.replies) {
                    self.refund(granted);
                }
                if !self.flush_waiters.is_empty() {
                    // What is still on its way is given back before, where nobody waits for it.
                    self.reply_dispatcher.deliver_all();
                    self.shared.take_orphans().into_iter().for_each(|granted| self.refund(granted));
                }
                // What answering brought back, because nobody waited, is pending; then they wait for it, too.
                if self.pending.is_empty() {
                    self.flush_waiters.drain(..).for_each(|answer| drop(answer.send(Ok(()))));
                }
            }
            Err(error) => {
                self.is_failing = true;
                let why = match error {
                    StoreError::Unavailable(why) => why,
                    other => other.to_string(),
                };
                self.refuse(group, &why);
            }
        }
    }

    /// Takes what is pending and what is queued. None when there will be no more.
    fn next_batch(&mut self) -> Option<Vec<WriterRequest>> {
        let came = self.queue.take(MAX_BATCH_REQUESTS);
        if came.is_none() && self.pending.is_empty() {
            return None;
        }
        for granted in self.shared.take_orphans() {
            self.refund(granted);
        }
        let oldest = self.pending.len().min(MAX_BATCH_PENDING_ROWS);
        let oldest = (0..oldest).map_while(|_| self.pending.pop_front());
        let mut group: Vec<WriterRequest> = oldest.map(WriterRequest::Append).collect();
        let Some(came) = came else { return self.final_batch(group) };
        if self.is_failing && came.is_empty() {
            thread::sleep(RETRY_INTERVAL);
        }
        came.into_iter().for_each(|job| self.route_request(job, &mut group));
        Some(group)
    }

    fn route_request(&mut self, job: WriterRequest, group: &mut Vec<WriterRequest>) {
        match job {
            job if !job.is_awaited() => {}
            WriterRequest::Flush(answer) => self.flush_waiters.push(answer),
            // Behind those that are older.
            WriterRequest::Append(keep) if !self.pending.is_empty() => self.pending.push_back(keep),
            job => group.push(job),
        }
    }

    /// The ledger is being dropped: a database that takes nothing is tried a few times more.
    fn final_batch(&mut self, group: Vec<WriterRequest>) -> Option<Vec<WriterRequest>> {
        if self.is_failing {
            self.close_attempts_left = self.close_attempts_left.saturating_sub(1);
            thread::sleep(RETRY_INTERVAL);
        }
        if self.close_attempts_left > 0 {
            return Some(group);
        }
        self.refuse(group, "the ledger was closed");
        None
    }

    /// Writes a group, or leaves everything as it was.
    fn commit_batch(
        &mut self,
        group: &[WriterRequest],
        patience: BusyPolicy,
    ) -> Result<Vec<WriteOutcome>, LedgerError> {
        self.commit_open_tx();
        if self.database.as_ref().is_some_and(|open| !open.has_linked_files()) {
            self.database = None;
        }
        let open = match &mut self.database {
            Some(open) => open,
            None => self.database.insert(LedgerDb::open(&self.file, self.durability)?),
        };
        match open.commit_batch(group, self.clock.as_ref(), patience) {
            Ok(decided) => {
                // Each transaction begins with what the journal has.
                if std::mem::take(&mut self.needs_replay) {
                    self.shared.set_uncommitted(false);
                }
                if !open.write_head() {
                    self.shared.count_errors(1);
                }
                self.sync_signal
                    .request_sync(open.wal_file(), ESTIMATED_COMMIT_BYTES + ESTIMATED_ROW_BYTES * group.len() as u64);
                Ok(decided)
            }
            Err(error) => {
                if !open.is_usable_after(&error) {
                    self.database = None;
                }
                Err(error)
            }
        }
    }

    fn reply(&mut self, job: WriterRequest, decided: WriteOutcome) {
        match (job, decided) {
            (
                WriterRequest::Reserve(ReserveRequest { caller: tag, intent, reply: answer, .. }),
                WriteOutcome::Taken(taken),
            ) => {
                let granted = GrantedReservation { charges: taken, intent: intent.body };
                self.send_reply(tag, answer, ReserveReply::Taken(granted));
            }
            (
                WriterRequest::Reserve(ReserveRequest { caller: tag, reply: answer, .. }),
                WriteOutcome::Exhausted(exhausted),
            ) => {
                self.send_reply(tag, answer, ReserveReply::Exhausted(exhausted));
            }
            (WriterRequest::Prune { answer, .. }, WriteOutcome::Pruned(count)) => drop(answer.send(Ok(count))),
            (WriterRequest::Sweep(answer), WriteOutcome::Swept { more }) => drop(answer.send(Ok(more))),
            (job, WriteOutcome::Failed(error)) => self.refuse_one(job, error),
            #[cfg(test)]
            (WriterRequest::Tamper(_, answer), _) => drop(answer.send(Ok(()))),
            (
                WriterRequest::Reserve(_)
                | WriterRequest::Append(_)
                | WriterRequest::Flush(_)
                | WriterRequest::Prune { .. }
                | WriterRequest::Sweep(_)
                | WriterRequest::Wake,
                _,
            ) => {}
        }
    }

    fn send_reply(&mut self, tag: CallerThread, to: ReplySender<ReserveReply>, answer: ReserveReply) {
        match tag.runtime() {
            // What nobody waits for comes back at once: a flush in this group waits for it.
            Some(runtime) if !to.is_closed() => self.replies.push(PendingReply { runtime, reply: to, answer }),
            _ => {
                if let Some(granted) = reply_dispatcher::deliver_reply(to, answer) {
                    self.refund(granted);
                }
            }
        }
    }

    /// Nobody waits for it any more: it goes back with the next group.
    fn refund(&mut self, granted: GrantedReservation) {
        match granted.into_refund(self.clock.now()) {
            Ok(keep) => self.pending.push_back(keep),
            Err(_) => self.shared.count_errors(1),
        }
    }

    /// Says no to all who wait; what nobody waits for is pending again, before what is newer.
    fn refuse(&mut self, group: Vec<WriterRequest>, why: &str) {
        let refusal = || StoreError::Unavailable(why.to_owned());
        self.flush_waiters.drain(..).for_each(|answer| drop(answer.send(Err(refusal()))));
        for job in group.into_iter().rev() {
            match job {
                WriterRequest::Append(keep) => self.pending.push_front(keep),
                job => self.refuse_one(job, refusal()),
            }
        }
        self.shared.count_errors(self.pending.trim());
    }

    fn refuse_one(&self, job: WriterRequest, error: StoreError) {
        match job {
            WriterRequest::Reserve(reserve) => drop(reserve.reply.send(Err(error))),
            WriterRequest::Flush(answer) => drop(answer.send(Err(error))),
            WriterRequest::Prune { answer, .. } => drop(answer.send(Err(error))),
            WriterRequest::Sweep(answer) => drop(answer.send(Err(error))),
            WriterRequest::Append(_) => self.shared.count_errors(1),
            WriterRequest::Wake => {}
            #[cfg(test)]
            WriterRequest::Tamper(_, answer) => drop(answer.send(Err(error))),
        }
    }
}

/// The thread: writes until the queue is closed and everything is written, or cannot be.
pub(super) fn run_writer(writer: &Mutex<LedgerWriter>, queue: &WriterQueue) {
    // Also after a panic: nobody should wait for a writer that is not there.
    let _closing = CloseOnDrop(queue);
    loop {
        let Ok(is_idle) = writer.lock().map(|writer| writer.is_idle()) else { return drop_database(writer) };
        let is_called = is_idle && queue.wait();
        let Ok(mut writer) = writer.lock() else { return drop_database(writer) };
        writer.shared.count_thread_run();
        let is_helped = is_called && writer.try_run_batch(None);
        if !is_helped && !writer.run_batch() {
            return;
        }
    }
}

/// Whoever panicked with it has left it in nobody knows which state. Others must not wait for its locks; what was answered
/// is in the journal.
fn drop_database(writer: &Mutex<LedgerWriter>) {
    writer.lock().unwrap_or_else(PoisonError::into_inner).database = None;
}

/// A caller that waits: writes what its thread has queued, unless somebody writes already, who then writes it as well.
pub(super) fn lead_batch(writer: &Mutex<LedgerWriter>, queue: &WriterQueue, own: CallerThread) {
    let mut of = Some(own);
    for _ in 0..MAX_LED_BATCHES {
        let turn = writer.try_lock().or_else(|busy| match busy {
            TryLockError::WouldBlock => {
                // Looked at by whoever has it, when the turn is over; if that was just now, it is ours.
                queue.hand_to_leader();
                writer.try_lock()
            }
            poisoned => Err(poisoned),
        });
        let mut turn = match turn {
            Ok(turn) => turn,
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(_)) => break,
        };
        if !turn.try_run_batch(of) {
            break;
        }
        let is_left_behind = !turn.pending.is_empty();
        drop(turn);
        if is_left_behind {
            break;
        }
        if !queue.take_handoff() {
            return;
        }
        of = None;
    }
    queue.wake_writer();
}

/// Commits what is held, and writes what came meanwhile, or has the thread look at it.
pub(super) fn commit_and_drain(writer: &Mutex<LedgerWriter>, queue: &WriterQueue) {
    // One that panicked has left it in nobody knows which state.
    let Ok(mut turn) = writer.lock() else { return };
    turn.commit_open_tx();
    turn.replay_redo_log();
    let is_helped = !queue.take_handoff() || turn.try_run_batch(None);
    drop(turn);
    if !is_helped || queue.take_handoff() {
        queue.wake_writer();
    }
}

impl fmt::Debug for LedgerWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("file", &self.file).finish_non_exhaustive()
    }
}

struct CloseOnDrop<'a>(&'a WriterQueue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
