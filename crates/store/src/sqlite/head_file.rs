//! `ledger.head` and `state.head`: the end of a log's chain, kept apart from it, so that a log that was cut off is noticed.
//!
//! A head is written after the commit of its row, never before: killed in between, it is behind its log and not ahead
//! of it. One that is behind holds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};

use super::db_file::DbFile;
use super::{OpenStoreError, log_table};
use crate::StoreError;
use crate::hash_chain::ChainHead;

/// What a head's file is called: its database's name with this in place of `db`.
pub(super) const NAME: &str = "head";
/// A head that the log no longer had. It stays until somebody has looked and removes it.
const LOST: &str = "head.lost";
/// Tells that a log with rows had no head beside it. It stays, too.
const MISSED: &str = "head.missed";
/// The longest head; shorter ones are filled up, so that writing in place leaves nothing of the one before.
const WIDTH: usize = 20 + 1 + 64;

/// How long a directory is taken to be as it was.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Which log of a database a head belongs to.
#[derive(Clone, Copy)]
pub(super) struct Log {
    /// The table.
    pub table: &'static str,
    /// The last row that was removed.
    pub anchor: fn(&Connection) -> rusqlite::Result<ChainHead>,
}

/// A file beside a database that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot open `{path}`: {source}")]
pub(super) struct HeadFault {
    pub path: PathBuf,
    pub source: io::Error,
}

impl From<HeadFault> for StoreError {
    fn from(fault: HeadFault) -> Self {
        Self::Unavailable(fault.to_string())
    }
}

/// The file, open to be written in place.
pub(super) struct HeadFile {
    path: PathBuf,
    file: File,
    /// When its path was last seen to be writable.
    seen_at: Instant,
}

impl HeadFile {
    pub fn open(database: &DbFile) -> Result<Self, HeadFault> {
        let path = database.path().with_extension(NAME);
        match create(&path) {
            Ok(file) => Ok(Self { file, path, seen_at: Instant::now() }),
            Err(source) => Err(HeadFault { path, source }),
        }
    }

    /// Holds, now and then, that the directory can still be written to. Files that are open can be written long after
    /// the directory became read-only, but what is written then may never be seen again.
    pub fn check(&mut self) -> Result<(), HeadFault> {
        if self.seen_at.elapsed() < LOOK_AGAIN {
            return Ok(());
        }
        // Not the database: closing a second handle to it would drop the locks of this process.
        match create(&self.path) {
            Ok(_) => self.seen_at = Instant::now(),
            Err(source) => return Err(HeadFault { path: self.path.clone(), source }),
        }
        Ok(())
    }

    /// Writes the head over the one before.
    pub fn write(&mut self, head: ChainHead) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            self.file = create(&self.path)?;
        }
        self.file.write_all_at(padded(head).as_bytes(), 0)
    }
}

/// Holds the log against the head that was kept. If the log lacks it, the head is set aside and not overwritten; if
/// there is none, that is noted, and the log's end is kept from now on.
pub(super) fn prepare(db: &Connection, database: &DbFile, log: Log) -> Result<(), OpenStoreError> {
    let path = database.path().with_extension(NAME);
    let failed = |source| OpenStoreError::File { path: path.clone(), source };
    let unread = |source| OpenStoreError::Open { path: database.path().into(), source };
    // The head is read before the log: meanwhile the log can only have become longer.
    let text = read_text(&path).map_err(failed)?;
    if !text.is_empty() && has_text(db, &text, log).map_err(unread)? {
        return Ok(());
    }
    if !text.is_empty() {
        set_aside(database, LOST, &text).map_err(failed)?;
    }
    let end = end(db, log).map_err(unread)?;
    // Looked for last: whoever writes rows has made it before.
    if end.seq > 0 && !path.exists() {
        set_aside(database, MISSED, &end.to_string()).map_err(failed)?;
    }
    begin(db, database, log)
}

/// Keeps the log's end from now on.
pub(super) fn begin(db: &Connection, database: &DbFile, log: Log) -> Result<(), OpenStoreError> {
    let path = database.path().with_extension(NAME);
    let end = end(db, log).map_err(|source| OpenStoreError::Open { path: database.path().into(), source })?;
    let written = create(&path).and_then(|file| file.write_all_at(padded(end).as_bytes(), 0));
    written.map_err(|source| OpenStoreError::File { path, source })
}

/// Sets the kept head aside if the log lacks its row, so that the next one does not overwrite what tells of a cut.
pub(super) fn hold<E>(db: &Connection, database: &DbFile, log: Log) -> Result<(), E>
where
    E: From<HeadFault> + From<rusqlite::Error>,
{
    let path = database.path().with_extension(NAME);
    let failed = |source| HeadFault { path: path.clone(), source };
    let text = read_text(&path).map_err(failed)?;
    if !text.is_empty() && !has_text(db, &text, log)? {
        set_aside(database, LOST, &text).map_err(failed)?;
    }
    Ok(())
}

/// The heads that were kept beside a log: its own, and one that was set aside.
pub(super) fn kept(database: &DbFile) -> Result<Vec<ChainHead>, StoreError> {
    let mut heads = Vec::new();
    for name in [NAME, LOST] {
        let path = database.path().with_extension(name);
        let failed = |error: io::Error| StoreError::Unavailable(format!("cannot read `{}`: {error}", path.display()));
        let text = read_text(&path).map_err(failed)?;
        if !text.is_empty() {
            let head = text.parse();
            heads.push(head.map_err(|_| StoreError::Corrupt(format!("`{}` holds no head", path.display())))?);
        }
    }
    Ok(heads)
}

/// The note that a log with rows had no head, if there is one.
pub(super) fn missed(database: &DbFile) -> Option<PathBuf> {
    Some(database.path().with_extension(MISSED)).filter(|path| path.exists())
}

/// How many rows a database had, by the head beside it; 0 where there is none or it tells nothing.
pub(super) fn rows(database: &Path) -> u64 {
    let text = read_text(&database.with_extension(NAME)).unwrap_or_default();
    text.parse::<ChainHead>().map_or(0, |head| head.seq)
}

/// The end of a log's chain.
pub(super) fn end(db: &Connection, log: Log) -> rusqlite::Result<ChainHead> {
    let anchor = (log.anchor)(db)?;
    Ok(log_table::last_head(db, log.table)?.filter(|last| last.seq > anchor.seq).unwrap_or(anchor))
}

/// Whether a text is a head whose row the log has. Of removed rows nothing can be said.
fn has_text(db: &Connection, text: &str, log: Log) -> rusqlite::Result<bool> {
    let Ok(head) = text.parse::<ChainHead>() else { return Ok(false) };
    let anchor = (log.anchor)(db)?;
    if head.seq <= anchor.seq {
        return Ok(head.seq < anchor.seq || head == anchor);
    }
    let mut select = db.prepare_cached(&format!("SELECT hash FROM {} WHERE seq = ?", log.table))?;
    let hash: Option<[u8; 32]> = select.query_row([head.seq], |row| row.get(0)).optional()?;
    Ok(hash == Some(head.hash.0))
}

// The first one that was lost tells most; later ones follow from it.
fn set_aside(database: &DbFile, name: &str, text: &str) -> io::Result<()> {
    let aside = database.path().with_extension(name);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside) {
        Ok(mut file) => writeln!(file, "{text}"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The file's text; nothing if there is none. A power cut may leave zeros of what was never synced.
fn read_text(path: &Path) -> io::Result<String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ', '\n']).to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn padded(head: ChainHead) -> String {
    format!("{:<WIDTH$}\n", head.to_string())
}
