//! Advice on a server apart from its tools: versions, equal names in several registries, public incidents, the index in use.

use serde_json::{Value, json};

use super::support::TestDir;
use super::{dir_with_index, facts, json_output, package, send_lines, tool, tool_call, tool_output};

/// A directory in which the data directory `d` uses an index of the usual packages and `more`.
fn dir_with_packages(more: &[String], date: &str) -> TestDir {
    let dir = dir_with_index();
    dir.write("facts.jsonl", &[facts(), more.join("\n")].join("\n"));
    super::write_index_file(&dir, "facts.jsonl", date, "i.glx");
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    dir
}

fn remote(source: &str, version: &str) -> String {
    package(source, "mcp-remote", &[tool("get_it", "Read", &[])]).replace("1.0.0", version)
}

#[test]
fn check_mcp_stack_is_critical_for_a_combined_leak_or_a_public_case() {
    let reader = package("pypi", "inbox", &[tool("read_inbox", "Read", &["reads_private", "reads_untrusted"])]);
    let dir = dir_with_packages(&[reader, remote("npm", "0.1.29")], "2026-11-16");
    let ask = |servers: &Value| {
        let responses = send_lines(&dir, &[tool_call(1, "check_mcp_stack", &json!({"servers": servers}))]);
        tool_output(&responses[0])["stack"]["level"].clone()
    };
    assert_eq!(ask(&json!(["pypi:inbox", "pypi:mail"])), "Critical");
    assert_eq!(ask(&json!(["npm:mcp-remote@0.1.15"])), "Critical");
    assert_eq!(ask(&json!(["npm:postmark-mcp"])), "Critical");
    assert_eq!(ask(&json!(["npm:mcp-remote", "pypi:inbox"])), "Low");
    assert_eq!(ask(&json!(["pypi:mail"])), "Medium");
}

#[test]
fn check_tool_reports_version_ambiguous_name_and_public_case() {
    let same_name = |source: &str| package(source, "twins", &[tool("get_it", "Read", &[])]);
    let dir = dir_with_packages(&[same_name("npm"), same_name("pypi"), remote("npm", "0.1.29")], "2026-11-16");
    let ask = |server: &str| {
        let responses = send_lines(&dir, &[tool_call(1, "check_tool", &json!({"server": server, "tool": "get_it"}))]);
        tool_output(&responses[0])
    };
    for (server, verdict, message) in [
        ("npm:mcp-remote@0.1.15", "ask-first", "this version is affected"),
        ("npm:mcp-remote@0.1.30", "connect-with-rule", "the indexed version is 0.1.29, not 0.1.30"),
        ("twins", "proceed", "name the source"),
    ] {
        let output = ask(server);
        assert!(output["verdict"] == verdict && output["reasons"].to_string().contains(message), "{server}: {output}");
        assert!(output["category"] == "Read" && output["version"].is_string(), "{output}");
    }
    let responses =
        send_lines(&dir, &[tool_call(1, "check_tool", &json!({"server": "npm:postmark-mcp", "tool": "x"}))]);
    assert!(
        responses[0]["result"]["isError"] == true && responses[0].to_string().contains("public incident"),
        "{responses:?}"
    );
}

#[test]
fn an_equal_name_in_another_registry_hides_no_public_case() {
    let dir = dir_with_packages(&[remote("pypi", "5.0.0")], "2026-11-16");
    for (what, code, message) in [
        ("mcp-remote", 1, "`npm:mcp-remote` is the package in a public incident"),
        ("mcp-remote", 1, "it is unknown whether the version"),
        ("mcp-remote==0.1.15", 1, "this version is affected"),
        ("mcp-remote==0.1.29", 0, "is not affected"),
    ] {
        let run = dir.run(&["precheck", what, "--index", "i.glx"]);
        assert!(run.code == code && run.stdout.contains(message), "{what}: {} {}", run.code, run.stdout);
    }
    let run = dir.run(&["precheck", "pypi:mcp-remote", "--index", "i.glx"]);
    assert!(run.code == 0 && !run.stdout.contains("public incident"), "{}", run.stdout);
    // The name of a program does not say which registry it came from.
    dir.write("c.json", r#"{"mcpServers": {"r": {"command": "/usr/bin/mcp-remote"}}}"#);
    let run = dir.run(&["stack", "c.json", "--json", "--index", "i.glx"]);
    assert!(json_output(&run)["servers"][0]["reasons"].to_string().contains("public incident"), "{}", run.stdout);
}

#[test]
fn invisible_characters_are_escaped_in_change_events() {
    let hidden_package = |version: &str, category: &str, hash: &str| {
        let text = package("npm", "odd", &[tool("get\u{202e}_it", category, &[])]);
        text.replace("1.0.0", version).replace("0123456789abcdef", hash)
    };
    let dir = dir_with_packages(&[hidden_package("1.0.0", "Read", "0123456789abcdef")], "2026-11-16");
    dir.write("facts.jsonl", &[facts(), hidden_package("1.0.1\u{200b}", "Execute", "fedcba9876543210")].join("\n"));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-17", "new.glx");
    dir.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let responses = send_lines(&dir, &[tool_call(1, "get_change_events", &json!({}))]);
    let event = tool_output(&responses[0])["events"][0].clone();
    assert_eq!((&event["tool"], &event["version"]), (&json!(r"get\u{202e}_it"), &json!(r"1.0.1\u{200b}")));
    assert_eq!((&event["kind"], &event["cursor"]), (&json!("level_raised"), &json!(1)));
}

#[test]
fn a_verdict_has_its_reasons_and_speaks_only_of_found_tools() {
    let mail =
        package("npm", "all", &[tool("do_all", "Write", &["reads_private", "reads_untrusted", "sends_outward"])]);
    let dir = dir_with_packages(&[mail], "2026-11-16");
    let why = "by itself it reads private data, reads untrusted text, and can send data out";
    let run = dir.run(&["catalogue", "show", "npm:all", "--index", "i.glx"]);
    assert!(run.stdout.contains(&format!("Before connecting: ask-first\n  - {why}")), "{}", run.stdout);
    let run = dir.run(&["precheck", "pypi:notes", "--index", "i.glx"]);
    assert!(run.stdout.contains("all tools that were found only read"), "{}", run.stdout);
    let run = dir.run(&["catalogue", "show", "pypi:notes", "--index", "i.glx"]);
    assert!(run.stdout.contains("Grade A: all tools that were found only read"), "{}", run.stdout);
}

#[test]
fn json_output_marks_optional_tools() {
    let mut optional_tool = tool("burn_book", "Destructive", &[]);
    optional_tool["optional"] = json!(true);
    let dir =
        dir_with_packages(&[package("pypi", "books", &[optional_tool, tool("get_book", "Read", &[])])], "2026-11-16");
    dir.write("c.json", r#"{"mcpServers": {"b": {"command": "uvx", "args": ["books"]}}}"#);
    let all = json_output(&dir.run(&["stack", "c.json", "--json", "--index", "i.glx"]));
    let responses = send_lines(&dir, &[tool_call(1, "check_mcp_server", &json!({"server": "pypi:books"}))]);
    for tools in [&all["servers"][0]["tools"], &tool_output(&responses[0])["tools"]] {
        let optional: Vec<_> = tools.as_array().unwrap().iter().map(|tool| &tool["optional"]).collect();
        assert_eq!(optional, [&json!(true), &json!(false)], "{tools}");
    }
}

#[test]
fn an_index_older_than_the_built_in_one_is_reported_and_replaceable() {
    let dir = dir_with_packages(&[], "2001-01-01");
    let ask = || dir.run(&["catalogue", "search", "x", "--json", "--data", "d"]);
    let message = "is from 2001-01-01, and the built-in one from 20";
    let run = ask();
    assert_eq!((run.code, run.stderr.matches(message).count()), (0, 1), "{}", run.stderr);
    assert!(run.stderr.contains("`gatelodge catalogue update --built-in`"), "{}", run.stderr);
    assert_eq!(json_output(&run)["index"]["servers"], 4);
    let run = dir.run(&["catalogue", "update", "--built-in", "--data", "d"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = ask();
    assert!(
        json_output(&run)["index"]["servers"].as_u64().unwrap() > 4 && !run.stderr.contains(message),
        "{}",
        run.stderr
    );
    for wrong in [&["catalogue", "update"][..], &["catalogue", "update", "--built-in", "--from", "i.glx"]] {
        assert_eq!(dir.run(wrong).code, 2);
    }
}
