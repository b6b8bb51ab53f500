//! Commands that read and change the store, and their errors.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use serde_json::Value;
use support::{Run, TestDir, example};

const POLICY: &str = r#"{"version": "1", "default": "deny", "tools": {"pay": {
  "limits": [{"counter": "spend", "window": "day", "max": 5}]}}}"#;

fn run_with_data(dir: &TestDir, args: &[&str]) -> Run {
    dir.run(&[args, &["--data", "data"]].concat())
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

/// A data directory with a server, a policy and a grant.
fn dir_with_grant() -> TestDir {
    let dir = TestDir::new();
    dir.write("policy.json", POLICY);
    assert_eq!(run_with_data(&dir, &["server", "add", "books", "http://127.0.0.1:9/mcp"]).code, 0);
    assert_eq!(run_with_data(&dir, &["policy", "put", "books", "policy.json"]).code, 0);
    assert_eq!(run_with_data(&dir, &["grant", "create", "ci", "--server", "books", "--policy", "books"]).code, 0);
    dir
}

#[test]
fn commands_without_a_store_say_how_to_start() {
    let dir = TestDir::new();
    for args in [&["server", "list"][..], &["grant", "list"], &["calls"], &["status"], &["audit", "verify"]] {
        let run = run_with_data(&dir, args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains("there is no data in `data` yet"), "{}", run.stderr);
    }
    assert!(dir.file_names().is_empty(), "reading creates nothing");
}

#[test]
fn a_server_is_stored_and_shown_without_its_secrets() {
    let dir = TestDir::new();
    let header = "Authorization: Bearer ${BOOKS_TOKEN}";
    let run = run_with_data(
        &dir,
        &["server", "add", "books", "https://books.example.com/mcp?key=s3cret", "--header", header],
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(run.stderr.contains("`BOOKS_TOKEN` is not set here"), "{}", run.stderr);
    let shown = run_with_data(&dir, &["server", "show", "books", "--json"]);
    let output = json(&shown);
    assert_eq!(output["url"], "https://books.example.com/mcp?***");
    assert_eq!(output["headers"][0], "authorization");
    assert_eq!(output["variables"][0], "BOOKS_TOKEN");
    let run = run_with_data(&dir, &["server", "test", "books"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("environment variable `BOOKS_TOKEN` is not set"), "{}", run.stderr);
}

#[test]
fn an_invalid_server_is_refused_without_printing_secrets() {
    let dir = TestDir::new();
    for (args, words) in [
        (&["Books", "http://127.0.0.1:9/mcp"][..], "is not a server name"),
        (&["books", "books.example.com"], "not a URL of the form"),
        (&["books", "https://me:s3cret@books.example.com"], "has a user or password in it"),
        (
            &["books", "http://127.0.0.1:9", "--header", "X-Api-Key: s3cret"],
            "would store its credential in the database",
        ),
        (&["books", "http://127.0.0.1:9", "--header", "s3cret"], "write a header as 'Name: value'"),
        (&["books", "http://127.0.0.1:9", "--header", "Host: s3cret"], "the gateway sets the header `Host` itself"),
    ] {
        let run = run_with_data(&dir, &[&["server", "add"], args].concat());
        assert_eq!(run.code, 2, "{args:?}");
        assert!(run.stderr.contains(words) && !run.stderr.contains("s3cret"), "{}", run.stderr);
    }
    assert_eq!(run_with_data(&dir, &["server", "add", "books", "http://127.0.0.1:9"]).code, 0);
    let second = run_with_data(&dir, &["server", "add", "books", "http://127.0.0.1:9"]);
    assert_eq!(second.code, 2);
    assert_eq!(run_with_data(&dir, &["server", "test", "books"]).code, 4);
    assert_eq!(run_with_data(&dir, &["server", "remove", "books"]).code, 0);
    assert_eq!(run_with_data(&dir, &["server", "remove", "books"]).code, 2);
    assert_eq!(run_with_data(&dir, &["server", "show", "books"]).code, 2);
}

#[test]
fn a_grant_stores_its_minimum_revision() {
    let dir = dir_with_grant();
    assert_eq!(run_with_data(&dir, &["grant", "create", "new", "--minimum-revision", "2025-11-25"]).code, 0);
    assert_eq!(json(&run_with_data(&dir, &["grant", "show", "new", "--json"]))["minimum_revision"], "2025-11-25");
    assert!(run_with_data(&dir, &["grant", "show", "new"]).stdout.contains("2025-11-25 or newer"));
    assert_eq!(json(&run_with_data(&dir, &["grant", "show", "ci", "--json"]))["minimum_revision"], Value::Null);
    let wrong = run_with_data(&dir, &["grant", "create", "other", "--minimum-revision", "2025-11-26"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("`2025-11-26` is not a protocol revision; the revisions are"), "{}", wrong.stderr);
}

#[test]
fn a_token_is_printed_once_and_only_its_hash_is_stored() {
    let dir = dir_with_grant();
    let run =
        run_with_data(&dir, &["grant", "create", "me", "--server", "books", "--policy", "books", "--labels", "team=x"]);
    let token = run.stdout.strip_suffix('\n').expect("one line");
    assert!(token.starts_with("glt_") && !token.contains(char::is_whitespace) && !run.stderr.contains(token));
    let output = json(&run_with_data(&dir, &["grant", "show", "me", "--json"]));
    assert_eq!(output["labels"]["team"], "x");
    assert_eq!(output["state"], "live");
    let (created, expires) = (output["created_at"].as_str().unwrap(), output["expires_at"].as_str().unwrap());
    assert_ne!(created[..7], expires[..7], "it expires after 90 days by default");
    let state = std::fs::read(dir.path("data/state.db")).expect("a database");
    assert!(!String::from_utf8_lossy(&state).contains(token));
    let rotated = run_with_data(&dir, &["grant", "rotate", "me", "--no-expiry"]);
    assert_ne!(rotated.stdout.trim(), token);
    assert_eq!(json(&run_with_data(&dir, &["grant", "show", "me", "--json"]))["expires_at"], Value::Null);
    assert_eq!(run_with_data(&dir, &["grant", "revoke", "me"]).code, 0);
    assert_eq!(run_with_data(&dir, &["grant", "rotate", "me"]).code, 2);
    assert!(run_with_data(&dir, &["grant", "list"]).stdout.contains("me  revoked  store"));
}

#[test]
fn a_grant_can_only_refer_to_existing_servers_and_policies() {
    let dir = dir_with_grant();
    for (args, words) in [
        (&["grant", "create", "me", "--server", "boks"][..], "there is no server `boks`; did you mean `books`?"),
        (
            &["grant", "create", "me", "--server", "books", "--policy", "boks"],
            "there is no policy `boks`; did you mean",
        ),
        (&["grant", "create", "ci", "--server", "books"], "there is already a grant `ci`"),
        (&["grant", "create", "me", "--expires", "soon"], "`soon` is not a time"),
        (&["grant", "create", "me", "--expires", "2020-01-01"], "is in the past"),
        (&["grant", "create", "me", "--labels", "x"], "is not of the form KEY=VALUE"),
        (&["grant", "attach", "absent", "--server", "books"], "there is no grant `absent`"),
        (&["grant", "detach", "ci", "--server", "notes"], "there is no server `notes`"),
        (&["policy", "rollback", "nope", "9"], "there is no policy `nope`"),
        (&["policy", "rollback", "books", "9"], "version 9"),
    ] {
        let run = run_with_data(&dir, args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(words), "{args:?}: {}", run.stderr);
    }
    assert_eq!(run_with_data(&dir, &["grant", "detach", "ci", "--server", "books"]).code, 0);
    assert!(run_with_data(&dir, &["grant", "list"]).stdout.contains("no servers"));
}

#[test]
fn policies_are_versioned_and_reset_counters_are_reported() {
    let dir = dir_with_grant();
    dir.write("hour.json", &POLICY.replace("day", "hour"));
    let put = run_with_data(&dir, &["policy", "put", "books", "hour.json"]);
    assert_eq!(put.code, 0);
    assert!(put.stderr.contains("policy `books` is now at version 2"), "{}", put.stderr);
    assert!(put.stderr.contains("counter `spend` starts at zero: its window was day and is hour"), "{}", put.stderr);
    let back = run_with_data(&dir, &["policy", "rollback", "books", "1"]);
    assert!(back.stderr.contains("now at version 3, which restores version 1"), "{}", back.stderr);
    assert_eq!(run_with_data(&dir, &["policy", "show", "books"]).stdout, POLICY);
    assert_eq!(
        run_with_data(&dir, &["policy", "show", "books", "--version", "2"]).stdout,
        POLICY.replace("day", "hour")
    );
    assert_eq!(run_with_data(&dir, &["policy", "versions", "books"]).stdout.lines().count(), 3);
    assert_eq!(json(&run_with_data(&dir, &["policy", "list", "--json"]))[0]["version"], 3);
    assert_eq!(run_with_data(&dir, &["policy", "rollback", "books", "9"]).code, 2);
    assert_eq!(run_with_data(&dir, &["policy", "show", "nothing"]).code, 2);

    dir.write("bad.json", r#"{"version": "1"}"#);
    let bad = run_with_data(&dir, &["policy", "put", "books", "bad.json"]);
    assert_eq!(bad.code, 1);
    assert!(bad.stderr.contains("error[missing-field]") && bad.stderr.contains("nothing was stored"), "{}", bad.stderr);
    assert_eq!(run_with_data(&dir, &["policy", "versions", "books"]).stdout.lines().count(), 3);
}

#[test]
fn every_change_is_in_the_admin_log_with_its_author() {
    let dir = dir_with_grant();
    let log = run_with_data(&dir, &["audit", "export", "--log", "admin"]).stdout;
    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let actions: Vec<&str> = entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["server.add", "policy.put", "grant.create"]);
    let me = dir.run_shell("id -un").stdout;
    assert!(entries.iter().all(|entry| entry["by"] == me.trim()), "{log}");
}

#[test]
fn logs_are_verified_against_a_recorded_head() {
    let dir = dir_with_grant();
    let verified = run_with_data(&dir, &["audit", "verify"]);
    assert_eq!(verified.code, 0);
    assert!(verified.stdout.contains("admin log  intact: 3 rows"), "{}", verified.stdout);
    let head = run_with_data(&dir, &["audit", "head", "--log", "admin"]).stdout.trim().to_owned();
    assert_eq!(run_with_data(&dir, &["audit", "verify", "--admin-head", &head]).code, 0);
    let other = format!("3:{}", "ab".repeat(32));
    let broken = run_with_data(&dir, &["audit", "verify", "--admin-head", &other]);
    assert_eq!(broken.code, 1);
    assert!(broken.stdout.contains("admin log  BROKEN") && broken.stdout.contains("row 3"), "{}", broken.stdout);
    let truncated = run_with_data(&dir, &["audit", "verify", "--head", &format!("7:{}", "ab".repeat(32)), "--json"]);
    assert_eq!(truncated.code, 1);
    assert_eq!(json(&truncated)["holds"], false);
    assert_eq!(run_with_data(&dir, &["audit", "verify", "--head", "x"]).code, 2);
    assert_eq!(run_with_data(&dir, &["audit", "prune", "--older", "90d"]).code, 0);
    assert_eq!(run_with_data(&dir, &["audit", "prune", "--older", "soon"]).code, 2);
}

#[test]
fn a_truncated_admin_log_is_detected_by_its_head_file() {
    let dir = dir_with_grant();
    let head = run_with_data(&dir, &["audit", "head", "--log", "admin"]).stdout;
    assert_eq!(dir.read("data/state.head").trim(), head.trim());
    // The head claims a fourth row.
    dir.write("data/state.head", &format!("4:{}\n", "ab".repeat(32)));
    let broken = run_with_data(&dir, &["audit", "verify"]);
    assert_eq!(broken.code, 1);
    assert!(broken.stdout.contains("the log ends at row 3, but a known head has row 4"), "{}", broken.stdout);
}

#[test]
fn an_export_contains_the_hash_chain() {
    let dir = dir_with_grant();
    let log = run_with_data(&dir, &["audit", "export", "--log", "admin"]).stdout;
    let mut previous = "0".repeat(64);
    for (seq, line) in (1_u64..).zip(log.lines()) {
        let row: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((row["seq"].as_u64(), row["previous"].as_str()), (Some(seq), Some(previous.as_str())));
        previous = row["hash"].as_str().expect("a hash").to_owned();
    }
    assert_eq!(run_with_data(&dir, &["audit", "head", "--log", "admin"]).stdout, format!("3:{previous}\n"));
    let after = run_with_data(&dir, &["audit", "export", "--log", "admin", "--after", "2"]).stdout;
    assert_eq!(after.lines().collect::<Vec<_>>(), log.lines().skip(2).collect::<Vec<_>>());
}

#[test]
fn logging_of_arguments_is_opt_in_and_shown() {
    let dir = dir_with_grant();
    assert_eq!(run_with_data(&dir, &["server", "add", "notes", "http://127.0.0.1:9/mcp", "--log-arguments"]).code, 0);
    for (name, words, is_logged) in [("notes", "arguments logged", true), ("books", "arguments not logged", false)] {
        let shown = run_with_data(&dir, &["server", "show", name]).stdout;
        assert!(shown.lines().any(|line| line.split_whitespace().eq(words.split_whitespace())), "{shown}");
        assert_eq!(json(&run_with_data(&dir, &["server", "show", name, "--json"]))["log_arguments"], is_logged);
    }
}

#[test]
fn doctor_names_an_unreachable_server_with_a_fix() {
    let dir = dir_with_grant();
    let run = run_with_data(&dir, &["doctor", "--json"]);
    assert_eq!(run.code, 1, "the server does not answer");
    let checks = json(&run);
    let checks = checks.as_array().unwrap();
    let server = checks.iter().find(|check| check["name"] == "server").expect("a check of the server");
    assert_eq!(server["verdict"], "wrong");
    assert!(server["fix"].as_str().is_some());
    for name in ["data directory", "databases", "clock"] {
        let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(check["verdict"], "fine", "{check}");
    }
    let empty = dir.run(&["doctor", "--data", "elsewhere"]);
    assert!(empty.stdout.contains("`elsewhere` does not exist yet"), "{}", empty.stdout);
    assert!(!dir.path("elsewhere").exists());
}

#[test]
fn exit_codes_of_call_distinguish_unreachable_and_usage() {
    let dir = TestDir::new();
    for (args, code) in [
        (&["call", "http://127.0.0.1:9/mcp", "x"][..], 4),
        (&["call", "nowhere", "x"], 2),
        (&["call", "http://127.0.0.1:9/mcp", "x", "not json"], 2),
        (&["call", "http://127.0.0.1:9/mcp", "x", "[1]"], 2),
        (&["up", "--log-level", "loud"], 2),
    ] {
        let run = dir.run(args);
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{args:?}: {}", run.stderr);
    }
    assert!(std::path::Path::new(&example("demo/policy.json")).exists());
}

#[test]
fn the_demo_policy_is_valid() {
    let run = TestDir::new().run(&["policy", "check", "--strict", &example("demo/policy.json")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn every_change_reports_its_result_as_json() {
    let dir = TestDir::new();
    dir.write("policy.json", POLICY);
    for (args, pointer, value) in [
        (&["server", "add", "books", "http://127.0.0.1:9/mcp"][..], "/name", "books"),
        (&["policy", "put", "books", "policy.json"], "/name", "books"),
        (&["grant", "create", "ci"], "/label", "ci"),
        (&["grant", "attach", "ci", "--server", "books", "--policy", "books"], "/attached/policy", "books"),
        (&["grant", "detach", "ci", "--server", "books"], "/detached", "books"),
        (&["grant", "revoke", "ci"], "/label", "ci"),
        (&["server", "remove", "books"], "/name", "books"),
    ] {
        let run = run_with_data(&dir, &[args, &["--json"]].concat());
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        assert_eq!(json(&run).pointer(pointer), Some(&value.into()), "{args:?}");
    }
}

#[test]
fn json_errors_have_one_shape() {
    let dir = dir_with_grant();
    dir.write("bad.toml", "[gateway]\nlisten = 5\n[store]\ndata = \"data\"\n");
    dir.write("bad.json", "{}");
    for (args, code, words) in [
        (&["server", "show", "nothing"][..], 2, "there is no server `nothing`"),
        (&["server", "add", "Books", "http://127.0.0.1:9/mcp"], 2, "is not a server name"),
        (&["server", "test", "books"], 4, "server `books`: "),
        (&["grant", "attach", "absent", "--server", "books"], 2, "there is no grant `absent`"),
        (&["audit", "prune", "--older", "soon"], 2, "is not a duration"),
        (&["policy", "put", "books", "bad.json"], 1, "nothing was stored"),
        (&["grant", "list", "--config", "bad.toml"], 1, "the configuration is invalid"),
        (&["calls", "--last", "x"], 2, "invalid value 'x'"),
        (&["calls", "--config", "nowhere.toml"], 2, "cannot read `nowhere.toml`"),
        (&["status", "--data", "nowhere"], 2, "there is no data in `nowhere` yet"),
    ] {
        let data: &[&str] = if args.contains(&"--data") { &["--json"] } else { &["--json", "--data", "data"] };
        let run = dir.run(&[args, data].concat());
        assert_eq!(run.code, code, "{args:?}: {run:?}");
        let output = json(&run);
        assert_eq!(output["error"]["exit_code"], code, "{args:?}");
        let message = output["error"]["message"].as_str().unwrap();
        assert!(message.contains(words) && !message.starts_with("error"), "{args:?}: {message}");
        assert!(run.stderr.contains(words), "{args:?}: {}", run.stderr);
    }
    let call = dir.run(&["call", "http://127.0.0.1:9/mcp", "x", "--json"]);
    assert_eq!((call.code, &json(&call)["error"]["exit_code"]), (4, &4.into()), "{call:?}");
}

#[test]
fn a_grant_without_a_policy_says_that_its_calls_are_refused() {
    let dir = dir_with_grant();
    let run = run_with_data(&dir, &["grant", "create", "me", "--server", "books"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("warning: it has no policy for `books`, so every call is refused"), "{}", run.stderr);
    let run = run_with_data(&dir, &["grant", "create", "you", "--server", "books", "--policy", "books"]);
    assert!(run.code == 0 && !run.stderr.contains("warning"), "{}", run.stderr);
}

#[test]
fn an_unchanged_policy_creates_no_new_version() {
    let dir = dir_with_grant();
    let again = run_with_data(&dir, &["policy", "put", "books", "policy.json"]);
    assert_eq!(again.code, 0);
    assert!(again.stderr.contains("policy `books` stays at version 1: the text is the same"), "{}", again.stderr);
    assert_eq!(json(&run_with_data(&dir, &["policy", "put", "books", "policy.json", "--json"]))["unchanged"], true);
    assert_eq!(run_with_data(&dir, &["policy", "versions", "books"]).stdout.lines().count(), 1);
}

#[test]
fn the_configuration_path_can_come_from_the_environment() {
    let dir = TestDir::new();
    let run = dir.run(&["serve", "--check"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("or set `GATELODGE_CONFIG`"), "{}", run.stderr);
    dir.write("policy.json", POLICY);
    dir.write("gatelodge.toml", "[[policies]]\nname = \"a\"\nfile = \"policy.json\"\n");
    let line = format!("GATELODGE_CONFIG=gatelodge.toml {} serve --check", env!("CARGO_BIN_EXE_gatelodge"));
    let line = line.replace("GATELODGE_CONFIG=", "env GATELODGE_CONFIG=");
    let run = dir.run_shell(&line);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert_eq!(run.stderr, "gatelodge.toml: no errors; 0 servers, 1 policy, 0 grants\n");
    assert_eq!(dir.run(&["call", "http://127.0.0.1:9/mcp", "x", "--timeout", "0"]).code, 2);
}

#[test]
fn rotating_a_revoked_grant_reports_when_it_was_revoked() {
    let dir = dir_with_grant();
    assert_eq!(run_with_data(&dir, &["grant", "revoke", "ci"]).code, 0);
    let run = run_with_data(&dir, &["grant", "rotate", "ci"]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("grant `ci` was revoked at 2") && run.stderr.contains("grant create"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_server_of_the_configuration_is_tested_without_a_data_directory() {
    let dir = TestDir::new();
    let text = "[store]\ndata = \"nowhere\"\n[[servers]]\nname = \"books\"\nurl = \"http://127.0.0.1:9/mcp\"\n";
    dir.write("gatelodge.toml", text);
    let run = dir.run(&["server", "test", "books", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("server `books`: "), "{}", run.stderr);
    assert!(!dir.path("nowhere").exists());
}

#[test]
fn a_missing_head_is_a_finding_and_a_missing_ledger_an_error() {
    let dir = dir_with_grant();
    std::fs::remove_file(dir.path("data/state.head")).expect("removed");
    for _ in 0..2 {
        let run = run_with_data(&dir, &["audit", "verify"]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(
            run.stdout.contains("its head file was MISSING") && run.stdout.contains("state.head.missed"),
            "{}",
            run.stdout
        );
    }
    std::fs::remove_file(dir.path("data/state.head.missed")).expect("removed");
    assert_eq!(run_with_data(&dir, &["audit", "verify"]).code, 0);
    dir.write("data/ledger.head", &format!("4:{}\n", "ab".repeat(32)));
    std::fs::remove_file(dir.path("data/ledger.db")).expect("removed");
    let run = run_with_data(&dir, &["grant", "create", "me"]);
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert!(run.stderr.contains("records 4 rows; restore the database, or remove"), "{}", run.stderr);
}
