//! Servers of Claude Code projects that `stack` finds on its own, and contradictory entries.

use serde_json::{Value, json};

use super::clients::write_file;
use super::{dir_with_index, json_output, stack};

const GITHUB: &str = r#""g": {"command": "npx", "args": ["-y", "@example/github"]}"#;
const MAIL: &str = r#""m": {"command": "uvx", "args": ["mail"]}"#;

fn servers(inside: &str) -> String {
    format!("{{\"mcpServers\": {{{inside}}}}}")
}

fn names(all: &Value) -> Vec<&str> {
    all["servers"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap()).collect()
}

#[test]
fn project_servers_of_claude_are_found_without_naming_a_project() {
    let dir = dir_with_index();
    let file = format!("{{\"projects\": {{\"/a\": {}, \"/b\": {}}}}}", servers(GITHUB), servers(MAIL));
    write_file(&dir, "home/.claude.json", file.as_bytes());
    for more in [&[][..], &["--client", "claude-code"]] {
        let run = dir.run(&[&["stack", "--home", "home", "--json", "--index", "i.glx"], more].concat());
        let all = json_output(&run);
        assert_eq!(names(&all), ["g", "m"]);
        // Two projects are two agents.
        assert_eq!((&all["stack"]["level"], &all["stack"]["combinations"]), (&json!("Critical"), &json!([])));
        assert!(!run.stdout.contains("/a") && !run.stdout.contains("/b"), "{}", run.stdout);
    }
    assert_eq!(
        dir.run(&["stack", "--home", "home", "--fail-on", "critical", "--index", "i.glx"]).code,
        1,
        "there is a destructive tool"
    );
}

#[test]
fn servers_of_a_project_in_both_files_belong_to_one_agent() {
    let dir = dir_with_index();
    let project = dir.path("project").display().to_string();
    let file = |project_path: &str| format!("{{\"projects\": {{\"{project_path}\": {}}}}}", servers(GITHUB));
    write_file(&dir, "project/.mcp.json", servers(MAIL).as_bytes());
    let combinations = || json_output(&stack(&dir, &["--json"]))["stack"]["combinations"].clone();
    write_file(&dir, "home/.claude.json", file(&project).as_bytes());
    assert_eq!(combinations(), json!([{"client": "claude-code", "servers": ["g", "m"]}]));
    write_file(&dir, "home/.claude.json", file("/elsewhere").as_bytes());
    assert_eq!(combinations(), json!([]));
}

#[test]
fn a_contradictory_entry_is_ask_first() {
    let dir = dir_with_index();
    let plain = r#""command": "uvx", "args": ["notes"]"#;
    let rate = |more: &str| {
        dir.write("c.json", &servers(&format!("\"n\": {{{plain}{more}}}")));
        let all = json_output(&dir.run(&["stack", "c.json", "--json", "--index", "i.glx"]));
        let server = all["servers"][0].clone();
        (server["level"].clone(), server["verdict"].clone())
    };
    assert_eq!(rate(""), (json!("Low"), json!("proceed")));
    assert_eq!(rate(r#", "env": {"LANG": "C"}, "url": null"#), (json!("Low"), json!("proceed")));
    for more in [
        r#", "url": "https://a.example.com""#,
        r#", "httpUrl": "https://a.example.com""#,
        r#", "cmd": "evil""#,
        r#", "env": {"LANG": "C"}, "environment": {"UV_INDEX_URL": "https://a.example.com"}"#,
        r#", "env": {}, "envs": {"UV_INDEX_URL": "https://a.example.com"}"#,
    ] {
        assert_eq!(rate(more), (json!("High"), json!("ask-first")), "{more}");
    }
}
