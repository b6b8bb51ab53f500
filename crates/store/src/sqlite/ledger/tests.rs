//! Faults that only the inside of the writer can bring about.

use super::*;
use crate::clock::ManualClock;
use crate::record::{CallId, Kind};

fn record(number: u8) -> Record {
    let at: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
    let mut record = Record::new(Kind::Intent, CallId::new(at, [number; 10]), at);
    record.message = Some("x".repeat(30_000).into());
    record
}

fn open(dir: &Path) -> SqliteLedger {
    let clock = Arc::new(ManualClock::at(record(0).at));
    SqliteLedger::open(dir, Durability::Process, clock).expect("a ledger")
}

async fn count(ledger: &SqliteLedger) -> usize {
    ledger.rows(Filter { limit: 1_000, ..Filter::default() }).await.expect("rows").len()
}

/// Does something to the writer's connection. It lasts until the writer opens the database again, as it does after
/// any fault but a lock.
async fn tamper(ledger: &SqliteLedger, with: fn(&rusqlite::Connection)) {
    ledger.ask(|answer| Job::Tamper(with, answer)).await.expect("tampered");
}

fn fill(db: &rusqlite::Connection) {
    db.query_row("PRAGMA max_page_count = 1", [], |_| Ok(())).expect("no page more than there are");
}

fn close(db: &rusqlite::Connection) {
    db.pragma_update(None, "query_only", true).expect("read-only");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_or_read_only_disk_refuses_calls_and_loses_no_row_that_was_queued() {
    for fault in [fill, close] {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = open(dir.path());
        tamper(&ledger, fault).await;
        let refused = ledger.reserve(vec![], record(1)).await.expect_err("no room");
        assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
        assert_eq!(count(&ledger).await, 0);

        tamper(&ledger, fault).await;
        ledger.write(record(2)).await.expect("queued");
        let taken = ledger.reserve(vec![], record(3)).await;
        ledger.flush().await.expect("all written");
        assert_eq!(count(&ledger).await, 1 + usize::from(taken.is_ok()));
        assert!(ledger.reserve(vec![], record(4)).await.is_ok());
        assert_eq!(ledger.verify(vec![]).await.expect("a walk").broken, None);
        assert_eq!(ledger.faults(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_fails_leaves_no_trace_in_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    ledger.write(record(1)).await.expect("queued");
    ledger.flush().await.expect("written");
    let before = ledger.head().await.expect("a head");
    // Ends the transaction from under the group, so that its commit fails.
    let end = |db: &rusqlite::Connection| db.execute_batch("ROLLBACK").expect("no transaction");
    ledger.ask(|answer| Job::Tamper(end, answer)).await.expect_err("a failed commit");
    assert_eq!(ledger.head().await.expect("a head"), before);
    ledger.write(record(2)).await.expect("queued");
    ledger.flush().await.expect("written");
    assert_eq!(ledger.verify(vec![before]).await.expect("a walk").rows, 2);
}
