//! Errors that occur while the ledger is open. If one occurs while a batch is being written, the callers that wait for
//! the batch are refused.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::model::{OpenStoreError, StoreError};
use crate::sqlite::chain_head_file::ChainHeadFileError;
use crate::sqlite::to_open_error;

/// An error in the database or in the files next to it.
#[derive(Debug, thiserror::Error)]
pub(super) enum LedgerError {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error("cannot open `{path}`: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("the ledger now has schema version {found}, but this build supports {known}")]
    Schema { found: usize, known: usize },
}

impl From<ChainHeadFileError> for LedgerError {
    fn from(ChainHeadFileError { path, source }: ChainHeadFileError) -> Self {
        Self::File { path, source }
    }
}

impl LedgerError {
    /// Returns whether the only problem is that another process has locked the database.
    pub fn is_busy(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Converts an error that occurred while opening the ledger.
    pub fn into_open_error(self, path: &Path) -> OpenStoreError {
        match self {
            Self::Sql(source) => to_open_error(path, source),
            Self::File { path, source } => OpenStoreError::File { path, source },
            Self::Schema { found, known } => {
                let number = |schema: usize| schema.try_into().unwrap_or(u32::MAX);
                OpenStoreError::TooNew {
                    database: path.display().to_string(),
                    found: number(found),
                    known: number(known),
                }
            }
        }
    }
}

impl From<LedgerError> for StoreError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Sql(error) => error.into(),
            LedgerError::File { .. } | LedgerError::Schema { .. } => Self::Unavailable(error.to_string()),
        }
    }
}
