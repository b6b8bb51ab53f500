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
pub(super) const EXTENSION: &str = "head";
/// A head that the log no longer had. It stays until somebody has looked and removes it.
const MISMATCH_EXTENSION: &str = "head.lost";
/// Tells that a log with rows had no head beside it. It stays, too.
const MISSING_EXTENSION: &str = "head.missed";
/// The longest head; shorter ones are filled up, so that writing in place leaves nothing of the one before.
const HEAD_TEXT_WIDTH: usize = 20 + 1 + 64;

/// How long a directory is taken to be as it was.
const DIRECTORY_RECHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Which log of a database a head belongs to.
#[derive(Clone, Copy)]
pub(super) struct LogTable {
    /// The table.
    pub table: &'static str,
    /// The last row that was removed.
    pub anchor: fn(&Connection) -> rusqlite::Result<ChainHead>,
}

/// A file beside a database that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot open `{path}`: {source}")]
pub(super) struct ChainHeadFileError {
    pub path: PathBuf,
    pub source: io::Error,
}

impl From<ChainHeadFileError> for StoreError {
    fn from(fault: ChainHeadFileError) -> Self {
        Self::Unavailable(fault.to_string())
    }
}

/// The file, open to be written in place.
pub(super) struct ChainHeadFile {
    path: PathBuf,
    file: File,
    /// When its path was last seen to be writable.
    checked_at: Instant,
}

impl ChainHeadFile {
    pub fn open(database: &DbFile) -> Result<Self, ChainHeadFileError> {
        let path = database.path().with_extension(EXTENSION);
        match create(&path) {
            Ok(file) => Ok(Self { file, path, checked_at: Instant::now() }),
            Err(source) => Err(ChainHeadFileError { path, source }),
        }
    }

    /// Holds, now and then, that the directory can still be written to. Files that are open can be written long after
    /// the directory became read-only, but what is written then may never be seen again.
    pub fn check_directory(&mut self) -> Result<(), ChainHeadFileError> {
        if self.checked_at.elapsed() < DIRECTORY_RECHECK_INTERVAL {
            return Ok(());
        }
        // Not the database: closing a second handle to it would drop the locks of this process.
        match create(&self.path) {
            Ok(_) => self.checked_at = Instant::now(),
            Err(source) => return Err(ChainHeadFileError { path: self.path.clone(), source }),
        }
        Ok(())
    }

    /// Writes the head over the one before.
    pub fn write(&mut self, head: ChainHead) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            self.file = create(&self.path)?;
        }
        self.file.write_all_at(pad_head(head).as_bytes(), 0)
    }
}

/// Holds the log against the head that was kept. If the log lacks it, the head is set aside and not overwritten; if
/// there is none, that is noted, and the log's end is kept from now on.
pub(super) fn reconcile(db: &Connection, database: &DbFile, log: LogTable) -> Result<(), OpenStoreError> {
    let path = database.path().with_extension(EXTENSION);
    let failed = |source| OpenStoreError::File { path: path.clone(), source };
    let unread = |source| OpenStoreError::Open { path: database.path().into(), source };
    // The head is read before the log: meanwhile the log can only have become longer.
    let text = read_text(&path).map_err(failed)?;
    if !text.is_empty() && log_has_head(db, &text, log).map_err(unread)? {
        return Ok(());
    }
    if !text.is_empty() {
        save_copy(database, MISMATCH_EXTENSION, &text).map_err(failed)?;
    }
    let end = chain_head(db, log).map_err(unread)?;
    // Looked for last: whoever writes rows has made it before.
    if end.seq > 0 && !path.exists() {
        save_copy(database, MISSING_EXTENSION, &end.to_string()).map_err(failed)?;
    }
    write_initial(db, database, log)
}

/// Keeps the log's end from now on.
pub(super) fn write_initial(db: &Connection, database: &DbFile, log: LogTable) -> Result<(), OpenStoreError> {
    let path = database.path().with_extension(EXTENSION);
    let end = chain_head(db, log).map_err(|source| OpenStoreError::Open { path: database.path().into(), source })?;
    let written = create(&path).and_then(|file| file.write_all_at(pad_head(end).as_bytes(), 0));
    written.map_err(|source| OpenStoreError::File { path, source })
}

/// Sets the kept head aside if the log lacks its row, so that the next one does not overwrite what tells of a cut.
pub(super) fn preserve_if_mismatched<E>(db: &Connection, database: &DbFile, log: LogTable) -> Result<(), E>
where
    E: From<ChainHeadFileError> + From<rusqlite::Error>,
{
    let path = database.path().with_extension(EXTENSION);
    let failed = |source| ChainHeadFileError { path: path.clone(), source };
    let text = read_text(&path).map_err(failed)?;
    if !text.is_empty() && !log_has_head(db, &text, log)? {
        save_copy(database, MISMATCH_EXTENSION, &text).map_err(failed)?;
    }
    Ok(())
}

/// The heads that were kept beside a log: its own, and one that was set aside.
pub(super) fn read_heads(database: &DbFile) -> Result<Vec<ChainHead>, StoreError> {
    let mut heads = Vec::new();
    for name in [EXTENSION, MISMATCH_EXTENSION] {
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
pub(super) fn missing_marker(database: &DbFile) -> Option<PathBuf> {
    Some(database.path().with_extension(MISSING_EXTENSION)).filter(|path| path.exists())
}

/// How many rows a database had, by the head beside it; 0 where there is none or it tells nothing.
pub(super) fn recorded_row_count(database: &Path) -> u64 {
    let text = read_text(&database.with_extension(EXTENSION)).unwrap_or_default();
    text.parse::<ChainHead>().map_or(0, |head| head.seq)
}

/// The end of a log's chain.
pub(super) fn chain_head(db: &Connection, log: LogTable) -> rusqlite::Result<ChainHead> {
    let anchor = (log.anchor)(db)?;
    Ok(log_table::last_head(db, log.table)?.filter(|last| last.seq > anchor.seq).unwrap_or(anchor))
}

/// Whether a text is a head whose row the log has. Of removed rows nothing can be said.
fn log_has_head(db: &Connection, text: &str, log: LogTable) -> rusqlite::Result<bool> {
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
fn save_copy(database: &DbFile, name: &str, text: &str) -> io::Result<()> {
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

fn pad_head(head: ChainHead) -> String {
    format!("{:<HEAD_TEXT_WIDTH$}\n", head.to_string())
}
