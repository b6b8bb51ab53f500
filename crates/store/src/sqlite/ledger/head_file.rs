//! `ledger.head`: the end of the chain, kept apart from the log, so that a log that was cut off is noticed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};

use super::{LedgerFault, read};
use crate::StoreError;
use crate::chain::Head;
use crate::sqlite::OpenStoreError;
use crate::sqlite::file::DbFile;

const NAME: &str = "ledger.head";
/// A head that the log no longer had when it was opened. It stays until somebody has looked and removes it.
const LOST: &str = "ledger.head.lost";
/// The longest head; shorter ones are filled up, so that writing in place leaves nothing of the one before.
const WIDTH: usize = 20 + 1 + 64;

/// How long a directory is taken to be as it was.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The file, open to be written in place.
pub(super) struct HeadFile {
    path: PathBuf,
    file: File,
    /// When its path was last seen to be writable.
    seen_at: Instant,
}

impl HeadFile {
    pub fn open(ledger: &DbFile) -> Result<Self, LedgerFault> {
        let path = ledger.path().with_file_name(NAME);
        match create(&path) {
            Ok(file) => Ok(Self { file, path, seen_at: Instant::now() }),
            Err(source) => Err(LedgerFault::File { path, source }),
        }
    }

    /// Holds, now and then, that the directory can still be written to. Files that are open can be written long after
    /// the directory became read-only, but what is written then may never be seen again.
    pub fn check(&mut self) -> Result<(), LedgerFault> {
        if self.seen_at.elapsed() < LOOK_AGAIN {
            return Ok(());
        }
        // Not the database: closing a second handle to it would drop the locks of this process.
        match create(&self.path) {
            Ok(_) => self.seen_at = Instant::now(),
            Err(source) => return Err(LedgerFault::File { path: self.path.clone(), source }),
        }
        Ok(())
    }

    /// Writes the head over the one before.
    pub fn write(&mut self, head: Head) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            self.file = create(&self.path)?;
        }
        self.file.write_all_at(padded(head).as_bytes(), 0)
    }
}

/// Holds the log against the head that was kept. If the log lacks it, the head is set aside and not overwritten.
pub(super) fn prepare(db: &Connection, ledger: &DbFile) -> Result<(), OpenStoreError> {
    let path = ledger.path().with_file_name(NAME);
    let lost = ledger.path().with_file_name(LOST);
    let failed = |source| OpenStoreError::File { path: path.clone(), source };
    // The head is read before the log: meanwhile the log can only have become longer.
    let text = read_text(&path).map_err(failed)?;
    let kept = text.parse::<Head>().ok();
    let holds = match kept {
        Some(head) => has(db, head).map_err(|source| OpenStoreError::Open { path: ledger.path().into(), source })?,
        None => text.is_empty(),
    };
    if holds && kept.is_some() {
        return Ok(());
    }
    if !holds {
        set_aside(&lost, &text).map_err(failed)?;
    }
    let end = read::end(db).map_err(|source| OpenStoreError::Open { path: ledger.path().into(), source })?;
    let written = create(&path).and_then(|file| file.write_all_at(padded(end).as_bytes(), 0));
    written.map_err(failed)
}

/// The heads that were kept beside a log: its own, and one that was set aside.
pub(super) fn kept(ledger: &DbFile) -> Result<Vec<Head>, StoreError> {
    let mut heads = Vec::new();
    for name in [NAME, LOST] {
        let path = ledger.path().with_file_name(name);
        let failed = |error: io::Error| StoreError::Unavailable(format!("cannot read `{}`: {error}", path.display()));
        let text = read_text(&path).map_err(failed)?;
        if !text.is_empty() {
            let head = text.parse();
            heads.push(head.map_err(|_| StoreError::Corrupt(format!("`{}` holds no head", path.display())))?);
        }
    }
    Ok(heads)
}

/// Whether the log has the row of a head. Of removed rows nothing can be said.
fn has(db: &Connection, head: Head) -> rusqlite::Result<bool> {
    let anchor = read::anchor(db)?;
    if head.seq <= anchor.seq {
        return Ok(head.seq < anchor.seq || head == anchor);
    }
    let mut select = db.prepare_cached("SELECT hash FROM log WHERE seq = ?")?;
    let hash: Option<[u8; 32]> = select.query_row([head.seq], |row| row.get(0)).optional()?;
    Ok(hash == Some(head.hash.0))
}

// The first one that was lost tells most; later ones follow from it.
fn set_aside(lost: &Path, text: &str) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(lost) {
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

fn padded(head: Head) -> String {
    format!("{:<WIDTH$}\n", head.to_string())
}
