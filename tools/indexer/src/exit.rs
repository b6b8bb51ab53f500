//! Exit codes, and the errors that determine them. `gatelodge` uses the same codes.

use std::process::{ExitCode, Termination};

/// The exit codes of all commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexerExitCode {
    /// Success.
    Fine = 0,
    /// The command found a problem in its input: for example, a line that is not a fact, or a server that is not in the
    /// index.
    Findings = 1,
    /// The command line is wrong, or it names a file that cannot be read.
    Usage = 2,
    /// A package index cannot be reached.
    Unreachable = 4,
    /// An internal error occurred, or the output cannot be written.
    Fault = 5,
}

impl IndexerExitCode {
    /// Returns the code for an error that ended a command.
    pub fn of_error(error: &anyhow::Error) -> Self {
        if let Some(IndexerError(exit, _)) = error.downcast_ref() {
            *exit
        } else if error.is::<IndexerUsageError>() {
            Self::Usage
        } else if error.is::<RegistryUnreachableError>() {
            Self::Unreachable
        } else {
            Self::Fault
        }
    }
}

impl Termination for IndexerExitCode {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// An error that specifies its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{1}")]
pub struct IndexerError(pub IndexerExitCode, pub String);

/// A usage error. The message says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct IndexerUsageError(pub String);

/// A registry did not answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RegistryUnreachableError(pub String);
