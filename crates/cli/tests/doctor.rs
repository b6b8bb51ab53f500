//! `doctor`, `status` and other commands name what is wrong with an installation.

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

const PROGRAM: &str = env!("CARGO_BIN_EXE_gatelodge");
const CONFIG: &str = "[gateway]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"ADMIN\"\n[store]\ndata = \"data\"\n\
    [[policies]]\nname = \"a\"\nfile = \"policy.json\"\n\
    [[servers]]\nname = \"files\"\ncommand = [\"no-such-program\", \"/x\"]\n\
    [[grants]]\nlabel = \"ci\"\ntoken_hash = \"HASH\"\nserver = \"files\"\npolicy = \"a\"\n";

/// Writes a configuration; also returns its admin address.
fn dir_with_config() -> (TestDir, String) {
    let dir = TestDir::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let admin = free.local_addr().expect("an address").to_string();
    dir.write("policy.json", r#"{"version": "1", "default": "deny"}"#);
    dir.write("gatelodge.toml", &CONFIG.replace("ADMIN", &admin).replace("HASH", &"ab".repeat(32)));
    std::fs::create_dir(dir.path("home")).expect("a directory");
    (dir, admin)
}

fn serve(dir: &TestDir) -> RunningGateway {
    dir.start("data", &[], &["serve", "--config", "gatelodge.toml"])
}

fn up(dir: &TestDir) -> RunningGateway {
    dir.start("data", &[], &["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
}

fn doctor(dir: &TestDir, args: &[&str]) -> (Run, Vec<Value>) {
    let run = dir.run(&[&["doctor", "--json", "--home", "home"], args].concat());
    let checks = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    (run, checks)
}

fn check<'c>(checks: &'c [Value], name: &str) -> &'c Value {
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {checks:?}"))
}

#[test]
fn doctor_reports_the_server_and_addresses_of_a_running_demo() {
    let dir = TestDir::new();
    let running = up(&dir);
    let (run, checks) = doctor(&dir, &["--data", "data"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(!run.stdout.contains("which does not exist"), "{}", run.stdout);
    assert_eq!(check(&checks, "server")["says"], "`demo` is only in the running gateway, which reports it as running");
    let address = running.url("demo").replace("http://", "").replace("/mcp/demo", "");
    assert_eq!(check(&checks, "port for agents")["says"], format!("the running gateway listens on {address}"));
    let listed = dir.run(&["server", "list", "--data", "data"]);
    assert!(listed.stdout.contains("demo  only in the running gateway  process"), "{listed:?}");
}

#[test]
fn doctor_names_a_missing_program() {
    let (dir, _) = dir_with_config();
    let running = serve(&dir);
    let (run, checks) = doctor(&dir, &["--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    assert_eq!(check(&checks, "server")["says"], "`files` runs `no-such-program`, which does not exist");
    drop(running);
}

#[test]
fn doctor_finds_a_client_that_bypasses_the_gateway() {
    let (dir, _) = dir_with_config();
    assert_eq!(serve(&dir).stop(), 0);
    let clients_check = |text: &str| {
        std::fs::create_dir_all(dir.path("home/.cursor")).expect("a directory");
        dir.write("home/.cursor/mcp.json", text);
        let (_, checks) = doctor(&dir, &["--config", "gatelodge.toml"]);
        check(&checks, "clients").clone()
    };
    let same = clients_check(r#"{"mcpServers": {"mine": {"command": "no-such-program", "args": ["/x"]}}}"#);
    assert_eq!(same["verdict"], "wrong");
    assert!(same["says"].as_str().unwrap().ends_with("~/.cursor/mcp.json; the gateway has it as `files`"), "{same}");
    assert!(same["fix"].as_str().unwrap().starts_with("`gatelodge connect cursor --server files --write`"), "{same}");
    let other = clients_check(r#"{"mcpServers": {"mine": {"url": "https://books.example.com/mcp"}}}"#);
    assert_eq!(other["verdict"], "warning");
    assert!(other["fix"].as_str().unwrap().starts_with("`gatelodge init --clients cursor --servers mine"), "{other}");
    let through_gateway = clients_check(r#"{"mcpServers": {"mine": {"url": "http://127.0.0.1:0/mcp/files"}}}"#);
    assert_eq!(through_gateway["says"], "no client bypasses the gateway");
    // Cursor ignores `disabled`, Kiro reads it.
    let off = r#"{"mcpServers": {"mine": {"url": "https://books.example.com/mcp", "disabled": true}}}"#;
    assert_eq!(clients_check(off)["verdict"], "warning");
    std::fs::create_dir_all(dir.path("home/.kiro/settings")).expect("a directory");
    dir.write("home/.kiro/settings/mcp.json", off);
    assert_eq!(clients_check("{}")["verdict"], "fine");
}

#[test]
fn doctor_finds_a_project_server_of_claude_that_bypasses_the_gateway() {
    let (dir, _) = dir_with_config();
    assert_eq!(serve(&dir).stop(), 0);
    let clients_check = |entry: &str| {
        dir.write(
            "home/.claude.json",
            &format!(r#"{{"projects": {{"/srv/it": {{"mcpServers": {{"mine": {entry}}}}}}}}}"#),
        );
        let (_, checks) = doctor(&dir, &["--config", "gatelodge.toml"]);
        check(&checks, "clients").clone()
    };
    let other = clients_check(r#"{"url": "https://books.example.com/mcp"}"#);
    assert_eq!(other["verdict"], "warning");
    assert!(other["fix"].as_str().unwrap().contains("--servers mine --project /srv/it --rewrite"), "{other}");
    assert_eq!(clients_check(r#"{"command": "no-such-program", "args": ["/x"]}"#)["verdict"], "wrong");
}

#[test]
fn doctor_finds_calls_in_the_future_also_in_front_of_later_rows() {
    let dir = TestDir::new();
    let parse_time = |time: &str| time.parse().expect("a time");
    let ledger = SqliteLedger::open(
        &dir.path("data"),
        Durability::Process,
        Arc::new(ManualClock::at(parse_time("2026-11-15T12:00:00Z"))),
    );
    let ledger = ledger.expect("a ledger");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for time in ["2999-01-01T00:00:00Z", "2026-01-02T00:00:00Z"] {
        let row = CallRecord::new(RecordKind::PolicyExempt, CallId::new(parse_time(time), [7; 10]), parse_time(time));
        runtime.block_on(ledger.write(&row)).expect("queued");
    }
    drop(ledger);
    assert_eq!(dir.run(&["policy", "list", "--data", "data"]).code, 2, "there is no state yet");
    dir.run(&["server", "add", "a", "http://127.0.0.1:9", "--data", "data"]);
    let (_, checks) = doctor(&dir, &["--data", "data"]);
    let clock = check(&checks, "clock");
    assert_eq!(clock["verdict"], "wrong");
    assert!(clock["says"].as_str().unwrap().contains("recorded up to 2999-01-01T00:00:00Z"), "{clock}");
}

#[test]
fn status_with_a_broken_file_reports_the_running_gateway() {
    let (dir, _) = dir_with_config();
    let running = serve(&dir);
    dir.write("policy.json", "{");
    let run = dir.run(&["status", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("0 live, 1 active in the running gateway"), "{}", run.stdout);
    assert!(run.stdout.contains("The configuration has errors"), "{}", run.stdout);
    drop(running);
}

#[test]
fn a_data_directory_that_a_running_gateway_lost_is_reported_and_not_recreated() {
    let (dir, admin) = dir_with_config();
    let running = serve(&dir);
    std::fs::rename(dir.path("data"), dir.path("moved")).expect("moved away");
    for args in [&["status"][..], &["grant", "create", "me"], &["server", "add", "b", "http://127.0.0.1:9"]] {
        let run = dir.run(&[args, &["--config", "gatelodge.toml"]].concat());
        assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{args:?}: {run:?}");
        let words = format!("there is no store in `data`, but a gateway answers at {admin}");
        assert!(run.stderr.contains(&words), "{args:?}: {}", run.stderr);
    }
    let (run, checks) = doctor(&dir, &["--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    assert!(check(&checks, "data directory")["says"].as_str().unwrap().contains("is gone, but a gateway runs"));
    assert!(!dir.path("data").exists());
    drop(running);
}

#[test]
fn status_reports_the_first_gateway_after_a_second_one_stopped() {
    let dir = TestDir::new();
    let first = up(&dir);
    let url = first.url("demo").replace("demo", "<server>");
    // The second gateway writes nothing to the store, so that its status file is the newest.
    let text = "[gateway]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[store]\ndata = \"data\"\n";
    dir.write("gatelodge.toml", text);
    let second = dir.start("data/.", &[], &["serve", "--config", "gatelodge.toml"]);
    assert_eq!(second.stop(), 0);
    let status = || dir.run(&["status", "--data", "data"]).stdout;
    wait_until("status reports the first gateway again", || status().contains(&format!("ready at {url}")));
}

#[test]
fn a_low_open_files_limit_is_reported_and_raised_to_the_hard_limit() {
    let (dir, _) = dir_with_config();
    let few = dir.run_shell(&format!("ulimit -n 300; {PROGRAM} doctor --data data --home home"));
    assert!(
        few.stdout.contains("open files: the limit is 300, too low for `max_connections` = 10000"),
        "{}",
        few.stdout
    );
    let script = format!(
        "ulimit -Sn 128; ulimit -Hn 300; timeout -s INT 4 {PROGRAM} up --data data --listen 127.0.0.1:0 \
         --admin 127.0.0.1:0"
    );
    let run = dir.run_shell(&script);
    assert!(run.stderr.contains("the open file limit is 300, too low for 10000 connections"), "{}", run.stderr);
}
