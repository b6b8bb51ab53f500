//! How far it is, how fast it goes, and how long it still takes. On a terminal one line that changes, else a line
//! now and then.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use super::package_reader::CrawlLogLine;

/// How often a line is written to what is no terminal, and how often the one on a terminal changes.
const LOG_REPORT_INTERVAL: Duration = Duration::from_secs(5);
const TERMINAL_REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// The state of a run.
pub struct CrawlProgress {
    total: usize,
    done: usize,
    /// Done in this run; the rate is of these.
    done_this_run: usize,
    with_tools: usize,
    tools: usize,
    started: Instant,
    last_report: Instant,
    is_terminal: bool,
}

impl CrawlProgress {
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

    /// How long to wait between two looks at whether it is time to tell.
    pub fn report_interval(&self) -> Duration {
        if self.is_terminal { TERMINAL_REPORT_INTERVAL } else { LOG_REPORT_INTERVAL }
    }

    /// Tells if it is time: also where nothing was done, so that nobody takes a long package for a standstill.
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
        // Nothing depends on whether anybody sees it.
        let _ = if self.is_terminal { write!(out, "\r{text}\x1b[K") } else { writeln!(out, "{text}") };
        let _ = out.flush();
    }

    fn status_text(&self, passed: Duration) -> String {
        let percent = if self.total == 0 { 100.0 } else { 100.0 * self.done as f64 / self.total as f64 };
        let rate = self.done_this_run as f64 / passed.as_secs_f64().max(0.001);
        let left = self.total.saturating_sub(self.done);
        let left = match (left, self.done_this_run) {
            (0, _) => "done".to_owned(),
            (_, 0) => "time left not known yet".to_owned(),
            (left, _) => format!("{} left", duration_text(left as f64 / rate)),
        };
        let (done, all, with_tools, tools) = (self.done, self.total, self.with_tools, self.tools);
        format!(
            "{done} of {all} packages ({percent:.1} %), {with_tools} with {tools} tools, {rate:.1} a second, {left}"
        )
    }
}

fn duration_text(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}
