//! Two ledgers open the same directory, like two processes.

use std::sync::Arc;
use std::time::Duration;

use gatelodge_policy::{Amount, LimitWindow, WindowAlignment};
use gatelodge_store::conformance::conformance_support::{calls, counter_charge, daily_charge, not_sent_record, record};
use gatelodge_store::{CallLog, Ledger, RecordKind, Reservation, ReserveOutcome, SqliteLedger};
use tokio::task::JoinSet;

use crate::files::take;
use crate::ledger;

const LIMIT: u32 = 1_000;

async fn take_all(ledger: Arc<SqliteLedger>) -> u32 {
    let mut taken = 0;
    loop {
        let rolling =
            counter_charge("rolling", (LimitWindow::Seconds(60), WindowAlignment::Rolling), calls(LIMIT), Amount::ONE);
        let claims = vec![daily_charge("calls", LIMIT), rolling];
        match ledger.reserve(claims, &record(RecordKind::Intent)).await.expect("an answer") {
            ReserveOutcome::Taken(_) => taken += 1,
            ReserveOutcome::Exhausted(_) => return taken,
        }
        ledger.write(&record(RecordKind::Outcome)).await.expect("queued");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ledgers_never_exceed_the_limit_and_write_one_chain() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledgers = [Arc::new(ledger(dir.path())), Arc::new(ledger(dir.path()))];
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        for ledger in &ledgers {
            tasks.spawn(take_all(Arc::clone(ledger)));
        }
    }
    let taken: u32 = tasks.join_all().await.into_iter().sum();
    assert_eq!(taken, LIMIT);
    for ledger in &ledgers {
        ledger.flush().await.expect("written");
        assert_eq!(ledger.error_count(), 0);
    }
    let verified = ledgers[0].verify(vec![]).await.expect("a walk");
    assert_eq!((verified.rows, verified.chain_break), (u64::from(2 * LIMIT), None));
}

async fn reserve(ledger: &SqliteLedger) -> Reservation {
    match ledger.reserve(vec![daily_charge("calls", 2)], &record(RecordKind::Intent)).await.expect("an answer") {
        ReserveOutcome::Taken(reservation) => reservation,
        ReserveOutcome::Exhausted(exhausted) => panic!("no room: {exhausted:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_ledger_sees_charges_and_refunds_of_the_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, other) = (ledger(dir.path()), ledger(dir.path()));
    let reservation = reserve(&one).await;
    let _spent = reserve(&other).await;
    assert!(!take(&one, 2).await);
    assert!(!take(&other, 2).await);
    one.release(reservation, &not_sent_record()).await.expect("queued");
    one.flush().await.expect("written");
    let from_other = reserve(&other).await;
    assert!(!take(&one, 2).await);
    // A reservation of one ledger can be released by the other.
    one.release(from_other, &not_sent_record()).await.expect("queued");
    one.flush().await.expect("written");
    assert!(take(&other, 2).await);
    assert_eq!(other.verify(vec![]).await.expect("a walk").chain_break, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn verifying_the_chain_does_not_block_the_writer() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = Arc::new(ledger(dir.path()));
    for _ in 0..20_000 {
        ledger.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
    }
    ledger.flush().await.expect("written");
    let walker = Arc::clone(&ledger);
    let walk = tokio::spawn(async move { walker.verify(vec![]).await.expect("a walk") });
    let mut slowest = Duration::ZERO;
    let mut calls = 0;
    while !walk.is_finished() {
        let since = std::time::Instant::now();
        assert!(take(&ledger, 100_000).await);
        slowest = slowest.max(since.elapsed());
        calls += 1;
    }
    let verified = walk.await.expect("a task");
    assert_eq!(verified.chain_break, None);
    assert!(verified.rows >= 20_000);
    assert!(slowest < Duration::from_secs(1) && calls > 0, "{slowest:?}, {calls} calls");
}
