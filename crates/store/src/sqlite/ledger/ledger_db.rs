//! The open database of the ledger, and the one transaction in which a group is decided and written.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::Connection;

use super::batch_executor::{BatchExecutor, WriteOutcome};
use super::counter_cache::Counters;
use super::redo_log::{RedoBatch, RedoLog};
use super::row_buffer::RowBuffer;
use super::writer_request::WriterRequest;
use super::{CALL_LOG_TABLE, LedgerError, MIGRATIONS};
use crate::clock::Clock;
use crate::hash_chain::ChainHead;
use crate::sqlite::Durability;
use crate::sqlite::chain_head_file::{self, ChainHeadFile};
use crate::sqlite::db_file::DbFile;

/// How far the write-ahead log may grow on the disk before it is cut back, in bytes.
const WAL_SIZE_LIMIT_BYTES: i64 = 64 * 1024 * 1024;
/// How far it may grow before the writer itself carries it over into the database. The sync thread does that earlier,
/// while nobody waits; this is for when it does not get to it.
const AUTOCHECKPOINT_BYTES: u32 = 32 << 20;

/// How much may be held, so that what a killed process leaves is read in a moment.
const MAX_UNCOMMITTED_BYTES: u64 = 8 << 20;
/// How much is held before whoever writes commits it: a commit of so much takes a tenth of a millisecond.
const COMMIT_THRESHOLD_BYTES: u64 = 128 << 10;

/// How long it is held at most while calls come, should the thread that commits be kept from it by the disk.
const MAX_UNCOMMITTED_AGE: Duration = Duration::from_millis(100);

/// Whether a group waits while another process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BusyPolicy {
    Wait,
    FailFast,
}

/// A connection, and what is known of the database through it.
pub(super) struct LedgerDb {
    file: DbFile,
    // Dropped before the connection, so that who gets the database's lock finds nobody alone.
    redo_log: RedoLog,
    connection: Connection,
    /// Whether a statement waits for another process; looked at by the connection.
    may_wait: Arc<AtomicBool>,
    /// The write-ahead log that SQLite has open.
    wal_file: Arc<File>,
    head_file: ChainHeadFile,
    counters: Counters,
    /// The end of the log, with the rows that are not in the table yet.
    head: ChainHead,
    row_buffer: RowBuffer,
    written_head: ChainHead,
    /// What `data_version` was when counters and end were read. None if they are to be read again: at the start,
    /// after a failed transaction, and when another process has written.
    data_version: Option<i64>,
    durability: Durability,
    /// Whether a transaction is open whose groups are answered; they are in the journal.
    has_open_tx: bool,
    tx_opened_at: Instant,
}

/// What became of a group that somebody who must not wait wants written.
pub(super) enum AppendOutcome {
    /// It is in the open transaction and in the journal.
    Appended(Vec<WriteOutcome>),
    /// Others have the ledger open, so no transaction is kept open.
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
        // The first look makes SQLite open its log, so that it can be opened here.
        let end = chain_head_file::chain_head(&connection, CALL_LOG_TABLE)?;
        let path = file.sibling_path("-wal");
        let log_file = File::open(&path).map_err(|source| LedgerError::File { path, source })?;
        let head_file = ChainHeadFile::open(file)?;
        let path = RedoLog::path_of(file);
        let journal = RedoLog::open(file).map_err(|source| LedgerError::File { path, source })?;
        let mut open = Self {
            redo_log: journal,
            file: file.clone(),
            connection,
            may_wait,
            wal_file: Arc::new(log_file),
            head_file,
            counters: Counters::new(),
            head: end,
            row_buffer: RowBuffer::default(),
            written_head: end,
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
            // With a place among others nobody writes to it; without one it is looked at again.
            open.redo_log.mark_inspected();
        } else {
            match open.in_transaction(|_| Ok(())) {
                // Whoever holds the lock may be the one whose it is. Each transaction begins with it, once there is one.
                Err(fault) if fault.is_busy() => {}
                done => done?,
            }
        }
        Ok(open)
    }

    /// What is in the journal and not in the database.
    fn unreplayed_batches(&self) -> Result<Vec<RedoBatch>, LedgerError> {
        let end = chain_head_file::chain_head(&self.connection, CALL_LOG_TABLE)?;
        self.redo_log.batches_after(end).map_err(|source| self.redo_log_error(source))
    }

    /// Puts into the database what somebody left in the journal who is no more. True if there was anything.
    ///
    /// INVARIANT: nobody alive has groups in the journal while another one holds the write lock. So this is done under the
    /// lock, before anything else is written.
    fn replay_redo_log(&mut self) -> Result<bool, LedgerError> {
        if self.redo_log.is_ready() {
            return Ok(false);
        }
        let groups = self.unreplayed_batches()?;
        let count = groups.len();
        let mut put = 0;
        for RedoBatch { head: end, rows, counters } in groups {
            let follows = rows.iter().fold(self.head, |end, row| end.next(row.at, &row.body));
            if follows == end {
                self.batch_executor().replay_rows(&rows);
                Counters::put(&self.connection, &counters)?;
                put += 1;
            }
        }
        self.row_buffer.flush(&self.connection)?;
        if put < count {
            self.redo_log.save_copy().map_err(|source| self.redo_log_error(source))?;
        }
        // What is at hand does not know of them.
        self.counters.read_anew(&self.connection)?;
        Ok(count > 0)
    }

    fn redo_log_error(&self, source: io::Error) -> LedgerError {
        LedgerError::File { path: self.redo_log.path().into(), source }
    }

    /// Decides and writes a group, and commits it. After an error nothing of it is left, here or on the disk.
    pub fn commit_batch(
        &mut self,
        group: &[WriterRequest],
        clock: &dyn Clock,
        patience: BusyPolicy,
    ) -> Result<Vec<WriteOutcome>, LedgerError> {
        self.may_wait.store(patience == BusyPolicy::Wait, Ordering::Relaxed);
        if patience == BusyPolicy::Wait {
            self.redo_log.lock_shared();
        }
        self.in_transaction(|own| {
            // Read behind the lock: a later group never has an earlier time because it waited.
            let now = clock.now();
            let decided = own.execute_batch(group, now)?;
            own.row_buffer.flush(&own.connection)?;
            own.counters.store(&own.connection, now)?;
            Ok(decided)
        })
    }

    /// Decides a group and writes it into a transaction that stays open, and into the journal. It waits for no other
    /// process, and for the disk only where it must.
    ///
    /// After an error this must not be used again: what was answered before is in the journal alone, and opening the
    /// ledger anew brings it back.
    pub fn append_to_open_tx(
        &mut self,
        group: &[WriterRequest],
        clock: &dyn Clock,
    ) -> Result<AppendOutcome, LedgerError> {
        let is_first = !self.has_open_tx;
        if is_first {
            self.may_wait.store(false, Ordering::Relaxed);
            // What is left in the journal would be written over.
            if !self.redo_log.is_ready() || !self.redo_log.try_lock_exclusive() {
                return Ok(AppendOutcome::NotExclusive);
            }
            if let Err(fault) = self.begin_tx() {
                self.roll_back();
                self.redo_log.reset();
                return Err(fault);
            }
            (self.has_open_tx, self.tx_opened_at) = (true, Instant::now());
        }
        let before = self.head;
        let decided = self.execute_batch(group, clock.now())?;
        // Before the group is written down: what fails here refuses it. The first ones show whether the database takes any.
        if is_first || self.row_buffer.is_flush_due() {
            self.row_buffer.flush(&self.connection)?;
        }
        // A group without a row says nothing: by the numbers of its first group a journal is known.
        if self.head != before {
            self.append_to_redo_log(group, &decided).map_err(|source| self.redo_log_error(source))?;
        }
        self.counters.keep_fresh();
        Ok(AppendOutcome::Appended(decided))
    }

    fn append_to_redo_log(&mut self, group: &[WriterRequest], decided: &[WriteOutcome]) -> io::Result<()> {
        let rows = group.iter().zip(decided).filter_map(|(job, decided)| job.written_row(decided));
        self.redo_log.append(self.head, rows, self.counters.fresh())?;
        match self.durability {
            Durability::Process => Ok(()),
            Durability::Power => self.redo_log.sync(),
        }
    }

    /// Commits what is in the open transaction, if there is one. After an error this must not be used again.
    pub fn commit_open_tx(&mut self, clock: &dyn Clock) -> Result<(), LedgerError> {
        if !self.has_open_tx {
            return Ok(());
        }
        self.row_buffer.flush(&self.connection)?;
        self.counters.store(&self.connection, clock.now())?;
        // With `power`, SQLite has this on the disk before it says so; only then the journal may be written over.
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        self.has_open_tx = false;
        self.redo_log.reset();
        Ok(())
    }

    /// Begins a transaction, has something done in it, and commits. After an error nothing of it is left.
    fn in_transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        let attempt = |own: &mut Self| {
            own.begin_tx()?;
            let has_recovered = own.replay_redo_log()?;
            let done = work(own)?;
            own.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok::<_, LedgerError>((done, has_recovered))
        };
        let (done, has_recovered) = attempt(self).inspect_err(|_| self.roll_back())?;
        // It may have been on the disk; only where the database is there, too, the journal says no more. If it is not, that
        // is no fault of what was committed here: the numbers tell that the database has it.
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

    fn execute_batch(&mut self, group: &[WriterRequest], now: Timestamp) -> Result<Vec<WriteOutcome>, LedgerError> {
        Ok(self.batch_executor().execute(group, now)?)
    }

    fn batch_executor(&mut self) -> BatchExecutor<'_> {
        BatchExecutor::new(&self.connection, &mut self.counters, &mut self.head, &mut self.row_buffer)
    }

    /// Forgets what is known if another connection has written since.
    fn reload_if_changed(&mut self) -> Result<(), LedgerError> {
        let version = self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.data_version != Some(version) {
            check_schema(&self.connection)?;
            // Whoever wrote may have cut the end off; the next head must not cover that up.
            chain_head_file::preserve_if_mismatched::<LedgerError>(&self.connection, &self.file, CALL_LOG_TABLE)?;
            self.counters.read_anew(&self.connection)?;
            self.head = chain_head_file::chain_head(&self.connection, CALL_LOG_TABLE)?;
            self.data_version = Some(version);
        }
        Ok(())
    }

    /// Keeps the end of the chain apart. False if that could not be done.
    // After the commit, never before: killed in between, the head is behind the log and not ahead of it.
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

    /// The write-ahead log, to be synced.
    pub fn wal_file(&self) -> &Arc<File> {
        &self.wal_file
    }

    /// Whether the write-ahead log still has a name. What goes into one without is lost with this process.
    pub fn has_linked_wal(&self) -> bool {
        self.wal_file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }

    /// The same of the journal as well.
    pub fn has_linked_files(&self) -> bool {
        self.has_linked_wal() && self.redo_log.is_same_file()
    }

    /// Whether a transaction is open whose groups are answered.
    pub fn has_open_tx(&self) -> bool {
        self.has_open_tx
    }

    /// Whether it has a place among those who have the ledger open, and nothing is left of others.
    pub fn is_ready(&self) -> bool {
        self.redo_log.is_ready()
    }

    /// How much of what is answered is not committed.
    pub fn uncommitted_bytes(&self) -> u64 {
        self.redo_log.pending_bytes()
    }

    /// Whether the journal takes more groups before a commit.
    pub fn has_redo_capacity(&self) -> bool {
        self.redo_log.pending_bytes() < MAX_UNCOMMITTED_BYTES
    }

    /// Whether it is time to commit what is held.
    pub fn is_commit_due(&self) -> bool {
        self.redo_log.pending_bytes() >= COMMIT_THRESHOLD_BYTES
            || (self.has_open_tx && self.tx_opened_at.elapsed() > MAX_UNCOMMITTED_AGE)
    }

    /// Whether the connection is worth a further try.
    pub fn is_usable_after(&self, fault: &LedgerError) -> bool {
        fault.is_busy() && self.connection.is_autocommit() && !self.has_open_tx
    }
}

/// A later build may bring the schema up while this one runs.
fn check_schema(connection: &Connection) -> Result<(), LedgerError> {
    let found: usize = connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
    if found == MIGRATIONS.len() { Ok(()) } else { Err(LedgerError::Schema { found, known: MIGRATIONS.len() }) }
}
