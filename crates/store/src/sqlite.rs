//! SQLite backend with two databases in one directory: `state.db` holds servers, policies, grants and sessions;
//! `ledger.db` holds the counters and the call log.
//!
//! Several processes, such as a gateway and the command line, may have both open at once.

mod chain_head_file;
mod db_file;
mod ledger;
mod log_table_reader;
mod migrate;
mod state_db;

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

pub use ledger::SqliteLedger;
pub use state_db::SqliteStateStore;

use crate::model::StoreError;

/// Which failures a confirmed reservation survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives a killed process immediately, and a power failure after 50 ms. The default: a call does not wait for
    /// the disk.
    #[default]
    Process,
    /// Also survives a power failure: the data is on the disk before the reply is sent.
    Power,
}

/// The reason why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    /// The directory or a file in it cannot be created or accessed.
    #[error("cannot create or access `{path}`")]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is no database, and the caller did not ask for one to be created.
    #[error("there is no database `{path}`")]
    Missing {
        /// The expected path.
        path: PathBuf,
    },
    /// The database is missing or empty although its head file records rows.
    #[error(
        "`{path}` is missing or empty, but `{head}` records {rows} rows; restore the database, or remove `{head}` to \
         start with an empty one: all recorded calls and counters are then lost"
    )]
    Lost {
        /// The expected path of the database.
        path: PathBuf,
        /// The head file.
        head: PathBuf,
        /// Number of the last row recorded in the head file.
        rows: u64,
    },
    /// The database cannot be opened or read.
    #[error("cannot open database `{path}`")]
    Open {
        /// The path of the database.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
    /// The database was written by a later build.
    #[error("database `{path}` has schema version {found}, but this build supports only versions up to {known}")]
    TooNew {
        /// The path of the database.
        path: PathBuf,
        /// The database's schema version.
        found: u32,
        /// The newest version that this build supports.
        known: u32,
    },
    /// The database was written by an earlier build, and this caller may not upgrade it.
    #[error(
        "database `{path}` has schema version {found}, but this build needs {known}; start the gateway to upgrade it"
    )]
    TooOld {
        /// The path of the database.
        path: PathBuf,
        /// The database's schema version.
        found: u32,
        /// The version that this build needs.
        known: u32,
    },
    /// The operating system could not start a thread.
    #[error("cannot start a thread for `{path}`")]
    Thread {
        /// The path of the database.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Maps a SQLite error to a store error.
fn to_store_error(error: &rusqlite::Error) -> StoreError {
    use rusqlite::Error;
    let is_damaged = match error {
        Error::FromSqlConversionFailure(..) | Error::IntegralValueOutOfRange(..) | Error::InvalidColumnType(..) => true,
        _ => matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)),
    };
    let message = match help(error) {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    };
    if is_damaged || is_schema_mismatch(error) {
        StoreError::Corrupt(message)
    } else {
        StoreError::Unavailable(message)
    }
}

/// Returns advice for a SQLite error, if there is any.
fn help(error: &rusqlite::Error) -> Option<&'static str> {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Some("another program holds a lock on it: stop that program, or try again")
        }
        Some(ErrorCode::DiskFull) => Some("free some disk space"),
        Some(ErrorCode::ReadOnly) => Some("give the user of the gateway write permission"),
        _ if is_schema_mismatch(error) => Some("a table or column is missing: restore the database from a backup"),
        _ => None,
    }
}

/// Returns whether the error means that the schema does not match. The program's statements are fixed, so SQLite
/// refuses one only if the schema differs.
fn is_schema_mismatch(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqlInputError { .. }) || error.sqlite_error_code() == Some(ErrorCode::Unknown)
}

impl OpenStoreError {
    /// Returns advice that is not part of the error message.
    pub fn help_for(&self) -> Option<&'static str> {
        match self {
            Self::Open { source, .. } => help(source),
            _ => None,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        to_store_error(&error)
    }
}
