//! `gatelodge serve`: the active configuration follows the file and the store; a broken file changes nothing.
//!
//! The upstream is the demo server behind a second, inner gateway, so that the outer gateway has an upstream secret.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::Arc;

use gatelodge_store::{CallId, CallRecord, Durability, Ledger, ManualClock, RecordKind, SqliteLedger};
use serde_json::Value;
use support::{Run, RunningGateway, TestDir, wait_until};

const OPEN: &str = r#"{"version": "1", "default": "allow"}"#;
const CLOSED: &str =
    r#"{"version": "1", "default": "allow", "tools": {"list_notes": {"action": "deny", "reason": "Closed."}}}"#;

/// An outer gateway whose one server is the demo server of an inner gateway.
struct NestedGateways {
    dir: TestDir,
    outer: RunningGateway,
    _inner: RunningGateway,
    secret: String,
    token: String,
}

fn site() -> NestedGateways {
    let dir = TestDir::new();
    let inner =
        dir.start("inner", &[], &["up", "--data", "inner", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let printed = inner.stdout();
    let secret = printed.lines().find_map(|line| line.trim().strip_prefix("token  ")).expect("a token").to_owned();
    let token = dir.run(&["grant", "token"]).stdout.trim().to_owned();
    dir.write("policy.json", OPEN);
    dir.write("gatelodge.toml", &config(&inner.url("demo"), ""));
    let outer = start(&dir, &secret, &token);
    NestedGateways { dir, outer, _inner: inner, secret, token }
}

fn start(dir: &TestDir, secret: &str, token: &str) -> RunningGateway {
    let variables = [("UPSTREAM_TOKEN", secret), ("CI_TOKEN", token)];
    dir.start("data", &variables, &["serve", "--config", "gatelodge.toml", "--log-level", "trace"])
}

fn config(url: &str, more: &str) -> String {
    format!(
        r#"[gateway]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[store]
data = "data"
[[servers]]
name = "notes"
url = "{url}"
headers = {{ Authorization = "Bearer ${{UPSTREAM_TOKEN}}" }}
[[policies]]
name = "notes"
file = "policy.json"
[[grants]]
label = "ci"
token_env = "CI_TOKEN"
server = "notes"
policy = "notes"
{more}"#
    )
}

impl NestedGateways {
    fn call(&self, tool: &str) -> Run {
        self.call_with(&self.token, "notes", tool)
    }

    fn call_with(&self, token: &str, server: &str, tool: &str) -> Run {
        self.dir.run_with(&[("GATELODGE_TOKEN", token)], &["call", &self.outer.url(server), tool])
    }

    fn run(&self, args: &[&str]) -> Run {
        let variables = [("UPSTREAM_TOKEN", self.secret.as_str()), ("CI_TOKEN", self.token.as_str())];
        self.dir.run_with(&variables, args)
    }
}

#[test]
fn a_changed_policy_is_reloaded_and_a_broken_one_changes_nothing() {
    let site = site();
    assert_eq!(site.call("list_notes").stdout, "plans\nshopping\n");

    site.dir.write("policy.json", CLOSED);
    wait_until("the new policy refuses", || site.call("list_notes").stdout == "[POLICY DENIED] Closed.\n");

    site.dir.write("policy.json", r#"{"version": "1", "default": "dney"}"#);
    wait_until("the error is logged", || site.outer.log().contains("the previous one stays active"));
    assert!(site.outer.log().contains("`dney` is not a valid value for default"), "{}", site.outer.log());
    assert_eq!(site.call("list_notes").stdout, "[POLICY DENIED] Closed.\n");
    for status in [site.run(&["status", "--data", "data"]), site.run(&["status", "--config", "gatelodge.toml"])] {
        assert_eq!(status.code, 1);
        assert!(status.stdout.contains("The configuration has errors"), "{}", status.stdout);
        assert!(status.stdout.contains("policy.json:1:29: error[unknown-word]"), "{}", status.stdout);
    }

    site.dir.write("policy.json", OPEN);
    wait_until("the good policy is back", || site.call("list_notes").code == 0);
    assert_eq!(site.run(&["status", "--data", "data"]).code, 0);
}

#[test]
fn sighup_reloads_the_file_and_sigterm_drains() {
    let site = site();
    site.outer.signal("HUP");
    wait_until("the file is reloaded", || site.outer.log().contains("the configuration was reloaded"));
    assert_eq!(site.call("list_notes").code, 0);
    let log = site.dir.path("data.err");
    assert_eq!(site.outer.stop(), 0);
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.contains("received SIGTERM: stopping") && log.contains("stopped"), "{log}");
    assert!(!site.dir.path("data/gateway.json").exists());
}

#[test]
fn changes_by_the_command_line_are_reloaded() {
    let site = site();
    let run = |args: &[&str]| site.run(&[args, &["--config", "gatelodge.toml"]].concat());
    site.dir.write("closed.json", CLOSED);
    assert_eq!(run(&["policy", "put", "mine", "closed.json"]).code, 0);
    let token = run(&["grant", "create", "me", "--server", "notes", "--policy", "mine"]).stdout.trim().to_owned();
    wait_until("the grant is known", || {
        site.call_with(&token, "notes", "list_notes").stdout == "[POLICY DENIED] Closed.\n"
    });

    let attach = run(&["grant", "attach", "me", "--server", "notes", "--policy", "mine", "--observe"]);
    assert_eq!(attach.code, 0, "{attach:?}");
    wait_until("the grant only observes", || site.call_with(&token, "notes", "list_notes").code == 0);
    assert!(site.outer.log().contains("grant `me` only OBSERVES calls to `notes`"), "{}", site.outer.log());
    let status = run(&["status"]);
    assert!(status.stdout.contains("OBSERVE ONLY: grant me at notes"), "{}", status.stdout);
    let calls = run(&["calls", "--grant", "me", "--refused"]);
    assert!(calls.stdout.contains("OBSERVED, ok"), "{}", calls.stdout);

    let new_token = run(&["grant", "rotate", "me"]).stdout.trim().to_owned();
    wait_until("the old token is refused", || site.call_with(&token, "notes", "list_notes").code == 3);
    assert_eq!(site.call_with(&new_token, "notes", "list_notes").code, 0);
    assert_eq!(run(&["grant", "revoke", "me"]).code, 0);
    wait_until("the grant has ended", || site.call_with(&new_token, "notes", "list_notes").code == 3);
}

#[test]
fn entries_of_the_file_cannot_be_changed_by_commands() {
    let site = site();
    let run = |args: &[&str]| site.run(&[args, &["--config", "gatelodge.toml"]].concat());
    for args in [
        &["server", "remove", "notes"][..],
        &["server", "add", "notes", "http://127.0.0.1:9/mcp"],
        &["grant", "revoke", "ci"],
        &["grant", "rotate", "file:ci"],
        &["grant", "create", "ci"],
        &["policy", "put", "notes", "policy.json"],
    ] {
        let refused = run(args);
        assert_eq!(refused.code, 2, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains("is defined in the configuration file; change it there"), "{}", refused.stderr);
    }
    let servers = run(&["server", "list"]);
    assert!(servers.stdout.starts_with("notes  http://") && servers.stdout.ends_with("  file\n"), "{}", servers.stdout);
    // With `--data` the command does not read the file, so it can add a server of the same name. The file takes
    // precedence.
    assert_eq!(site.run(&["server", "add", "notes", "http://127.0.0.1:9/mcp", "--data", "data"]).code, 0);
    wait_until("the clash is logged", || {
        site.outer.log().contains("server `notes` is in the file and in the store; the file takes precedence")
    });
    assert_eq!(site.call("list_notes").code, 0);
}

/// Upstream secrets and grant tokens appear in no output, log or database.
#[test]
fn no_secret_is_in_any_output_of_any_command() {
    let site = site();
    site.call("list_notes");
    site.call("no_such_tool");
    let config = ["--config", "gatelodge.toml"];
    let mut outputs = vec![("log", site.outer.log())];
    for args in [
        &["serve", "--check"][..],
        &["server", "list"],
        &["server", "list", "--json"],
        &["server", "show", "notes"],
        &["server", "show", "notes", "--json"],
        &["server", "test", "notes"],
        &["server", "test", "notes", "--json"],
        &["grant", "list", "--json"],
        &["grant", "show", "ci"],
        &["grant", "show", "ci", "--json"],
        &["policy", "list", "--json"],
        &["calls", "--all"],
        &["calls", "--all", "--json"],
        &["audit", "export"],
        &["audit", "export", "--log", "admin"],
        &["audit", "verify", "--json"],
        &["status"],
        &["status", "--json"],
        &["doctor"],
        &["doctor", "--json"],
    ] {
        let run = site.run(&[args, &config].concat());
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        outputs.push(("output", format!("{args:?}\n{}{}", run.stdout, run.stderr)));
    }
    site.dir.write(
        "gatelodge.toml",
        "[[servers]]\nname = 5\nheaders = { Authorization = \"Bearer ${UPSTREAM_TOKEN}\", X-Key = \"",
    );
    let broken = site.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    outputs.push(("broken", format!("{}{}", broken.stdout, broken.stderr)));
    outputs.push(("status file", site.dir.read("data/gateway.json")));
    for (what, text) in outputs {
        for secret in [&site.secret, &site.token] {
            let secret = secret.strip_prefix("glt_").expect("a token");
            assert!(!text.contains(secret), "a secret is in this {what}:\n{text}");
        }
    }
    for database in ["data/state.db", "data/ledger.db"] {
        let bytes = std::fs::read(site.dir.path(database)).expect("a database");
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(&site.secret) && !text.contains(&site.token), "{database}");
    }
}

#[test]
fn a_json_log_has_one_object_per_line_with_call_id_and_code() {
    let NestedGateways { dir, outer, _inner: inner, secret, token } = site();
    // The first gateway logs plain text to the same file.
    assert_eq!(outer.stop(), 0);
    dir.write("policy.json", CLOSED);
    let variables = [("UPSTREAM_TOKEN", secret.as_str()), ("CI_TOKEN", token.as_str())];
    let outer = dir.start("data", &variables, &["serve", "--config", "gatelodge.toml", "--log", "json"]);
    let call = dir.run_with(&[("GATELODGE_TOKEN", &token)], &["call", &outer.url("notes"), "list_notes"]);
    assert_eq!(call.code, 3, "{call:?}");
    drop(inner);
    let refused = || dir.run(&["calls", "--refused", "--json", "--data", "data"]).stdout;
    // The row of a refusal is written after its reply.
    wait_until("it is recorded", || !refused().is_empty());
    let rows = refused();
    let row: Value = serde_json::from_str(rows.lines().last().expect("a row")).expect("JSON");
    wait_until("it is logged", || outer.log().contains(row["call"].as_str().unwrap()));
    let mut found = None;
    for line in outer.log().lines() {
        let entry: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(entry["level"].is_string() && entry["timestamp"].is_string() && entry["message"].is_string(), "{line}");
        if entry["call.id"] == row["call"] {
            found = Some(entry);
        }
    }
    let entry = found.expect("the call");
    assert_eq!((&entry["code"], &entry["server.name"]), (&row["code"], &Value::from("notes")));
}

#[test]
fn rows_past_retention_are_pruned_and_the_log_still_verifies() {
    let dir = TestDir::new();
    let text = "[gateway]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[store]\ndata = \"data\"\n";
    dir.write("gatelodge.toml", &format!("{text}retention = \"90d\"\n"));
    write_rows(&dir, &["2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z", "2999-01-01T00:00:00Z"], "x");
    let outer = dir.start("data", &[], &["serve", "--config", "gatelodge.toml"]);
    wait_until("old rows are removed", || outer.log().contains("removed 2 rows of the call log"));
    let rows = dir.run(&["audit", "export", "--data", "data"]).stdout;
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<_> = rows.iter().map(|row| (row["seq"].as_u64().unwrap(), row["kind"].as_str().unwrap())).collect();
    assert_eq!(kinds, [(3, "passed"), (4, "pruned")]);
    let anchor = rows[1]["through"].as_str().expect("the last row that was removed").to_owned();
    assert_eq!(anchor, format!("2:{}", rows[0]["previous"].as_str().unwrap()));
    let verified = dir.run(&["audit", "verify", "--head", &anchor, "--data", "data"]);
    assert_eq!(verified.code, 0, "{}", verified.stdout);
    assert!(verified.stdout.contains("call log   intact: 2 rows"), "{}", verified.stdout);
}

/// Control characters are exported unchanged, because the hash covers them.
#[test]
fn an_export_contains_control_characters_unchanged() {
    let dir = TestDir::new();
    let message = "a\u{9b}31mb\u{7f}c";
    write_rows(&dir, &["2020-01-01T00:00:00Z"], message);
    dir.run(&["server", "add", "books", "http://127.0.0.1:9/mcp", "--data", "data"]);
    let exported = dir.run(&["audit", "export", "--data", "data"]).stdout;
    assert!(exported.contains(message), "{exported:?}");
}

/// Writes one row for each time to the ledger of a gateway that is not running.
fn write_rows(dir: &TestDir, times: &[&str], message: &str) {
    let clock = Arc::new(ManualClock::at(times[0].parse().expect("a time")));
    let ledger = SqliteLedger::open(&dir.path("data"), Durability::Process, clock).expect("a ledger");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for time in times {
        let at = time.parse().expect("a time");
        let mut row = CallRecord::new(RecordKind::PolicyExempt, CallId::new(at, [7; 10]), at);
        row.message = Some(message.into());
        runtime.block_on(ledger.write(&row)).expect("queued");
    }
}
