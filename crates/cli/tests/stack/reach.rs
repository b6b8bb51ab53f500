//! Servers that `stack` finds without a file, and entries that say two things at once.

use serde_json::{Value, json};

use super::clients::put;
use super::{stack, told, with_index};

const GITHUB: &str = r#""g": {"command": "npx", "args": ["-y", "@example/github"]}"#;
const MAIL: &str = r#""m": {"command": "uvx", "args": ["mail"]}"#;

fn servers(inside: &str) -> String {
    format!("{{\"mcpServers\": {{{inside}}}}}")
}

fn names(all: &Value) -> Vec<&str> {
    all["servers"].as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap()).collect()
}

#[test]
fn servers_that_claude_keeps_for_folders_are_seen_without_naming_one() {
    let house = with_index();
    let file = format!("{{\"projects\": {{\"/a\": {}, \"/b\": {}}}}}", servers(GITHUB), servers(MAIL));
    put(&house, "home/.claude.json", file.as_bytes());
    for more in [&[][..], &["--client", "claude-code"]] {
        let run = house.run(&[&["stack", "--home", "home", "--json", "--index", "i.glx"], more].concat());
        let all = told(&run);
        assert_eq!(names(&all), ["g", "m"]);
        // Two folders are two agents.
        assert_eq!((&all["stack"]["level"], &all["stack"]["combinations"]), (&json!("Critical"), &json!([])));
        assert!(!run.stdout.contains("/a") && !run.stdout.contains("/b"), "{}", run.stdout);
    }
    assert_eq!(
        house.run(&["stack", "--home", "home", "--fail-on", "critical", "--index", "i.glx"]).code,
        1,
        "a tool that destroys is there"
    );
}

#[test]
fn what_a_folder_has_in_its_own_file_and_in_claudes_is_had_by_one_agent() {
    let house = with_index();
    let project = house.path("project").display().to_string();
    let file = |folder: &str| format!("{{\"projects\": {{\"{folder}\": {}}}}}", servers(GITHUB));
    put(&house, "project/.mcp.json", servers(MAIL).as_bytes());
    let combinations = || told(&stack(&house, &["--json"]))["stack"]["combinations"].clone();
    put(&house, "home/.claude.json", file(&project).as_bytes());
    assert_eq!(combinations(), json!([{"client": "claude-code", "servers": ["g", "m"]}]));
    put(&house, "home/.claude.json", file("/elsewhere").as_bytes());
    assert_eq!(combinations(), json!([]));
}

#[test]
fn an_entry_that_says_two_things_is_not_judged_by_one_of_them() {
    let house = with_index();
    let plain = r#""command": "uvx", "args": ["notes"]"#;
    let ask = |more: &str| {
        house.write("c.json", &servers(&format!("\"n\": {{{plain}{more}}}")));
        let all = told(&house.run(&["stack", "c.json", "--json", "--index", "i.glx"]));
        let own = all["servers"][0].clone();
        (own["level"].clone(), own["verdict"].clone())
    };
    assert_eq!(ask(""), (json!("Low"), json!("proceed")));
    assert_eq!(ask(r#", "env": {"LANG": "C"}, "url": null"#), (json!("Low"), json!("proceed")));
    for more in [
        r#", "url": "https://a.example.com""#,
        r#", "httpUrl": "https://a.example.com""#,
        r#", "cmd": "evil""#,
        r#", "env": {"LANG": "C"}, "environment": {"UV_INDEX_URL": "https://a.example.com"}"#,
        r#", "env": {}, "envs": {"UV_INDEX_URL": "https://a.example.com"}"#,
    ] {
        assert_eq!(ask(more), (json!("High"), json!("ask-first")), "{more}");
    }
}
