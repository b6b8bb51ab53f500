//! `stack`: reports on the configured servers, in each format.

use serde_json::{Value, json};

use super::clients::{SECRET, write_client_configs};
use super::{dir_with_index, facts, json_output, package, stack, tool};

#[test]
fn a_combined_leak_reaches_fail_on_and_a_missing_directory_is_an_error() {
    let dir = dir_with_index();
    let mild = package("pypi", "inbox", &[tool("read_inbox", "Read", &["reads_private", "reads_untrusted"])]);
    dir.write("facts.jsonl", &[facts(), mild].join("\n"));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    let entry = |name: &str| format!(r#""{name}": {{"command": "uvx", "args": ["{name}"]}}"#);
    dir.write("both.json", &format!("{{\"mcpServers\": {{{}, {}}}}}", entry("inbox"), entry("mail")));
    dir.write("one.json", &format!("{{\"mcpServers\": {{{}}}}}", entry("inbox")));
    let run = dir.run(&["stack", "both.json", "--fail-on", "critical", "--index", "i.glx"]);
    assert!(
        run.code == 1 && run.stderr.contains("reaches Critical, because servers together can leak"),
        "{}",
        run.stderr
    );
    assert_eq!(dir.run(&["stack", "one.json", "--fail-on", "medium", "--index", "i.glx"]).code, 0);
    for option in ["--project", "--home"] {
        let run = dir.run(&["stack", option, "nowhere", "--index", "i.glx"]);
        assert!(run.code == 2 && run.stderr.contains("there is no folder `nowhere`"), "{}", run.stderr);
    }
}

#[test]
fn the_servers_of_fifteen_clients_are_rated_by_the_index() {
    let dir = dir_with_index();
    write_client_configs(&dir);
    let run = stack(&dir, &["--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let all = json_output(&run);
    let servers = all["servers"].as_array().unwrap();
    let mut clients: Vec<&str> = servers
        .iter()
        .flat_map(|server| server["clients"].as_array().unwrap())
        .map(|id| id.as_str().unwrap())
        .collect();
    clients.sort_unstable();
    clients.dedup();
    assert!(clients.len() >= 14, "{clients:?}");
    let github = servers.iter().find(|server| server["name"] == "github").unwrap();
    assert_eq!(github["package"], "@example/github");
    assert!(github["clients"].as_array().unwrap().len() >= 3, "{github}");
    assert_eq!((&github["level"], &github["verdict"]), (&json!("Critical"), &json!("connect-with-rule")));
    assert!(github["policy"].as_str().unwrap().contains("\"hide\""));
    let maps = servers.iter().find(|server| server["name"] == "maps").unwrap();
    assert_eq!(
        (&maps["what"], &maps["verdict"], &maps["package"]),
        (&json!("an address"), &json!("ask-first"), &Value::Null)
    );
    // No single agent has both `github` and `mail`.
    assert_eq!(all["stack"]["combinations"], json!([]));
    assert_eq!(all["stack"]["level"], "Critical");
}

#[test]
fn a_file_of_unknown_format_fails() {
    let dir = dir_with_index();
    let github = r#"{"g": {"command": "npx", "args": ["-y", "@example/github"]}}"#;
    for (file, text) in [
        ("m.conf", format!("{{\"mcpServers\": {github}}}")),
        ("typo.json", format!("{{\"mcpServer\": {github}}}")),
        ("kind.json", "{\"mcpServers\": \"g\"}".to_owned()),
        ("other.json", "{\"a\": 1}".to_owned()),
        ("bare", "{\"a\": 1}".to_owned()),
    ] {
        dir.write(file, &text);
        let run = dir.run(&["stack", file, "--fail-on", "critical", "--index", "i.glx"]);
        assert!(
            run.code == 1 && run.stderr.contains("name the client with `--client`"),
            "{file}: {}{}",
            run.stdout,
            run.stderr
        );
    }
    assert_eq!(dir.run(&["stack", "m.conf", "--client", "open-webui", "--index", "i.glx"]).code, 2);
    let run = dir.run(&["stack", "m.conf", "--client", "cursor", "--json", "--index", "i.glx"]);
    assert_eq!((run.code, &json_output(&run)["stack"]["level"]), (0, &json!("Critical")), "{}", run.stderr);
    for text in ["{}", "{\"mcpServers\": {}}"] {
        dir.write("none.json", text);
        assert_eq!(dir.run(&["stack", "none.json", "--fail-on", "low", "--index", "i.glx"]).code, 0, "{text}");
    }
    // Servers under several keys and in projects are all found.
    let notes = r#"{"n": {"command": "uvx", "args": ["notes"]}}"#;
    dir.write("two.json", &format!("{{\"servers\": {github}, \"mcpServers\": {notes}}}"));
    let projects = format!("{{\"/a\": {{\"mcpServers\": {github}}}, \"/b\": {{\"mcpServers\": {{}}}}}}");
    dir.write(".claude.json", &format!("{{\"mcpServers\": {notes}, \"projects\": {projects}}}"));
    dir.write("only.json", &format!("{{\"numStartups\": 1, \"projects\": {projects}}}"));
    for file in ["two.json", ".claude.json", "only.json"] {
        let run = dir.run(&["stack", file, "--fail-on", "critical", "--index", "i.glx"]);
        assert_eq!(run.code, 1, "{file}: {}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains("@example/github") && !run.stdout.contains("/a"), "{file}: {}", run.stdout);
    }
    let many: Vec<String> = (0..1_100).map(|at| format!("\"s{at}\": {{\"url\": \"https://a.example.com\"}}")).collect();
    dir.write("many.json", &format!("{{\"mcpServers\": {{{}}}}}", many.join(",")));
    let run = dir.run(&["stack", "many.json", "--index", "i.glx"]);
    assert!(run.code == 1 && run.stderr.contains("more than 1000 servers"), "{}", run.stderr);
}

#[test]
fn a_guessed_package_or_other_version_is_not_rated_as_known() {
    let dir = dir_with_index();
    dir.write("facts.jsonl", &[facts(), package("pypi", "mcp-quiet", &[tool("get_it", "Read", &[])])].join("\n"));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    dir.write(
        "c.json",
        r#"{"mcpServers": {
        "known": {"command": "uvx", "args": ["mcp-quiet", "--from", "mail"]},
        "module": {"command": "python", "args": ["-m", "mcp_quiet"]}, "program": {"command": "/usr/bin/mcp-quiet"},
        "extra": {"command": "uv", "args": ["run", "--with", "mcp-quiet", "x.py"]},
        "later": {"command": "uvx", "args": ["mcp-quiet==9"]}}}"#,
    );
    let run = dir.run(&["stack", "c.json", "--json", "--index", "i.glx"]);
    let all = json_output(&run);
    let summary = |name: &str| {
        let server = all["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap();
        (server["package"].clone(), server["is_guess"].clone(), server["level"].clone(), server["verdict"].clone())
    };
    let expected = |is_guess: bool, level: &str, verdict: &str| {
        (json!("mcp-quiet"), json!(is_guess), json!(level), json!(verdict))
    };
    assert_eq!(summary("known"), expected(false, "Low", "proceed"));
    assert_eq!(summary("later"), expected(false, "Low", "connect-with-rule"));
    for name in ["module", "program", "extra"] {
        assert_eq!(summary(name), expected(true, "High", "ask-first"), "{name}");
    }
    assert_eq!(all["stack"]["level"], "High");
    assert_eq!(dir.run(&["stack", "c.json", "--fail-on", "high", "--index", "i.glx"]).code, 1);
    let run = dir.run(&["stack", "c.json", "--index", "i.glx"]);
    assert_eq!(run.stdout.matches("perhaps mcp-quiet").count(), 3, "{}", run.stdout);
    let run = dir.run(&["stack", "c.json", "--format", "sarif", "--index", "i.glx"]);
    assert_eq!(json_output(&run)["runs"][0]["results"].as_array().unwrap().len(), 4);
}

#[test]
fn policies_are_written_without_overwriting_files() {
    let dir = dir_with_index();
    dir.write("c.json", r#"{"mcpServers": {"a.b": {"command": "npx", "args": ["-y", "@example/github"]}, "a_b": {"command": "uvx", "args": ["mail"]}}}"#);
    let write = || dir.run(&["stack", "c.json", "--policies", "p", "--index", "i.glx"]);
    let run = write();
    assert!(
        run.stderr.contains("`a.b`: `p/a_b.json`") && run.stderr.contains("`a_b`: `p/a_b-2.json`"),
        "{}",
        run.stderr
    );
    assert!(dir.read("p/a_b.json").contains("delete_repository") && dir.read("p/a_b-2.json").contains("send_mail"));
    dir.write("p/a_b.json", "// mine\n");
    let run = write();
    assert_eq!((run.code, dir.read("p/a_b.json").as_str()), (0, "// mine\n"));
    assert!(dir.read("p/a_b-3.json").contains("delete_repository"), "{}", run.stderr);
    // An equal policy is not written again.
    write();
    assert!(!dir.path("p/a_b-4.json").exists());
}

#[test]
fn fail_on_ignores_case_and_rates_unknown_servers_high() {
    let dir = dir_with_index();
    dir.write("read.json", r#"{"mcpServers": {"n": {"command": "uvx", "args": ["notes"]}}}"#);
    dir.write("unknown.json", r#"{"servers": {"n": {"url": "https://a.example.com"}}}"#);
    dir.write("worst.json", r#"{"mcp": {"g": {"type": "local", "command": ["npx", "-y", "@example/github"]}}}"#);
    for (file, level, code) in [
        ("read.json", "low", 1),
        ("read.json", "Medium", 0),
        ("unknown.json", "HIGH", 1),
        ("unknown.json", "critical", 0),
        ("worst.json", "Critical", 1),
        ("worst.json", "cRiTiCaL", 1),
    ] {
        let run = dir.run(&["stack", file, "--fail-on", level, "--index", "i.glx"]);
        assert_eq!(run.code, code, "{file} {level}: {}{}", run.stdout, run.stderr);
    }
    assert_eq!(dir.run(&["stack", "read.json", "--fail-on", "grave", "--index", "i.glx"]).code, 2);
    dir.write("none.json", "{}");
    let run = dir.run(&["stack", "none.json", "--fail-on", "low", "--index", "i.glx"]);
    assert!(run.code == 0 && run.stdout.contains("No server was found"), "{}", run.stdout);
    dir.write("broken.json", "{\"mcpServers\": hunter2secret");
    let run = dir.run(&["stack", "broken.json", "--index", "i.glx"]);
    assert!(run.code == 1 && !run.stderr.contains(SECRET), "{}", run.stderr);
}

#[test]
fn a_report_does_not_contain_the_path_of_an_unusable_index() {
    let dir = dir_with_index();
    dir.write("c.json", r#"{"mcpServers": {}}"#);
    dir.write("hunter2secret.glx", "no index");
    let run = dir.run(&["stack", "c.json", "--format", "sarif", "--index", "hunter2secret.glx"]);
    let notes = &json_output(&run)["runs"][0]["invocations"][0]["toolExecutionNotifications"];
    assert!(notes[0]["message"]["text"].as_str().is_some_and(|text| text.contains("package index")), "{notes}");
    assert!(!run.stdout.contains("hunter2secret") && run.stderr.contains("hunter2secret"), "{}", run.stdout);
}

#[test]
fn reports_for_pull_requests_and_code_scanning_are_well_formed() {
    let dir = dir_with_index();
    dir.write("c.json", r#"{"mcpServers": {"g<b>|x[1](y)\\": {"command": "npx", "args": ["-y", "@example/github"]}, "m": {"command": "uvx", "args": ["mail"]}, "u": {"url": "https://a"}}}"#);
    let run = dir.run(&["stack", "c.json", "--format", "sarif", "--index", "i.glx"]);
    let sarif = json_output(&run);
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let rules: Vec<&str> = results.iter().map(|server| server["ruleId"].as_str().unwrap()).collect();
    assert_eq!(rules, ["destructive-tool", "unknown-server", "lethal-trifecta"]);
    assert!(results[0]["message"]["text"].as_str().unwrap().contains(r"`g<b>|x\[1\](y)\\`"), "{}", results[0]);
    assert!(
        results.iter().all(|server| server["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "c.json")
    );
    let run = dir.run(&["stack", "c.json", "--format", "markdown", "--index", "i.glx"]);
    assert!(run.stdout.contains("g&#60;b&#62;&#124;x") && !run.stdout.contains("<b>"), "{}", run.stdout);
    assert!(run.stdout.contains("Combinations that can leak data") && run.stdout.contains("<details>"));
    let run = dir.run(&["stack", "c.json", "--policies", "p", "--index", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(dir.run(&["policy", "check", "p/m.json"]).code, 0);
}

#[test]
fn versions_are_escaped_in_reports() {
    let dir = dir_with_index();
    dir.write("facts.jsonl", &facts().replace("1.0.0", "1|<b>[x](y)"));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    dir.write("c.json", r#"{"mcpServers": {"m": {"command": "uvx", "args": ["mail==9.1"]}}}"#);
    let run = dir.run(&["stack", "c.json", "--format", "markdown", "--index", "i.glx"]);
    let row = run.stdout.lines().find(|line| line.contains("starts: ")).unwrap_or_else(|| panic!("{}", run.stdout));
    assert!(row.contains("1&#124;&#60;b&#62;") && row.matches('|').count() == 7 && !row.contains("[x](y)"), "{row}");
    let run = dir.run(&["stack", "c.json", "--format", "sarif", "--index", "i.glx"]);
    let text = json_output(&run)["runs"][0]["results"][0]["message"]["text"].clone();
    assert!(text.as_str().unwrap().contains(r"1|<b>\[x\](y)"), "{text}");
}
