//! How often a server's process ended without having answered anything. Such a one is not started again at once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MIN_RESTART_DELAY: Duration = Duration::from_millis(250);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(30);

/// The pause before the next start.
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
    /// Whether it may be started now.
    ///
    /// # Errors
    /// Not yet; in words.
    pub fn check_start_allowed(&self) -> Result<(), String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = state.next_start.and_then(|at| at.checked_duration_since(Instant::now()));
        match wait {
            Some(wait) => Err(format!(
                "the server's process ended {} times without an answer; it is started again in {} s",
                state.failures,
                wait.as_secs() + 1
            )),
            None => Ok(()),
        }
    }

    /// Notes that a process has ended.
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
    fn one_that_never_answers_waits_longer_each_time_and_an_answer_ends_it() {
        let restarts = RestartBackoff::default();
        assert!(restarts.check_start_allowed().is_ok());
        for _ in 0..40 {
            restarts.record_exit(false);
        }
        let why = restarts.check_start_allowed().expect_err("it waits");
        assert!(why.contains("ended 40 times") && why.contains("in 30 s"), "{why}");
        restarts.record_exit(true);
        assert!(restarts.check_start_allowed().is_ok());
    }
}
