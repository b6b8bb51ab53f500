//! The threads of a ledger end with it. In a test binary of its own, so that no other test has threads of that name.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatelodge_store::conformance::conformance_support::{START_TIME, record, timestamp};
use gatelodge_store::{Durability, Ledger, ManualClock, RecordKind, SqliteLedger};

fn ledger_thread_count() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("threads");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("ledger-")).count()
}

// A thread gets its name when it first runs, and leaves the list shortly after it was joined.
async fn assert_becomes(count: usize) {
    let since = Instant::now();
    while ledger_thread_count() != count {
        assert!(since.elapsed() < Duration::from_secs(5), "{} threads, not {count}", ledger_thread_count());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_ledger_ends_its_threads() {
    let dir = tempfile::tempdir().expect("a directory");
    for durability in [Durability::Process, Durability::Power] {
        let clock = Arc::new(ManualClock::at(timestamp(START_TIME)));
        let ledger = SqliteLedger::open(dir.path(), durability, clock).expect("a ledger");
        ledger.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
        ledger.flush().await.expect("written");
        assert_becomes(2).await;
        drop(ledger);
        assert_becomes(0).await;
    }
}
