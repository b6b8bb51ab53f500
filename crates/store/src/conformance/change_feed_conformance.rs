//! Requirements for the change feed.

use std::sync::Arc;
use std::time::Duration;

use super::ConformanceBackend;
use super::admin_log_conformance::entry;
use super::conformance_support::{START_TIME, admin_entry, timestamp};
use super::grant_conformance::{attachment, new_grant};
use super::policy_conformance::policy;
use super::server_conformance::server;
use crate::{GrantToken, StateChangeNumber};

async fn assert_changed(backend: &ConformanceBackend, seen: &mut Vec<StateChangeNumber>, what: &str) {
    let version = backend.store.change_feed.version().await.expect("a version");
    assert!(!seen.contains(&version), "{what}");
    seen.push(version);
}

pub async fn each_change_makes_a_new_version(backend: &ConformanceBackend) {
    let mut seen = vec![backend.store.change_feed.version().await.expect("a version")];
    backend.store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    assert_changed(backend, &mut seen, "add").await;
    backend.store.policies.put(policy("books", "{}"), admin_entry()).await.expect("put");
    assert_changed(backend, &mut seen, "put").await;
    let id = backend.store.grants.create(new_grant("agent"), admin_entry()).await.expect("made");
    assert_changed(backend, &mut seen, "create").await;
    backend.store.grants.attach(&id, attachment("ark"), admin_entry()).await.expect("attached");
    assert_changed(backend, &mut seen, "attach").await;
    backend.store.grants.detach(&id, &attachment("ark").server, admin_entry()).await.expect("detached");
    assert_changed(backend, &mut seen, "detach").await;
    backend
        .store
        .grants
        .rotate(&id, GrantToken::random().expect("a token").hash(), None, admin_entry())
        .await
        .expect("rotated");
    assert_changed(backend, &mut seen, "rotate").await;
    backend.store.grants.revoke(&id, timestamp(START_TIME), admin_entry()).await.expect("revoked");
    assert_changed(backend, &mut seen, "revoke").await;
    backend.store.servers.remove(&server("zoo").name, admin_entry()).await.expect("removed");
    assert_changed(backend, &mut seen, "remove").await;
}

pub async fn failed_changes_and_reads_keep_the_version(backend: &ConformanceBackend) {
    backend.store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    let before = backend.store.change_feed.version().await.expect("a version");
    backend.store.servers.add(server("zoo"), admin_entry()).await.expect_err("a conflict");
    backend.store.grants.get("missing").await.expect_err("not found");
    backend.store.servers.list().await.expect("servers");
    backend.store.admin_log.append(entry("zoo")).await.expect("kept");
    assert_eq!(backend.store.change_feed.version().await.expect("a version"), before);
}

pub async fn a_waiter_is_notified_within_a_second(backend: &ConformanceBackend) {
    let seen = backend.store.change_feed.version().await.expect("a version");
    let feed = Arc::clone(&backend.store.change_feed);
    let waiter = tokio::spawn(async move { feed.wait_for_change(seen).await });
    backend.store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    let changed = tokio::time::timeout(Duration::from_secs(1), waiter).await.expect("in time");
    let changed = changed.expect("a task").expect("a version");
    assert_ne!(changed, seen);
    assert_eq!(backend.store.change_feed.wait_for_change(seen).await.expect("at once"), changed);
    let waiting =
        tokio::time::timeout(Duration::from_millis(50), backend.store.change_feed.wait_for_change(changed)).await;
    assert!(waiting.is_err(), "there was no further change");
}
