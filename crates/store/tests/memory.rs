//! Conformance of the memory backend.

use std::sync::Arc;

use gatelodge_store::conformance::{ConformanceBackend, conformance_support};
use gatelodge_store::{ManualClock, Store};

async fn open() -> ConformanceBackend {
    let clock = Arc::new(ManualClock::at(conformance_support::timestamp(conformance_support::START_TIME)));
    ConformanceBackend { store: Store::memory(clock.clone()), clock, temp_dir_guard: Box::new(()) }
}

gatelodge_store::conformance!(open);
