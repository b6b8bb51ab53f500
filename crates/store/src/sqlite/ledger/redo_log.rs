//! `ledger.journal`, the redo log: batches that are confirmed before their transaction is committed. After a crash, the
//! next transaction in any process writes them to the database first.
//!
//! So a durable batch costs one write, and with `power` one sync, instead of a commit. Every row is written twice in
//! return. 16 calls in one batch take 739,307 instructions instead of 1,074,757
//! (`docs/dev/adr/0002-redo-log-and-group-commit.md`).
//!
//! INVARIANT: batches are written only by a process that holds the database's write lock and the exclusive lock on this
//! file, and are read only under the write lock. Each transaction starts at offset 0 and overwrites the previous one. A
//! checksum detects incomplete batches, and sequence numbers detect batches that are already in the database.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::writer_request::EncodedRow;
use crate::audit_chain::{ChainHead, RowHash};
use crate::counters::CounterState;
use crate::sqlite::chain_head_file;
use crate::sqlite::db_file::DbFile;

const EXTENSION: &str = "journal";
/// Extension of the copy of a redo log that does not match the call log. The file stays until an operator removes it.
const MISMATCH_EXTENSION: &str = "journal.lost";
/// Marks the start of each batch.
const MAGIC: &[u8; 4] = b"GLJ1";
/// Size of the magic bytes, checksum and length.
const HEADER_BYTES: usize = 12;
/// Maximum size of a redo log; a larger file is not read. This is four times the limit for uncommitted batches.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// How long to wait for the process with the exclusive lock, which releases it at each commit, many times a second.
const LOCK_TIMEOUT: Duration = Duration::from_millis(900);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How long to assume that another process still holds its lock before trying again.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The redo log file, with the lock that shows whether other processes have the ledger open.
pub(super) struct RedoLog {
    path: PathBuf,
    file: File,
    /// The head file, opened only to lock it. It is locked while the shared lock on the redo log is being acquired, so
    /// that no process gets the exclusive lock in the meantime.
    entry_lock: File,
    /// Offset of the next batch.
    write_offset: u64,
    buffer: Vec<u8>,
    lock_mode: RedoLogLockMode,
    /// Whether the file has been scanned for batches to replay since the shared lock was acquired.
    is_inspected: bool,
    /// When another process was last found to have the ledger open.
    peer_seen_at: Option<Instant>,
    /// When an attempt to acquire the shared lock last failed.
    lock_failed_at: Option<Instant>,
}

/// Lock on the redo log. Limits are enforced under the database lock; this lock only determines whether a transaction
/// may stay open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RedoLogLockMode {
    /// Not held: another process has the exclusive lock, or the file system does not support locks.
    Unlocked,
    /// No process holds the exclusive lock.
    Shared,
    /// This process has the ledger to itself.
    Exclusive,
}

/// A batch read from the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedoBatch {
    /// Head of the log after the batch.
    pub head: ChainHead,
    pub rows: Vec<EncodedRow>,
    /// Changed counters: key, state, and the Unix time in seconds at which each expires.
    pub counters: Vec<(String, String, i64)>,
}

impl RedoLog {
    pub fn open(database: &DbFile) -> io::Result<Self> {
        let path = Self::path_of(database);
        let is_new = !path.exists();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        if is_new && let Ok(owner) = fs::metadata(database.path()) {
            // The creator may be root; the file must belong to the owner of the database.
            let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
        }
        let entry_lock = File::open(database.path().with_extension(chain_head_file::EXTENSION))?;
        Ok(Self {
            path,
            file,
            entry_lock,
            write_offset: 0,
            buffer: Vec::new(),
            lock_mode: RedoLogLockMode::Unlocked,
            is_inspected: false,
            peer_seen_at: None,
            lock_failed_at: None,
        })
    }

    /// Returns the path of a database's redo log.
    pub fn path_of(database: &DbFile) -> PathBuf {
        database.path().with_extension(EXTENSION)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Acquires the shared lock. Waits at most [`LOCK_TIMEOUT`] for a process with the exclusive lock.
    pub fn lock_shared(&mut self) {
        if self.lock_mode != RedoLogLockMode::Unlocked {
            return;
        }
        let wait = if is_recent(self.lock_failed_at) { Duration::ZERO } else { LOCK_TIMEOUT };
        let (since, mut has_entry_lock) = (Instant::now(), false);
        loop {
            has_entry_lock = has_entry_lock || self.entry_lock.try_lock().is_ok();
            match self.file.try_lock_shared() {
                Ok(()) => {
                    (self.lock_mode, self.is_inspected, self.lock_failed_at) = (RedoLogLockMode::Shared, false, None);
                    break;
                }
                Err(TryLockError::WouldBlock) if since.elapsed() < wait => thread::sleep(LOCK_POLL_INTERVAL),
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {
                    self.lock_failed_at = Some(Instant::now());
                    break;
                }
            }
        }
        if has_entry_lock {
            let _ = self.entry_lock.unlock();
        }
    }

    /// Returns whether a lock is held and the file has been scanned since it was acquired.
    pub fn is_ready(&self) -> bool {
        self.lock_mode != RedoLogLockMode::Unlocked && self.is_inspected
    }

    /// Returns whether a lock is held.
    pub fn is_locked(&self) -> bool {
        self.lock_mode != RedoLogLockMode::Unlocked
    }

    /// Records that the file contains nothing to replay.
    pub fn mark_inspected(&mut self) {
        self.is_inspected = true;
    }

    /// Acquires the exclusive lock if no other process has the ledger open. It is held until [`RedoLog::reset`] is
    /// called.
    pub fn try_lock_exclusive(&mut self) -> bool {
        if self.lock_mode != RedoLogLockMode::Shared || is_recent(self.peer_seen_at) {
            return self.lock_mode == RedoLogLockMode::Exclusive;
        }
        if self.entry_lock.try_lock().is_err() {
            self.peer_seen_at = Some(Instant::now());
            return false;
        }
        let is_alone = self.file.try_lock().is_ok();
        let _ = self.entry_lock.unlock();
        if is_alone {
            self.lock_mode = RedoLogLockMode::Exclusive;
        } else {
            // A failed attempt to upgrade loses the shared lock.
            self.lock_mode = RedoLogLockMode::Unlocked;
            self.peer_seen_at = Some(Instant::now());
        }
        is_alone
    }

    /// Discards all batches after a commit, and returns from the exclusive to the shared lock, so that other processes
    /// can open the ledger.
    pub fn reset(&mut self) {
        self.write_offset = 0;
        if self.lock_mode == RedoLogLockMode::Unlocked {
            // Another process may be writing. Sequence numbers show that the database has these batches.
            return;
        }
        let _ = self.file.write_all_at(&[0; HEADER_BYTES], 0);
        if self.lock_mode == RedoLogLockMode::Exclusive {
            self.lock_mode =
                if self.file.lock_shared().is_ok() { RedoLogLockMode::Shared } else { RedoLogLockMode::Unlocked };
        }
    }

    /// Returns the size of the batches that are waiting for the commit.
    pub fn pending_bytes(&self) -> u64 {
        self.write_offset
    }

    /// Extends the file with zeros and syncs it, because later syncs are faster if the file does not have to grow.
    /// Errors are ignored, because they only make later syncs slower.
    pub fn preallocate(&mut self, bytes: u64) {
        let make = || -> io::Result<()> {
            let length = self.file.metadata()?.len();
            if length < bytes {
                let zeros = vec![0; usize::try_from(bytes - length).unwrap_or_default()];
                self.file.write_all_at(&zeros, length)?;
            }
            self.file.sync_all()
        };
        // Without the lock, another process may be writing.
        if self.is_locked() {
            let _ = make();
        }
    }

    /// Syncs the directory entry.
    pub fn sync_directory(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    /// Syncs the last batch, or removes it if that fails: a batch that was refused must not be replayed.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data().inspect_err(|_| {
            let start = self.write_offset.saturating_sub(self.buffer.len() as u64);
            if self.file.write_all_at(&[0; HEADER_BYTES], start).is_ok() {
                self.write_offset = start;
            }
        })
    }

    /// Returns whether the path still refers to this file. If it does not, batches written to this file cannot be
    /// replayed later.
    pub fn is_same_file(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata().map(identity);
        fs::metadata(&self.path).map(identity).is_ok_and(|at_path| own.is_ok_and(|own| own == at_path))
    }

    /// Saves a copy for inspection. An existing copy is kept instead, since the first one is the most useful.
    pub fn save_copy(&self) -> io::Result<()> {
        let copy = self.path.with_extension(MISMATCH_EXTENSION);
        if copy.exists() { Ok(()) } else { fs::copy(&self.path, copy).map(drop) }
    }

    /// Appends a batch for the open transaction.
    pub fn append<'a>(
        &mut self,
        head: ChainHead,
        rows: impl Iterator<Item = &'a EncodedRow>,
        counters: impl Iterator<Item = (&'a str, &'a CounterState)>,
    ) -> io::Result<()> {
        let text = &mut self.buffer;
        text.clear();
        text.extend_from_slice(&[0; HEADER_BYTES]);
        text.extend_from_slice(&head.seq.to_le_bytes());
        text.extend_from_slice(&head.hash.0);
        for EncodedRow { at, body } in rows {
            text.push(b'r');
            text.extend_from_slice(&at.to_le_bytes());
            push_string(text, body);
        }
        for (key, counter) in counters {
            text.push(b'c');
            text.extend_from_slice(&counter.expiry_second().to_le_bytes());
            push_string(text, key);
            push_string(text, &counter.encode());
        }
        let (header, rest) = text.split_at_mut(HEADER_BYTES);
        let (magic, sum_and_length) = header.split_at_mut(4);
        magic.copy_from_slice(MAGIC);
        let (sum, length) = sum_and_length.split_at_mut(4);
        sum.copy_from_slice(&crc32fast::hash(rest).to_le_bytes());
        length.copy_from_slice(&length_as_u32(rest).to_le_bytes());
        self.file.write_all_at(text, self.write_offset)?;
        self.write_offset += text.len() as u64;
        Ok(())
    }

    /// Returns the complete batches in the file, if they follow `head`. All batches in a file belong to one
    /// transaction, so the database has either all of them or none.
    ///
    /// # Errors
    /// The file cannot be read, or was not written by this build.
    pub fn batches_after(&self, head: ChainHead) -> io::Result<Vec<RedoBatch>> {
        let length = self.file.metadata()?.len();
        let mut start = [0; HEADER_BYTES + 8];
        if length < start.len() as u64 {
            return Ok(Vec::new());
        }
        self.file.read_exact_at(&mut start, 0)?;
        if start.starts_with(&[0; 4]) {
            return Ok(Vec::new());
        }
        if !start.starts_with(MAGIC) || length > MAX_FILE_BYTES {
            return Err(io::Error::other("the redo log was not written by this build; move it away"));
        }
        let (_, first) = start.split_at(HEADER_BYTES);
        if first.try_into().is_ok_and(|first| u64::from_le_bytes(first) <= head.seq) {
            return Ok(Vec::new());
        }
        let mut text = vec![0; usize::try_from(length).unwrap_or_default()];
        self.file.read_exact_at(&mut text, 0)?;
        let (mut batches, mut rest) = (Vec::new(), text.as_slice());
        while let Some((batch, behind)) = decode_batch(rest) {
            batches.push(batch);
            rest = behind;
        }
        // After a batch that was cut off while being written, there is only data of earlier transactions.
        let last = batches.last().map_or(head.seq, |batch: &RedoBatch| batch.head.seq);
        if has_later_batch(rest, last) {
            self.save_copy()?;
        }
        Ok(batches)
    }
}

fn is_recent(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < LOCK_RETRY_INTERVAL)
}

// The size of rows is limited far below `u32::MAX`; a longer text fails its checksum and is not accepted.
fn length_as_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn push_string(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(&length_as_u32(text.as_bytes()).to_le_bytes());
    to.extend_from_slice(text.as_bytes());
}

/// Decodes the batch at the start of `text` and returns it with the rest; `None` if there is no complete batch.
fn decode_batch(text: &[u8]) -> Option<(RedoBatch, &[u8])> {
    let rest = text.strip_prefix(MAGIC)?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (batch, tail) = rest.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
    (crc32fast::hash(batch) == u32::from_le_bytes(*sum)).then_some(())?;
    let (seq, rest) = batch.split_first_chunk()?;
    let (hash, mut rest) = rest.split_first_chunk()?;
    let head = ChainHead { seq: u64::from_le_bytes(*seq), hash: RowHash(*hash) };
    let mut written = RedoBatch { head, rows: Vec::new(), counters: Vec::new() };
    while let Some((kind, one)) = rest.split_first() {
        let (number, one) = one.split_first_chunk()?;
        let number = i64::from_le_bytes(*number);
        let (text, one) = decode_string(one)?;
        rest = match kind {
            b'r' => {
                written.rows.push(EncodedRow { at: number, body: text });
                one
            }
            b'c' => {
                let (state, one) = decode_string(one)?;
                written.counters.push((text, state, number));
                one
            }
            _ => return None,
        };
    }
    Some((written, tail))
}

/// Returns whether `text` contains a complete batch with rows after `last`. If it does, something before that batch was
/// damaged.
fn has_later_batch(text: &[u8], last: u64) -> bool {
    let starts = (0..text.len()).filter(|start| text.get(*start..).is_some_and(|rest| rest.starts_with(MAGIC)));
    let mut batches = starts.filter_map(|start| decode_batch(text.get(start..)?));
    batches.any(|(batch, _)| batch.head.seq > last)
}

fn decode_string(from: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = from.split_first_chunk()?;
    let (text, tail) = rest.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
    Some((String::from_utf8(text.to_vec()).ok()?, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(bodies: &[&str]) -> Vec<EncodedRow> {
        bodies.iter().map(|body| EncodedRow { at: 7, body: (*body).to_owned() }).collect()
    }

    /// A redo log with two batches, and the head of the log after each.
    fn filled_log(dir: &Path) -> (RedoLog, [ChainHead; 2]) {
        fs::write(dir.join("ledger.head"), "").expect("a head");
        let mut redo_log = RedoLog::open(&DbFile::create(dir, "ledger.db").expect("a file")).expect("a journal");
        redo_log.lock_shared();
        let counter = CounterState::decode("3:500", 9).expect("a counter");
        let batches = [entries(&["a", "b"]), entries(&["c"])];
        let mut end = ChainHead::EMPTY;
        let ends = batches.map(|rows| {
            end = rows.iter().fold(end, |end, row| end.next(row.at, &row.body));
            redo_log.append(end, rows.iter(), std::iter::once(("calls", &counter))).expect("room");
            end
        });
        (redo_log, ends)
    }

    #[test]
    fn batches_are_read_as_written_and_only_after_the_head_of_the_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut redo_log, [first, second]) = filled_log(dir.path());
        let counters = || vec![("calls".to_owned(), "3:500".to_owned(), 9)];
        let batches = redo_log.batches_after(ChainHead::EMPTY).expect("groups");
        let rows = entries;
        let wanted = [
            RedoBatch { head: first, rows: rows(&["a", "b"]), counters: counters() },
            RedoBatch { head: second, rows: rows(&["c"]), counters: counters() },
        ];
        assert_eq!(batches, wanted);
        assert_eq!(redo_log.batches_after(second).expect("groups"), [], "the log has them");
        redo_log.reset();
        assert_eq!(redo_log.batches_after(ChainHead::EMPTY).expect("groups"), [], "they were committed");
    }

    #[test]
    fn an_incomplete_or_changed_batch_is_ignored_and_those_before_it_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let (redo_log, [first, _]) = filled_log(dir.path());
        let ends = |redo_log: &RedoLog| -> Vec<ChainHead> {
            redo_log.batches_after(ChainHead::EMPTY).expect("groups").iter().map(|batch| batch.head).collect()
        };
        let mut last = [0];
        redo_log.file.read_exact_at(&mut last, redo_log.write_offset - 1).expect("a byte");
        redo_log.file.write_all_at(&[last[0] ^ 1], redo_log.write_offset - 1).expect("changed");
        assert_eq!(ends(&redo_log), [first]);
        redo_log.file.set_len(redo_log.write_offset - 1).expect("cut");
        assert_eq!(ends(&redo_log), [first]);
        redo_log.file.set_len(HEADER_BYTES as u64 + 3).expect("cut");
        assert_eq!(ends(&redo_log), []);
    }

    #[test]
    fn a_log_damaged_before_complete_batches_is_saved_for_inspection() {
        let dir = tempfile::tempdir().expect("a directory");
        let (redo_log, [first, _]) = filled_log(dir.path());
        let lost = dir.path().join("ledger.journal.lost");
        let len = |redo_log: &RedoLog| redo_log.batches_after(ChainHead::EMPTY).expect("groups").len();
        assert_eq!(len(&redo_log), 2);
        redo_log.file.write_all_at(b"!", redo_log.write_offset - 1).expect("changed");
        assert_eq!((len(&redo_log), lost.exists()), (1, false), "the last one may have been cut off");
        redo_log.file.write_all_at(b"!", HEADER_BYTES as u64 + 20).expect("changed");
        assert_eq!((len(&redo_log), lost.exists()), (0, false), "no complete batch is left");
        let (redo_log, _) = filled_log(dir.path());
        redo_log.file.write_all_at(b"!", HEADER_BYTES as u64 + 20).expect("changed");
        assert_eq!((len(&redo_log), lost.exists()), (0, true), "the second does not follow");
        assert_eq!(redo_log.batches_after(first).expect("groups"), [], "batches that the database has are not read");
    }

    #[test]
    fn a_redo_log_of_another_build_is_not_mistaken_for_an_empty_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let (redo_log, _) = filled_log(dir.path());
        redo_log.file.write_all_at(b"GLJ9", 0).expect("changed");
        let error = redo_log.batches_after(ChainHead::EMPTY).expect_err("not understood");
        assert!(error.to_string().contains("not written by this build"), "{error}");
    }
}
