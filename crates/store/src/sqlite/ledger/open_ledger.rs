//! The open database of the ledger, and the one transaction in which a group is decided and written.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::Connection;

use super::counter_cache::Counters;
use super::group::{Decided, Group};
use super::job::Job;
use super::redo_log::{RedoBatch, RedoLog};
use super::rows::Rows;
use super::{CALL_LOG_TABLE, LedgerError, MIGRATIONS};
use crate::clock::Clock;
use crate::hash_chain::ChainHead;
use crate::sqlite::Durability;
use crate::sqlite::chain_head_file::{self, ChainHeadFile};
use crate::sqlite::db_file::DbFile;

/// How far the write-ahead log may grow on the disk before it is cut back, in bytes.
const LOG_BYTES: i64 = 64 * 1024 * 1024;
/// How far it may grow before the writer itself carries it over into the database. The sync thread does that earlier,
/// while nobody waits; this is for when it does not get to it.
const CHECKPOINT_BYTES: u32 = 32 << 20;

/// How much may be held, so that what a killed process leaves is read in a moment.
const MOST_HELD: u64 = 8 << 20;
/// How much is held before whoever writes commits it: a commit of so much takes a tenth of a millisecond.
const MUCH_HELD: u64 = 128 << 10;

/// How long it is held at most while calls come, should the thread that commits be kept from it by the disk.
const LONG_HELD: Duration = Duration::from_millis(100);

/// Whether a group waits while another process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    None,
}

/// A connection, and what is known of the database through it.
pub(super) struct OpenLedger {
    file: DbFile,
    // Dropped before the connection, so that who gets the database's lock finds nobody alone.
    journal: RedoLog,
    connection: Connection,
    /// Whether a statement waits for another process; looked at by the connection.
    may_wait: Arc<AtomicBool>,
    /// The write-ahead log that SQLite has open.
    log_file: Arc<File>,
    head_file: ChainHeadFile,
    counters: Counters,
    /// The end of the log, with the rows that are not in the table yet.
    end: ChainHead,
    rows: Rows,
    written_head: ChainHead,
    /// What `data_version` was when counters and end were read. None if they are to be read again: at the start,
    /// after a failed transaction, and when another process has written.
    seen: Option<i64>,
    durability: Durability,
    /// Whether a transaction is open whose groups are answered; they are in the journal.
    is_held: bool,
    held_since: Instant,
}

/// What became of a group that somebody who must not wait wants written.
pub(super) enum Joined {
    /// It is in the open transaction and in the journal.
    Decided(Vec<Decided>),
    /// Others have the ledger open, so no transaction is kept open.
    NotAlone,
}

impl OpenLedger {
    pub fn open(file: &DbFile, durability: Durability) -> Result<Self, LedgerError> {
        let may_wait = Arc::new(AtomicBool::new(true));
        let connection = file.connect_with_wait_flag(Arc::clone(&may_wait))?;
        let synchronous = match durability {
            Durability::Process => "normal",
            Durability::Power => "full",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        let page: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_BYTES / page.max(512))?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        // The first look makes SQLite open its log, so that it can be opened here.
        let end = chain_head_file::chain_head(&connection, CALL_LOG_TABLE)?;
        let path = file.sibling_path("-wal");
        let log_file = File::open(&path).map_err(|source| LedgerError::File { path, source })?;
        let head_file = ChainHeadFile::open(file)?;
        let path = RedoLog::path_of(file);
        let journal = RedoLog::open(file).map_err(|source| LedgerError::File { path, source })?;
        let mut open = Self {
            journal,
            file: file.clone(),
            connection,
            may_wait,
            log_file: Arc::new(log_file),
            head_file,
            counters: Counters::new(),
            end,
            rows: Rows::default(),
            written_head: end,
            seen: None,
            durability,
            is_held: false,
            held_since: Instant::now(),
        };
        open.journal.lock_shared();
        if durability == Durability::Power {
            open.journal.preallocate(2 * MUCH_HELD);
            open.journal.sync_directory().map_err(|source| open.journal_fault(source))?;
        }
        if open.left_behind()?.is_empty() {
            // With a place among others nobody writes to it; without one it is looked at again.
            open.journal.mark_inspected();
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
    fn left_behind(&self) -> Result<Vec<RedoBatch>, LedgerError> {
        let end = chain_head_file::chain_head(&self.connection, CALL_LOG_TABLE)?;
        self.journal.batches_after(end).map_err(|source| self.journal_fault(source))
    }

    /// Puts into the database what somebody left in the journal who is no more. True if there was anything.
    ///
    /// INVARIANT: nobody alive has groups in the journal while another one holds the write lock. So this is done under the
    /// lock, before anything else is written.
    fn recover(&mut self) -> Result<bool, LedgerError> {
        if self.journal.is_ready() {
            return Ok(false);
        }
        let groups = self.left_behind()?;
        let count = groups.len();
        let mut put = 0;
        for RedoBatch { head: end, rows, counters } in groups {
            let follows = rows.iter().fold(self.end, |end, row| end.next(row.at, &row.body));
            if follows == end {
                self.group().put(&rows);
                Counters::put(&self.connection, &counters)?;
                put += 1;
            }
        }
        self.rows.put(&self.connection)?;
        if put < count {
            self.journal.save_copy().map_err(|source| self.journal_fault(source))?;
        }
        // What is at hand does not know of them.
        self.counters.read_anew(&self.connection)?;
        Ok(count > 0)
    }

    fn journal_fault(&self, source: io::Error) -> LedgerError {
        LedgerError::File { path: self.journal.path().into(), source }
    }

    /// Decides and writes a group, and commits it. After an error nothing of it is left, here or on the disk.
    pub fn transact(
        &mut self,
        group: &[Job],
        clock: &dyn Clock,
        patience: Patience,
    ) -> Result<Vec<Decided>, LedgerError> {
        self.may_wait.store(patience == Patience::Waits, Ordering::Relaxed);
        if patience == Patience::Waits {
            self.journal.lock_shared();
        }
        self.in_transaction(|own| {
            // Read behind the lock: a later group never has an earlier time because it waited.
            let now = clock.now();
            let decided = own.decide(group, now)?;
            own.rows.put(&own.connection)?;
            own.counters.store(&own.connection, now)?;
            Ok(decided)
        })
    }

    /// Decides a group and writes it into a transaction that stays open, and into the journal. It waits for no other
    /// process, and for the disk only where it must.
    ///
    /// After an error this must not be used again: what was answered before is in the journal alone, and opening the
    /// ledger anew brings it back.
    pub fn join(&mut self, group: &[Job], clock: &dyn Clock) -> Result<Joined, LedgerError> {
        let is_first = !self.is_held;
        if is_first {
            self.may_wait.store(false, Ordering::Relaxed);
            // What is left in the journal would be written over.
            if !self.journal.is_ready() || !self.journal.try_lock_exclusive() {
                return Ok(Joined::NotAlone);
            }
            if let Err(fault) = self.begin() {
                self.roll_back();
                self.journal.reset();
                return Err(fault);
            }
            (self.is_held, self.held_since) = (true, Instant::now());
        }
        let before = self.end;
        let decided = self.decide(group, clock.now())?;
        // Before the group is written down: what fails here refuses it. The first ones show whether the database takes any.
        if is_first || self.rows.are_many() {
            self.rows.put(&self.connection)?;
        }
        // A group without a row says nothing: by the numbers of its first group a journal is known.
        if self.end != before {
            self.write_down(group, &decided).map_err(|source| self.journal_fault(source))?;
        }
        self.counters.keep_fresh();
        Ok(Joined::Decided(decided))
    }

    fn write_down(&mut self, group: &[Job], decided: &[Decided]) -> io::Result<()> {
        let rows = group.iter().zip(decided).filter_map(|(job, decided)| job.row(decided));
        self.journal.append(self.end, rows, self.counters.fresh())?;
        match self.durability {
            Durability::Process => Ok(()),
            Durability::Power => self.journal.sync(),
        }
    }

    /// Commits what is in the open transaction, if there is one. After an error this must not be used again.
    pub fn commit_held(&mut self, clock: &dyn Clock) -> Result<(), LedgerError> {
        if !self.is_held {
            return Ok(());
        }
        self.rows.put(&self.connection)?;
        self.counters.store(&self.connection, clock.now())?;
        // With `power`, SQLite has this on the disk before it says so; only then the journal may be written over.
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        self.is_held = false;
        self.journal.reset();
        Ok(())
    }

    /// Begins a transaction, has something done in it, and commits. After an error nothing of it is left.
    fn in_transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        let attempt = |own: &mut Self| {
            own.begin()?;
            let has_recovered = own.recover()?;
            let done = work(own)?;
            own.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok::<_, LedgerError>((done, has_recovered))
        };
        let (done, has_recovered) = attempt(self).inspect_err(|_| self.roll_back())?;
        // It may have been on the disk; only where the database is there, too, the journal says no more. If it is not, that
        // is no fault of what was committed here: the numbers tell that the database has it.
        if has_recovered && self.log_file.sync_data().is_ok() {
            self.journal.reset();
        }
        self.journal.mark_inspected();
        Ok(done)
    }

    fn begin(&mut self) -> Result<(), LedgerError> {
        self.head_file.check_directory()?;
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.look_for_others()
    }

    fn roll_back(&mut self) {
        self.seen = None;
        self.rows.clear();
        if !self.connection.is_autocommit() {
            // If this fails too, the connection is not used again.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn decide(&mut self, group: &[Job], now: Timestamp) -> Result<Vec<Decided>, LedgerError> {
        Ok(self.group().decided(group, now)?)
    }

    fn group(&mut self) -> Group<'_> {
        Group::new(&self.connection, &mut self.counters, &mut self.end, &mut self.rows)
    }

    /// Forgets what is known if another connection has written since.
    fn look_for_others(&mut self) -> Result<(), LedgerError> {
        let version = self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.seen != Some(version) {
            refuse_other_schema(&self.connection)?;
            // Whoever wrote may have cut the end off; the next head must not cover that up.
            chain_head_file::preserve_if_mismatched::<LedgerError>(&self.connection, &self.file, CALL_LOG_TABLE)?;
            self.counters.read_anew(&self.connection)?;
            self.end = chain_head_file::chain_head(&self.connection, CALL_LOG_TABLE)?;
            self.seen = Some(version);
        }
        Ok(())
    }

    /// Keeps the end of the chain apart. False if that could not be done.
    // After the commit, never before: killed in between, the head is behind the log and not ahead of it.
    pub fn write_head(&mut self) -> bool {
        if self.written_head == self.end {
            return true;
        }
        let is_written = self.head_file.write(self.end).is_ok();
        if is_written {
            self.written_head = self.end;
        }
        is_written
    }

    /// The write-ahead log, to be synced.
    pub fn log_file(&self) -> &Arc<File> {
        &self.log_file
    }

    /// Whether the write-ahead log still has a name. What goes into one without is lost with this process.
    pub fn has_its_log(&self) -> bool {
        self.log_file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }

    /// The same of the journal as well.
    pub fn has_its_files(&self) -> bool {
        self.has_its_log() && self.journal.is_same_file()
    }

    /// Whether a transaction is open whose groups are answered.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether it has a place among those who have the ledger open, and nothing is left of others.
    pub fn is_settled(&self) -> bool {
        self.journal.is_ready()
    }

    /// How much of what is answered is not committed.
    pub fn held_bytes(&self) -> u64 {
        self.journal.pending_bytes()
    }

    /// Whether the journal takes more groups before a commit.
    pub fn has_room(&self) -> bool {
        self.journal.pending_bytes() < MOST_HELD
    }

    /// Whether it is time to commit what is held.
    pub fn holds_much(&self) -> bool {
        self.journal.pending_bytes() >= MUCH_HELD || (self.is_held && self.held_since.elapsed() > LONG_HELD)
    }

    /// Whether the connection is worth a further try.
    pub fn is_usable_after(&self, fault: &LedgerError) -> bool {
        fault.is_busy() && self.connection.is_autocommit() && !self.is_held
    }
}

/// A later build may bring the schema up while this one runs.
fn refuse_other_schema(connection: &Connection) -> Result<(), LedgerError> {
    let found: usize = connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
    if found == MIGRATIONS.len() { Ok(()) } else { Err(LedgerError::Schema { found, known: MIGRATIONS.len() }) }
}
