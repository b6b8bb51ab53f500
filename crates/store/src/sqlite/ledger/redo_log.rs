//! `ledger.journal`: groups that were answered before their transaction is committed. A killed process leaves them here,
//! and whoever begins the next transaction puts them into the database.
//!
//! INVARIANT: only who holds the database's write lock, and is alone with the ledger, writes groups; they are read only by
//! who holds the write lock. It begins anew with each transaction, over what the one before left. What was cut off is told
//! by its checksum, and what the database has by its numbers.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::writer_request::EncodedRow;
use crate::counter::CounterState;
use crate::hash_chain::{ChainHead, RowHash};
use crate::sqlite::chain_head_file;
use crate::sqlite::db_file::DbFile;

const EXTENSION: &str = "journal";
/// A journal of which not everything follows the log. It stays until somebody has looked and removes it.
const MISMATCH_EXTENSION: &str = "journal.lost";
/// What each group begins with.
const MAGIC: &[u8; 4] = b"GLJ1";
/// Magic, checksum, length.
const HEADER_BYTES: usize = 12;
/// The longest that is read; twice what is ever held.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// How long to wait for one that is alone with the ledger: it lets go when it commits, many times a second.
const LOCK_TIMEOUT: Duration = Duration::from_millis(900);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How long others are taken to be there that were there, or not to let go who did not.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The file, and who else has the ledger open by its lock.
pub(super) struct RedoLog {
    path: PathBuf,
    file: File,
    /// Held by who wants to enter, so that nobody becomes alone meanwhile. It is the head's file: a lock on a file whose
    /// bytes are of no concern here.
    entry_lock: File,
    /// Where the next group goes.
    write_offset: u64,
    buffer: Vec<u8>,
    lock_mode: LockMode,
    /// Whether what is in it was looked at since it took its place among others.
    is_inspected: bool,
    /// When somebody else was last seen, and when it last could not enter.
    peer_seen_at: Option<Instant>,
    lock_failed_at: Option<Instant>,
}

/// What is known of others that have the ledger open. Limits hold by the database's own lock; this one only tells whether
/// that may be kept for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockMode {
    /// Nothing: somebody is alone with it and does not let go, or files cannot be locked here.
    Unlocked,
    /// Nobody is alone with it.
    Shared,
    /// We are.
    Exclusive,
}

/// A group as it was written down.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedoBatch {
    /// The end of the log behind it.
    pub head: ChainHead,
    pub rows: Vec<EncodedRow>,
    /// Counters that it changed: key, state, and the second from which on nothing of it counts.
    pub counters: Vec<(String, String, i64)>,
}

impl RedoLog {
    pub fn open(database: &DbFile) -> io::Result<Self> {
        let path = Self::path_of(database);
        let is_new = !path.exists();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        if is_new && let Ok(owner) = fs::metadata(database.path()) {
            // Made by whoever came first, perhaps by root: it is for the one whose database it is.
            let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
        }
        let turnstile = File::open(database.path().with_extension(chain_head_file::EXTENSION))?;
        Ok(Self {
            path,
            file,
            entry_lock: turnstile,
            write_offset: 0,
            buffer: Vec::new(),
            lock_mode: LockMode::Unlocked,
            is_inspected: false,
            peer_seen_at: None,
            lock_failed_at: None,
        })
    }

    /// Where the journal of a database is.
    pub fn path_of(database: &DbFile) -> PathBuf {
        database.path().with_extension(EXTENSION)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a place among those who have the ledger open. While somebody is alone with it, it waits, for so long at most.
    pub fn lock_shared(&mut self) {
        if self.lock_mode != LockMode::Unlocked {
            return;
        }
        let wait = if is_recent(self.lock_failed_at) { Duration::ZERO } else { LOCK_TIMEOUT };
        let (since, mut has_turnstile) = (Instant::now(), false);
        loop {
            has_turnstile = has_turnstile || self.entry_lock.try_lock().is_ok();
            match self.file.try_lock_shared() {
                Ok(()) => {
                    (self.lock_mode, self.is_inspected, self.lock_failed_at) = (LockMode::Shared, false, None);
                    break;
                }
                Err(TryLockError::WouldBlock) if since.elapsed() < wait => thread::sleep(LOCK_POLL_INTERVAL),
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {
                    self.lock_failed_at = Some(Instant::now());
                    break;
                }
            }
        }
        if has_turnstile {
            let _ = self.entry_lock.unlock();
        }
    }

    /// Whether it has a place among them, and has been looked at since.
    pub fn is_ready(&self) -> bool {
        self.lock_mode != LockMode::Unlocked && self.is_inspected
    }

    /// Whether it has a place among them.
    pub fn is_locked(&self) -> bool {
        self.lock_mode != LockMode::Unlocked
    }

    /// Notes that nothing in it is wanted any more.
    pub fn mark_inspected(&mut self) {
        self.is_inspected = true;
    }

    /// Whether nobody else has the ledger open. Then nobody enters until [`RedoLog::reset`].
    pub fn try_lock_exclusive(&mut self) -> bool {
        if self.lock_mode != LockMode::Shared || is_recent(self.peer_seen_at) {
            return self.lock_mode == LockMode::Exclusive;
        }
        if self.entry_lock.try_lock().is_err() {
            self.peer_seen_at = Some(Instant::now());
            return false;
        }
        let is_alone = self.file.try_lock().is_ok();
        let _ = self.entry_lock.unlock();
        if is_alone {
            self.lock_mode = LockMode::Exclusive;
        } else {
            // The lock that was there is lost with the try.
            self.lock_mode = LockMode::Unlocked;
            self.peer_seen_at = Some(Instant::now());
        }
        is_alone
    }

    /// Everything in it is committed: it says no more, and others may enter.
    pub fn reset(&mut self) {
        self.write_offset = 0;
        if self.lock_mode == LockMode::Unlocked {
            // Somebody may be writing to it. The numbers of the groups tell that the database has them.
            return;
        }
        let _ = self.file.write_all_at(&[0; HEADER_BYTES], 0);
        if self.lock_mode == LockMode::Exclusive {
            self.lock_mode = if self.file.lock_shared().is_ok() { LockMode::Shared } else { LockMode::Unlocked };
        }
    }

    /// How much of it waits for the commit.
    pub fn pending_bytes(&self) -> u64 {
        self.write_offset
    }

    /// Has it on the disk, with its name, and written out to a length: a sync is quicker where the file need not grow.
    /// Where that cannot be done, a sync is slower.
    pub fn preallocate(&mut self, bytes: u64) {
        let make = || -> io::Result<()> {
            let length = self.file.metadata()?.len();
            if length < bytes {
                let zeros = vec![0; usize::try_from(bytes - length).unwrap_or_default()];
                self.file.write_all_at(&zeros, length)?;
            }
            self.file.sync_all()
        };
        // With others about, one of them may be writing to it.
        if self.is_locked() {
            let _ = make();
        }
    }

    /// Has its name on the disk.
    pub fn sync_directory(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    /// Has the last group on the disk, or takes it back: what is refused must not come back.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data().inspect_err(|_| {
            let start = self.write_offset.saturating_sub(self.buffer.len() as u64);
            if self.file.write_all_at(&[0; HEADER_BYTES], start).is_ok() {
                self.write_offset = start;
            }
        })
    }

    /// Whether it is still the file at its path. What goes into another one nobody finds.
    pub fn is_same_file(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata().map(identity);
        fs::metadata(&self.path).map(identity).is_ok_and(|at_path| own.is_ok_and(|own| own == at_path))
    }

    /// Keeps a copy of it apart, for somebody to look at.
    // The first one tells most.
    pub fn save_copy(&self) -> io::Result<()> {
        let aside = self.path.with_extension(MISMATCH_EXTENSION);
        if aside.exists() { Ok(()) } else { fs::copy(&self.path, aside).map(drop) }
    }

    /// Writes a group behind those that wait for the same commit.
    pub fn append<'a>(
        &mut self,
        end: ChainHead,
        rows: impl Iterator<Item = &'a EncodedRow>,
        counters: impl Iterator<Item = (&'a str, &'a CounterState)>,
    ) -> io::Result<()> {
        let text = &mut self.buffer;
        text.clear();
        text.extend_from_slice(&[0; HEADER_BYTES]);
        text.extend_from_slice(&end.seq.to_le_bytes());
        text.extend_from_slice(&end.hash.0);
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
        let (head, rest) = text.split_at_mut(HEADER_BYTES);
        let (magic, sum_and_length) = head.split_at_mut(4);
        magic.copy_from_slice(MAGIC);
        let (sum, length) = sum_and_length.split_at_mut(4);
        sum.copy_from_slice(&crc32fast::hash(rest).to_le_bytes());
        length.copy_from_slice(&length_as_u32(rest).to_le_bytes());
        self.file.write_all_at(text, self.write_offset)?;
        self.write_offset += text.len() as u64;
        Ok(())
    }

    /// The groups in it, from the first to the last that is whole, if they are behind an end. All of one journal were to
    /// be committed together, so either all are or none.
    ///
    /// # Errors
    /// It cannot be read, or is none of this build's.
    pub fn batches_after(&self, end: ChainHead) -> io::Result<Vec<RedoBatch>> {
        let length = self.file.metadata()?.len();
        let mut begins = [0; HEADER_BYTES + 8];
        if length < begins.len() as u64 {
            return Ok(Vec::new());
        }
        self.file.read_exact_at(&mut begins, 0)?;
        if begins.starts_with(&[0; 4]) {
            return Ok(Vec::new());
        }
        if !begins.starts_with(MAGIC) || length > MAX_FILE_BYTES {
            return Err(io::Error::other("it is no journal of this build; set it aside by hand"));
        }
        let (_, first) = begins.split_at(HEADER_BYTES);
        if first.try_into().is_ok_and(|first| u64::from_le_bytes(first) <= end.seq) {
            return Ok(Vec::new());
        }
        let mut text = vec![0; usize::try_from(length).unwrap_or_default()];
        self.file.read_exact_at(&mut text, 0)?;
        let (mut groups, mut rest) = (Vec::new(), text.as_slice());
        while let Some((group, behind)) = decode_batch(rest) {
            groups.push(group);
            rest = behind;
        }
        // What was cut off in the middle of its writing has nothing behind it but what an earlier transaction left.
        let last = groups.last().map_or(end.seq, |group: &RedoBatch| group.head.seq);
        if has_later_batch(rest, last) {
            self.save_copy()?;
        }
        Ok(groups)
    }
}

fn is_recent(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < LOCK_RETRY_INTERVAL)
}

// A row is bounded far below what the length can hold; a longer text fails its checksum and is not taken.
fn length_as_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn push_string(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(&length_as_u32(text.as_bytes()).to_le_bytes());
    to.extend_from_slice(text.as_bytes());
}

/// The group that a text begins with, and what is behind it; none where it begins with no whole one.
fn decode_batch(text: &[u8]) -> Option<(RedoBatch, &[u8])> {
    let rest = text.strip_prefix(MAGIC)?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (group, behind) = rest.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
    (crc32fast::hash(group) == u32::from_le_bytes(*sum)).then_some(())?;
    let (seq, rest) = group.split_first_chunk()?;
    let (hash, mut rest) = rest.split_first_chunk()?;
    let end = ChainHead { seq: u64::from_le_bytes(*seq), hash: RowHash(*hash) };
    let mut written = RedoBatch { head: end, rows: Vec::new(), counters: Vec::new() };
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
    Some((written, behind))
}

/// Whether a whole group of later rows stands somewhere in a text: something before it was damaged.
fn has_later_batch(text: &[u8], last: u64) -> bool {
    let starts = (0..text.len()).filter(|start| text.get(*start..).is_some_and(|rest| rest.starts_with(MAGIC)));
    let mut groups = starts.filter_map(|start| decode_batch(text.get(start..)?));
    groups.any(|(group, _)| group.head.seq > last)
}

fn decode_string(from: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = from.split_first_chunk()?;
    let (text, behind) = rest.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
    Some((String::from_utf8(text.to_vec()).ok()?, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(bodies: &[&str]) -> Vec<EncodedRow> {
        bodies.iter().map(|body| EncodedRow { at: 7, body: (*body).to_owned() }).collect()
    }

    /// A journal with two groups, and the end of the log behind each.
    fn filled(dir: &Path) -> (RedoLog, [ChainHead; 2]) {
        fs::write(dir.join("ledger.head"), "").expect("a head");
        let mut journal = RedoLog::open(&DbFile::create(dir, "ledger.db").expect("a file")).expect("a journal");
        journal.lock_shared();
        let counter = CounterState::decode("3:500", 9).expect("a counter");
        let groups = [entries(&["a", "b"]), entries(&["c"])];
        let mut end = ChainHead::EMPTY;
        let ends = groups.map(|rows| {
            end = rows.iter().fold(end, |end, row| end.next(row.at, &row.body));
            journal.append(end, rows.iter(), std::iter::once(("calls", &counter))).expect("room");
            end
        });
        (journal, ends)
    }

    #[test]
    fn groups_come_back_as_they_were_written_and_only_behind_the_end_of_the_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut journal, [first, second]) = filled(dir.path());
        let counters = || vec![("calls".to_owned(), "3:500".to_owned(), 9)];
        let groups = journal.batches_after(ChainHead::EMPTY).expect("groups");
        let rows = entries;
        let wanted = [
            RedoBatch { head: first, rows: rows(&["a", "b"]), counters: counters() },
            RedoBatch { head: second, rows: rows(&["c"]), counters: counters() },
        ];
        assert_eq!(groups, wanted);
        assert_eq!(journal.batches_after(second).expect("groups"), [], "the log has them");
        journal.reset();
        assert_eq!(journal.batches_after(ChainHead::EMPTY).expect("groups"), [], "they were committed");
    }

    #[test]
    fn a_group_that_was_cut_off_or_changed_is_none_and_those_before_it_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, [first, _]) = filled(dir.path());
        let ends = |journal: &RedoLog| -> Vec<ChainHead> {
            journal.batches_after(ChainHead::EMPTY).expect("groups").iter().map(|group| group.head).collect()
        };
        let mut last = [0];
        journal.file.read_exact_at(&mut last, journal.write_offset - 1).expect("a byte");
        journal.file.write_all_at(&[last[0] ^ 1], journal.write_offset - 1).expect("changed");
        assert_eq!(ends(&journal), [first]);
        journal.file.set_len(journal.write_offset - 1).expect("cut");
        assert_eq!(ends(&journal), [first]);
        journal.file.set_len(HEADER_BYTES as u64 + 3).expect("cut");
        assert_eq!(ends(&journal), []);
    }

    #[test]
    fn a_journal_that_was_damaged_before_whole_groups_is_kept_for_somebody_to_look_at() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, [first, _]) = filled(dir.path());
        let lost = dir.path().join("ledger.journal.lost");
        let len = |journal: &RedoLog| journal.batches_after(ChainHead::EMPTY).expect("groups").len();
        assert_eq!(len(&journal), 2);
        journal.file.write_all_at(b"!", journal.write_offset - 1).expect("changed");
        assert_eq!((len(&journal), lost.exists()), (1, false), "the last one may have been cut off");
        journal.file.write_all_at(b"!", HEADER_BYTES as u64 + 20).expect("changed");
        assert_eq!((len(&journal), lost.exists()), (0, false), "nor is anything whole");
        let (journal, _) = filled(dir.path());
        journal.file.write_all_at(b"!", HEADER_BYTES as u64 + 20).expect("changed");
        assert_eq!((len(&journal), lost.exists()), (0, true), "the second does not follow");
        assert_eq!(journal.batches_after(first).expect("groups"), [], "what the log has is not looked at");
    }

    #[test]
    fn a_journal_of_another_build_is_not_taken_for_an_empty_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, _) = filled(dir.path());
        journal.file.write_all_at(b"GLJ9", 0).expect("changed");
        let fault = journal.batches_after(ChainHead::EMPTY).expect_err("not understood");
        assert!(fault.to_string().contains("no journal of this build"), "{fault}");
    }
}
