//! `state.db`: servers, policies, grants and the log of changes. Each change is on the disk before it is answered.

mod admin_log;
mod grants;
mod notices;
mod policies;
mod servers;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::Notify;

use super::file::DbFile;
use super::{OpenStoreError, migrate};
use crate::StoreError;
use crate::admin_log::AdminEntry;

const NAME: &str = "state.db";
const STEPS: [&str; 1] = [include_str!("state/1.sql")];

/// What people set up, in `state.db`.
#[derive(Debug)]
pub struct SqliteState {
    open: Arc<Open>,
    /// Rung after each change of this process, so that `changed` need not wait for its next look.
    bell: Notify,
}

#[derive(Debug)]
struct Open {
    file: DbFile,
    connection: Mutex<Connection>,
}

impl SqliteState {
    /// Opens the state in a directory. What is missing is made; an older schema is brought up.
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open(dir: &Path) -> Result<Self, OpenStoreError> {
        Self::start(DbFile::create(dir, NAME)?, |connection, path| migrate::bring_up(connection, path, &STEPS))
    }

    /// Opens the state in a directory, as it is: nothing is made and no schema changed. For the command line beside
    /// a running gateway.
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open_existing(dir: &Path) -> Result<Self, OpenStoreError> {
        Self::start(DbFile::existing(dir, NAME)?, |connection, path| migrate::is_up(connection, path, &STEPS))
    }

    fn start(
        file: DbFile,
        prepare: impl FnOnce(&mut Connection, &Path) -> Result<(), OpenStoreError>,
    ) -> Result<Self, OpenStoreError> {
        let failed = |source| OpenStoreError::Open { path: file.path().into(), source };
        let mut connection = file.connect().map_err(failed)?;
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        prepare(&mut connection, file.path())?;
        Ok(Self { open: Arc::new(Open { file, connection: Mutex::new(connection) }), bell: Notify::new() })
    }

    /// Does something with the database, away from the async threads.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let open = Arc::clone(&self.open);
        let task = tokio::task::spawn_blocking(move || {
            open.file.check()?;
            work(&mut open.connection.lock().unwrap_or_else(PoisonError::into_inner))
        });
        task.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }

    /// Changes something in one transaction that also writes the entry and counts the version up, and tells the
    /// listeners.
    async fn change<T: Send + 'static>(
        &self,
        mut entry: AdminEntry,
        work: impl FnOnce(&Transaction<'_>, &mut AdminEntry) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.run(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction, &mut entry)?;
            admin_log::write(&transaction, &entry)?;
            transaction.execute("UPDATE version SET number = number + 1", [])?;
            transaction.commit()?;
            Ok(done)
        });
        let done = done.await?;
        self.bell.notify_waiters();
        Ok(done)
    }
}

/// What is kept as JSON in a column.
fn to_json<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn of_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// A name that is stored; one that is none was put there by somebody else.
fn name<T: std::str::FromStr<Err = crate::NameError>>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|error| StoreError::Corrupt(format!("`{text}` as a name: {error}")))
}
