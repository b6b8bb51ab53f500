//! `precheck`: what to do before one connects.

use serde_json::{Value, json};

use super::clients::SECRET;
use super::{agents, answered, called, converse, facts, package, told, tool, with_index};

#[test]
fn precheck_gives_advice_with_a_rule_and_never_says_safe() {
    let house = with_index();
    let ask = |what: &str| house.run(&["precheck", what, "--index", "i.glx"]);
    for (what, code, says) in [
        ("pypi:notes", 0, "pypi:notes: proceed"),
        ("notes", 0, "pypi:notes: connect-with-rule"),
        ("notes", 0, "a `notes` on npm is not indexed"),
        ("mail", 0, "connect-with-rule"),
        ("npm:@example/github@2.0.0", 0, "the indexed version is 1.0.0, not 2.0.0"),
        ("pypi:notes==1.0.0", 0, "pypi:notes: proceed"),
        ("notes@1.0.0", 0, "pypi:notes: connect-with-rule"),
        ("notes@1.0.0", 0, "a `notes` on npm is not indexed"),
        ("notes==9.0", 0, "pypi:notes: connect-with-rule"),
        ("@example/githubb", 1, "`npm:@example/github` 1.0.0 has a similar name"),
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
        (r#""identifier": "@example/files@9.9.9""#, "the indexed version is 1.0.0, not 9.9.9"),
        (r#""identifier": "@example/files@9.9.9", "version": "1.0.0""#, "the version you mean is not known"),
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
        for command in [&["precheck", what][..], &["catalogue", "show", what]] {
            let run = house.run(&[command, &["--index", "i.glx"]].concat());
            let all = format!("{}{}", run.stdout, run.stderr);
            assert_eq!((run.code, all.contains("similar name")), (1, is_told), "{what}: {all}");
            assert_eq!(all.contains("`npm:@example/github` 1.0.0"), is_told, "{what}: {all}");
            assert!(!all.contains("did you mean") && (!is_told || all.contains("different package")), "{all}");
        }
    }
}

#[test]
fn a_package_of_a_public_case_is_told_and_asked_about_first() {
    let house = with_index();
    let remote = |version: &str| package("npm", "mcp-remote", &[tool("get_it", "Read", &[])]).replace("1.0.0", version);
    house.write("facts.jsonl", &[facts(), remote("0.1.29")].join("\n"));
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    let ask = |what: &str| house.run(&["precheck", what, "--index", "i.glx"]);
    for (what, code, says) in [
        ("npm:mcp-remote@0.1.15", 1, "this version is affected"),
        ("npm:mcp-remote@<0.2", 1, "it is unknown whether the version"),
        ("npm:mcp-remote@0.1.29", 0, "is not affected"),
        ("npm:mcp-remote", 0, "is not affected"),
        ("postmark-mcp", 1, "`postmark-mcp`): version 1.0.16 and later"),
        ("npm:postmark-mcp@1.0.18", 1, "this version is affected"),
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
    assert!(reasons.contains(case) && reasons.contains("it is unknown whether the version"), "{reasons}");
    // One that is in no index is known by its case.
    house.write("gone.json", r#"{"mcpServers": {"p": {"command": "npx", "args": ["postmark-mcp"]}}}"#);
    let run = house.run(&["stack", "gone.json", "--json", "--index", "i.glx"]);
    assert!(told(&run)["servers"][0]["reasons"].to_string().contains("postmark-mcp"), "{}", run.stdout);
}

#[test]
fn a_name_that_two_sources_have_is_the_riskier_one_and_said_so() {
    let house = with_index();
    let both = [
        package("pypi", "twins", &[tool("get_it", "Read", &[])]),
        package("npm", "twins", &[tool("drop_it", "Destructive", &[])]),
    ];
    house.write("facts.jsonl", &[facts(), both.join("\n")].join("\n"));
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
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
