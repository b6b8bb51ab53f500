//! Exit codes of commands, and the errors that determine them.

use std::process::{ExitCode, Termination};

use gatelodge_server::input_file::InputFileError;
use gatelodge_store::StoreError;

use crate::client_files::ClientFileError;

/// Exit codes of all commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandExitCode {
    /// Success.
    Success = 0,
    /// There are findings, such as an invalid policy or a failed case.
    Findings = 1,
    /// The command was used incorrectly, or a file does not exist.
    Usage = 2,
    /// The gateway refused a call because of the policy, a limit or the token.
    Denied = 3,
    /// A server or gateway cannot be reached.
    Unreachable = 4,
    /// An internal error occurred, or the output could not be written.
    InternalError = 5,
}

impl CommandExitCode {
    /// Returns the exit code for an error that ended a command.
    pub fn of_error(error: &anyhow::Error) -> Self {
        if let Some(ExitError(exit, _)) = error.downcast_ref() {
            return *exit;
        }
        if error.is::<ClientFileError>() {
            return Self::Findings;
        }
        if error.is::<UsageError>() || error.is::<InputFileError>() {
            return Self::Usage;
        }
        if error.downcast_ref::<UnreachableError>().is_some() {
            return Self::Unreachable;
        }
        match error.downcast_ref::<StoreError>() {
            // The argument names something that does not exist, or that exists already.
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

/// An error with its own exit code.
#[derive(Debug)]
pub struct ExitError(pub CommandExitCode, pub String);

impl std::fmt::Display for ExitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for ExitError {}

/// A mistake by the user, such as an invalid argument. The message says how to correct it.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A network error: the server or gateway did not answer.
#[derive(Debug)]
pub struct UnreachableError(pub String);

impl std::fmt::Display for UnreachableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnreachableError {}
