//! `stack`: what clients are configured with, in each form of the report.

use serde_json::{Value, json};

use super::clients::{SECRET, furnish};
use super::{facts, package, stack, told, tool, with_index};

#[test]
fn servers_that_leak_together_reach_fail_on_and_a_folder_that_is_not_there_is_an_error() {
    let house = with_index();
    let mild = package("pypi", "inbox", &[tool("read_inbox", "Read", &["reads_private", "reads_untrusted"])]);
    house.write("facts.jsonl", &[facts(), mild].join("\n"));
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    let entry = |name: &str| format!(r#""{name}": {{"command": "uvx", "args": ["{name}"]}}"#);
    house.write("both.json", &format!("{{\"mcpServers\": {{{}, {}}}}}", entry("inbox"), entry("mail")));
    house.write("one.json", &format!("{{\"mcpServers\": {{{}}}}}", entry("inbox")));
    let run = house.run(&["stack", "both.json", "--fail-on", "critical", "--index", "i.glx"]);
    assert!(run.code == 1 && run.stderr.contains("reaches Critical because of a leak"), "{}", run.stderr);
    assert_eq!(house.run(&["stack", "one.json", "--fail-on", "medium", "--index", "i.glx"]).code, 0);
    for option in ["--project", "--home"] {
        let run = house.run(&["stack", option, "nowhere", "--index", "i.glx"]);
        assert!(run.code == 2 && run.stderr.contains("there is no folder `nowhere`"), "{}", run.stderr);
    }
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
            run.code == 1 && run.stderr.contains("name the client with `--client`"),
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
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
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
fn a_report_does_not_say_where_an_index_lies_that_cannot_be_used() {
    let house = with_index();
    house.write("c.json", r#"{"mcpServers": {}}"#);
    house.write("hunter2secret.glx", "no index");
    let run = house.run(&["stack", "c.json", "--format", "sarif", "--index", "hunter2secret.glx"]);
    let notes = &told(&run)["runs"][0]["invocations"][0]["toolExecutionNotifications"];
    assert!(notes[0]["message"]["text"].as_str().is_some_and(|text| text.contains("package index")), "{notes}");
    assert!(!run.stdout.contains("hunter2secret") && run.stderr.contains("hunter2secret"), "{}", run.stdout);
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
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    house.write("c.json", r#"{"mcpServers": {"m": {"command": "uvx", "args": ["mail==9.1"]}}}"#);
    let run = house.run(&["stack", "c.json", "--format", "markdown", "--index", "i.glx"]);
    let row = run.stdout.lines().find(|line| line.contains("starts: ")).unwrap_or_else(|| panic!("{}", run.stdout));
    assert!(row.contains("1&#124;&#60;b&#62;") && row.matches('|').count() == 7 && !row.contains("[x](y)"), "{row}");
    let run = house.run(&["stack", "c.json", "--format", "sarif", "--index", "i.glx"]);
    let text = told(&run)["runs"][0]["results"][0]["message"]["text"].clone();
    assert!(text.as_str().unwrap().contains(r"1|<b>\[x\](y)"), "{text}");
}
