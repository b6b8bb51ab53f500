//! The only place where the system clock is read.

use std::sync::Arc;

use gatelodge_store::Clock;
use jiff::Timestamp;

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place where the system clock is read")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Returns the system clock.
pub fn system_clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
