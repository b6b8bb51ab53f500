//! Files on the disk: permissions, reopening, and schema versions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gatelodge_store::conformance::conformance_support::{START_TIME, admin_entry, daily_charge, record, timestamp};
use gatelodge_store::{
    AdminLog, CallLog, CallLogFilter, ChangeFeed, CounterUsage, Durability, Ledger, OpenStoreError, RecordKind,
    ReserveOutcome, Servers, SqliteLedger, SqliteStateStore, StoreError,
};
use rusqlite::Connection;

use crate::state_changes::server;
use crate::{clock, ledger};

pub async fn take(ledger: &SqliteLedger, max: u32) -> bool {
    let outcome =
        ledger.reserve(vec![daily_charge("calls", max)], &record(RecordKind::Intent)).await.expect("an answer");
    matches!(outcome, ReserveOutcome::Taken(_))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_and_files_are_accessible_to_their_owner_only() {
    let outer = tempfile::tempdir().expect("a directory");
    let dir = outer.path().join("var").join("data");
    let _state = SqliteStateStore::open(&dir).expect("a state");
    let ledger = ledger(&dir);
    assert!(take(&ledger, 1).await);
    assert_eq!(mode(&dir), 0o700);
    let mut names: Vec<_> = fs::read_dir(&dir).expect("files").map(|file| file.expect("a file").path()).collect();
    names.sort();
    for path in &names {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    assert!(names.contains(&dir.join("ledger.head")) && names.contains(&dir.join("state.db")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reopened_ledger_keeps_counters_and_chain() {
    let dir = tempfile::tempdir().expect("a directory");
    for durability in [Durability::Process, Durability::Power, Durability::Process] {
        let ledger = SqliteLedger::open(dir.path(), durability, clock()).expect("a ledger");
        assert!(take(&ledger, 3).await);
        ledger.write(&record(RecordKind::PolicyExempt)).await.expect("queued");
    }
    let ledger = SqliteLedger::open_existing(dir.path(), Durability::Process, clock()).expect("a ledger");
    assert!(!take(&ledger, 3).await);
    let verified = ledger.verify(vec![]).await.expect("a walk");
    assert_eq!((verified.rows, verified.chain_break), (6, None), "dropping writes the queued rows");
    let kept = fs::read_to_string(dir.path().join("ledger.head")).expect("a head");
    assert_eq!(kept.trim_end(), verified.head.to_string());
    assert_eq!(ledger.error_count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_with_small_pages_keeps_working_and_a_new_one_has_large_pages() {
    let page = |dir: &Path| -> u32 {
        let database = Connection::open(dir.join("ledger.db")).expect("a database");
        database.pragma_query_value(None, "page_size", |row| row.get(0)).expect("a size")
    };
    let (old, new) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let database = Connection::open(old.path().join("ledger.db")).expect("a database");
    database.execute_batch("PRAGMA page_size = 4096; CREATE TABLE x (y); DROP TABLE x").expect("some pages");
    drop(database);
    for (dir, bytes) in [(old.path(), 4_096), (new.path(), 16_384)] {
        let ledger = ledger(dir);
        assert!(take(&ledger, 1).await);
        assert_eq!(ledger.verify(vec![]).await.expect("a walk").rows, 1);
        assert_eq!(page(dir), bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_another_connection_is_reported_within_a_second() {
    let dir = tempfile::tempdir().expect("a directory");
    let gateway = SqliteStateStore::open(dir.path()).expect("a state");
    let command_line = SqliteStateStore::open_existing(dir.path()).expect("a state");
    let seen = gateway.version().await.expect("a version");
    let server = server("zoo");
    let listener = tokio::spawn(async move { (gateway.wait_for_change(seen).await.expect("a version"), gateway) });
    command_line.add(server.clone(), admin_entry()).await.expect("added");
    let change = tokio::time::timeout(std::time::Duration::from_secs(1), listener).await.expect("in time");
    let (version, gateway) = change.expect("a task");
    assert_ne!(version, seen);
    assert_eq!(gateway.list().await.expect("servers"), [server]);
}

#[test]
fn open_existing_creates_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = SqliteStateStore::open_existing(dir.path()).expect_err("no state");
    assert!(matches!(state, OpenStoreError::Missing { .. }), "{state}");
    let ledger = SqliteLedger::open_existing(dir.path(), Durability::Process, clock()).expect_err("no ledger");
    assert_eq!(ledger.to_string(), format!("there is no database `{}`", dir.path().join("ledger.db").display()));
    assert_eq!(fs::read_dir(dir.path()).expect("files").count(), 0);
}

fn set_schema(path: &Path, version: u32) {
    let connection = Connection::open(path).expect("a database");
    connection.pragma_update(None, "user_version", version).expect("a version");
}

#[test]
fn a_later_schema_is_refused_and_only_open_upgrades_an_earlier_one() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(ledger(dir.path()));
    drop(SqliteStateStore::open(dir.path()).expect("a state"));
    set_schema(&dir.path().join("ledger.db"), 9);
    set_schema(&dir.path().join("state.db"), 9);
    let error = SqliteLedger::open(dir.path(), Durability::Process, clock()).expect_err("too new");
    assert!(matches!(error, OpenStoreError::TooNew { found: 9, known: 1, .. }), "{error}");
    let error = SqliteStateStore::open(dir.path()).expect_err("too new");
    assert!(matches!(error, OpenStoreError::TooNew { found: 9, known: 8, .. }), "{error}");

    fs::write(dir.path().join("empty.db"), "").expect("written");
    fs::rename(dir.path().join("empty.db"), dir.path().join("state.db")).expect("renamed");
    let error = SqliteStateStore::open_existing(dir.path()).expect_err("too old");
    assert!(matches!(error, OpenStoreError::TooOld { found: 0, known: 8, .. }), "{error}");
    SqliteStateStore::open(dir.path()).expect("brought up");
    SqliteStateStore::open_existing(dir.path()).expect("up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_ledger_refuses_calls_after_a_later_build_upgraded_the_schema() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    assert!(take(&ledger, 9).await);
    set_schema(&dir.path().join("ledger.db"), 2);
    let refused =
        ledger.reserve(vec![daily_charge("calls", 9)], &record(RecordKind::Intent)).await.expect_err("another schema");
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
}

#[test]
fn many_processes_can_open_an_empty_directory_at_once() {
    for _ in 0..5 {
        let dir = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| drop(ledger(&dir.path().join("data"))));
                scope.spawn(|| drop(SqliteStateStore::open(&dir.path().join("data")).expect("a state")));
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_log_is_detected_after_the_next_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = ledger(dir.path());
    for _ in 0..3 {
        assert!(take(&first, 9).await);
    }
    drop(first);
    // Another ledger is in its place; the head file shows that it is a different one.
    let other = tempfile::tempdir().expect("a directory");
    drop(ledger(other.path()));
    fs::rename(other.path().join("ledger.db"), dir.path().join("ledger.db")).expect("replaced");
    let second = ledger(dir.path());
    for _ in 0..4 {
        assert!(take(&second, 9).await);
    }
    let verified = second.verify(vec![]).await.expect("a walk");
    assert!(verified.chain_break.is_some(), "row 3 is a different one");
    fs::remove_file(dir.path().join("ledger.head.lost")).expect("removed by an operator");
    assert_eq!(second.verify(vec![]).await.expect("a walk").chain_break, None);
}

async fn take_of(ledger: &SqliteLedger, counter: &str, max: u32) -> bool {
    let outcome =
        ledger.reserve(vec![daily_charge(counter, max)], &record(RecordKind::Intent)).await.expect("an answer");
    matches!(outcome, ReserveOutcome::Taken(_))
}

async fn counters(ledger: &SqliteLedger) -> Vec<String> {
    ledger.usage().await.expect("counters").iter().map(|usage| usage.key.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_that_expired_long_ago_are_removed_and_never_refilled() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = clock();
    let open = || SqliteLedger::open(dir.path(), Durability::Process, clock.clone()).expect("a ledger");
    let mut ledger = open();
    assert!(take_of(&ledger, "now", 1).await && take_of(&ledger, "reopened", 1).await);
    clock.set(timestamp("2026-12-20T12:00:00Z"));
    assert!(take_of(&ledger, "other", 9).await);
    assert_eq!(counters(&ledger).await, ["now", "other", "reopened"], "34 days are below the retention");
    clock.set(timestamp("2027-01-20T12:00:00Z"));
    assert!(take_of(&ledger, "new", 9).await);
    assert_eq!(counters(&ledger).await, ["new", "other"]);
    // The clock is set back to the exhausted day. A counter starts again at the floor, once, and stays there.
    for counter in ["now", "reopened"] {
        clock.set(timestamp(START_TIME));
        assert!(take_of(&ledger, counter, 1).await);
        for now in [START_TIME, "2026-11-16T12:00:00Z", "2026-12-10T12:00:00Z"] {
            clock.set(timestamp(now));
            assert!(!take_of(&ledger, counter, 1).await, "{counter} {now}");
        }
        drop(ledger);
        ledger = open();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_an_unreadable_counter_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = ledger(dir.path());
    assert!(take(&first, 9).await);
    for text in ["x", "1:-5", "1:99999999999999999999999999999999999999", "9223372036854775807:1"] {
        let other = Connection::open(dir.path().join("ledger.db")).expect("a database");
        other.execute("UPDATE counters SET state = ?", [text]).expect("changed");
        let refused =
            first.reserve(vec![daily_charge("calls", 9)], &record(RecordKind::Intent)).await.expect_err("unreadable");
        assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
    }
    assert_eq!(first.rows(CallLogFilter { limit: 9, ..CallLogFilter::default() }).await.expect("rows").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_ledger_is_not_recreated_while_its_head_file_exists() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = ledger(dir.path());
    assert!(take(&first, 1).await);
    drop(first);
    let (database, head) = (dir.path().join("ledger.db"), dir.path().join("ledger.head"));
    for is_emptied in [false, true] {
        let _ = fs::remove_file(&database);
        if is_emptied {
            fs::write(&database, "").expect("an empty file");
        }
        for open in [SqliteLedger::open, SqliteLedger::open_existing] {
            let lost = open(dir.path(), Durability::Process, clock()).expect_err("lost");
            assert!(matches!(&lost, OpenStoreError::Lost { rows: 1, .. }), "{lost}");
            let (path, head) = (database.display(), head.display());
            let words =
                format!("`{path}` is missing or empty, but `{head}` records 1 rows; restore the database, or remove");
            assert!(lost.to_string().starts_with(&words), "{lost}");
        }
        assert_eq!(database.exists(), is_emptied, "nothing is created");
    }
    fs::remove_file(&head).expect("removed by an operator");
    assert!(take(&ledger(dir.path()), 1).await, "it starts empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_head_file_is_reported_until_an_operator_removes_the_marker() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, state) = (ledger(dir.path()), SqliteStateStore::open(dir.path()).expect("a state"));
    assert!(take(&first, 1).await);
    state.add(server("zoo"), admin_entry()).await.expect("added");
    assert_eq!(first.verify(vec![]).await.expect("a walk").missing_head_marker, None);
    drop((first, state));
    for name in ["ledger.head", "state.head"] {
        fs::remove_file(dir.path().join(name)).expect("removed");
    }
    for _ in 0..2 {
        let (ledger, state) = (ledger(dir.path()), SqliteStateStore::open(dir.path()).expect("a state"));
        let verified = ledger.verify(vec![]).await.expect("a walk");
        assert_eq!(
            (verified.chain_break, verified.missing_head_marker),
            (None, Some(dir.path().join("ledger.head.missed")))
        );
        let verified = AdminLog::verify(&state, None).await.expect("a walk");
        assert_eq!(
            (verified.chain_break, verified.missing_head_marker),
            (None, Some(dir.path().join("state.head.missed")))
        );
    }
    for name in ["ledger.head.missed", "state.head.missed"] {
        fs::remove_file(dir.path().join(name)).expect("removed by an operator");
    }
    assert_eq!(ledger(dir.path()).verify(vec![]).await.expect("a walk").missing_head_marker, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_a_build_without_head_files_is_not_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let old = Connection::open(dir.path().join("state.db")).expect("a database");
    old.execute_batch(include_str!("../../src/sqlite/state_db/1.sql")).expect("the first schema");
    old.execute("INSERT INTO admin_log (seq, at, body, hash) VALUES (1, 0, '{}', zeroblob(32))", []).expect("a row");
    old.pragma_update(None, "user_version", 1).expect("a version");
    drop(old);
    let state = SqliteStateStore::open(dir.path()).expect("brought up");
    assert_eq!(AdminLog::verify(&state, None).await.expect("a walk").missing_head_marker, None);
    assert!(dir.path().join("state.head").exists());
}
