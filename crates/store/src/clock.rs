//! The source of time. Only the outermost layer of the program reads the system clock.

use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;

/// A source of the current time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the current time. It may jump in either direction, so callers must not assume that it only advances.
    fn now(&self) -> Timestamp;
}

/// Converts a time to its stored form, nanoseconds since 1970. Times before 1677 and after 2262 are clamped.
pub(crate) fn to_unix_nanoseconds(at: Timestamp) -> i64 {
    let nanosecond = at.as_nanosecond();
    nanosecond.try_into().unwrap_or(if nanosecond < 0 { i64::MIN } else { i64::MAX })
}

/// Converts a time from its stored form.
pub(crate) fn from_unix_nanoseconds(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::MAX)
}

/// A clock for tests that advances only on request.
///
/// ```
/// use std::time::Duration;
///
/// use gatelodge_store::{Clock, ManualClock};
///
/// let start = "2026-11-15T12:00:00Z".parse()?;
/// let clock = ManualClock::at(start);
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now(), "2026-11-15T12:01:00Z".parse()?);
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
}

impl ManualClock {
    /// Creates a clock set to `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now: Mutex::new(now) }
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        *now = now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }

    /// Sets the clock, forwards or backwards.
    pub fn set(&self, to: Timestamp) {
        *self.lock() = to;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Timestamp> {
        self.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.lock()
    }
}
