//! Reports the progress of an export, with rate and remaining time.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use gatelodge_policy::{format_duration, format_seconds};

/// Interval between reports to a terminal.
const TERMINAL_REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between reports to a file or a pipe.
const LOG_REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Progress towards a known total.
#[derive(Debug)]
pub struct ExportProgressBar {
    noun: &'static str,
    total: usize,
    done: usize,
    started: Instant,
    last_report: Instant,
    is_terminal: bool,
}

impl ExportProgressBar {
    pub fn new(noun: &'static str, total: usize) -> Self {
        let now = Instant::now();
        Self { noun, total, done: 0, started: now, last_report: now, is_terminal: std::io::stderr().is_terminal() }
    }

    /// Counts one more file, and reports progress if the interval has passed.
    pub fn advance(&mut self) {
        self.done += 1;
        // Reading the clock for every file would be wasteful.
        if self.done.is_multiple_of(64) {
            let pause = if self.is_terminal { TERMINAL_REPORT_INTERVAL } else { LOG_REPORT_INTERVAL };
            if self.last_report.elapsed() >= pause {
                self.last_report = Instant::now();
                self.print();
            }
        }
    }

    /// Ends the progress display and returns a summary.
    pub fn finish(self) -> String {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        format!("{} {} in {}", self.done, self.noun, format_duration(self.started.elapsed()))
    }

    fn print(&self) {
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.done as f64 / seconds.max(0.001);
        let left = format_seconds((self.total.saturating_sub(self.done) as f64 / rate.max(0.001)).round() as u64);
        let text = format!("{} of {} {}, {rate:.0} a second, {left} left", self.done, self.total, self.noun);
        let _ = match self.is_terminal {
            true => write!(std::io::stderr(), "\r\x1b[K{text}"),
            false => writeln!(std::io::stderr(), "{text}"),
        };
    }
}
