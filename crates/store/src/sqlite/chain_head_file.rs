//! `ledger.head` and `state.head`: a log's chain head in a separate file, so that a truncation of the log can be
//! detected.
//!
//! A head is written after its row is committed, never before. After a crash in between, the head is older than the
//! log, which is valid; it is never newer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};

use super::db_file::DbFile;
use super::{log_table_reader, to_open_error};
use crate::audit_chain::ChainHead;
use crate::model::{OpenStoreError, StoreError};

/// Extension of the head file, used in place of the `db` extension of the database.
pub(super) const EXTENSION: &str = "head";
/// Extension of the file in which a head is saved if the log no longer contains its row. The file stays until an
/// operator removes it.
const MISMATCH_EXTENSION: &str = "head.lost";
/// Extension of the marker which shows that a log with rows had no head file. It also stays until an operator removes
/// it.
const MISSING_EXTENSION: &str = "head.missed";
/// Length of the longest possible head. Shorter ones are padded, so that overwriting leaves nothing of the previous
/// head.
const HEAD_TEXT_WIDTH: usize = 20 + 1 + 64;

/// How long a successful check of the directory stays valid.
const DIRECTORY_RECHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The log table that a head belongs to.
#[derive(Clone, Copy)]
pub(super) struct LogTable {
    /// Name of the table.
    pub table: &'static str,
    /// Reads the anchor, which is the last pruned row.
    pub anchor: fn(&Connection) -> rusqlite::Result<ChainHead>,
}

/// An error for a head file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot open `{path}`: {source}")]
pub(super) struct ChainHeadFileError {
    pub path: PathBuf,
    pub source: io::Error,
}

impl From<ChainHeadFileError> for StoreError {
    fn from(error: ChainHeadFileError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// The head file, open for writing in place.
pub(super) struct ChainHeadFile {
    path: PathBuf,
    file: File,
    /// When the path was last found to be writable.
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

    /// Checks at intervals that the directory is still writable. Open files stay writable long after the directory has
    /// become read-only, but what is written to them may then be lost.
    pub fn check_directory(&mut self) -> Result<(), ChainHeadFileError> {
        if self.checked_at.elapsed() < DIRECTORY_RECHECK_INTERVAL {
            return Ok(());
        }
        // Not the database itself: closing a second handle would drop the locks of this process.
        match create(&self.path) {
            Ok(_) => self.checked_at = Instant::now(),
            Err(source) => return Err(ChainHeadFileError { path: self.path.clone(), source }),
        }
        Ok(())
    }

    /// Overwrites the head.
    pub fn write(&mut self, head: ChainHead) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            self.file = create(&self.path)?;
        }
        self.file.write_all_at(pad_head(head).as_bytes(), 0)
    }
}

/// Compares the log with the head file, then sets the head file to the end of the log. If the log does not contain the
/// head, a copy of the head is saved; if there is no head file, a marker is written.
pub(super) fn reconcile(db: &Connection, database: &DbFile, log: LogTable) -> Result<(), OpenStoreError> {
    let path = database.path().with_extension(EXTENSION);
    let failed = |source| OpenStoreError::File { path: path.clone(), source };
    let unread = |source| to_open_error(database.path(), source);
    // Read the head before the log: in the meantime the log can only grow.
    let text = read_text(&path).map_err(failed)?;
    if !text.is_empty() && log_has_head(db, &text, log).map_err(unread)? {
        return Ok(());
    }
    if !text.is_empty() {
        save_copy(database, MISMATCH_EXTENSION, &text).map_err(failed)?;
    }
    let end = chain_head(db, log).map_err(unread)?;
    // Checked last: a process that writes rows creates the head file first.
    if end.seq > 0 && !path.exists() {
        save_copy(database, MISSING_EXTENSION, &end.to_string()).map_err(failed)?;
    }
    write_initial(db, database, log)
}

/// Sets the head file to the end of the log.
pub(super) fn write_initial(db: &Connection, database: &DbFile, log: LogTable) -> Result<(), OpenStoreError> {
    let path = database.path().with_extension(EXTENSION);
    let end = chain_head(db, log).map_err(|source| to_open_error(database.path(), source))?;
    let written = create(&path).and_then(|file| file.write_all_at(pad_head(end).as_bytes(), 0));
    written.map_err(|source| OpenStoreError::File { path, source })
}

/// Saves a copy of the head if the log does not contain its row, so that overwriting it does not hide a truncation.
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

/// Returns the heads stored next to a log: the current one, and a saved one if there is any.
pub(super) fn read_heads(database: &DbFile) -> Result<Vec<ChainHead>, StoreError> {
    let mut heads = Vec::new();
    for name in [EXTENSION, MISMATCH_EXTENSION] {
        let path = database.path().with_extension(name);
        let failed = |error: io::Error| StoreError::Unavailable(format!("cannot read `{}`: {error}", path.display()));
        let text = read_text(&path).map_err(failed)?;
        if !text.is_empty() {
            let head = text.parse();
            heads.push(
                head.map_err(|_| StoreError::Corrupt(format!("`{}` does not contain a chain head", path.display())))?,
            );
        }
    }
    Ok(heads)
}

/// Returns the marker which shows that a log with rows had no head file, if it exists.
pub(super) fn missing_marker(database: &DbFile) -> Option<PathBuf> {
    Some(database.path().with_extension(MISSING_EXTENSION)).filter(|path| path.exists())
}

/// Returns the number of rows recorded in a database's head file; 0 if the file is missing or unreadable.
pub(super) fn recorded_row_count(database: &Path) -> u64 {
    let text = read_text(&database.with_extension(EXTENSION)).unwrap_or_default();
    text.parse::<ChainHead>().map_or(0, |head| head.seq)
}

/// Returns the head of the chain.
pub(super) fn chain_head(db: &Connection, log: LogTable) -> rusqlite::Result<ChainHead> {
    let anchor = (log.anchor)(db)?;
    Ok(log_table_reader::last_head(db, log.table)?.filter(|last| last.seq > anchor.seq).unwrap_or(anchor))
}

/// Returns whether `text` is a chain head that the log contains. Heads of pruned rows count as contained.
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

// The first saved copy is the most useful; later ones are consequences of it.
fn save_copy(database: &DbFile, name: &str, text: &str) -> io::Result<()> {
    let copy = database.path().with_extension(name);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(copy) {
        Ok(mut file) => writeln!(file, "{text}"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Returns the content of the file; empty if the file does not exist. After a power failure, data that was not synced
/// may read as zeros.
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
