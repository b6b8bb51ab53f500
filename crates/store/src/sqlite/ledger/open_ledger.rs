//! The open database of the ledger, and the one transaction in which a group is decided and written.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, params};

use super::counters::Counters;
use super::job::{Entry, Job, Keep, Reserve};
use super::{LOG, LedgerFault, STEPS, prune};
use crate::StoreError;
use crate::chain::Head;
use crate::clock::Clock;
use crate::counter::Taken;
use crate::ledger::Exhausted;
use crate::sqlite::Durability;
use crate::sqlite::file::DbFile;
use crate::sqlite::head_file::{self, HeadFile};

/// How far the write-ahead log may grow on the disk before it is cut back, in bytes.
const LOG_BYTES: i64 = 64 * 1024 * 1024;
/// How far it may grow before the writer itself carries it over into the database. The sync thread does that earlier,
/// while nobody waits; this is for when it does not get to it. In pages of 4 KiB.
const CHECKPOINT_PAGES: u32 = 8_192;

/// What a group's transaction says to one job.
pub(super) enum Decided {
    Taken(Vec<Taken>),
    Exhausted(Exhausted),
    Pruned(u64),
    Swept { more: bool },
    Done,
    Failed(StoreError),
}

/// A connection, and what is known of the database through it.
pub(super) struct OpenLedger {
    file: DbFile,
    connection: Connection,
    /// The write-ahead log that SQLite has open.
    log_file: Arc<File>,
    head_file: HeadFile,
    counters: Counters,
    end: Head,
    written_head: Head,
    /// What `data_version` was when counters and end were read. None if they are to be read again: at the start,
    /// after a failed transaction, and when another process has written.
    seen: Option<i64>,
}

impl OpenLedger {
    pub fn open(file: &DbFile, durability: Durability) -> Result<Self, LedgerFault> {
        let connection = file.connect()?;
        let synchronous = match durability {
            Durability::Process => "normal",
            Durability::Power => "full",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        // The first look makes SQLite open its log, so that it can be opened here.
        let end = head_file::end(&connection, LOG)?;
        let path = file.beside("-wal");
        let log_file = File::open(&path).map_err(|source| LedgerFault::File { path, source })?;
        let head_file = HeadFile::open(file)?;
        Ok(Self {
            file: file.clone(),
            connection,
            log_file: Arc::new(log_file),
            head_file,
            counters: Counters::new(),
            end,
            written_head: end,
            seen: None,
        })
    }

    /// Decides and writes a group, and commits it. After an error nothing of it is left, here or on the disk.
    pub fn transact(&mut self, group: &[Job], clock: &dyn Clock) -> Result<Vec<Decided>, LedgerFault> {
        let decided = self.attempt(group, clock);
        if decided.is_err() {
            self.seen = None;
            if !self.connection.is_autocommit() {
                // If this fails too, the connection is not used again.
                let _ = self.connection.execute_batch("ROLLBACK");
            }
        }
        decided
    }

    fn attempt(&mut self, group: &[Job], clock: &dyn Clock) -> Result<Vec<Decided>, LedgerFault> {
        self.head_file.check()?;
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.look_for_others()?;
        // Read behind the lock: a later group never has an earlier time because it waited.
        let now = clock.now();
        let mut decided = Vec::with_capacity(group.len());
        for job in group {
            decided.push(self.decide(job, now)?);
        }
        self.counters.store(&self.connection, now)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(decided)
    }

    /// Forgets what is known if another connection has written since.
    fn look_for_others(&mut self) -> Result<(), LedgerFault> {
        let version = self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.seen != Some(version) {
            refuse_other_schema(&self.connection)?;
            // Whoever wrote may have cut the end off; the next head must not cover that up.
            head_file::hold::<LedgerFault>(&self.connection, &self.file, LOG)?;
            self.counters.read_anew(&self.connection)?;
            self.end = head_file::end(&self.connection, LOG)?;
            self.seen = Some(version);
        }
        Ok(())
    }

    fn decide(&mut self, job: &Job, now: Timestamp) -> rusqlite::Result<Decided> {
        match job {
            Job::Reserve(reserve) => self.reserve(reserve, now),
            Job::Keep(Keep { entry, taken }) => {
                self.counters.give_back(&self.connection, taken)?;
                self.append(entry)?;
                Ok(Decided::Done)
            }
            Job::Prune { through, .. } => {
                let entry = match prune::move_anchor(&self.connection, *through, now)? {
                    Ok(Some(moved)) => moved,
                    Ok(None) => return Ok(Decided::Pruned(0)),
                    Err(error) => return Ok(Decided::Failed(error)),
                };
                self.append(&entry.row)?;
                Ok(Decided::Pruned(entry.removed))
            }
            Job::Sweep(_) => Ok(Decided::Swept { more: prune::sweep(&self.connection)? }),
            Job::Flush(_) | Job::Wake => Ok(Decided::Done),
            #[cfg(test)]
            Job::Tamper(tamper, _) => {
                tamper(&self.connection);
                Ok(Decided::Done)
            }
        }
    }

    fn reserve(&mut self, reserve: &Reserve, now: Timestamp) -> rusqlite::Result<Decided> {
        for claim in &reserve.claims {
            if !self.counters.load(&self.connection, &claim.key)? {
                return Ok(Decided::Failed(StoreError::Corrupt(format!("counter `{}`", claim.key))));
            }
        }
        match self.counters.take(&reserve.claims, now) {
            Ok(taken) => {
                self.append(&reserve.intent)?;
                Ok(Decided::Taken(taken))
            }
            Err(exhausted) => Ok(Decided::Exhausted(exhausted)),
        }
    }

    fn append(&mut self, entry: &Entry) -> rusqlite::Result<()> {
        let end = self.end.followed_by(entry.at, &entry.body);
        let mut insert = self.connection.prepare_cached("INSERT INTO log (seq, at, body, hash) VALUES (?, ?, ?, ?)")?;
        insert.execute(params![end.seq, entry.at, entry.body, end.hash.0])?;
        self.end = end;
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

    /// Whether the connection is worth a further try.
    pub fn is_usable_after(&self, fault: &LedgerFault) -> bool {
        let LedgerFault::Sql(error) = fault else { return false };
        let code = error.sqlite_error_code();
        matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) && self.connection.is_autocommit()
    }
}

/// A later build may bring the schema up while this one runs.
fn refuse_other_schema(connection: &Connection) -> Result<(), LedgerFault> {
    let found: usize = connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
    if found == STEPS.len() { Ok(()) } else { Err(LedgerFault::Schema { found, known: STEPS.len() }) }
}
