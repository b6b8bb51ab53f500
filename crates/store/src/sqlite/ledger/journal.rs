//! `ledger.journal`: groups that were answered before their transaction is committed. A killed process leaves them here,
//! and whoever opens the ledger next puts them into the database.
//!
//! Only who holds the database's write lock writes it. It begins anew with each transaction, over what the one before
//! left. What was cut off is told by its checksum, and what the database has by its numbers.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::job::Entry;
use crate::chain::{Hash, Head};
use crate::counter::Counter;
use crate::sqlite::file::DbFile;

const ENDING: &str = "journal";
/// What each group begins with.
const MAGIC: &[u8; 4] = b"GLJ1";
/// Magic, checksum, length.
const HEAD: usize = 12;
/// The most that is read of it; far more than is ever held.
const MOST: u64 = 32 << 20;
/// How long to wait for one that is alone with the ledger: it lets go when it commits, many times a second.
const WAIT: Duration = Duration::from_millis(1_000);
const STEP: Duration = Duration::from_millis(1);
/// How long others are taken to be there that were there.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The file, and who else has the ledger open by its lock.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Where the next group goes.
    place: u64,
    text: Vec<u8>,
    standing: Standing,
    /// When somebody else was last seen.
    company_at: Option<Instant>,
}

/// What is known of others that have the ledger open. Limits hold by the database's own lock; this one tells whether it
/// may be kept for a while, and that a journal that is found belongs to nobody any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nothing: somebody is alone with it and does not let go.
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
    pub end: Head,
    pub rows: Vec<(i64, String)>,
    /// Counters that it changed: key, state, and the second from which on nothing of it counts.
    pub counters: Vec<(String, String, i64)>,
}

impl Journal {
    pub fn open(database: &DbFile) -> io::Result<Self> {
        let path = database.path().with_extension(ENDING);
        let is_new = !path.exists();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        if let Some(folder) = path.parent().filter(|_| is_new) {
            // Else a power cut might take the name, and with it what is in the file.
            File::open(folder)?.sync_all()?;
        }
        let standing = Standing::Outside;
        Ok(Self { path, file, place: 0, text: Vec::new(), standing, company_at: None })
    }

    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Takes a place among those who have the ledger open. True if it had none before: then what is in the journal was
    /// left by somebody who is no more. While somebody is alone with it, it waits, for so long at most.
    pub fn enter(&mut self) -> bool {
        if self.standing != Standing::Outside {
            return false;
        }
        let since = Instant::now();
        while self.file.try_lock_shared().is_err() {
            if since.elapsed() >= WAIT {
                return false;
            }
            thread::sleep(STEP);
        }
        self.standing = Standing::Among;
        true
    }

    /// Whether it has a place among them.
    pub fn is_inside(&self) -> bool {
        self.standing != Standing::Outside
    }

    /// Whether nobody else has the ledger open. Then nobody enters until [`Journal::begin_anew`].
    pub fn is_alone(&mut self) -> bool {
        let had_company = self.company_at.is_some_and(|at| at.elapsed() < LOOK_AGAIN);
        if self.standing == Standing::Among && !had_company {
            if self.file.try_lock().is_ok() {
                self.standing = Standing::Alone;
            } else {
                // The lock that was there is lost with the try.
                self.standing = Standing::Outside;
                self.company_at = Some(Instant::now());
            }
        }
        self.standing == Standing::Alone
    }

    /// Everything in it is committed: it says no more, and others may enter.
    pub fn begin_anew(&mut self) {
        // Where this cannot be written, the numbers of the groups tell that the database has them.
        let _ = self.file.write_all_at(&[0; HEAD], 0);
        self.place = 0;
        if self.standing == Standing::Alone {
            self.standing = if self.file.lock_shared().is_ok() { Standing::Among } else { Standing::Outside };
        }
    }

    /// How much of it waits for the commit.
    pub fn bytes(&self) -> u64 {
        self.place
    }

    /// Writes it out to a length: a sync is quicker where the file need not grow. Nothing in it may be wanted any more.
    pub fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length < bytes {
            let zeros = vec![0; usize::try_from(bytes - length).unwrap_or_default()];
            self.file.write_all_at(&zeros, length)?;
            self.file.sync_all()?;
        }
        Ok(())
    }

    /// Has it on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Whether it still has a name. What goes into one without is lost with this process.
    pub fn has_name(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }

    /// Writes a group behind those that wait for the same commit.
    pub fn append<'a>(
        &mut self,
        end: Head,
        rows: impl Iterator<Item = &'a Entry>,
        counters: impl Iterator<Item = (&'a str, &'a Counter)>,
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
            text.extend_from_slice(&counter.ends().to_le_bytes());
            push_text(text, key);
            push_text(text, &counter.to_text());
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
    pub fn groups_behind(&self, end: Head) -> io::Result<Vec<Written>> {
        let length = usize::try_from(self.file.metadata()?.len().min(MOST)).unwrap_or_default();
        let mut first = [0; 8];
        if length < HEAD + first.len() {
            return Ok(Vec::new());
        }
        self.file.read_exact_at(&mut first, HEAD as u64)?;
        if u64::from_le_bytes(first) <= end.seq {
            return Ok(Vec::new());
        }
        let mut text = vec![0; length];
        self.file.read_exact_at(&mut text, 0)?;
        let (mut groups, mut rest) = (Vec::new(), text.as_slice());
        while let Some((group, behind)) = next_group(rest) {
            groups.push(group);
            rest = behind;
        }
        Ok(groups)
    }
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
    let end = Head { seq: u64::from_le_bytes(*seq), hash: Hash(*hash) };
    let mut written = Written { end, rows: Vec::new(), counters: Vec::new() };
    while let Some((kind, one)) = rest.split_first() {
        let (number, one) = one.split_first_chunk()?;
        let number = i64::from_le_bytes(*number);
        let (text, one) = next_text(one)?;
        rest = match kind {
            b'r' => {
                written.rows.push((number, text));
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
    fn filled(dir: &std::path::Path) -> (Journal, [Head; 2]) {
        let mut journal = Journal::open(&DbFile::create(dir, "ledger.db").expect("a file")).expect("a journal");
        let counter = Counter::of_text("3:500", 9).expect("a counter");
        let groups = [entries(&["a", "b"]), entries(&["c"])];
        let mut end = Head::EMPTY;
        let ends = groups.map(|rows| {
            end = rows.iter().fold(end, |end, row| end.followed_by(row.at, &row.body));
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
        let groups = journal.groups_behind(Head::EMPTY).expect("groups");
        let rows = |bodies: &[&str]| bodies.iter().map(|body| (7, (*body).to_owned())).collect();
        let wanted = [
            Written { end: first, rows: rows(&["a", "b"]), counters: counters() },
            Written { end: second, rows: rows(&["c"]), counters: counters() },
        ];
        assert_eq!(groups, wanted);
        assert_eq!(journal.groups_behind(second).expect("groups"), [], "the log has them");
        journal.begin_anew();
        assert_eq!(journal.groups_behind(Head::EMPTY).expect("groups"), [], "they were committed");
    }

    #[test]
    fn a_group_that_was_cut_off_or_changed_is_none_and_those_before_it_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, [first, _]) = filled(dir.path());
        let ends = |journal: &Journal| -> Vec<Head> {
            journal.groups_behind(Head::EMPTY).expect("groups").iter().map(|group| group.end).collect()
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
}
