//! A data directory of an earlier build remains readable.
//!
//! `data_directory/` was written by a gateway that was killed: `ledger.journal` holds batches that are not in the
//! database yet. The files with `json` in their suffix are the output of that build.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};

use gatelodge_store::{CounterUsage, Durability, ManualClock, Sessions, SqliteLedger, SqliteStateStore};
use support::TestDir;

const FILES: [&str; 8] = [
    "gateway.json",
    "ledger.db",
    "ledger.db-wal",
    "ledger.head",
    "ledger.journal",
    "state.db",
    "state.db-wal",
    "state.head",
];

fn fixture_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data_directory")
}

/// Copies the directory as the killed process left it.
fn copy_fixture() -> TestDir {
    let dir = TestDir::new();
    std::fs::create_dir(dir.path("data")).expect("a directory");
    for name in FILES {
        std::fs::copy(fixture_dir().join(name), dir.path("data").join(name)).expect("a copy");
    }
    dir
}

fn recorded_output(name: &str) -> String {
    std::fs::read_to_string(fixture_dir().join(name)).expect("output of the earlier build")
}

#[test]
fn both_logs_of_an_earlier_build_replay_verify_and_export_byte_for_byte() {
    let dir = copy_fixture();
    for (log, file, rows) in [("calls", "calls.jsonl", 76), ("admin", "admin.jsonl", 8)] {
        let run = dir.run(&["audit", "export", "--log", log, "--data", "data"]);
        assert_eq!((run.code, run.stdout.lines().count()), (0, rows), "{log}: {}", run.stderr);
        assert_eq!(run.stdout, recorded_output(file), "{log}");
    }
    let run = dir.run(&["audit", "verify", "--data", "data"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    for head in [
        "76:41a844c6d346f0612e917604eac501ca10477f50a8d4f84e4c6eb2d8415aed2d",
        "8:fd343959e8b0f782b8b85f36e8b1ad985ee168244101e3fd7e929030b2c1ad52",
    ] {
        assert!(run.stdout.contains(head), "{}", run.stdout);
    }
}

#[test]
fn the_redo_log_of_an_earlier_build_holds_rows_that_the_database_lacks() {
    let dir = copy_fixture();
    std::fs::remove_file(dir.path("data").join("ledger.journal")).expect("removed");
    let run = dir.run(&["audit", "export", "--data", "data"]);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 53), "{}", run.stderr);
}

#[test]
fn servers_policies_and_grants_of_an_earlier_build_are_shown_unchanged() {
    let dir = copy_fixture();
    for (command, file) in [
        (&["server", "list", "--json"][..], "servers.json"),
        (&["policy", "list", "--json"], "policies.json"),
        (&["policy", "show", "books"], "policy_books.jsonc"),
        (&["policy", "show", "demo"], "policy_demo.jsonc"),
        (&["grant", "list", "--json"], "grants.json"),
    ] {
        let run = dir.run(&[command, &["--data", "data"]].concat());
        assert_eq!((run.code, run.stdout), (0, recorded_output(file)), "{command:?}: {}", run.stderr);
    }
}

#[tokio::test]
async fn the_session_of_an_earlier_build_keeps_the_time_of_its_last_use() {
    let dir = copy_fixture();
    let sessions = SqliteStateStore::open(&dir.path("data")).expect("opened");
    // Its id is unknown, since only the hash is stored.
    for (before, swept) in [("2026-11-18T09:03:18.463675723Z", 0), ("2026-11-18T09:03:18.463675724Z", 1)] {
        let before = before.parse().expect("a time");
        assert_eq!(Sessions::sweep(&sessions, before).await.expect("swept"), swept, "{before}");
    }
}

#[tokio::test]
async fn counters_of_an_earlier_build_keep_their_usage() {
    let dir = copy_fixture();
    let clock = ManualClock::at("2026-11-18T10:00:00Z".parse().expect("a time"));
    let ledger =
        SqliteLedger::open(&dir.path("data"), Durability::Process, std::sync::Arc::new(clock)).expect("opened");
    let usage = ledger.usage().await.expect("counters");
    let used: Vec<_> = usage.iter().map(|usage| (usage.key.as_str().to_owned(), usage.used.to_string())).collect();
    assert_eq!(
        used,
        [
            ("demo|demo|calls|60|calendar|grant|g3l9td7kuphvmld9r|".to_owned(), "35".to_owned()),
            ("demo|demo|spend|86400|calendar|grant|g3l9td7kuphvmld9r|".to_owned(), "80".to_owned()),
        ]
    );
}
