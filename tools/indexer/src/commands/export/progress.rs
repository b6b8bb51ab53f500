//! How far a long work has come: how many, how fast, how long still.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A terminal is told this often.
const OFTEN: Duration = Duration::from_millis(200);
/// A file or a pipe is told this often.
const SELDOM: Duration = Duration::from_secs(5);

/// A count towards a number that is known.
#[derive(Debug)]
pub struct Progress {
    noun: &'static str,
    all: usize,
    done: usize,
    begun: Instant,
    told: Instant,
    is_terminal: bool,
}

impl Progress {
    pub fn new(noun: &'static str, all: usize) -> Self {
        let now = Instant::now();
        Self { noun, all, done: 0, begun: now, told: now, is_terminal: std::io::stderr().is_terminal() }
    }

    /// One more is done.
    pub fn step(&mut self) {
        self.done += 1;
        // The clock is not asked for each of many.
        if self.done.is_multiple_of(64) {
            let pause = if self.is_terminal { OFTEN } else { SELDOM };
            if self.told.elapsed() >= pause {
                self.told = Instant::now();
                self.tell();
            }
        }
    }

    /// What was done, in words.
    pub fn end(self) -> String {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        format!("{} {} in {:.1} s", self.done, self.noun, self.begun.elapsed().as_secs_f64())
    }

    fn tell(&self) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = self.done as f64 / seconds.max(0.001);
        let left = self.all.saturating_sub(self.done) as f64 / rate.max(0.001);
        let text = format!("{} of {} {}, {rate:.0} a second, {left:.0} s left", self.done, self.all, self.noun);
        let _ = match self.is_terminal {
            true => write!(std::io::stderr(), "\r\x1b[K{text}"),
            false => writeln!(std::io::stderr(), "{text}"),
        };
    }
}
