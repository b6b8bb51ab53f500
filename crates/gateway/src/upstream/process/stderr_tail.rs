//! The last lines of a process's standard error.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Number of lines kept.
const MAX_STDERR_LINES: usize = 50;

/// The last lines, without control characters.
#[derive(Debug, Default)]
pub(super) struct StderrTail {
    lines: Mutex<VecDeque<String>>,
}

impl StderrTail {
    /// Lines longer than this are truncated.
    pub const MAX_STDERR_LINE_BYTES: usize = 1_024;

    pub fn push(&self, line: &str) {
        let line: String = line.chars().filter(|character| !character.is_control()).collect();
        if line.is_empty() {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MAX_STDERR_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub fn last(&self) -> Option<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).back().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        let tail = StderrTail::default();
        (0..10_000).for_each(|number| tail.push(&format!("line {number}\u{1b}[31m")));
        tail.push("\u{7}");
        assert_eq!(tail.last().as_deref(), Some("line 9999[31m"));
        assert_eq!(tail.lines.lock().unwrap_or_else(PoisonError::into_inner).len(), MAX_STDERR_LINES);
    }
}
