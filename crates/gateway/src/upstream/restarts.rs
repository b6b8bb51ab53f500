//! How often a server's process ended without having answered anything. Such a one is not started again at once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The pause before the next start.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    not_before: Option<Instant>,
}

impl Restarts {
    /// Whether it may be started now.
    ///
    /// # Errors
    /// Not yet; in words.
    pub fn check(&self) -> Result<(), String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = state.not_before.and_then(|at| at.checked_duration_since(Instant::now()));
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
    pub fn note(&self, has_answered: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if has_answered {
            *state = State::default();
            return;
        }
        state.failures = state.failures.saturating_add(1);
        let pause = FIRST_PAUSE.saturating_mul(1 << state.failures.saturating_sub(1).min(7));
        state.not_before = Some(Instant::now() + pause.min(LONGEST_PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_never_answers_waits_longer_each_time_and_an_answer_ends_it() {
        let restarts = Restarts::default();
        assert!(restarts.check().is_ok());
        for _ in 0..40 {
            restarts.note(false);
        }
        let why = restarts.check().expect_err("it waits");
        assert!(why.contains("ended 40 times") && why.contains("in 30 s"), "{why}");
        restarts.note(true);
        assert!(restarts.check().is_ok());
    }
}
