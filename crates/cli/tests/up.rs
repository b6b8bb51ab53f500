//! `gatelodge up` as a newcomer meets it: what it prints is pasted, and shows what it says.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use support::{House, Running, house, until};

fn up(house: &House) -> Running {
    house.start("data", &[], &["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
}

/// The line behind a comment, with the token before it.
fn line(printed: &str, comment: &str) -> String {
    let export = printed.lines().find(|line| line.contains("export GATELODGE_TOKEN=")).expect("an export");
    let mut lines = printed.lines().skip_while(|line| !line.trim_start().starts_with(&format!("# {comment}")));
    format!("{export}\n{}", lines.nth(1).expect("a command"))
}

#[test]
fn the_printed_commands_show_a_call_allowed_one_refused_and_one_limited_and_the_limit_outlives_a_restart() {
    let house = house();
    let running = up(&house);
    let printed = running.printed();

    let allowed = house.paste(&line(&printed, "allowed"));
    assert_eq!((allowed.code, allowed.stdout.as_str()), (0, "Tea with Ada on Tuesday.\n"), "{allowed:?}");

    let refused = house.paste(&line(&printed, "refused"));
    assert_eq!((refused.code, refused.stdout.as_str()), (3, "[POLICY DENIED] Deleting notes is for people.\n"));

    let limited = house.paste(&line(&printed, "limited"));
    let (paid, stopped) = limited.stdout.split_once("[POLICY DENIED] ").expect("a refusal");
    assert_eq!((limited.code, paid), (3, "payment 1: 40 to ada\npayment 2: 40 to ada\n"));
    assert!(stopped.starts_with("limit `spend`: 100 per day, resets in "), "{stopped}");

    // The README shows the same, but for the time until the reset.
    let readme = include_str!("../../../README.md");
    let before_reset = stopped.split("resets").next().expect("words");
    for text in [&*allowed.stdout, &*refused.stdout, paid, before_reset] {
        assert!(readme.contains(text), "{text}");
    }

    let old_token = line(&printed, "allowed");
    assert_eq!(running.stop(), 0);
    let running = up(&house);
    let limited = house.paste(&line(&running.printed(), "limited"));
    assert_eq!(limited.code, 3);
    assert!(limited.stdout.starts_with("[POLICY DENIED] limit `spend`"), "{}", limited.stdout);
    let old_token = old_token.lines().next().expect("an export").to_owned();
    let again = house.paste(&format!("{old_token}\n{}", line(&running.printed(), "allowed").lines().nth(1).unwrap()));
    assert_eq!(again.code, 3, "the token of the last start has ended: {again:?}");
}

#[test]
fn both_eras_of_the_protocol_are_spoken_and_the_list_shows_what_may_be_called() {
    let house = house();
    let running = up(&house);
    let printed = running.printed();
    let token = printed.lines().find_map(|line| line.trim().strip_prefix("token  ")).expect("a token").to_owned();
    let url = running.url("demo");
    for generation in ["stateless", "stateful"] {
        let run = house.run_with(&[("GATELODGE_TOKEN", &token)], &["call", "--protocol", generation, &url]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.stdout.contains("send_payment") && run.stdout.contains("list_notes"), "{}", run.stdout);
        let run = house.run_with(
            &[("GATELODGE_TOKEN", &token)],
            &["call", "--protocol", generation, &url, "list_notes", "--json"],
        );
        assert!(run.stdout.contains("plans\\nshopping"), "{}", run.stdout);
    }
    let run = house.run_with(&[("GATELODGE_TOKEN", &token)], &["call", &url, "no_such_tool"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("Unknown tool: no_such_tool"), "{}", run.stderr);
    let claude = printed.lines().find(|line| line.contains("claude mcp add")).expect("a line for Claude Code");
    assert!(claude.contains(&url) && claude.contains(&token));
}

#[test]
fn a_server_is_shown_with_what_its_tools_can_do_the_riskiest_first_and_why() {
    let house = house();
    let running = up(&house);
    assert_eq!(house.paste(&line(&running.printed(), "allowed")).code, 0, "somebody has to ask it first");
    let shown = house.run(&["server", "show", "demo", "--data", "data"]);
    let at = |words: &str| shown.stdout.find(words).unwrap_or_else(|| panic!("{words} in {}", shown.stdout));
    assert!(at("send_payment") < at("list_notes") && at("delete_note") < at("list_notes"), "{}", shown.stdout);
    let shown = house.run(&["server", "show", "demo", "--data", "data", "--json"]);
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
fn what_happened_is_told_with_its_why() {
    let house = house();
    let running = up(&house);
    let printed = running.printed();
    house.paste(&line(&printed, "refused"));
    house.paste(&line(&printed, "limited"));

    let calls = house.run(&["calls", "--data", "data"]);
    assert_eq!(calls.code, 0);
    assert!(
        calls.stdout.contains("denied by /tools/delete_note of `demo` version 1: Deleting notes is for people."),
        "{}",
        calls.stdout
    );
    let refused = house.run(&["calls", "--data", "data", "--refused", "--tool", "send_payment", "--json"]);
    let row: serde_json::Value = serde_json::from_str(refused.stdout.trim()).expect("one row");
    assert_eq!(row["code"], "limit");
    assert_eq!(row["counter"], "spend");
    let call = row["call"].as_str().unwrap();
    let one = house.run(&["calls", "--data", "data", "--call", call]);
    assert!(one.stdout.contains("resets in") && one.stdout.contains(call), "{}", one.stdout);

    let status = house.run(&["status", "--data", "data"]);
    assert!(status.stdout.contains("gateway    ready at http://"), "{}", status.stdout);
    assert!(status.stdout.contains("servers    demo"), "{}", status.stdout);
    running.stop();
    let status = house.run(&["status", "--data", "data"]);
    assert!(status.stdout.contains("gateway    not running"), "{}", status.stdout);
}

#[test]
fn a_port_that_is_taken_is_named_with_a_way_out() {
    let house = house();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let run = house.run(&["up", "--data", "data", "--listen", &address, "--admin", "127.0.0.1:0"]);
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert!(run.stderr.contains(&format!("cannot listen on {address}")), "{}", run.stderr);
}

#[test]
fn calls_are_followed_as_they_come() {
    let house = house();
    let running = up(&house);
    let shown = house.path("followed");
    let mut following = std::process::Command::new(env!("CARGO_BIN_EXE_gatelodge"))
        .args(["calls", "--follow", "--grant", "demo", "--data"])
        .arg(house.path("data"))
        .stdout(std::fs::File::create(&shown).expect("a file"))
        .spawn()
        .expect("it starts");
    for comment in ["allowed", "refused"] {
        house.paste(&line(&running.printed(), comment));
    }
    let text = || std::fs::read_to_string(&shown).unwrap_or_default();
    until("both are shown", || {
        text().contains("demo/read_note  ok in ") && text().contains("demo/delete_note  REFUSED")
    });
    following.kill().expect("it ends");
    following.wait().expect("it ends");
    assert_eq!(text().matches("read_note").count(), 1, "{}", text());
}

#[test]
fn a_row_that_was_changed_after_it_was_written_is_named() {
    let house = house();
    let running = up(&house);
    let printed = running.printed();
    house.paste(&line(&printed, "refused"));
    house.paste(&line(&printed, "limited"));
    assert_eq!(running.stop(), 0);
    assert_eq!(house.run(&["audit", "verify", "--data", "data"]).code, 0);
    let rows = house.run(&["audit", "export", "--data", "data"]).stdout;
    let row = rows.lines().find(|row| row.contains("\"delete_note\"")).expect("a row");
    let row: serde_json::Value = serde_json::from_str(row).expect("JSON");

    let mut bytes = std::fs::read(house.path("data/ledger.db")).expect("a database");
    let places: Vec<usize> =
        bytes.windows(11).enumerate().filter(|(_, at)| at == b"delete_note").map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[*at] = b'D');
    house.write_bytes("data/ledger.db", &bytes);
    let verified = house.run(&["audit", "verify", "--data", "data"]);
    assert_eq!(verified.code, 1);
    let words = format!("row {} was changed after it was written", row["seq"]);
    assert!(verified.stdout.contains(&words), "{words}: {}", verified.stdout);
}

#[test]
fn an_address_that_others_can_reach_is_refused_with_a_way_out() {
    let house = house();
    for args in [["--listen", "0.0.0.0:7420"], ["--admin", "[::]:7420"]] {
        // One that starts after all would not end.
        let program = env!("CARGO_BIN_EXE_gatelodge");
        let run = house.paste(&format!("timeout 5 {program} up --data data {} {}", args[0], args[1]));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        let help =
            format!("use `{} 127.0.0.1:7420`; to serve other machines, use `gatelodge serve` with `hosts`", args[0]);
        assert!(run.stderr.contains(&help), "{}", run.stderr);
    }
    assert!(house.names().is_empty(), "nothing is made");
}

/// The ids of the calls that were told, as JSON or as text.
fn ids(text: &str) -> Vec<String> {
    let of_json = |line: &str| {
        let told: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(told["call"].as_str()?.to_owned())
    };
    let of_text = |line: &str| (!line.starts_with(' ')).then(|| line.split("  ").last().map(str::to_owned)).flatten();
    text.lines().filter_map(|line| of_json(line).or_else(|| of_text(line))).collect()
}

#[test]
fn programs_get_the_calls_that_people_get_each_whole_and_no_more_than_asked_for() {
    let house = house();
    let running = up(&house);
    let printed = running.printed();
    for comment in ["allowed", "refused", "limited"] {
        house.paste(&line(&printed, comment));
    }
    let calls = |args: &[&str]| house.run(&[&["calls", "--data", "data"], args].concat()).stdout;
    until("all are kept", || ids(&calls(&[])).len() == 5 && !calls(&[]).contains("no outcome"));
    for args in [&[][..], &["--last", "1"], &["--last", "3"], &["--refused", "--last", "1"], &["--refused"]] {
        let told = calls(&[args, &["--json"]].concat());
        assert_eq!(ids(&told), ids(&calls(args)), "{args:?}");
        assert_eq!(told.lines().count(), ids(&told).len(), "one object a call: {told}");
    }
    let sent = calls(&["--tool", "read_note", "--json"]);
    let sent: serde_json::Value = serde_json::from_str(&sent).expect("one object");
    assert_eq!((&sent["kind"], &sent["outcome"]), (&"intent".into(), &"ok".into()));

    // Nobody reads on behind the second line, so it ends by itself.
    let line =
        format!("timeout 10 {} calls --follow --json --last 2 --data data | head -2", env!("CARGO_BIN_EXE_gatelodge"));
    let followed = house.paste(&format!("set -o pipefail; {line}"));
    assert_eq!(followed.code, 0, "it has ended without a further call: {followed:?}");
    assert_eq!(ids(&followed.stdout), ids(&calls(&["--last", "2"])));
}

#[test]
fn a_program_that_no_shell_finds_by_its_name_is_printed_with_its_full_path() {
    let house = house();
    let folder = house.path("bin");
    std::fs::create_dir(&folder).expect("a directory");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gatelodge"), folder.join("gatelodge")).expect("a link");
    let args = ["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    for (path, program) in [("/usr/bin", env!("CARGO_BIN_EXE_gatelodge")), (folder.to_str().unwrap(), "gatelodge")] {
        let running = house.start("data", &[("PATH", path)], &args);
        let printed = line(&running.printed(), "allowed");
        assert!(printed.contains(&format!("\n  {program} call ")), "{printed}");
    }
}

#[test]
fn the_former_name_of_a_flag_is_refused_with_the_new_one() {
    let run = house().run(&["call", "--era", "legacy", "http://127.0.0.1:1/mcp/demo"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("called `--protocol` now"), "{}", run.stderr);
}
