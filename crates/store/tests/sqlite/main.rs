//! Conformance of the SQLite backend, and its behavior with files, faults and several processes.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod database_faults;
mod files;
mod killed_process;
mod state_changes;
mod tamper;
mod two_processes;

use std::path::Path;
use std::sync::Arc;

use gatelodge_store::conformance::{ConformanceBackend, conformance_support};
use gatelodge_store::{Durability, ManualClock, SqliteLedger, Store};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(conformance_support::timestamp(conformance_support::START_TIME)))
}

fn ledger(dir: &Path) -> SqliteLedger {
    SqliteLedger::open(dir, Durability::Process, clock()).expect("a ledger")
}

async fn open() -> ConformanceBackend {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = clock();
    let store = Store::open_sqlite(dir.path(), Durability::Process, clock.clone()).expect("a store");
    ConformanceBackend { store, clock, temp_dir_guard: Box::new(dir) }
}

gatelodge_store::conformance!(open);
