//! Where the time comes from. Only the rim of the program reads the real one.

use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time now. It may jump in either direction; whoever counts must bear that.
    fn now(&self) -> Timestamp;
}

/// A time as stores keep it: nanoseconds since 1970. What lies before 1677 or after 2262 is moved to there.
pub(crate) fn to_unix_nanoseconds(at: Timestamp) -> i64 {
    let nanosecond = at.as_nanosecond();
    nanosecond.try_into().unwrap_or(if nanosecond < 0 { i64::MIN } else { i64::MAX })
}

/// A time that was kept.
pub(crate) fn from_unix_nanoseconds(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::MAX)
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
}

impl ManualClock {
    /// Starts at a time.
    pub fn at(now: Timestamp) -> Self {
        Self { now: Mutex::new(now) }
    }

    /// Moves on.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        *now = now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }

    /// Jumps, in either direction.
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
