//! Reads environment variables and the clock. No other module does.

use std::os::unix::process::CommandExt;
use std::process::Command;

use jiff::Timestamp;

/// Returns the value of an environment variable. A value that is not valid UTF-8 counts as missing.
#[expect(clippy::disallowed_methods, reason = "the only place where the environment is read")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Replaces this process with a new run of the same program in which an environment variable is set, unless it is
/// already set. If that fails, this process continues without the variable.
pub fn reexec_with_variable(name: &str, value: &str) {
    if let (None, Ok(program)) = (variable(name), std::env::current_exe()) {
        // `exec` returns only if it fails.
        let _ = Command::new(program).args(std::env::args_os().skip(1)).env(name, value).exec();
    }
}

/// Returns the current date in UTC, such as `2026-11-16`.
#[expect(clippy::disallowed_methods, reason = "the only place where the clock is read")]
pub fn today() -> String {
    Timestamp::now().to_string().chars().take(10).collect()
}
