//! Which servers count in `stack`, for whom, and where a report says they stand.

use serde_json::{Value, json};

use super::clients::put;
use super::support::House;
use super::{facts, package, stack, told, tool, with_index};

pub fn results(house: &House, args: &[&str]) -> Vec<Value> {
    let run = house.run(&[&["stack", "--format", "sarif", "--index", "i.glx"], args].concat());
    let results = told(&run)["runs"][0]["results"].as_array().cloned();
    results.unwrap_or_else(|| panic!("{}{}", run.stdout, run.stderr))
}

/// The file and the line that a finding points at.
pub fn spot(result: &Value) -> (String, u64) {
    let place = &result["locations"][0]["physicalLocation"];
    (place["artifactLocation"]["uri"].as_str().unwrap().to_owned(), place["region"]["startLine"].as_u64().unwrap())
}

#[test]
fn a_server_that_is_switched_off_is_told_and_counts_for_nothing() {
    let house = with_index();
    put(
        &house,
        ".roo/mcp.json",
        br#"{"mcpServers": {"n": {"command": "uvx", "args": ["notes"]},
        "g": {"command": "npx", "args": ["-y", "@example/github"], "disabled": true},
        "m": {"command": "uvx", "args": ["mail"], "disabled": true},
        "u": {"url": "https://a.example.com", "disabled": true}}}"#,
    );
    let run = house.run(&["stack", ".roo/mcp.json", "--fail-on", "medium", "--json", "--index", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let all = told(&run);
    assert_eq!((&all["stack"]["level"], &all["stack"]["tool_count"]), (&json!("Low"), &json!(1)));
    assert_eq!((&all["stack"]["unknown"], &all["stack"]["combinations"]), (&json!([]), &json!([])));
    assert_eq!(all["servers"].as_array().unwrap().len(), 4);
    let run = house.run(&["stack", ".roo/mcp.json", "--index", "i.glx"]);
    assert!(run.stdout.contains("g (off)") && run.stdout.contains("3 servers are switched off"), "{}", run.stdout);
    assert!(run.stdout.contains("The stack is Low: 1 server, 1 tool"), "{}", run.stdout);
    let run = house.run(&["stack", ".roo/mcp.json", "--format", "markdown", "--index", "i.glx"]);
    assert!(run.stdout.contains("</code> (off) |"), "{}", run.stdout);
    assert_eq!(results(&house, &[".roo/mcp.json"]), Vec::<Value>::new());
}

#[test]
fn a_switch_that_a_client_does_not_read_switches_nothing_off() {
    let house = with_index();
    let github =
        |switch: &str| format!(r#"{{"g": {{"command": "npx", "args": ["-y", "@example/github"], {switch}}}}}"#);
    let (disabled, enabled) = (github("\"disabled\": true"), github("\"enabled\": false"));
    for (file, root, entry, is_off) in [
        // These start it all the same.
        (".mcp.json", "mcpServers", &disabled, false),
        (".claude.json", "mcpServers", &disabled, false),
        (".cursor/mcp.json", "mcpServers", &disabled, false),
        (".vscode/mcp.json", "servers", &enabled, false),
        ("opencode.json", "mcp", &disabled, false),
        // Nobody says which client reads these.
        ("c.json", "mcpServers", &disabled, false),
        ("c.json", "mcp", &enabled, false),
        (".kiro/settings/mcp.json", "mcpServers", &disabled, true),
        (".kiro/settings/mcp.json", "mcpServers", &enabled, false),
        ("opencode.json", "mcp", &enabled, true),
        ("crush.json", "mcp", &disabled, true),
        (".zed/settings.json", "context_servers", &enabled, true),
        ("z.json", "context_servers", &enabled, true),
    ] {
        put(&house, file, format!("{{\"{root}\": {entry}}}").as_bytes());
        let run = house.run(&["stack", file, "--fail-on", "critical", "--index", "i.glx"]);
        let told = (run.code == 0, run.stdout.contains("(off)"));
        assert_eq!(told, (is_off, is_off), "{file} {entry}: {}{}", run.stdout, run.stderr);
    }
    house.write("c.toml", "[mcp_servers.g]\ncommand = \"npx\"\nargs = [\"@example/github\"]\nenabled = false\n");
    assert_eq!(house.run(&["stack", "c.toml", "--fail-on", "low", "--index", "i.glx"]).code, 0);
}

#[test]
fn a_file_that_a_client_has_is_that_clients() {
    let house = with_index();
    let text = r#"{"mcpServers": {"n": {"command": "uvx", "args": ["notes"]}}}"#;
    for (file, client) in [
        (".cursor/mcp.json", "cursor"),
        (".mcp.json", "claude-code-project"),
        ("sub/.junie/mcp/mcp.json", "junie"),
        (".gemini/settings.json", "gemini"),
    ] {
        put(&house, file, text.as_bytes());
        let all = told(&house.run(&["stack", file, "--json", "--index", "i.glx"]));
        assert_eq!(all["servers"][0]["clients"], json!([client]), "{file}");
    }
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = house.paste(&format!("cd .cursor && '{program}' stack mcp.json --json --index ../i.glx"));
    assert_eq!(told(&run)["servers"][0]["clients"], json!(["cursor"]));
}

#[test]
fn only_what_one_agent_has_together_is_told_as_a_combination() {
    let house = with_index();
    let github = r#""g": {"command": "npx", "args": ["-y", "@example/github"]}"#;
    let mail = r#""m": {"command": "uvx", "args": ["mail"]}"#;
    put(&house, "home/.cursor/mcp.json", format!("{{\"mcpServers\": {{{github}}}}}").as_bytes());
    put(&house, "home/.kiro/settings/mcp.json", format!("{{\"mcpServers\": {{{mail}}}}}").as_bytes());
    let combinations = |house: &House| told(&stack(house, &["--json"]))["stack"]["combinations"].clone();
    assert_eq!(combinations(&house), json!([]));
    let run = stack(&house, &[]);
    assert!(run.stdout.contains("No agent has a combination of known servers"), "{}", run.stdout);
    // What a project has is read by the same agent as what its user has.
    put(&house, "home/.claude.json", format!("{{\"mcpServers\": {{{github}}}}}").as_bytes());
    put(&house, "project/.mcp.json", format!("{{\"mcpServers\": {{{mail}}}}}").as_bytes());
    let expected = json!([{"client": "claude-code", "servers": ["g", "m"]}]);
    assert_eq!(combinations(&house), expected);
    let run = stack(&house, &[]);
    assert!(run.stdout.contains("together they leak (claude-code): g + m"), "{}", run.stdout);
    // Two projects of one file are two agents; both have what stands above them.
    let of = |inside: &str| format!("{{\"mcpServers\": {{{inside}}}}}");
    house.write("two.json", &format!("{{\"projects\": {{\"/a\": {}, \"/b\": {}}}}}", of(github), of(mail)));
    let ask = |file: &str| told(&house.run(&["stack", file, "--json", "--index", "i.glx"]))["stack"].clone();
    assert_eq!(ask("two.json")["combinations"], json!([]));
    house.write("one.json", &format!("{{\"mcpServers\": {{{github}}}, \"projects\": {{\"/b\": {}}}}}", of(mail)));
    assert_eq!(ask("one.json")["combinations"], expected);
    // What leaks above all projects is told once.
    let both = format!("{github}, {mail}");
    let many = format!(
        "{{\"mcpServers\": {{{both}}}, \"projects\": {{\"/a\": {0}, \"/b\": {0}}}}}",
        of("\"x\": {\"url\": \"u\"}")
    );
    house.write("many.json", &many);
    assert_eq!((&ask("many.json")["combinations"], &ask("many.json")["combination_count"]), (&expected, &json!(1)));
}

#[test]
fn servers_of_one_name_that_differ_are_told_apart() {
    let house = with_index();
    let put = |file: &str, entry: &str| put(&house, file, format!("{{\"mcpServers\": {{\"s\": {entry}}}}}").as_bytes());
    let count = || told(&stack(&house, &["--json"]))["servers"].as_array().unwrap().len();
    for (one, other, expected) in [
        (r#"{"url": "https://a.example.com"}"#, r#"{"url": "https://b.example.com"}"#, 2),
        (r#"{"command": "serve", "args": ["a"]}"#, r#"{"command": "serve", "args": ["b"]}"#, 2),
        (r#"{"command": "uvx", "args": ["notes==1.0"]}"#, r#"{"command": "uvx", "args": ["notes==2.0"]}"#, 2),
        (r#"{"command": "uvx", "args": ["notes==1.0"]}"#, r#"{"command": "uvx", "args": ["notes>=1.0"]}"#, 2),
        (r#"{"command": "uvx", "args": ["notes"]}"#, r#"{"command": "uvx", "args": ["notes"], "disabled": true}"#, 2),
        (r#"{"command": "uvx", "args": ["notes", "a"]}"#, r#"{"command": "uvx", "args": ["notes", "b"]}"#, 1),
        (r#"{"url": "https://a", "headers": {"K": "1"}}"#, r#"{"url": "https://a", "headers": {"K": "2"}}"#, 1),
    ] {
        put("home/.cursor/mcp.json", one);
        put("home/.kiro/settings/mcp.json", other);
        assert_eq!(count(), expected, "{one} and {other}");
    }
}

#[test]
fn a_version_or_an_index_that_is_not_the_one_that_was_read_is_told() {
    let house = with_index();
    house.write("facts.jsonl", &[facts(), package("pypi", "mcp-quiet", &[tool("get_it", "Read", &[])])].join("\n"));
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    house.write(
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
    let run = house.run(&["stack", "c.json", "--json", "--index", "i.glx"]);
    let all = told(&run);
    let of = |name: &str| {
        let own = all["servers"].as_array().unwrap().iter().find(|own| own["name"] == name).unwrap();
        (own["verdict"].as_str().unwrap().to_owned(), own["reasons"].to_string())
    };
    assert_eq!(of("same").0, "proceed");
    for (name, verdict, says) in [
        ("later", "connect-with-rule", "the indexed version is 1.0.0, but 9.1 starts"),
        ("tagged", "connect-with-rule", "the indexed version is 1.0.0; the version that starts is not known"),
        ("range", "connect-with-rule", "the indexed version is 1.0.0; the version that starts is not known"),
        ("option", "ask-first", "only guessed from its command and variables"),
        ("variable", "ask-first", "only guessed from its command and variables"),
        ("registry", "ask-first", "only guessed from its command and variables"),
    ] {
        let (own, reasons) = of(name);
        assert!(own == verdict && reasons.contains(says), "{name}: {own} {reasons}");
    }
    let run = house.run(&["stack", "c.json", "--index", "i.glx"]);
    assert!(run.stdout.contains("mcp-quiet (indexed: 1.0.0, starts: 9.1), 1 tool"), "{}", run.stdout);
    for format in ["text", "json", "markdown", "sarif"] {
        let run = house.run(&["stack", "c.json", "--format", format, "--index", "i.glx"]);
        let all = format!("{}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains("mcp-quiet") || format == "sarif", "{all}");
        assert!(!all.contains("hunter2secret") && !all.contains("INDEX_URL"), "{format}: {all}");
    }
    let told: Vec<(String, u64)> =
        results(&house, &["c.json"]).iter().filter(|own| own["ruleId"] == "unread-version").map(spot).collect();
    assert_eq!(told, [("c.json".to_owned(), 3), ("c.json".to_owned(), 4), ("c.json".to_owned(), 5)]);
}

#[test]
fn findings_for_code_scanning_point_at_the_file_from_here_and_at_the_line_of_the_entry() {
    let house = with_index();
    let json = "{\n  \"mcpServers\": {\n    \"n\": {\"command\": \"uvx\", \"args\": [\"notes\"]},\n\n    \"g\": {\n      \"command\": \"npx\", \"args\": [\"-y\", \"@example/github\"]\n    }\n  }\n}\n";
    put(&house, "sub dir/.mcp.json", json.as_bytes());
    let absolute = house.path("sub dir/.mcp.json").display().to_string();
    for path in ["sub dir/.mcp.json", "./sub dir/.mcp.json", "sub dir/../sub dir/.mcp.json", &absolute] {
        let found = results(&house, &[path]);
        assert_eq!(found.iter().map(spot).collect::<Vec<_>>(), [("sub%20dir/.mcp.json".to_owned(), 5)], "{path}");
    }
    // From elsewhere there is no way to it but its name.
    put(&house, "other/x", b"");
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = house.paste(&format!("cd other && '{program}' stack '{absolute}' --format sarif --index ../i.glx"));
    assert!(!run.stdout.contains("sub dir") && run.stdout.contains("\".mcp.json\""), "{}", run.stdout);
    let toml = "# mine\n[mcp_servers.n]\ncommand = \"uvx\"\nargs = [\"notes\"]\n\n[mcp_servers.g]\ncommand = \"npx\"\nargs = [\"@example/github\"]\n";
    put(&house, "project/.codex/config.toml", toml.as_bytes());
    put(
        &house,
        "home/.config/goose/config.yaml",
        b"extensions:\n\n  g:\n    cmd: npx\n    args: ['@example/github']\n",
    );
    let found = results(&house, &["--home", "home", "--project", "project"]);
    let spots: Vec<_> = found.iter().map(spot).collect();
    // One finding for one server that two clients have, at the first.
    assert_eq!(spots, [("project/.codex/config.toml".to_owned(), 6)]);
    let found = results(&house, &["--home", "home", "--client", "goose"]);
    // A file of the user's own is not in the repository that a report is about.
    assert_eq!(found.len(), 1);
    assert!(found[0].get("locations").is_none(), "{}", found[0]);
    // From the root of the machine, what lies below is the whole path.
    let index = house.path("i.glx").display().to_string();
    let run = house.paste(&format!("cd / && '{program}' stack '{absolute}' --format sarif --index '{index}'"));
    assert!(run.stdout.contains("\"uri\": \".mcp.json\""), "{}", run.stdout);
}

#[test]
fn a_finding_stays_the_same_with_another_index() {
    let house = with_index();
    house.write(
        "c.json",
        r#"{"mcpServers": {"g": {"command": "npx", "args": ["-y", "@example/github@2.0.0"]},
        "m": {"command": "uvx", "args": ["mail"]}, "u": {"url": "https://a.example.com"}}}"#,
    );
    let prints = || -> Vec<Value> {
        results(&house, &["c.json"]).iter().map(|own| own["partialFingerprints"]["gatelodge/v1"].clone()).collect()
    };
    let before = prints();
    assert_eq!(before.len(), 4, "{before:?}");
    house.write("facts.jsonl", &facts().replace("1.0.0", "1.0.1"));
    super::make_index(&house, "facts.jsonl", "2026-11-17", "i.glx");
    assert_eq!(prints(), before);
}
