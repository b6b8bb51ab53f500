//! How a command ended, for whoever called it.

use std::process::{ExitCode, Termination};

use gatelodge_store::StoreError;

use crate::client_config::ClientFileError;

/// The exit codes of all commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandExitCode {
    /// All is fine.
    Success = 0,
    /// There are findings: an invalid policy, a failed case.
    Findings = 1,
    /// The command was not called in a way it can be; a file that is not there counts as that.
    Usage = 2,
    /// The gateway refused: the policy, a limit or the token.
    Denied = 3,
    /// A server or gateway cannot be reached.
    Unreachable = 4,
    /// Something broke on our side, or the output could not be written.
    InternalError = 5,
}

impl CommandExitCode {
    /// The code for an error that ended a command.
    pub fn of_error(error: &anyhow::Error) -> Self {
        if let Some(ExitError(exit, _)) = error.downcast_ref() {
            return *exit;
        }
        if error.is::<ClientFileError>() {
            return Self::Findings;
        }
        if error.downcast_ref::<UsageError>().is_some() {
            return Self::Usage;
        }
        if error.downcast_ref::<UnreachableError>().is_some() {
            return Self::Unreachable;
        }
        match error.downcast_ref::<StoreError>() {
            // What was named is not there, or is there already.
            Some(StoreError::NotFound(_) | StoreError::Conflict(_)) => Self::Usage,
            Some(StoreError::Unavailable(_) | StoreError::Corrupt(_)) | None => Self::InternalError,
        }
    }
}

impl Termination for CommandExitCode {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// An error that ends a command with a code of its own.
#[derive(Debug)]
pub struct ExitError(pub CommandExitCode, pub String);

impl std::fmt::Display for ExitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for ExitError {}

/// Marks an error as the caller's: the message says what to do.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Marks an error as a matter of the network: nothing answered.
#[derive(Debug)]
pub struct UnreachableError(pub String);

impl std::fmt::Display for UnreachableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnreachableError {}
