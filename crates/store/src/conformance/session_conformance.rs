//! Requirements for sessions.

use std::time::Duration;

use super::ConformanceBackend;
use super::conformance_support::{START_TIME, timestamp};
use crate::{GrantId, IdDigest, SessionRow};

fn session(id: &str) -> SessionRow {
    SessionRow {
        id: IdDigest::of(&[id]),
        grant: GrantId("ci".into()),
        server: (id != "two").then(|| "zoo".parse().expect("a name")),
        revision: "2025-11-25".to_owned(),
        client_name: Some("some \"client\"".to_owned()),
        client_version: None,
        handshake: r#"{"id":1,"method":"initialize","params":{"n":1.10}}"#.to_owned(),
        is_upstream_stateless: id.ends_with('o'),
        subscribed_uris: if id == "two" { vec!["note://\"1\"\n".to_owned(), String::new()] } else { Vec::new() },
        log_level: (id == "two").then(|| "warning".to_owned()),
        last_used_at: timestamp(START_TIME),
    }
}

async fn put_session(backend: &ConformanceBackend, id: &str) -> SessionRow {
    let session = session(id);
    backend.store.sessions.put(session.clone()).await.expect("kept");
    session
}

async fn find(backend: &ConformanceBackend, id: &str) -> Option<SessionRow> {
    backend.store.sessions.find(IdDigest::of(&[id])).await.expect("an answer")
}

pub async fn a_session_is_found_by_its_id(backend: &ConformanceBackend) {
    assert_eq!(find(backend, "one").await, None);
    let kept = put_session(backend, "one").await;
    let aggregate = put_session(backend, "two").await;
    assert_eq!((find(backend, "one").await, find(backend, "two").await), (Some(kept), Some(aggregate)));
}

pub async fn subscriptions_are_stored_with_the_session(backend: &ConformanceBackend) {
    put_session(backend, "one").await;
    let two = put_session(backend, "two").await;
    let uris = vec!["note://1".to_owned(), "note://2".to_owned()];
    backend.store.sessions.set_subscriptions(IdDigest::of(&["one"]), uris.clone()).await.expect("kept");
    backend.store.sessions.set_subscriptions(IdDigest::of(&["missing"]), uris.clone()).await.expect("passed over");
    assert_eq!(find(backend, "one").await.expect("kept").subscribed_uris, uris);
    assert_eq!((find(backend, "two").await, find(backend, "missing").await), (Some(two), None));
    backend.store.sessions.set_subscriptions(IdDigest::of(&["one"]), Vec::new()).await.expect("kept");
    assert_eq!(find(backend, "one").await.expect("kept").subscribed_uris, [""; 0]);
}

pub async fn the_log_level_is_stored_with_the_session(backend: &ConformanceBackend) {
    put_session(backend, "one").await;
    let two = put_session(backend, "two").await;
    backend.store.sessions.set_log_level(IdDigest::of(&["one"]), "debug".to_owned()).await.expect("kept");
    backend.store.sessions.set_log_level(IdDigest::of(&["missing"]), "debug".to_owned()).await.expect("passed over");
    assert_eq!(find(backend, "one").await.expect("kept").log_level.as_deref(), Some("debug"));
    assert_eq!((find(backend, "two").await, find(backend, "missing").await), (Some(two), None));
}

pub async fn a_deleted_session_is_gone_and_others_stay(backend: &ConformanceBackend) {
    put_session(backend, "one").await;
    let two = put_session(backend, "two").await;
    backend.store.sessions.delete(vec![IdDigest::of(&["one"]), IdDigest::of(&["missing"])]).await.expect("forgotten");
    assert_eq!((find(backend, "one").await, find(backend, "two").await), (None, Some(two)));
}

pub async fn unused_sessions_are_swept(backend: &ConformanceBackend) {
    put_session(backend, "old").await;
    put_session(backend, "used").await;
    let hour = |hours: u64| timestamp(START_TIME) + Duration::from_secs(hours * 3_600);
    backend
        .store
        .sessions
        .touch(vec![IdDigest::of(&["used"]), IdDigest::of(&["missing"])], hour(2))
        .await
        .expect("touched");
    backend.store.sessions.touch(vec![IdDigest::of(&["used"])], hour(1)).await.expect("touched");
    assert_eq!(find(backend, "used").await.expect("kept").last_used_at, hour(2), "an earlier time is ignored");
    assert_eq!(find(backend, "missing").await, None, "touching creates no session");
    assert_eq!(backend.store.sessions.sweep(hour(2)).await.expect("swept"), 1);
    assert_eq!((find(backend, "old").await.is_some(), find(backend, "used").await.is_some()), (false, true));
}

pub async fn a_session_writes_no_admin_entry_and_changes_no_version(backend: &ConformanceBackend) {
    let before = backend.store.change_feed.version().await.expect("a version");
    put_session(backend, "one").await;
    backend.store.sessions.touch(vec![IdDigest::of(&["one"])], timestamp(START_TIME)).await.expect("touched");
    backend.store.sessions.delete(vec![IdDigest::of(&["one"])]).await.expect("forgotten");
    assert_eq!(backend.store.change_feed.version().await.expect("a version"), before);
    assert_eq!(backend.store.admin_log.recent(9).await.expect("entries"), []);
}
