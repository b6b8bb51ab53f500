//! The last lines of a process's complaints.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines that are kept.
const MAX_STDERR_LINES: usize = 50;

/// The last lines, without control characters.
#[derive(Debug, Default)]
pub(super) struct StderrTail {
    lines: Mutex<VecDeque<String>>,
}

impl StderrTail {
    /// The most bytes of one line; the rest of a longer one is left out.
    pub const MAX_LINE: usize = 1_024;

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

    /// The last line.
    pub fn last(&self) -> Option<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).back().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_its_end() {
        let ring = StderrTail::default();
        (0..10_000).for_each(|number| ring.push(&format!("line {number}\u{1b}[31m")));
        ring.push("\u{7}");
        assert_eq!(ring.last().as_deref(), Some("line 9999[31m"));
        assert_eq!(ring.lines.lock().unwrap_or_else(PoisonError::into_inner).len(), MAX_STDERR_LINES);
    }
}
