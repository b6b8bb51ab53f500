//! Backoff for processes that exit without having answered anything.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MIN_RESTART_DELAY: Duration = Duration::from_millis(250);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(30);

/// Determines when a process may be started again.
#[derive(Debug, Default)]
pub(crate) struct RestartBackoff {
    state: Mutex<RestartBackoffState>,
}

#[derive(Debug, Default)]
struct RestartBackoffState {
    failures: u32,
    next_start: Option<Instant>,
}

impl RestartBackoff {
    /// Checks whether a process may be started now.
    ///
    /// # Errors
    /// The process may not be started yet. The message says when it may.
    pub fn check_start_allowed(&self) -> Result<(), String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = state.next_start.and_then(|at| at.checked_duration_since(Instant::now()));
        match wait {
            Some(wait) => Err(format!(
                "the server process exited {} without a response; it is started again in {} s",
                if state.failures == 1 { "once".to_owned() } else { format!("{} times", state.failures) },
                wait.as_secs() + 1
            )),
            None => Ok(()),
        }
    }

    /// Records the exit of a process.
    pub fn record_exit(&self, has_answered: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if has_answered {
            *state = RestartBackoffState::default();
            return;
        }
        state.failures = state.failures.saturating_add(1);
        let pause = MIN_RESTART_DELAY.saturating_mul(1 << state.failures.saturating_sub(1).min(7));
        state.next_start = Some(Instant::now() + pause.min(MAX_RESTART_DELAY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_grows_until_a_process_answers() {
        let restarts = RestartBackoff::default();
        assert!(restarts.check_start_allowed().is_ok());
        for _ in 0..40 {
            restarts.record_exit(false);
        }
        let why = restarts.check_start_allowed().expect_err("it waits");
        assert!(why.contains("exited 40 times") && why.contains("in 30 s"), "{why}");
        restarts.record_exit(true);
        assert!(restarts.check_start_allowed().is_ok());
    }
}
