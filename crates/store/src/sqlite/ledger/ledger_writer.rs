//! Group-commit writer: takes all queued requests as one batch, writes it and replies. A batch is written by the writer
//! thread or, if it consists only of reservations and rows, by a waiting caller (the leader), because waking a thread
//! costs more than writing a batch.
//!
//! INVARIANT: only the holder of the writer lock takes requests from the queue. The requests of a thread are therefore
//! written in order, and the outcome of a call is written after its intent.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::batch_executor::WriteOutcome;
use super::ledger_db::{BatchAppendOutcome, BusyPolicy, LedgerDb};
use super::ledger_error::LedgerError;
use super::reply_dispatcher::{self, ReplyDispatcher, ReplyMailboxEntry};
use super::row_retry_queue::RowRetryQueue;
use super::wal_sync::WalSyncSignal;
use super::writer_queue::{CallerThreadId, WriterQueue};
use super::writer_request::{
    GrantedReservation, ReplySender, ReserveReply, ReserveRequest, SharedWriterState, WriterRequest,
};
use crate::clock::Clock;
use crate::model::{Durability, StoreError};
use crate::sqlite::db_file::DbFile;

/// Maximum number of requests per batch. It limits how long the first request waits for the last.
const MAX_BATCH_REQUESTS: usize = 512;
/// Maximum number of pending rows per batch, so that calls can proceed while a backlog is written.
const MAX_BATCH_PENDING_ROWS: usize = 2_048;
/// How long the writer waits before it retries a failing database when there are no requests.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How many times the writer tries to write the remaining rows when the ledger is dropped.
const MAX_CLOSE_ATTEMPTS: u32 = 3;

/// Estimated size of a row in the write-ahead log.
const ESTIMATED_ROW_BYTES: u64 = 512;
/// Estimated number of bytes that a commit adds to the write-ahead log, because it rewrites the last pages of the
/// tables.
const ESTIMATED_COMMIT_BYTES: u64 = 3 * (16 << 10);
/// Minimum interval between checks of the database file under load, that is, once at least `MIN_CONSECUTIVE_BATCHES`
/// batches in a row have each started within this interval after the previous one.
const FILE_RECHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Number of batches in a row from which on the ledger counts as being under load. Below it, each batch checks the
/// file.
const MIN_CONSECUTIVE_BATCHES: u32 = 16;
/// Maximum number of batches that a waiting caller writes itself before it leaves the rest to the writer thread.
const MAX_LED_BATCHES: usize = 4;

/// The writer's state, protected by the writer lock.
pub(super) struct LedgerWriter {
    file: DbFile,
    durability: Durability,
    clock: Arc<dyn Clock>,
    /// Requests from callers. The queue is closed when the ledger is dropped; pending rows are then written and the
    /// thread ends.
    queue: Arc<WriterQueue>,
    shared: Arc<SharedWriterState>,
    /// Delivers the replies of a batch to callers on other runtimes.
    reply_dispatcher: Arc<ReplyDispatcher>,
    replies: Vec<ReplyMailboxEntry>,
    /// The database; `None` after an error, until the next batch opens it again.
    database: Option<LedgerDb>,
    /// Rows that could not be written so far, oldest first.
    pending: RowRetryQueue,
    /// Callers that are waiting until no rows are pending.
    flush_waiters: Vec<ReplySender<()>>,
    is_failing: bool,
    /// Whether the redo log holds confirmed batches that are not in the database.
    needs_replay: bool,
    close_attempts_left: u32,
    /// When the database file was last checked.
    file_checked_at: Instant,
    /// When a caller or the writer thread last tried to write a batch without waiting.
    last_batch_at: Instant,
    /// Number of such attempts in a row, each within [`FILE_RECHECK_INTERVAL`] of the previous one.
    consecutive_batches: u32,
    /// Asks the sync thread to commit and sync.
    sync_signal: Arc<WalSyncSignal>,
}

impl LedgerWriter {
    pub fn new(
        file: DbFile,
        durability: Durability,
        clock: Arc<dyn Clock>,
        (queue, shared, reply_dispatcher): (Arc<WriterQueue>, Arc<SharedWriterState>, Arc<ReplyDispatcher>),
        open: LedgerDb,
        sync_signal: Arc<WalSyncSignal>,
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
            pending: RowRetryQueue::default(),
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

    /// Writes one batch. Returns `false` when there will be no more batches.
    fn run_batch(&mut self) -> bool {
        let Some(batch) = self.next_batch() else {
            self.commit_open_tx();
            // If it fails, the next process that opens the ledger replays it.
            self.replay_redo_log();
            self.shared.count_errors(self.pending.len() as u64);
            return false;
        };
        if !batch.is_empty() || !self.flush_waiters.is_empty() || self.needs_replay {
            let written = self.file.check_identity().and_then(|()| Ok(self.commit_batch(&batch, BusyPolicy::Wait)?));
            if written.is_ok() {
                self.shared.clear_checkpointed();
            }
            self.complete_batch(batch, written);
        }
        true
    }

    /// Writes one batch without waiting for other processes. If `of` is given, the batch contains no reservations of
    /// other threads. Returns `false` if the batch must be left to the writer thread, which may wait.
    fn try_run_batch(&mut self, of: Option<CallerThreadId>) -> bool {
        let is_plain = !self.is_failing && self.flush_waiters.is_empty() && self.pending.is_empty();
        if !is_plain || self.shared.has_orphans() || !self.is_same_file() {
            return false;
        }
        let Some(open) = self.database.as_mut().filter(|open| open.has_redo_capacity()) else { return false };
        let may_join = open.has_open_tx() || (open.has_linked_files() && open.is_ready());
        if !may_join {
            return false;
        }
        let Some(mut batch) = self.queue.take_appends(MAX_BATCH_REQUESTS, of) else { return false };
        batch.retain(WriterRequest::is_awaited);
        if batch.is_empty() {
            return true;
        }
        self.shared.record_batch_size(batch.len());
        match self.append_to_open_tx(&batch) {
            Ok(decided) => {
                self.complete_batch(batch, Ok(decided));
                self.commit_if_due();
            }
            Err(Some(error)) => self.complete_batch(batch, Err(error.into())),
            // Left to the writer thread, which may wait.
            Err(None) => {
                self.queue.requeue(batch);
                return false;
            }
        }
        true
    }

    /// Returns whether the database file is still the one that was opened. While batches follow each other in one open
    /// transaction, this is checked every millisecond instead of for each batch.
    fn is_same_file(&mut self) -> bool {
        let now = Instant::now();
        let is_recent = |since: Instant| now.duration_since(since) < FILE_RECHECK_INTERVAL;
        self.consecutive_batches =
            if is_recent(self.last_batch_at) { self.consecutive_batches.saturating_add(1) } else { 0 };
        self.last_batch_at = now;
        let has_open_tx = self.database.as_ref().is_some_and(LedgerDb::has_open_tx);
        if has_open_tx && self.consecutive_batches >= MIN_CONSECUTIVE_BATCHES && is_recent(self.file_checked_at) {
            return true;
        }
        let is_same = self.file.check_identity().is_ok();
        self.file_checked_at = now;
        if !is_same {
            // The next batch checks, too.
            self.consecutive_batches = 0;
        }
        is_same
    }

    /// Appends a batch without waiting. Returns `Err(None)` if that is currently not possible.
    fn append_to_open_tx(&mut self, batch: &[WriterRequest]) -> Result<Vec<WriteOutcome>, Option<LedgerError>> {
        let Some(open) = &mut self.database else { return Err(None) };
        let uncommitted_before = open.uncommitted_bytes();
        match open.append_to_open_tx(batch, self.clock.as_ref()) {
            Ok(BatchAppendOutcome::Appended(decided)) => {
                self.shared.set_uncommitted(true);
                // The first batch of a transaction also accounts for its commit.
                let commit_bytes = if uncommitted_before == 0 { ESTIMATED_COMMIT_BYTES } else { 0 };
                self.sync_signal.request_sync(
                    open.wal_file(),
                    commit_bytes + open.uncommitted_bytes().saturating_sub(uncommitted_before),
                );
                Ok(decided)
            }
            // The first commit after a checkpoint waits for the disk.
            Ok(BatchAppendOutcome::NotExclusive) if self.shared.is_checkpointed() || !open.is_ready() => Err(None),
            Ok(BatchAppendOutcome::NotExclusive) => match self.commit_batch(batch, BusyPolicy::FailFast) {
                Err(error) if error.is_busy() => Err(None),
                written => written.map_err(Some),
            },
            Err(error) if open.is_usable_after(&error) => Err(None),
            Err(error) => {
                self.abandon_open_tx();
                Err(Some(error))
            }
        }
    }

    /// Closes the database and abandons the open transaction. When the database is opened again, the confirmed batches
    /// are replayed from the redo log.
    fn abandon_open_tx(&mut self) {
        (self.database, self.needs_replay, self.is_failing) = (None, true, true);
    }

    /// Replays the redo log if necessary.
    fn replay_redo_log(&mut self) {
        if self.needs_replay && self.file.check_identity().is_ok() {
            let _ = self.commit_batch(&[], BusyPolicy::Wait);
        }
    }

    /// Returns whether there is nothing to do until the next request.
    fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.needs_replay
    }

    /// Commits a transaction that has grown large, so that no single commit takes long.
    fn commit_if_due(&mut self) {
        // The first commit after a checkpoint waits for the disk, so it is left to the sync thread.
        if self.database.as_ref().is_some_and(LedgerDb::is_commit_due) && !self.shared.is_checkpointed() {
            self.commit_open_tx();
        }
    }

    /// Commits the batches that are confirmed but so far only in the redo log.
    pub fn commit_open_tx(&mut self) {
        let Some(open) = self.database.as_mut().filter(|open| open.has_open_tx()) else { return };
        // Nothing is committed into an unlinked log: the redo log is replayed into the next one.
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

    /// Replies to all requests in a batch, or refuses them.
    fn complete_batch(&mut self, batch: Vec<WriterRequest>, written: Result<Vec<WriteOutcome>, StoreError>) {
        match written {
            Ok(decided) => {
                self.is_failing = false;
                for (request, decided) in batch.into_iter().zip(decided) {
                    self.reply(request, decided);
                }
                for granted in self.reply_dispatcher.send_batch(&mut self.replies) {
                    self.refund(granted);
                }
                if !self.flush_waiters.is_empty() {
                    // Replies in delivery whose callers are gone are refunded before the flush completes.
                    self.reply_dispatcher.deliver_all();
                    self.shared.take_orphans().into_iter().for_each(|granted| self.refund(granted));
                }
                // Refunds of replies without a receiver are pending; then the flush waits for them, too.
                if self.pending.is_empty() {
                    self.flush_waiters.drain(..).for_each(|answer| drop(answer.send(Ok(()))));
                }
            }
            Err(error) => {
                self.is_failing = true;
                let reason = match error {
                    StoreError::Unavailable(reason) => reason,
                    other => other.to_string(),
                };
                self.refuse(batch, &reason);
            }
        }
    }

    /// Takes pending rows and queued requests. Returns `None` when there will be no more requests.
    fn next_batch(&mut self) -> Option<Vec<WriterRequest>> {
        let queued = self.queue.take(MAX_BATCH_REQUESTS);
        if queued.is_none() && self.pending.is_empty() {
            return None;
        }
        for granted in self.shared.take_orphans() {
            self.refund(granted);
        }
        let oldest = self.pending.len().min(MAX_BATCH_PENDING_ROWS);
        let oldest = (0..oldest).map_while(|_| self.pending.pop_front());
        let mut batch: Vec<WriterRequest> = oldest.map(WriterRequest::Append).collect();
        let Some(queued) = queued else { return self.final_batch(batch) };
        if self.is_failing && queued.is_empty() {
            thread::sleep(RETRY_INTERVAL);
        }
        queued.into_iter().for_each(|request| self.route_request(request, &mut batch));
        Some(batch)
    }

    fn route_request(&mut self, request: WriterRequest, batch: &mut Vec<WriterRequest>) {
        match request {
            request if !request.is_awaited() => {}
            WriterRequest::Flush(answer) => self.flush_waiters.push(answer),
            // After the rows that are older.
            WriterRequest::Append(append) if !self.pending.is_empty() => self.pending.push_back(append),
            request => batch.push(request),
        }
    }

    /// Returns the batch to write while the ledger is being dropped. If writing keeps failing, it is retried a few
    /// times; then the batch is refused and this returns `None`.
    fn final_batch(&mut self, batch: Vec<WriterRequest>) -> Option<Vec<WriterRequest>> {
        if self.is_failing {
            self.close_attempts_left = self.close_attempts_left.saturating_sub(1);
            thread::sleep(RETRY_INTERVAL);
        }
        if self.close_attempts_left > 0 {
            return Some(batch);
        }
        self.refuse(batch, "the ledger was closed");
        None
    }

    /// Writes a batch. On failure, nothing is changed.
    fn commit_batch(
        &mut self,
        batch: &[WriterRequest],
        busy_policy: BusyPolicy,
    ) -> Result<Vec<WriteOutcome>, LedgerError> {
        self.commit_open_tx();
        if self.database.as_ref().is_some_and(|open| !open.has_linked_files()) {
            self.database = None;
        }
        let open = match &mut self.database {
            Some(open) => open,
            None => self.database.insert(LedgerDb::open(&self.file, self.durability)?),
        };
        match open.commit_batch(batch, self.clock.as_ref(), busy_policy) {
            Ok(decided) => {
                // Each transaction starts with a replay of the redo log.
                if std::mem::take(&mut self.needs_replay) {
                    self.shared.set_uncommitted(false);
                }
                if !open.write_head() {
                    self.shared.count_errors(1);
                }
                self.sync_signal
                    .request_sync(open.wal_file(), ESTIMATED_COMMIT_BYTES + ESTIMATED_ROW_BYTES * batch.len() as u64);
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

    fn reply(&mut self, request: WriterRequest, decided: WriteOutcome) {
        match (request, decided) {
            (
                WriterRequest::Reserve(ReserveRequest { caller, intent, reply: answer, .. }),
                WriteOutcome::Taken(taken),
            ) => {
                let granted = GrantedReservation { charges: taken, intent: intent.body };
                self.send_reply(caller, answer, ReserveReply::Taken(granted));
            }
            (
                WriterRequest::Reserve(ReserveRequest { caller, reply: answer, .. }),
                WriteOutcome::Exhausted(exhausted),
            ) => {
                self.send_reply(caller, answer, ReserveReply::Exhausted(exhausted));
            }
            (WriterRequest::Prune { answer, .. }, WriteOutcome::Pruned(count)) => drop(answer.send(Ok(count))),
            (WriterRequest::Sweep(answer), WriteOutcome::Swept { more }) => drop(answer.send(Ok(more))),
            (request, WriteOutcome::Failed(error)) => self.refuse_one(request, error),
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

    fn send_reply(&mut self, caller: CallerThreadId, to: ReplySender<ReserveReply>, answer: ReserveReply) {
        match caller.runtime() {
            // A reply without a receiver is refunded at once: a flush in this batch waits for it.
            Some(runtime) if !to.is_closed() => self.replies.push(ReplyMailboxEntry { runtime, reply: to, answer }),
            _ => {
                if let Some(granted) = reply_dispatcher::deliver_reply(to, answer) {
                    self.refund(granted);
                }
            }
        }
    }

    /// Refunds a reservation whose caller is gone, as part of the next batch.
    fn refund(&mut self, granted: GrantedReservation) {
        match granted.into_refund(self.clock.now()) {
            Ok(append) => self.pending.push_back(append),
            Err(_) => self.shared.count_errors(1),
        }
    }

    /// Refuses all waiting callers. Rows without a waiting caller become pending again, ahead of newer ones.
    fn refuse(&mut self, batch: Vec<WriterRequest>, reason: &str) {
        let refusal = || StoreError::Unavailable(reason.to_owned());
        self.flush_waiters.drain(..).for_each(|answer| drop(answer.send(Err(refusal()))));
        for request in batch.into_iter().rev() {
            match request {
                WriterRequest::Append(append) => self.pending.push_front(append),
                request => self.refuse_one(request, refusal()),
            }
        }
        self.shared.count_errors(self.pending.trim());
    }

    fn refuse_one(&self, request: WriterRequest, error: StoreError) {
        match request {
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

/// Runs the writer thread. It ends when the queue is closed and all requests have been written, or when the retries for
/// the remaining ones are used up.
pub(super) fn run_writer(writer: &Mutex<LedgerWriter>, queue: &WriterQueue) {
    // Also after a panic, so that no caller waits for a writer that is gone.
    let _closing = QueueCloseGuard(queue);
    loop {
        let Ok(is_idle) = writer.lock().map(|writer| writer.is_idle()) else { return drop_database(writer) };
        let was_woken = is_idle && queue.wait();
        let Ok(mut writer) = writer.lock() else { return drop_database(writer) };
        writer.shared.count_thread_run();
        let is_done = was_woken && writer.try_run_batch(None);
        if !is_done && !writer.run_batch() {
            return;
        }
    }
}

/// Closes the database after a panic has left it in an unknown state, so that others do not wait for its locks.
/// Confirmed batches are in the redo log.
fn drop_database(writer: &Mutex<LedgerWriter>) {
    writer.lock().unwrap_or_else(PoisonError::into_inner).database = None;
}

/// Called by a waiting caller to write its thread's requests itself. If the writer lock is taken, the holder of the
/// lock writes them instead.
pub(super) fn lead_batch(writer: &Mutex<LedgerWriter>, queue: &WriterQueue, own: CallerThreadId) {
    let mut of = Some(own);
    for _ in 0..MAX_LED_BATCHES {
        let turn = writer.try_lock().or_else(|busy| match busy {
            TryLockError::WouldBlock => {
                // The holder checks for handoffs when it is done. If it finished just now, the second attempt succeeds.
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
        let has_pending = !turn.pending.is_empty();
        drop(turn);
        if has_pending {
            break;
        }
        if !queue.take_handoff() {
            return;
        }
        of = None;
    }
    queue.wake_writer();
}

/// Commits the open transaction and writes requests that have arrived in the meantime, or wakes the writer thread to
/// write them.
pub(super) fn commit_and_drain(writer: &Mutex<LedgerWriter>, queue: &WriterQueue) {
    // A panic left the writer in an unknown state.
    let Ok(mut turn) = writer.lock() else { return };
    turn.commit_open_tx();
    turn.replay_redo_log();
    let is_done = !queue.take_handoff() || turn.try_run_batch(None);
    drop(turn);
    if !is_done || queue.take_handoff() {
        queue.wake_writer();
    }
}

impl fmt::Debug for LedgerWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerWriter").field("file", &self.file).finish_non_exhaustive()
    }
}

struct QueueCloseGuard<'a>(&'a WriterQueue);

impl Drop for QueueCloseGuard<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
