//! Configuration file: all errors are reported at once and without secrets. Generated reference pages are current.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use support::{TestDir, gatelodge};

/// Part of every secret in the files, so that tests can search the output for it.
const SECRET: &str = "hunter2secret";

#[test]
fn all_errors_are_reported_at_once_with_location_code_and_help() {
    let dir = TestDir::new();
    dir.write("gatelodge.toml", include_str!("config/faulty.toml"));
    dir.write("broken.json", "{\"version\": \"1\", \"default\": \"dney\"}\n");
    let run = dir.run(&["serve", "--config", "gatelodge.toml"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    insta::assert_snapshot!(run.stderr);
}

#[test]
fn invalid_toml_is_reported_with_locations_and_without_values() {
    let dir = TestDir::new();
    dir.write(
        "gatelodge.toml",
        "[[servers]]\nname = \"x\"\nurl = hunter2secret\n[[grants]]\ntoken_env = \"hunter2secret\n",
    );
    let run = dir.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    insta::assert_snapshot!(run.stderr);
}

#[test]
fn json_output_has_the_same_findings() {
    let dir = TestDir::new();
    dir.write("gatelodge.toml", "[store]\ndurability = \"powr\"\n");
    let run = dir.run(&["serve", "--check", "--json", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    let findings: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(findings[0]["code"], "bad-value");
    assert_eq!((findings[0]["line"].as_u64(), findings[0]["column"].as_u64()), (Some(2), Some(14)));
    assert_eq!(findings[0]["help"], "did you mean `power`?");
}

#[test]
fn a_valid_file_passes_the_check_also_with_warnings() {
    let dir = TestDir::new();
    dir.write("gatelodge.toml", "[store]\ndata = \"data\"\n");
    let run = dir.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    let stderr = "gatelodge.toml: no errors; 0 servers, 0 policies, 0 grants\n";
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "", stderr));
    let server = "[[servers]]\nname = \"a\"\nurl = \"http://a.example.com/mcp\"\nheaders = { X-Key = \"${SHORT}\" }\n";
    dir.write("gatelodge.toml", &format!("[store]\ndata = \"data\"\n{server}"));
    let run = dir.run_with(&[("SHORT", "abc")], &["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("gatelodge.toml: no errors, 2 warnings; 1 server,"), "{}", run.stderr);
    assert!(
        run.stderr.contains("warning[clear-text]") && run.stderr.contains("warning[short-secret]"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_token_is_read_from_the_environment_a_file_or_a_hash_and_refused_inline() {
    let dir = TestDir::new();
    let grant_token: Value = serde_json::from_str(&gatelodge(&["grant", "token", "--json"]).stdout).expect("JSON");
    let (token, hash) = (grant_token["token"].as_str().unwrap(), grant_token["token_hash"].as_str().unwrap());
    let server = "[store]\ndata = \"data\"\n[[servers]]\nname = \"a\"\nurl = \"http://127.0.0.1:9/mcp\"\n";
    let check = |line: &str| {
        dir.write("gatelodge.toml", &format!("{server}[[grants]]\nlabel = \"x\"\nserver = \"a\"\n{line}\n"));
        dir.run_with(&[("A_TOKEN", token)], &["serve", "--check", "--config", "gatelodge.toml"])
    };
    dir.write("token.txt", &format!("{token}\n"));
    for line in ["token_env = \"A_TOKEN\"", "token_file = \"token.txt\"", &format!("token_hash = \"{hash}\"")] {
        let run = check(line);
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
    }
    for field in ["token_env", "token_file", "token_hash", "token"] {
        let run = check(&format!("{field} = \"{token}\""));
        assert_eq!(run.code, 1, "{field}");
        assert!(!run.stderr.contains(token), "{}", run.stderr);
    }
    dir.write("token.txt", "glt_not-a-token\n");
    let run = check("token_file = \"token.txt\"");
    assert_eq!(run.code, 1);
    assert!(!run.stderr.contains("not-a-token"), "{}", run.stderr);
    assert!(run.stderr.contains("this is not a valid token"), "{}", run.stderr);
    assert!(run.stderr.contains("a token starts with `glt_`"), "{}", run.stderr);
}

#[test]
fn a_misplaced_token_is_not_printed() {
    let dir = TestDir::new();
    let token = gatelodge(&["grant", "token"]).stdout.trim().to_owned();
    let bare = token.strip_prefix("glt_").expect("a token");
    let common = "[store]\ndata = \"data\"\n[[servers]]\nname = \"a\"\nurl = \"http://127.0.0.1:9/mcp\"\n[[grants]]\n";
    for text in [
        format!("{common}label = \"x\"\ntoken_env = \"A\"\nserver = \"{token}\"\n"),
        format!("{common}label = \"x\"\ntoken_env = \"A\"\nserver = \"a\"\npolicy = \"{token}\"\n"),
        format!("{common}label = \"x\"\ntoken_env = \"A\"\nserver = \"\\u0067lt_{bare}\"\n"),
        format!("{common}label = \"{token}\"\ntoken_env = \"A\"\nserver = \"a\"\n"),
        format!("{common}label = \"x\"\n{token} = 1\nserver = \"a\"\n"),
        format!("{common}label = \"x\"\nexpires = \"{token}\"\ntoken_env = \"A\"\nserver = \"a\"\n"),
        format!("[{token}]\n"),
        format!("[{token}\nx = {token}\n"),
        format!("[gateway]\nlisten = \"{token}\"\nhosts = [\"{token}\"]\n"),
        format!("[store]\ndurability = \"{token}\"\nretention = \"{token}\"\n"),
        format!("[[servers]]\nname = \"{token}\"\nurl = \"{token}\"\n[[servers]]\nname = \"{token}\"\nurl = \"x\"\n"),
        format!("[[servers]]\nname = \"{token}\"\nurl = \"x\"\n[[grants]]\nlabel = \"x\"\nserver = \"b\"\n"),
        format!("[[policies]]\nname = \"{token}\"\nfile = \"{token}\"\n"),
        format!("[[servers]]\nname = \"a\"\nurl = \"h\"\nheaders = {{ {token} = \"{token}\" }}\n"),
    ] {
        dir.write("gatelodge.toml", &text);
        for args in [
            &["serve", "--check", "--config", "gatelodge.toml"][..],
            &["serve", "--check", "--json", "--config", "gatelodge.toml"],
        ] {
            let run = dir.run_with(&[("A", &token)], args);
            assert_eq!(run.code, 1, "{text}{}", run.stderr);
            assert!(!run.stderr.contains(bare) && !run.stdout.contains(bare), "{}{}", run.stderr, run.stdout);
        }
    }
}

#[test]
fn an_unreadable_file_is_a_usage_error() {
    let run = gatelodge(&["serve", "--config", "nowhere.toml"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("cannot read `nowhere.toml`"), "{}", run.stderr);
}

/// `just docs` regenerates the pages.
#[test]
fn generated_pages_are_current() {
    for (page, page_text) in [
        ("config", include_str!("../../../docs/config.md")),
        ("cli", include_str!("../../../docs/cli.md")),
        ("clients", include_str!("../../../docs/clients.md")),
    ] {
        let run = gatelodge(&["docs", page]);
        assert_eq!(run.code, 0);
        assert!(run.stdout == page_text, "docs/{page}.md is stale; write it with `just docs`");
    }
}

#[test]
fn a_grant_can_have_several_servers_with_a_policy_each() {
    let dir = TestDir::new();
    dir.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    let server = |name: &str| format!("[[servers]]\nname = \"{name}\"\nurl = \"http://127.0.0.1:9/mcp\"\n");
    let token = "ab".repeat(32);
    let common = format!(
        "[store]\ndata = \"data\"\n{}{}[[policies]]\nname = \"p\"\nfile = \"p.json\"\n[[grants]]\nlabel = \"x\"\ntoken_hash = \"{token}\"\n",
        server("desk"),
        server("zoo")
    );
    let check = |rest: &str| {
        dir.write("gatelodge.toml", &format!("{common}{rest}\n"));
        dir.run(&["serve", "--check", "--config", "gatelodge.toml"])
    };
    let run = check("servers = { desk = \"p\", zoo = \"p\" }");
    assert_eq!(run.code, 0, "{}", run.stderr);
    for (rest, words) in [
        ("servers = { desk = \"p\" }\nserver = \"zoo\"", "a grant has `server` or `servers`, not both"),
        ("servers = { desk = \"p\" }\npolicy = \"p\"", "in `servers`, each server has its own policy"),
        ("servers = { desk = \"p\", zo = \"p\" }", "there is no server `zo` in `[[servers]]`"),
        ("servers = { desk = \"q\" }", "there is no policy `q` in `[[policies]]`"),
        ("servers = [\"desk\"]", "`servers` must be a table of strings"),
        ("policy = \"p\"", "a grant needs a `server`"),
    ] {
        let run = check(rest);
        assert!(run.code != 0 && run.stderr.contains(words), "{rest}: {}", run.stderr);
    }
}

#[test]
fn a_value_of_the_right_type_but_out_of_range_is_explained() {
    let dir = TestDir::new();
    let check = |text: &[u8]| {
        dir.write_bytes("gatelodge.toml", text);
        dir.run(&["serve", "--check", "--config", "gatelodge.toml"]).stderr
    };
    let grant = format!("[[grants]]\nlabel = \"a\"\ntoken_hash = \"{}\"\nserver = \"s\"\n", "ab".repeat(32));
    let server = "[[servers]]\nname = \"s\"\nurl = \"http://127.0.0.1:9\"\n";
    for (text, words) in [
        ("[gateway]\nmax_connections = -1\n".to_owned(), "`max_connections` must be a whole number, and not negative"),
        (
            "[gateway]\nhosts = [1]\n".to_owned(),
            "`hosts` must be a list of strings, but not all of its values are strings",
        ),
        (
            format!("{server}{grant}labels = {{ a = 1 }}\n"),
            "`labels` must be a table of strings, but not all of its values are strings",
        ),
        (format!("{server}{grant}expires = 9999-12-31\n"), "this date is out of range"),
        (format!("{server}{grant}minimum_revision = 2025-11-26\n"), "this is not a protocol revision"),
        (format!("{server}{grant}expires = 2020-01-31\n"), "warning: grant `a` expired at 2020-01-31 00:00:00 UTC"),
        ("[gateway]\ncall_timeout = 30\n".to_owned(), "`call_timeout` must be a duration, not a value of type integer"),
        ("[gateway]\ncall_timeout = 30\n".to_owned(), "call_timeout = 30\n"),
        ("[gateway]\ncall_timeout = 30\n".to_owned(), "write a duration such as `\"30s\"`"),
        ("[gateway]\ncall_timeout = \"0s\"\n".to_owned(), "`0s` must be longer than 0"),
        (format!("{server}{grant}observe = 1\n"), "`observe` must be `true` or `false`, not a value of type integer"),
        ("[telemetry]\nendpoint = \"collector\"\n".to_owned(), "write it like `http://127.0.0.1:4318`"),
        (server.replace("http://", "ftp://me:pw@"), "and has a user or password in it"),
    ] {
        let stderr = check(text.as_bytes());
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert!(check(b"[gateway]\nlisten = \"\xff\"\n").contains("the file is not UTF-8 here"));
}

#[test]
fn a_value_of_the_wrong_type_does_not_count_as_missing() {
    let dir = TestDir::new();
    dir.write("gatelodge.toml", "[store]\ndata = \"data\"\n[[servers]]\nname = \"a\"\ncommand = \"npx foo\"\n");
    let run = dir.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("gatelodge.toml: 1 error; nothing was started"), "{}", run.stderr);
    assert!(run.stderr.contains("`command` must be a list of strings"), "{}", run.stderr);
}

#[test]
fn a_renamed_key_works_and_warns_with_the_new_name() {
    let dir = TestDir::new();
    dir.write("gatelodge.toml", "[gateway]\nconnect_time = \"7s\"\nsessions = 3\n[store]\ndata = \"data\"\n");
    let run = dir.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for expected in [
        "warning[renamed-field]: `connect_time` is called `connect_timeout` now",
        "warning[renamed-field]: `sessions` is called `max_sessions` now",
        "write `connect_timeout`; the old name still works",
    ] {
        assert!(run.stderr.contains(expected), "{expected}\n{}", run.stderr);
    }
}

#[test]
fn the_value_of_a_renamed_key_is_validated() {
    let dir = TestDir::new();
    dir.write("gatelodge.toml", "[gateway]\nconnect_time = \"7 parsecs\"\n[store]\ndata = \"data\"\n");
    let run = dir.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("error[bad-value]"), "{}", run.stderr);
}

#[test]
fn old_and_new_name_of_a_key_together_are_refused() {
    let dir = TestDir::new();
    let text = "[gateway]\nconnect_time = \"7s\"\nconnect_timeout = \"8s\"\n[store]\ndata = \"data\"\n";
    dir.write("gatelodge.toml", text);
    let run = dir.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("error[field-clash]: `connect_time` and `connect_timeout` are the same field"),
        "{}",
        run.stderr
    );
}
