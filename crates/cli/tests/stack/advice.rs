//! What agents and people are told of a server beside its tools: versions, namesakes, public cases, the index in use.

use serde_json::{Value, json};

use super::support::House;
use super::{answered, called, converse, facts, package, told, tool, with_index};

/// An index of the usual servers and these, in use in `d`.
fn with(more: &[String], date: &str) -> House {
    let house = with_index();
    house.write("facts.jsonl", &[facts(), more.join("\n")].join("\n"));
    super::make_index(&house, "facts.jsonl", date, "i.glx");
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    house
}

fn remote(source: &str, version: &str) -> String {
    package(source, "mcp-remote", &[tool("get_it", "Read", &[])]).replace("1.0.0", version)
}

#[test]
fn agents_are_told_critical_where_servers_leak_together_or_one_has_a_public_case() {
    let inbox = package("pypi", "inbox", &[tool("read_inbox", "Read", &["reads_private", "reads_untrusted"])]);
    let house = with(&[inbox, remote("npm", "0.1.29")], "2026-11-16");
    let ask = |servers: &Value| {
        let answers = converse(&house, &[called(1, "check_mcp_stack", &json!({"servers": servers}))]);
        answered(&answers[0])["stack"]["level"].clone()
    };
    assert_eq!(ask(&json!(["pypi:inbox", "pypi:mail"])), "Critical");
    assert_eq!(ask(&json!(["npm:mcp-remote@0.1.15"])), "Critical");
    assert_eq!(ask(&json!(["npm:postmark-mcp"])), "Critical");
    assert_eq!(ask(&json!(["npm:mcp-remote", "pypi:inbox"])), "Low");
    assert_eq!(ask(&json!(["pypi:mail"])), "Medium");
}

#[test]
fn agents_that_ask_for_a_tool_are_told_of_the_version_the_namesake_and_the_public_case() {
    let twin = |source: &str| package(source, "twins", &[tool("get_it", "Read", &[])]);
    let house = with(&[twin("npm"), twin("pypi"), remote("npm", "0.1.29")], "2026-11-16");
    let ask = |server: &str| {
        let answers = converse(&house, &[called(1, "check_tool", &json!({"server": server, "tool": "get_it"}))]);
        answered(&answers[0])
    };
    for (server, verdict, says) in [
        ("npm:mcp-remote@0.1.15", "ask-first", "this version is affected"),
        ("npm:mcp-remote@0.1.30", "connect-with-rule", "the indexed version is 0.1.29, not 0.1.30"),
        ("twins", "proceed", "name the source"),
    ] {
        let told = ask(server);
        assert!(told["verdict"] == verdict && told["reasons"].to_string().contains(says), "{server}: {told}");
        assert!(told["category"] == "Read" && told["version"].is_string(), "{told}");
    }
    let answers = converse(&house, &[called(1, "check_tool", &json!({"server": "npm:postmark-mcp", "tool": "x"}))]);
    assert!(answers[0]["result"]["isError"] == true && answers[0].to_string().contains("public case"), "{answers:?}");
}

#[test]
fn a_namesake_in_the_index_hides_no_public_case() {
    let house = with(&[remote("pypi", "5.0.0")], "2026-11-16");
    for (what, code, says) in [
        ("mcp-remote", 1, "`npm:mcp-remote` is the package in a public case"),
        ("mcp-remote", 1, "it is unknown whether the version"),
        ("mcp-remote==0.1.15", 1, "this version is affected"),
        ("mcp-remote==0.1.29", 0, "is not affected"),
    ] {
        let run = house.run(&["precheck", what, "--index", "i.glx"]);
        assert!(run.code == code && run.stdout.contains(says), "{what}: {} {}", run.code, run.stdout);
    }
    let run = house.run(&["precheck", "pypi:mcp-remote", "--index", "i.glx"]);
    assert!(run.code == 0 && !run.stdout.contains("public case"), "{}", run.stdout);
    // Where a program comes from, its name does not say.
    house.write("c.json", r#"{"mcpServers": {"r": {"command": "/usr/bin/mcp-remote"}}}"#);
    let run = house.run(&["stack", "c.json", "--json", "--index", "i.glx"]);
    assert!(told(&run)["servers"][0]["reasons"].to_string().contains("public case"), "{}", run.stdout);
}

#[test]
fn agents_are_told_events_with_letters_that_are_not_seen_written_out() {
    let odd = |version: &str, category: &str, hash: &str| {
        let text = package("npm", "odd", &[tool("get\u{202e}_it", category, &[])]);
        text.replace("1.0.0", version).replace("0123456789abcdef", hash)
    };
    let house = with(&[odd("1.0.0", "Read", "0123456789abcdef")], "2026-11-16");
    house.write("facts.jsonl", &[facts(), odd("1.0.1\u{200b}", "Execute", "fedcba9876543210")].join("\n"));
    super::make_index(&house, "facts.jsonl", "2026-11-17", "new.glx");
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let answers = converse(&house, &[called(1, "get_change_events", &json!({}))]);
    let event = answered(&answers[0])["events"][0].clone();
    assert_eq!((&event["tool"], &event["version"]), (&json!(r"get\u{202e}_it"), &json!(r"1.0.1\u{200b}")));
    assert_eq!((&event["kind"], &event["cursor"]), (&json!("level_raised"), &json!(1)));
}

#[test]
fn a_verdict_is_told_with_its_reasons_and_of_tools_that_were_found() {
    let mail =
        package("npm", "all", &[tool("do_all", "Write", &["reads_private", "reads_untrusted", "sends_outward"])]);
    let house = with(&[mail], "2026-11-16");
    let why = "by itself it reads private data, reads untrusted text, and can send data out";
    let run = house.run(&["catalogue", "show", "npm:all", "--index", "i.glx"]);
    assert!(run.stdout.contains(&format!("Before connecting: ask-first\n  - {why}")), "{}", run.stdout);
    let run = house.run(&["precheck", "pypi:notes", "--index", "i.glx"]);
    assert!(run.stdout.contains("all tools that were found only read"), "{}", run.stdout);
    let run = house.run(&["catalogue", "show", "pypi:notes", "--index", "i.glx"]);
    assert!(run.stdout.contains("Grade A: all tools that were found only read"), "{}", run.stdout);
}

#[test]
fn programs_are_told_which_tools_are_there_only_under_a_setting() {
    let mut rare = tool("burn_book", "Destructive", &[]);
    rare["optional"] = json!(true);
    let house = with(&[package("pypi", "books", &[rare, tool("get_book", "Read", &[])])], "2026-11-16");
    house.write("c.json", r#"{"mcpServers": {"b": {"command": "uvx", "args": ["books"]}}}"#);
    let all = told(&house.run(&["stack", "c.json", "--json", "--index", "i.glx"]));
    let answers = converse(&house, &[called(1, "check_mcp_server", &json!({"server": "pypi:books"}))]);
    for tools in [&all["servers"][0]["tools"], &answered(&answers[0])["tools"]] {
        let optional: Vec<_> = tools.as_array().unwrap().iter().map(|own| &own["optional"]).collect();
        assert_eq!(optional, [&json!(true), &json!(false)], "{tools}");
    }
}

#[test]
fn an_index_that_is_older_than_the_programs_own_is_told_and_one_option_brings_that() {
    let house = with(&[], "2001-01-01");
    let ask = || house.run(&["catalogue", "search", "x", "--json", "--data", "d"]);
    let says = "is from 2001-01-01, and the built-in one from 20";
    let run = ask();
    assert_eq!((run.code, run.stderr.matches(says).count()), (0, 1), "{}", run.stderr);
    assert!(run.stderr.contains("`gatelodge catalogue update --built-in`"), "{}", run.stderr);
    assert_eq!(told(&run)["index"]["servers"], 4);
    let run = house.run(&["catalogue", "update", "--built-in", "--data", "d"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = ask();
    assert!(told(&run)["index"]["servers"].as_u64().unwrap() > 4 && !run.stderr.contains(says), "{}", run.stderr);
    for wrong in [&["catalogue", "update"][..], &["catalogue", "update", "--built-in", "--from", "i.glx"]] {
        assert_eq!(house.run(wrong).code, 2);
    }
}
