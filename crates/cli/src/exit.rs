//! How a command ended, for whoever called it.

use std::process::{ExitCode, Termination};

/// The exit codes of all commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is fine.
    Fine = 0,
    /// There are findings: an invalid policy, a failed case.
    Findings = 1,
    /// The command was not called in a way it can be; a file that is not there counts as that.
    Usage = 2,
    /// Something broke on our side, or the output could not be written.
    Fault = 5,
}

impl Exit {
    /// The code for an error that ended a command.
    pub fn of_error(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<Usage>() {
            Some(_) => Self::Usage,
            None => Self::Fault,
        }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// Marks an error as the caller's: the message says what to do.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
