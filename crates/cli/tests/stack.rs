//! `gatelodge catalogue search|show|index|update`, `precheck` and `stack` as people call them.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "stack/advice.rs"]
mod advice;
#[path = "stack/agents.rs"]
mod agents;
#[path = "stack/behind.rs"]
mod behind;
#[path = "stack/bundle.rs"]
mod bundle;
mod clients;
#[path = "stack/codes.rs"]
mod codes;
mod index;
#[path = "stack/large.rs"]
mod large;
#[path = "stack/reach.rs"]
mod reach;
mod support;
#[path = "stack/tricks.rs"]
mod tricks;
#[path = "stack/update.rs"]
mod update;
#[path = "stack/webhook.rs"]
mod webhook;

use std::io::{Read, Write};

use clients::{SECRET, furnish, put};
use serde_json::{Value, json};
use support::{House, Run, house};

fn tool(name: &str, category: &str, flow: &[&str]) -> Value {
    json!({"name": name, "parameters": [{"name": "path", "type": "string", "required": true}], "category": category,
        "confidence": 0.9, "signals": ["takes_path"], "flow": flow, "hash": "0123456789abcdef"})
}

fn package(source: &str, name: &str, tools: &[Value]) -> String {
    json!({"source": source, "package": name, "version": "1.0.0", "date": "2026-11-01", "tools": tools}).to_string()
}

/// Facts of some of the servers that the clients of the fixtures have.
fn facts() -> String {
    [
        package(
            "npm",
            "@example/github",
            &[
                tool("read_issue", "Read", &["reads_private", "reads_untrusted"]),
                tool("delete_repository", "Destructive", &[]),
            ],
        ),
        package("npm", "@example/files", &[tool("list_files", "Read", &["reads_private"])]),
        package("pypi", "mail", &[tool("send_mail", "Write", &["sends_outward"])]),
        package("pypi", "notes", &[tool("get_note", "Read", &[])]),
    ]
    .join("\n")
}

fn with_index() -> House {
    let house = house();
    house.write("facts.jsonl", &facts());
    house.write(
        "done.jsonl",
        "{\"package\": \"a\", \"outcome\": \"failed\"}\n{\"package\": \"b\", \"outcome\": \"no_tools\"}\n{\"package\": \"a\", \"outcome\": \"no_tools\"}\n",
    );
    let made =
        ["catalogue", "index", "facts.jsonl", "--outcomes", "done.jsonl", "--date", "2026-11-16", "--out", "i.glx"];
    let run = house.run(&made);
    assert_eq!(run.code, 0, "{}", run.stderr);
    house
}

/// An index of a later day with later versions, in which all that read runs.
fn newer(house: &House, name: &str) {
    let mut later: Vec<Value> = facts().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for package in &mut later {
        package["version"] = json!("1.0.1");
        let tools = package["tools"].as_array_mut().unwrap().iter_mut();
        for tool in tools.filter(|tool| tool["category"] == "Read") {
            tool["category"] = json!("Execute");
            tool["hash"] = json!("fedcba9876543210");
        }
    }
    house.write("later.jsonl", &later.iter().map(|package| format!("{package}\n")).collect::<String>());
    let run = house.run(&["catalogue", "index", "later.jsonl", "--date", "2026-11-17", "--out", name]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

fn told(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
}

#[test]
fn an_index_is_made_from_facts_and_searched() {
    let house = with_index();
    let found = told(&house.run(&["catalogue", "search", "DELETE", "github", "--json", "--index", "i.glx"]));
    assert_eq!((&found["tools"][0]["name"], &found["tool_count"]), (&json!("delete_repository"), &json!(1)));
    assert_eq!(found["index"]["outcomes"], json!({"no_tools": 2}));
    let run = house.run(&["catalogue", "search", "--level", "CRITICAL", "--index", "i.glx"]);
    assert!(run.stdout.contains("Destructive  delete_repository  npm:@example/github"), "{}", run.stdout);
    assert!(run.stderr.contains("of 4 and 5"), "{}", run.stderr);
    let run = house.run(&["catalogue", "search", "--signal", "nonsense", "--index", "i.glx"]);
    assert!(run.code == 2 && run.stderr.contains("takes_code"), "{}", run.stderr);
}

#[test]
fn a_line_that_is_no_fact_ends_it_and_the_file_that_was_there_stays() {
    let house = with_index();
    let before = std::fs::read(house.path("i.glx")).unwrap();
    house.write("facts.jsonl", &format!("{}\n{{\"source\": \"npm\"}}\n", facts()));
    let run = house.run(&["catalogue", "index", "facts.jsonl", "--out", "i.glx"]);
    assert!(
        run.code == 1 && run.stderr.contains("line 5") && run.stderr.contains("nothing was written"),
        "{}",
        run.stderr
    );
    assert_eq!(std::fs::read(house.path("i.glx")).unwrap(), before);
}

#[test]
fn a_server_is_shown_with_its_grade_its_tools_and_a_policy_that_loads() {
    let house = with_index();
    let run = house.run(&["catalogue", "show", "@example/github", "--index", "i.glx"]);
    assert!(run.stdout.contains("Grade D") && run.stdout.contains("delete_repository"), "{}", run.stdout);
    let run = house.run(&["catalogue", "show", "@example/github", "delete_repository", "--json", "--index", "i.glx"]);
    assert_eq!(told(&run)["recommended"]["hide"][0], "delete_repository");
    for posture in ["recommended", "strict", "permissive"] {
        let run = house.run(&["catalogue", "show", "@example/github", "--policy", posture, "--index", "i.glx"]);
        house.write("p.json", &run.stdout);
        assert_eq!(house.run(&["policy", "check", "p.json"]).code, 0, "{}", run.stdout);
    }
    let run = house.run(&["catalogue", "show", "@example/gihtub", "--index", "i.glx"]);
    assert!(
        run.code == 1 && run.stderr.contains("`npm:@example/github` 1.0.0, which is another package"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_tool_that_is_there_only_under_a_setting_is_shown_as_such() {
    let house = house();
    let mut rare = tool("burn_book", "Destructive", &[]);
    rare["optional"] = json!(true);
    house.write("facts.jsonl", &package("pypi", "books", &[tool("get_book", "Read", &[]), rare]));
    assert_eq!(house.run(&["catalogue", "index", "facts.jsonl", "--out", "i.glx"]).code, 0);
    let run = house.run(&["catalogue", "show", "books", "--index", "i.glx"]);
    let marked: Vec<_> = run.stdout.lines().filter(|line| line.contains("only under a setting")).collect();
    assert!(matches!(marked.as_slice(), [line] if line.contains("burn_book")), "{}", run.stdout);
    let run = house.run(&["catalogue", "show", "books", "burn_book", "--index", "i.glx"]);
    assert!(run.stdout.contains("only under a setting"), "{}", run.stdout);
    let all = told(&house.run(&["catalogue", "show", "books", "--json", "--index", "i.glx"]));
    let optional: Vec<_> = all["tools"].as_array().unwrap().iter().map(|tool| &tool["optional"]).collect();
    assert_eq!(optional, [&json!(true), &Value::Null]);
    let found = told(&house.run(&["catalogue", "search", "burn", "--json", "--index", "i.glx"]));
    assert_eq!(found["tools"][0]["optional"], true);
}

#[test]
fn an_update_takes_what_is_an_index_and_keeps_the_old_one_otherwise() {
    let house = with_index();
    let servers = |house: &House| {
        told(&house.run(&["catalogue", "search", "x", "--json", "--data", "d"]))["index"]["servers"].clone()
    };
    let good = std::fs::read(house.path("i.glx")).unwrap();
    let run = house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    assert_eq!((run.code, servers(&house)), (0, json!(4)), "{}", run.stderr);
    let mut newer = good.clone();
    newer[8] = 9;
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (bytes, says) in [
        (&good[..good.len() / 2], "cut off"),
        (&b"PK\x03\x04 not an index"[..], "no index of the catalogue"),
        (&newer, "format 9"),
        (&damaged, "checksum"),
    ] {
        house.write_bytes("bad.glx", bytes);
        let run = house.run(&["catalogue", "update", "--from", "bad.glx", "--data", "d"]);
        assert!(
            run.code == 1 && run.stderr.contains(says) && run.stderr.contains("the old index stays"),
            "{}",
            run.stderr
        );
        assert_eq!(servers(&house), 4);
    }
    house.run(&["catalogue", "index", "facts.jsonl", "--date", "2001-01-01", "--out", "old.glx"]);
    let run = house.run(&["catalogue", "update", "--from", "old.glx", "--data", "d"]);
    assert!(run.code == 1 && run.stderr.contains("--allow-older"), "{}", run.stderr);
    // A file that rots in its place is told, and an update mends it.
    house.write_bytes("d/index.glx", b"rotten");
    let run = house.run(&["catalogue", "search", "x", "--data", "d"]);
    assert!(run.code == 5 && run.stderr.contains("catalogue update"), "{}", run.stderr);
    assert_eq!(
        house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]).code,
        0
    );
}

#[test]
fn an_update_is_fetched_and_its_changes_are_kept() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    newer(&house, "new.glx");
    let bytes = std::fs::read(house.path("new.glx")).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/new.glx", listener.local_addr().unwrap());
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len()).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let run = house.run(&["catalogue", "update", "--from", &url, "--data", "d", "--json"]);
    serve.join().unwrap();
    assert_eq!((run.code, &told(&run)["changes"]), (0, &json!(3)), "{}", run.stderr);
    let kept = house.read("d/catalogue-changes.jsonl");
    let last: Value = serde_json::from_str(kept.lines().last().unwrap()).unwrap();
    assert_eq!((&last["kind"], &last["cursor"], &last["level"]), (&json!("level_raised"), &json!(3), &json!("High")));
    let run = house.run(&["catalogue", "update", "--from", "http://127.0.0.1:1/x", "--data", "d"]);
    assert!(run.code == 4 && run.stderr.contains("the old one stays"), "{}", run.stderr);
}

#[test]
fn precheck_gives_advice_with_a_rule_and_never_says_safe() {
    let house = with_index();
    let ask = |what: &str| house.run(&["precheck", what, "--index", "i.glx"]);
    for (what, code, says) in [
        ("pypi:notes", 0, "pypi:notes: proceed"),
        ("notes", 0, "pypi:notes: connect-with-rule"),
        ("notes", 0, "of a `notes` of npm nothing is known"),
        ("mail", 0, "connect-with-rule"),
        ("npm:@example/github@2.0.0", 0, "the index has read version 1.0.0, not 2.0.0"),
        ("pypi:notes==1.0.0", 0, "pypi:notes: proceed"),
        ("notes@1.0.0", 0, "pypi:notes: connect-with-rule"),
        ("notes@1.0.0", 0, "of a `notes` of npm nothing is known"),
        ("notes==9.0", 0, "pypi:notes: connect-with-rule"),
        ("@example/githubb", 1, "`npm:@example/github` 1.0.0 has a name like this one"),
        ("nobody-knows-this-one", 1, "ask-first"),
        ("https://example.com/mcp?key=hunter2secret", 1, "ask-first"),
    ] {
        let run = ask(what);
        assert_eq!(run.code, code, "{what}: {}{}", run.stdout, run.stderr);
        let all = format!("{}{}", run.stdout, run.stderr).to_lowercase();
        assert!(all.contains(says) && !all.contains("safe") && !all.contains(SECRET), "{what}: {all}");
    }
    assert!(ask("mail").stdout.contains("\"max\": 30"));
    house.write("server.json", r#"{"name": "x/y", "packages": [{"registryType": "npm", "identifier": "@example/files", "version": "1.0.0"},
        {"registryType": "oci", "identifier": "example/image"}], "remotes": [{"type": "streamable-http", "url": "https://x.example.com/hunter2secret"}]}"#);
    let run = house.run(&["precheck", "server.json", "--json", "--index", "i.glx"]);
    let verdicts: Vec<Value> =
        told(&run)["servers"].as_array().unwrap().iter().map(|own| own["verdict"].clone()).collect();
    assert_eq!(verdicts, ["proceed", "ask-first", "ask-first"]);
    assert!(run.code == 1 && !run.stdout.contains(SECRET));
    // A version inside the identifier is one that is meant, too.
    for (package, says) in [
        (r#""identifier": "@example/files@9.9.9""#, "the index has read version 1.0.0, not 9.9.9"),
        (r#""identifier": "@example/files@9.9.9", "version": "1.0.0""#, "whether that is the one that is meant"),
        (r#""identifier": "@example/files@1.0.0", "version": "1.0.0""#, "proceed"),
    ] {
        house.write("server.json", &format!("{{\"packages\": [{{\"registryType\": \"npm\", {package}}}]}}"));
        assert!(ask("server.json").stdout.contains(says), "{package}: {}", ask("server.json").stdout);
    }
    house.write("server.json", "{");
    assert_eq!(ask("server.json").code, 2);
}

#[test]
fn what_is_fetched_or_started_otherwise_is_asked_about_first_and_no_address_is_shown() {
    let house = with_index();
    let ask = |package: &str| {
        house.write("server.json", &format!("{{\"packages\": [{{{package}}}]}}"));
        house.run(&["precheck", "server.json", "--index", "i.glx"])
    };
    let known = r#""registryType": "npm", "identifier": "@example/files", "version": "1.0.0""#;
    let run = ask(&format!(r#"{known}, "runtimeArguments": [{{"type": "named", "name": "-y"}}]"#));
    assert!(run.code == 0 && run.stdout.contains("proceed"), "{}", run.stdout);
    for more in [
        r#""registryBaseUrl": "https://hunter2secret.example.com""#,
        r#""runtimeArguments": [{"type": "named", "name": "--registry", "value": "https://hunter2secret"}]"#,
        r#""runtimeArguments": [{"type": "positional", "value": "--with=hunter2secret"}]"#,
        r#""environmentVariables": [{"name": "NODE_OPTIONS", "value": "--require /hunter2secret"}]"#,
        // What is filled in later may be anything.
        r#""runtimeArguments": [{"type": "positional", "valueHint": "hunter2secret"}]"#,
        r#""runtimeArguments": [{"type": "named", "name": "-y", "variables": {"a": {"default": "hunter2secret"}}}]"#,
        r#""runtimeArguments": [{"type": "named", "name": "-y", "default": "hunter2secret"}]"#,
        r#""runtimeArguments": ["-y"]"#,
        r#""runtime_arguments": [{"type": "positional", "value": "hunter2secret"}]"#,
        r#""runtimeHint": "./npx""#,
        r#""runtimeHint": "hunter2secret""#,
        r#""environmentVariables": [{"value": "hunter2secret"}]"#,
    ] {
        let run = ask(&format!("{known}, {more}"));
        let all = format!("{}{}", run.stdout, run.stderr);
        assert!(run.code == 1 && all.contains("ask-first") && !all.contains(SECRET), "{more}: {all}");
    }
    let run =
        ask(r#""registryType": "mcpb", "identifier": "https://ada:hunter2secret@example.com/x.mcpb?t=hunter2secret""#);
    assert!(run.code == 1 && !format!("{}{}", run.stdout, run.stderr).contains(SECRET), "{}", run.stdout);
}

#[test]
fn a_server_json_of_an_older_form_is_read() {
    let house = with_index();
    let ask = |text: &str| {
        house.write("server.json", text);
        house.run(&["precheck", "server.json", "--index", "i.glx"])
    };
    for text in [
        r#"{"packages": [{"registry_name": "npm", "name": "@example/files", "version": "1.0.0"}]}"#,
        r#"{"server": {"packages": [{"registry_type": "npm", "identifier": "@example/files", "version": "1.0.0"}]}}"#,
        r#"{"packages": [{"registry_name": "npm", "name": "@example/files", "version": "1.0.0", "runtime_hint": "npx"}]}"#,
    ] {
        let run = ask(text);
        assert!(run.code == 0 && run.stdout.contains("npm:@example/files: proceed"), "{text}: {}", run.stdout);
    }
    let bent = r#"{"packages": [{"registry_name": "npm", "name": "@example/files", "version": "1.0.0",
        "runtime_arguments": [{"name": "--registry", "value": "https://a.example.com"}]}]}"#;
    assert_eq!(ask(bent).code, 1);
}

#[test]
fn a_name_that_is_only_a_little_alike_is_not_told_and_none_is_offered_in_its_place() {
    let house = with_index();
    for (what, is_told) in [
        ("npm:@example/githubb", true),
        ("npm:@example/gitlab", false),
        ("npm:@sample/github", false),
        ("pypi:notez", false),
        ("pypi:githubb", false),
        ("mails", false),
    ] {
        for command in [
            &["precheck", what][..],
            &["catalogue", "show", what],
            &["catalogue", "export", "--out=site", "--server", what],
        ] {
            let run = house.run(&[command, &["--index", "i.glx"]].concat());
            let all = format!("{}{}", run.stdout, run.stderr);
            assert_eq!((run.code, all.contains("name like")), (1, is_told), "{what}: {all}");
            assert_eq!(all.contains("`npm:@example/github` 1.0.0"), is_told, "{what}: {all}");
            assert!(!all.contains("did you mean") && (!is_told || all.contains("another package")), "{all}");
        }
    }
}

#[test]
fn a_package_of_a_public_case_is_told_and_asked_about_first() {
    let house = with_index();
    let remote = |version: &str| package("npm", "mcp-remote", &[tool("get_it", "Read", &[])]).replace("1.0.0", version);
    house.write("facts.jsonl", &[facts(), remote("0.1.29")].join("\n"));
    house.run(&["catalogue", "index", "facts.jsonl", "--date", "2026-11-16", "--out", "i.glx"]);
    let ask = |what: &str| house.run(&["precheck", what, "--index", "i.glx"]);
    for (what, code, says) in [
        ("npm:mcp-remote@0.1.15", 1, "this version is one of them"),
        ("npm:mcp-remote@<0.2", 1, "cannot be told"),
        ("npm:mcp-remote@0.1.29", 0, "is not among them"),
        ("npm:mcp-remote", 0, "is not among them"),
        ("postmark-mcp", 1, "`postmark-mcp`): version 1.0.16 and later ones"),
        ("npm:postmark-mcp@1.0.18", 1, "this version is one of them"),
    ] {
        let run = ask(what);
        assert!(run.code == code && run.stdout.contains(says), "{what}: {} {}", run.code, run.stdout);
    }
    house.write(
        "server.json",
        r#"{"packages": [{"registryType": "npm", "identifier": "mcp-remote", "version": "0.1.0"}]}"#,
    );
    assert_eq!(ask("server.json").code, 1);
    let client = |version: &str| {
        format!(
            r#"{{"mcpServers": {{"r": {{"command": "npx", "args": ["-y", "mcp-remote@{version}", "https://a"]}}}}}}"#
        )
    };
    house.write("old.json", &client("0.1.15"));
    house.write("new.json", &client("0.1.29"));
    let run = house.run(&["stack", "old.json", "--json", "--fail-on", "critical", "--index", "i.glx"]);
    let own = told(&run)["servers"][0].clone();
    assert!(run.code == 1 && own["verdict"] == "ask-first", "{own}");
    assert!(own["reasons"].to_string().contains("mcp-remote-cve-2025-6514"), "{own}");
    assert_eq!(house.run(&["stack", "new.json", "--fail-on", "critical", "--index", "i.glx"]).code, 0);
    let found = agents::results(&house, &["old.json"]);
    assert!(found.iter().any(|own| own["ruleId"] == "public-case"), "{found:?}");
    // The reports say what `--fail-on` goes by, and list the case.
    assert_eq!(told(&run)["stack"]["level"], "Critical");
    let case = "mcp-remote-cve-2025-6514";
    for (format, says) in
        [("text", "  public case (r): it is the package"), ("markdown", "- <code>r</code>: it is the package")]
    {
        let of = |file: &str| house.run(&["stack", file, "--format", format, "--index", "i.glx"]).stdout;
        let (old, new) = (of("old.json"), of("new.json"));
        assert!(old.contains("The stack is Critical") && old.contains(says) && old.contains(case), "{old}");
        assert!(new.contains("The stack is Low") && !new.contains(case), "{new}");
    }
    // Which version lies there, nobody knows.
    house.write(
        "there.json",
        r#"{"mcpServers": {"r": {"command": "node", "args": ["/opt/node_modules/mcp-remote/dist/proxy.js"]}}}"#,
    );
    let run = house.run(&["stack", "there.json", "--json", "--index", "i.glx"]);
    let reasons = told(&run)["servers"][0]["reasons"].to_string();
    assert!(reasons.contains(case) && reasons.contains("is among them cannot be told"), "{reasons}");
    // One that is in no index is known by its case.
    house.write("gone.json", r#"{"mcpServers": {"p": {"command": "npx", "args": ["postmark-mcp"]}}}"#);
    let run = house.run(&["stack", "gone.json", "--json", "--index", "i.glx"]);
    assert!(told(&run)["servers"][0]["reasons"].to_string().contains("postmark-mcp"), "{}", run.stdout);
}

#[test]
fn servers_that_leak_together_reach_fail_on_and_a_folder_that_is_not_there_is_an_error() {
    let house = with_index();
    let mild = package("pypi", "inbox", &[tool("read_inbox", "Read", &["reads_private", "reads_untrusted"])]);
    house.write("facts.jsonl", &[facts(), mild].join("\n"));
    house.run(&["catalogue", "index", "facts.jsonl", "--date", "2026-11-16", "--out", "i.glx"]);
    let entry = |name: &str| format!(r#""{name}": {{"command": "uvx", "args": ["{name}"]}}"#);
    house.write("both.json", &format!("{{\"mcpServers\": {{{}, {}}}}}", entry("inbox"), entry("mail")));
    house.write("one.json", &format!("{{\"mcpServers\": {{{}}}}}", entry("inbox")));
    let run = house.run(&["stack", "both.json", "--fail-on", "critical", "--index", "i.glx"]);
    assert!(run.code == 1 && run.stderr.contains("reaches Critical by what it leaks"), "{}", run.stderr);
    assert_eq!(house.run(&["stack", "one.json", "--fail-on", "medium", "--index", "i.glx"]).code, 0);
    for option in ["--project", "--home"] {
        let run = house.run(&["stack", option, "nowhere", "--index", "i.glx"]);
        assert!(run.code == 2 && run.stderr.contains("there is no folder `nowhere`"), "{}", run.stderr);
    }
}

#[test]
fn a_version_that_was_not_read_is_told_by_show_and_export() {
    let house = with_index();
    let says = "the index has read version 1.0.0, not 9.9.9";
    let run = house.run(&["catalogue", "show", "npm:@example/files@9.9.9", "--json", "--index", "i.glx"]);
    assert!(run.code == 0 && told(&run)["unread"] == says && run.stderr.contains(says), "{}", run.stderr);
    let run = house.run(&["catalogue", "export", "--out", "s", "--server", "@example/files@9.9.9", "--index", "i.glx"]);
    assert!(run.code == 0 && run.stderr.contains(says), "{}", run.stderr);
    let run = house.run(&["catalogue", "show", "npm:@example/files@1.0.0", "--index", "i.glx"]);
    assert!(!format!("{}{}", run.stdout, run.stderr).contains("has read"), "{}", run.stderr);
}

#[test]
fn what_is_only_likely_is_told_as_likely() {
    let house = with_index();
    let sure = |sure: f64, name: &str| tool(name, "Execute", &[]).to_string().replace("0.9", &sure.to_string());
    let tools: Vec<Value> = [sure(0.55, "sync_it"), sure(0.7, "run_it"), sure(0.39, "odd_it")]
        .iter()
        .map(|own| serde_json::from_str(own).unwrap())
        .collect();
    house.write("facts.jsonl", &package("pypi", "odd", &tools));
    house.run(&["catalogue", "index", "facts.jsonl", "--out", "i.glx"]);
    let show = |name: &str| house.run(&["catalogue", "show", "odd", name, "--index", "i.glx"]).stdout;
    assert!(show("sync_it").contains("High risk, likely Execute, confidence 0.55"), "{}", show("sync_it"));
    assert!(show("sync_it").contains("This is likely, not certain."), "{}", show("sync_it"));
    assert!(!show("run_it").contains("likely"), "{}", show("run_it"));
    let list = house.run(&["catalogue", "show", "odd", "--index", "i.glx"]).stdout;
    assert!(list.contains("likely Execute  0.55  sync_it"), "{list}");
    assert!(house.run(&["catalogue", "search", "sync", "--index", "i.glx"]).stdout.contains("likely Execute"));
    assert_eq!(house.run(&["catalogue", "export", "--out", "site", "--index", "i.glx"]).code, 0);
    let page = house.read("site/servers/pypi/odd/tools/sync_it.md");
    assert!(
        page.contains("It is likely an Execute tool (confidence 0.55)") && page.contains("likely, not certain"),
        "{page}"
    );
    assert!(!house.read("site/servers/pypi/odd/tools/run_it.md").contains("likely"));
    assert!(house.read("site/servers/pypi/odd/index.md").contains("likely Execute"));
    // Where anything else is likelier, it is a guess.
    for text in [show("odd_it"), house.read("site/servers/pypi/odd/tools/odd_it.md")] {
        assert!(text.contains("maybe Execute") && text.contains("This is a guess"), "{text}");
        assert!(!text.contains("likely Execute") && !text.contains("likely an Execute"), "{text}");
    }
    assert!(list.contains("maybe Execute") && list.contains("0.39  odd_it"), "{list}");
}

#[test]
fn one_of_a_kind_is_told_as_one() {
    let house = house();
    house.write("facts.jsonl", &package("pypi", "odd", &[tool("run_it", "Execute", &[])]));
    let run = house.run(&["catalogue", "index", "facts.jsonl", "--out", "i.glx"]);
    assert!(run.stderr.contains("1 server, 1 tool, "), "{}", run.stderr);
    assert_eq!(house.run(&["catalogue", "export", "--out", "site", "--index", "i.glx"]).code, 0);
    for page in ["llms.txt", "index.md", "risk/high.md", "servers/pypi/odd/index.md"] {
        let text = house.read(&format!("site/{page}"));
        assert!(text.contains("1 tool") && !text.contains("1 tools") && !text.contains("1 servers"), "{page}: {text}");
        assert!(!text.contains(".:"), "{page}: {text}");
    }
}

#[test]
fn a_server_of_many_tools_is_told_in_parts_the_riskiest_first() {
    let house = house();
    let tools: Vec<Value> = (0..900)
        .map(|at| tool(&format!("do_item_{at:03}"), if at == 899 { "Destructive" } else { "Execute" }, &[]))
        .collect();
    house.write("facts.jsonl", &package("pypi", "crowd", &tools));
    house.run(&["catalogue", "index", "facts.jsonl", "--out", "i.glx"]);
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let answers = converse(
        &house,
        &[
            called(1, "check_mcp_server", &json!({"server": "pypi:crowd"})),
            called(2, "check_mcp_server", &json!({"server": "pypi:crowd", "skip": 25, "limit": 100})),
            called(3, "check_mcp_server", &json!({"server": "pypi:crowd", "skip": 890})),
            called(4, "get_change_events", &json!({"cursor": 7})),
        ],
    );
    assert!(answers.iter().all(|answer| answer.to_string().len() < 20_000), "{}", answers[0].to_string().len());
    let (first, second, last) = (answered(&answers[0]), answered(&answers[1]), answered(&answers[2]));
    assert_eq!((&first["tool_count"], &first["next_skip"]), (&json!(900), &json!(25)));
    assert_eq!(first["tools"][0]["name"], "do_item_899");
    assert!(first["policy"].as_str().unwrap().contains("catalogue show pypi:crowd --policy recommended"), "{first}");
    assert_eq!((second["tools"].as_array().unwrap().len(), &second["next_skip"]), (100, &json!(125)));
    assert!(last.get("next_skip").is_none() && last["tools"].as_array().unwrap().len() == 10, "{last}");
    // These changes are others than those that the cursor is of.
    assert!(answers[3]["result"]["isError"] == true && answers[3].to_string().contains("begin again with 0"));
}

fn stack(house: &House, more: &[&str]) -> Run {
    ["home", "project"].iter().for_each(|folder| std::fs::create_dir_all(house.path(folder)).unwrap());
    let mut args = vec!["stack", "--home", "home", "--project", "project", "--index", "i.glx"];
    args.extend(more);
    house.run(&args)
}

#[test]
fn the_stack_of_fifteen_clients_is_told_by_what_the_index_knows() {
    let house = with_index();
    furnish(&house);
    let run = stack(&house, &["--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let all = told(&run);
    let servers = all["servers"].as_array().unwrap();
    let mut clients: Vec<&str> =
        servers.iter().flat_map(|own| own["clients"].as_array().unwrap()).map(|id| id.as_str().unwrap()).collect();
    clients.sort_unstable();
    clients.dedup();
    assert!(clients.len() >= 14, "{clients:?}");
    let github = servers.iter().find(|own| own["name"] == "github").unwrap();
    assert_eq!(github["package"], "@example/github");
    assert!(github["clients"].as_array().unwrap().len() >= 3, "{github}");
    assert_eq!((&github["level"], &github["verdict"]), (&json!("Critical"), &json!("connect-with-rule")));
    assert!(github["policy"].as_str().unwrap().contains("\"hide\""));
    let maps = servers.iter().find(|own| own["name"] == "maps").unwrap();
    assert_eq!(
        (&maps["what"], &maps["verdict"], &maps["package"]),
        (&json!("an address"), &json!("ask-first"), &Value::Null)
    );
    // No single agent has both `github` and `mail`.
    assert_eq!(all["stack"]["combinations"], json!([]));
    assert_eq!(all["stack"]["level"], "Critical");
}

#[test]
fn no_secret_path_address_variable_or_header_is_in_any_output() {
    let house = with_index();
    furnish(&house);
    let marked = r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "--token", "hunter2secret-1", "@example/files", "/srv/hunter2secret-2"],
        "env": {"HUNTER2NAME": "hunter2secret-3"}, "cwd": "/hunter2secret-4"},
        "b": {"url": "https://hunter2secret-5.example.com/hunter2secret-6?k=hunter2secret-7", "headers": {"X-Hunter2name": "hunter2secret-8"}},
        "c": {"command": "/opt/hunter2secret-9/mcp-run", "args": ["hunter2secret-10"]},
        "d": {"command": "uvx", "args": ["hunter2secret-11"]},
        "e": {"command": "docker", "args": ["run", "-e", "K=hunter2secret-12", "hunter2secret-13/mcp"]}}}"#;
    put(&house, "marked.json", marked.as_bytes());
    for format in ["text", "json", "markdown", "sarif"] {
        for run in [
            stack(&house, &["--format", format]),
            house.run(&["stack", "marked.json", "--format", format, "--index", "i.glx", "--policies", "policies"]),
        ] {
            let all = format!("{}{}", run.stdout, run.stderr);
            for forbidden in [
                "hunter2",
                "HUNTER2",
                "/srv",
                "/opt",
                "example.com",
                "GITHUB_TOKEN",
                "PGPASSWORD",
                "Bearer",
                "X-Api-Key",
                "/home/",
                "/tmp/",
            ] {
                assert!(!all.contains(forbidden), "{format}: {forbidden} in {all}");
            }
            assert!(!run.stdout.is_empty() && run.code == 0, "{all}");
        }
    }
    let run = house.run(&["stack", "marked.json", "--json", "--index", "i.glx"]);
    assert_eq!(told(&run)["servers"].as_array().unwrap().len(), 5);
}

#[test]
fn a_file_that_cannot_be_read_is_told_by_its_client_and_not_by_where_it_is() {
    let house = with_index();
    put(&house, "home/.cursor/mcp.json", b"{\"mcpServers\": hunter2secret");
    put(&house, "project/.mcp.json", b"[hunter2secret]");
    for format in ["text", "json", "markdown", "sarif"] {
        let run = stack(&house, &["--format", format]);
        let all = format!("{}{}", run.stdout, run.stderr);
        assert!(run.code == 1 && run.stderr.contains("cursor (`~/.cursor/mcp.json`): "), "{all}");
        assert!(run.stderr.contains("claude-code-project (`.mcp.json`): "), "{all}");
        // Whoever keeps the report alone is told as well.
        assert!(run.stdout.contains("/.cursor/mcp.json") && run.stdout.contains("claude-code-project"), "{all}");
        for forbidden in ["hunter2", "/tmp/", "/home/", &house.path("").display().to_string()] {
            assert!(!all.contains(forbidden), "{format}: {forbidden} in {all}");
        }
    }
}

#[test]
fn a_secret_in_an_address_that_was_given_is_in_no_output() {
    let house = with_index();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap();
    });
    let foreign = format!("http://{host}/i?token=hunter2secret");
    let run = house.run(&["catalogue", "update", "--from", &foreign, "--data", "d"]);
    serve.join().unwrap();
    assert!(run.code == 1 && run.stderr.contains(&host) && !run.stderr.contains("hunter2"), "{}", run.stderr);
    for args in [
        &["catalogue", "update", "--from", "http://127.0.0.1:1/x?token=hunter2secret", "--data", "d"][..],
        &["catalogue", "update", "--from", "https://ada:hunter2secret@a.example.com/x", "--data", "d"],
        &["catalogue", "update", "--from", "https://a.example.com/x#hunter2secret", "--data", "d"],
        &["precheck", "a.example.com/mcp?key=hunter2secret", "--index", "i.glx"],
        &["precheck", "https://a.example.com/mcp?key=hunter2secret", "--index", "i.glx"],
        &["catalogue", "show", "https://a.example.com/?key=hunter2secret", "--index", "i.glx"],
        &[
            "catalogue",
            "export",
            "--out",
            "o",
            "--server",
            "https://a.example.com/?k=hunter2secret",
            "--index",
            "i.glx",
        ],
    ] {
        let run = house.run(args);
        assert!(
            run.code != 0 && !format!("{}{}", run.stdout, run.stderr).contains("hunter2"),
            "{args:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn a_file_whose_form_is_not_known_does_not_pass() {
    let house = with_index();
    let github = r#"{"g": {"command": "npx", "args": ["-y", "@example/github"]}}"#;
    for (file, text) in [
        ("m.conf", format!("{{\"mcpServers\": {github}}}")),
        ("typo.json", format!("{{\"mcpServer\": {github}}}")),
        ("kind.json", "{\"mcpServers\": \"g\"}".to_owned()),
        ("other.json", "{\"a\": 1}".to_owned()),
        ("bare", "{\"a\": 1}".to_owned()),
    ] {
        house.write(file, &text);
        let run = house.run(&["stack", file, "--fail-on", "critical", "--index", "i.glx"]);
        assert!(
            run.code == 1 && run.stderr.contains("name it with `--client`"),
            "{file}: {}{}",
            run.stdout,
            run.stderr
        );
    }
    assert_eq!(house.run(&["stack", "m.conf", "--client", "open-webui", "--index", "i.glx"]).code, 2);
    let run = house.run(&["stack", "m.conf", "--client", "cursor", "--json", "--index", "i.glx"]);
    assert_eq!((run.code, &told(&run)["stack"]["level"]), (0, &json!("Critical")), "{}", run.stderr);
    for text in ["{}", "{\"mcpServers\": {}}"] {
        house.write("none.json", text);
        assert_eq!(house.run(&["stack", "none.json", "--fail-on", "low", "--index", "i.glx"]).code, 0, "{text}");
    }
    // One form does not hide another, nor what stands below a project.
    let notes = r#"{"n": {"command": "uvx", "args": ["notes"]}}"#;
    house.write("two.json", &format!("{{\"servers\": {github}, \"mcpServers\": {notes}}}"));
    let projects = format!("{{\"/a\": {{\"mcpServers\": {github}}}, \"/b\": {{\"mcpServers\": {{}}}}}}");
    house.write(".claude.json", &format!("{{\"mcpServers\": {notes}, \"projects\": {projects}}}"));
    house.write("only.json", &format!("{{\"numStartups\": 1, \"projects\": {projects}}}"));
    for file in ["two.json", ".claude.json", "only.json"] {
        let run = house.run(&["stack", file, "--fail-on", "critical", "--index", "i.glx"]);
        assert_eq!(run.code, 1, "{file}: {}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains("@example/github") && !run.stdout.contains("/a"), "{file}: {}", run.stdout);
    }
    let many: Vec<String> = (0..1_100).map(|at| format!("\"s{at}\": {{\"url\": \"https://a.example.com\"}}")).collect();
    house.write("many.json", &format!("{{\"mcpServers\": {{{}}}}}", many.join(",")));
    let run = house.run(&["stack", "many.json", "--index", "i.glx"]);
    assert!(run.code == 1 && run.stderr.contains("more than 1000 servers"), "{}", run.stderr);
}

#[test]
fn what_is_only_guessed_or_of_another_version_is_never_told_as_known() {
    let house = with_index();
    house.write("facts.jsonl", &[facts(), package("pypi", "mcp-quiet", &[tool("get_it", "Read", &[])])].join("\n"));
    house.run(&["catalogue", "index", "facts.jsonl", "--date", "2026-11-16", "--out", "i.glx"]);
    house.write(
        "c.json",
        r#"{"mcpServers": {
        "known": {"command": "uvx", "args": ["mcp-quiet", "--from", "mail"]},
        "module": {"command": "python", "args": ["-m", "mcp_quiet"]}, "program": {"command": "/usr/bin/mcp-quiet"},
        "beside": {"command": "uv", "args": ["run", "--with", "mcp-quiet", "x.py"]},
        "later": {"command": "uvx", "args": ["mcp-quiet==9"]}}}"#,
    );
    let run = house.run(&["stack", "c.json", "--json", "--index", "i.glx"]);
    let all = told(&run);
    let of = |name: &str| {
        let own = all["servers"].as_array().unwrap().iter().find(|own| own["name"] == name).unwrap();
        (own["package"].clone(), own["is_guess"].clone(), own["level"].clone(), own["verdict"].clone())
    };
    let expected = |is_guess: bool, level: &str, verdict: &str| {
        (json!("mcp-quiet"), json!(is_guess), json!(level), json!(verdict))
    };
    assert_eq!(of("known"), expected(false, "Low", "proceed"));
    assert_eq!(of("later"), expected(false, "Low", "connect-with-rule"));
    for name in ["module", "program", "beside"] {
        assert_eq!(of(name), expected(true, "High", "ask-first"), "{name}");
    }
    assert_eq!(all["stack"]["level"], "High");
    assert_eq!(house.run(&["stack", "c.json", "--fail-on", "high", "--index", "i.glx"]).code, 1);
    let run = house.run(&["stack", "c.json", "--index", "i.glx"]);
    assert_eq!(run.stdout.matches("perhaps mcp-quiet").count(), 3, "{}", run.stdout);
    let run = house.run(&["stack", "c.json", "--format", "sarif", "--index", "i.glx"]);
    assert_eq!(told(&run)["runs"][0]["results"].as_array().unwrap().len(), 4);
}

#[test]
fn a_name_that_two_sources_have_is_the_riskier_one_and_said_so() {
    let house = with_index();
    let both = [
        package("pypi", "twins", &[tool("get_it", "Read", &[])]),
        package("npm", "twins", &[tool("drop_it", "Destructive", &[])]),
    ];
    house.write("facts.jsonl", &[facts(), both.join("\n")].join("\n"));
    house.run(&["catalogue", "index", "facts.jsonl", "--date", "2026-11-16", "--out", "i.glx"]);
    let says = "there is `pypi:twins` as well";
    let run = house.run(&["precheck", "twins", "--index", "i.glx"]);
    assert!(run.stdout.starts_with("npm:twins: connect-with-rule") && run.stdout.contains(says), "{}", run.stdout);
    let run = house.run(&["precheck", "pypi:twins", "--index", "i.glx"]);
    assert!(run.stdout.starts_with("pypi:twins: proceed") && !run.stdout.contains("as well"), "{}", run.stdout);
    let run = house.run(&["catalogue", "show", "twins", "--index", "i.glx"]);
    assert!(run.stdout.contains("drop_it") && run.stderr.contains(says), "{}{}", run.stdout, run.stderr);
    let run = house.run(&["catalogue", "show", "twins", "--json", "--index", "i.glx"]);
    assert!(told(&run)["doubt"].as_str().unwrap().contains(says));
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let answers = converse(
        &house,
        &[
            called(1, "check_mcp_server", &json!({"server": "twins"})),
            called(2, "check_mcp_stack", &json!({"servers": ["twins"]})),
        ],
    );
    let (server, stack) = (&answered(&answers[0]), &answered(&answers[1]));
    assert!(server["source"] == "npm" && server["reasons"].to_string().contains(says), "{server}");
    assert!(
        stack["stack"]["level"] == "Critical" && stack["servers"][0]["reasons"].to_string().contains(says),
        "{stack}"
    );
}

#[test]
fn policies_are_written_beside_what_is_there_and_never_over_it() {
    let house = with_index();
    house.write("c.json", r#"{"mcpServers": {"a.b": {"command": "npx", "args": ["-y", "@example/github"]}, "a_b": {"command": "uvx", "args": ["mail"]}}}"#);
    let write = || house.run(&["stack", "c.json", "--policies", "p", "--index", "i.glx"]);
    let run = write();
    assert!(
        run.stderr.contains("`a.b`: `p/a_b.json`") && run.stderr.contains("`a_b`: `p/a_b-2.json`"),
        "{}",
        run.stderr
    );
    assert!(house.read("p/a_b.json").contains("delete_repository") && house.read("p/a_b-2.json").contains("send_mail"));
    house.write("p/a_b.json", "// mine\n");
    let run = write();
    assert_eq!((run.code, house.read("p/a_b.json").as_str()), (0, "// mine\n"));
    assert!(house.read("p/a_b-3.json").contains("delete_repository"), "{}", run.stderr);
    // What says the same already stays alone.
    write();
    assert!(!house.path("p/a_b-4.json").exists());
}

#[test]
fn two_updates_at_once_lose_no_change() {
    let house = with_index();
    newer(&house, "new.glx");
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let told: u64 = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|at| {
                let (house, from) = (&house, if at % 2 == 0 { "new.glx" } else { "i.glx" });
                scope.spawn(move || {
                    told(&house.run(&["catalogue", "update", "--from", from, "--data", "d", "--json", "--allow-older"]))
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()["changes"].as_u64().unwrap()).sum()
    });
    let lines = |house: &House| -> Vec<u64> {
        let kept = house.read("d/catalogue-changes.jsonl");
        let cursor = |line: &str| serde_json::from_str::<Value>(line).unwrap()["cursor"].as_u64().unwrap();
        kept.lines().map(cursor).collect()
    };
    assert_eq!(lines(&house), (1..=told).collect::<Vec<_>>());
    // A last line that is broken does not begin the numbers anew.
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let before = lines(&house).len() as u64;
    let kept = house.read("d/catalogue-changes.jsonl");
    house.write("d/catalogue-changes.jsonl", &format!("{kept}{{}}\n"));
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let last = house.read("d/catalogue-changes.jsonl").lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["cursor"], json!(before + 3));
}

#[test]
fn changes_that_cannot_be_read_or_are_of_another_index_are_told_as_such() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    newer(&house, "new.glx");
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let program = env!("CARGO_BIN_EXE_gatelodge");
    house.write("lines", &format!("{}\n", called(1, "get_change_events", &json!({}))));
    let ask = |more: &str| {
        let run = house.paste(&format!("'{program}' catalogue mcp --data d {more} < lines"));
        serde_json::from_str::<Value>(&run.stdout).unwrap()["result"].clone()
    };
    assert_eq!(answered(&json!({"result": ask("")}))["events"].as_array().unwrap().len(), 3);
    let named = ask("--index i.glx");
    assert!(named["isError"] == true && named.to_string().contains("no changes are kept of this index"), "{named}");
    house.run(&["catalogue", "export", "--out", "named", "--index", "new.glx", "--data", "d"]);
    assert!(house.read("named/servers/npm/@example/files/index.md").contains("None is known"));
    // A folder in the log's place cannot be read.
    std::fs::remove_file(house.path("d/catalogue-changes.jsonl")).unwrap();
    assert_eq!(answered(&json!({"result": ask("")}))["events"], json!([]));
    std::fs::create_dir(house.path("d/catalogue-changes.jsonl")).unwrap();
    assert!(ask("")["isError"] == true, "{}", ask(""));
    let run = house.run(&["catalogue", "export", "--out", "site", "--data", "d"]);
    assert!(run.code == 5 && run.stderr.contains("cannot read the changes"), "{}", run.stderr);
    assert!(!house.path("site").exists());
}

#[test]
fn search_gives_programs_whole_names() {
    let house = with_index();
    let long = "x".repeat(200);
    house.write("facts.jsonl", &package("pypi", "long", &[tool(&long, "Read", &[])]));
    house.run(&["catalogue", "index", "facts.jsonl", "--date", "2026-11-16", "--out", "i.glx"]);
    let found = told(&house.run(&["catalogue", "search", "xxx", "--json", "--index", "i.glx"]));
    assert_eq!(found["tools"][0]["name"], json!(long));
}

#[test]
fn fail_on_takes_any_case_of_letters_and_counts_what_is_not_known_as_high() {
    let house = with_index();
    house.write("read.json", r#"{"mcpServers": {"n": {"command": "uvx", "args": ["notes"]}}}"#);
    house.write("unknown.json", r#"{"servers": {"n": {"url": "https://a.example.com"}}}"#);
    house.write("worst.json", r#"{"mcp": {"g": {"type": "local", "command": ["npx", "-y", "@example/github"]}}}"#);
    for (file, level, code) in [
        ("read.json", "low", 1),
        ("read.json", "Medium", 0),
        ("unknown.json", "HIGH", 1),
        ("unknown.json", "critical", 0),
        ("worst.json", "Critical", 1),
        ("worst.json", "cRiTiCaL", 1),
    ] {
        let run = house.run(&["stack", file, "--fail-on", level, "--index", "i.glx"]);
        assert_eq!(run.code, code, "{file} {level}: {}{}", run.stdout, run.stderr);
    }
    assert_eq!(house.run(&["stack", "read.json", "--fail-on", "grave", "--index", "i.glx"]).code, 2);
    house.write("none.json", "{}");
    let run = house.run(&["stack", "none.json", "--fail-on", "low", "--index", "i.glx"]);
    assert!(run.code == 0 && run.stdout.contains("No server was found"), "{}", run.stdout);
    house.write("broken.json", "{\"mcpServers\": hunter2secret");
    let run = house.run(&["stack", "broken.json", "--index", "i.glx"]);
    assert!(run.code == 1 && !run.stderr.contains(SECRET), "{}", run.stderr);
}

#[test]
fn reports_for_pull_requests_and_code_scanning_are_well_formed() {
    let house = with_index();
    house.write("c.json", r#"{"mcpServers": {"g<b>|x[1](y)\\": {"command": "npx", "args": ["-y", "@example/github"]}, "m": {"command": "uvx", "args": ["mail"]}, "u": {"url": "https://a"}}}"#);
    let run = house.run(&["stack", "c.json", "--format", "sarif", "--index", "i.glx"]);
    let sarif = told(&run);
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let rules: Vec<&str> = results.iter().map(|own| own["ruleId"].as_str().unwrap()).collect();
    assert_eq!(rules, ["destructive-tool", "unknown-server", "lethal-trifecta"]);
    assert!(results[0]["message"]["text"].as_str().unwrap().contains(r"`g<b>|x\[1\](y)\\`"), "{}", results[0]);
    assert!(results.iter().all(|own| own["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "c.json"));
    let run = house.run(&["stack", "c.json", "--format", "markdown", "--index", "i.glx"]);
    assert!(run.stdout.contains("g&#60;b&#62;&#124;x") && !run.stdout.contains("<b>"), "{}", run.stdout);
    assert!(run.stdout.contains("Together they leak") && run.stdout.contains("<details>"));
    let run = house.run(&["stack", "c.json", "--policies", "p", "--index", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(house.run(&["policy", "check", "p/m.json"]).code, 0);
}

#[test]
fn a_foreign_version_is_no_markup_in_a_report() {
    let house = with_index();
    house.write("facts.jsonl", &facts().replace("1.0.0", "1|<b>[x](y)"));
    house.run(&["catalogue", "index", "facts.jsonl", "--date", "2026-11-16", "--out", "i.glx"]);
    house.write("c.json", r#"{"mcpServers": {"m": {"command": "uvx", "args": ["mail==9.1"]}}}"#);
    let run = house.run(&["stack", "c.json", "--format", "markdown", "--index", "i.glx"]);
    let row = run.stdout.lines().find(|line| line.contains("started as")).unwrap_or_else(|| panic!("{}", run.stdout));
    assert!(row.contains("1&#124;&#60;b&#62;") && row.matches('|').count() == 7 && !row.contains("[x](y)"), "{row}");
    let run = house.run(&["stack", "c.json", "--format", "sarif", "--index", "i.glx"]);
    let text = told(&run)["runs"][0]["results"][0]["message"]["text"].clone();
    assert!(text.as_str().unwrap().contains(r"1|<b>\[x\](y)"), "{text}");
}

/// Sends lines to `catalogue mcp`, and gives what it answers.
fn converse(house: &House, lines: &[Value]) -> Vec<Value> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    house.write("lines", &text);
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = house.paste(&format!("'{program}' catalogue mcp --data d < lines"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a tool tells: JSON, in its one text.
fn answered(answer: &Value) -> Value {
    let result = &answer["result"];
    assert!(result.get("structuredContent").is_none() && result["content"].as_array().unwrap().len() == 1, "{answer}");
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

fn called(id: u64, name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

#[test]
fn the_catalogue_answers_agents_of_both_eras() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    newer(&house, "new.glx");
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}});
    let answers = converse(
        &house,
        &[
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
            called(3, "check_mcp_server", &json!({"server": "npm:@example/github"})),
            called(4, "check_mcp_server", &json!({"server": "nobody-knows"})),
            called(5, "search_registry", &json!({"query": "mail", "level": "medium"})),
            called(6, "check_tool", &json!({"server": "mail", "tool": "send_mail"})),
            called(7, "check_mcp_stack", &json!({"servers": ["@example/github", "mail", "nobody-knows"]})),
            called(8, "get_change_events", &json!({"cursor": 1, "limit": 1})),
            called(9, "search_registry", &json!({"qeury": "x"})),
            called(10, "drop_all", &json!({})),
            json!({"jsonrpc": "2.0", "id": 11, "method": "tools/list", "params": {"_meta": meta}}),
            json!({"jsonrpc": "2.0", "id": 12, "method": "server/discover", "params": {"_meta": meta}}),
            json!({"jsonrpc": "2.0", "id": 13, "method": "resources/subscribe", "params": {"uri": "x"}}),
        ],
    );
    let of = |id: u64| answers.iter().find(|own| own["id"] == id).unwrap_or_else(|| panic!("no answer to {id}"));
    assert_eq!(answers.len(), 13);
    assert_eq!(of(1)["result"]["protocolVersion"], "2025-06-18");
    let names: Vec<&str> =
        of(2)["result"]["tools"].as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["check_mcp_server", "search_registry", "check_tool", "check_mcp_stack", "get_change_events"]);
    let told = |id: u64| answered(of(id));
    assert_eq!((&told(3)["verdict"], &told(3)["tools"][0]["level"]), (&json!("connect-with-rule"), &json!("Critical")));
    assert!(told(3)["policy"].as_str().unwrap().contains("\"hide\""));
    assert_eq!((&told(4)["verdict"], &told(4)["is_known"]), (&json!("ask-first"), &json!(false)));
    assert_eq!(told(5)["tools"][0]["name"], "send_mail");
    assert_eq!(told(6)["recommended"]["tools"]["send_mail"]["limits"][0]["max"], 30);
    assert_eq!(
        (&told(7)["stack"]["combination_count"], &told(7)["stack"]["unknown"]),
        (&json!(1), &json!(["nobody-knows"]))
    );
    assert_eq!(
        (&told(8)["events"][0]["cursor"], &told(8)["cursor"], &told(8)["has_more"]),
        (&json!(2), &json!(2), &json!(true))
    );
    assert_eq!(of(9)["result"]["isError"], true);
    assert_eq!(of(10)["error"]["code"], -32602);
    assert_eq!(of(11)["result"]["resultType"], "complete");
    assert!(of(12)["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(of(13)["error"]["code"], -32601);
    assert!(!format!("{answers:?}").to_lowercase().contains("safe"));
    let run = house.run(&["catalogue", "export", "--out", "site", "--data", "d"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let page = house.read("site/servers/npm/@example/files/index.md");
    assert!(page.contains("2026-11-17: `list_files` can do more harm than before"), "{page}");
}

#[test]
fn agents_are_told_that_another_version_is_meant_than_was_read() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let answers = converse(
        &house,
        &[
            called(1, "check_mcp_server", &json!({"server": "npm:@example/files@9.9.9"})),
            called(2, "check_mcp_stack", &json!({"servers": ["npm:@example/files@9.9.9", "notes>=1.0"]})),
            called(3, "check_mcp_server", &json!({"server": "npm:@example/files@1.0.0"})),
        ],
    );
    let of = |at: usize| answered(&answers[at]);
    let other = "the index has read version 1.0.0, not 9.9.9";
    for own in [&of(0), &of(1)["servers"][0]] {
        assert!(own["verdict"] == "connect-with-rule" && own["reasons"].to_string().contains(other), "{own}");
    }
    let unsure = &of(1)["servers"][1];
    assert!(unsure["verdict"] == "connect-with-rule", "{unsure}");
    assert!(unsure["reasons"].to_string().contains("whether that is the one that is meant"), "{unsure}");
    assert_eq!(of(2)["verdict"], "proceed");
}

#[test]
fn a_line_that_is_no_message_is_told_and_the_next_is_answered() {
    let house = with_index();
    house.write(
        "lines",
        &format!("not json\n\n[1]\n{}\n{}\n", "x".repeat(5 << 20), called(1, "search_registry", &json!({}))),
    );
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = house.paste(&format!("'{program}' catalogue mcp --index i.glx < lines"));
    let answers: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<&Value> = answers.iter().map(|own| &own["error"]["code"]).collect();
    assert_eq!(codes[..3], [&json!(-32700), &json!(-32600), &json!(-32600)]);
    assert_eq!(answered(&answers[3])["tool_count"], 5);
}

#[test]
fn a_site_is_written_where_nothing_is() {
    let house = with_index();
    let run = house.run(&["catalogue", "export", "--out", "site", "--index", "i.glx"]);
    assert!(run.code == 0 && run.stderr.contains("files in"), "{}", run.stderr);
    assert!(house.read("site/servers/npm/@example/github/tools/delete_repository.html").contains("Critical"));
    assert!(house.read("site/llms.txt").contains("4 servers and 5 tools"));
    let run = house.run(&["catalogue", "export", "--out", "site", "--index", "i.glx"]);
    assert!(run.code == 2 && run.stderr.contains("not empty"), "{}", run.stderr);
    let run = house.run(&["catalogue", "export", "--out", "part", "--server", "mail", "--index", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!house.path("part/servers/npm").exists() && house.path("part/servers/pypi/mail/index.html").exists());
    assert_eq!(house.run(&["catalogue", "export", "--out", "none", "--server", "nobody", "--index", "i.glx"]).code, 1);
}

#[test]
fn a_package_that_was_read_in_part_is_not_in_the_index() {
    let house = house();
    house.write("facts.jsonl", &facts());
    let done = [
        json!({"package": "@example/github", "outcome": "tools", "skipped": {"not-text": 1}}),
        json!({"package": "notes", "outcome": "tools", "odd_names": 1}),
        json!({"package": "mail", "outcome": "tools", "tools": 1}),
    ];
    house.write("done.jsonl", &done.map(|line| format!("{line}\n")).concat());
    let run = house.run(&["catalogue", "index", "facts.jsonl", "--outcomes", "done.jsonl", "--out", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for (package, is_there) in
        [("npm:@example/github", false), ("pypi:notes", false), ("pypi:mail", true), ("npm:@example/files", true)]
    {
        let run = house.run(&["catalogue", "show", package, "--index", "i.glx"]);
        assert_eq!(run.code == 0, is_there, "{package}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_package_read_in_part_takes_none_of_its_name_elsewhere_with_it() {
    let house = house();
    let own = |source: &str| package(source, "mail", &[tool("get_mail", "Read", &[])]);
    house.write("facts.jsonl", &format!("{}\n{}", own("pypi"), own("npm")));
    let done = [
        json!({"source": "npm", "package": "mail", "outcome": "tools", "odd_names": 1}),
        json!({"source": "pypi", "package": "mail", "outcome": "tools", "tools": 1}),
    ];
    let show = |package: &str| house.run(&["catalogue", "show", package, "--index", "i.glx"]).code;
    for lines in [[&done[0], &done[1]], [&done[1], &done[0]]] {
        house.write("done.jsonl", &lines.map(|line| format!("{line}\n")).concat());
        let run = house.run(&["catalogue", "index", "facts.jsonl", "--outcomes", "done.jsonl", "--out", "i.glx"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!((show("pypi:mail"), show("npm:mail")), (0, 1));
    }
}
