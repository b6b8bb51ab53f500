//! A locked, moved or replaced database: calls are refused in time, nothing is lost, and the ledger recovers by itself.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gatelodge_store::conformance::conformance_support::{daily_charge, record};
use gatelodge_store::{
    CallLog, CallLogFilter, Ledger, RecordKind, ReserveOutcome, Servers, SqliteLedger, SqliteStateStore, StoreError,
};
use rusqlite::Connection;

use crate::files::take;
use crate::ledger;

async fn assert_unavailable(ledger: &SqliteLedger) {
    let since = Instant::now();
    let refused =
        ledger.reserve(vec![daily_charge("calls", 9)], &record(RecordKind::Intent)).await.expect_err("refused");
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert_eq!(refused.to_string().matches("not available").count(), 1, "{refused}");
    assert!(since.elapsed() < Duration::from_millis(2_300), "{:?}", since.elapsed());
}

async fn count(ledger: &SqliteLedger) -> usize {
    ledger.rows(CallLogFilter { limit: 1_000, ..CallLogFilter::default() }).await.expect("rows").len()
}

/// Waits at most five seconds until a call is accepted.
async fn assert_recovers(ledger: &SqliteLedger) {
    let since = Instant::now();
    loop {
        let answer = ledger.reserve(vec![daily_charge("calls", 9)], &record(RecordKind::Intent)).await;
        match answer {
            Ok(outcome) => return assert!(matches!(outcome, ReserveOutcome::Taken(_))),
            Err(error) => assert!(since.elapsed() < Duration::from_secs(5), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_refused_in_time_while_another_process_holds_the_lock() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    assert!(take(&ledger, 9).await);
    let foreign = Connection::open(dir.path().join("ledger.db")).expect("a database");
    foreign.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    // Also for calls that arrive while others wait.
    let ((), (), ()) = tokio::join!(assert_unavailable(&ledger), assert_unavailable(&ledger), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_unavailable(&ledger).await;
    });
    let since = Instant::now();
    ledger.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
    assert!(since.elapsed() < Duration::from_millis(100), "queuing does not wait");
    assert!(matches!(ledger.flush().await, Err(StoreError::Unavailable(_))));
    assert_eq!(count(&ledger).await, 1, "reads continue");
    foreign.execute_batch("COMMIT").expect("unlocked");
    assert_recovers(&ledger).await;
    assert_eq!(count(&ledger).await, 3, "queued rows are written, refused ones are not");
    assert_eq!(ledger.verify(vec![]).await.expect("a walk").chain_break, None);
    assert_eq!(ledger.error_count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_queued_during_a_lock_are_written_without_further_requests() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    let foreign = Connection::open(dir.path().join("ledger.db")).expect("a database");
    foreign.execute_batch("BEGIN IMMEDIATE").expect("locked");
    for _ in 0..100 {
        ledger.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
    }
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    foreign.execute_batch("COMMIT").expect("unlocked");
    let since = Instant::now();
    while count(&ledger).await < 100 {
        assert!(since.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ledger.error_count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_dropped_during_a_lock_ends_and_counts_lost_rows() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = ledger(dir.path());
    let foreign = Connection::open(dir.path().join("ledger.db")).expect("a database");
    foreign.execute_batch("BEGIN IMMEDIATE").expect("locked");
    first.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
    let since = Instant::now();
    drop(first);
    assert!(since.elapsed() < Duration::from_secs(6), "{:?}", since.elapsed());
    foreign.execute_batch("COMMIT").expect("unlocked");
    assert_eq!(count(&ledger(dir.path())).await, 0);
}

fn names(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_refused_until_a_moved_directory_is_back() {
    let outer = tempfile::tempdir().expect("a directory");
    let (dir, away) = (outer.path().join("data"), outer.path().join("away"));
    let ledger = ledger(&dir);
    assert!(take(&ledger, 9).await);
    fs::rename(&dir, &away).expect("moved");
    assert_unavailable(&ledger).await;
    assert!(matches!(ledger.head().await, Err(StoreError::Unavailable(_))));
    ledger.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
    assert!(!dir.exists(), "nothing is created");
    fs::create_dir(&dir).expect("made");
    assert_unavailable(&ledger).await;
    assert_eq!(names(&dir), 0, "nothing is created");
    fs::remove_dir(&dir).expect("removed");
    fs::rename(&away, &dir).expect("moved back");
    assert_recovers(&ledger).await;
    ledger.flush().await.expect("written");
    assert_eq!(count(&ledger).await, 3);
    assert_eq!(ledger.verify(vec![]).await.expect("a walk").chain_break, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_database_is_detected_under_load() {
    for (callers, most) in [(1, 600), (1, 600), (1, 600), (32, 1_000)] {
        assert_detected_by(callers, most).await;
    }
}

/// Checks that a database that is moved away under load is detected within `most` calls of each caller.
async fn assert_detected_by(callers: usize, most: usize) {
    let outer = tempfile::tempdir().expect("a directory");
    let dir = outer.path().join("data");
    let ledger = Arc::new(ledger(&dir));
    let is_gone = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (ledger, is_gone) = (Arc::clone(&ledger), Arc::clone(&is_gone));
            tokio::spawn(async move {
                // Calls that were in flight at that moment may have been confirmed.
                let mut answered = 0;
                loop {
                    let was_gone = is_gone.load(Ordering::Acquire);
                    match ledger.reserve(vec![], &record(RecordKind::Intent)).await {
                        Ok(_) if was_gone => answered += 1,
                        Ok(_) => {}
                        Err(_) => return answered,
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    fs::rename(dir.join("ledger.db"), outer.path().join("elsewhere.db")).expect("moved");
    is_gone.store(true, Ordering::Release);
    let since = Instant::now();
    for caller in callers {
        let answered = caller.await.expect("no panic");
        assert!(answered < most, "{answered} calls were answered by a ledger that is not in its place");
    }
    assert!(since.elapsed() < Duration::from_secs(1), "it was detected late");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_commits_are_checkpointed_before_a_call_has_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    let bytes = |name: &str| fs::metadata(dir.path().join(name)).map_or(0, |file| file.len());
    let before = bytes("ledger.db");
    for _ in 0..400 {
        assert!(take(&ledger, 1_000).await);
        // A read commits the open transaction.
        ledger.head().await.expect("a head");
    }
    let since = Instant::now();
    while bytes("ledger.db") == before {
        assert!(since.elapsed() < Duration::from_secs(5), "the log has {} bytes", bytes("ledger.db-wal"));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(bytes("ledger.db-wal") < 32 << 20, "a commit has checkpointed it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_ledger_is_not_written_to() {
    let outer = tempfile::tempdir().expect("a directory");
    let (dir, away) = (outer.path().join("data"), outer.path().join("away"));
    let first = ledger(&dir);
    for _ in 0..9 {
        assert!(take(&first, 9).await);
    }
    fs::rename(&dir, &away).expect("moved");
    let second = ledger(&dir);
    assert_unavailable(&first).await;
    assert_eq!(count(&second).await, 0);
    drop(second);
    fs::remove_dir_all(&dir).expect("removed");
    fs::rename(&away, &dir).expect("moved back");
    assert!(!take(&first, 9).await, "still used up");
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_the_write_ahead_log_loses_no_confirmed_call() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = ledger(dir.path());
    assert!(take(&first, 2).await);
    fs::remove_file(dir.path().join("ledger.db-wal")).expect("removed");
    assert!(take(&first, 2).await);
    assert!(!take(&first, 2).await);
    drop(first);
    assert!(!take(&ledger(dir.path()), 2).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_head_file_is_created_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    assert!(take(&ledger, 2).await);
    fs::remove_file(dir.path().join("ledger.head")).expect("removed");
    assert!(take(&ledger, 2).await);
    // The head is written after the commit.
    ledger.flush().await.expect("written");
    let kept = fs::read_to_string(dir.path().join("ledger.head")).expect("a head");
    assert_eq!(kept.trim_end(), ledger.head().await.expect("a head").to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_rows_of_a_lost_database_are_limited_and_lost_ones_counted() {
    const KEPT: usize = 100_000;
    let outer = tempfile::tempdir().expect("a directory");
    let (dir, away) = (outer.path().join("data"), outer.path().join("away"));
    let ledger = ledger(&dir);
    fs::rename(&dir, &away).expect("moved");
    for _ in 0..KEPT + 500 {
        ledger.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
    }
    let since = Instant::now();
    while ledger.error_count() < 500 {
        assert!(since.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let since = Instant::now();
    assert_unavailable(&ledger).await;
    assert!(since.elapsed() < Duration::from_secs(1), "a call is refused at once, regardless of the pending rows");
    assert_eq!(ledger.error_count(), 500);
    fs::rename(&away, &dir).expect("moved back");
    // Calls continue while the backlog is written.
    assert_recovers(&ledger).await;
    let since = Instant::now();
    while ledger.head().await.expect("a head").seq < KEPT as u64 + 1 {
        assert!(since.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ledger.flush().await.expect("written");
    let verified = ledger.verify(vec![]).await.expect("a walk");
    assert_eq!((verified.rows, verified.chain_break), (KEPT as u64 + 1, None));
    assert_eq!(ledger.error_count(), 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_for_a_lock_and_a_missing_table_say_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, state) = (ledger(dir.path()), SqliteStateStore::open(dir.path()).expect("a state"));
    let foreign = Connection::open(dir.path().join("ledger.db")).expect("a database");
    foreign.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    let refused =
        ledger.reserve(vec![daily_charge("calls", 9)], &record(RecordKind::Intent)).await.expect_err("refused");
    assert!(refused.to_string().contains("another program holds a lock on it: stop that program"), "{refused}");
    foreign.execute_batch("COMMIT").expect("unlocked");
    let foreign = Connection::open(dir.path().join("state.db")).expect("a database");
    foreign.execute_batch("DROP TABLE servers").expect("dropped");
    let refused = Servers::list(&state).await.expect_err("refused");
    assert!(matches!(&refused, StoreError::Corrupt(_)), "{refused}");
    assert!(refused.to_string().contains("restore the database from a backup"), "{refused}");
}
