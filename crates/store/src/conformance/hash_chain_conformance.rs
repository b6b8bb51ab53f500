//! Requirements for the call log's hash chain.

use std::time::Duration;

use super::ConformanceBackend;
use super::conformance_support::{START_TIME, daily_charge, record, timestamp};
use crate::{CallRecord, ChainBreak, ChainHead, RecordKind};

/// Writes `count` rows an hour apart, the first at noon.
async fn write_hourly(backend: &ConformanceBackend, count: u64) {
    for hour in 0..count {
        backend
            .write(CallRecord {
                at: timestamp(START_TIME) + Duration::from_secs(hour * 3_600),
                ..record(RecordKind::PolicyExempt)
            })
            .await;
    }
    backend.flush().await;
}

fn hour(number: u64) -> jiff::Timestamp {
    timestamp(START_TIME) + Duration::from_secs(number * 3_600)
}

async fn head(backend: &ConformanceBackend) -> ChainHead {
    backend.store.call_log.head().await.expect("a head")
}

pub async fn the_chain_verifies_and_ends_at_its_head(backend: &ConformanceBackend) {
    let _spent = backend.reserve_ok(vec![daily_charge("calls", 9)]).await;
    write_hourly(backend, 4).await;
    let verified = backend.store.call_log.verify(vec![]).await.expect("a walk");
    assert_eq!((verified.rows, verified.head, verified.chain_break), (5, head(backend).await, None));
    assert_eq!(verified.head.seq, 5);
}

pub async fn a_known_head_verifies_and_a_foreign_one_fails(backend: &ConformanceBackend) {
    write_hourly(backend, 2).await;
    let kept = head(backend).await;
    write_hourly(backend, 2).await;
    let now = head(backend).await;
    assert_eq!(
        backend.store.call_log.verify(vec![kept, now, ChainHead::EMPTY]).await.expect("a walk").chain_break,
        None
    );
    let foreign = ChainHead { hash: now.hash, ..kept };
    let verified = backend.store.call_log.verify(vec![now, foreign]).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Rewritten { seq: 2 }));
    let longer = ChainHead { seq: 5, ..now };
    let verified = backend.store.call_log.verify(vec![kept, longer]).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Truncated { end: 4, known: 5 }));
}

pub async fn an_empty_log_verifies(backend: &ConformanceBackend) {
    let verified = backend.store.call_log.verify(vec![]).await.expect("a walk");
    assert_eq!((verified.rows, verified.head, verified.chain_break), (0, ChainHead::EMPTY, None));
    let once = ChainHead { seq: 1, ..ChainHead::EMPTY };
    assert_eq!(
        backend.store.call_log.verify(vec![once]).await.expect("a walk").chain_break,
        Some(ChainBreak::Truncated { end: 0, known: 1 })
    );
}

pub async fn pruning_leaves_an_anchor_and_a_row_about_it(backend: &ConformanceBackend) {
    write_hourly(backend, 2).await;
    let early = head(backend).await;
    write_hourly(backend, 6).await;
    backend.clock.set(hour(9));
    // Rows 1 and 2 are from hours 0 and 1, rows 3 to 8 from hours 0 to 5.
    assert_eq!(backend.store.call_log.prune(hour(2)).await.expect("removed"), 4);
    let rows = backend.rows().await;
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    let last = &rows[4].record;
    assert_eq!((last.kind, last.at, last.count), (RecordKind::Pruned, hour(9), Some(4)));
    let through: ChainHead = last.through.as_ref().expect("the last removed").parse().expect("a head");
    assert_eq!(through.seq, 4);
    let verified = backend.store.call_log.verify(vec![early, through, head(backend).await]).await.expect("a walk");
    assert_eq!((verified.rows, verified.chain_break), (5, None));
    let foreign = ChainHead { hash: early.hash, ..through };
    let verified = backend.store.call_log.verify(vec![foreign]).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Rewritten { seq: 4 }));
}

pub async fn pruning_again_moves_the_anchor(backend: &ConformanceBackend) {
    write_hourly(backend, 6).await;
    backend.clock.set(hour(9));
    assert_eq!(backend.store.call_log.prune(hour(2)).await.expect("removed"), 2);
    assert_eq!(backend.store.call_log.prune(hour(4)).await.expect("removed"), 2);
    assert_eq!(backend.store.call_log.prune(hour(4)).await.expect("nothing"), 0);
    assert_eq!(backend.rows().await.iter().map(|row| row.seq).collect::<Vec<_>>(), [5, 6, 7, 8]);
    backend.assert_chain_valid().await;
    write_hourly(backend, 1).await;
    backend.assert_chain_valid().await;
}

pub async fn pruning_everything_keeps_the_chain(backend: &ConformanceBackend) {
    write_hourly(backend, 3).await;
    backend.clock.set(hour(9));
    assert_eq!(backend.store.call_log.prune(hour(8)).await.expect("removed"), 3);
    assert_eq!(backend.store.call_log.prune(hour(10)).await.expect("removed"), 1);
    assert_eq!(head(backend).await.seq, 5);
    write_hourly(backend, 1).await;
    assert_eq!(backend.rows().await.iter().map(|row| row.seq).collect::<Vec<_>>(), [5, 6]);
    backend.assert_chain_valid().await;
}

pub async fn pruning_removes_only_older_rows(backend: &ConformanceBackend) {
    assert_eq!(backend.store.call_log.prune(hour(9)).await.expect("nothing"), 0);
    write_hourly(backend, 2).await;
    // A row of exactly that time is not older.
    assert_eq!(backend.store.call_log.prune(hour(0)).await.expect("nothing"), 0);
    assert_eq!(backend.rows().await.len(), 2);
    backend.assert_chain_valid().await;
}

pub async fn an_old_row_after_a_newer_one_stays(backend: &ConformanceBackend) {
    for number in [0, 5, 1, 6] {
        backend.write(CallRecord { at: hour(number), ..record(RecordKind::PolicyExempt) }).await;
    }
    backend.flush().await;
    // The third row is old too, but a chain is only pruned from its start.
    assert_eq!(backend.store.call_log.prune(hour(3)).await.expect("removed"), 1);
    assert_eq!(backend.rows().await.iter().map(|row| row.seq).collect::<Vec<_>>(), [2, 3, 4, 5]);
    backend.assert_chain_valid().await;
}
