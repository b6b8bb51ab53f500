//! What reading the call log owes.

use gatelodge_policy::Category;

use super::Backend;
use super::kit::record;
use crate::{Filter, GrantId, Kind, Outcome, PolicyVersion, Record, Timings};

const NONE: [u64; 0] = [];

pub async fn rows_come_oldest_first_and_only_the_newest(store: &Backend) {
    for _ in 0..5 {
        store.write(record(Kind::Passed)).await;
    }
    assert_eq!(seqs(store, Filter { limit: 2, ..Filter::default() }).await, [4, 5]);
    assert_eq!(seqs(store, Filter { limit: 9, ..Filter::default() }).await, [1, 2, 3, 4, 5]);
    assert_eq!(seqs(store, Filter { limit: 0, ..Filter::default() }).await, NONE);
    assert_eq!(seqs(store, Filter { limit: 9, after: Some(3), ..Filter::default() }).await, [4, 5]);
    assert_eq!(seqs(store, Filter { limit: 1, after: Some(3), ..Filter::default() }).await, [5]);
    assert_eq!(seqs(store, Filter { limit: 9, after: Some(5), ..Filter::default() }).await, NONE);
}

async fn seqs(store: &Backend, filter: Filter) -> Vec<u64> {
    store.flush().await;
    store.ledger.rows(filter).await.expect("rows").iter().map(|row| row.seq).collect()
}

pub async fn each_filter_admits_its_rows_alone(store: &Backend) {
    let target = "say \"hi\"\\ä";
    let plain = record(Kind::Intent);
    let known = Record {
        grant: Some(GrantId("g1".into())),
        label: Some("agent".into()),
        server: "zoo".parse().ok(),
        target: Some(target.into()),
        ..record(Kind::Intent)
    };
    // The words of the others stand in it, but elsewhere.
    let decoy = Record { message: Some("g1 agent zoo".into()), method: Some("zoo".into()), ..record(Kind::Refused) };
    let observed = Record { observed: true, label: Some("g1".into()), ..record(Kind::Intent) };
    for row in [plain, known.clone(), decoy, observed] {
        store.write(row).await;
    }
    let all = || Filter { limit: 9, ..Filter::default() };
    assert_eq!(seqs(store, Filter { grant: Some("g1".into()), ..all() }).await, [2, 4]);
    assert_eq!(seqs(store, Filter { grant: Some("agent".into()), ..all() }).await, [2]);
    assert_eq!(seqs(store, Filter { server: Some("zoo".into()), ..all() }).await, [2]);
    assert_eq!(seqs(store, Filter { target: Some(target.into()), ..all() }).await, [2]);
    assert_eq!(seqs(store, Filter { call: Some(known.call.to_string()), ..all() }).await, [2]);
    assert_eq!(seqs(store, Filter { refused: true, ..all() }).await, [3, 4]);
    assert_eq!(seqs(store, Filter { refused: true, server: Some("zoo".into()), ..all() }).await, NONE);
    assert_eq!(seqs(store, Filter { server: Some("zo".into()), ..all() }).await, NONE);
}

pub async fn a_record_comes_back_as_it_was_written(store: &Backend) {
    let mut full = record(Kind::Outcome);
    full.grant = Some(GrantId("g1".into()));
    full.request = Some("\"1\"".into());
    full.policy = "books".parse().ok();
    full.policy_version = Some(PolicyVersion(3));
    full.message = Some("line\nbreak \u{1f4a1} \0".into());
    full.category = Some(Category::Financial);
    full.argument_keys = vec!["a".into(), "b".into()];
    full.outcome = Some(Outcome::ToolError);
    full.upstream_status = Some(200);
    full.timings = Some(Timings { decide: 1, reserve: 2, upstream: 3 });
    full.count = Some(u64::MAX);
    store.write(full.clone()).await;
    assert_eq!(store.rows().await[0].record, full);
}
