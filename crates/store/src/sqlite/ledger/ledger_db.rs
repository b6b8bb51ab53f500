//! The ledger's open database, and the transaction in which a batch is executed and written.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::Connection;

use super::batch_executor::{BatchExecutor, WriteOutcome};
use super::counter_cache::CounterCache;
use super::redo_log::{RedoBatch, RedoLog};
use super::row_buffer::RowBuffer;
use super::writer_request::WriterRequest;
use super::{CALL_LOG_TABLE, LedgerError, MIGRATIONS};
use crate::audit_chain::ChainHead;
use crate::clock::Clock;
use crate::model::Durability;
use crate::sqlite::chain_head_file::{self, ChainHeadFile};
use crate::sqlite::db_file::DbFile;

/// Size in bytes above which the write-ahead log file is truncated.
const WAL_SIZE_LIMIT_BYTES: i64 = 64 * 1024 * 1024;
/// Size at which the writer itself checkpoints the write-ahead log. This is a fallback: the sync thread normally does
/// it earlier, while no call is waiting.
const AUTOCHECKPOINT_BYTES: u32 = 32 << 20;

/// Maximum size of uncommitted batches, so that the redo log of a killed process can be replayed quickly.
const MAX_UNCOMMITTED_BYTES: u64 = 8 << 20;
/// Size of uncommitted batches that triggers a commit. Committing this much takes a tenth of a millisecond.
const COMMIT_THRESHOLD_BYTES: u64 = 128 << 10;

/// Maximum age of uncommitted batches under load, in case the disk holds up the thread that commits them.
const MAX_UNCOMMITTED_AGE: Duration = Duration::from_millis(100);

/// Whether a batch waits while another process is writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BusyPolicy {
    Wait,
    FailFast,
}

/// A database connection and its cached state.
pub(super) struct LedgerDb {
    file: DbFile,
    // Dropped before the connection, so that the next holder of the database lock finds the redo log unlocked.
    redo_log: RedoLog,
    connection: Connection,
    /// Whether statements wait for another process; read by the busy handler.
    may_wait: Arc<AtomicBool>,
    /// The write-ahead log file that SQLite has open.
    wal_file: Arc<File>,
    head_file: ChainHeadFile,
    counters: CounterCache,
    /// The head of the log, including buffered rows.
    head: ChainHead,
    row_buffer: RowBuffer,
    written_head: ChainHead,
    /// Value of SQLite's `data_version` when the counters and the head were read. `None` if they must be read again: at
    /// the start, after a failed transaction, and after another process has written to the database.
    data_version: Option<i64>,
    durability: Durability,
    /// Whether a transaction is open whose batches have already been confirmed to their callers. These batches are also
    /// in the redo log.
    has_open_tx: bool,
    tx_opened_at: Instant,
}

/// Result of trying to append a batch without waiting.
pub(super) enum BatchAppendOutcome {
    /// The batch is in the open transaction and in the redo log.
    Appended(Vec<WriteOutcome>),
    /// Other processes have the ledger open, so no transaction may stay open.
    NotExclusive,
}

impl LedgerDb {
    pub fn open(file: &DbFile, durability: Durability) -> Result<Self, LedgerError> {
        let may_wait = Arc::new(AtomicBool::new(true));
        let connection = file.connect_with_wait_flag(Arc::clone(&may_wait))?;
        let synchronous = match durability {
            Durability::Process => "normal",
            Durability::Power => "full",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        let page: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        connection.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_BYTES / page.max(512))?;
        connection.pragma_update(None, "journal_size_limit", WAL_SIZE_LIMIT_BYTES)?;
        // The first read makes SQLite create its log file, so that it can be opened here.
        let head = chain_head_file::chain_head(&connection, CALL_LOG_TABLE)?;
        let path = file.sibling_path("-wal");
        let wal_file = File::open(&path).map_err(|source| LedgerError::File { path, source })?;
        let head_file = ChainHeadFile::open(file)?;
        let path = RedoLog::path_of(file);
        let redo_log = RedoLog::open(file).map_err(|source| LedgerError::File { path, source })?;
        let mut open = Self {
            redo_log,
            file: file.clone(),
            connection,
            may_wait,
            wal_file: Arc::new(wal_file),
            head_file,
            counters: CounterCache::new(),
            head,
            row_buffer: RowBuffer::default(),
            written_head: head,
            data_version: None,
            durability,
            has_open_tx: false,
            tx_opened_at: Instant::now(),
        };
        open.redo_log.lock_shared();
        if durability == Durability::Power {
            open.redo_log.preallocate(2 * COMMIT_THRESHOLD_BYTES);
            open.redo_log.sync_directory().map_err(|source| open.redo_log_error(source))?;
        }
        if open.unreplayed_batches()?.is_empty() {
            // With the shared lock held, no process writes to it; without the lock it is inspected again.
            open.redo_log.mark_inspected();
        } else {
            match open.in_transaction(|_| Ok(())) {
                // The lock holder may be the owner of these batches. Each later transaction replays them first.
                Err(error) if error.is_busy() => {}
                done => done?,
            }
        }
        Ok(open)
    }

    /// Returns the batches in the redo log that are not yet in the database.
    fn unreplayed_batches(&self) -> Result<Vec<RedoBatch>, LedgerError> {
        let head = chain_head_file::chain_head(&self.connection, CALL_LOG_TABLE)?;
        self.redo_log.batches_after(head).map_err(|source| self.redo_log_error(source))
    }

    /// Writes the batches of a killed process to the database. Returns whether there were any such batches.
    ///
    /// INVARIANT: no live process has batches in the redo log while another one holds the write lock. The replay
    /// therefore happens under the lock, before anything else is written.
    fn replay_redo_log(&mut self) -> Result<bool, LedgerError> {
        if self.redo_log.is_ready() {
            return Ok(false);
        }
        let batches = self.unreplayed_batches()?;
        let count = batches.len();
        let mut replayed = 0;
        for RedoBatch { head, rows, counters } in batches {
            let computed = rows.iter().fold(self.head, |head, row| head.next(row.at, &row.body));
            if computed == head {
                self.batch_executor().replay_rows(&rows);
                CounterCache::put(&self.connection, &counters)?;
                replayed += 1;
            }
        }
        self.row_buffer.flush(&self.connection)?;
        if replayed < count {
            self.redo_log.save_copy().map_err(|source| self.redo_log_error(source))?;
        }
        // The cached counters do not include them.
        self.counters.reload(&self.connection)?;
        Ok(count > 0)
    }

    fn redo_log_error(&self, source: io::Error) -> LedgerError {
        LedgerError::File { path: self.redo_log.path().into(), source }
    }

    /// Executes, writes and commits a batch. After an error, no part of it remains in memory or on the disk.
    pub fn commit_batch(
        &mut self,
        batch: &[WriterRequest],
        clock: &dyn Clock,
        busy_policy: BusyPolicy,
    ) -> Result<Vec<WriteOutcome>, LedgerError> {
        self.may_wait.store(busy_policy == BusyPolicy::Wait, Ordering::Relaxed);
        if busy_policy == BusyPolicy::Wait {
            self.redo_log.lock_shared();
        }
        self.in_transaction(|own| {
            // Read after taking the lock: a batch that waited must not have an earlier time than the batches before it.
            let now = clock.now();
            let outcomes = own.execute_batch(batch, now)?;
            own.row_buffer.flush(&own.connection)?;
            own.counters.store(&own.connection, now)?;
            Ok(outcomes)
        })
    }

    /// Executes a batch and appends it to the open transaction and the redo log. Does not wait for other processes, and
    /// waits for the disk only with `Durability::Power`.
    ///
    /// After an error, this `LedgerDb` must be dropped unless [`is_usable_after`](Self::is_usable_after) returns
    /// `true`: the confirmed batches are then only in the redo log, and are replayed when the ledger is reopened.
    pub fn append_to_open_tx(
        &mut self,
        batch: &[WriterRequest],
        clock: &dyn Clock,
    ) -> Result<BatchAppendOutcome, LedgerError> {
        let is_first = !self.has_open_tx;
        if is_first {
            self.may_wait.store(false, Ordering::Relaxed);
            // Batches left in the redo log would be overwritten.
            if !self.redo_log.is_ready() || !self.redo_log.try_lock_exclusive() {
                return Ok(BatchAppendOutcome::NotExclusive);
            }
            if let Err(error) = self.begin_tx() {
                self.roll_back();
                self.redo_log.reset();
                return Err(error);
            }
            (self.has_open_tx, self.tx_opened_at) = (true, Instant::now());
        }
        let previous_head = self.head;
        let outcomes = self.execute_batch(batch, clock.now())?;
        // Flushed before the batch is in the redo log, so that a failure refuses it. The first batch shows whether the database accepts rows.
        if is_first || self.row_buffer.is_flush_due() {
            self.row_buffer.flush(&self.connection)?;
        }
        // A batch without rows is not appended: the sequence numbers of its first batch identify a redo log.
        if self.head != previous_head {
            self.append_to_redo_log(batch, &outcomes).map_err(|source| self.redo_log_error(source))?;
        }
        self.counters.end_batch();
        Ok(BatchAppendOutcome::Appended(outcomes))
    }

    fn append_to_redo_log(&mut self, batch: &[WriterRequest], outcomes: &[WriteOutcome]) -> io::Result<()> {
        let rows = batch.iter().zip(outcomes).filter_map(|(request, outcome)| request.written_row(outcome));
        self.redo_log.append(self.head, rows, self.counters.changed_in_batch())?;
        match self.durability {
            Durability::Process => Ok(()),
            Durability::Power => self.redo_log.sync(),
        }
    }

    /// Commits the open transaction, if there is one. After an error, this `LedgerDb` must be dropped.
    pub fn commit_open_tx(&mut self, clock: &dyn Clock) -> Result<(), LedgerError> {
        if !self.has_open_tx {
            return Ok(());
        }
        self.row_buffer.flush(&self.connection)?;
        self.counters.store(&self.connection, clock.now())?;
        // With `Durability::Power`, SQLite syncs before it returns; only then may the redo log be overwritten.
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        self.has_open_tx = false;
        self.redo_log.reset();
        Ok(())
    }

    /// Runs `work` in a transaction and commits it. After an error, none of its changes remain.
    fn in_transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        let attempt = |own: &mut Self| {
            own.begin_tx()?;
            let has_recovered = own.replay_redo_log()?;
            let done = work(own)?;
            own.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok::<_, LedgerError>((done, has_recovered))
        };
        let (done, has_recovered) = attempt(self).inspect_err(|_| self.roll_back())?;
        // The redo log may have been on the disk, so it is reset only after the database is, too. A failed sync does not affect
        // this commit: the sequence numbers show that the database has these batches.
        if has_recovered && self.wal_file.sync_data().is_ok() {
            self.redo_log.reset();
        }
        self.redo_log.mark_inspected();
        Ok(done)
    }

    fn begin_tx(&mut self) -> Result<(), LedgerError> {
        self.head_file.check_directory()?;
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.reload_if_changed()
    }

    fn roll_back(&mut self) {
        self.data_version = None;
        self.row_buffer.clear();
        if !self.connection.is_autocommit() {
            // If this fails too, the connection is not used again.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn execute_batch(&mut self, batch: &[WriterRequest], now: Timestamp) -> Result<Vec<WriteOutcome>, LedgerError> {
        Ok(self.batch_executor().execute(batch, now)?)
    }

    fn batch_executor(&mut self) -> BatchExecutor<'_> {
        BatchExecutor::new(&self.connection, &mut self.counters, &mut self.head, &mut self.row_buffer)
    }

    /// Drops the cached state if another connection has written since it was read.
    fn reload_if_changed(&mut self) -> Result<(), LedgerError> {
        let version = self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.data_version != Some(version) {
            check_schema(&self.connection)?;
            // That connection may have truncated the log; the next head must not hide it.
            chain_head_file::preserve_if_mismatched::<LedgerError>(&self.connection, &self.file, CALL_LOG_TABLE)?;
            self.counters.reload(&self.connection)?;
            self.head = chain_head_file::chain_head(&self.connection, CALL_LOG_TABLE)?;
            self.data_version = Some(version);
        }
        Ok(())
    }

    /// Writes the head file and returns whether that succeeded. Called after the commit, never before, so that after a
    /// crash in between the head is older than the log rather than newer.
    pub fn write_head(&mut self) -> bool {
        if self.written_head == self.head {
            return true;
        }
        let is_written = self.head_file.write(self.head).is_ok();
        if is_written {
            self.written_head = self.head;
        }
        is_written
    }

    /// Returns the write-ahead log file, for syncing.
    pub fn wal_file(&self) -> &Arc<File> {
        &self.wal_file
    }

    /// Returns whether the write-ahead log file is still linked in a directory. Data in an unlinked file is lost when
    /// this process ends.
    pub fn has_linked_wal(&self) -> bool {
        self.wal_file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }

    /// Returns whether the write-ahead log is still linked and the redo log's path still refers to the open file.
    pub fn has_linked_files(&self) -> bool {
        self.has_linked_wal() && self.redo_log.is_same_file()
    }

    /// Returns whether a transaction with confirmed batches is open.
    pub fn has_open_tx(&self) -> bool {
        self.has_open_tx
    }

    /// Returns whether the shared lock is held and the redo log contains nothing to replay.
    pub fn is_ready(&self) -> bool {
        self.redo_log.is_ready()
    }

    /// Returns the size of the batches that are confirmed but not committed.
    pub fn uncommitted_bytes(&self) -> u64 {
        self.redo_log.pending_bytes()
    }

    /// Returns whether the redo log can take more batches before a commit.
    pub fn has_redo_capacity(&self) -> bool {
        self.redo_log.pending_bytes() < MAX_UNCOMMITTED_BYTES
    }

    /// Returns whether the open transaction should be committed now.
    pub fn is_commit_due(&self) -> bool {
        self.redo_log.pending_bytes() >= COMMIT_THRESHOLD_BYTES
            || (self.has_open_tx && self.tx_opened_at.elapsed() > MAX_UNCOMMITTED_AGE)
    }

    /// Returns whether the connection can still be used after an error.
    pub fn is_usable_after(&self, error: &LedgerError) -> bool {
        error.is_busy() && self.connection.is_autocommit() && !self.has_open_tx
    }
}

/// Checks the schema again, because a later build may upgrade it while this one is running.
fn check_schema(connection: &Connection) -> Result<(), LedgerError> {
    let found: usize = connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
    if found == MIGRATIONS.len() { Ok(()) } else { Err(LedgerError::Schema { found, known: MIGRATIONS.len() }) }
}
