//! Threads, timers, shutdown and limits, without any knowledge of the protocol.

pub(crate) mod coalescing_stream;
pub(crate) mod deadline_timer;
pub(crate) mod entropy;
pub(crate) mod in_flight_limit;
mod shutdown;
mod task_tracker;
pub(crate) mod workers;

pub(crate) use self::in_flight_limit::{InFlightGuard, InFlightLimit, InFlightSlot};
pub(crate) use self::shutdown::Shutdown;
pub(crate) use self::task_tracker::TaskTracker;
