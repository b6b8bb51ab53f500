//! `gatelodge connect`: what is printed for each client, and that a client's file is changed whole, or not at all.

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

use clients::{SECRET, at_terminal, furnish, mode, put, set_mode, tree};
use serde_json::Value;
use support::{House, Run, house, until};

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

/// Connects a client whose files are in the folder `home`.
fn connect(house: &House, args: &[&str]) -> Run {
    let around = ["--home", "home", "--data", "data", "--program", "gatelodge"];
    house.run(&[&["connect"], args, &around].concat())
}

/// `GATELODGE_GOLDEN=write cargo test --test connect` writes the files anew.
#[test]
fn every_client_gets_what_its_golden_file_says() {
    let house = house();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/connect");
    let is_writing = std::env::var_os("GATELODGE_GOLDEN").is_some();
    for client in CLIENTS {
        let public = client.ends_with("-api");
        let url = if public { "https://gate.example.com/mcp/books" } else { "http://127.0.0.1:7420/mcp/books" };
        let run = connect(&house, &[client, "--url", url]);
        assert_eq!(run.code, 0, "{client}: {}", run.stderr);
        let told = run.stderr.replace(&house.path("").display().to_string(), "…/");
        let found = format!("{}--- and to people:\n{told}", run.stdout);
        let file = format!("{folder}/{client}.txt");
        if is_writing {
            fs::write(&file, &found).expect("a golden file");
        }
        assert!(fs::read_to_string(&file).unwrap_or_default() == found, "{client} is not as its golden file:\n{found}");
    }
    let kept = fs::read_dir(folder).expect("golden files").count();
    assert_eq!(kept, CLIENTS.len(), "a golden file for each client, and no other");
    let help = house.run(&["connect", "--help"]).stdout;
    assert!(CLIENTS.iter().all(|client| help.contains(client)), "{help}");
    assert!(tree(&house).is_empty(), "printing writes nothing");
}

#[test]
fn programs_get_the_same_as_json() {
    let house = house();
    let run = connect(&house, &["cursor", "--url", "http://127.0.0.1:1/mcp/books", "--token-env", "KEY", "--json"]);
    let told: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(told["entry"]["headers"]["Authorization"], "Bearer ${env:KEY}");
    assert_eq!((told["client"].as_str(), told["token_env"].as_str()), (Some("cursor"), Some("KEY")));
    assert!(told["install"].as_str().expect("a link").starts_with("cursor://"));
}

#[test]
fn nothing_is_written_without_leave() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    let run = connect(&house, &["cursor", "--server", "github", "--write"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("- {") && run.stderr.contains("+ {"), "the change is shown: {}", run.stderr);
    assert!(run.stderr.contains("no terminal") && run.stderr.contains("--yes"), "{}", run.stderr);
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    assert_eq!(tree(&house), before);
}

#[test]
fn an_entry_is_put_in_its_place_and_everything_else_stays() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    let run = connect(&house, &["cursor", "--server", "github", "--write", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let expected = "\u{feff}{\n    // my servers\n    \"mcpServers\": {\n        \"github\": {\n            \"url\": \"http://127.0.0.1:7420/mcp/github\",\n            \"headers\": {\n                \"Authorization\": \"Bearer ${env:GATELODGE_TOKEN}\",\n            },\n        },\n        \"Web API\": { \"url\": \"https://web.example.com/mcp\", \"headers\": { \"X-Api-Key\": \"hunter2secret-web\", \"X-Team\": \"${env:TEAM}\" } }, // mine\n    },\n}\n";
    assert_eq!(house.read("home/.cursor/mcp.json"), expected);
    let run = connect(&house, &["cursor", "--undo", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(tree(&house), before);
}

#[test]
fn backups_are_numbered_and_changes_are_taken_back_one_by_one() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    let file = "home/.claude.json";
    for server in ["one", "two"] {
        let run = connect(&house, &["claude-code", "--server", server, "--write", "--yes"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    for backup in ["home/.claude.json.gatelodge-backup", "home/.claude.json.gatelodge-backup-2"] {
        assert_eq!(mode(&house.path(backup)), 0o600);
    }
    assert_eq!(house.read("home/.claude.json.gatelodge-backup").into_bytes(), before[file].0);
    assert_eq!(mode(&house.path(file)), 0o600);
    let again = connect(&house, &["claude-code", "--server", "two", "--write", "--yes"]);
    assert!(again.stderr.contains("is already up to date"), "{}", again.stderr);
    for _ in 0..2 {
        assert_eq!(connect(&house, &["claude-code", "--undo", "--yes"]).code, 0);
    }
    assert_eq!(tree(&house), before);
    assert_eq!(connect(&house, &["claude-code", "--undo", "--yes"]).code, 2, "there is nothing left to take back");
}

#[test]
fn a_file_that_was_not_there_is_made_for_its_user_and_goes_again() {
    let house = house();
    let run = connect(&house, &["codex", "--server", "books", "--write", "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let file = house.path("home/.codex/config.toml");
    assert_eq!(mode(&file), 0o600);
    let text =
        "[mcp_servers.books]\nurl = \"http://127.0.0.1:7420/mcp/books\"\nbearer_token_env_var = \"GATELODGE_TOKEN\"\n";
    assert_eq!(fs::read_to_string(&file).expect("the file"), text);
    assert_eq!(connect(&house, &["codex", "--undo", "--yes"]).code, 0);
    assert!(tree(&house).is_empty());
}

#[test]
fn what_somebody_changed_since_is_not_taken_back_unawares() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    connect(&house, &["kiro", "--server", "aws", "--write", "--yes"]);
    let file = "home/.kiro/settings/mcp.json";
    put(&house, file, house.read(file).replace("{ \"mcpServers\"", "{ \"mine\": 1, \"mcpServers\"").as_bytes());
    let changed = tree(&house);
    let run = connect(&house, &["kiro", "--undo", "--yes"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("changed since"), "{}", run.stderr);
    assert_eq!(tree(&house), changed);
    assert_eq!(connect(&house, &["kiro", "--undo", "--yes", "--force"]).code, 0);
    let now: Value = serde_json::from_str(&house.read(file)).expect("JSON");
    let mut expected: Value = serde_json::from_slice(&before[file].0).expect("JSON");
    expected["mine"] = 1.into();
    assert_eq!(now, expected, "our entry is taken back, and the change stays");
    assert!(tree(&house).keys().eq(before.keys()));

    connect(&house, &["codex", "--server", "new", "--write", "--yes"]);
    put(&house, "home/.codex/config.toml", format!("{}x = 1\n", house.read("home/.codex/config.toml")).as_bytes());
    assert_eq!(connect(&house, &["codex", "--undo", "--yes", "--force"]).code, 0);
    let now = house.read("home/.codex/config.toml");
    assert!(now.contains("[mcp_servers.notes]") && !now.contains("/mcp/new"), "{now}");
    put(&house, "home/.kiro/settings/mcp.json", b"");
}

#[test]
fn a_file_that_cannot_be_used_is_told_plainly_and_left_as_it_is() {
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
    for (text, told) in cases {
        let house = house();
        put(&house, "home/.cursor/mcp.json", text);
        let before = tree(&house);
        let run = connect(&house, &["cursor", "--server", "books", "--write", "--yes"]);
        assert_eq!(run.code, 1, "{told}");
        assert!(run.stderr.contains(told) && run.stderr.contains("mcp.json"), "{told}: {}", run.stderr);
        assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
        assert!(tree(&house) == before, "{told}: something was written");
    }
    let house = house();
    put(&house, "home/.cursor/mcp.json", b"{}");
    set_mode(&house.path("home/.cursor/mcp.json"), 0o444);
    let run = connect(&house, &["cursor", "--server", "books", "--write", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains("read-only"), "{run:?}");
    assert_eq!(tree(&house).len(), 1);
    fs::create_dir_all(house.path("home/.gemini/settings.json")).expect("a folder");
    let run = connect(&house, &["gemini", "--server", "books", "--write", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains("directory"), "{run:?}");
    std::os::unix::fs::symlink("nowhere", house.path("home/.lmstudio")).expect("a link");
    fs::create_dir_all(house.path("home/.kiro/settings")).expect("a folder");
    std::os::unix::fs::symlink("nowhere", house.path("home/.kiro/settings/mcp.json")).expect("a link");
    let run = connect(&house, &["kiro", "--server", "books", "--write", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains("broken symbolic link"), "{run:?}");
}

#[test]
fn a_person_is_asked_and_a_file_that_changes_meanwhile_is_left_as_it_is_then() {
    let house = house();
    furnish(&house);
    let args = ["connect", "kiro", "--server", "aws", "--write", "--home", "home", "--data", "data"];
    let file = house.path("home/.kiro/settings/mcp.json");
    let (code, told) = at_terminal(&house, &file.display().to_string(), &args);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("changed in the meantime"), "{told}");
    assert_eq!(house.read("home/.kiro/settings/mcp.json"), "{\"mine\": 1}");
    let left: Vec<String> =
        tree(&house).into_keys().filter(|name| name.contains("gatelodge") || name.starts_with("data")).collect();
    assert!(left.is_empty(), "{left:?}");
    let (code, told) = at_terminal(&house, "", &args);
    assert_eq!(code, 0, "{told}");
    assert!(house.read("home/.kiro/settings/mcp.json").contains("/mcp/aws"));
}

#[test]
fn links_stay_links() {
    let house = house();
    put(&house, "dotfiles/cursor.json", b"{}\n");
    fs::create_dir_all(house.path("home/.cursor")).expect("a folder");
    std::os::unix::fs::symlink("../../dotfiles/cursor.json", house.path("home/.cursor/mcp.json")).expect("a link");
    assert_eq!(connect(&house, &["cursor", "--server", "books", "--write", "--yes"]).code, 0);
    assert!(fs::symlink_metadata(house.path("home/.cursor/mcp.json")).expect("the link").is_symlink());
    assert!(house.read("dotfiles/cursor.json").contains("/mcp/books"));
    assert_eq!(connect(&house, &["cursor", "--undo", "--yes"]).code, 0);
    assert_eq!(house.read("dotfiles/cursor.json"), "{}\n");
}

#[test]
fn a_file_that_we_do_not_write_is_left_to_the_person() {
    let house = house();
    furnish(&house);
    let before = tree(&house);
    let run = connect(&house, &["goose", "--server", "books", "--write", "--yes"]);
    assert_eq!(run.code, 2);
    assert!(run.stdout.contains("extensions:") && run.stderr.contains("by hand"), "{run:?}");
    assert_eq!(tree(&house), before);
}

#[test]
fn the_address_comes_from_the_configuration_even_where_its_secrets_are_not() {
    let house = house();
    let server = |name: &str| {
        format!(
            "[[servers]]\nname = \"{name}\"\nurl = \"https://a.example.com/mcp\"\nheaders = {{ A = \"${{NOT_HERE}}\" }}\n"
        )
    };
    house.write(
        "gatelodge.toml",
        &format!("[gateway]\nlisten = \"0.0.0.0:81\"\nhosts = [\"gate\"]\n{}", server("books")),
    );
    let run = connect(&house, &["codex", "--config", "gatelodge.toml"]);
    assert!(run.stdout.contains("http://127.0.0.1:81/mcp/books"), "{run:?}");
    house.write("gatelodge.toml", &format!("{}{}", server("books"), server("notes")));
    let run = connect(&house, &["codex", "--config", "gatelodge.toml"]);
    assert!(run.code == 2 && run.stderr.contains("books, notes"), "{run:?}");
    let run = connect(&house, &["codex", "--config", "gatelodge.toml", "--server", "bokos"]);
    assert!(run.code == 2 && run.stderr.contains("books"), "{run:?}");
    let run = connect(&house, &["codex"]);
    assert!(run.code == 2 && run.stderr.contains("--server"), "{run:?}");
    let run = connect(&house, &["crush", "--server", "books", "--token-env", "X; rm -rf"]);
    assert!(run.code == 2 && run.stdout.is_empty() && run.stderr.contains("name"), "{run:?}");
    let token = house.run(&["grant", "token"]).stdout;
    let run = connect(&house, &["crush", "--server", "books", "--token-env", token.trim()]);
    assert!(run.code == 2 && !run.stderr.contains(token.trim()), "{run:?}");
    let run = connect(&house, &["codex", "--url", "ftp://x/"]);
    assert!(run.code == 2 && run.stderr.contains("https://"), "{run:?}");
}

#[test]
fn the_bridge_is_told_the_file_that_init_made_or_the_one_that_is_named() {
    let house = house();
    let grant =
        "[[grants]]\nlabel = \"zed-books\"\ntoken_file = \"tokens/zed-books\"\nserver = \"books\"\npolicy = \"x\"\n";
    house.write("gatelodge.toml", &format!("[[servers]]\nname = \"books\"\nurl = \"http://127.0.0.1:9\"\n{grant}"));
    let args = |client: &str, more: &[&str]| {
        let run =
            connect(&house, &[&[client, "--server", "books", "--config", "gatelodge.toml", "--json"], more].concat());
        let told: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        (run.code, told["entry"]["args"].clone(), run.stderr)
    };
    let url = "http://127.0.0.1:7420/mcp/books";
    assert_eq!(args("zed", &[]).1, serde_json::json!(["bridge", url]), "there is no such file");
    put(&house, "tokens/zed-books", b"glt_x\n");
    let file = house.path("tokens/zed-books").canonicalize().expect("the file").display().to_string();
    assert_eq!(args("zed", &[]).1, serde_json::json!(["bridge", url, "--token-file", file]));
    assert_eq!(args("junie", &[]).1, serde_json::json!(["bridge", url]), "it is another client's");
    assert_eq!(args("zed", &["--token-env", "MINE"]).1, serde_json::json!(["bridge", url, "--token-env", "MINE"]));
    assert_eq!(args("junie", &["--token-file", "/x/y"]).1, serde_json::json!(["bridge", url, "--token-file", "/x/y"]));
    let (code, _, told) = args("cursor", &["--token-file", "/x/y"]);
    assert!(code == 2 && told.contains("Cursor cannot read the token from a file"), "{told}");
}

#[test]
fn the_first_request_of_a_client_is_waited_for() {
    let house = house();
    let running =
        house.start("data", &[], &["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let args = ["connect", "cursor", "--server", "demo", "--data", "data", "--wait", "--grant", "demo"];
    let waiting = Command::new(env!("CARGO_BIN_EXE_gatelodge"))
        .args(args)
        .args(["--home", "home"])
        .current_dir(house.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(house.path("told")).expect("a file"))
        .spawn()
        .expect("the program starts");
    until("it waits", || house.read("told").contains("waiting"));
    let printed = running.printed();
    let token = printed.lines().find_map(|line| line.trim().strip_prefix("token  ")).expect("a token").to_owned();
    let call = house.run_with(&[("GATELODGE_TOKEN", &token)], &["call", &running.url("demo"), "list_notes"]);
    assert_eq!(call.code, 0, "{call:?}");
    let output = waiting.wait_with_output().expect("it ends");
    let told = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success() && told.contains("Cursor connected at") && told.contains("`demo`"), "{told}");
    assert!(told.contains(&running.url("demo")), "the address is that of the running gateway: {told}");
    let run = connect(&house, &["cursor", "--server", "demo", "--wait", "--timeout", "1s"]);
    assert_eq!(run.code, 4, "an earlier request does not count: {run:?}");
}
