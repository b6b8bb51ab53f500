//! The configuration: all faults at once, none with a secret in it; and the pages that are made from the program.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use support::{gatelodge, house};

/// Marked, so that it is found wherever it turns up.
const SECRET: &str = "hunter2secret";

#[test]
fn all_faults_come_at_once_each_with_its_place_a_code_and_a_way_out() {
    let house = house();
    house.write("gatelodge.toml", include_str!("config/faulty.toml"));
    house.write("broken.json", "{\"version\": \"1\", \"default\": \"dney\"}\n");
    let run = house.run(&["serve", "--config", "gatelodge.toml"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    insta::assert_snapshot!(run.stderr);
}

#[test]
fn a_text_that_is_no_toml_is_told_by_its_places_without_its_values() {
    let house = house();
    house.write(
        "gatelodge.toml",
        "[[servers]]\nname = \"x\"\nurl = hunter2secret\n[[grants]]\ntoken_env = \"hunter2secret\n",
    );
    let run = house.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    insta::assert_snapshot!(run.stderr);
}

#[test]
fn programs_get_the_same_findings_as_json() {
    let house = house();
    house.write("gatelodge.toml", "[store]\ndurability = \"powr\"\n");
    let run = house.run(&["serve", "--check", "--json", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1);
    let findings: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(findings[0]["code"], "bad-value");
    assert_eq!((findings[0]["line"].as_u64(), findings[0]["column"].as_u64()), (Some(2), Some(14)));
    assert_eq!(findings[0]["help"], "did you mean `power`?");
}

#[test]
fn a_good_file_is_said_to_be_and_warnings_do_not_stop_it() {
    let house = house();
    house.write("gatelodge.toml", "[store]\ndata = \"data\"\n");
    let run = house.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    let said = "gatelodge.toml: no errors; 0 servers, 0 policies, 0 grants\n";
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "", said));
    let server = "[[servers]]\nname = \"a\"\nurl = \"http://a.example.com/mcp\"\nheaders = { X-Key = \"${SHORT}\" }\n";
    house.write("gatelodge.toml", &format!("[store]\ndata = \"data\"\n{server}"));
    let run = house.run_with(&[("SHORT", "abc")], &["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("warning[clear-text]") && run.stderr.contains("warning[short-secret]"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_token_comes_from_the_environment_a_file_or_as_a_hash_and_never_stands_in_the_file() {
    let house = house();
    let made: Value = serde_json::from_str(&gatelodge(&["grant", "token", "--json"]).stdout).expect("JSON");
    let (token, hash) = (made["token"].as_str().unwrap(), made["token_hash"].as_str().unwrap());
    let server = "[store]\ndata = \"data\"\n[[servers]]\nname = \"a\"\nurl = \"http://127.0.0.1:9/mcp\"\n";
    let check = |line: &str| {
        house.write("gatelodge.toml", &format!("{server}[[grants]]\nlabel = \"x\"\nserver = \"a\"\n{line}\n"));
        house.run_with(&[("A_TOKEN", token)], &["serve", "--check", "--config", "gatelodge.toml"])
    };
    house.write("token.txt", &format!("{token}\n"));
    for line in ["token_env = \"A_TOKEN\"", "token_file = \"token.txt\"", &format!("token_hash = \"{hash}\"")] {
        let run = check(line);
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
    }
    for field in ["token_env", "token_file", "token_hash", "token"] {
        let run = check(&format!("{field} = \"{token}\""));
        assert_eq!(run.code, 1, "{field}");
        assert!(!run.stderr.contains(token), "{}", run.stderr);
    }
    house.write("token.txt", "glt_not-a-token\n");
    let run = check("token_file = \"token.txt\"");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("not a token") && !run.stderr.contains("not-a-token"), "{}", run.stderr);
}

#[test]
fn a_token_where_it_does_not_belong_is_not_repeated() {
    let house = house();
    let token = gatelodge(&["grant", "token"]).stdout.trim().to_owned();
    let bare = token.strip_prefix("glt_").expect("a token");
    let good = "[store]\ndata = \"data\"\n[[servers]]\nname = \"a\"\nurl = \"http://127.0.0.1:9/mcp\"\n[[grants]]\n";
    for text in [
        format!("{good}label = \"x\"\ntoken_env = \"A\"\nserver = \"{token}\"\n"),
        format!("{good}label = \"x\"\ntoken_env = \"A\"\nserver = \"a\"\npolicy = \"{token}\"\n"),
        format!("{good}label = \"x\"\ntoken_env = \"A\"\nserver = \"\\u0067lt_{bare}\"\n"),
        format!("{good}label = \"{token}\"\ntoken_env = \"A\"\nserver = \"a\"\n"),
        format!("{good}label = \"x\"\n{token} = 1\nserver = \"a\"\n"),
        format!("{good}label = \"x\"\nexpires = \"{token}\"\ntoken_env = \"A\"\nserver = \"a\"\n"),
        format!("[{token}]\n"),
        format!("[{token}\nx = {token}\n"),
        format!("[gateway]\nlisten = \"{token}\"\nhosts = [\"{token}\"]\n"),
        format!("[store]\ndurability = \"{token}\"\nretention = \"{token}\"\n"),
        format!("[[servers]]\nname = \"{token}\"\nurl = \"{token}\"\n[[servers]]\nname = \"{token}\"\nurl = \"x\"\n"),
        format!("[[servers]]\nname = \"{token}\"\nurl = \"x\"\n[[grants]]\nlabel = \"x\"\nserver = \"b\"\n"),
        format!("[[policies]]\nname = \"{token}\"\nfile = \"{token}\"\n"),
        format!("[[servers]]\nname = \"a\"\nurl = \"h\"\nheaders = {{ {token} = \"{token}\" }}\n"),
    ] {
        house.write("gatelodge.toml", &text);
        for args in [
            &["serve", "--check", "--config", "gatelodge.toml"][..],
            &["serve", "--check", "--json", "--config", "gatelodge.toml"],
        ] {
            let run = house.run_with(&[("A", &token)], args);
            assert_eq!(run.code, 1, "{text}{}", run.stderr);
            assert!(!run.stderr.contains(bare) && !run.stdout.contains(bare), "{}{}", run.stderr, run.stdout);
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_matter_of_usage() {
    let run = gatelodge(&["serve", "--config", "nowhere.toml"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("cannot read `nowhere.toml`"), "{}", run.stderr);
}

/// `just docs` writes the pages anew.
#[test]
fn the_pages_say_what_the_program_says() {
    for (page, kept) in [
        ("config", include_str!("../../../docs/config.md")),
        ("cli", include_str!("../../../docs/cli.md")),
        ("clients", include_str!("../../../docs/clients.md")),
    ] {
        let run = gatelodge(&["docs", page]);
        assert_eq!(run.code, 0);
        assert!(run.stdout == kept, "docs/{page}.md is stale; write it with `just docs`");
    }
}

#[test]
fn a_grant_may_have_several_servers_each_with_its_policy() {
    let house = house();
    house.write("p.json", r#"{"version":"1","default":"deny","tools":{"read":{}}}"#);
    let server = |name: &str| format!("[[servers]]\nname = \"{name}\"\nurl = \"http://127.0.0.1:9/mcp\"\n");
    let token = "ab".repeat(32);
    let begin = format!(
        "[store]\ndata = \"data\"\n{}{}[[policies]]\nname = \"p\"\nfile = \"p.json\"\n[[grants]]\nlabel = \"x\"\ntoken_hash = \"{token}\"\n",
        server("desk"),
        server("zoo")
    );
    let check = |rest: &str| {
        house.write("gatelodge.toml", &format!("{begin}{rest}\n"));
        house.run(&["serve", "--check", "--config", "gatelodge.toml"])
    };
    let good = check("servers = { desk = \"p\", zoo = \"p\" }");
    assert_eq!(good.code, 0, "{}", good.stderr);
    for (rest, words) in [
        ("servers = { desk = \"p\" }\nserver = \"zoo\"", "a grant has `server` or `servers`, not both"),
        ("servers = { desk = \"p\" }\npolicy = \"p\"", "in `servers`, each server has its own policy"),
        ("servers = { desk = \"p\", zo = \"p\" }", "there is no server `zo` in `[[servers]]`"),
        ("servers = { desk = \"q\" }", "there is no policy `q` in `[[policies]]`"),
        ("servers = [\"desk\"]", "`servers` must be a table of strings"),
        ("policy = \"p\"", "a grant needs a `server`"),
    ] {
        let bad = check(rest);
        assert!(bad.code != 0 && bad.stderr.contains(words), "{rest}: {}", bad.stderr);
    }
}

#[test]
fn a_value_of_the_right_type_that_cannot_be_used_is_told_as_that() {
    let house = house();
    let check = |text: &[u8]| {
        house.write_bytes("gatelodge.toml", text);
        house.run(&["serve", "--check", "--config", "gatelodge.toml"]).stderr
    };
    let grant = format!("[[grants]]\nlabel = \"a\"\ntoken_hash = \"{}\"\nserver = \"s\"\n", "ab".repeat(32));
    let server = "[[servers]]\nname = \"s\"\nurl = \"http://127.0.0.1:9\"\n";
    for (text, words) in [
        ("[gateway]\nmax_connections = -1\n".to_owned(), "`max_connections` must be a whole number, from 0 to"),
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
        (server.replace("http://", "ftp://me:pw@"), "and has a user or password in it"),
    ] {
        let said = check(text.as_bytes());
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(check(b"[gateway]\nlisten = \"\xff\"\n").contains("the file is not UTF-8 here"));
}

#[test]
fn a_renamed_key_works_warns_and_names_the_new_one() {
    let house = house();
    house.write("gatelodge.toml", "[gateway]\nconnect_time = \"7s\"\nsessions = 3\n[store]\ndata = \"data\"\n");
    let run = house.run(&["serve", "--check", "--config", "gatelodge.toml"]);
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
fn the_value_of_a_renamed_key_is_read_and_checked() {
    let house = house();
    house.write("gatelodge.toml", "[gateway]\nconnect_time = \"7 parsecs\"\n[store]\ndata = \"data\"\n");
    let run = house.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("error[bad-value]"), "{}", run.stderr);
}

#[test]
fn both_names_of_a_renamed_key_are_refused() {
    let house = house();
    let text = "[gateway]\nconnect_time = \"7s\"\nconnect_timeout = \"8s\"\n[store]\ndata = \"data\"\n";
    house.write("gatelodge.toml", text);
    let run = house.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("error[field-clash]: `connect_time` and `connect_timeout` are the same field"),
        "{}",
        run.stderr
    );
}
