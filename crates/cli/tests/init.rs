//! `gatelodge init`: servers of real-looking clients go behind the gateway, no secret goes anywhere, and all of it can be
//! taken back.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod clients;
mod support;

use std::collections::BTreeSet;
use std::fs;

use clients::{SECRET, at_terminal, furnish, mode, put, set_mode, tree};
use serde_json::Value;
use support::{House, Run, house};

/// Looks at the folders `home` and `project`.
fn init(house: &House, args: &[&str]) -> Run {
    let around = ["--home", "home", "--project", "project", "--program", "gatelodge"];
    house.run(&[&["init"], args, &around].concat())
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).expect("JSON")
}

#[test]
fn looking_shows_every_server_and_changes_nothing() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    let run = init(&house, &[]);
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
    assert!(!run.stdout.contains("not-here"), "another folder's servers are not ours");
    assert!(run.stderr.contains("Claude Code has 1 server for `/elsewhere`"), "{}", run.stderr);
    assert!(run.stderr.contains("`--project /elsewhere`"), "{}", run.stderr);
    for name in ["GITHUB_TOKEN", "X-Api-Key", "MAIL_PASSWORD", "npx -y @example/files /srv/notes"] {
        assert!(run.stdout.contains(name), "{name}:\n{}", run.stdout);
    }
    assert!(run.stderr.contains("--all"), "{}", run.stderr);
    assert_eq!(tree(&house), before);
}

#[test]
fn after_undo_every_file_is_as_it_was() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    for extra in [&["--all", "--rewrite", "--yes"][..], &["--all", "--rewrite", "--yes", "--copy-secrets"]] {
        let run = init(&house, extra);
        assert_eq!(run.code, 1, "one server speaks the old transport: {}", run.stderr);
        let after = tree(&house);
        let changed = before.iter().filter(|(name, file)| after[*name] != **file).count();
        assert_eq!(changed, 15, "all files but the YAML: {:?}", run.stderr);
        assert_eq!(init(&house, &["--all", "--yes"]).code, 2, "a second time is refused");
        assert_eq!(init(&house, &["--undo"]).code, 2, "nobody said yes");
        assert_eq!(tree(&house), after);
        let run = init(&house, &["--undo", "--yes"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(tree(&house), before);
        assert!(!house.path("tokens").exists() && !house.path("policies").exists());
    }
    assert_eq!(init(&house, &["--undo", "--yes"]).code, 2, "there is nothing left to take back");
}

#[test]
fn the_clients_reach_the_gateway_and_their_files_keep_everything_else() {
    let house = house();
    furnish(&house);
    let run = init(&house, &["--all", "--rewrite", "--yes", "--json"]);
    let told = json(&run);
    assert_eq!(told["rewritten"], true);
    assert!(told["by_hand"][0].as_str().expect("a text").contains("extensions:"), "{told}");

    let codex = house.read("home/.codex/config.toml");
    let expected = "# how I like it\nmodel = \"best\" # always\n\n# my notes\n[mcp_servers.notes]\nstartup_timeout_sec = 20.5 # it is slow\nurl = \"http://127.0.0.1:7420/mcp/notes\"\nbearer_token_env_var = \"GATELODGE_TOKEN_CODEX_NOTES\"\n\n[mcp_servers.search]\nurl = \"http://127.0.0.1:7420/mcp/search\"\nbearer_token_env_var = \"GATELODGE_TOKEN_CODEX_SEARCH\"\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n";
    assert_eq!(codex, expected);
    let windows = house.read("project/.codex/config.toml");
    assert_eq!(
        windows,
        expected
            .replace("notes", "diary")
            .replace("search", "find")
            .replace("NOTES", "DIARY")
            .replace("SEARCH", "FIND")
            .replace('\n', "\r\n")
    );

    let desktop = house.read("home/.config/Claude/claude_desktop_config.json");
    let token = house.path("tokens/claude-desktop-files");
    assert_eq!(mode(&token) & 0o077, 0, "the bridge takes no other");
    let entry = format!(
        "\t\t\"files\": {{\r\n\t\t\t\"command\": \"gatelodge\",\r\n\t\t\t\"args\": [\"bridge\", \"http://127.0.0.1:7420/mcp/files\", \"--token-file\", \"{}\"]\r\n\t\t}},\r\n",
        token.display()
    );
    assert!(desktop.contains(&entry), "{desktop}");
    assert_eq!(desktop.matches('\n').count(), desktop.matches("\r\n").count());

    let zed = house.read("home/.config/zed/settings.json");
    for kept in
        ["// Zed settings\n//\n{\n  \"theme\": \"One\", // dark\n\n  /* servers */\n", "\"vim_mode\": true,\n}\n"]
    {
        assert!(zed.contains(kept), "{zed}");
    }
    let cline = house.read("home/.cline/data/settings/cline_mcp_settings.json");
    for kept in [
        "\"alwaysAllow\": [\"ls\"]",
        "\"timeout\": 60",
        "\"sleeping\": { \"command\": \"sleeping\", \"disabled\": true }",
    ] {
        assert!(cline.contains(kept), "{cline}");
    }
    let claude: Value = serde_json::from_str(&house.read("home/.claude.json")).expect("JSON");
    let project = house.path("project").display().to_string();
    let local = &claude["projects"][&project]["mcpServers"]["local-only"];
    assert_eq!(local["url"], "http://127.0.0.1:7420/mcp/local-only");
    assert_eq!(claude["projects"]["/elsewhere"]["mcpServers"]["not-here"]["command"], "not-here");
    assert_eq!(mode(&house.path("home/.claude.json")), 0o600);
    let again = init(&house, &[]);
    assert!(again.stdout.contains("the gateway"), "a second look knows its own: {}", again.stdout);
}

#[test]
fn no_secret_is_shown_or_copied() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    let runs = [
        init(&house, &[]),
        init(&house, &["--json"]),
        init(&house, &["--all", "--rewrite"]),
        init(&house, &["--all", "--rewrite", "--yes"]),
    ];
    for run in &runs {
        assert!(!run.stdout.contains(SECRET) && !run.stderr.contains(SECRET), "{run:?}");
    }
    for (name, (text, mode)) in tree(&house) {
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
fn secrets_are_copied_only_when_asked_and_only_to_one_file() {
    let house = house();
    furnish(&house);
    put(
        &house,
        "home/.lmstudio/mcp.json",
        format!("{{\"mcpServers\": {{\"k\": {{\"command\": \"k\", \"args\": [\"--token\", \"{SECRET}-arg\"]}}}}}}")
            .as_bytes(),
    );
    let run = init(&house, &["--servers", "k,github", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains("seems to contain a secret"), "{run:?}");
    assert!(!house.read("gatelodge.toml").contains("name = \"k\""));
    assert_eq!(init(&house, &["--undo", "--yes"]).code, 0);

    let run = init(&house, &["--servers", "k,github", "--yes", "--copy-secrets"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stdout.contains(SECRET) && !run.stderr.contains(SECRET), "{run:?}");
    let env = house.read("gatelodge.env");
    assert!(env.contains("GITHUB_TOKEN='hunter2secret-github'\n"), "{env}");
    assert!(env.contains("GITHUB_2_GITHUB_TOKEN='hunter2secret-other'\n"), "{env}");
    let config = house.read("gatelodge.toml");
    assert!(config.contains("hunter2secret-arg") && !config.contains("hunter2secret-github"), "{config}");
    assert_eq!((mode(&house.path("gatelodge.env")), mode(&house.path("gatelodge.toml"))), (0o600, 0o600));
    let set = run.stdout.lines().find(|line| line.contains("set where the gateway starts"));
    assert!(set.is_none(), "nothing is left to be set: {set:?}");
    let sourced = house.paste("set -a; . ./gatelodge.env; printf %s \"$GITHUB_2_GITHUB_TOKEN\"");
    assert_eq!(sourced.stdout, "hunter2secret-other");
}

#[test]
fn servers_that_are_the_same_become_one_and_names_that_clash_get_a_number() {
    let house = house();
    furnish(&house);
    let run = init(&house, &["--all", "--yes"]);
    let config: toml::Table = toml::from_str(&house.read("gatelodge.toml")).expect("TOML");
    let names: Vec<&str> = config["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .map(|one| one["name"].as_str().expect("a name"))
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
        .map(|one| one["label"].as_str().expect("a label"))
        .collect();
    for label in ["claude-code-github", "claude-desktop-github", "cursor-github-2", "goose-mail"] {
        assert!(labels.contains(label), "{label}: {labels:?}");
    }
    let local = config["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .find(|one| one["name"].as_str() == Some("diary"))
        .expect("it");
    assert_eq!(local["directory"].as_str(), Some(house.path("project").display().to_string().as_str()));
}

#[test]
fn what_is_written_can_be_served_and_its_tokens_open_it() {
    let house = house();
    furnish(&house);
    let run = init(&house, &["--servers", "plain,wiki,team,diary", "--yes", "--rewrite"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let variables =
        [("TEAM_TOKEN", "a-long-enough-value"), ("WIKI_TOKEN", "another-long-value"), ("NOTES_KEY", "a-third-value")];
    let check = house.run_with(&variables, &["serve", "--check", "--config", "gatelodge.toml"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert!(run.stdout.ends_with("gatelodge calls --follow\n"), "{}", run.stdout);
    let missing = house.run(&["serve", "--check", "--config", "gatelodge.toml"]);
    assert!(missing.code == 1 && missing.stderr.contains("WIKI_TOKEN"), "{}", missing.stderr);
    let policy = house.run(&["policy", "check", "policies/plain.json"]);
    assert_eq!(policy.code, 0, "{}", policy.stderr);
    assert!(house.read("policies/plain.json").contains("EVERYTHING IS ALLOWED"));
    assert!(run.stderr.contains("ALLOW EVERYTHING"), "{}", run.stderr);
    let exported = house.paste(". tokens/export.sh; printf %s \"$GATELODGE_TOKEN_GEMINI_WIKI\"");
    assert_eq!(exported.stdout, house.read("tokens/gemini-wiki").trim());
    assert!(house.read("home/.gemini/settings.json").contains("Bearer $GATELODGE_TOKEN_GEMINI_WIKI"));
    assert_eq!(mode(&house.path("tokens")), 0o700);
}

#[test]
fn a_configuration_that_is_there_is_added_to_and_comes_back() {
    let house = house();
    furnish(&house);
    let old = "# mine\n[gateway]\nlisten = \"127.0.0.1:99\"\n\n[[servers]]\nname = \"plain\"\nurl = \"https://other.example.com/mcp\"";
    house.write("gatelodge.toml", old);
    set_mode(&house.path("gatelodge.toml"), 0o640);
    let run = init(&house, &["--servers", "plain", "--yes", "--rewrite"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let new = house.read("gatelodge.toml");
    assert!(new.starts_with(old) && new.contains("name = \"plain-2\""), "{new}");
    assert!(house.read("home/.claude.json").contains("http://127.0.0.1:99/mcp/plain-2"));
    assert_eq!(mode(&house.path("gatelodge.toml")), 0o640);
    assert_eq!(init(&house, &["--undo", "--yes"]).code, 0);
    assert_eq!(house.read("gatelodge.toml"), old);
    init(&house, &["--servers", "plain", "--yes"]);
    let changed = format!("{}# more of mine\n", house.read("gatelodge.toml"));
    house.write("gatelodge.toml", &changed);
    assert_eq!(init(&house, &["--undo", "--yes", "--force"]).code, 0);
    assert_eq!(house.read("gatelodge.toml"), changed);
    assert_eq!(house.read("gatelodge.toml.gatelodge-backup"), old);
    house.write("gatelodge.toml", "not toml");
    let run = init(&house, &["--servers", "plain", "--yes"]);
    assert!(run.code == 2 && run.stderr.contains("not TOML"), "{run:?}");
}

#[test]
fn files_that_cannot_be_used_are_told_each_and_the_others_go_on() {
    let house = house();
    furnish(&house);
    put(&house, "home/.cursor/mcp.json", format!("{{ \"mcpServers\": {SECRET} }}").as_bytes());
    put(&house, "home/.gemini/settings.json", b"{\"a\": \"\xff\"}");
    put(&house, "home/.kiro/settings/mcp.json", &vec![b' '; 16 * 1024 * 1024 + 1]);
    fs::remove_file(house.path("home/.config/crush/crush.json")).expect("a file");
    fs::create_dir_all(house.path("home/.config/crush/crush.json")).expect("a folder");
    put(&house, "home/.config/goose/config.yaml", b"extensions: [");
    set_mode(&house.path("home/.codex/config.toml"), 0o444);
    let before = tree(&house);
    let run = init(&house, &["--all", "--rewrite", "--yes"]);
    assert_eq!(run.code, 1);
    for (file, told) in [
        (".cursor/mcp.json", "line 1"),
        (".gemini/settings.json", "not UTF-8"),
        (".kiro/settings/mcp.json", "larger than 16 MiB"),
        ("crush/crush.json", "directory"),
        ("goose/config.yaml", "line"),
        (".codex/config.toml", "read-only"),
    ] {
        let line = run.stderr.lines().find(|line| line.contains(file) && line.contains(told));
        assert!(line.is_some(), "{file}, {told}:\n{}", run.stderr);
    }
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    let after = tree(&house);
    for name in ["home/.cursor/mcp.json", "home/.gemini/settings.json", "home/.codex/config.toml"] {
        assert_eq!(after[name], before[name], "{name}");
        assert!(!after.contains_key(&format!("{name}.gatelodge-backup")), "{name}");
    }
    assert!(house.read("home/.claude.json").contains("http://127.0.0.1:7420/mcp/github"), "the others went on");
    assert_eq!(init(&house, &["--undo", "--yes"]).code, 0);
    assert_eq!(tree(&house), before);
}

#[test]
fn a_file_that_changes_while_the_person_thinks_is_left_and_the_others_go_on() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    let file = "home/.kiro/settings/mcp.json";
    let path = house.path(file).display().to_string();
    let args = ["init", "--servers", "aws,github", "--rewrite", "--home", "home", "--project", "project"];
    let (code, told) = at_terminal(&house, &path, &args);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("mcp.json: it was changed in the meantime"), "{told}");
    assert_eq!(house.read(file), "{\"mine\": 1}");
    assert!(!house.path(&format!("{file}.gatelodge-backup")).exists());
    assert!(house.read("home/.claude.json").contains("/mcp/github"), "the others went on");
    assert_eq!(init(&house, &["--undo", "--yes"]).code, 0);
    put(&house, file, &before[file].0);
    assert_eq!(tree(&house), before);
}

#[test]
fn if_our_own_files_cannot_be_written_nothing_stays() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    std::os::unix::fs::symlink("nowhere/at/all", house.path("policies")).expect("a link");
    let run = init(&house, &["--all", "--rewrite", "--yes"]);
    assert!(run.code == 2 && run.stderr.contains("nothing was written"), "{run:?}");
    fs::remove_file(house.path("policies")).expect("the link");
    assert_eq!(tree(&house), before);
    assert!(!house.path("tokens").exists());
}

#[test]
fn what_somebody_changed_since_is_not_taken_back_unawares() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    init(&house, &["--all", "--rewrite", "--yes"]);
    // Claude Code writes to its own file all day.
    let file = "home/.claude.json";
    let text = house.read(file).replace("\"numStartups\": 41", "\"numStartups\": 42");
    put(&house, file, text.as_bytes());
    // And a person has tightened a policy.
    put(&house, "policies/github.json", b"{\"mine\": 1}");
    let changed = tree(&house);
    let run = init(&house, &["--undo", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains(".claude.json: changed since"), "{run:?}");
    assert_eq!(tree(&house), changed, "nothing at all was taken back");
    let run = init(&house, &["--undo", "--yes", "--force"]);
    assert!(run.code == 0 && run.stderr.contains("policies/github.json: changed, so it is kept"), "{run:?}");
    let (mut after, mut before) = (tree(&house), before);
    assert_eq!(after.remove("policies/github.json").expect("the policy").0, b"{\"mine\": 1}");
    let json =
        |file: Option<(Vec<u8>, u32)>| serde_json::from_slice::<Value>(&file.expect("the file").0).expect("JSON");
    let (after_json, mut expected) = (json(after.remove(file)), json(before.remove(file)));
    expected["numStartups"] = 42.into();
    assert_eq!(after_json, expected, "our entries are taken back, and the change stays");
    assert_eq!(after, before);
}

#[test]
fn an_init_that_was_cut_off_is_taken_back_too() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    init(&house, &["--all", "--rewrite", "--yes"]);
    // As if it had died before the last client, and before its last own file.
    let file = "home/.kiro/settings/mcp.json";
    put(&house, file, &before[file].0);
    fs::remove_file(house.path("gatelodge.toml")).expect("the file");
    let run = init(&house, &["--undo", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(tree(&house), before);
}

#[test]
fn a_program_that_is_not_there_is_named_and_its_server_is_taken_over_as_it_is() {
    let house = house();
    let servers = r#"{"mcpServers": {"gone": {"command": "/no/such/program"}, "lost": {"command": "no-such-program"},
        "here": {"command": "sh", "args": ["-c", "true"]}}}"#;
    put(&house, "home/.cursor/mcp.json", servers.as_bytes());
    let run = init(&house, &["--all", "--rewrite", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("there is no program `/no/such/program`"), "{}", run.stderr);
    assert!(run.stderr.contains("there is no program `no-such-program` on `PATH`"), "{}", run.stderr);
    assert_eq!(run.stderr.matches("there is no program").count(), 2, "{}", run.stderr);
    assert!(house.read("gatelodge.toml").contains(r#"command = ["/no/such/program"]"#));
    assert_eq!(init(&house, &["--undo", "--yes"]).code, 0);
    assert_eq!(house.read("home/.cursor/mcp.json"), servers);
}

#[test]
fn what_is_in_the_way_is_kept_and_nothing_is_written() {
    let house = house();
    furnish(&house);
    put(&house, "policies/plain.json", b"{\"mine\": 1}");
    let before = tree(&house);
    let run = init(&house, &["--servers", "plain", "--yes", "--rewrite"]);
    assert!(run.code == 2 && run.stderr.contains("policies/plain.json"), "{run:?}");
    assert_eq!(tree(&house), before);
    let run = init(&house, &["--servers", "plian", "--yes"]);
    assert!(run.code == 2 && run.stderr.contains("plain"), "{run:?}");
    let run = init(&house, &["--clients", "curser"]);
    assert!(run.code == 2 && run.stderr.contains("cursor"), "{run:?}");
    let run = init(&house, &["--clients", "cursor", "--json"]);
    assert_eq!(json(&run)["found"].as_array().expect("a list").len(), 2);
}
