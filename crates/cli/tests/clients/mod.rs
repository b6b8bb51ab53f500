//! Configuration files of MCP clients as they occur in practice: odd indentation, comments, mixed line endings.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::TestDir;

/// Part of every secret in the fixtures, so that tests can search outputs and files for it.
pub const SECRET: &str = "hunter2secret";

/// Claude Code: two spaces, no final newline, unrelated settings, and servers of single projects.
const CLAUDE_CODE: &str = r#"{
  "numStartups": 41,
  "oauthAccount": { "token": "hunter2secret-oauth" },
  "mcpServers": {
    "github": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@example/github"],
      "env": { "GITHUB_TOKEN": "hunter2secret-github" }
    },
    "plain": { "type": "http", "url": "https://plain.example.com/mcp" }
  },
  "projects": {
    "PROJECT": { "allowedTools": [], "mcpServers": { "local-only": { "command": "uvx", "args": ["local-only"] } } },
    "/elsewhere": { "mcpServers": { "not-here": { "command": "not-here" } } }
  }
}"#;
const CLAUDE_CODE_PROJECT: &str = "{\"mcpServers\": {\n      \"team\": {\n            \"type\": \"http\", \"url\": \"https://team.example.com/mcp\",\n            \"headers\": {\"Authorization\": \"Bearer ${TEAM_TOKEN:-none}\"}}\n}}\n";
/// Claude Desktop: tabs and Windows line endings.
const CLAUDE_DESKTOP: &str = "{\r\n\t\"globalShortcut\": \"Ctrl+Space\",\r\n\t\"mcpServers\": {\r\n\t\t\"files\": {\r\n\t\t\t\"command\": \"npx\",\r\n\t\t\t\"args\": [\"-y\", \"@example/files\", \"/srv/notes\"]\r\n\t\t},\r\n\t\t\"github\": {\r\n\t\t\t\"command\": \"npx\",\r\n\t\t\t\"args\": [\"-y\", \"@example/github\"],\r\n\t\t\t\"env\": { \"GITHUB_TOKEN\": \"hunter2secret-github\" }\r\n\t\t}\r\n\t}\r\n}\r\n";
/// Cursor: a byte order mark, comments, trailing commas.
const CURSOR: &str = "\u{feff}{\n    // my servers\n    \"mcpServers\": {\n        \"github\": { /* another one */\n            \"command\": \"npx\",\n            \"args\": [\"-y\", \"@example/github\"],\n            \"env\": { \"GITHUB_TOKEN\": \"hunter2secret-other\" },\n        },\n        \"Web API\": { \"url\": \"https://web.example.com/mcp\", \"headers\": { \"X-Api-Key\": \"hunter2secret-web\", \"X-Team\": \"${env:TEAM}\" } }, // mine\n    },\n}\n";
const VSCODE: &str = "{\n\t\"inputs\": [\n\t\t{ \"type\": \"promptString\", \"id\": \"db\", \"description\": \"password\", \"password\": true },\n\t],\n\t// the database\n\t\"servers\": {\n\t\t\"db\": { \"type\": \"stdio\", \"command\": \"uvx\", \"args\": [\"db\"], \"env\": { \"PGPASSWORD\": \"${input:db}\", \"PATH\": \"/opt/hunter2secret-path\" } },\n\t\t\"here\": { \"command\": \"here\", \"args\": [\"${workspaceFolder}\"] },\n\t}\n}\n";
const CODEX: &str = "# how I like it\nmodel = \"best\" # always\n\n# my notes\n[mcp_servers.notes]\ncommand = \"uvx\"\nargs = [\"notes\"]\nstartup_timeout_sec = 20.5 # it is slow\n\n  [mcp_servers.notes.env]\n  NOTES_KEY = 'hunter2secret-notes'\n\n[mcp_servers.search]\nurl = \"https://search.example.com/mcp\"\nbearer_token_env_var = \"SEARCH_TOKEN\"\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n";
const GEMINI: &str = "{\n   \"theme\": \"Dracula\",\n   \"mcpServers\": {\n      \"wiki\": { \"httpUrl\": \"https://wiki.example.com/mcp\", \"headers\": { \"Authorization\": \"Bearer $WIKI_TOKEN\" }, \"trust\": true },\n      \"old\": { \"url\": \"https://old.example.com/sse\" }\n   }\n}\n";
const WINDSURF: &str = "{\"mcpServers\":{\"maps\":{\"serverUrl\":\"https://maps.example.com/mcp\",\"headers\":{\"Authorization\":\"Bearer hunter2secret-maps\"}}}}";
const ZED: &str = "// Zed settings\n//\n{\n  \"theme\": \"One\", // dark\n\n  /* servers */\n  \"context_servers\": {\n    \"clock\": {\n      \"source\": \"custom\",\n      \"command\": \"uvx\",\n      \"args\": [\"clock\"],\n      \"env\": {}\n    },\n  },\n  \"vim_mode\": true,\n}\n";
const CLINE: &str = "{\n  \"mcpServers\": {\n    \"shell\": { \"command\": \"shell-server\", \"args\": [\"--root\", \"/srv\"], \"alwaysAllow\": [\"ls\"], \"timeout\": 60 },\n    \"sleeping\": { \"command\": \"sleeping\", \"disabled\": true }\n  }\n}\n";
const ROO: &str = "{\n  \"mcpServers\": {\n    \"issues\": { \"type\": \"streamable-http\", \"url\": \"https://issues.example.com/mcp\", \"headers\": { \"Authorization\": \"Bearer ${env:ISSUES_TOKEN}\" } }\n  }\n}\n";
const OPENCODE: &str = "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    // pictures\n    \"pictures\": {\n      \"type\": \"local\",\n      \"command\": [\"npx\", \"-y\", \"pictures\"],\n      \"environment\": { \"PICTURES_KEY\": \"{env:PICTURES_KEY}\" },\n      \"enabled\": true,\n    },\n  },\n}\n";
const KIRO: &str = "{ \"mcpServers\": { \"aws\": { \"command\": \"uvx\", \"args\": [\"aws\"], \"env\": { \"AWS_PROFILE\": \"hunter2secret-profile\" }, \"autoApprove\": [] } } }\n";
const CRUSH: &str = "{\n  \"mcp\": {\n    \"lint\": { \"type\": \"http\", \"url\": \"https://lint.example.com/mcp\", \"headers\": { \"Authorization\": \"$(echo Bearer $LINT_TOKEN)\" } }\n  }\n}\n";
const GOOSE: &str = "# goose\nGOOSE_MODE: auto\nextensions:\n  mail:\n    type: stdio\n    enabled: true\n    cmd: uvx\n    args: [mail]\n    envs:\n      MAIL_PASSWORD: hunter2secret-mail\n";

/// The files, with their paths below the test directory.
fn fixtures(project: &str) -> Vec<(&'static str, String)> {
    vec![
        ("home/.claude.json", CLAUDE_CODE.replace("PROJECT", project)),
        ("project/.mcp.json", CLAUDE_CODE_PROJECT.to_owned()),
        ("home/.config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP.to_owned()),
        ("home/.cursor/mcp.json", CURSOR.to_owned()),
        ("home/.config/Code/User/mcp.json", VSCODE.to_owned()),
        ("home/.codex/config.toml", CODEX.to_owned()),
        ("home/.gemini/settings.json", GEMINI.to_owned()),
        ("home/.codeium/windsurf/mcp_config.json", WINDSURF.to_owned()),
        ("home/.config/zed/settings.json", ZED.to_owned()),
        ("home/.cline/data/settings/cline_mcp_settings.json", CLINE.to_owned()),
        ("project/.roo/mcp.json", ROO.to_owned()),
        ("home/.config/opencode/opencode.json", OPENCODE.to_owned()),
        ("home/.kiro/settings/mcp.json", KIRO.to_owned()),
        ("home/.config/crush/crush.json", CRUSH.to_owned()),
        ("home/.config/goose/config.yaml", GOOSE.to_owned()),
        ("project/.codex/config.toml", CODEX.replace('\n', "\r\n").replace("notes", "diary").replace("search", "find")),
    ]
}

/// Writes the configuration files of all these clients.
pub fn write_client_configs(dir: &TestDir) {
    let project = dir.path("project").display().to_string();
    for (path, text) in fixtures(&project) {
        write_file(dir, path, text.as_bytes());
    }
    set_mode(&dir.path("home/.claude.json"), 0o600);
}

/// Writes a file and creates its parent directories.
pub fn write_file(dir: &TestDir, path: &str, text: &[u8]) {
    let path = dir.path(path);
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, text).expect("a file");
}

pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a file of ours");
}

pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

/// Content and mode of every file below the directory.
pub fn read_tree(dir: &TestDir) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mut files = BTreeMap::new();
    let root = dir.path("");
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(&root).expect("below").display().to_string();
                files.insert(name, (fs::read(&path).expect("a file"), mode(&path)));
            }
        }
    }
    files
}

/// Runs the program in a pseudo-terminal, waits for its prompt, overwrites `file` if one is given, and answers yes.
const TERMINAL: &str = r#"
import os, pty, sys
file, program, *args = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(program, [program, *args])
output = b""
while b"[y/N]" not in output:
    output += os.read(terminal, 1024)
if file:
    open(file, "w").write('{"mine": 1}')
os.write(terminal, b"y\n")
try:
    while True:
        output += os.read(terminal, 1024)
except OSError:
    pass
print(output.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// Runs [`TERMINAL`]; returns the exit code and what the terminal showed.
pub fn run_at_terminal(dir: &TestDir, file: &str, args: &[&str]) -> (i32, String) {
    let output = Command::new("python3")
        .args(["-c", TERMINAL, file, env!("CARGO_BIN_EXE_gatelodge")])
        .args(args)
        .current_dir(dir.path(""))
        .env("XDG_DATA_HOME", dir.path("share"))
        .stdin(Stdio::null())
        .output()
        .expect("python3 runs");
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stdout).expect("UTF-8"))
}
