//! A ledger's threads end with it. Alone in its process, so that no other test has threads of that name.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatelodge_store::conformance::support::{START_TIME, record, timestamp};
use gatelodge_store::{Durability, Ledger, ManualClock, RecordKind, SqliteLedger};

fn threads_of_ledgers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("threads");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("ledger-")).count()
}

// A thread takes its name only when it first runs, and leaves the list a moment after it was joined.
async fn assert_becomes(count: usize) {
    let since = Instant::now();
    while threads_of_ledgers() != count {
        assert!(since.elapsed() < Duration::from_secs(5), "{} threads, not {count}", threads_of_ledgers());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_ledger_leaves_no_thread() {
    let dir = tempfile::tempdir().expect("a directory");
    for durability in [Durability::Process, Durability::Power] {
        let clock = Arc::new(ManualClock::at(timestamp(START_TIME)));
        let ledger = SqliteLedger::open(dir.path(), durability, clock).expect("a ledger");
        ledger.write(&record(RecordKind::Unchecked)).await.expect("queued");
        ledger.flush().await.expect("written");
        assert_becomes(2).await;
        drop(ledger);
        assert_becomes(0).await;
    }
}
