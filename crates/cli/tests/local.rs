//! `wrap` and `bridge` where something is not as it should be: said plainly, and nothing is made.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use support::{House, Run, house};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
"#;
const URL: &str = "http://127.0.0.1:9/mcp/books";

fn wrap(house: &House, policy: &str, command: &[&str]) -> Run {
    house.run(&[&["wrap", "--policy", policy, "--data", "data"], command].concat())
}

fn set_mode(house: &House, name: &str, mode: u32) {
    std::fs::set_permissions(house.path(name), PermissionsExt::from_mode(mode)).expect("a mode");
}

#[test]
fn wrap_says_what_is_wrong_before_it_makes_anything() {
    let house = house();
    house.write("open.json", r#"{"version": "1", "default": "allow"}"#);
    house.write("shut.json", r#"{"version": "1", "default": "dney"}"#);
    house.write("script.sh", "echo");
    let names = house.names();
    for (policy, command, code, words) in [
        ("open.json", &["--", "./none"][..], 2, "error: there is no program `./none`\n"),
        ("open.json", &["--", "no-such-program"], 2, "no program `no-such-program` on `PATH`; install it"),
        ("open.json", &["--", "./script.sh"], 2, "`./script.sh` is not an executable program"),
        ("open.json", &["--", "/tmp"], 2, "`/tmp` is not an executable program"),
        ("open.json", &["--", "./odd\u{1b}[2J"], 2, "there is no program `./odd\\u{1b}[2J`"),
        ("open.json", &["cat"], 2, "wrap [OPTIONS] --policy <FILE> -- <COMMAND>..."),
        ("open.json", &["--"], 2, "required arguments were not provided:\n  <COMMAND>..."),
        ("open.json", &[], 2, "required arguments were not provided:\n  <COMMAND>..."),
        ("open.json", &["--name", "Not So", "--", "cat"], 2, "`Not So` is not a server name"),
        ("shut.json", &["--", "cat"], 1, "error[unknown-word]: `dney` is not a valid value for default"),
        ("none.json", &["--", "cat"], 2, "cannot read `none.json`"),
    ] {
        let run = wrap(&house, policy, command);
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{command:?}: {run:?}");
        assert!(run.stderr.contains(words), "{command:?}: {}", run.stderr);
    }
    assert_eq!(house.names(), names, "nothing was made");
}

#[test]
fn a_client_that_goes_at_once_is_the_end_of_wrap_and_bridge() {
    let house = house();
    house.write("open.json", r#"{"version": "1", "default": "allow"}"#);
    let run = wrap(&house, "open.json", &["--", "cat"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{run:?}");
    let run = house.run_with(&[("GATELODGE_TOKEN", "glt_x")], &["bridge", URL]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{run:?}");
}

#[test]
fn a_gateway_that_is_not_there_is_answered_and_the_token_is_not_told() {
    let house = house();
    house.write("token", "glt_s3cret\n");
    set_mode(&house, "token", 0o600);
    let mut bridge = Command::new(env!("CARGO_BIN_EXE_gatelodge"))
        .args(["bridge", URL, "--token-file", "token"])
        .current_dir(house.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The input stays open until the answer is there: a client that closes it wants no more.
    let mut input = bridge.stdin.take().expect("its input");
    input.write_all(HELLO.as_bytes()).expect("written");
    let mut answer = String::new();
    BufReader::new(bridge.stdout.take().expect("its output")).read_line(&mut answer).expect("an answer");
    drop(input);
    let ended = bridge.wait_with_output().expect("it ends");
    let told = String::from_utf8(ended.stderr).expect("UTF-8");
    assert_eq!(ended.status.code(), Some(0), "{told}");
    assert!(answer.contains(r#""id":1,"error""#) && answer.contains("cannot be reached"), "{answer}");
    assert!(!answer.contains("s3cret") && !told.contains("s3cret"), "{answer}{told}");
}

#[test]
fn the_bridge_takes_a_token_only_from_a_file_that_is_its_users_alone() {
    let house = house();
    house.write("empty", "\n");
    house.write("many", "glt_one\nglt_two\n");
    house.write("long", &"x".repeat(5_000));
    house.write_bytes("bytes", b"\xff\xfe");
    for name in ["empty", "many", "long", "bytes"] {
        set_mode(&house, name, 0o600);
    }
    for (name, words) in [
        ("none", "token file `none`: it cannot be read: No such file or directory"),
        (".", "token file `.`: it is not a file"),
        ("empty", "`empty`: it is empty; it must hold the token of a grant"),
        ("many", "`many`: it must hold the token of a grant and nothing else"),
        ("long", "`long`: it must hold the token of a grant and nothing else"),
        ("bytes", "`bytes`: it cannot be read"),
    ] {
        let run = house.run(&["bridge", URL, "--token-file", name]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{name}: {run:?}");
        assert!(run.stderr.contains(words), "{name}: {}", run.stderr);
    }
    house.write("it's mine", "glt_s3cret\n");
    for (mode, is_taken) in [
        (0o600, true),
        (0o400, true),
        (0o640, false),
        (0o604, false),
        (0o620, false),
        (0o602, false),
        (0o610, false),
        (0o601, false),
    ] {
        set_mode(&house, "it's mine", mode);
        let run = house.run(&["bridge", URL, "--token-file", "it's mine"]);
        assert_eq!(run.code == 0, is_taken, "{mode:o}: {run:?}");
        let told = format!("other users can access it (mode {mode:03o}); restrict it: chmod 600 'it'\\''s mine'");
        assert_eq!(run.stderr.contains(&told), !is_taken, "{}", run.stderr);
        assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
    }
    let run = house.run(&["bridge", URL]);
    assert!(run.code == 2 && run.stderr.contains("name a file with `--token-file`"), "{run:?}");
    let run = house.run(&["bridge", URL, "--token-env", "A", "--token-file", "empty"]);
    assert!(run.code == 2 && run.stderr.contains("cannot be used with"), "{run:?}");
}
