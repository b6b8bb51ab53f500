//! Requirements for grants.

use std::time::Duration;

use super::ConformanceBackend;
use super::conformance_support::{START_TIME, admin_entry, assert_conflict, assert_not_found, timestamp};
use crate::{EnforcementMode, Grant, GrantId, GrantServerAttachment, GrantToken, NewGrant};

pub(super) fn attachment(server: &str) -> GrantServerAttachment {
    GrantServerAttachment {
        server: server.parse().expect("a name"),
        policy: "books".parse().ok(),
        mode: EnforcementMode::Enforce,
    }
}

pub(super) fn new_grant(label: &str) -> NewGrant {
    NewGrant {
        label: label.into(),
        labels: [("team".into(), "ops".into())].into(),
        token: GrantToken::random().expect("a token").hash(),
        attachments: vec![attachment("zoo")],
        created_at: timestamp(START_TIME),
        expires_at: Some(timestamp("2027-01-01T00:00:00Z")),
        minimum_revision: Some("2025-11-25".into()),
    }
}

fn unknown_grant_id() -> GrantId {
    GrantId("missing".into())
}

pub async fn a_grant_is_found_by_id_and_by_label(backend: &ConformanceBackend) {
    let new = new_grant("agent");
    let id = backend.store.grants.create(new.clone(), admin_entry()).await.expect("made");
    let expected = Grant {
        id: id.clone(),
        label: new.label,
        labels: new.labels,
        token: new.token,
        attachments: new.attachments,
        created_at: new.created_at,
        expires_at: new.expires_at,
        minimum_revision: new.minimum_revision,
        revoked_at: None,
    };
    assert_eq!(backend.store.grants.get(&id.0).await.expect("by id"), expected);
    assert_eq!(backend.store.grants.get("agent").await.expect("by label"), expected);
    assert_eq!(backend.store.grants.list().await.expect("grants"), [expected]);
}

pub async fn a_label_can_be_reused_after_revocation(backend: &ConformanceBackend) {
    let first = backend.store.grants.create(new_grant("agent"), admin_entry()).await.expect("made");
    assert_conflict(backend.store.grants.create(new_grant("agent"), admin_entry()).await);
    backend.store.grants.revoke(&first, timestamp(START_TIME), admin_entry()).await.expect("revoked");
    assert_not_found(backend.store.grants.get("agent").await);
    let second = backend.store.grants.create(new_grant("agent"), admin_entry()).await.expect("made");
    assert_ne!(first, second);
    assert_eq!(backend.store.grants.get("agent").await.expect("by label").id, second);
    assert_eq!(backend.store.grants.get(&first.0).await.expect("by id").revoked_at, Some(timestamp(START_TIME)));
}

pub async fn a_token_belongs_to_one_grant(backend: &ConformanceBackend) {
    let (first, second) = (new_grant("first"), new_grant("second"));
    let id = backend.store.grants.create(first.clone(), admin_entry()).await.expect("made");
    let other = backend.store.grants.create(second, admin_entry()).await.expect("made");
    backend.store.grants.revoke(&id, timestamp(START_TIME), admin_entry()).await.expect("revoked");
    // Also the token of a revoked grant: its bearer must not get the access of another one.
    assert_conflict(
        backend.store.grants.create(NewGrant { token: first.token, ..new_grant("third") }, admin_entry()).await,
    );
    assert_conflict(backend.store.grants.rotate(&other, first.token, None, admin_entry()).await);
    assert_not_found(backend.store.grants.get("third").await);
}

pub async fn rotation_changes_only_token_and_expiry(backend: &ConformanceBackend) {
    let id = backend.store.grants.create(new_grant("agent"), admin_entry()).await.expect("made");
    let before = backend.store.grants.get("agent").await.expect("the grant");
    let token = GrantToken::random().expect("a token").hash();
    backend.store.grants.rotate(&id, token, None, admin_entry()).await.expect("rotated");
    let after = backend.store.grants.get("agent").await.expect("the grant");
    assert_eq!(after, Grant { token, expires_at: None, ..before });
}

pub async fn a_revoked_grant_stays_revoked(backend: &ConformanceBackend) {
    let id = backend.store.grants.create(new_grant("agent"), admin_entry()).await.expect("made");
    backend.store.grants.revoke(&id, timestamp(START_TIME), admin_entry()).await.expect("revoked");
    assert_conflict(backend.store.grants.revoke(&id, timestamp("2026-12-24T00:00:00Z"), admin_entry()).await);
    assert_eq!(backend.store.grants.get(&id.0).await.expect("the grant").revoked_at, Some(timestamp(START_TIME)));
    let token = GrantToken::random().expect("a token").hash();
    assert_conflict(backend.store.grants.rotate(&id, token, None, admin_entry()).await);
    assert_ne!(backend.store.grants.get(&id.0).await.expect("the grant").token, token);
}

pub async fn attaching_a_server_replaces_its_attachment(backend: &ConformanceBackend) {
    let id = backend.store.grants.create(new_grant("agent"), admin_entry()).await.expect("made");
    let other = backend.store.grants.create(new_grant("other"), admin_entry()).await.expect("made");
    let watched = GrantServerAttachment { policy: None, mode: EnforcementMode::Observe, ..attachment("zoo") };
    backend.store.grants.attach(&id, watched.clone(), admin_entry()).await.expect("attached");
    backend.store.grants.attach(&id, attachment("ark"), admin_entry()).await.expect("attached");
    assert_eq!(
        backend.store.grants.get(&id.0).await.expect("the grant").attachments,
        [attachment("ark"), watched.clone()]
    );
    backend.store.grants.detach(&id, &attachment("ark").server, admin_entry()).await.expect("detached");
    assert_eq!(backend.store.grants.get(&id.0).await.expect("the grant").attachments, [watched]);
    assert_not_found(backend.store.grants.detach(&id, &attachment("ark").server, admin_entry()).await);
    assert_eq!(backend.store.grants.get(&other.0).await.expect("the other").attachments, [attachment("zoo")]);
}

pub async fn changing_a_missing_grant_is_not_found(backend: &ConformanceBackend) {
    let token = GrantToken::random().expect("a token").hash();
    assert_not_found(backend.store.grants.get("missing").await);
    assert_not_found(backend.store.grants.rotate(&unknown_grant_id(), token, None, admin_entry()).await);
    assert_not_found(backend.store.grants.revoke(&unknown_grant_id(), timestamp(START_TIME), admin_entry()).await);
    assert_not_found(backend.store.grants.attach(&unknown_grant_id(), attachment("zoo"), admin_entry()).await);
    assert_not_found(backend.store.grants.detach(&unknown_grant_id(), &attachment("zoo").server, admin_entry()).await);
}

pub async fn grants_are_listed_by_label_and_then_by_age(backend: &ConformanceBackend) {
    let later = NewGrant { created_at: timestamp(START_TIME) + Duration::from_millis(500), ..new_grant("zoo") };
    let later = backend.store.grants.create(later, admin_entry()).await.expect("made");
    backend.store.grants.revoke(&later, timestamp(START_TIME), admin_entry()).await.expect("revoked");
    let earlier = backend.store.grants.create(new_grant("zoo"), admin_entry()).await.expect("made");
    let first = backend.store.grants.create(new_grant("ark"), admin_entry()).await.expect("made");
    let ids: Vec<_> = backend.store.grants.list().await.expect("grants").into_iter().map(|grant| grant.id).collect();
    assert_eq!(ids, [first, earlier, later]);
}
