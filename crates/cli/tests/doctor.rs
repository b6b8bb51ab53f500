//! `doctor`, `status` and the other commands, where something is wrong: each says what it is.

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
use support::{House, Run, Running, house, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_gatelodge");
const CONFIG: &str = "[gateway]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"ADMIN\"\n[store]\ndata = \"data\"\n\
    [[policies]]\nname = \"a\"\nfile = \"policy.json\"\n\
    [[servers]]\nname = \"files\"\ncommand = [\"no-such-program\", \"/x\"]\n\
    [[grants]]\nlabel = \"ci\"\ntoken_hash = \"HASH\"\nserver = \"files\"\npolicy = \"a\"\n";

/// A house with a configuration whose admin address is known.
fn configured() -> (House, String) {
    let house = house();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let admin = free.local_addr().expect("an address").to_string();
    house.write("policy.json", r#"{"version": "1", "default": "deny"}"#);
    house.write("gatelodge.toml", &CONFIG.replace("ADMIN", &admin).replace("HASH", &"ab".repeat(32)));
    std::fs::create_dir(house.path("home")).expect("a directory");
    (house, admin)
}

fn serve(house: &House) -> Running {
    house.start("data", &[], &["serve", "--config", "gatelodge.toml"])
}

fn up(house: &House) -> Running {
    house.start("data", &[], &["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
}

fn doctor(house: &House, args: &[&str]) -> (Run, Vec<Value>) {
    let run = house.run(&[&["doctor", "--json", "--home", "home"], args].concat());
    let checks = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    (run, checks)
}

fn check<'c>(checks: &'c [Value], name: &str) -> &'c Value {
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {checks:?}"))
}

#[test]
fn the_demonstration_is_fine_and_its_server_and_addresses_are_known() {
    let house = house();
    let running = up(&house);
    let (run, checks) = doctor(&house, &["--data", "data"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(!run.stdout.contains("which does not exist"), "{}", run.stdout);
    assert_eq!(check(&checks, "server")["says"], "`demo` is only in the running gateway, which reports it as running");
    let address = running.url("demo").replace("http://", "").replace("/mcp/demo", "");
    assert_eq!(check(&checks, "port for agents")["says"], format!("the running gateway listens on {address}"));
    let listed = house.run(&["server", "list", "--data", "data"]);
    assert!(listed.stdout.contains("demo  only in the running gateway  process"), "{listed:?}");
}

#[test]
fn a_program_that_is_not_found_is_named() {
    let (house, _) = configured();
    let running = serve(&house);
    let (run, checks) = doctor(&house, &["--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    assert_eq!(check(&checks, "server")["says"], "`files` runs `no-such-program`, which does not exist");
    drop(running);
}

#[test]
fn a_client_that_reaches_a_server_past_the_gateway_is_found() {
    let (house, _) = configured();
    assert_eq!(serve(&house).stop(), 0);
    let looked = |text: &str| {
        std::fs::create_dir_all(house.path("home/.cursor")).expect("a directory");
        house.write("home/.cursor/mcp.json", text);
        let (_, checks) = doctor(&house, &["--config", "gatelodge.toml"]);
        check(&checks, "clients").clone()
    };
    let same = looked(r#"{"mcpServers": {"mine": {"command": "no-such-program", "args": ["/x"]}}}"#);
    assert_eq!(same["verdict"], "wrong");
    assert!(same["says"].as_str().unwrap().ends_with("~/.cursor/mcp.json; the gateway has it as `files`"), "{same}");
    assert!(same["fix"].as_str().unwrap().starts_with("`gatelodge connect cursor --server files --write`"), "{same}");
    let other = looked(r#"{"mcpServers": {"mine": {"url": "https://books.example.com/mcp"}}}"#);
    assert_eq!(other["verdict"], "warning");
    assert!(other["fix"].as_str().unwrap().starts_with("`gatelodge init --clients cursor --servers mine"), "{other}");
    let behind = looked(r#"{"mcpServers": {"mine": {"url": "http://127.0.0.1:0/mcp/files"}}}"#);
    assert_eq!(behind["says"], "no client bypasses the gateway");
    // Cursor reads no such switch, Kiro does.
    let off = r#"{"mcpServers": {"mine": {"url": "https://books.example.com/mcp", "disabled": true}}}"#;
    assert_eq!(looked(off)["verdict"], "warning");
    std::fs::create_dir_all(house.path("home/.kiro/settings")).expect("a directory");
    house.write("home/.kiro/settings/mcp.json", off);
    assert_eq!(looked("{}")["verdict"], "fine");
}

#[test]
fn a_server_that_claude_keeps_for_a_folder_is_found_past_the_gateway() {
    let (house, _) = configured();
    assert_eq!(serve(&house).stop(), 0);
    let looked = |entry: &str| {
        house.write(
            "home/.claude.json",
            &format!(r#"{{"projects": {{"/srv/it": {{"mcpServers": {{"mine": {entry}}}}}}}}}"#),
        );
        let (_, checks) = doctor(&house, &["--config", "gatelodge.toml"]);
        check(&checks, "clients").clone()
    };
    let other = looked(r#"{"url": "https://books.example.com/mcp"}"#);
    assert_eq!(other["verdict"], "warning");
    assert!(other["fix"].as_str().unwrap().contains("--servers mine --project /srv/it --rewrite"), "{other}");
    assert_eq!(looked(r#"{"command": "no-such-program", "args": ["/x"]}"#)["verdict"], "wrong");
}

#[test]
fn calls_of_a_time_that_has_not_come_are_told_also_behind_later_ones() {
    let house = house();
    let at = |time: &str| time.parse().expect("a time");
    let ledger = SqliteLedger::open(
        &house.path("data"),
        Durability::Process,
        Arc::new(ManualClock::at(at("2026-11-15T12:00:00Z"))),
    );
    let ledger = ledger.expect("a ledger");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for time in ["2999-01-01T00:00:00Z", "2026-01-02T00:00:00Z"] {
        let row = CallRecord::new(RecordKind::Unchecked, CallId::new(at(time), [7; 10]), at(time));
        runtime.block_on(ledger.write(&row)).expect("queued");
    }
    drop(ledger);
    assert_eq!(house.run(&["policy", "list", "--data", "data"]).code, 2, "there is no state yet");
    house.run(&["server", "add", "a", "http://127.0.0.1:9", "--data", "data"]);
    let (_, checks) = doctor(&house, &["--data", "data"]);
    let clock = check(&checks, "clock");
    assert_eq!(clock["verdict"], "wrong");
    assert!(clock["says"].as_str().unwrap().contains("recorded up to 2999-01-01T00:00:00Z"), "{clock}");
}

#[test]
fn with_a_broken_file_the_status_tells_what_the_running_gateway_has() {
    let (house, _) = configured();
    let running = serve(&house);
    house.write("policy.json", "{");
    let run = house.run(&["status", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("0 live, 1 active in the running gateway"), "{}", run.stdout);
    assert!(run.stdout.contains("The configuration has errors"), "{}", run.stdout);
    drop(running);
}

#[test]
fn a_data_directory_that_is_gone_under_a_running_gateway_is_told_and_not_made_anew() {
    let (house, admin) = configured();
    let running = serve(&house);
    std::fs::rename(house.path("data"), house.path("moved")).expect("moved away");
    for args in [&["status"][..], &["grant", "create", "me"], &["server", "add", "b", "http://127.0.0.1:9"]] {
        let run = house.run(&[args, &["--config", "gatelodge.toml"]].concat());
        assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{args:?}: {run:?}");
        let words = format!("there is no store in `data`, but a gateway answers at {admin}");
        assert!(run.stderr.contains(&words), "{args:?}: {}", run.stderr);
    }
    let (run, checks) = doctor(&house, &["--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    assert!(check(&checks, "data directory")["says"].as_str().unwrap().contains("is gone, but a gateway runs"));
    assert!(!house.path("data").exists());
    drop(running);
}

#[test]
fn of_two_gateways_on_one_directory_the_one_that_stays_is_told() {
    let house = house();
    let first = up(&house);
    let url = first.url("demo").replace("demo", "<server>");
    // It changes nothing in the store, so that its note is the last.
    let text = "[gateway]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[store]\ndata = \"data\"\n";
    house.write("gatelodge.toml", text);
    let second = house.start("data/.", &[], &["serve", "--config", "gatelodge.toml"]);
    assert_eq!(second.stop(), 0);
    let status = || house.run(&["status", "--data", "data"]).stdout;
    until("the first is told again", || status().contains(&format!("ready at {url}")));
}

#[test]
fn too_few_files_are_told_and_as_many_as_may_be_are_asked_for() {
    let (house, _) = configured();
    let few = house.paste(&format!("ulimit -n 300; {PROGRAM} doctor --data data --home home"));
    assert!(
        few.stdout.contains("open files: the limit is 300, too low for `max_connections` = 10000"),
        "{}",
        few.stdout
    );
    let script = format!(
        "ulimit -Sn 128; ulimit -Hn 300; timeout -s INT 4 {PROGRAM} up --data data --listen 127.0.0.1:0 \
         --admin 127.0.0.1:0"
    );
    let run = house.paste(&script);
    assert!(run.stderr.contains("the open file limit is 300, too low for 10000 connections"), "{}", run.stderr);
}
