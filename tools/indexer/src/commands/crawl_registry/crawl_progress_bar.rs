//! Reports the progress of a crawl, with rate and remaining time. On a terminal, one line is updated in place;
//! elsewhere, a new line is printed now and then.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use gatelodge_policy::format_seconds;

use super::package_reader::CrawlLogLine;

/// Interval between reports to a file or a pipe.
const LOG_REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between reports to a terminal.
const TERMINAL_REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Progress of a crawl.
pub struct CrawlProgressBar {
    total: usize,
    done: usize,
    /// Packages finished in this run. The rate is computed from these.
    done_this_run: usize,
    with_tools: usize,
    tools: usize,
    started: Instant,
    last_report: Instant,
    is_terminal: bool,
}

impl CrawlProgressBar {
    pub fn start(all: usize, done: usize) -> Self {
        let (started, is_terminal) = (Instant::now(), std::io::stderr().is_terminal());
        let progress = Self {
            total: all,
            done,
            done_this_run: 0,
            with_tools: 0,
            tools: 0,
            started,
            last_report: started,
            is_terminal,
        };
        progress.print();
        progress
    }

    pub fn add_package(&mut self, line: &CrawlLogLine) {
        self.done += 1;
        self.done_this_run += 1;
        self.tools += line.tools;
        self.with_tools += usize::from(line.tools > 0);
        self.report_if_due();
    }

    /// Returns the interval between reports.
    pub fn report_interval(&self) -> Duration {
        if self.is_terminal { TERMINAL_REPORT_INTERVAL } else { LOG_REPORT_INTERVAL }
    }

    /// Prints a report if the interval has passed, even if nothing has finished since the last one: a large package
    /// must not look like a hang.
    pub fn report_if_due(&mut self) {
        if self.last_report.elapsed() >= self.report_interval() {
            self.last_report = Instant::now();
            self.print();
        }
    }

    pub fn finish(&self) {
        self.print();
        if self.is_terminal {
            let _ = writeln!(std::io::stderr());
        }
    }

    fn print(&self) {
        let text = self.status_text(self.started.elapsed());
        let mut out = std::io::stderr().lock();
        // Progress output is best effort.
        let _ = if self.is_terminal { write!(out, "\r{text}\x1b[K") } else { writeln!(out, "{text}") };
        let _ = out.flush();
    }

    fn status_text(&self, passed: Duration) -> String {
        let percent = if self.total == 0 { 100.0 } else { 100.0 * self.done as f64 / self.total as f64 };
        let rate = self.done_this_run as f64 / passed.as_secs_f64().max(0.001);
        let left = self.total.saturating_sub(self.done);
        let left = match (left, self.done_this_run) {
            (0, _) => "done".to_owned(),
            (_, 0) => "time left unknown".to_owned(),
            (left, _) => format!("{} left", format_seconds((left as f64 / rate).round() as u64)),
        };
        let (done, all, with_tools, tools) = (self.done, self.total, self.with_tools, self.tools);
        format!(
            "{done} of {all} packages ({percent:.1} %), {with_tools} with {tools} tools, {rate:.1} a second, {left}"
        )
    }
}
