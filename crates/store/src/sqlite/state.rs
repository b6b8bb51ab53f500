//! `state.db`: servers, policies, grants and the log of changes. Each change is on the disk before it is answered.

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
use super::{OpenStoreError, migrate};
use crate::StoreError;
use crate::admin_log::AdminEntry;
use crate::hash_chain::ChainHead;

const FILE_NAME: &str = "state.db";
const MIGRATIONS: [&str; 8] = [
    include_str!("state/1.sql"),
    include_str!("state/2.sql"),
    include_str!("state/3.sql"),
    include_str!("state/4.sql"),
    include_str!("state/5.sql"),
    include_str!("state/6.sql"),
    include_str!("state/7.sql"),
    include_str!("state/8.sql"),
];
/// The schema of builds that kept no head of the log of changes.
const SCHEMA_WITHOUT_HEAD_FILE: usize = 1;
/// What each connection keeps of the file in memory: so many KiB, which SQLite wants to be told as less than nothing. No
/// call waits for what is here; with SQLite's own 2 MB, sessions that come and go would take that for their rows.
const CACHE_SIZE_PRAGMA: i64 = -512;
/// Of the log of changes nothing is ever removed.
const ADMIN_LOG_TABLE: LogTable = LogTable { table: "admin_log", anchor: |_| Ok(ChainHead::EMPTY) };

/// What people set up, in `state.db`.
#[derive(Debug)]
pub struct SqliteState {
    database: Arc<StateDb>,
    /// Rung after each change of this process, so that `changed` need not wait for its next look.
    changed: Notify,
}

#[derive(Debug)]
struct StateDb {
    file: DbFile,
    connection: Mutex<Connection>,
    /// For rows that are no settings of anybody, and that a power cut may take: it does not wait for the disk.
    relaxed: Mutex<Connection>,
}

impl SqliteState {
    /// Opens the state in a directory. What is missing is made; an older schema is brought up.
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

    /// Opens the state in a directory, as it is: nothing is made and no schema changed. For the command line beside
    /// a running gateway.
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open_existing(dir: &Path) -> Result<Self, OpenStoreError> {
        Self::start(DbFile::open_existing(dir, FILE_NAME)?, |connection, path| {
            migrate::check_version(connection, path, &MIGRATIONS)
        })
    }

    fn start(
        file: DbFile,
        prepare: impl FnOnce(&mut Connection, &Path) -> Result<(), OpenStoreError>,
    ) -> Result<Self, OpenStoreError> {
        let failed = |source| OpenStoreError::Open { path: file.path().into(), source };
        let mut connection = file.connect().map_err(failed)?;
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        prepare(&mut connection, file.path())?;
        chain_head_file::reconcile(&connection, &file, ADMIN_LOG_TABLE)?;
        let light = file.connect().map_err(failed)?;
        light.pragma_update(None, "synchronous", "normal").map_err(failed)?;
        for own in [&connection, &light] {
            own.pragma_update(None, "cache_size", CACHE_SIZE_PRAGMA).map_err(failed)?;
        }
        let open = StateDb { file, connection: Mutex::new(connection), relaxed: Mutex::new(light) };
        Ok(Self { database: Arc::new(open), changed: Notify::new() })
    }

    /// Does something with the database, away from the async threads.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_with_file(|_, connection| work(connection)).await
    }

    /// Does something with the database and the files beside it.
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

    /// Does something with rows that are no settings of anybody.
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

    /// Writes in one transaction, and keeps the end of the log of changes apart.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let write = self.run_with_file(move |file, connection| {
            // A directory that could not take the head refuses the change, before there is one.
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

    /// Changes something in one transaction that also writes the entry and counts the version up, and tells the
    /// listeners.
    async fn change<T: Send + 'static>(
        &self,
        mut entry: AdminEntry,
        work: impl FnOnce(&Transaction<'_>, &mut AdminEntry) -> Result<T, StoreError> + Send + 'static,
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

/// Keeps the end of the log apart. The lock is taken once more: without it, two processes could write their heads in
/// another order than their rows. If that fails, the head is behind by this change until the next one.
fn write_head(connection: &mut Connection, head_file: &mut ChainHeadFile) {
    if let Ok(locked) = connection.transaction_with_behavior(TransactionBehavior::Immediate)
        && let Ok(end) = chain_head_file::chain_head(&locked, ADMIN_LOG_TABLE)
    {
        let _ = head_file.write(end);
    }
}

/// What is kept as JSON in a column.
fn to_json<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// A name that is stored; one that is none was put there by somebody else.
fn parse_name<T: std::str::FromStr<Err = crate::ParseNameError>>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|error| StoreError::Corrupt(format!("`{text}` as a name: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AdminLog;

    fn entry() -> AdminEntry {
        let at = "2026-11-15T12:00:00Z".parse().expect("a time");
        AdminEntry { at, by: "ann".into(), action: "a.b".into(), subject: "c".into(), detail: serde_json::Value::Null }
    }

    #[tokio::test]
    async fn a_head_is_written_under_the_lock_and_one_that_was_held_up_is_the_newest() {
        let dir = tempfile::tempdir().expect("a directory");
        let (slow, other) =
            (SqliteState::open(dir.path()).expect("a state"), SqliteState::open(dir.path()).expect("a state"));
        let path = dir.path().join("state.head");
        slow.append(entry()).await.expect("kept");
        let mut head_file = ChainHeadFile::open(&slow.database.file).expect("a file");
        let mut keep = || write_head(&mut slow.database.connection.lock().expect("a connection"), &mut head_file);
        std::fs::write(&path, "").expect("emptied");

        let foreign = Connection::open(dir.path().join(FILE_NAME)).expect("a database");
        foreign.execute_batch("BEGIN IMMEDIATE").expect("a lock");
        keep();
        assert_eq!(std::fs::read_to_string(&path).expect("a head"), "", "somebody else is writing");
        foreign.execute_batch("ROLLBACK").expect("no lock");

        other.append(entry()).await.expect("kept");
        std::fs::write(&path, "").expect("emptied");
        keep();
        let newest = AdminLog::head(&other).await.expect("a head");
        assert_eq!(std::fs::read_to_string(&path).expect("a head").trim(), newest.to_string());
    }
}
