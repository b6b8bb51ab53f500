//! Counters in memory: windows, usage, and charging all or none. All functions are pure.

mod counter_map;
mod counter_state;
mod counter_window;

pub(crate) use counter_map::CounterMap;
pub(crate) use counter_state::CounterState;
