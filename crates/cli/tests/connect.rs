//! `gatelodge connect`: the printed entry for each client, and atomic edits of client configuration files.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking"
)]

mod clients;
mod support;

use std::fs;
use std::process::{Command, Stdio};

use clients::{SECRET, mode, read_tree, run_at_terminal, set_mode, write_client_configs, write_file};
use serde_json::Value;
use support::{Run, TestDir, wait_until};

const CLIENTS: &[&str] = &[
    "claude-code",
    "claude-code-project",
    "claude-desktop",
    "cursor",
    "vscode",
    "codex",
    "gemini",
    "windsurf",
    "zed",
    "junie",
    "goose",
    "librechat",
    "open-webui",
    "cline",
    "roo",
    "continue",
    "opencode",
    "lm-studio",
    "kiro",
    "crush",
    "anthropic-api",
    "openai-api",
];

/// Runs `connect` with the client files in `home`.
fn connect(dir: &TestDir, args: &[&str]) -> Run {
    let options = ["--home", "home", "--data", "data", "--program", "gatelodge"];
    dir.run(&[&["connect"], args, &options].concat())
}

/// `GATELODGE_GOLDEN=write cargo test --test connect` rewrites the golden files.
#[test]
fn every_client_gets_the_entry_of_its_golden_file() {
    let dir = TestDir::new();
    let golden_dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/connect");
    let is_writing = std::env::var_os("GATELODGE_GOLDEN").is_some();
    for client in CLIENTS {
        let public = client.ends_with("-api");
        let url = if public { "https://gate.example.com/mcp/books" } else { "http://127.0.0.1:7420/mcp/books" };
        let run = connect(&dir, &[client, "--url", url]);
        assert_eq!(run.code, 0, "{client}: {}", run.stderr);
        let output = run.stderr.replace(&dir.path("").display().to_string(), "…/");
        let found = format!("{}--- stderr:\n{output}", run.stdout);
        let file = format!("{golden_dir}/{client}.txt");
        if is_writing {
            fs::write(&file, &found).expect("a golden file");
        }
        assert!(fs::read_to_string(&file).unwrap_or_default() == found, "{client} is not as its golden file:\n{found}");
    }
    let golden_count = fs::read_dir(golden_dir).expect("golden files").count();
    assert_eq!(golden_count, CLIENTS.len(), "a golden file for each client, and no other");
    let help = dir.run(&["connect", "--help"]).stdout;
    assert!(CLIENTS.iter().all(|client| help.contains(client)), "{help}");
    assert!(read_tree(&dir).is_empty(), "printing writes nothing");
}

#[test]
fn json_output_has_the_entry_and_the_install_link() {
    let dir = TestDir::new();
    let run = connect(&dir, &["cursor", "--url", "http://127.0.0.1:1/mcp/books", "--token-env", "KEY", "--json"]);
    let output: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(output["entry"]["headers"]["Authorization"], "Bearer ${env:KEY}");
    assert_eq!((output["client"].as_str(), output["token_env"].as_str()), (Some("cursor"), Some("KEY")));
    assert!(output["install"].as_str().expect("a link").starts_with("cursor://"));
}

#[test]
fn without_yes_and_terminal_nothing_is_written() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    let run = connect(&dir, &["cursor", "--server", "github", "--write"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("- {") && run.stderr.contains("+ {"), "the change is shown: {}", run.stderr);
    assert!(
        run.stderr.contains("no terminal") && run.stderr.contains("`--yes`") && !run.stderr.contains("above"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    assert_eq!(read_tree(&dir), before);
}

#[test]
fn an_entry_is_replaced_and_the_rest_of_the_file_stays() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    let run = connect(&dir, &["cursor", "--server", "github", "--write", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let expected = "\u{feff}{\n    // my servers\n    \"mcpServers\": {\n        \"github\": {\n            \"url\": \"http://127.0.0.1:7420/mcp/github\",\n            \"headers\": {\n                \"Authorization\": \"Bearer ${env:GATELODGE_TOKEN}\",\n            },\n        },\n        \"Web API\": { \"url\": \"https://web.example.com/mcp\", \"headers\": { \"X-Api-Key\": \"hunter2secret-web\", \"X-Team\": \"${env:TEAM}\" } }, // mine\n    },\n}\n";
    assert_eq!(dir.read("home/.cursor/mcp.json"), expected);
    let run = connect(&dir, &["cursor", "--undo", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(read_tree(&dir), before);
}

#[test]
fn backups_are_numbered_and_undo_reverts_one_change_at_a_time() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    let file = "home/.claude.json";
    for server in ["one", "two"] {
        let run = connect(&dir, &["claude-code", "--server", server, "--write", "--yes"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    for backup in ["home/.claude.json.gatelodge-backup", "home/.claude.json.gatelodge-backup-2"] {
        assert_eq!(mode(&dir.path(backup)), 0o600);
    }
    assert_eq!(dir.read("home/.claude.json.gatelodge-backup").into_bytes(), before[file].0);
    assert_eq!(mode(&dir.path(file)), 0o600);
    let again = connect(&dir, &["claude-code", "--server", "two", "--write", "--yes"]);
    assert!(again.stderr.contains("is already up to date"), "{}", again.stderr);
    for _ in 0..2 {
        assert_eq!(connect(&dir, &["claude-code", "--undo", "--yes"]).code, 0);
    }
    assert_eq!(read_tree(&dir), before);
    assert_eq!(connect(&dir, &["claude-code", "--undo", "--yes"]).code, 2, "there is nothing left to undo");
}

#[test]
fn a_new_file_is_private_and_undo_removes_it() {
    let dir = TestDir::new();
    let run = connect(&dir, &["codex", "--server", "books", "--write", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let file = dir.path("home/.codex/config.toml");
    assert_eq!(mode(&file), 0o600);
    let text =
        "[mcp_servers.books]\nurl = \"http://127.0.0.1:7420/mcp/books\"\nbearer_token_env_var = \"GATELODGE_TOKEN\"\n";
    assert_eq!(fs::read_to_string(&file).expect("the file"), text);
    assert_eq!(connect(&dir, &["codex", "--undo", "--yes"]).code, 0);
    assert!(read_tree(&dir).is_empty());
}

#[test]
fn undo_refuses_a_file_that_was_edited_since_unless_forced() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    connect(&dir, &["kiro", "--server", "aws", "--write", "--yes"]);
    let file = "home/.kiro/settings/mcp.json";
    write_file(&dir, file, dir.read(file).replace("{ \"mcpServers\"", "{ \"mine\": 1, \"mcpServers\"").as_bytes());
    let changed = read_tree(&dir);
    let run = connect(&dir, &["kiro", "--undo", "--yes"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("changed since"), "{}", run.stderr);
    assert_eq!(read_tree(&dir), changed);
    assert_eq!(connect(&dir, &["kiro", "--undo", "--yes", "--force"]).code, 0);
    let now: Value = serde_json::from_str(&dir.read(file)).expect("JSON");
    let mut expected: Value = serde_json::from_slice(&before[file].0).expect("JSON");
    expected["mine"] = 1.into();
    assert_eq!(now, expected, "our entry is reverted, and the edit stays");
    assert!(read_tree(&dir).keys().eq(before.keys()));

    connect(&dir, &["codex", "--server", "new", "--write", "--yes"]);
    write_file(&dir, "home/.codex/config.toml", format!("{}x = 1\n", dir.read("home/.codex/config.toml")).as_bytes());
    assert_eq!(connect(&dir, &["codex", "--undo", "--yes", "--force"]).code, 0);
    let now = dir.read("home/.codex/config.toml");
    assert!(now.contains("[mcp_servers.notes]") && !now.contains("/mcp/new"), "{now}");
    write_file(&dir, "home/.kiro/settings/mcp.json", b"");
}

#[test]
fn an_unusable_file_is_reported_and_left_unchanged() {
    let secret = format!("{{\"mcpServers\": {{\"a\": {SECRET}}}}}");
    let huge = vec![b' '; 16 * 1024 * 1024 + 1];
    let cases: &[(&[u8], &str)] = &[
        (secret.as_bytes(), "line 1"),
        (b"[1, 2]", "not an object"),
        (b"{\"mcpServers\": []}", "`mcpServers` is not a table"),
        (b"{\"mcpServers\": {\"books\": {}, \"books\": {}}}", "twice"),
        (b"{\"a\": \"\xff\"}", "not UTF-8"),
        (&huge, "larger than 16 MiB"),
    ];
    for (text, message) in cases {
        let dir = TestDir::new();
        write_file(&dir, "home/.cursor/mcp.json", text);
        let before = read_tree(&dir);
        let run = connect(&dir, &["cursor", "--server", "books", "--write", "--yes"]);
        assert_eq!(run.code, 1, "{message}");
        assert!(run.stderr.contains(message) && run.stderr.contains("mcp.json"), "{message}: {}", run.stderr);
        assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
        assert!(read_tree(&dir) == before, "{message}: something was written");
    }
    let dir = TestDir::new();
    write_file(&dir, "home/.cursor/mcp.json", b"{}");
    set_mode(&dir.path("home/.cursor/mcp.json"), 0o444);
    let run = connect(&dir, &["cursor", "--server", "books", "--write", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains("read-only"), "{run:?}");
    assert_eq!(read_tree(&dir).len(), 1);
    fs::create_dir_all(dir.path("home/.gemini/settings.json")).expect("a directory");
    let run = connect(&dir, &["gemini", "--server", "books", "--write", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains("directory"), "{run:?}");
    std::os::unix::fs::symlink("nowhere", dir.path("home/.lmstudio")).expect("a link");
    fs::create_dir_all(dir.path("home/.kiro/settings")).expect("a directory");
    std::os::unix::fs::symlink("nowhere", dir.path("home/.kiro/settings/mcp.json")).expect("a link");
    let run = connect(&dir, &["kiro", "--server", "books", "--write", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains("broken symbolic link"), "{run:?}");
}

#[test]
fn a_file_that_changes_during_the_prompt_is_left_unchanged() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let args = ["connect", "kiro", "--server", "aws", "--write", "--home", "home", "--data", "data"];
    let file = dir.path("home/.kiro/settings/mcp.json");
    let (code, output) = run_at_terminal(&dir, &file.display().to_string(), &args);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("changed in the meantime"), "{output}");
    assert_eq!(dir.read("home/.kiro/settings/mcp.json"), "{\"mine\": 1}");
    let leftovers: Vec<String> =
        read_tree(&dir).into_keys().filter(|name| name.contains("gatelodge") || name.starts_with("data")).collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
    let (code, output) = run_at_terminal(&dir, "", &args);
    assert_eq!(code, 0, "{output}");
    assert!(dir.read("home/.kiro/settings/mcp.json").contains("/mcp/aws"));
}

#[test]
fn a_symbolic_link_is_kept_and_its_target_edited() {
    let dir = TestDir::new();
    write_file(&dir, "dotfiles/cursor.json", b"{}\n");
    fs::create_dir_all(dir.path("home/.cursor")).expect("a directory");
    std::os::unix::fs::symlink("../../dotfiles/cursor.json", dir.path("home/.cursor/mcp.json")).expect("a link");
    assert_eq!(connect(&dir, &["cursor", "--server", "books", "--write", "--yes"]).code, 0);
    assert!(fs::symlink_metadata(dir.path("home/.cursor/mcp.json")).expect("the link").is_symlink());
    assert!(dir.read("dotfiles/cursor.json").contains("/mcp/books"));
    assert_eq!(connect(&dir, &["cursor", "--undo", "--yes"]).code, 0);
    assert_eq!(dir.read("dotfiles/cursor.json"), "{}\n");
}

#[test]
fn a_yaml_file_is_not_written_and_the_entry_is_printed() {
    let dir = TestDir::new();
    write_client_configs(&dir);
    let before = read_tree(&dir);
    let run = connect(&dir, &["goose", "--server", "books", "--write", "--yes"]);
    assert_eq!(run.code, 2);
    assert!(run.stdout.contains("extensions:") && run.stderr.contains("by hand"), "{run:?}");
    assert_eq!(read_tree(&dir), before);
}

#[test]
fn the_url_comes_from_the_configuration_also_without_its_secrets() {
    let dir = TestDir::new();
    let server = |name: &str| {
        format!(
            "[[servers]]\nname = \"{name}\"\nurl = \"https://a.example.com/mcp\"\nheaders = {{ A = \"${{NOT_HERE}}\" }}\n"
        )
    };
    dir.write(
        "gatelodge.toml",
        &format!("[gateway]\nlisten = \"0.0.0.0:81\"\nhosts = [\"gate\"]\n{}", server("books")),
    );
    let run = connect(&dir, &["codex", "--config", "gatelodge.toml"]);
    assert!(run.stdout.contains("http://127.0.0.1:81/mcp/books"), "{run:?}");
    dir.write("gatelodge.toml", &format!("{}{}", server("books"), server("notes")));
    let run = connect(&dir, &["codex", "--config", "gatelodge.toml"]);
    assert!(run.code == 2 && run.stderr.contains("books, notes"), "{run:?}");
    let run = connect(&dir, &["codex", "--config", "gatelodge.toml", "--server", "bokos"]);
    assert!(run.code == 2 && run.stderr.contains("books"), "{run:?}");
    let run = connect(&dir, &["codex"]);
    assert!(run.code == 2 && run.stderr.contains("--server"), "{run:?}");
    let run = connect(&dir, &["crush", "--server", "books", "--token-env", "X; rm -rf"]);
    assert!(run.code == 2 && run.stdout.is_empty() && run.stderr.contains("name"), "{run:?}");
    let token = dir.run(&["grant", "token"]).stdout;
    let run = connect(&dir, &["crush", "--server", "books", "--token-env", token.trim()]);
    assert!(run.code == 2 && !run.stderr.contains(token.trim()), "{run:?}");
    let run = connect(&dir, &["codex", "--url", "ftp://x/"]);
    assert!(run.code == 2 && run.stderr.contains("https://"), "{run:?}");
}

#[test]
fn the_bridge_entry_names_the_token_file_of_init_or_the_given_one() {
    let dir = TestDir::new();
    let grant =
        "[[grants]]\nlabel = \"zed-books\"\ntoken_file = \"tokens/zed-books\"\nserver = \"books\"\npolicy = \"x\"\n";
    dir.write("gatelodge.toml", &format!("[[servers]]\nname = \"books\"\nurl = \"http://127.0.0.1:9\"\n{grant}"));
    let args = |client: &str, more: &[&str]| {
        let run =
            connect(&dir, &[&[client, "--server", "books", "--config", "gatelodge.toml", "--json"], more].concat());
        let output: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        (run.code, output["entry"]["args"].clone(), run.stderr)
    };
    let url = "http://127.0.0.1:7420/mcp/books";
    assert_eq!(args("zed", &[]).1, serde_json::json!(["bridge", url]), "there is no such file");
    write_file(&dir, "tokens/zed-books", b"glt_x\n");
    let file = dir.path("tokens/zed-books").canonicalize().expect("the file").display().to_string();
    assert_eq!(args("zed", &[]).1, serde_json::json!(["bridge", url, "--token-file", file]));
    assert_eq!(args("junie", &[]).1, serde_json::json!(["bridge", url]), "it is another client's");
    assert_eq!(args("zed", &["--token-env", "MINE"]).1, serde_json::json!(["bridge", url, "--token-env", "MINE"]));
    assert_eq!(args("junie", &["--token-file", "/x/y"]).1, serde_json::json!(["bridge", url, "--token-file", "/x/y"]));
    let (code, _, output) = args("cursor", &["--token-file", "/x/y"]);
    assert!(code == 2 && output.contains("Cursor cannot read the token from a file"), "{output}");
}

#[test]
fn wait_returns_at_the_first_request_of_the_client() {
    let dir = TestDir::new();
    let running =
        dir.start("data", &[], &["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let args = ["connect", "cursor", "--server", "demo", "--data", "data", "--wait", "--grant", "demo"];
    let waiting = Command::new(env!("CARGO_BIN_EXE_gatelodge"))
        .args(args)
        .args(["--home", "home"])
        .current_dir(dir.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(dir.path("connect.err")).expect("a file"))
        .spawn()
        .expect("the program starts");
    wait_until("`connect --wait` waits", || dir.read("connect.err").contains("waiting"));
    let printed = running.stdout();
    let token = printed.lines().find_map(|line| line.trim().strip_prefix("token  ")).expect("a token").to_owned();
    let call = dir.run_with(&[("GATELODGE_TOKEN", &token)], &["call", &running.url("demo"), "list_notes"]);
    assert_eq!(call.code, 0, "{call:?}");
    let output = waiting.wait_with_output().expect("it ends");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success() && stdout.contains("Cursor connected at") && stdout.contains("`demo`"), "{stdout}");
    assert!(stdout.contains(&running.url("demo")), "the address is that of the running gateway: {stdout}");
    let run = connect(&dir, &["cursor", "--server", "demo", "--wait", "--timeout", "1s"]);
    assert_eq!(run.code, 4, "an earlier request does not count: {run:?}");
}
