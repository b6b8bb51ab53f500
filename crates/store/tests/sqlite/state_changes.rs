//! Changes of the state are atomic with their admin log entries; the head file of that log detects truncation.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use gatelodge_store::conformance::conformance_support::{START_TIME, admin_entry, timestamp};
use gatelodge_store::{AdminLog, ChainBreak, ChangeFeed, Servers, SqliteStateStore, StoredServer};
use rusqlite::Connection;

pub fn server(name: &str) -> StoredServer {
    StoredServer {
        name: name.parse().expect("a name"),
        url: format!("https://{name}.example"),
        headers: [].into(),
        log_arguments: false,
        review: false,
        accept_new: false,
        created_at: timestamp(START_TIME),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_without_a_writable_entry_is_not_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = SqliteStateStore::open(dir.path()).expect("a state");
    state.add(server("zoo"), admin_entry()).await.expect("added");
    let (head, version) = (AdminLog::head(&state).await.expect("a head"), state.version().await.expect("a version"));
    let other = Connection::open(dir.path().join("state.db")).expect("a database");
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON admin_log BEGIN SELECT RAISE(ABORT, 'no'); END";
    other.execute_batch(refuse).expect("a trigger");
    state.add(server("ark"), admin_entry()).await.expect_err("no entry");
    state.remove(&server("zoo").name, admin_entry()).await.expect_err("no entry");
    assert_eq!(state.list().await.expect("servers"), [server("zoo")]);
    assert_eq!(AdminLog::head(&state).await.expect("a head"), head);
    assert_eq!(state.version().await.expect("a version"), version);
}

async fn chain_break(state: &SqliteStateStore) -> Option<ChainBreak> {
    AdminLog::verify(state, None).await.expect("a walk").chain_break
}

/// A state with three changes.
async fn state_with_changes(dir: &Path) -> SqliteStateStore {
    let state = SqliteStateStore::open(dir).expect("a state");
    for name in ["ark", "bay", "cot"] {
        state.add(server(name), admin_entry()).await.expect("added");
    }
    state
}

fn execute(dir: &Path, sql: &str) {
    Connection::open(dir.join("state.db")).expect("a database").execute_batch(sql).expect("state_with_changes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_admin_log_is_detected_after_a_change_and_a_restart() {
    for (cut, end) in [("DELETE FROM admin_log WHERE seq > 1", 1), ("DELETE FROM admin_log", 0)] {
        let dir = tempfile::tempdir().expect("a directory");
        let state = state_with_changes(dir.path()).await;
        assert_eq!(chain_break(&state).await, None);
        execute(dir.path(), cut);
        assert_eq!(chain_break(&state).await, Some(ChainBreak::Truncated { end, known: 3 }));
        state.add(server("dam"), admin_entry()).await.expect("added");
        assert_eq!(chain_break(&state).await, Some(ChainBreak::Truncated { end: end + 1, known: 3 }));
        drop(state);
        let state = SqliteStateStore::open_existing(dir.path()).expect("a state");
        assert_eq!(chain_break(&state).await, Some(ChainBreak::Truncated { end: end + 1, known: 3 }));
        fs::remove_file(dir.path().join("state.head.lost")).expect("removed by an operator");
        assert_eq!(chain_break(&state).await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_older_than_the_admin_log_is_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("state.head");
    let state = state_with_changes(dir.path()).await;
    let early = fs::read(&path).expect("a head");
    state.add(server("dam"), admin_entry()).await.expect("added");
    let late = fs::read(&path).expect("a head");
    assert_eq!(String::from_utf8_lossy(&late).trim(), AdminLog::head(&state).await.expect("a head").to_string());
    // Killed between the commit and the write of the head file.
    fs::write(&path, early).expect("written");
    assert_eq!(chain_break(&state).await, None);
    drop(state);
    let state = SqliteStateStore::open(dir.path()).expect("a state");
    assert_eq!(chain_break(&state).await, None);
    state.add(server("elm"), admin_entry()).await.expect("added");
    execute(dir.path(), "DELETE FROM admin_log WHERE seq = 5");
    assert_eq!(
        chain_break(&state).await,
        Some(ChainBreak::Truncated { end: 4, known: 5 }),
        "the next change updated the head"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_write_at_once_store_the_last_head() {
    let dir = tempfile::tempdir().expect("a directory");
    let states: Vec<_> = (0..4).map(|_| Arc::new(SqliteStateStore::open(dir.path()).expect("a state"))).collect();
    for round in 0..20 {
        let mut tasks = tokio::task::JoinSet::new();
        for (process, state) in states.iter().cloned().enumerate() {
            tasks.spawn(async move {
                state.add(server(&format!("s{round}-{process}")), admin_entry()).await.expect("added")
            });
        }
        tasks.join_all().await;
        let kept = fs::read_to_string(dir.path().join("state.head")).expect("a head");
        assert_eq!(kept.trim(), AdminLog::head(&*states[0]).await.expect("a head").to_string(), "round {round}");
    }
    assert!(!dir.path().join("state.head.lost").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_the_first_schema_is_upgraded_without_loss() {
    let dir = tempfile::tempdir().expect("a directory");
    execute(dir.path(), include_str!("../../src/sqlite/state_db/1.sql"));
    execute(dir.path(), "INSERT INTO servers VALUES ('zoo', 'https://zoo.example', '{}', 0); PRAGMA user_version = 1");
    let state = SqliteStateStore::open(dir.path()).expect("brought up");
    let server = state.list().await.expect("servers").pop().expect("the server");
    assert_eq!((server.name.as_str(), server.log_arguments), ("zoo", false));
}
