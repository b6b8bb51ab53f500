//! A database file: creates it so that only its owner has access, and detects when it has been replaced.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::chain_head_file;
use crate::model::{OpenStoreError, StoreError};

/// How long a statement waits for a lock that another process holds. Two such waits together are shorter than a call's
/// timeout.
const BUSY_TIMEOUT: Duration = Duration::from_millis(900);
/// Interval between attempts while the database is busy. SQLite's own intervals grow to 100 ms, so another process that
/// writes often could starve this one.
const BUSY_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The path of a database, and the identity of the file when it was opened.
#[derive(Debug, Clone)]
pub(super) struct DbFile {
    path: PathBuf,
    identity: FileIdentity,
}

/// Identity of a file: device and inode.
type FileIdentity = (u64, u64);

impl DbFile {
    /// Finds the database in a directory, creating the directory and the database if necessary.
    pub fn create(dir: &Path, name: &str) -> Result<Self, OpenStoreError> {
        let dir = std::path::absolute(dir).map_err(|source| OpenStoreError::File { path: dir.into(), source })?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.map_err(|source| OpenStoreError::File { path: dir.clone(), source })?;
        let path = dir.join(name);
        refuse_lost_database(&path)?;
        // Opened only to create it: closing a second handle would drop the locks of this process.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(OpenStoreError::File { path, source }),
        }
        Self::identify(path)
    }

    /// Finds an existing database in a directory.
    pub fn open_existing(dir: &Path, name: &str) -> Result<Self, OpenStoreError> {
        let dir = std::path::absolute(dir).map_err(|source| OpenStoreError::File { path: dir.into(), source })?;
        let path = dir.join(name);
        refuse_lost_database(&path)?;
        Self::identify(path)
    }

    fn identify(path: PathBuf) -> Result<Self, OpenStoreError> {
        match fs::metadata(&path) {
            Ok(metadata) => Ok(Self { identity: identity(&metadata), path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(OpenStoreError::Missing { database: path.display().to_string() })
            }
            Err(source) => Err(OpenStoreError::File { path, source }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path with a suffix appended.
    pub fn sibling_path(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    /// Checks that the path still refers to the file that was opened. A ledger that was removed or replaced must not be
    /// mistaken for an unused one.
    pub fn check_identity(&self) -> Result<(), StoreError> {
        let path = self.path.display();
        match fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == self.identity => Ok(()),
            Ok(_) => Err(StoreError::Unavailable(format!("`{path}` was replaced by another file since it was opened"))),
            Err(error) => Err(StoreError::Unavailable(format!("cannot access `{path}`: {error}"))),
        }
    }

    /// Opens a connection. Does not create a missing file.
    pub fn connect(&self) -> rusqlite::Result<Connection> {
        self.connect_with_wait_flag(Arc::new(AtomicBool::new(true)))
    }

    /// Like [`connect`](Self::connect), but statements wait for other processes only while `may_wait` is set.
    pub fn connect_with_wait_flag(&self, may_wait: Arc<AtomicBool>) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        let mut since = Instant::now();
        connection.busy_handler(Some(move |tries| {
            if !may_wait.load(Ordering::Relaxed) {
                return false;
            }
            if tries == 0 {
                since = Instant::now();
            }
            thread::sleep(BUSY_POLL_INTERVAL);
            since.elapsed() < BUSY_TIMEOUT
        }))?;
        connection.set_prepared_statement_cache_capacity(32);
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(connection)
    }

    /// Opens a read-only connection.
    pub fn connect_read_only(&self) -> Result<Connection, StoreError> {
        self.check_identity()?;
        let connection = self.connect()?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }
}

/// Refuses a missing or empty database whose head file records rows.
fn refuse_lost_database(path: &Path) -> Result<(), OpenStoreError> {
    // A database that is being created is empty too, but its head file is created later.
    let is_empty = match fs::metadata(path) {
        Ok(metadata) => metadata.len() == 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(_) => false,
    };
    match chain_head_file::recorded_row_count(path) {
        rows @ 1.. if is_empty => {
            Err(OpenStoreError::Lost { path: path.into(), head: path.with_extension(chain_head_file::EXTENSION), rows })
        }
        _ => Ok(()),
    }
}

fn identity(metadata: &Metadata) -> FileIdentity {
    (metadata.dev(), metadata.ino())
}
