//! The memory backend passes the suite.

use std::sync::Arc;

use gatelodge_store::conformance::{Backend, kit};
use gatelodge_store::{ManualClock, MemoryStore};

fn open() -> Backend {
    let clock = Arc::new(ManualClock::at(kit::at(kit::NOON)));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    Backend {
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
        keeper: Box::new(()),
    }
}

gatelodge_store::conformance!(open);
