//! Why the open ledger could not do what it should. Each one refuses the group it came in.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::StoreError;
use crate::sqlite::OpenStoreError;
use crate::sqlite::chain_head_file::ChainHeadFileError;

/// A fault of the database or of the files beside it.
#[derive(Debug, thiserror::Error)]
pub(super) enum LedgerError {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error("cannot open `{path}`: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("the ledger now has schema {found}, this build knows {known}")]
    Schema { found: usize, known: usize },
}

impl From<ChainHeadFileError> for LedgerError {
    fn from(ChainHeadFileError { path, source }: ChainHeadFileError) -> Self {
        Self::File { path, source }
    }
}

impl LedgerError {
    /// Whether somebody else has the database, and nothing else is wrong.
    pub fn is_busy(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// What it means at the start.
    pub fn into_open_error(self, path: &Path) -> OpenStoreError {
        match self {
            Self::Sql(source) => OpenStoreError::Open { path: path.into(), source },
            Self::File { path, source } => OpenStoreError::File { path, source },
            Self::Schema { found, known } => {
                let number = |schema: usize| schema.try_into().unwrap_or(u32::MAX);
                OpenStoreError::TooNew { path: path.into(), found: number(found), known: number(known) }
            }
        }
    }
}

impl From<LedgerError> for StoreError {
    fn from(fault: LedgerError) -> Self {
        match fault {
            LedgerError::Sql(error) => error.into(),
            LedgerError::File { .. } | LedgerError::Schema { .. } => Self::Unavailable(fault.to_string()),
        }
    }
}
