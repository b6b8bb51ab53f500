//! A database that is locked, moved away or replaced: calls are refused in time, nothing is lost, and it ends by itself.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gatelodge_store::conformance::support::{daily_charge, record};
use gatelodge_store::{
    CallLogFilter, Ledger, RecordKind, ReserveOutcome, Servers, SqliteLedger, SqliteState, StoreError,
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

/// Waits until a call is taken, at most five seconds.
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
async fn a_foreign_lock_refuses_in_time_and_ends_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    assert!(take(&ledger, 9).await);
    let foreign = Connection::open(dir.path().join("ledger.db")).expect("a database");
    foreign.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    // Also for those who come while others wait.
    let ((), (), ()) = tokio::join!(assert_unavailable(&ledger), assert_unavailable(&ledger), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_unavailable(&ledger).await;
    });
    let since = Instant::now();
    ledger.write(&record(RecordKind::Unchecked)).await.expect("queued");
    assert!(since.elapsed() < Duration::from_millis(100), "queueing waits for nobody");
    assert!(matches!(ledger.flush().await, Err(StoreError::Unavailable(_))));
    assert_eq!(count(&ledger).await, 1, "reading goes on");
    foreign.execute_batch("COMMIT").expect("unlocked");
    assert_recovers(&ledger).await;
    assert_eq!(count(&ledger).await, 3, "what was queued is written, what was refused is not");
    assert_eq!(ledger.verify(vec![]).await.expect("a walk").chain_break, None);
    assert_eq!(ledger.error_count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_queued_during_a_lock_is_written_though_nobody_asks() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    let foreign = Connection::open(dir.path().join("ledger.db")).expect("a database");
    foreign.execute_batch("BEGIN IMMEDIATE").expect("locked");
    for _ in 0..100 {
        ledger.write(&record(RecordKind::Unchecked)).await.expect("queued");
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
async fn a_ledger_dropped_under_a_lock_ends_and_counts_what_it_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = ledger(dir.path());
    let foreign = Connection::open(dir.path().join("ledger.db")).expect("a database");
    foreign.execute_batch("BEGIN IMMEDIATE").expect("locked");
    first.write(&record(RecordKind::Unchecked)).await.expect("queued");
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
async fn a_directory_that_was_moved_away_refuses_until_it_is_back() {
    let outer = tempfile::tempdir().expect("a directory");
    let (dir, away) = (outer.path().join("data"), outer.path().join("away"));
    let ledger = ledger(&dir);
    assert!(take(&ledger, 9).await);
    fs::rename(&dir, &away).expect("moved");
    assert_unavailable(&ledger).await;
    assert!(matches!(ledger.head().await, Err(StoreError::Unavailable(_))));
    ledger.write(&record(RecordKind::Unchecked)).await.expect("queued");
    assert!(!dir.exists(), "nothing is made anew");
    fs::create_dir(&dir).expect("made");
    assert_unavailable(&ledger).await;
    assert_eq!(names(&dir), 0, "nothing is made anew");
    fs::remove_dir(&dir).expect("removed");
    fs::rename(&away, &dir).expect("moved back");
    assert_recovers(&ledger).await;
    ledger.flush().await.expect("written");
    assert_eq!(count(&ledger).await, 3);
    assert_eq!(ledger.verify(vec![]).await.expect("a walk").chain_break, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_moved_away_is_missed_however_many_calls_come() {
    for (callers, most) in [(1, 600), (1, 600), (1, 600), (32, 1_000)] {
        is_missed_by(callers, most).await;
    }
}

/// Holds that a database which is moved away while so many call is missed before more than so many calls of each.
async fn is_missed_by(callers: usize, most: usize) {
    let outer = tempfile::tempdir().expect("a directory");
    let dir = outer.path().join("data");
    let ledger = Arc::new(ledger(&dir));
    let is_gone = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (ledger, is_gone) = (Arc::clone(&ledger), Arc::clone(&is_gone));
            tokio::spawn(async move {
                // Those that were under way when it went may have been answered.
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
    assert!(since.elapsed() < Duration::from_secs(1), "it was missed late");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_commits_are_carried_over_before_a_call_has_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    let bytes = |name: &str| fs::metadata(dir.path().join(name)).map_or(0, |file| file.len());
    let before = bytes("ledger.db");
    for _ in 0..400 {
        assert!(take(&ledger, 1_000).await);
        // Who reads has it committed.
        ledger.head().await.expect("a head");
    }
    let since = Instant::now();
    while bytes("ledger.db") == before {
        assert!(since.elapsed() < Duration::from_secs(5), "the log has {} bytes", bytes("ledger.db-wal"));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(bytes("ledger.db-wal") < 32 << 20, "a commit has carried it over");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_ledger_in_its_place_is_not_written_to() {
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
async fn a_write_ahead_log_that_was_removed_loses_nothing_that_was_answered() {
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
async fn a_head_file_that_was_removed_is_made_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    assert!(take(&ledger, 2).await);
    fs::remove_file(dir.path().join("ledger.head")).expect("removed");
    assert!(take(&ledger, 2).await);
    // It is kept with the commit.
    ledger.flush().await.expect("written");
    let kept = fs::read_to_string(dir.path().join("ledger.head")).expect("a head");
    assert_eq!(kept.trim_end(), ledger.head().await.expect("a head").to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_for_a_lost_database_is_bounded_and_what_is_not_kept_is_counted() {
    const KEPT: usize = 100_000;
    let outer = tempfile::tempdir().expect("a directory");
    let (dir, away) = (outer.path().join("data"), outer.path().join("away"));
    let ledger = ledger(&dir);
    fs::rename(&dir, &away).expect("moved");
    for _ in 0..KEPT + 500 {
        ledger.write(&record(RecordKind::Unchecked)).await.expect("queued");
    }
    let since = Instant::now();
    while ledger.error_count() < 500 {
        assert!(since.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let since = Instant::now();
    assert_unavailable(&ledger).await;
    assert!(since.elapsed() < Duration::from_secs(1), "a call is refused at once, however much is pending");
    assert_eq!(ledger.error_count(), 500);
    fs::rename(&away, &dir).expect("moved back");
    // Calls go on while it is made up for.
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
async fn a_lock_and_a_missing_table_are_told_with_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, state) = (ledger(dir.path()), SqliteState::open(dir.path()).expect("a state"));
    let foreign = Connection::open(dir.path().join("ledger.db")).expect("a database");
    foreign.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    let refused =
        ledger.reserve(vec![daily_charge("calls", 9)], &record(RecordKind::Intent)).await.expect_err("refused");
    assert!(refused.to_string().contains("another program holds a lock on it: end that"), "{refused}");
    foreign.execute_batch("COMMIT").expect("unlocked");
    let foreign = Connection::open(dir.path().join("state.db")).expect("a database");
    foreign.execute_batch("DROP TABLE servers").expect("dropped");
    let refused = Servers::list(&state).await.expect_err("refused");
    assert!(matches!(&refused, StoreError::Corrupt(_)), "{refused}");
    assert!(refused.to_string().contains("restore the database from a backup"), "{refused}");
}
