//! Errors of `wrap` and `bridge`: reported clearly, and without creating files.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use support::{Run, TestDir};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
"#;
const URL: &str = "http://127.0.0.1:9/mcp/books";

fn wrap(dir: &TestDir, policy: &str, command: &[&str]) -> Run {
    dir.run(&[&["wrap", "--policy", policy, "--data", "data"], command].concat())
}

fn set_mode(dir: &TestDir, name: &str, mode: u32) {
    std::fs::set_permissions(dir.path(name), PermissionsExt::from_mode(mode)).expect("a mode");
}

#[test]
fn wrap_reports_errors_before_it_creates_files() {
    let dir = TestDir::new();
    dir.write("open.json", r#"{"version": "1", "default": "allow"}"#);
    dir.write("shut.json", r#"{"version": "1", "default": "dney"}"#);
    dir.write("script.sh", "echo");
    let names = dir.file_names();
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
        let run = wrap(&dir, policy, command);
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{command:?}: {run:?}");
        assert!(run.stderr.contains(words), "{command:?}: {}", run.stderr);
    }
    assert_eq!(dir.file_names(), names, "nothing was created");
}

#[test]
fn wrap_and_bridge_exit_when_the_client_disconnects_at_once() {
    let dir = TestDir::new();
    dir.write("open.json", r#"{"version": "1", "default": "allow"}"#);
    let run = wrap(&dir, "open.json", &["--", "cat"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{run:?}");
    let run = dir.run_with(&[("GATELODGE_TOKEN", "glt_x")], &["bridge", URL]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{run:?}");
}

#[test]
fn an_unreachable_gateway_gets_an_error_response_without_the_token() {
    let dir = TestDir::new();
    dir.write("token", "glt_s3cret\n");
    set_mode(&dir, "token", 0o600);
    let mut bridge = Command::new(env!("CARGO_BIN_EXE_gatelodge"))
        .args(["bridge", URL, "--token-file", "token"])
        .current_dir(dir.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The input stays open until the response is read: the bridge exits when its client closes it.
    let mut input = bridge.stdin.take().expect("its input");
    input.write_all(INITIALIZE.as_bytes()).expect("written");
    let mut response = String::new();
    BufReader::new(bridge.stdout.take().expect("its output")).read_line(&mut response).expect("a response");
    drop(input);
    let output = bridge.wait_with_output().expect("it ends");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(response.contains(r#""id":1,"error""#) && response.contains("cannot be reached"), "{response}");
    assert!(!response.contains("s3cret") && !stderr.contains("s3cret"), "{response}{stderr}");
}

#[test]
fn the_bridge_reads_a_token_only_from_a_private_file() {
    let dir = TestDir::new();
    dir.write("empty", "\n");
    dir.write("many", "glt_one\nglt_two\n");
    dir.write("long", &"x".repeat(5_000));
    dir.write_bytes("bytes", b"\xff\xfe");
    for name in ["empty", "many", "long", "bytes"] {
        set_mode(&dir, name, 0o600);
    }
    for (name, words) in [
        ("none", "token file `none`: it cannot be read: No such file or directory"),
        (".", "token file `.`: it is not a file"),
        ("empty", "`empty`: it is empty; it must hold the token of a grant"),
        ("many", "`many`: it must hold the token of a grant and nothing else"),
        ("long", "`long`: it must hold the token of a grant and nothing else"),
        ("bytes", "`bytes`: it cannot be read"),
    ] {
        let run = dir.run(&["bridge", URL, "--token-file", name]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{name}: {run:?}");
        assert!(run.stderr.contains(words), "{name}: {}", run.stderr);
    }
    dir.write("it's mine", "glt_s3cret\n");
    for (mode, is_accepted) in [
        (0o600, true),
        (0o400, true),
        (0o640, false),
        (0o604, false),
        (0o620, false),
        (0o602, false),
        (0o610, false),
        (0o601, false),
    ] {
        set_mode(&dir, "it's mine", mode);
        let run = dir.run(&["bridge", URL, "--token-file", "it's mine"]);
        assert_eq!(run.code == 0, is_accepted, "{mode:o}: {run:?}");
        let message = format!("other users can access it (mode {mode:03o}); restrict it: chmod 600 'it'\\''s mine'");
        assert_eq!(run.stderr.contains(&message), !is_accepted, "{}", run.stderr);
        assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
    }
    let run = dir.run(&["bridge", URL]);
    assert!(run.code == 2 && run.stderr.contains("name a file with `--token-file`"), "{run:?}");
    let run = dir.run(&["bridge", URL, "--token-env", "A", "--token-file", "empty"]);
    assert!(run.code == 2 && run.stderr.contains("cannot be used with"), "{run:?}");
}
