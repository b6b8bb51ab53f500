//! The one place where the system's clock is read.

use std::sync::Arc;

use gatelodge_store::Clock;
use jiff::Timestamp;

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the door through which time comes in")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The system's clock.
pub fn system_clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
