//! What the log of changes owes.

use std::sync::Arc;

use super::Backend;
use super::kit::{NOON, at};
use crate::{AdminEntry, Break, Head};

pub(super) fn entry(subject: &str) -> AdminEntry {
    AdminEntry {
        at: at(NOON),
        by: "ann".into(),
        action: "grant.create".into(),
        subject: subject.into(),
        detail: serde_json::json!({ "z": 1, "a": "\u{2028}\"", "list": [null, 1.5] }),
    }
}

pub async fn entries_come_back_newest_first(store: &Backend) {
    assert_eq!(store.admin_log.recent(10).await.expect("entries"), []);
    for subject in ["a", "b", "c"] {
        store.admin_log.append(entry(subject)).await.expect("kept");
    }
    assert_eq!(store.admin_log.recent(2).await.expect("entries"), [entry("c"), entry("b")]);
    assert_eq!(store.admin_log.recent(usize::MAX).await.expect("entries").len(), 3);
}

pub async fn the_chain_of_changes_verifies(store: &Backend) {
    assert_eq!(store.admin_log.head().await.expect("a head"), Head::EMPTY);
    store.admin_log.append(entry("a")).await.expect("kept");
    let early = store.admin_log.head().await.expect("a head");
    store.admin_log.append(entry("b")).await.expect("kept");
    let late = store.admin_log.head().await.expect("a head");
    assert_eq!((early.seq, late.seq), (1, 2));
    for known in [None, Some(early), Some(late), Some(Head::EMPTY)] {
        let verified = store.admin_log.verify(known).await.expect("a walk");
        assert_eq!((verified.rows, verified.head, verified.broken), (2, late, None));
    }
    let foreign = Head { seq: 1, hash: late.hash };
    let verified = store.admin_log.verify(Some(foreign)).await.expect("a walk");
    assert_eq!(verified.broken, Some(Break::Rewritten { seq: 1 }));
    let longer = Head { seq: 3, hash: late.hash };
    let verified = store.admin_log.verify(Some(longer)).await.expect("a walk");
    assert_eq!(verified.broken, Some(Break::Cut { end: 2, known: 3 }));
}

pub async fn concurrent_entries_make_one_chain(store: &Backend) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let log = Arc::clone(&store.admin_log);
        tasks.spawn(async move { log.append(entry(&number.to_string())).await.expect("kept") });
    }
    tasks.join_all().await;
    let verified = store.admin_log.verify(None).await.expect("a walk");
    assert_eq!((verified.rows, verified.broken), (16, None));
}
