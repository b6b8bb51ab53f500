//! `precheck`: advice before a server is connected.

use serde_json::{Value, json};

use super::clients::SECRET;
use super::{dir_with_index, facts, json_output, package, send_lines, stack_scope, tool, tool_call, tool_output};

#[test]
fn precheck_advises_with_a_rule_and_never_says_safe() {
    let dir = dir_with_index();
    let run_precheck = |what: &str| dir.run(&["precheck", what, "--index", "i.glx"]);
    for (what, code, message) in [
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
        ("not-in-the-index", 1, "ask-first"),
        ("https://example.com/mcp?key=hunter2secret", 1, "ask-first"),
    ] {
        let run = run_precheck(what);
        assert_eq!(run.code, code, "{what}: {}{}", run.stdout, run.stderr);
        let all = format!("{}{}", run.stdout, run.stderr).to_lowercase();
        assert!(all.contains(message) && !all.contains("safe") && !all.contains(SECRET), "{what}: {all}");
    }
    assert!(run_precheck("mail").stdout.contains("\"max\": 30"));
    dir.write("server.json", r#"{"name": "x/y", "packages": [{"registryType": "npm", "identifier": "@example/files", "version": "1.0.0"},
        {"registryType": "oci", "identifier": "example/image"}], "remotes": [{"type": "streamable-http", "url": "https://x.example.com/hunter2secret"}]}"#);
    let run = dir.run(&["precheck", "server.json", "--json", "--index", "i.glx"]);
    let verdicts: Vec<Value> =
        json_output(&run)["servers"].as_array().unwrap().iter().map(|server| server["verdict"].clone()).collect();
    assert_eq!(verdicts, ["proceed", "ask-first", "ask-first"]);
    assert!(run.code == 1 && !run.stdout.contains(SECRET));
    // A version can also be part of the identifier.
    for (package, message) in [
        (r#""identifier": "@example/files@9.9.9""#, "the indexed version is 1.0.0, not 9.9.9"),
        (r#""identifier": "@example/files@9.9.9", "version": "1.0.0""#, "the version you mean is not known"),
        (r#""identifier": "@example/files@1.0.0", "version": "1.0.0""#, "proceed"),
    ] {
        dir.write("server.json", &format!("{{\"packages\": [{{\"registryType\": \"npm\", {package}}}]}}"));
        assert!(
            run_precheck("server.json").stdout.contains(message),
            "{package}: {}",
            run_precheck("server.json").stdout
        );
    }
    dir.write("server.json", "{");
    assert_eq!(run_precheck("server.json").code, 2);
}

#[test]
fn unusual_registries_and_arguments_are_ask_first_and_not_printed() {
    let dir = dir_with_index();
    let run_precheck = |package: &str| {
        dir.write("server.json", &format!("{{\"packages\": [{{{package}}}]}}"));
        dir.run(&["precheck", "server.json", "--index", "i.glx"])
    };
    let known = r#""registryType": "npm", "identifier": "@example/files", "version": "1.0.0""#;
    let run = run_precheck(&format!(r#"{known}, "runtimeArguments": [{{"type": "named", "name": "-y"}}]"#));
    assert!(run.code == 0 && run.stdout.contains("proceed"), "{}", run.stdout);
    for more in [
        r#""registryBaseUrl": "https://hunter2secret.example.com""#,
        r#""runtimeArguments": [{"type": "named", "name": "--registry", "value": "https://hunter2secret"}]"#,
        r#""runtimeArguments": [{"type": "positional", "value": "--with=hunter2secret"}]"#,
        r#""environmentVariables": [{"name": "NODE_OPTIONS", "value": "--require /hunter2secret"}]"#,
        // A value that is filled in later is unknown.
        r#""runtimeArguments": [{"type": "positional", "valueHint": "hunter2secret"}]"#,
        r#""runtimeArguments": [{"type": "named", "name": "-y", "variables": {"a": {"default": "hunter2secret"}}}]"#,
        r#""runtimeArguments": [{"type": "named", "name": "-y", "default": "hunter2secret"}]"#,
        r#""runtimeArguments": ["-y"]"#,
        r#""runtime_arguments": [{"type": "positional", "value": "hunter2secret"}]"#,
        r#""runtimeHint": "./npx""#,
        r#""runtimeHint": "hunter2secret""#,
        r#""environmentVariables": [{"value": "hunter2secret"}]"#,
    ] {
        let run = run_precheck(&format!("{known}, {more}"));
        let all = format!("{}{}", run.stdout, run.stderr);
        assert!(run.code == 1 && all.contains("ask-first") && !all.contains(SECRET), "{more}: {all}");
    }
    let run = run_precheck(
        r#""registryType": "mcpb", "identifier": "https://ada:hunter2secret@example.com/x.mcpb?t=hunter2secret""#,
    );
    assert!(run.code == 1 && !format!("{}{}", run.stdout, run.stderr).contains(SECRET), "{}", run.stdout);
}

#[test]
fn older_forms_of_server_json_are_read() {
    let dir = dir_with_index();
    let run_precheck = |text: &str| {
        dir.write("server.json", text);
        dir.run(&["precheck", "server.json", "--index", "i.glx"])
    };
    for text in [
        r#"{"packages": [{"registry_name": "npm", "name": "@example/files", "version": "1.0.0"}]}"#,
        r#"{"server": {"packages": [{"registry_type": "npm", "identifier": "@example/files", "version": "1.0.0"}]}}"#,
        r#"{"packages": [{"registry_name": "npm", "name": "@example/files", "version": "1.0.0", "runtime_hint": "npx"}]}"#,
    ] {
        let run = run_precheck(text);
        assert!(run.code == 0 && run.stdout.contains("npm:@example/files: proceed"), "{text}: {}", run.stdout);
    }
    let other_registry = r#"{"packages": [{"registry_name": "npm", "name": "@example/files", "version": "1.0.0",
        "runtime_arguments": [{"name": "--registry", "value": "https://a.example.com"}]}]}"#;
    assert_eq!(run_precheck(other_registry).code, 1);
}

#[test]
fn only_very_similar_names_are_reported_and_never_suggested() {
    let dir = dir_with_index();
    for (what, is_reported) in [
        ("npm:@example/githubb", true),
        ("npm:@example/gitlab", false),
        ("npm:@sample/github", false),
        ("pypi:notez", false),
        ("pypi:githubb", false),
        ("mails", false),
    ] {
        for command in [&["precheck", what][..], &["catalogue", "show", what]] {
            let run = dir.run(&[command, &["--index", "i.glx"]].concat());
            let all = format!("{}{}", run.stdout, run.stderr);
            assert_eq!((run.code, all.contains("similar name")), (1, is_reported), "{what}: {all}");
            assert_eq!(all.contains("`npm:@example/github` 1.0.0"), is_reported, "{what}: {all}");
            assert!(!all.contains("did you mean") && (!is_reported || all.contains("different package")), "{all}");
        }
    }
}

#[test]
fn a_package_of_a_public_case_is_reported_as_ask_first() {
    let dir = dir_with_index();
    let remote = |version: &str| package("npm", "mcp-remote", &[tool("get_it", "Read", &[])]).replace("1.0.0", version);
    dir.write("facts.jsonl", &[facts(), remote("0.1.29")].join("\n"));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    let run_precheck = |what: &str| dir.run(&["precheck", what, "--index", "i.glx"]);
    for (what, code, message) in [
        ("npm:mcp-remote@0.1.15", 1, "this version is affected"),
        ("npm:mcp-remote@<0.2", 1, "it is unknown whether the version"),
        ("npm:mcp-remote@0.1.29", 0, "is not affected"),
        ("npm:mcp-remote", 0, "is not affected"),
        ("postmark-mcp", 1, "`postmark-mcp`): version 1.0.16 and later"),
        ("npm:postmark-mcp@1.0.18", 1, "this version is affected"),
    ] {
        let run = run_precheck(what);
        assert!(run.code == code && run.stdout.contains(message), "{what}: {} {}", run.code, run.stdout);
    }
    dir.write(
        "server.json",
        r#"{"packages": [{"registryType": "npm", "identifier": "mcp-remote", "version": "0.1.0"}]}"#,
    );
    assert_eq!(run_precheck("server.json").code, 1);
    let client = |version: &str| {
        format!(
            r#"{{"mcpServers": {{"r": {{"command": "npx", "args": ["-y", "mcp-remote@{version}", "https://a"]}}}}}}"#
        )
    };
    dir.write("old.json", &client("0.1.15"));
    dir.write("new.json", &client("0.1.29"));
    let run = dir.run(&["stack", "old.json", "--json", "--fail-on", "critical", "--index", "i.glx"]);
    let server = json_output(&run)["servers"][0].clone();
    assert!(run.code == 1 && server["verdict"] == "ask-first", "{server}");
    assert!(server["reasons"].to_string().contains("mcp-remote-cve-2025-6514"), "{server}");
    assert_eq!(dir.run(&["stack", "new.json", "--fail-on", "critical", "--index", "i.glx"]).code, 0);
    let found = stack_scope::results(&dir, &["old.json"]);
    assert!(found.iter().any(|server| server["ruleId"] == "public-case"), "{found:?}");
    // Reports show the level that `--fail-on` uses, and list the case.
    assert_eq!(json_output(&run)["stack"]["level"], "Critical");
    let case = "mcp-remote-cve-2025-6514";
    for (format, message) in
        [("text", "  public incident (r): it is the package"), ("markdown", "- <code>r</code>: it is the package")]
    {
        let report = |file: &str| dir.run(&["stack", file, "--format", format, "--index", "i.glx"]).stdout;
        let (old, new) = (report("old.json"), report("new.json"));
        assert!(old.contains("The stack is Critical") && old.contains(message) && old.contains(case), "{old}");
        assert!(new.contains("The stack is Low") && !new.contains(case), "{new}");
    }
    // The installed version is unknown.
    dir.write(
        "there.json",
        r#"{"mcpServers": {"r": {"command": "node", "args": ["/opt/node_modules/mcp-remote/dist/proxy.js"]}}}"#,
    );
    let run = dir.run(&["stack", "there.json", "--json", "--index", "i.glx"]);
    let reasons = json_output(&run)["servers"][0]["reasons"].to_string();
    assert!(reasons.contains(case) && reasons.contains("it is unknown whether the version"), "{reasons}");
    // The case is found although the package is not in the index.
    dir.write("gone.json", r#"{"mcpServers": {"p": {"command": "npx", "args": ["postmark-mcp"]}}}"#);
    let run = dir.run(&["stack", "gone.json", "--json", "--index", "i.glx"]);
    assert!(json_output(&run)["servers"][0]["reasons"].to_string().contains("postmark-mcp"), "{}", run.stdout);
}

#[test]
fn a_name_in_two_registries_is_rated_as_the_riskier_package() {
    let dir = dir_with_index();
    let both = [
        package("pypi", "twins", &[tool("get_it", "Read", &[])]),
        package("npm", "twins", &[tool("drop_it", "Destructive", &[])]),
    ];
    dir.write("facts.jsonl", &[facts(), both.join("\n")].join("\n"));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    let message = "there is `pypi:twins` as well";
    let run = dir.run(&["precheck", "twins", "--index", "i.glx"]);
    assert!(run.stdout.starts_with("npm:twins: connect-with-rule") && run.stdout.contains(message), "{}", run.stdout);
    let run = dir.run(&["precheck", "pypi:twins", "--index", "i.glx"]);
    assert!(run.stdout.starts_with("pypi:twins: proceed") && !run.stdout.contains("as well"), "{}", run.stdout);
    let run = dir.run(&["catalogue", "show", "twins", "--index", "i.glx"]);
    assert!(run.stdout.contains("drop_it") && run.stderr.contains(message), "{}{}", run.stdout, run.stderr);
    let run = dir.run(&["catalogue", "show", "twins", "--json", "--index", "i.glx"]);
    assert!(json_output(&run)["doubt"].as_str().unwrap().contains(message));
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let responses = send_lines(
        &dir,
        &[
            tool_call(1, "check_mcp_server", &json!({"server": "twins"})),
            tool_call(2, "check_mcp_stack", &json!({"servers": ["twins"]})),
        ],
    );
    let (server, stack) = (&tool_output(&responses[0]), &tool_output(&responses[1]));
    assert!(server["source"] == "npm" && server["reasons"].to_string().contains(message), "{server}");
    assert!(
        stack["stack"]["level"] == "Critical" && stack["servers"][0]["reasons"].to_string().contains(message),
        "{stack}"
    );
}
