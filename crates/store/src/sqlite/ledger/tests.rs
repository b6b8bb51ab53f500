//! Faults that can only be injected from inside the writer.

mod reply_delivery;

use std::future::Future;
use std::pin::Pin;
use std::sync::Barrier;
use std::task::{Context, Waker};

use gatelodge_policy::{Amount, LimitWindow, WindowAlignment};
use jiff::Timestamp;

use super::*;
use crate::clock::ManualClock;
use crate::model::{CallId, CallLogFilter, CounterKey, RecordKind};
use crate::traits::{CallLog, CounterUsage};

fn record(number: u8) -> CallRecord {
    let at: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
    let mut record = CallRecord::new(RecordKind::Intent, CallId::new(at, [number; 10]), at);
    record.message = Some("x".repeat(30_000).into());
    record
}

fn daily_charge(counter: &str, max: i128) -> CounterCharge {
    let billion = 1_000_000_000;
    CounterCharge {
        key: CounterKey::from_stored(counter),
        window: LimitWindow::Seconds(86_400),
        align: WindowAlignment::Calendar,
        max: Amount::of_billionths(max * billion).expect("an amount"),
        amount: Amount::ONE,
    }
}

fn open(dir: &Path) -> SqliteLedger {
    let clock = Arc::new(ManualClock::at(record(0).at));
    SqliteLedger::open(dir, Durability::Process, clock).expect("a ledger")
}

async fn count(ledger: &SqliteLedger) -> usize {
    ledger.rows(CallLogFilter { limit: 1_000, ..CallLogFilter::default() }).await.expect("rows").len()
}

/// Manipulates the writer's connection. The effect lasts until the writer reopens the database, which it does after any
/// error except a lock.
async fn tamper(ledger: &SqliteLedger, with: fn(&Connection)) {
    ledger.request(|answer| WriterRequest::Tamper(with, answer)).await.expect("tampered");
}

fn fill(db: &Connection) {
    db.query_row("PRAGMA max_page_count = 1", [], |_| Ok(())).expect("no page more than there are");
}

fn close(db: &Connection) {
    db.pragma_update(None, "query_only", true).expect("read-only");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_or_read_only_disk_refuses_calls_and_loses_no_queued_row() {
    for fault in [fill, close] {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = open(dir.path());
        tamper(&ledger, fault).await;
        let refused = ledger.reserve(vec![], &record(1)).await.expect_err("no room");
        assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
        assert_eq!(count(&ledger).await, 0);

        tamper(&ledger, fault).await;
        ledger.write(&record(2)).await.expect("queued");
        let taken = ledger.reserve(vec![], &record(3)).await;
        ledger.flush().await.expect("all written");
        assert_eq!(count(&ledger).await, 1 + usize::from(taken.is_ok()));
        assert!(ledger.reserve(vec![], &record(4)).await.is_ok());
        assert_eq!(ledger.verify(vec![]).await.expect("a walk").chain_break, None);
        assert_eq!(ledger.error_count(), 0);
    }
}

/// Violates a constraint that is only checked at commit.
fn violate_constraint(db: &Connection) {
    let sql = "CREATE TABLE parent (id INTEGER PRIMARY KEY); \
               CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED); \
               INSERT INTO child VALUES (1)";
    db.execute_batch(sql).expect("spoiled");
}

/// Queues a manipulation of the connection without waiting for it.
fn queue(ledger: &SqliteLedger, with: fn(&Connection)) -> oneshot::Receiver<Result<(), StoreError>> {
    let (sender, answer) = oneshot::channel();
    ledger.queue.push(WriterRequest::Tamper(with, sender)).expect("room");
    answer
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_batch_leaves_no_trace_in_memory_or_on_the_disk() {
    static ENTERED: Barrier = Barrier::new(2);
    static LEAVE: Barrier = Barrier::new(2);
    fn pause(_: &Connection) {
        ENTERED.wait();
        LEAVE.wait();
    }
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    ledger.write(&record(1)).await.expect("queued");
    ledger.flush().await.expect("written");
    let before = ledger.head().await.expect("a head");

    // While the writer is paused, a call and a request that makes the commit fail join one batch.
    let held = queue(&ledger, pause);
    ENTERED.wait();
    let claims = vec![daily_charge("calls", 1)];
    let second = record(2);
    let mut reserve = ledger.reserve(claims.clone(), &second);
    assert!(!poll_once(&mut reserve));
    let spoiled = queue(&ledger, violate_constraint);
    LEAVE.wait();
    held.await.expect("an answer").expect("held up");
    assert!(matches!(reserve.await, Err(StoreError::Unavailable(_))));
    spoiled.await.expect("an answer").expect_err("no commit");

    assert_eq!(ledger.head().await.expect("a head"), before);
    assert_eq!(ledger.verify(vec![]).await.expect("a walk").chain_break, None, "the head file is not ahead");
    assert!(matches!(ledger.reserve(claims, &record(3)).await, Ok(ReserveOutcome::Taken(_))), "nothing was taken");
    assert_eq!(ledger.verify(vec![before]).await.expect("a walk").rows, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_waits_for_refunds_in_its_batch() {
    static ENTERED: Barrier = Barrier::new(2);
    static LEAVE: Barrier = Barrier::new(2);
    fn pause(_: &Connection) {
        ENTERED.wait();
        LEAVE.wait();
    }
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    let _first = queue(&ledger, pause);
    ENTERED.wait();
    let first = record(1);
    let mut reserve = ledger.reserve(vec![daily_charge("calls", 1)], &first);
    assert!(!poll_once(&mut reserve));
    let _second = queue(&ledger, pause);
    let mut flush = ledger.flush();
    assert!(!poll_once(&mut flush));
    LEAVE.wait();
    // The call is executed and its batch not yet committed when its caller gives up.
    ENTERED.wait();
    drop(reserve);
    LEAVE.wait();
    flush.await.expect("written");
    assert_eq!(ledger.usage().await.expect("counters")[0].used.billionths(), 0);
    assert_eq!(count(&ledger).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_large_rows_are_limited_while_the_database_is_gone() {
    const ROWS: usize = 2_600;
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    let (here, away) = (dir.path().join(FILE_NAME), dir.path().join("away"));
    std::fs::rename(&here, &away).expect("moved away");
    for _ in 0..ROWS {
        ledger.write(&record(1)).await.expect("queued");
    }
    ledger.flush().await.expect_err("no database");
    std::fs::rename(&away, &here).expect("back");
    let since = std::time::Instant::now();
    while ledger.flush().await.is_err() {
        assert!(since.elapsed() < Duration::from_secs(60), "pending rows are not written");
    }
    let lost = usize::try_from(ledger.error_count()).expect("a number");
    let rows = ledger.rows(CallLogFilter { limit: ROWS, ..CallLogFilter::default() }).await.expect("rows").len();
    // Each has 30 KB, so 64 MiB hold about 2,200 of them.
    assert!(rows > 2_000 && rows < 2_300, "{rows} kept, {lost} lost");
    assert_eq!(rows + lost, ROWS, "lost rows are counted");
}

/// No further call triggers the commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_synced_shortly_after_its_confirmation() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    assert_eq!(ledger.writer_state.syncs(), 0);
    let _taken = ledger.reserve(vec![], &record(1)).await.expect("taken");
    let since = std::time::Instant::now();
    while ledger.writer_state.syncs() == 0 {
        // Far above the guaranteed 50 ms: on a busy machine the thread may be delayed.
        assert!(since.elapsed() < Duration::from_secs(2), "not synced");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(wal_sync::COMMIT_INTERVAL < Duration::from_millis(50));
}

/// On one thread: waiting for the lock there would keep its holder from releasing it.
#[tokio::test]
async fn a_leader_waits_for_no_other_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    let other = Connection::open(dir.path().join(FILE_NAME)).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let since = std::time::Instant::now();
    let letting_go = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        // A statement that may wait does so for 900 ms.
        assert!(since.elapsed() < Duration::from_millis(800), "the thread was blocked");
        other.execute_batch("COMMIT").expect("let go");
    };
    let first = record(1);
    let (reserved, ()) = tokio::join!(ledger.reserve(vec![daily_charge("calls", 1)], &first), letting_go);
    assert!(matches!(reserved, Ok(ReserveOutcome::Taken(_))), "{reserved:?}");
    assert_eq!(count(&ledger).await, 1);
}

#[tokio::test]
async fn concurrent_callers_are_written_in_one_batch_by_a_leader() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    let claims = vec![daily_charge("calls", 3)];
    let ask = async |number| ledger.reserve(claims.clone(), &record(number)).await;
    let (a, b, c, d) = tokio::join!(ask(1), ask(2), ask(3), ask(4));
    let taken = [a, b, c, d].map(|reserved| matches!(reserved, Ok(ReserveOutcome::Taken(_))));
    assert_eq!(taken, [true, true, true, false], "in the order of their requests");
    assert_eq!(ledger.writer_state.thread_runs(), 0, "the writer thread slept");
    assert_eq!(count(&ledger).await, 3);
}

/// An outcome and a call in one batch that a caller leads and that fails.
async fn failed_batch(ledger: &SqliteLedger) {
    tamper(ledger, fill).await;
    ledger.write(&record(1)).await.expect("queued");
    let refused = ledger.reserve(vec![], &record(2)).await.expect_err("no room");
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
}

/// There are no further requests.
#[tokio::test]
async fn rows_of_a_failed_leader_are_written_by_the_thread() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    failed_batch(&ledger).await;
    let since = std::time::Instant::now();
    while count(&ledger).await == 0 {
        assert!(since.elapsed() < Duration::from_secs(5), "the row stays pending");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn rows_of_a_failed_leader_are_written_when_the_ledger_is_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    failed_batch(&ledger).await;
    drop(ledger);
    assert_eq!(count(&open(dir.path())).await, 1);
}

/// Makes every commit of a row fail, on this connection only.
fn refuse_commits(db: &Connection) {
    let sql = "CREATE TABLE parent (id INTEGER PRIMARY KEY); \
               CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED); \
               CREATE TEMP TRIGGER spoils AFTER INSERT ON main.log BEGIN INSERT INTO child VALUES (1); END";
    db.execute_batch(sql).expect("prepared");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_batch_that_cannot_be_committed_is_replayed_from_the_redo_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    tamper(&ledger, refuse_commits).await;
    let claims = vec![daily_charge("calls", 2)];
    assert!(matches!(ledger.reserve(claims.clone(), &record(1)).await, Ok(ReserveOutcome::Taken(_))));
    let since = std::time::Instant::now();
    while count(&ledger).await == 0 {
        assert!(since.elapsed() < Duration::from_secs(5), "the redo log is not replayed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(ledger.reserve(claims.clone(), &record(2)).await, Ok(ReserveOutcome::Taken(_))));
    assert!(matches!(ledger.reserve(claims, &record(3)).await, Ok(ReserveOutcome::Exhausted(_))));
    assert_eq!((count(&ledger).await, ledger.verify(vec![]).await.expect("a walk").chain_break), (2, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_batch_that_cannot_be_committed_is_replayed_at_the_next_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    tamper(&ledger, refuse_commits).await;
    let claims = vec![daily_charge("calls", 1)];
    assert!(matches!(ledger.reserve(claims.clone(), &record(1)).await, Ok(ReserveOutcome::Taken(_))));
    drop(ledger);
    let next = open(dir.path());
    assert!(matches!(next.reserve(claims, &record(2)).await, Ok(ReserveOutcome::Exhausted(_))));
    assert_eq!((count(&next).await, next.verify(vec![]).await.expect("a walk").chain_break), (1, None));
}

/// Number of rows that a plain SQLite connection sees.
fn committed(dir: &Path) -> usize {
    let db = Connection::open(dir.join(FILE_NAME)).expect("a database");
    db.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).expect("a count")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_transaction_stays_open_while_another_process_has_the_ledger_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    let other = open(dir.path());
    for number in 1..=20 {
        let _taken = ledger.reserve(vec![], &record(number)).await.expect("taken");
        assert_eq!(committed(dir.path()), usize::from(number));
    }
    drop(other);
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_ledger_sees_all_confirmed_calls() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    for number in 1..=20 {
        let _taken = ledger.reserve(vec![], &record(number)).await.expect("taken");
        assert_eq!(count(&open(dir.path())).await, usize::from(number));
    }
}

/// Like a process that was stopped while it holds the exclusive lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_exclusive_lock_does_not_block_readers() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    ledger.write(&record(1)).await.expect("queued");
    drop(ledger);
    let journal = std::fs::File::open(dir.path().join("ledger.journal")).expect("a journal");
    journal.lock().expect("a lock");
    let ledger = open(dir.path());
    assert_eq!(count(&ledger).await, 1);
    assert!(matches!(ledger.reserve(vec![], &record(2)).await, Ok(ReserveOutcome::Taken(_))), "the database is free");
    journal.unlock().expect("unlocked");
    assert!(matches!(ledger.reserve(vec![], &record(3)).await, Ok(ReserveOutcome::Taken(_))));
    assert_eq!(count(&ledger).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redo_log_that_starts_with_a_refused_call_is_replayed() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    ledger.write(&record(1)).await.expect("queued");
    ledger.flush().await.expect("written");
    tamper(&ledger, refuse_commits).await;
    assert!(matches!(
        ledger.reserve(vec![daily_charge("none", 0)], &record(2)).await,
        Ok(ReserveOutcome::Exhausted(_))
    ));
    assert!(matches!(ledger.reserve(vec![daily_charge("calls", 1)], &record(3)).await, Ok(ReserveOutcome::Taken(_))));
    drop(ledger);
    assert_eq!(count(&open(dir.path())).await, 2);
}

/// Like a killed process: its transaction is gone, and its confirmed batches are in the redo log.
async fn leave_unreplayed_batch(dir: &Path) {
    let ledger = open(dir);
    tamper(&ledger, refuse_commits).await;
    assert!(matches!(ledger.reserve(vec![daily_charge("calls", 1)], &record(1)).await, Ok(ReserveOutcome::Taken(_))));
    let journal = dir.join("ledger.journal");
    let text = std::fs::read(&journal).expect("a journal");
    let database = std::fs::read(dir.join(FILE_NAME)).expect("a database");
    drop(ledger);
    // Restores the redo log from before the ledger was closed.
    std::fs::write(dir.join(FILE_NAME), database).expect("a database");
    std::fs::write(journal, text).expect("a journal");
}

/// The holder of the database lock writes and must replay the redo log, even without the file lock.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_writer_replays_the_redo_log_without_its_file_lock() {
    let dir = tempfile::tempdir().expect("a directory");
    leave_unreplayed_batch(dir.path()).await;
    let held = std::fs::File::open(dir.path().join("ledger.journal")).expect("a journal");
    held.lock().expect("a lock");
    let foreign = Connection::open(dir.path().join(FILE_NAME)).expect("a database");
    foreign.execute_batch("BEGIN IMMEDIATE").expect("locked");
    // Neither lock is available at the start.
    let ledger = open(dir.path());
    foreign.execute_batch("COMMIT").expect("unlocked");
    let again = ledger.reserve(vec![daily_charge("calls", 1)], &record(2)).await;
    assert!(matches!(again, Ok(ReserveOutcome::Exhausted(_))), "{again:?}");
    assert_eq!((count(&ledger).await, ledger.verify(vec![]).await.expect("a walk").chain_break), (1, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redo_log_that_does_not_follow_the_log_is_saved() {
    let dir = tempfile::tempdir().expect("a directory");
    leave_unreplayed_batch(dir.path()).await;
    let db = Connection::open(dir.path().join(FILE_NAME)).expect("a database");
    db.execute("UPDATE anchor SET hash = randomblob(32)", []).expect("another log");
    drop(db);
    let ledger = open(dir.path());
    assert_eq!(count(&ledger).await, 0);
    assert!(dir.path().join("ledger.journal.lost").exists());
}

/// A process under constant load lets others in.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_can_use_a_busy_ledger() {
    let dir = tempfile::tempdir().expect("a directory");
    let busy = Arc::new(open(dir.path()));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let working = {
        let (busy, stop) = (Arc::clone(&busy), Arc::clone(&stop));
        tokio::spawn(async move {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _taken = busy.reserve(vec![], &record(1)).await.expect("taken");
            }
        })
    };
    for _ in 0..5 {
        let guest = open(dir.path());
        assert!(matches!(
            guest.reserve(vec![daily_charge("calls", 9)], &record(2)).await,
            Ok(ReserveOutcome::Taken(_))
        ));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    working.await.expect("no panic");
    assert_eq!(busy.verify(vec![]).await.expect("a walk").chain_break, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_redo_log_is_created_again_before_the_next_confirmation() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    let _taken = ledger.reserve(vec![], &record(1)).await.expect("taken");
    ledger.flush().await.expect("written");
    std::fs::rename(dir.path().join("ledger.journal"), dir.path().join("elsewhere")).expect("moved");
    let _taken = ledger.reserve(vec![], &record(2)).await.expect("taken");
    assert!(dir.path().join("ledger.journal").exists());
    assert_eq!(count(&ledger).await, 2);
}

/// A runtime without time support cannot create a timer.
#[test]
fn a_reply_that_is_there_needs_no_timer() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let taken = runtime.block_on(ledger.reserve(vec![daily_charge("calls", 1)], &record(1)));
    assert!(matches!(taken, Ok(ReserveOutcome::Taken(_))), "{taken:?}");
}
