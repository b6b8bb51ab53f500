//! Which servers `stack` counts, for which agent, and which file and line a report points at.

use serde_json::{Value, json};

use super::clients::write_file;
use super::support::TestDir;
use super::{dir_with_index, facts, json_output, package, stack, tool};

pub fn results(dir: &TestDir, args: &[&str]) -> Vec<Value> {
    let run = dir.run(&[&["stack", "--format", "sarif", "--index", "i.glx"], args].concat());
    let results = json_output(&run)["runs"][0]["results"].as_array().cloned();
    results.unwrap_or_else(|| panic!("{}{}", run.stdout, run.stderr))
}

/// File and line that a finding points at.
pub fn location(result: &Value) -> (String, u64) {
    let physical = &result["locations"][0]["physicalLocation"];
    (
        physical["artifactLocation"]["uri"].as_str().unwrap().to_owned(),
        physical["region"]["startLine"].as_u64().unwrap(),
    )
}

#[test]
fn a_disabled_server_is_listed_and_not_counted() {
    let dir = dir_with_index();
    write_file(
        &dir,
        ".roo/mcp.json",
        br#"{"mcpServers": {"n": {"command": "uvx", "args": ["notes"]},
        "g": {"command": "npx", "args": ["-y", "@example/github"], "disabled": true},
        "m": {"command": "uvx", "args": ["mail"], "disabled": true},
        "u": {"url": "https://a.example.com", "disabled": true}}}"#,
    );
    let run = dir.run(&["stack", ".roo/mcp.json", "--fail-on", "medium", "--json", "--index", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let all = json_output(&run);
    assert_eq!((&all["stack"]["level"], &all["stack"]["tool_count"]), (&json!("Low"), &json!(1)));
    assert_eq!((&all["stack"]["unknown"], &all["stack"]["combinations"]), (&json!([]), &json!([])));
    assert_eq!(all["servers"].as_array().unwrap().len(), 4);
    let run = dir.run(&["stack", ".roo/mcp.json", "--index", "i.glx"]);
    assert!(run.stdout.contains("g (off)") && run.stdout.contains("3 servers are switched off"), "{}", run.stdout);
    assert!(run.stdout.contains("The stack is Low: 1 server, 1 tool"), "{}", run.stdout);
    let run = dir.run(&["stack", ".roo/mcp.json", "--format", "markdown", "--index", "i.glx"]);
    assert!(run.stdout.contains("</code> (off) |"), "{}", run.stdout);
    assert_eq!(results(&dir, &[".roo/mcp.json"]), Vec::<Value>::new());
}

#[test]
fn a_switch_that_a_client_ignores_disables_nothing() {
    let dir = dir_with_index();
    let github =
        |switch: &str| format!(r#"{{"g": {{"command": "npx", "args": ["-y", "@example/github"], {switch}}}}}"#);
    let (disabled, enabled) = (github("\"disabled\": true"), github("\"enabled\": false"));
    for (file, root, entry, is_off) in [
        // These clients ignore the switch.
        (".mcp.json", "mcpServers", &disabled, false),
        (".claude.json", "mcpServers", &disabled, false),
        (".cursor/mcp.json", "mcpServers", &disabled, false),
        (".vscode/mcp.json", "servers", &enabled, false),
        ("opencode.json", "mcp", &disabled, false),
        // The client of these files is unknown.
        ("c.json", "mcpServers", &disabled, false),
        ("c.json", "mcp", &enabled, false),
        (".kiro/settings/mcp.json", "mcpServers", &disabled, true),
        (".kiro/settings/mcp.json", "mcpServers", &enabled, false),
        ("opencode.json", "mcp", &enabled, true),
        ("crush.json", "mcp", &disabled, true),
        (".zed/settings.json", "context_servers", &enabled, true),
        ("z.json", "context_servers", &enabled, true),
    ] {
        write_file(&dir, file, format!("{{\"{root}\": {entry}}}").as_bytes());
        let run = dir.run(&["stack", file, "--fail-on", "critical", "--index", "i.glx"]);
        let result = (run.code == 0, run.stdout.contains("(off)"));
        assert_eq!(result, (is_off, is_off), "{file} {entry}: {}{}", run.stdout, run.stderr);
    }
    dir.write("c.toml", "[mcp_servers.g]\ncommand = \"npx\"\nargs = [\"@example/github\"]\nenabled = false\n");
    assert_eq!(dir.run(&["stack", "c.toml", "--fail-on", "low", "--index", "i.glx"]).code, 0);
}

#[test]
fn the_client_is_recognized_by_the_path_of_its_file() {
    let dir = dir_with_index();
    let text = r#"{"mcpServers": {"n": {"command": "uvx", "args": ["notes"]}}}"#;
    for (file, client) in [
        (".cursor/mcp.json", "cursor"),
        (".mcp.json", "claude-code-project"),
        ("sub/.junie/mcp/mcp.json", "junie"),
        (".gemini/settings.json", "gemini"),
    ] {
        write_file(&dir, file, text.as_bytes());
        let all = json_output(&dir.run(&["stack", file, "--json", "--index", "i.glx"]));
        assert_eq!(all["servers"][0]["clients"], json!([client]), "{file}");
    }
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = dir.run_shell(&format!("cd .cursor && '{program}' stack mcp.json --json --index ../i.glx"));
    assert_eq!(json_output(&run)["servers"][0]["clients"], json!(["cursor"]));
}

#[test]
fn only_servers_of_one_agent_are_a_combination() {
    let dir = dir_with_index();
    let github = r#""g": {"command": "npx", "args": ["-y", "@example/github"]}"#;
    let mail = r#""m": {"command": "uvx", "args": ["mail"]}"#;
    write_file(&dir, "home/.cursor/mcp.json", format!("{{\"mcpServers\": {{{github}}}}}").as_bytes());
    write_file(&dir, "home/.kiro/settings/mcp.json", format!("{{\"mcpServers\": {{{mail}}}}}").as_bytes());
    let combinations = |dir: &TestDir| json_output(&stack(dir, &["--json"]))["stack"]["combinations"].clone();
    assert_eq!(combinations(&dir), json!([]));
    let run = stack(&dir, &[]);
    assert!(run.stdout.contains("No agent has a combination of known servers"), "{}", run.stdout);
    // An agent in a project reads the project's servers and the user's.
    write_file(&dir, "home/.claude.json", format!("{{\"mcpServers\": {{{github}}}}}").as_bytes());
    write_file(&dir, "project/.mcp.json", format!("{{\"mcpServers\": {{{mail}}}}}").as_bytes());
    let expected = json!([{"client": "claude-code", "servers": ["g", "m"]}]);
    assert_eq!(combinations(&dir), expected);
    let run = stack(&dir, &[]);
    assert!(run.stdout.contains("together they leak (claude-code): g + m"), "{}", run.stdout);
    // Two projects in one file are two agents; both also have the user-wide servers.
    let config_with = |inside: &str| format!("{{\"mcpServers\": {{{inside}}}}}");
    dir.write(
        "two.json",
        &format!("{{\"projects\": {{\"/a\": {}, \"/b\": {}}}}}", config_with(github), config_with(mail)),
    );
    let ask = |file: &str| json_output(&dir.run(&["stack", file, "--json", "--index", "i.glx"]))["stack"].clone();
    assert_eq!(ask("two.json")["combinations"], json!([]));
    dir.write(
        "one.json",
        &format!("{{\"mcpServers\": {{{github}}}, \"projects\": {{\"/b\": {}}}}}", config_with(mail)),
    );
    assert_eq!(ask("one.json")["combinations"], expected);
    // A combination of user-wide servers is reported once, not per project.
    let both = format!("{github}, {mail}");
    let many = format!(
        "{{\"mcpServers\": {{{both}}}, \"projects\": {{\"/a\": {0}, \"/b\": {0}}}}}",
        config_with("\"x\": {\"url\": \"u\"}")
    );
    dir.write("many.json", &many);
    assert_eq!((&ask("many.json")["combinations"], &ask("many.json")["combination_count"]), (&expected, &json!(1)));
}

#[test]
fn different_servers_with_the_same_name_are_listed_separately() {
    let dir = dir_with_index();
    let write_file =
        |file: &str, entry: &str| write_file(&dir, file, format!("{{\"mcpServers\": {{\"s\": {entry}}}}}").as_bytes());
    let count = || json_output(&stack(&dir, &["--json"]))["servers"].as_array().unwrap().len();
    for (one, other, expected) in [
        (r#"{"url": "https://a.example.com"}"#, r#"{"url": "https://b.example.com"}"#, 2),
        (r#"{"command": "serve", "args": ["a"]}"#, r#"{"command": "serve", "args": ["b"]}"#, 2),
        (r#"{"command": "uvx", "args": ["notes==1.0"]}"#, r#"{"command": "uvx", "args": ["notes==2.0"]}"#, 2),
        (r#"{"command": "uvx", "args": ["notes==1.0"]}"#, r#"{"command": "uvx", "args": ["notes>=1.0"]}"#, 2),
        (r#"{"command": "uvx", "args": ["notes"]}"#, r#"{"command": "uvx", "args": ["notes"], "disabled": true}"#, 2),
        (r#"{"command": "uvx", "args": ["notes", "a"]}"#, r#"{"command": "uvx", "args": ["notes", "b"]}"#, 1),
        (r#"{"url": "https://a", "headers": {"K": "1"}}"#, r#"{"url": "https://a", "headers": {"K": "2"}}"#, 1),
    ] {
        write_file("home/.cursor/mcp.json", one);
        write_file("home/.kiro/settings/mcp.json", other);
        assert_eq!(count(), expected, "{one} and {other}");
    }
}

#[test]
fn an_unindexed_version_or_registry_is_reported() {
    let dir = dir_with_index();
    dir.write("facts.jsonl", &[facts(), package("pypi", "mcp-quiet", &[tool("get_it", "Read", &[])])].join("\n"));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    dir.write(
        "c.json",
        r#"{"mcpServers": {
        "same": {"command": "uvx", "args": ["mcp-quiet==1.0"]},
        "later": {"command": "uvx", "args": ["mcp-quiet==9.1"]},
        "tagged": {"command": "uvx", "args": ["mcp-quiet@hunter2secret"]},
        "range": {"command": "uvx", "args": ["mcp-quiet>=0.5"]},
        "option": {"command": "uvx", "args": ["--index-url", "https://hunter2secret.example.com", "mcp-quiet"]},
        "variable": {"command": "uvx", "args": ["mcp-quiet"], "env": {"UV_INDEX_URL": "https://hunter2secret.example.com"}},
        "registry": {"command": "npx", "args": ["@example/files"], "env": {"npm_config_registry": "https://hunter2secret"}}}}"#,
    );
    let run = dir.run(&["stack", "c.json", "--json", "--index", "i.glx"]);
    let all = json_output(&run);
    let verdict_and_reasons = |name: &str| {
        let server = all["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap();
        (server["verdict"].as_str().unwrap().to_owned(), server["reasons"].to_string())
    };
    assert_eq!(verdict_and_reasons("same").0, "proceed");
    for (name, verdict, message) in [
        ("later", "connect-with-rule", "the indexed version is 1.0.0, but 9.1 starts"),
        ("tagged", "connect-with-rule", "the indexed version is 1.0.0; the version that starts is not known"),
        ("range", "connect-with-rule", "the indexed version is 1.0.0; the version that starts is not known"),
        ("option", "ask-first", "only guessed from its command and variables"),
        ("variable", "ask-first", "only guessed from its command and variables"),
        ("registry", "ask-first", "only guessed from its command and variables"),
    ] {
        let (found, reasons) = verdict_and_reasons(name);
        assert!(found == verdict && reasons.contains(message), "{name}: {found} {reasons}");
    }
    let run = dir.run(&["stack", "c.json", "--index", "i.glx"]);
    assert!(run.stdout.contains("mcp-quiet (indexed: 1.0.0, starts: 9.1), 1 tool"), "{}", run.stdout);
    for format in ["text", "json", "markdown", "sarif"] {
        let run = dir.run(&["stack", "c.json", "--format", format, "--index", "i.glx"]);
        let all = format!("{}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains("mcp-quiet") || format == "sarif", "{all}");
        assert!(!all.contains("hunter2secret") && !all.contains("INDEX_URL"), "{format}: {all}");
    }
    let locations: Vec<(String, u64)> =
        results(&dir, &["c.json"]).iter().filter(|result| result["ruleId"] == "unread-version").map(location).collect();
    assert_eq!(locations, [("c.json".to_owned(), 3), ("c.json".to_owned(), 4), ("c.json".to_owned(), 5)]);
}

#[test]
fn sarif_findings_have_a_relative_path_and_the_line_of_the_entry() {
    let dir = dir_with_index();
    let json = "{\n  \"mcpServers\": {\n    \"n\": {\"command\": \"uvx\", \"args\": [\"notes\"]},\n\n    \"g\": {\n      \"command\": \"npx\", \"args\": [\"-y\", \"@example/github\"]\n    }\n  }\n}\n";
    write_file(&dir, "sub dir/.mcp.json", json.as_bytes());
    let absolute = dir.path("sub dir/.mcp.json").display().to_string();
    for path in ["sub dir/.mcp.json", "./sub dir/.mcp.json", "sub dir/../sub dir/.mcp.json", &absolute] {
        let found = results(&dir, &[path]);
        assert_eq!(found.iter().map(location).collect::<Vec<_>>(), [("sub%20dir/.mcp.json".to_owned(), 5)], "{path}");
    }
    // A file outside the working directory is reported by its name only.
    write_file(&dir, "other/x", b"");
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = dir.run_shell(&format!("cd other && '{program}' stack '{absolute}' --format sarif --index ../i.glx"));
    assert!(!run.stdout.contains("sub dir") && run.stdout.contains("\".mcp.json\""), "{}", run.stdout);
    let toml = "# mine\n[mcp_servers.n]\ncommand = \"uvx\"\nargs = [\"notes\"]\n\n[mcp_servers.g]\ncommand = \"npx\"\nargs = [\"@example/github\"]\n";
    write_file(&dir, "project/.codex/config.toml", toml.as_bytes());
    write_file(
        &dir,
        "home/.config/goose/config.yaml",
        b"extensions:\n\n  g:\n    cmd: npx\n    args: ['@example/github']\n",
    );
    let found = results(&dir, &["--home", "home", "--project", "project"]);
    let locations: Vec<_> = found.iter().map(location).collect();
    // A server that two clients have gives one finding, at the first client.
    assert_eq!(locations, [("project/.codex/config.toml".to_owned(), 6)]);
    let found = results(&dir, &["--home", "home", "--client", "goose"]);
    // A file in the home directory is not part of the repository that the report is about.
    assert_eq!(found.len(), 1);
    assert!(found[0].get("locations").is_none(), "{}", found[0]);
    // From the root directory the relative path would be the whole path.
    let index = dir.path("i.glx").display().to_string();
    let run = dir.run_shell(&format!("cd / && '{program}' stack '{absolute}' --format sarif --index '{index}'"));
    assert!(run.stdout.contains("\"uri\": \".mcp.json\""), "{}", run.stdout);
}

#[test]
fn fingerprints_of_findings_do_not_depend_on_the_index() {
    let dir = dir_with_index();
    dir.write(
        "c.json",
        r#"{"mcpServers": {"g": {"command": "npx", "args": ["-y", "@example/github@2.0.0"]},
        "m": {"command": "uvx", "args": ["mail"]}, "u": {"url": "https://a.example.com"}}}"#,
    );
    let fingerprints = || -> Vec<Value> {
        results(&dir, &["c.json"]).iter().map(|result| result["partialFingerprints"]["gatelodge/v1"].clone()).collect()
    };
    let before = fingerprints();
    assert_eq!(before.len(), 4, "{before:?}");
    dir.write("facts.jsonl", &facts().replace("1.0.0", "1.0.1"));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-17", "i.glx");
    assert_eq!(fingerprints(), before);
}
