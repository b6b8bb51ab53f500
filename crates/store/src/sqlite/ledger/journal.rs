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

use super::job::Entry;
use crate::counter::CounterState;
use crate::hash_chain::{ChainHead, RowHash};
use crate::sqlite::chain_head_file;
use crate::sqlite::db_file::DbFile;

const ENDING: &str = "journal";
/// A journal of which not everything follows the log. It stays until somebody has looked and removes it.
const LOST: &str = "journal.lost";
/// What each group begins with.
const MAGIC: &[u8; 4] = b"GLJ1";
/// Magic, checksum, length.
const HEAD: usize = 12;
/// The longest that is read; twice what is ever held.
const MOST: u64 = 32 << 20;
/// How long to wait for one that is alone with the ledger: it lets go when it commits, many times a second.
const WAIT: Duration = Duration::from_millis(900);
const STEP: Duration = Duration::from_millis(1);
/// How long others are taken to be there that were there, or not to let go who did not.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The file, and who else has the ledger open by its lock.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Held by who wants to enter, so that nobody becomes alone meanwhile. It is the head's file: a lock on a file whose
    /// bytes are of no concern here.
    turnstile: File,
    /// Where the next group goes.
    place: u64,
    text: Vec<u8>,
    standing: Standing,
    /// Whether what is in it was looked at since it took its place among others.
    is_known: bool,
    /// When somebody else was last seen, and when it last could not enter.
    company_at: Option<Instant>,
    turned_away_at: Option<Instant>,
}

/// What is known of others that have the ledger open. Limits hold by the database's own lock; this one only tells whether
/// that may be kept for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nothing: somebody is alone with it and does not let go, or files cannot be locked here.
    Outside,
    /// Nobody is alone with it.
    Among,
    /// We are.
    Alone,
}

/// A group as it was written down.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// The end of the log behind it.
    pub end: ChainHead,
    pub rows: Vec<Entry>,
    /// Counters that it changed: key, state, and the second from which on nothing of it counts.
    pub counters: Vec<(String, String, i64)>,
}

impl Journal {
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
            turnstile,
            place: 0,
            text: Vec::new(),
            standing: Standing::Outside,
            is_known: false,
            company_at: None,
            turned_away_at: None,
        })
    }

    /// Where the journal of a database is.
    pub fn path_of(database: &DbFile) -> PathBuf {
        database.path().with_extension(ENDING)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a place among those who have the ledger open. While somebody is alone with it, it waits, for so long at most.
    pub fn enter(&mut self) {
        if self.standing != Standing::Outside {
            return;
        }
        let wait = if is_recent(self.turned_away_at) { Duration::ZERO } else { WAIT };
        let (since, mut has_turnstile) = (Instant::now(), false);
        loop {
            has_turnstile = has_turnstile || self.turnstile.try_lock().is_ok();
            match self.file.try_lock_shared() {
                Ok(()) => {
                    (self.standing, self.is_known, self.turned_away_at) = (Standing::Among, false, None);
                    break;
                }
                Err(TryLockError::WouldBlock) if since.elapsed() < wait => thread::sleep(STEP),
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {
                    self.turned_away_at = Some(Instant::now());
                    break;
                }
            }
        }
        if has_turnstile {
            let _ = self.turnstile.unlock();
        }
    }

    /// Whether it has a place among them, and has been looked at since.
    pub fn is_settled(&self) -> bool {
        self.standing != Standing::Outside && self.is_known
    }

    /// Whether it has a place among them.
    pub fn is_inside(&self) -> bool {
        self.standing != Standing::Outside
    }

    /// Notes that nothing in it is wanted any more.
    pub fn note_known(&mut self) {
        self.is_known = true;
    }

    /// Whether nobody else has the ledger open. Then nobody enters until [`Journal::begin_anew`].
    pub fn is_alone(&mut self) -> bool {
        if self.standing != Standing::Among || is_recent(self.company_at) {
            return self.standing == Standing::Alone;
        }
        if self.turnstile.try_lock().is_err() {
            self.company_at = Some(Instant::now());
            return false;
        }
        let is_alone = self.file.try_lock().is_ok();
        let _ = self.turnstile.unlock();
        if is_alone {
            self.standing = Standing::Alone;
        } else {
            // The lock that was there is lost with the try.
            self.standing = Standing::Outside;
            self.company_at = Some(Instant::now());
        }
        is_alone
    }

    /// Everything in it is committed: it says no more, and others may enter.
    pub fn begin_anew(&mut self) {
        self.place = 0;
        if self.standing == Standing::Outside {
            // Somebody may be writing to it. The numbers of the groups tell that the database has them.
            return;
        }
        let _ = self.file.write_all_at(&[0; HEAD], 0);
        if self.standing == Standing::Alone {
            self.standing = if self.file.lock_shared().is_ok() { Standing::Among } else { Standing::Outside };
        }
    }

    /// How much of it waits for the commit.
    pub fn bytes(&self) -> u64 {
        self.place
    }

    /// Has it on the disk, with its name, and written out to a length: a sync is quicker where the file need not grow.
    /// Where that cannot be done, a sync is slower.
    pub fn make_room(&mut self, bytes: u64) {
        let make = || -> io::Result<()> {
            let length = self.file.metadata()?.len();
            if length < bytes {
                let zeros = vec![0; usize::try_from(bytes - length).unwrap_or_default()];
                self.file.write_all_at(&zeros, length)?;
            }
            self.file.sync_all()
        };
        // With others about, one of them may be writing to it.
        if self.is_inside() {
            let _ = make();
        }
    }

    /// Has its name on the disk.
    pub fn sync_name(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    /// Has the last group on the disk, or takes it back: what is refused must not come back.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data().inspect_err(|_| {
            let start = self.place.saturating_sub(self.text.len() as u64);
            if self.file.write_all_at(&[0; HEAD], start).is_ok() {
                self.place = start;
            }
        })
    }

    /// Whether it is still the file at its path. What goes into another one nobody finds.
    pub fn is_in_place(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata().map(identity);
        fs::metadata(&self.path).map(identity).is_ok_and(|at_path| own.is_ok_and(|own| own == at_path))
    }

    /// Keeps a copy of it apart, for somebody to look at.
    // The first one tells most.
    pub fn set_aside(&self) -> io::Result<()> {
        let aside = self.path.with_extension(LOST);
        if aside.exists() { Ok(()) } else { fs::copy(&self.path, aside).map(drop) }
    }

    /// Writes a group behind those that wait for the same commit.
    pub fn append<'a>(
        &mut self,
        end: ChainHead,
        rows: impl Iterator<Item = &'a Entry>,
        counters: impl Iterator<Item = (&'a str, &'a CounterState)>,
    ) -> io::Result<()> {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(&[0; HEAD]);
        text.extend_from_slice(&end.seq.to_le_bytes());
        text.extend_from_slice(&end.hash.0);
        for Entry { at, body } in rows {
            text.push(b'r');
            text.extend_from_slice(&at.to_le_bytes());
            push_text(text, body);
        }
        for (key, counter) in counters {
            text.push(b'c');
            text.extend_from_slice(&counter.expiry_second().to_le_bytes());
            push_text(text, key);
            push_text(text, &counter.encode());
        }
        let (head, rest) = text.split_at_mut(HEAD);
        let (magic, sum_and_length) = head.split_at_mut(4);
        magic.copy_from_slice(MAGIC);
        let (sum, length) = sum_and_length.split_at_mut(4);
        sum.copy_from_slice(&crc32fast::hash(rest).to_le_bytes());
        length.copy_from_slice(&length_of(rest).to_le_bytes());
        self.file.write_all_at(text, self.place)?;
        self.place += text.len() as u64;
        Ok(())
    }

    /// The groups in it, from the first to the last that is whole, if they are behind an end. All of one journal were to
    /// be committed together, so either all are or none.
    ///
    /// # Errors
    /// It cannot be read, or is none of this build's.
    pub fn groups_behind(&self, end: ChainHead) -> io::Result<Vec<Written>> {
        let length = self.file.metadata()?.len();
        let mut begins = [0; HEAD + 8];
        if length < begins.len() as u64 {
            return Ok(Vec::new());
        }
        self.file.read_exact_at(&mut begins, 0)?;
        if begins.starts_with(&[0; 4]) {
            return Ok(Vec::new());
        }
        if !begins.starts_with(MAGIC) || length > MOST {
            return Err(io::Error::other("it is no journal of this build; set it aside by hand"));
        }
        let (_, first) = begins.split_at(HEAD);
        if first.try_into().is_ok_and(|first| u64::from_le_bytes(first) <= end.seq) {
            return Ok(Vec::new());
        }
        let mut text = vec![0; usize::try_from(length).unwrap_or_default()];
        self.file.read_exact_at(&mut text, 0)?;
        let (mut groups, mut rest) = (Vec::new(), text.as_slice());
        while let Some((group, behind)) = next_group(rest) {
            groups.push(group);
            rest = behind;
        }
        // What was cut off in the middle of its writing has nothing behind it but what an earlier transaction left.
        let last = groups.last().map_or(end.seq, |group: &Written| group.end.seq);
        if is_behind(rest, last) {
            self.set_aside()?;
        }
        Ok(groups)
    }
}

fn is_recent(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < LOOK_AGAIN)
}

// A row is bounded far below what the length can hold; a longer text fails its checksum and is not taken.
fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn push_text(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(&length_of(text.as_bytes()).to_le_bytes());
    to.extend_from_slice(text.as_bytes());
}

/// The group that a text begins with, and what is behind it; none where it begins with no whole one.
fn next_group(text: &[u8]) -> Option<(Written, &[u8])> {
    let rest = text.strip_prefix(MAGIC)?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (group, behind) = rest.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
    (crc32fast::hash(group) == u32::from_le_bytes(*sum)).then_some(())?;
    let (seq, rest) = group.split_first_chunk()?;
    let (hash, mut rest) = rest.split_first_chunk()?;
    let end = ChainHead { seq: u64::from_le_bytes(*seq), hash: RowHash(*hash) };
    let mut written = Written { end, rows: Vec::new(), counters: Vec::new() };
    while let Some((kind, one)) = rest.split_first() {
        let (number, one) = one.split_first_chunk()?;
        let number = i64::from_le_bytes(*number);
        let (text, one) = next_text(one)?;
        rest = match kind {
            b'r' => {
                written.rows.push(Entry { at: number, body: text });
                one
            }
            b'c' => {
                let (state, one) = next_text(one)?;
                written.counters.push((text, state, number));
                one
            }
            _ => return None,
        };
    }
    Some((written, behind))
}

/// Whether a whole group of later rows stands somewhere in a text: something before it was damaged.
fn is_behind(text: &[u8], last: u64) -> bool {
    let starts = (0..text.len()).filter(|start| text.get(*start..).is_some_and(|rest| rest.starts_with(MAGIC)));
    let mut groups = starts.filter_map(|start| next_group(text.get(start..)?));
    groups.any(|(group, _)| group.end.seq > last)
}

fn next_text(from: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = from.split_first_chunk()?;
    let (text, behind) = rest.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
    Some((String::from_utf8(text.to_vec()).ok()?, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(bodies: &[&str]) -> Vec<Entry> {
        bodies.iter().map(|body| Entry { at: 7, body: (*body).to_owned() }).collect()
    }

    /// A journal with two groups, and the end of the log behind each.
    fn filled(dir: &Path) -> (Journal, [ChainHead; 2]) {
        fs::write(dir.join("ledger.head"), "").expect("a head");
        let mut journal = Journal::open(&DbFile::create(dir, "ledger.db").expect("a file")).expect("a journal");
        journal.enter();
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
        let groups = journal.groups_behind(ChainHead::EMPTY).expect("groups");
        let rows = entries;
        let wanted = [
            Written { end: first, rows: rows(&["a", "b"]), counters: counters() },
            Written { end: second, rows: rows(&["c"]), counters: counters() },
        ];
        assert_eq!(groups, wanted);
        assert_eq!(journal.groups_behind(second).expect("groups"), [], "the log has them");
        journal.begin_anew();
        assert_eq!(journal.groups_behind(ChainHead::EMPTY).expect("groups"), [], "they were committed");
    }

    #[test]
    fn a_group_that_was_cut_off_or_changed_is_none_and_those_before_it_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, [first, _]) = filled(dir.path());
        let ends = |journal: &Journal| -> Vec<ChainHead> {
            journal.groups_behind(ChainHead::EMPTY).expect("groups").iter().map(|group| group.end).collect()
        };
        let mut last = [0];
        journal.file.read_exact_at(&mut last, journal.place - 1).expect("a byte");
        journal.file.write_all_at(&[last[0] ^ 1], journal.place - 1).expect("changed");
        assert_eq!(ends(&journal), [first]);
        journal.file.set_len(journal.place - 1).expect("cut");
        assert_eq!(ends(&journal), [first]);
        journal.file.set_len(HEAD as u64 + 3).expect("cut");
        assert_eq!(ends(&journal), []);
    }

    #[test]
    fn a_journal_that_was_damaged_before_whole_groups_is_kept_for_somebody_to_look_at() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, [first, _]) = filled(dir.path());
        let lost = dir.path().join("ledger.journal.lost");
        let len = |journal: &Journal| journal.groups_behind(ChainHead::EMPTY).expect("groups").len();
        assert_eq!(len(&journal), 2);
        journal.file.write_all_at(b"!", journal.place - 1).expect("changed");
        assert_eq!((len(&journal), lost.exists()), (1, false), "the last one may have been cut off");
        journal.file.write_all_at(b"!", HEAD as u64 + 20).expect("changed");
        assert_eq!((len(&journal), lost.exists()), (0, false), "nor is anything whole");
        let (journal, _) = filled(dir.path());
        journal.file.write_all_at(b"!", HEAD as u64 + 20).expect("changed");
        assert_eq!((len(&journal), lost.exists()), (0, true), "the second does not follow");
        assert_eq!(journal.groups_behind(first).expect("groups"), [], "what the log has is not looked at");
    }

    #[test]
    fn a_journal_of_another_build_is_not_taken_for_an_empty_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, _) = filled(dir.path());
        journal.file.write_all_at(b"GLJ9", 0).expect("changed");
        let fault = journal.groups_behind(ChainHead::EMPTY).expect_err("not understood");
        assert!(fault.to_string().contains("no journal of this build"), "{fault}");
    }
}
