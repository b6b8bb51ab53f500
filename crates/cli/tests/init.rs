//! `gatelodge init`: imports servers of realistic client configurations, leaks no secret, and can be undone.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod clients;
mod support;

use std::collections::BTreeSet;
use std::fs;

use clients::{SECRET, mode, read_tree, run_at_terminal, set_mode, write_client_configs, write_file};
use serde_json::Value;
use support::{Run, TestDir};

/// Runs `init` on the directories `home` and `project`.
fn init(dir: &TestDir, args: &[&str]) -> Run {
    let options = ["--home", "home", "--project", "project", "--program", "gatelodge"];
    dir.run(&[&["init"], args, &options].concat())
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).expect("JSON")
}

#[test]
fn without_options_every_server_is_listed_and_nothing_changes() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    let run = init(&dir, &[]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let servers = [
        "github",
        "plain",
        "local-only",
        "team",
        "files",
        "Web API",
        "db",
        "notes",
        "search",
        "wiki",
        "old",
        "maps",
        "clock",
        "shell",
        "sleeping (off)",
        "issues",
        "pictures",
        "aws",
        "lint",
        "mail",
        "diary",
        "find",
    ];
    for server in servers {
        assert!(run.stdout.contains(&format!("  {server} ")), "{server}:\n{}", run.stdout);
    }
    assert!(!run.stdout.contains("not-here"), "servers of another project are not imported");
    assert!(run.stderr.contains("Claude Code has 1 server for `/elsewhere`"), "{}", run.stderr);
    assert!(run.stderr.contains("`--project /elsewhere`"), "{}", run.stderr);
    for name in ["GITHUB_TOKEN", "X-Api-Key", "MAIL_PASSWORD", "npx -y @example/files /srv/notes"] {
        assert!(run.stdout.contains(name), "{name}:\n{}", run.stdout);
    }
    assert!(run.stderr.contains("--all"), "{}", run.stderr);
    assert_eq!(read_tree(&dir), before);
}

#[test]
fn undo_restores_every_file() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    for extra in [&["--all", "--rewrite", "--yes"][..], &["--all", "--rewrite", "--yes", "--copy-secrets"]] {
        let run = init(&dir, extra);
        assert_eq!(run.code, 1, "one server speaks the old transport: {}", run.stderr);
        let after = read_tree(&dir);
        let changed = before.iter().filter(|(name, file)| after[*name] != **file).count();
        assert_eq!(changed, 15, "all files but the YAML: {:?}", run.stderr);
        assert_eq!(init(&dir, &["--all", "--yes"]).code, 2, "a second time is refused");
        assert_eq!(init(&dir, &["--undo"]).code, 2, "there was no confirmation");
        assert_eq!(read_tree(&dir), after);
        let run = init(&dir, &["--undo", "--yes"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(read_tree(&dir), before);
        assert!(!dir.path("tokens").exists() && !dir.path("policies").exists());
    }
    assert_eq!(init(&dir, &["--undo", "--yes"]).code, 2, "there is nothing left to undo");
}

#[test]
fn client_files_point_at_the_gateway_and_keep_everything_else() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let run = init(&dir, &["--all", "--rewrite", "--yes", "--json"]);
    let output = json(&run);
    assert_eq!(output["rewritten"], true);
    assert!(output["by_hand"][0].as_str().expect("a text").contains("extensions:"), "{output}");

    let codex = dir.read("home/.codex/config.toml");
    let expected = "# how I like it\nmodel = \"best\" # always\n\n# my notes\n[mcp_servers.notes]\nstartup_timeout_sec = 20.5 # it is slow\nurl = \"http://127.0.0.1:7420/mcp/notes\"\nbearer_token_env_var = \"GATELODGE_TOKEN_CODEX_NOTES\"\n\n[mcp_servers.search]\nurl = \"http://127.0.0.1:7420/mcp/search\"\nbearer_token_env_var = \"GATELODGE_TOKEN_CODEX_SEARCH\"\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n";
    assert_eq!(codex, expected);
    let windows = dir.read("project/.codex/config.toml");
    assert_eq!(
        windows,
        expected
            .replace("notes", "diary")
            .replace("search", "find")
            .replace("NOTES", "DIARY")
            .replace("SEARCH", "FIND")
            .replace('\n', "\r\n")
    );

    let desktop = dir.read("home/.config/Claude/claude_desktop_config.json");
    let token = dir.path("tokens/claude-desktop-files");
    assert_eq!(mode(&token) & 0o077, 0, "the bridge accepts only a private file");
    let entry = format!(
        "\t\t\"files\": {{\r\n\t\t\t\"command\": \"gatelodge\",\r\n\t\t\t\"args\": [\"bridge\", \"http://127.0.0.1:7420/mcp/files\", \"--token-file\", \"{}\"]\r\n\t\t}},\r\n",
        token.display()
    );
    assert!(desktop.contains(&entry), "{desktop}");
    assert_eq!(desktop.matches('\n').count(), desktop.matches("\r\n").count());

    let zed = dir.read("home/.config/zed/settings.json");
    for expected in
        ["// Zed settings\n//\n{\n  \"theme\": \"One\", // dark\n\n  /* servers */\n", "\"vim_mode\": true,\n}\n"]
    {
        assert!(zed.contains(expected), "{zed}");
    }
    let cline = dir.read("home/.cline/data/settings/cline_mcp_settings.json");
    for expected in [
        "\"alwaysAllow\": [\"ls\"]",
        "\"timeout\": 60",
        "\"sleeping\": { \"command\": \"sleeping\", \"disabled\": true }",
    ] {
        assert!(cline.contains(expected), "{cline}");
    }
    let claude: Value = serde_json::from_str(&dir.read("home/.claude.json")).expect("JSON");
    let project = dir.path("project").display().to_string();
    let local = &claude["projects"][&project]["mcpServers"]["local-only"];
    assert_eq!(local["url"], "http://127.0.0.1:7420/mcp/local-only");
    assert_eq!(claude["projects"]["/elsewhere"]["mcpServers"]["not-here"]["command"], "not-here");
    assert_eq!(mode(&dir.path("home/.claude.json")), 0o600);
    let again = init(&dir, &[]);
    assert!(again.stdout.contains("the gateway"), "a second run recognizes its own entries: {}", again.stdout);
}

#[test]
fn no_secret_is_shown_or_copied() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    let runs = [
        init(&dir, &[]),
        init(&dir, &["--json"]),
        init(&dir, &["--all", "--rewrite"]),
        init(&dir, &["--all", "--rewrite", "--yes"]),
    ];
    for run in &runs {
        assert!(!run.stdout.contains(SECRET) && !run.stderr.contains(SECRET), "{run:?}");
    }
    for (name, (text, mode)) in read_tree(&dir) {
        let has_secret = text.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        let origin = name.strip_suffix(".gatelodge-backup").unwrap_or(&name);
        let had = before
            .get(origin)
            .is_some_and(|(text, _)| text.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
        assert!(!has_secret || had, "{name} has a secret that it did not have");
        let is_ours = !before.contains_key(origin);
        assert!(!is_ours || mode == 0o600, "{name} can be read by others");
        let is_token = text.windows(4).any(|part| part == b"glt_");
        assert!(!is_token || name.starts_with("tokens/"), "{name} has a token");
    }
    let set = runs[3].stdout.lines().find(|line| line.contains("set where the gateway starts")).expect("a line");
    for name in [
        "GITHUB_TOKEN",
        "GITHUB_2_GITHUB_TOKEN",
        "WEB_API_X_API_KEY",
        "MAIL_PASSWORD",
        "DB_PATH",
        "PGPASSWORD",
        "TEAM",
        "WIKI_TOKEN",
    ] {
        assert!(set.contains(name), "{name}: {set}");
    }
}

#[test]
fn secrets_are_copied_only_on_request_and_only_to_one_file() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    write_file(
        &dir,
        "home/.lmstudio/mcp.json",
        format!("{{\"mcpServers\": {{\"k\": {{\"command\": \"k\", \"args\": [\"--token\", \"{SECRET}-arg\"]}}}}}}")
            .as_bytes(),
    );
    let run = init(&dir, &["--servers", "k,github", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains("seems to contain a secret"), "{run:?}");
    assert!(!dir.read("gatelodge.toml").contains("name = \"k\""));
    assert_eq!(init(&dir, &["--undo", "--yes"]).code, 0);

    let run = init(&dir, &["--servers", "k,github", "--yes", "--copy-secrets"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stdout.contains(SECRET) && !run.stderr.contains(SECRET), "{run:?}");
    let env = dir.read("gatelodge.env");
    assert!(env.contains("GITHUB_TOKEN='hunter2secret-github'\n"), "{env}");
    assert!(env.contains("GITHUB_2_GITHUB_TOKEN='hunter2secret-other'\n"), "{env}");
    let config = dir.read("gatelodge.toml");
    assert!(config.contains("hunter2secret-arg") && !config.contains("hunter2secret-github"), "{config}");
    assert_eq!((mode(&dir.path("gatelodge.env")), mode(&dir.path("gatelodge.toml"))), (0o600, 0o600));
    let set = run.stdout.lines().find(|line| line.contains("set where the gateway starts"));
    assert!(set.is_none(), "nothing is left to be set: {set:?}");
    let sourced = dir.run_shell("set -a; . ./gatelodge.env; printf %s \"$GITHUB_2_GITHUB_TOKEN\"");
    assert_eq!(sourced.stdout, "hunter2secret-other");
}

#[test]
fn equal_servers_are_merged_and_clashing_names_get_a_number() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let run = init(&dir, &["--all", "--yes"]);
    let config: toml::Table = toml::from_str(&dir.read("gatelodge.toml")).expect("TOML");
    let names: Vec<&str> = config["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .map(|table| table["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("github")).count(), 2, "{names:?}");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert!(
        names.contains(&"web-api")
            && !names.contains(&"sleeping")
            && !names.contains(&"old")
            && !names.contains(&"here"),
        "{names:?}"
    );
    assert!(run.stderr.contains("`github` is imported as `github-2`"), "{}", run.stderr);
    assert!(run.stderr.contains("`Web API` is imported as `web-api`"), "{}", run.stderr);
    assert!(run.stderr.contains("old in") && run.stderr.contains("deprecated HTTP+SSE transport"), "{}", run.stderr);
    assert!(run.stderr.contains("here in") && run.stderr.contains("only the client can expand"), "{}", run.stderr);
    let labels: BTreeSet<&str> = config["grants"]
        .as_array()
        .expect("grants")
        .iter()
        .map(|table| table["label"].as_str().expect("a label"))
        .collect();
    for label in ["claude-code-github", "claude-desktop-github", "cursor-github-2", "goose-mail"] {
        assert!(labels.contains(label), "{label}: {labels:?}");
    }
    let local = config["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .find(|table| table["name"].as_str() == Some("diary"))
        .expect("it");
    assert_eq!(local["directory"].as_str(), Some(dir.path("project").display().to_string().as_str()));
}

#[test]
fn the_written_configuration_is_valid_and_its_tokens_match() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let run = init(&dir, &["--servers", "plain,wiki,team,diary", "--yes", "--rewrite"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let variables =
        [("TEAM_TOKEN", "a-long-enough-value"), ("WIKI_TOKEN", "another-long-value"), ("NOTES_KEY", "a-third-value")];
    let check = dir.run_with(&variables, &["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert!(run.stdout.ends_with("gatelodge calls --follow\n"), "{}", run.stdout);
    let missing = dir.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert!(missing.code == 1 && missing.stderr.contains("WIKI_TOKEN"), "{}", missing.stderr);
    let policy = dir.run(&["policy", "check", "policies/plain.json"]);
    assert_eq!(policy.code, 0, "{}", policy.stderr);
    assert!(dir.read("policies/plain.json").contains("EVERYTHING IS ALLOWED"));
    assert!(run.stderr.contains("ALLOW EVERYTHING"), "{}", run.stderr);
    let exported = dir.run_shell(". tokens/export.sh; printf %s \"$GATELODGE_TOKEN_GEMINI_WIKI\"");
    assert_eq!(exported.stdout, dir.read("tokens/gemini-wiki").trim());
    assert!(dir.read("home/.gemini/settings.json").contains("Bearer $GATELODGE_TOKEN_GEMINI_WIKI"));
    assert_eq!(mode(&dir.path("tokens")), 0o700);
}

#[test]
fn an_existing_configuration_is_extended_and_restored_by_undo() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let old = "# mine\n[gateway]\nlisten = \"127.0.0.1:99\"\n\n[[servers]]\nname = \"plain\"\nurl = \"https://other.example.com/mcp\"";
    dir.write("gatelodge.toml", old);
    set_mode(&dir.path("gatelodge.toml"), 0o640);
    let run = init(&dir, &["--servers", "plain", "--yes", "--rewrite"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let new = dir.read("gatelodge.toml");
    assert!(new.starts_with(old) && new.contains("name = \"plain-2\""), "{new}");
    assert!(dir.read("home/.claude.json").contains("http://127.0.0.1:99/mcp/plain-2"));
    assert_eq!(mode(&dir.path("gatelodge.toml")), 0o640);
    assert_eq!(init(&dir, &["--undo", "--yes"]).code, 0);
    assert_eq!(dir.read("gatelodge.toml"), old);
    init(&dir, &["--servers", "plain", "--yes"]);
    let changed = format!("{}# more of mine\n", dir.read("gatelodge.toml"));
    dir.write("gatelodge.toml", &changed);
    assert_eq!(init(&dir, &["--undo", "--yes", "--force"]).code, 0);
    assert_eq!(dir.read("gatelodge.toml"), changed);
    assert_eq!(dir.read("gatelodge.toml.gatelodge-backup"), old);
    dir.write("gatelodge.toml", "not toml");
    let run = init(&dir, &["--servers", "plain", "--yes"]);
    assert!(run.code == 2 && run.stderr.contains("not TOML"), "{run:?}");
}

#[test]
fn unusable_files_are_reported_and_the_others_are_rewritten() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    write_file(&dir, "home/.cursor/mcp.json", format!("{{ \"mcpServers\": {SECRET} }}").as_bytes());
    write_file(&dir, "home/.gemini/settings.json", b"{\"a\": \"\xff\"}");
    write_file(&dir, "home/.kiro/settings/mcp.json", &vec![b' '; 16 * 1024 * 1024 + 1]);
    fs::remove_file(dir.path("home/.config/crush/crush.json")).expect("a file");
    fs::create_dir_all(dir.path("home/.config/crush/crush.json")).expect("a directory");
    write_file(&dir, "home/.config/goose/config.yaml", b"extensions: [");
    set_mode(&dir.path("home/.codex/config.toml"), 0o444);
    let before = read_tree(&dir);
    let run = init(&dir, &["--all", "--rewrite", "--yes"]);
    assert_eq!(run.code, 1);
    for (file, message) in [
        (".cursor/mcp.json", "line 1"),
        (".gemini/settings.json", "not UTF-8"),
        (".kiro/settings/mcp.json", "larger than 16 MiB"),
        ("crush/crush.json", "directory"),
        ("goose/config.yaml", "line"),
        (".codex/config.toml", "read-only"),
    ] {
        let line = run.stderr.lines().find(|line| line.contains(file) && line.contains(message));
        assert!(line.is_some(), "{file}, {message}:\n{}", run.stderr);
    }
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    let after = read_tree(&dir);
    for name in ["home/.cursor/mcp.json", "home/.gemini/settings.json", "home/.codex/config.toml"] {
        assert_eq!(after[name], before[name], "{name}");
        assert!(!after.contains_key(&format!("{name}.gatelodge-backup")), "{name}");
    }
    assert!(
        dir.read("home/.claude.json").contains("http://127.0.0.1:7420/mcp/github"),
        "the other clients are rewritten"
    );
    assert_eq!(init(&dir, &["--undo", "--yes"]).code, 0);
    assert_eq!(read_tree(&dir), before);
}

#[test]
fn a_file_that_changes_during_the_prompt_is_skipped() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    let file = "home/.kiro/settings/mcp.json";
    let path = dir.path(file).display().to_string();
    let args = ["init", "--servers", "aws,github", "--rewrite", "--home", "home", "--project", "project"];
    let (code, output) = run_at_terminal(&dir, &path, &args);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("mcp.json: it was changed in the meantime"), "{output}");
    assert_eq!(dir.read(file), "{\"mine\": 1}");
    assert!(!dir.path(&format!("{file}.gatelodge-backup")).exists());
    assert!(dir.read("home/.claude.json").contains("/mcp/github"), "the other clients are rewritten");
    assert_eq!(init(&dir, &["--undo", "--yes"]).code, 0);
    write_file(&dir, file, &before[file].0);
    assert_eq!(read_tree(&dir), before);
}

#[test]
fn if_the_configuration_cannot_be_written_nothing_is_left() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    std::os::unix::fs::symlink("nowhere/at/all", dir.path("policies")).expect("a link");
    let run = init(&dir, &["--all", "--rewrite", "--yes"]);
    assert!(run.code == 2 && run.stderr.contains("nothing was written"), "{run:?}");
    fs::remove_file(dir.path("policies")).expect("the link");
    assert_eq!(read_tree(&dir), before);
    assert!(!dir.path("tokens").exists());
}

#[test]
fn undo_refuses_files_that_were_edited_since_unless_forced() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    init(&dir, &["--all", "--rewrite", "--yes"]);
    // Claude Code updates its file at every start.
    let file = "home/.claude.json";
    let text = dir.read(file).replace("\"numStartups\": 41", "\"numStartups\": 42");
    write_file(&dir, file, text.as_bytes());
    // A person tightened a policy.
    write_file(&dir, "policies/github.json", b"{\"mine\": 1}");
    let changed = read_tree(&dir);
    let run = init(&dir, &["--undo", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains(".claude.json: changed since"), "{run:?}");
    assert_eq!(read_tree(&dir), changed, "nothing was reverted");
    let run = init(&dir, &["--undo", "--yes", "--force"]);
    assert!(run.code == 0 && run.stderr.contains("policies/github.json: changed, so it is kept"), "{run:?}");
    let (mut after, mut before) = (read_tree(&dir), before);
    assert_eq!(after.remove("policies/github.json").expect("the policy").0, b"{\"mine\": 1}");
    let json =
        |file: Option<(Vec<u8>, u32)>| serde_json::from_slice::<Value>(&file.expect("the file").0).expect("JSON");
    let (after_json, mut expected) = (json(after.remove(file)), json(before.remove(file)));
    expected["numStartups"] = 42.into();
    assert_eq!(after_json, expected, "our entries are reverted, and the edit stays");
    assert_eq!(after, before);
}

#[test]
fn undo_reverts_an_interrupted_init() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    init(&dir, &["--all", "--rewrite", "--yes"]);
    // The state after a kill: one client file and `gatelodge.toml` are not written yet.
    let file = "home/.kiro/settings/mcp.json";
    write_file(&dir, file, &before[file].0);
    fs::remove_file(dir.path("gatelodge.toml")).expect("the file");
    let run = init(&dir, &["--undo", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(read_tree(&dir), before);
}

#[test]
fn a_missing_program_is_reported_and_its_server_imported_unchanged() {
    let dir = TestDir::new();
    let servers = r#"{"mcpServers": {"gone": {"command": "/no/such/program"}, "lost": {"command": "no-such-program"},
        "here": {"command": "sh", "args": ["-c", "true"]}}}"#;
    write_file(&dir, "home/.cursor/mcp.json", servers.as_bytes());
    let run = init(&dir, &["--all", "--rewrite", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("there is no program `/no/such/program`"), "{}", run.stderr);
    assert!(run.stderr.contains("there is no program `no-such-program` on `PATH`"), "{}", run.stderr);
    assert_eq!(run.stderr.matches("there is no program").count(), 2, "{}", run.stderr);
    assert!(dir.read("gatelodge.toml").contains(r#"command = ["/no/such/program"]"#));
    assert_eq!(init(&dir, &["--undo", "--yes"]).code, 0);
    assert_eq!(dir.read("home/.cursor/mcp.json"), servers);
}

#[test]
fn an_existing_policy_file_is_kept_and_nothing_is_written() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    write_file(&dir, "policies/plain.json", b"{\"mine\": 1}");
    let before = read_tree(&dir);
    let run = init(&dir, &["--servers", "plain", "--yes", "--rewrite"]);
    assert!(run.code == 2 && run.stderr.contains("policies/plain.json"), "{run:?}");
    assert_eq!(read_tree(&dir), before);
    let run = init(&dir, &["--servers", "plian", "--yes"]);
    assert!(run.code == 2 && run.stderr.contains("plain"), "{run:?}");
    let run = init(&dir, &["--clients", "curser"]);
    assert!(run.code == 2 && run.stderr.contains("cursor"), "{run:?}");
    let run = init(&dir, &["--clients", "cursor", "--json"]);
    assert_eq!(json(&run)["found"].as_array().expect("a list").len(), 2);
}
