//! What notices owe.

use std::sync::Arc;
use std::time::Duration;

use super::ConformanceBackend;
use super::admin_log::entry;
use super::grants::{attachment, new_grant};
use super::policies::policy;
use super::servers::server;
use super::support::{START_TIME, admin_entry, timestamp};
use crate::{GrantToken, StateVersion};

async fn assert_changed(store: &ConformanceBackend, seen: &mut Vec<StateVersion>, what: &str) {
    let version = store.change_feed.version().await.expect("a version");
    assert!(!seen.contains(&version), "{what}");
    seen.push(version);
}

pub async fn each_change_makes_another_version(store: &ConformanceBackend) {
    let mut seen = vec![store.change_feed.version().await.expect("a version")];
    store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    assert_changed(store, &mut seen, "add").await;
    store.policies.put(policy("books", "{}"), admin_entry()).await.expect("put");
    assert_changed(store, &mut seen, "put").await;
    let id = store.grants.create(new_grant("agent"), admin_entry()).await.expect("made");
    assert_changed(store, &mut seen, "create").await;
    store.grants.attach(&id, attachment("ark"), admin_entry()).await.expect("attached");
    assert_changed(store, &mut seen, "attach").await;
    store.grants.detach(&id, &attachment("ark").server, admin_entry()).await.expect("detached");
    assert_changed(store, &mut seen, "detach").await;
    store
        .grants
        .rotate(&id, GrantToken::random().expect("a token").hash(), None, admin_entry())
        .await
        .expect("rotated");
    assert_changed(store, &mut seen, "rotate").await;
    store.grants.revoke(&id, timestamp(START_TIME), admin_entry()).await.expect("revoked");
    assert_changed(store, &mut seen, "revoke").await;
    store.servers.remove(&server("zoo").name, admin_entry()).await.expect("removed");
    assert_changed(store, &mut seen, "remove").await;
}

pub async fn what_fails_or_reads_keeps_the_version(store: &ConformanceBackend) {
    store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    let before = store.change_feed.version().await.expect("a version");
    store.servers.add(server("zoo"), admin_entry()).await.expect_err("a conflict");
    store.grants.get("nobody").await.expect_err("not found");
    store.servers.list().await.expect("servers");
    store.admin_log.append(entry("zoo")).await.expect("kept");
    assert_eq!(store.change_feed.version().await.expect("a version"), before);
}

pub async fn a_listener_hears_of_a_change_within_a_second(store: &ConformanceBackend) {
    let seen = store.change_feed.version().await.expect("a version");
    let notices = Arc::clone(&store.change_feed);
    let listener = tokio::spawn(async move { notices.wait_for_change(seen).await });
    store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    let heard = tokio::time::timeout(Duration::from_secs(1), listener).await.expect("in time");
    let heard = heard.expect("a task").expect("a version");
    assert_ne!(heard, seen);
    assert_eq!(store.change_feed.wait_for_change(seen).await.expect("at once"), heard);
    let waiting = tokio::time::timeout(Duration::from_millis(50), store.change_feed.wait_for_change(heard)).await;
    assert!(waiting.is_err(), "there was no further change");
}
