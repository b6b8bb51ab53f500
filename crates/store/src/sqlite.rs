//! SQLite: two files in one directory. `state.db` holds what people set up, `ledger.db` what calls use up.
//!
//! Several processes may have both open at once: a gateway, and the command line beside it.

mod chain_head_file;
mod db_file;
mod ledger;
mod log_table;
mod migrate;
mod state;

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

pub use ledger::SqliteLedger;
pub use state::SqliteState;

use crate::StoreError;

/// What a reservation survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A killed process at once, a power cut 50 ms later. The default: a call costs no wait for the disk.
    #[default]
    Process,
    /// A power cut, too: the disk has it before the answer.
    Power,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    /// The directory or a file in it cannot be made or looked at.
    #[error("cannot create or look at `{path}`")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no store, and none was to be made.
    #[error("there is no database `{path}`")]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The database is gone, or empty, although the head beside it tells of rows.
    #[error(
        "`{path}` is gone or empty, but `{head}` says that it had {rows} rows; restore it, or remove `{head}` by hand: \
         then it begins anew, and what it held is lost, all that limits counted among it"
    )]
    Lost {
        /// Where it was looked for.
        path: PathBuf,
        /// The head.
        head: PathBuf,
        /// The number of its last row.
        rows: u64,
    },
    /// The database cannot be opened or read.
    #[error("cannot open database `{path}`")]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// A later build has written it.
    #[error("database `{path}` has schema {found}, this build knows up to {known}")]
    TooNew {
        /// Which.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest that this build knows.
        known: u32,
    },
    /// An earlier build has written it, and it was not to be changed.
    #[error("database `{path}` has schema {found}, this build needs {known}; a start of the gateway brings it up")]
    TooOld {
        /// Which.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The one that this build needs.
        known: u32,
    },
    /// The operating system gave no thread.
    #[error("cannot start a thread for `{path}`")]
    Thread {
        /// For which database.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What an error of SQLite means to whoever asked.
fn fault(error: &rusqlite::Error) -> StoreError {
    use rusqlite::Error;
    let is_damaged = match error {
        Error::FromSqlConversionFailure(..) | Error::IntegralValueOutOfRange(..) | Error::InvalidColumnType(..) => true,
        _ => matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)),
    };
    let told = match help(error) {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    };
    if is_damaged || is_schema_mismatch(error) { StoreError::Corrupt(told) } else { StoreError::Unavailable(told) }
}

/// What to do about an error of SQLite, where that is known.
fn help(error: &rusqlite::Error) -> Option<&'static str> {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Some("another program holds a lock on it: end that, or try again")
        }
        Some(ErrorCode::DiskFull) => Some("make room on the disk"),
        Some(ErrorCode::ReadOnly) => Some("give the gateway's user the right to write it"),
        _ if is_schema_mismatch(error) => Some("a table or column is missing: restore the database from a backup"),
        _ => None,
    }
}

/// Our statements are fixed: one that SQLite does not take finds another schema than it was written for.
fn is_schema_mismatch(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqlInputError { .. }) || error.sqlite_error_code() == Some(ErrorCode::Unknown)
}

impl OpenStoreError {
    /// What to do about it, where that is not in its words.
    pub fn help_for(&self) -> Option<&'static str> {
        match self {
            Self::Open { source, .. } => help(source),
            _ => None,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        fault(&error)
    }
}
