//! Any manipulation of the rows of the call log is detected.

use std::path::Path;

use gatelodge_store::conformance::conformance_support::{START_TIME, record, timestamp};
use gatelodge_store::{
    AdminLog, AdminLogEntry, CallLog, CallRecord, ChainBreak, ChainHead, ChainReport, Ledger, RecordKind, SqliteLedger,
    SqliteStateStore,
};
use proptest::prelude::*;
use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::ledger;

const ROWS: u64 = 12;

/// A ledger with rows a second apart, and its directory.
async fn filled() -> (TempDir, SqliteLedger) {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    for second in 0..ROWS {
        let at = timestamp(START_TIME) + std::time::Duration::from_secs(second);
        ledger.write(&CallRecord { at, ..record(RecordKind::PolicyExempt) }).await.expect("queued");
    }
    ledger.flush().await.expect("written");
    (dir, ledger)
}

fn execute(dir: &Path, sql: &str) {
    Connection::open(dir.join("ledger.db")).expect("a database").execute_batch(sql).expect("changed");
}

async fn verify(ledger: &SqliteLedger) -> ChainReport {
    ledger.verify(vec![]).await.expect("a walk")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_row_is_detected() {
    let (dir, ledger) = filled().await;
    execute(dir.path(), "DELETE FROM log WHERE seq = 5");
    let verified = verify(&ledger).await;
    assert_eq!(verified.chain_break, Some(ChainBreak::Gap { expected: 5, found: 6 }));
    assert_eq!((verified.rows, verified.head.seq), (4, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn swapped_rows_are_detected() {
    let (dir, ledger) = filled().await;
    let swap = "UPDATE log SET seq = 99 WHERE seq = 5; UPDATE log SET seq = 5 WHERE seq = 6; \
                UPDATE log SET seq = 6 WHERE seq = 99";
    execute(dir.path(), swap);
    assert_eq!(verify(&ledger).await.chain_break, Some(ChainBreak::Modified { seq: 5 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_log_is_detected_after_a_restart() {
    let (dir, first) = filled().await;
    execute(dir.path(), "DELETE FROM log WHERE seq > 9");
    assert_eq!(verify(&first).await.chain_break, Some(ChainBreak::Truncated { end: 9, known: ROWS }));
    drop(first);
    let second = ledger(dir.path());
    second.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
    second.flush().await.expect("written");
    assert_eq!(verify(&second).await.chain_break, Some(ChainBreak::Truncated { end: 10, known: ROWS }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_log_is_detected_after_further_writes() {
    let (dir, ledger) = filled().await;
    execute(dir.path(), "DELETE FROM log WHERE seq > 9");
    ledger.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
    ledger.flush().await.expect("written");
    assert_eq!(verify(&ledger).await.chain_break, Some(ChainBreak::Truncated { end: 10, known: ROWS }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_anchor_is_detected() {
    let (dir, ledger) = filled().await;
    let move_to = |seq: u64| {
        format!(
            "UPDATE anchor SET seq = {seq}, hash = (SELECT hash FROM log WHERE seq = {seq}); \
             DELETE FROM log WHERE seq <= {seq}"
        )
    };
    execute(dir.path(), &move_to(4));
    assert_eq!(verify(&ledger).await.chain_break, Some(ChainBreak::Gap { expected: 1, found: 5 }));

    let (dir, ledger) = filled().await;
    ledger.prune(timestamp(START_TIME) + std::time::Duration::from_secs(3)).await.expect("removed");
    assert_eq!(verify(&ledger).await.chain_break, None);
    execute(dir.path(), &move_to(7));
    assert_eq!(verify(&ledger).await.chain_break, Some(ChainBreak::Gap { expected: 4, found: 8 }));
    execute(dir.path(), "UPDATE anchor SET seq = 3");
    assert!(verify(&ledger).await.chain_break.is_some(), "moved back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewritten_log_is_detected_by_a_known_head() {
    let (_dir, ledger) = filled().await;
    let kept = ledger.head().await.expect("a head");
    let (_other_dir, other) = filled().await;
    let verified = other.verify(vec![kept]).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Rewritten { seq: ROWS }));
    let text = kept.to_string();
    assert_eq!(
        ledger.verify(vec![text.parse::<ChainHead>().expect("a head")]).await.expect("a walk").chain_break,
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_admin_log_entry_is_detected() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = SqliteStateStore::open(dir.path()).expect("a state");
    for subject in ["a", "b", "c"] {
        let entry = AdminLogEntry {
            at: timestamp(START_TIME),
            by: "ann".into(),
            action: "grant.create".into(),
            subject: subject.into(),
            detail: serde_json::Value::Null,
        };
        state.append(entry).await.expect("kept");
    }
    let other = Connection::open(dir.path().join("state.db")).expect("a database");
    other.execute("UPDATE admin_log SET body = replace(body, 'ann', 'bob') WHERE seq = 2", []).expect("changed");
    let verified = AdminLog::verify(&state, None).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Modified { seq: 2 }));
    assert_eq!(verified.rows, 1);
}

/// Flips one bit of one column of one row.
fn flip(db: &Connection, seq: u64, column: &str, byte: usize, bit: u8) {
    let select = format!("SELECT CAST({column} AS BLOB) FROM log WHERE seq = ?");
    let mut bytes: Vec<u8> = db.query_row(&select, [seq], |row| row.get(0)).expect("a row");
    let place = byte % bytes.len();
    bytes[place] ^= 1 << bit;
    let update = match column {
        "hash" => "UPDATE log SET hash = ?1 WHERE seq = ?2",
        _ => "UPDATE log SET body = CAST(?1 AS TEXT) WHERE seq = ?2",
    };
    db.execute(update, params![bytes, seq]).expect("changed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_flipped_bit_is_detected(seq in 1..=ROWS, byte: usize, bit in 0_u8..8, column in 0..3, shift in 0..63) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let (dir, ledger) = filled().await;
            let db = Connection::open(dir.path().join("ledger.db")).expect("a database");
            match column {
                0 => flip(&db, seq, "body", byte, bit),
                1 => flip(&db, seq, "hash", byte, bit),
                _ => {
                    let update = "UPDATE log SET at = (at | ?1) - (at & ?1) WHERE seq = ?2";
                    db.execute(update, params![1_i64 << shift, seq]).expect("changed");
                }
            }
            let verified = verify(&ledger).await;
            prop_assert_eq!(verified.chain_break, Some(ChainBreak::Modified { seq }));
            prop_assert_eq!(verified.rows, seq - 1);
            Ok(())
        })?;
    }
}
