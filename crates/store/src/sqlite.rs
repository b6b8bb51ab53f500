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

use std::path::Path;

use rusqlite::ErrorCode;

pub use ledger::SqliteLedger;
pub use state_db::SqliteStateStore;

use crate::model::{OpenStoreError, StoreError};

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

/// Builds the error for a database that cannot be opened or read.
fn to_open_error(path: &Path, error: rusqlite::Error) -> OpenStoreError {
    OpenStoreError::Open { database: path.display().to_string(), help: help(&error), source: error.into() }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        to_store_error(&error)
    }
}
