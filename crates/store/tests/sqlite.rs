//! SQLite: what only files can show.

use std::sync::Arc;

use gatelodge_store::{
    CallId, Durability, Filter, Kind, Ledger, ManualClock, Record, ReserveOutcome, SqliteLedger, SqliteState,
};
use jiff::Timestamp;

#[tokio::test(flavor = "multi_thread")]
async fn smoke() {
    let dir = tempfile::tempdir().expect("a directory");
    let at: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
    let clock = Arc::new(ManualClock::at(at));
    let dir = dir.path().join("data");
    let _state = SqliteState::open(&dir).expect("state");
    let ledger = SqliteLedger::open(&dir, Durability::Process, clock.clone()).expect("ledger");
    let record = Record::new(Kind::Intent, CallId::new(at, [1; 10]), at);
    let outcome = ledger.reserve(vec![], record.clone()).await.expect("an answer");
    assert!(matches!(outcome, ReserveOutcome::Taken(_)));
    ledger.write(record).await.expect("queued");
    ledger.flush().await.expect("flushed");
    assert_eq!(ledger.rows(Filter { limit: 10, ..Filter::default() }).await.expect("rows").len(), 2);
    let verified = ledger.verify(vec![]).await.expect("a walk");
    assert_eq!((verified.rows, verified.broken), (2, None));
    assert_eq!(ledger.prune(at + std::time::Duration::from_secs(1)).await.expect("pruned"), 2);
    let verified = ledger.verify(vec![]).await.expect("a walk");
    assert_eq!((verified.rows, verified.broken, verified.head.seq), (1, None, 3));
    assert_eq!(ledger.faults(), 0);
}
