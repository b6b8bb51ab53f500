//! Changes of the state: each with its entry in the admin log, or not at all; and the head of that log, kept apart.

use gatelodge_store::conformance::kit::{NOON, at, noted};
use gatelodge_store::{AdminLog, Notices, Server, Servers, SqliteState};
use rusqlite::Connection;

pub fn server(name: &str) -> Server {
    Server {
        name: name.parse().expect("a name"),
        url: format!("https://{name}.example"),
        headers: [].into(),
        created_at: at(NOON),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_entry_cannot_be_written_is_not_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = SqliteState::open(dir.path()).expect("a state");
    state.add(server("zoo"), noted()).await.expect("added");
    let (head, version) = (AdminLog::head(&state).await.expect("a head"), state.version().await.expect("a version"));
    let other = Connection::open(dir.path().join("state.db")).expect("a database");
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON admin_log BEGIN SELECT RAISE(ABORT, 'no'); END";
    other.execute_batch(refuse).expect("a trigger");
    state.add(server("ark"), noted()).await.expect_err("no entry");
    state.remove(&server("zoo").name, noted()).await.expect_err("no entry");
    assert_eq!(state.list().await.expect("servers"), [server("zoo")]);
    assert_eq!(AdminLog::head(&state).await.expect("a head"), head);
    assert_eq!(state.version().await.expect("a version"), version);
}
