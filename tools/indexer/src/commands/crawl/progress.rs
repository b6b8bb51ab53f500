//! How far it is, how fast it goes, and how long it still takes. On a terminal one line that changes, else a line
//! now and then.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use super::package_reader::CrawlLogLine;

/// How often a line is written to what is no terminal, and how often the one on a terminal changes.
const SELDOM: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_millis(200);

/// The state of a run.
pub struct Progress {
    all: usize,
    done: usize,
    /// Done in this run; the rate is of these.
    now: usize,
    with_tools: usize,
    tools: usize,
    started: Instant,
    told: Instant,
    is_terminal: bool,
}

impl Progress {
    pub fn start(all: usize, done: usize) -> Self {
        let (started, is_terminal) = (Instant::now(), std::io::stderr().is_terminal());
        let progress = Self { all, done, now: 0, with_tools: 0, tools: 0, started, told: started, is_terminal };
        progress.tell();
        progress
    }

    pub fn count(&mut self, line: &CrawlLogLine) {
        self.done += 1;
        self.now += 1;
        self.tools += line.tools;
        self.with_tools += usize::from(line.tools > 0);
        self.tick();
    }

    /// How long to wait between two looks at whether it is time to tell.
    pub fn pause(&self) -> Duration {
        if self.is_terminal { OFTEN } else { SELDOM }
    }

    /// Tells if it is time: also where nothing was done, so that nobody takes a long package for a standstill.
    pub fn tick(&mut self) {
        if self.told.elapsed() >= self.pause() {
            self.told = Instant::now();
            self.tell();
        }
    }

    pub fn end(&self) {
        self.tell();
        if self.is_terminal {
            let _ = writeln!(std::io::stderr());
        }
    }

    fn tell(&self) {
        let text = self.text(self.started.elapsed());
        let mut out = std::io::stderr().lock();
        // Nothing depends on whether anybody sees it.
        let _ = if self.is_terminal { write!(out, "\r{text}\x1b[K") } else { writeln!(out, "{text}") };
        let _ = out.flush();
    }

    fn text(&self, passed: Duration) -> String {
        let percent = if self.all == 0 { 100.0 } else { 100.0 * self.done as f64 / self.all as f64 };
        let rate = self.now as f64 / passed.as_secs_f64().max(0.001);
        let left = self.all.saturating_sub(self.done);
        let left = match (left, self.now) {
            (0, _) => "done".to_owned(),
            (_, 0) => "time left not known yet".to_owned(),
            (left, _) => format!("{} left", duration(left as f64 / rate)),
        };
        let (done, all, with_tools, tools) = (self.done, self.all, self.with_tools, self.tools);
        format!(
            "{done} of {all} packages ({percent:.1} %), {with_tools} with {tools} tools, {rate:.1} a second, {left}"
        )
    }
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}
