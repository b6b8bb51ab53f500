//! `gatelodge up`: the commands that it prints are run, and do what it says.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use support::{RunningGateway, TestDir, wait_until};

fn up(dir: &TestDir) -> RunningGateway {
    dir.start("data", &[], &["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
}

#[test]
fn a_port_in_use_is_reported_with_the_option_that_changes_it() {
    let dir = TestDir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = taken.local_addr().expect("an address").to_string();
    for (listen, admin, option) in [(&*address, "127.0.0.1:0", "--listen"), ("127.0.0.1:0", &*address, "--admin")] {
        let run = dir.run(&["up", "--data", "data", "--listen", listen, "--admin", admin]);
        assert_eq!(run.code, 5, "{}", run.stderr);
        assert!(run.stderr.contains(&format!("use `{option} 127.0.0.1:0`")), "{}", run.stderr);
        assert!(!run.stderr.contains("[gateway]"), "{}", run.stderr);
    }
}

/// The command that follows a comment, preceded by the export of the token.
fn command_after(printed: &str, comment: &str) -> String {
    let export = printed.lines().find(|line| line.contains("export GATELODGE_TOKEN=")).expect("an export");
    let mut lines = printed.lines().skip_while(|line| !line.trim_start().starts_with(&format!("# {comment}")));
    format!("{export}\n{}", lines.nth(1).expect("a command"))
}

#[test]
fn the_printed_commands_work_and_the_limit_survives_a_restart() {
    let dir = TestDir::new();
    let running = up(&dir);
    let printed = running.stdout();

    let allowed = dir.run_shell(&command_after(&printed, "allowed"));
    assert_eq!((allowed.code, allowed.stdout.as_str()), (0, "Tea with Ada on Tuesday.\n"), "{allowed:?}");

    let refused = dir.run_shell(&command_after(&printed, "refused"));
    assert_eq!((refused.code, refused.stdout.as_str()), (3, "[POLICY DENIED] Deleting notes is for people.\n"));

    let limited = dir.run_shell(&command_after(&printed, "limited"));
    let (paid, stopped) = limited.stdout.split_once("[POLICY DENIED] ").expect("a refusal");
    assert_eq!((limited.code, paid), (3, "payment 1: 40 to ada\npayment 2: 40 to ada\n"));
    assert!(stopped.starts_with("limit `spend`: 100 per day, resets in "), "{stopped}");

    // The README shows the same output, except for the time until the reset.
    let readme = include_str!("../../../README.md");
    let before_reset = stopped.split("resets").next().expect("words");
    for text in [&*allowed.stdout, &*refused.stdout, paid, before_reset] {
        assert!(readme.contains(text), "{text}");
    }

    let old_token = command_after(&printed, "allowed");
    assert_eq!(running.stop(), 0);
    let running = up(&dir);
    let limited = dir.run_shell(&command_after(&running.stdout(), "limited"));
    assert_eq!(limited.code, 3);
    assert!(limited.stdout.starts_with("[POLICY DENIED] limit `spend`"), "{}", limited.stdout);
    let old_token = old_token.lines().next().expect("an export").to_owned();
    let again =
        dir.run_shell(&format!("{old_token}\n{}", command_after(&running.stdout(), "allowed").lines().nth(1).unwrap()));
    assert_eq!(again.code, 3, "the token of the last start has ended: {again:?}");
}

#[test]
fn stateful_and_stateless_calls_work_and_allowed_tools_are_listed() {
    let dir = TestDir::new();
    let running = up(&dir);
    let printed = running.stdout();
    let token = printed.lines().find_map(|line| line.trim().strip_prefix("token  ")).expect("a token").to_owned();
    let url = running.url("demo");
    for generation in ["stateless", "stateful"] {
        let run = dir.run_with(&[("GATELODGE_TOKEN", &token)], &["call", "--protocol", generation, &url]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.stdout.contains("send_payment") && run.stdout.contains("list_notes"), "{}", run.stdout);
        let run = dir.run_with(
            &[("GATELODGE_TOKEN", &token)],
            &["call", "--protocol", generation, &url, "list_notes", "--json"],
        );
        assert!(run.stdout.contains("plans\\nshopping"), "{}", run.stdout);
    }
    let run = dir.run_with(&[("GATELODGE_TOKEN", &token)], &["call", &url, "no_such_tool"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("Unknown tool: no_such_tool"), "{}", run.stderr);
    let claude = printed.lines().find(|line| line.contains("claude mcp add")).expect("a line for Claude Code");
    assert!(claude.contains(&url) && claude.contains(&token));
}

#[test]
fn server_show_lists_the_riskiest_tools_first_with_evidence() {
    let dir = TestDir::new();
    let running = up(&dir);
    assert_eq!(dir.run_shell(&command_after(&running.stdout(), "allowed")).code, 0, "the tools must be listed first");
    let shown = dir.run(&["server", "show", "demo", "--data", "data"]);
    let at = |words: &str| shown.stdout.find(words).unwrap_or_else(|| panic!("{words} in {}", shown.stdout));
    assert!(at("send_payment") < at("list_notes") && at("delete_note") < at("list_notes"), "{}", shown.stdout);
    let shown = dir.run(&["server", "show", "demo", "--data", "data", "--json"]);
    let tools: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
    let first = &tools["tools"][0];
    assert_eq!(
        (first["level"].as_str(), first["category"].as_str()),
        (Some("Critical"), Some("destructive")),
        "{first}"
    );
    assert!(first["evidence"].as_array().is_some_and(|facts| !facts.is_empty()), "{first}");
}

#[test]
fn calls_are_listed_with_the_reason_of_a_refusal() {
    let dir = TestDir::new();
    let running = up(&dir);
    let printed = running.stdout();
    dir.run_shell(&command_after(&printed, "refused"));
    dir.run_shell(&command_after(&printed, "limited"));

    let calls = dir.run(&["calls", "--data", "data"]);
    assert_eq!(calls.code, 0);
    assert!(
        calls.stdout.contains("denied by /tools/delete_note of `demo` version 1: Deleting notes is for people."),
        "{}",
        calls.stdout
    );
    let refused = dir.run(&["calls", "--data", "data", "--refused", "--tool", "send_payment", "--json"]);
    let row: serde_json::Value = serde_json::from_str(refused.stdout.trim()).expect("one row");
    assert_eq!(row["code"], "limit");
    assert_eq!(row["counter"], "spend");
    let call = row["call"].as_str().unwrap();
    let one = dir.run(&["calls", "--data", "data", "--call", call]);
    assert!(one.stdout.contains("resets in") && one.stdout.contains(call), "{}", one.stdout);

    let status = dir.run(&["status", "--data", "data"]);
    assert!(status.stdout.contains("gateway    ready at http://"), "{}", status.stdout);
    assert!(status.stdout.contains("servers    demo"), "{}", status.stdout);
    running.stop();
    let status = dir.run(&["status", "--data", "data"]);
    assert!(status.stdout.contains("gateway    not running"), "{}", status.stdout);
}

#[test]
fn a_port_in_use_is_reported() {
    let dir = TestDir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let run = dir.run(&["up", "--data", "data", "--listen", &address, "--admin", "127.0.0.1:0"]);
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert!(run.stderr.contains(&format!("cannot listen on {address}")), "{}", run.stderr);
}

#[test]
fn calls_follow_prints_each_call_once() {
    let dir = TestDir::new();
    let running = up(&dir);
    let shown = dir.path("followed");
    let mut following = std::process::Command::new(env!("CARGO_BIN_EXE_gatelodge"))
        .args(["calls", "--follow", "--grant", "demo", "--data"])
        .arg(dir.path("data"))
        .stdout(std::fs::File::create(&shown).expect("a file"))
        .spawn()
        .expect("it starts");
    for comment in ["allowed", "refused"] {
        dir.run_shell(&command_after(&running.stdout(), comment));
    }
    let text = || std::fs::read_to_string(&shown).unwrap_or_default();
    wait_until("both are shown", || {
        text().contains("demo/read_note  ok in ") && text().contains("demo/delete_note  REFUSED")
    });
    following.kill().expect("it ends");
    following.wait().expect("it ends");
    assert_eq!(text().matches("read_note").count(), 1, "{}", text());
}

#[test]
fn verify_names_a_row_that_was_changed() {
    let dir = TestDir::new();
    let running = up(&dir);
    let printed = running.stdout();
    dir.run_shell(&command_after(&printed, "refused"));
    dir.run_shell(&command_after(&printed, "limited"));
    assert_eq!(running.stop(), 0);
    assert_eq!(dir.run(&["audit", "verify", "--data", "data"]).code, 0);
    let rows = dir.run(&["audit", "export", "--data", "data"]).stdout;
    let row = rows.lines().find(|row| row.contains("\"delete_note\"")).expect("a row");
    let row: serde_json::Value = serde_json::from_str(row).expect("JSON");

    let mut bytes = std::fs::read(dir.path("data/ledger.db")).expect("a database");
    let offsets: Vec<usize> =
        bytes.windows(11).enumerate().filter(|(_, at)| at == b"delete_note").map(|(at, _)| at).collect();
    assert!(!offsets.is_empty());
    offsets.iter().for_each(|at| bytes[*at] = b'D');
    dir.write_bytes("data/ledger.db", &bytes);
    let verified = dir.run(&["audit", "verify", "--data", "data"]);
    assert_eq!(verified.code, 1);
    let words = format!("row {} was changed after it was written", row["seq"]);
    assert!(verified.stdout.contains(&words), "{words}: {}", verified.stdout);
}

#[test]
fn an_address_beyond_loopback_is_refused_with_a_hint() {
    let dir = TestDir::new();
    for args in [["--listen", "0.0.0.0:7420"], ["--admin", "[::]:7420"]] {
        // A gateway that starts by mistake would run until stopped.
        let program = env!("CARGO_BIN_EXE_gatelodge");
        let run = dir.run_shell(&format!("timeout 5 {program} up --data data {} {}", args[0], args[1]));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        let help =
            format!("use `{} 127.0.0.1:7420`; to serve other machines, use `gatelodge serve` with `hosts`", args[0]);
        assert!(run.stderr.contains(&help), "{}", run.stderr);
    }
    assert!(dir.file_names().is_empty(), "nothing is created");
}

/// Call ids in the output of `calls`, as JSON or as text.
fn call_ids(text: &str) -> Vec<String> {
    let id_of_json = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(row["call"].as_str()?.to_owned())
    };
    let id_of_text =
        |line: &str| (!line.starts_with(' ')).then(|| line.split("  ").last().map(str::to_owned)).flatten();
    text.lines().filter_map(|line| id_of_json(line).or_else(|| id_of_text(line))).collect()
}

#[test]
fn calls_as_json_lists_the_same_calls_as_text() {
    let dir = TestDir::new();
    let running = up(&dir);
    let printed = running.stdout();
    for comment in ["allowed", "refused", "limited"] {
        dir.run_shell(&command_after(&printed, comment));
    }
    let calls = |args: &[&str]| dir.run(&[&["calls", "--data", "data"], args].concat()).stdout;
    wait_until("all are recorded", || call_ids(&calls(&[])).len() == 5 && !calls(&[]).contains("no outcome"));
    for args in [&[][..], &["--last", "1"], &["--last", "3"], &["--refused", "--last", "1"], &["--refused"]] {
        let output = calls(&[args, &["--json"]].concat());
        assert_eq!(call_ids(&output), call_ids(&calls(args)), "{args:?}");
        assert_eq!(output.lines().count(), call_ids(&output).len(), "one object a call: {output}");
    }
    let sent = calls(&["--tool", "read_note", "--json"]);
    let sent: serde_json::Value = serde_json::from_str(&sent).expect("one object");
    assert_eq!((&sent["kind"], &sent["outcome"]), (&"intent".into(), &"ok".into()));

    // `head` closes the pipe after the second line, so `calls --follow` exits.
    let line =
        format!("timeout 10 {} calls --follow --json --last 2 --data data | head -2", env!("CARGO_BIN_EXE_gatelodge"));
    let followed = dir.run_shell(&format!("set -o pipefail; {line}"));
    assert_eq!(followed.code, 0, "it has ended without a further call: {followed:?}");
    assert_eq!(call_ids(&followed.stdout), call_ids(&calls(&["--last", "2"])));
}

#[test]
fn a_program_outside_path_is_printed_with_its_full_path() {
    let dir = TestDir::new();
    let bin_dir = dir.path("bin");
    std::fs::create_dir(&bin_dir).expect("a directory");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gatelodge"), bin_dir.join("gatelodge")).expect("a link");
    let args = ["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    for (path, program) in [("/usr/bin", env!("CARGO_BIN_EXE_gatelodge")), (bin_dir.to_str().unwrap(), "gatelodge")] {
        let running = dir.start("data", &[("PATH", path)], &args);
        let printed = command_after(&running.stdout(), "allowed");
        assert!(printed.contains(&format!("\n  {program} call ")), "{printed}");
    }
}

#[test]
fn the_old_name_of_a_flag_is_refused_with_the_new_name() {
    let run = TestDir::new().run(&["call", "--era", "legacy", "http://127.0.0.1:1/mcp/demo"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("called `--protocol` now"), "{}", run.stderr);
}
