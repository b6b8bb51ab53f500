//! A data directory of version 0.1 stays readable.
//!
//! `data_directory/` was written by a gateway that was killed: `ledger.journal` holds batches that are not in the
//! database yet. The `.json` and `.jsonl` files next to it are what that version printed of it.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};

use gatelodge_store::{Durability, Ledger, ManualClock, SqliteLedger};
use support::{House, house};

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

fn written() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data_directory")
}

/// A copy of the directory, as the killed process left it.
fn copied() -> House {
    let house = house();
    std::fs::create_dir(house.path("data")).expect("a folder");
    for name in FILES {
        std::fs::copy(written().join(name), house.path("data").join(name)).expect("a copy");
    }
    house
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(written().join(name)).expect("what that version printed")
}

#[test]
fn both_logs_of_version_0_1_replay_verify_and_export_byte_for_byte() {
    let house = copied();
    for (log, file, rows) in [("calls", "calls.jsonl", 76), ("admin", "admin.jsonl", 8)] {
        let run = house.run(&["audit", "export", "--log", log, "--data", "data"]);
        assert_eq!((run.code, run.stdout.lines().count()), (0, rows), "{log}: {}", run.stderr);
        assert_eq!(run.stdout, golden(file), "{log}");
    }
    let run = house.run(&["audit", "verify", "--data", "data"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    for head in [
        "76:41a844c6d346f0612e917604eac501ca10477f50a8d4f84e4c6eb2d8415aed2d",
        "8:fd343959e8b0f782b8b85f36e8b1ad985ee168244101e3fd7e929030b2c1ad52",
    ] {
        assert!(run.stdout.contains(head), "{}", run.stdout);
    }
}

#[test]
fn the_redo_log_of_version_0_1_holds_rows_that_the_database_lacks() {
    let house = copied();
    std::fs::remove_file(house.path("data").join("ledger.journal")).expect("removed");
    let run = house.run(&["audit", "export", "--data", "data"]);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 53), "{}", run.stderr);
}

#[test]
fn grants_of_version_0_1_are_listed_as_they_were() {
    let run = copied().run(&["grant", "list", "--json", "--data", "data"]);
    assert_eq!((run.code, run.stdout), (0, golden("grants.json")));
}

#[tokio::test]
async fn counters_of_version_0_1_keep_what_was_used() {
    let house = copied();
    let clock = ManualClock::at("2026-11-18T10:00:00Z".parse().expect("a time"));
    let ledger =
        SqliteLedger::open(&house.path("data"), Durability::Process, std::sync::Arc::new(clock)).expect("opened");
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
