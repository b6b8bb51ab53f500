//! `state.db`: servers, policies, grants, sessions and the admin log. A change is on the disk before it is confirmed.

mod admin_log;
mod change_feed;
mod grants;
mod policies;
mod servers;
mod sessions;
mod task_owners;
mod tool_pins;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::Notify;

use super::chain_head_file::{self, ChainHeadFile, LogTable};
use super::db_file::DbFile;
use super::{migrate, to_open_error};
use crate::audit_chain::ChainHead;
use crate::model::{AdminLogEntry, OpenStoreError, ParseNameError, StoreError};

const FILE_NAME: &str = "state.db";
const MIGRATIONS: [&str; 8] = [
    include_str!("state_db/1.sql"),
    include_str!("state_db/2.sql"),
    include_str!("state_db/3.sql"),
    include_str!("state_db/4.sql"),
    include_str!("state_db/5.sql"),
    include_str!("state_db/6.sql"),
    include_str!("state_db/7.sql"),
    include_str!("state_db/8.sql"),
];
/// The schema version of builds that had no head file for the admin log.
const SCHEMA_WITHOUT_HEAD_FILE: usize = 1;
/// Page cache size of each connection: 512 KiB, negative because SQLite requires that for a size in KiB. No call waits
/// for this database; with SQLite's default of 2 MB, the rows of short-lived sessions would fill the cache.
const CACHE_SIZE_PRAGMA: i64 = -512;
/// The admin log table, which is never pruned.
const ADMIN_LOG_TABLE: LogTable = LogTable { table: "admin_log", anchor: |_| Ok(ChainHead::EMPTY) };

/// A gateway's state, in `state.db`.
#[derive(Debug)]
pub struct SqliteStateStore {
    database: Arc<StateDb>,
    /// Notified after each change by this process, so that `wait_for_change` need not wait until its next poll.
    changed: Notify,
}

#[derive(Debug)]
struct StateDb {
    file: DbFile,
    connection: Mutex<Connection>,
    /// Connection whose commits do not wait for the disk, so that a power failure may lose the latest ones. It is used
    /// for sessions and tasks, never for settings.
    relaxed: Mutex<Connection>,
}

impl SqliteStateStore {
    /// Opens the state in a directory. Creates missing files and upgrades an older schema.
    ///
    /// ```
    /// use gatelodge_store::{OpenStoreError, SqliteStateStore};
    ///
    /// let folder = tempfile::tempdir().expect("a directory");
    /// let _state = SqliteStateStore::open(folder.path())?;
    /// assert!(SqliteStateStore::exists(folder.path()));
    /// # Ok::<(), OpenStoreError>(())
    /// ```
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open(dir: &Path) -> Result<Self, OpenStoreError> {
        let file = DbFile::create(dir, FILE_NAME)?;
        Self::start(file.clone(), |connection, path| {
            if migrate::schema_version(connection, path, &MIGRATIONS)? == SCHEMA_WITHOUT_HEAD_FILE {
                chain_head_file::write_initial(connection, &file, ADMIN_LOG_TABLE)?;
            }
            migrate::migrate(connection, path, &MIGRATIONS)
        })
    }

    /// Opens an existing state without creating files or changing the schema, for use on the command line next to a
    /// running gateway.
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open_existing(dir: &Path) -> Result<Self, OpenStoreError> {
        Self::start(DbFile::open_existing(dir, FILE_NAME)?, |connection, path| {
            migrate::check_version(connection, path, &MIGRATIONS)
        })
    }

    /// Returns whether there is a state database in a directory.
    pub fn exists(dir: &Path) -> bool {
        dir.join(FILE_NAME).exists()
    }

    fn start(
        file: DbFile,
        prepare: impl FnOnce(&mut Connection, &Path) -> Result<(), OpenStoreError>,
    ) -> Result<Self, OpenStoreError> {
        let failed = |source| to_open_error(file.path(), source);
        let mut connection = file.connect().map_err(failed)?;
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        prepare(&mut connection, file.path())?;
        chain_head_file::reconcile(&connection, &file, ADMIN_LOG_TABLE)?;
        let relaxed = file.connect().map_err(failed)?;
        relaxed.pragma_update(None, "synchronous", "normal").map_err(failed)?;
        for own in [&connection, &relaxed] {
            own.pragma_update(None, "cache_size", CACHE_SIZE_PRAGMA).map_err(failed)?;
        }
        let open = StateDb { file, connection: Mutex::new(connection), relaxed: Mutex::new(relaxed) };
        Ok(Self { database: Arc::new(open), changed: Notify::new() })
    }

    /// Runs `work` with the connection, on a blocking thread.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_with_file(|_, connection| work(connection)).await
    }

    /// Like [`run`](Self::run), but also passes the database file.
    async fn run_with_file<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DbFile, &mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let open = Arc::clone(&self.database);
        let task = tokio::task::spawn_blocking(move || {
            open.file.check_identity()?;
            work(&open.file, &mut open.connection.lock().unwrap_or_else(PoisonError::into_inner))
        });
        task.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }

    /// Like [`run`](Self::run), but uses the connection whose commits do not wait for the disk.
    async fn run_relaxed<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let open = Arc::clone(&self.database);
        let task = tokio::task::spawn_blocking(move || {
            open.file.check_identity()?;
            work(&mut open.relaxed.lock().unwrap_or_else(PoisonError::into_inner))
        });
        task.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }

    /// Runs `work` in one transaction, then writes the head file of the admin log.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let write = self.run_with_file(move |file, connection| {
            // If the directory cannot take a head file, the change is refused before it is made.
            let mut head_file = ChainHeadFile::open(file)?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            chain_head_file::preserve_if_mismatched::<StoreError>(&transaction, file, ADMIN_LOG_TABLE)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            write_head(connection, &mut head_file);
            Ok(done)
        });
        write.await
    }

    /// Runs `work` in one transaction that also writes the entry and increments the version, then notifies the waiters.
    async fn change<T: Send + 'static>(
        &self,
        mut entry: AdminLogEntry,
        work: impl FnOnce(&Transaction<'_>, &mut AdminLogEntry) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.write(move |transaction| {
            let done = work(transaction, &mut entry)?;
            admin_log::write(transaction, &entry)?;
            transaction.execute("UPDATE version SET number = number + 1", [])?;
            Ok(done)
        });
        let done = done.await?;
        self.changed.notify_waiters();
        Ok(done)
    }
}

/// Writes the head file. Takes the lock once more, because without it two processes could write their heads in a
/// different order than their rows. On failure, the head file lags behind until the next change.
fn write_head(connection: &mut Connection, head_file: &mut ChainHeadFile) {
    if let Ok(locked) = connection.transaction_with_behavior(TransactionBehavior::Immediate)
        && let Ok(end) = chain_head_file::chain_head(&locked, ADMIN_LOG_TABLE)
    {
        let _ = head_file.write(end);
    }
}

/// Serializes a value for a JSON column.
fn to_json<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Parses a stored name. This program stores only valid names, so an invalid one is reported as corrupt data.
fn parse_name<T: std::str::FromStr<Err = ParseNameError>>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|error| StoreError::Corrupt(format!("invalid name `{text}`: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traits::AdminLog;

    fn entry() -> AdminLogEntry {
        let at = "2026-11-15T12:00:00Z".parse().expect("a time");
        AdminLogEntry {
            at,
            by: "ann".into(),
            action: "a.b".into(),
            subject: "c".into(),
            detail: serde_json::Value::Null,
        }
    }

    #[tokio::test]
    async fn a_head_is_written_under_the_lock_and_a_delayed_one_is_the_newest() {
        let dir = tempfile::tempdir().expect("a directory");
        let (slow, other) = (
            SqliteStateStore::open(dir.path()).expect("a state"),
            SqliteStateStore::open(dir.path()).expect("a state"),
        );
        let path = dir.path().join("state.head");
        slow.append(entry()).await.expect("kept");
        let mut head_file = ChainHeadFile::open(&slow.database.file).expect("a file");
        let mut write = || write_head(&mut slow.database.connection.lock().expect("a connection"), &mut head_file);
        std::fs::write(&path, "").expect("emptied");

        let foreign = Connection::open(dir.path().join(FILE_NAME)).expect("a database");
        foreign.execute_batch("BEGIN IMMEDIATE").expect("a lock");
        write();
        assert_eq!(std::fs::read_to_string(&path).expect("a head"), "", "another connection is writing");
        foreign.execute_batch("ROLLBACK").expect("no lock");

        other.append(entry()).await.expect("kept");
        std::fs::write(&path, "").expect("emptied");
        write();
        let newest = AdminLog::head(&other).await.expect("a head");
        assert_eq!(std::fs::read_to_string(&path).expect("a head").trim(), newest.to_string());
    }
}
