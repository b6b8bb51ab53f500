//! Requirements for the call log's hash chain.

use std::time::Duration;

use super::ConformanceBackend;
use super::conformance_support::{START_TIME, daily_charge, record, timestamp};
use crate::{CallRecord, ChainBreak, ChainHead, RecordKind};

/// Writes `count` rows an hour apart, the first at noon.
async fn write_hourly(store: &ConformanceBackend, count: u64) {
    for hour in 0..count {
        store
            .write(CallRecord {
                at: timestamp(START_TIME) + Duration::from_secs(hour * 3_600),
                ..record(RecordKind::PolicyExempt)
            })
            .await;
    }
    store.flush().await;
}

fn hour(number: u64) -> jiff::Timestamp {
    timestamp(START_TIME) + Duration::from_secs(number * 3_600)
}

async fn head(store: &ConformanceBackend) -> ChainHead {
    store.ledger.head().await.expect("a head")
}

pub async fn the_chain_verifies_and_ends_at_its_head(store: &ConformanceBackend) {
    let _spent = store.reserve_ok(vec![daily_charge("calls", 9)]).await;
    write_hourly(store, 4).await;
    let verified = store.ledger.verify(vec![]).await.expect("a walk");
    assert_eq!((verified.rows, verified.head, verified.chain_break), (5, head(store).await, None));
    assert_eq!(verified.head.seq, 5);
}

pub async fn a_known_head_verifies_and_a_foreign_one_fails(store: &ConformanceBackend) {
    write_hourly(store, 2).await;
    let kept = head(store).await;
    write_hourly(store, 2).await;
    let now = head(store).await;
    assert_eq!(store.ledger.verify(vec![kept, now, ChainHead::EMPTY]).await.expect("a walk").chain_break, None);
    let foreign = ChainHead { hash: now.hash, ..kept };
    let verified = store.ledger.verify(vec![now, foreign]).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Rewritten { seq: 2 }));
    let longer = ChainHead { seq: 5, ..now };
    let verified = store.ledger.verify(vec![kept, longer]).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Truncated { end: 4, known: 5 }));
}

pub async fn an_empty_log_verifies(store: &ConformanceBackend) {
    let verified = store.ledger.verify(vec![]).await.expect("a walk");
    assert_eq!((verified.rows, verified.head, verified.chain_break), (0, ChainHead::EMPTY, None));
    let once = ChainHead { seq: 1, ..ChainHead::EMPTY };
    assert_eq!(
        store.ledger.verify(vec![once]).await.expect("a walk").chain_break,
        Some(ChainBreak::Truncated { end: 0, known: 1 })
    );
}

pub async fn pruning_leaves_an_anchor_and_a_row_about_it(store: &ConformanceBackend) {
    write_hourly(store, 2).await;
    let early = head(store).await;
    write_hourly(store, 6).await;
    store.clock.set(hour(9));
    // Rows 1 and 2 are from hours 0 and 1, rows 3 to 8 from hours 0 to 5.
    assert_eq!(store.ledger.prune(hour(2)).await.expect("removed"), 4);
    let rows = store.rows().await;
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    let last = &rows[4].record;
    assert_eq!((last.kind, last.at, last.count), (RecordKind::Pruned, hour(9), Some(4)));
    let through: ChainHead = last.through.as_ref().expect("the last removed").parse().expect("a head");
    assert_eq!(through.seq, 4);
    let verified = store.ledger.verify(vec![early, through, head(store).await]).await.expect("a walk");
    assert_eq!((verified.rows, verified.chain_break), (5, None));
    let foreign = ChainHead { hash: early.hash, ..through };
    let verified = store.ledger.verify(vec![foreign]).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Rewritten { seq: 4 }));
}

pub async fn pruning_again_moves_the_anchor(store: &ConformanceBackend) {
    write_hourly(store, 6).await;
    store.clock.set(hour(9));
    assert_eq!(store.ledger.prune(hour(2)).await.expect("removed"), 2);
    assert_eq!(store.ledger.prune(hour(4)).await.expect("removed"), 2);
    assert_eq!(store.ledger.prune(hour(4)).await.expect("nothing"), 0);
    assert_eq!(store.rows().await.iter().map(|row| row.seq).collect::<Vec<_>>(), [5, 6, 7, 8]);
    store.assert_chain_valid().await;
    write_hourly(store, 1).await;
    store.assert_chain_valid().await;
}

pub async fn pruning_everything_keeps_the_chain(store: &ConformanceBackend) {
    write_hourly(store, 3).await;
    store.clock.set(hour(9));
    assert_eq!(store.ledger.prune(hour(8)).await.expect("removed"), 3);
    assert_eq!(store.ledger.prune(hour(10)).await.expect("removed"), 1);
    assert_eq!(head(store).await.seq, 5);
    write_hourly(store, 1).await;
    assert_eq!(store.rows().await.iter().map(|row| row.seq).collect::<Vec<_>>(), [5, 6]);
    store.assert_chain_valid().await;
}

pub async fn pruning_removes_only_older_rows(store: &ConformanceBackend) {
    assert_eq!(store.ledger.prune(hour(9)).await.expect("nothing"), 0);
    write_hourly(store, 2).await;
    // A row of exactly that time is not older.
    assert_eq!(store.ledger.prune(hour(0)).await.expect("nothing"), 0);
    assert_eq!(store.rows().await.len(), 2);
    store.assert_chain_valid().await;
}

pub async fn an_old_row_after_a_newer_one_stays(store: &ConformanceBackend) {
    for number in [0, 5, 1, 6] {
        store.write(CallRecord { at: hour(number), ..record(RecordKind::PolicyExempt) }).await;
    }
    store.flush().await;
    // The third row is old too, but a chain is only pruned from its start.
    assert_eq!(store.ledger.prune(hour(3)).await.expect("removed"), 1);
    assert_eq!(store.rows().await.iter().map(|row| row.seq).collect::<Vec<_>>(), [2, 3, 4, 5]);
    store.assert_chain_valid().await;
}
