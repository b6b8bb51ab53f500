//! How far a long work has come: how many, how fast, how long still.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A terminal is told this often.
const TERMINAL_REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// A file or a pipe is told this often.
const LOG_REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// A count towards a number that is known.
#[derive(Debug)]
pub struct ExportProgress {
    noun: &'static str,
    total: usize,
    done: usize,
    started: Instant,
    last_report: Instant,
    is_terminal: bool,
}

impl ExportProgress {
    pub fn new(noun: &'static str, total: usize) -> Self {
        let now = Instant::now();
        Self { noun, total, done: 0, started: now, last_report: now, is_terminal: std::io::stderr().is_terminal() }
    }

    /// One more is done.
    pub fn advance(&mut self) {
        self.done += 1;
        // The clock is not asked for each of many.
        if self.done.is_multiple_of(64) {
            let pause = if self.is_terminal { TERMINAL_REPORT_INTERVAL } else { LOG_REPORT_INTERVAL };
            if self.last_report.elapsed() >= pause {
                self.last_report = Instant::now();
                self.print();
            }
        }
    }

    /// What was done, in words.
    pub fn finish(self) -> String {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        format!("{} {} in {:.1} s", self.done, self.noun, self.started.elapsed().as_secs_f64())
    }

    fn print(&self) {
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.done as f64 / seconds.max(0.001);
        let left = self.total.saturating_sub(self.done) as f64 / rate.max(0.001);
        let text = format!("{} of {} {}, {rate:.0} a second, {left:.0} s left", self.done, self.total, self.noun);
        let _ = match self.is_terminal {
            true => write!(std::io::stderr(), "\r\x1b[K{text}"),
            false => writeln!(std::io::stderr(), "{text}"),
        };
    }
}
