//! Errors of opening a store. A backend without files returns only those that name a database.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

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
    #[error("there is no database `{database}`")]
    Missing {
        /// The database: a path, or an address without a password.
        database: String,
    },
    /// The database is missing or empty although its head file records rows.
    #[error(
        "`{path}` is missing or empty, but `{head}` records {rows} rows; restore the database, or remove `{head}` to \
         start with an empty one: {} are then lost",
        lost_content(.path)
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
    #[error("cannot open database `{database}`")]
    Open {
        /// The database.
        database: String,
        /// The error of the backend.
        source: Box<dyn Error + Send + Sync>,
        /// Advice that is not part of the message.
        help: Option<&'static str>,
    },
    /// The database was written by a later build.
    #[error("database `{database}` has schema version {found}, but this build supports only versions up to {known}")]
    TooNew {
        /// The database.
        database: String,
        /// The database's schema version.
        found: u32,
        /// The newest version that this build supports.
        known: u32,
    },
    /// The database was written by an earlier build, and this caller may not upgrade it.
    #[error(
        "database `{database}` has schema version {found}, but this build needs {known}; start the gateway to upgrade it"
    )]
    TooOld {
        /// The database.
        database: String,
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

/// Says what a database contains, by its file name.
fn lost_content(path: &Path) -> &'static str {
    if path.file_name().is_some_and(|name| name == "state.db") {
        "all servers, policies, grants and the admin log"
    } else {
        "all recorded calls and counters"
    }
}

impl OpenStoreError {
    /// Returns advice that is not part of the error message.
    pub fn help_for(&self) -> Option<&'static str> {
        match self {
            Self::Open { help, .. } => *help,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_database_is_described_by_what_it_contained() {
        let lost = |name: &str| {
            let error = OpenStoreError::Lost { path: name.into(), head: "x.head".into(), rows: 3 };
            error.to_string()
        };
        assert!(lost("data/state.db").ends_with("all servers, policies, grants and the admin log are then lost"));
        assert!(lost("data/ledger.db").ends_with("all recorded calls and counters are then lost"));
    }
}
