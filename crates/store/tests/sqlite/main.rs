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
use gatelodge_store::{Durability, ManualClock, SqliteLedger, SqliteStateStore};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(conformance_support::timestamp(conformance_support::START_TIME)))
}

fn ledger(dir: &Path) -> SqliteLedger {
    SqliteLedger::open(dir, Durability::Process, clock()).expect("a ledger")
}

fn open() -> ConformanceBackend {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = clock();
    let state = Arc::new(SqliteStateStore::open(dir.path()).expect("a state"));
    let ledger = SqliteLedger::open(dir.path(), Durability::Process, clock.clone()).expect("a ledger");
    ConformanceBackend {
        servers: state.clone(),
        tool_pins: state.clone(),
        sessions: state.clone(),
        tasks: state.clone(),
        policies: state.clone(),
        grants: state.clone(),
        admin_log: state.clone(),
        change_feed: state,
        ledger: Arc::new(ledger),
        clock,
        temp_dir_guard: Box::new(dir),
    }
}

gatelodge_store::conformance!(open);
