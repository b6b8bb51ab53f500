//! Conformance of the memory backend.

use std::sync::Arc;

use gatelodge_store::conformance::{ConformanceBackend, conformance_support};
use gatelodge_store::{ManualClock, MemoryStore};

fn open() -> ConformanceBackend {
    let clock = Arc::new(ManualClock::at(conformance_support::timestamp(conformance_support::START_TIME)));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    ConformanceBackend {
        servers: store.clone(),
        tool_pins: store.clone(),
        sessions: store.clone(),
        tasks: store.clone(),
        policies: store.clone(),
        grants: store.clone(),
        admin_log: store.clone(),
        change_feed: store.clone(),
        ledger: store,
        clock,
        temp_dir_guard: Box::new(()),
    }
}

gatelodge_store::conformance!(open);
