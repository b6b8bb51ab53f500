//! Requirements for reading the call log.

use gatelodge_policy::Category;
use sha2::{Digest, Sha256};

use super::ConformanceBackend;
use super::conformance_support::{START_TIME, record, timestamp};
use crate::{
    CallLogFilter, CallOutcome, CallRecord, CallTimings, ChainedRow, GrantId, PolicyVersionNumber, RecordKind, RowHash,
};

const NONE: [u64; 0] = [];

pub async fn the_newest_rows_are_returned_oldest_first(backend: &ConformanceBackend) {
    for _ in 0..5 {
        backend.write(record(RecordKind::PolicyExempt)).await;
    }
    assert_eq!(matching_seqs(backend, CallLogFilter { limit: 2, ..CallLogFilter::default() }).await, [4, 5]);
    assert_eq!(matching_seqs(backend, CallLogFilter { limit: 9, ..CallLogFilter::default() }).await, [1, 2, 3, 4, 5]);
    assert_eq!(matching_seqs(backend, CallLogFilter { limit: 0, ..CallLogFilter::default() }).await, NONE);
    assert_eq!(
        matching_seqs(backend, CallLogFilter { limit: 9, after: Some(3), ..CallLogFilter::default() }).await,
        [4, 5]
    );
    assert_eq!(
        matching_seqs(backend, CallLogFilter { limit: 1, after: Some(3), ..CallLogFilter::default() }).await,
        [5]
    );
    assert_eq!(
        matching_seqs(backend, CallLogFilter { limit: 9, after: Some(5), ..CallLogFilter::default() }).await,
        NONE
    );
    assert_eq!(
        matching_seqs(backend, CallLogFilter { limit: 2, before: Some(4), ..CallLogFilter::default() }).await,
        [2, 3]
    );
    assert_eq!(
        matching_seqs(backend, CallLogFilter { limit: 9, before: Some(1), ..CallLogFilter::default() }).await,
        NONE
    );
}

async fn matching_seqs(backend: &ConformanceBackend, filter: CallLogFilter) -> Vec<u64> {
    backend.flush().await;
    backend.store.call_log.rows(filter).await.expect("rows").iter().map(|row| row.seq).collect()
}

pub async fn each_filter_returns_only_matching_rows(backend: &ConformanceBackend) {
    let target = "say \"hi\"\\ä";
    let plain = record(RecordKind::Intent);
    let known = CallRecord {
        grant: Some(GrantId("g1".into())),
        label: Some("agent".into()),
        server: "zoo".parse().ok(),
        target: Some(target.into()),
        ..record(RecordKind::Intent)
    };
    // It contains the values of the other rows, but in other members.
    let decoy =
        CallRecord { message: Some("g1 agent zoo".into()), method: Some("zoo".into()), ..record(RecordKind::Refused) };
    let observed = CallRecord { observed: true, label: Some("g1".into()), ..record(RecordKind::Intent) };
    for row in [plain, known.clone(), decoy, observed] {
        backend.write(row).await;
    }
    let all = || CallLogFilter { limit: 9, ..CallLogFilter::default() };
    assert_eq!(matching_seqs(backend, CallLogFilter { grant: Some("g1".into()), ..all() }).await, [2, 4]);
    assert_eq!(matching_seqs(backend, CallLogFilter { grant: Some("agent".into()), ..all() }).await, [2]);
    assert_eq!(matching_seqs(backend, CallLogFilter { server: Some("zoo".into()), ..all() }).await, [2]);
    assert_eq!(matching_seqs(backend, CallLogFilter { target: Some(target.into()), ..all() }).await, [2]);
    assert_eq!(matching_seqs(backend, CallLogFilter { call: Some(known.call.to_string()), ..all() }).await, [2]);
    assert_eq!(matching_seqs(backend, CallLogFilter { refused_only: true, ..all() }).await, [3, 4]);
    assert_eq!(
        matching_seqs(backend, CallLogFilter { refused_only: true, server: Some("zoo".into()), ..all() }).await,
        NONE
    );
    assert_eq!(matching_seqs(backend, CallLogFilter { server: Some("zo".into()), ..all() }).await, NONE);
}

pub async fn a_record_is_read_as_it_was_written(backend: &ConformanceBackend) {
    let mut full = record(RecordKind::Outcome);
    full.grant = Some(GrantId("g1".into()));
    full.request = Some("\"1\"".into());
    full.policy = "books".parse().ok();
    full.policy_version = Some(PolicyVersionNumber(3));
    full.message = Some("line\nbreak \u{1f4a1} \0".into());
    full.category = Some(Category::Financial);
    full.argument_keys = vec!["a".into(), "b".into()];
    full.outcome = Some(CallOutcome::ToolError);
    full.upstream_status = Some(200);
    full.timings = Some(CallTimings { decide: 1, reserve: 2, upstream: 3 });
    full.count = Some(u64::MAX);
    full.retry_after_seconds = Some(3_600);
    backend.write(full.clone()).await;
    assert_eq!(backend.rows().await[0].record, full);
}

pub async fn a_healthy_ledger_counts_no_errors(backend: &ConformanceBackend) {
    backend.write(record(RecordKind::PolicyExempt)).await;
    backend.flush().await;
    assert_eq!(backend.store.ledger.error_count(), 0);
}

/// Recomputes the hash of an exported line as described in `docs/operations.md`, without the code under test. Returns
/// the sequence number of the line and its `previous` and `hash` values.
pub(super) fn parse_exported_line(line: &str) -> (u64, RowHash, RowHash) {
    let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let hash = |name: &str| {
        let bytes = data_encoding::HEXLOWER.decode(row[name].as_str().expect("a hash").as_bytes()).expect("digits");
        RowHash(bytes.try_into().expect("32 bytes"))
    };
    let (seq, nanoseconds) = (row["seq"].as_u64().expect("a number"), row["nanoseconds"].as_i64().expect("a time"));
    let (_, fields) = line.split_once(&format!("\"nanoseconds\":{nanoseconds},")).expect("the field before the body");
    let mut digest = Sha256::new();
    digest.update(hash("previous").0);
    digest.update(seq.to_be_bytes());
    digest.update(nanoseconds.to_be_bytes());
    digest.update(format!("{{{fields}"));
    let computed: [u8; 32] = digest.finalize().into();
    assert_eq!(RowHash(computed), hash("hash"), "{line}");
    (seq, hash("previous"), hash("hash"))
}

/// Checks that the rows continue a chain that ends at `end`, and returns the new end of the chain.
pub(super) fn assert_chained(rows: &[ChainedRow], mut end: (u64, RowHash)) -> (u64, RowHash) {
    for row in rows {
        let (seq, previous, hash) = parse_exported_line(&row.to_json_line());
        assert_eq!((seq, previous), (end.0 + 1, end.1));
        end = (seq, hash);
    }
    end
}

pub async fn raw_rows_come_in_pages_with_verifiable_hashes(backend: &ConformanceBackend) {
    let large = CallRecord { message: Some("\u{1f4a1}\"\\".repeat(100_000).into()), ..record(RecordKind::Refused) };
    for number in 0..2_500 {
        backend.write(if number % 1_000 == 7 { large.clone() } else { record(RecordKind::PolicyExempt) }).await;
    }
    backend.flush().await;
    let (mut end, mut pages) = ((0, RowHash::ZERO), 0);
    loop {
        let page = backend.store.call_log.page_after(end.0).await.expect("rows");
        let bytes: usize = page.iter().map(|row| row.body.len()).sum();
        assert!(page.len() <= 1_000 && bytes < 2_500_000, "{} rows, {bytes} bytes", page.len());
        if page.is_empty() {
            break;
        }
        end = assert_chained(&page, end);
        pages += 1;
    }
    let head = backend.store.call_log.head().await.expect("a head");
    assert_eq!((end, 2_500), ((head.seq, head.hash), head.seq));
    assert!(pages > 2, "{pages}");
    let later = backend.store.call_log.page_after(2_498).await.expect("rows");
    assert_eq!(later.iter().map(|row| row.seq).collect::<Vec<_>>(), [2_499, 2_500]);
    assert_eq!(backend.store.call_log.page_after(u64::MAX).await.expect("rows"), []);
    assert_eq!(later[0].parse_call_row().expect("a row").record.kind, RecordKind::PolicyExempt);
}

pub async fn raw_rows_begin_after_the_pruned_ones(backend: &ConformanceBackend) {
    backend.write(record(RecordKind::PolicyExempt)).await;
    backend.write(record(RecordKind::PolicyExempt)).await;
    backend.flush().await;
    let removed = backend.store.call_log.head().await.expect("a head");
    backend.write(CallRecord { at: timestamp("2026-11-16T12:00:00Z"), ..record(RecordKind::PolicyExempt) }).await;
    backend.flush().await;
    assert_eq!(
        backend.store.call_log.prune(timestamp(START_TIME) + std::time::Duration::from_secs(1)).await.expect("removed"),
        2
    );
    let rows = backend.store.call_log.page_after(0).await.expect("rows");
    assert_eq!((rows[0].seq, rows[0].previous), (3, removed.hash));
    assert_chained(&rows, (removed.seq, removed.hash));
}
