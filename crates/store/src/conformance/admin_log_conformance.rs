//! Requirements for the admin log.

use std::sync::Arc;

use super::ConformanceBackend;
use super::call_log_conformance::assert_chained;
use super::conformance_support::{START_TIME, admin_entry, timestamp};
use super::grant_conformance::{attachment, new_grant};
use super::policy_conformance::policy;
use super::server_conformance::server;
use crate::{AdminLogEntry, ChainBreak, ChainHead, GrantId, GrantToken, NewGrant, RowHash};

pub(super) fn entry(subject: &str) -> AdminLogEntry {
    AdminLogEntry {
        at: timestamp(START_TIME),
        by: "ann".into(),
        action: "grant.create".into(),
        subject: subject.into(),
        detail: serde_json::json!({ "z": 1, "a": "\u{2028}\"", "list": [null, 1.5] }),
    }
}

pub async fn entries_are_listed_newest_first(backend: &ConformanceBackend) {
    assert_eq!(backend.store.admin_log.recent(10).await.expect("entries"), []);
    for subject in ["a", "b", "c"] {
        backend.store.admin_log.append(entry(subject)).await.expect("kept");
    }
    assert_eq!(backend.store.admin_log.recent(2).await.expect("entries"), [entry("c"), entry("b")]);
    assert_eq!(backend.store.admin_log.recent(usize::MAX).await.expect("entries").len(), 3);
}

pub async fn the_admin_log_chain_verifies(backend: &ConformanceBackend) {
    assert_eq!(backend.store.admin_log.head().await.expect("a head"), ChainHead::EMPTY);
    backend.store.admin_log.append(entry("a")).await.expect("kept");
    let early = backend.store.admin_log.head().await.expect("a head");
    backend.store.admin_log.append(entry("b")).await.expect("kept");
    let late = backend.store.admin_log.head().await.expect("a head");
    assert_eq!((early.seq, late.seq), (1, 2));
    for known in [None, Some(early), Some(late), Some(ChainHead::EMPTY)] {
        let verified = backend.store.admin_log.verify(known).await.expect("a walk");
        assert_eq!((verified.rows, verified.head, verified.chain_break), (2, late, None));
    }
    let foreign = ChainHead { seq: 1, hash: late.hash };
    let verified = backend.store.admin_log.verify(Some(foreign)).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Rewritten { seq: 1 }));
    let longer = ChainHead { seq: 3, hash: late.hash };
    let verified = backend.store.admin_log.verify(Some(longer)).await.expect("a walk");
    assert_eq!(verified.chain_break, Some(ChainBreak::Truncated { end: 2, known: 3 }));
}

pub async fn concurrent_entries_make_one_chain(backend: &ConformanceBackend) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let log = Arc::clone(&backend.store.admin_log);
        tasks.spawn(async move { log.append(entry(&number.to_string())).await.expect("kept") });
    }
    tasks.join_all().await;
    let verified = backend.store.admin_log.verify(None).await.expect("a walk");
    assert_eq!((verified.rows, verified.chain_break), (16, None));
}

pub async fn raw_entries_have_verifiable_hashes(backend: &ConformanceBackend) {
    for subject in ["a", "b", "c"] {
        backend.store.admin_log.append(entry(subject)).await.expect("kept");
    }
    let rows = backend.store.admin_log.page_after(0).await.expect("entries");
    let end = assert_chained(&rows, (0, RowHash::ZERO));
    let head = backend.store.admin_log.head().await.expect("a head");
    assert_eq!(end, (head.seq, head.hash));
    assert_eq!(backend.store.admin_log.page_after(2).await.expect("entries"), rows[2..]);
}

/// Returns an entry with this action.
fn entry_of_action(action: &str) -> AdminLogEntry {
    AdminLogEntry { action: action.into(), ..admin_entry() }
}

fn token() -> crate::TokenHash {
    GrantToken::random().expect("a token").hash()
}

pub async fn each_change_writes_its_entry(backend: &ConformanceBackend) {
    backend.store.servers.add(server("zoo"), entry_of_action("server.add")).await.expect("added");
    let id = backend.store.grants.create(new_grant("agent"), entry_of_action("grant.create")).await.expect("made");
    backend.store.grants.attach(&id, attachment("ark"), entry_of_action("grant.attach")).await.expect("attached");
    backend
        .store
        .grants
        .detach(&id, &attachment("ark").server, entry_of_action("grant.detach"))
        .await
        .expect("detached");
    backend.store.grants.rotate(&id, token(), None, entry_of_action("grant.rotate")).await.expect("rotated");
    backend.store.grants.revoke(&id, timestamp(START_TIME), entry_of_action("grant.revoke")).await.expect("revoked");
    backend.store.servers.remove(&server("zoo").name, entry_of_action("server.remove")).await.expect("removed");
    backend.store.policies.put(policy("books", "{}"), entry_of_action("policy.put")).await.expect("put");
    backend.store.policies.put(policy("books", "{}"), entry_of_action("policy.put")).await.expect("put");
    let mut entries = backend.store.admin_log.recent(20).await.expect("entries");
    entries.reverse();
    let actions: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
    let (of_server, of_policy) = (["server.add"], ["server.remove", "policy.put", "policy.put"]);
    let of_grant = ["grant.create", "grant.attach", "grant.detach", "grant.rotate", "grant.revoke"];
    assert_eq!(actions, [&of_server[..], &of_grant, &of_policy].concat());
    assert_eq!(entries[1].detail["id"], *id.0, "the id that the store chose is in the entry");
    assert_eq!((&entries[7].detail["version"], &entries[8].detail["version"]), (&1.into(), &2.into()));
}

pub async fn a_failed_change_writes_no_entry(backend: &ConformanceBackend) {
    backend.store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    let id = backend.store.grants.create(new_grant("agent"), admin_entry()).await.expect("made");
    backend.store.grants.revoke(&id, timestamp(START_TIME), admin_entry()).await.expect("revoked");
    let before = backend.store.admin_log.head().await.expect("a head");
    let missing = GrantId("missing".into());
    backend.store.servers.add(server("zoo"), admin_entry()).await.expect_err("there already");
    backend.store.servers.remove(&server("ark").name, admin_entry()).await.expect_err("not there");
    backend
        .store
        .grants
        .create(NewGrant { token: token_of(backend, &id).await, ..new_grant("other") }, admin_entry())
        .await
        .expect_err("taken");
    backend.store.grants.rotate(&id, token(), None, admin_entry()).await.expect_err("revoked");
    backend.store.grants.revoke(&id, timestamp(START_TIME), admin_entry()).await.expect_err("revoked already");
    backend.store.grants.attach(&missing, attachment("zoo"), admin_entry()).await.expect_err("not there");
    backend.store.grants.detach(&id, &attachment("ark").server, admin_entry()).await.expect_err("not there");
    assert_eq!(backend.store.admin_log.head().await.expect("a head"), before);
}

async fn token_of(backend: &ConformanceBackend, id: &GrantId) -> crate::TokenHash {
    backend.store.grants.get(&id.0).await.expect("the grant").token
}
