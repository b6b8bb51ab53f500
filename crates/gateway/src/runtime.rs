//! Threads, timers, shutdown and limits, without any knowledge of the protocol.

pub(crate) mod coalescing_stream;
pub(crate) mod deadline_timer;
pub(crate) mod entropy;
pub(crate) mod in_flight_limit;
pub(crate) mod workers;

pub(crate) use self::in_flight_limit::{InFlightGuard, InFlightLimit, InFlightSlot};
