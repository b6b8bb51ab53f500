//! Entries that may start a different program than it seems, and files that belong to a different client.

use serde_json::{Value, json};

use super::clients::write_file;
use super::{dir_with_index, json_output};

const NOTES: &str = r#"{"n": {"command": "uvx", "args": ["notes"]}}"#;

#[test]
fn a_package_with_a_working_directory_or_environment_file_is_a_guess() {
    let dir = dir_with_index();
    let rate = |file: &str, root: &str, more: &str| {
        let entry = format!(r#"{{"n": {{"command": "npx", "args": ["-y", "@example/files"]{more}}}}}"#);
        write_file(&dir, file, format!("{{\"{root}\": {entry}}}").as_bytes());
        let server = json_output(&dir.run(&["stack", file, "--json", "--index", "i.glx"]))["servers"][0].clone();
        (server["is_guess"].clone(), server["verdict"].clone())
    };
    for more in ["", r#", "cwd": null"#, r#", "env": {"LANG": "C"}"#, r#", "env_vars": ["LANG"]"#] {
        assert_eq!(rate("c.json", "mcpServers", more), (json!(false), json!("proceed")), "{more}");
    }
    for more in [
        r#", "cwd": "./evil""#,
        r#", "cwd": """#,
        r#", "cwd": 7"#,
        r#", "workingDirectory": "./evil""#,
        r#", "envFile": "evil.env""#,
        r#", "env_file": "evil.env""#,
        r#", "env_vars": ["NODE_OPTIONS"]"#,
        r#", "env_vars": [{"name": "NODE_OPTIONS", "source": "local"}]"#,
        r#", "env_keys": ["npm_config_registry"]"#,
    ] {
        assert_eq!(rate("c.json", "mcpServers", more), (json!(true), json!("ask-first")), "{more}");
        assert_eq!(rate(".vscode/mcp.json", "servers", more), (json!(true), json!("ask-first")), "{more}");
    }
    let inner =
        r#"{"context_servers": {"n": {"command": {"path": "npx", "args": ["-y", "@example/files"], "cwd": "x"}}}}"#;
    dir.write("z.json", inner);
    let all = json_output(&dir.run(&["stack", "z.json", "--json", "--index", "i.glx"]));
    assert_eq!(all["servers"][0]["is_guess"], true, "{all}");
}

#[test]
fn a_package_with_a_remote_transport_is_ask_first() {
    let dir = dir_with_index();
    let rate = |transport: &Value| {
        let package =
            json!({"registryType": "npm", "identifier": "@example/files", "version": "1.0.0", "transport": transport});
        dir.write("server.json", &json!({"packages": [package]}).to_string());
        let run = dir.run(&["precheck", "server.json", "--index", "i.glx"]);
        assert!(!run.stdout.contains("hunter2"), "{}", run.stdout);
        run.code
    };
    for transport in [
        json!({"type": "stdio"}),
        json!({"type": "streamable-http", "url": "http://localhost:3000/mcp"}),
        json!({"type": "sse", "url": "http://127.0.0.1/sse"}),
        json!({"type": "streamable-http", "url": "http://[::1]:8080/{path}"}),
    ] {
        assert_eq!(rate(&transport), 0, "{transport}");
    }
    for transport in [
        json!({"type": "streamable-http", "url": "https://hunter2secret.example.com/mcp"}),
        json!({"type": "sse", "url": "https://hunter2secret.example.com/sse"}),
        json!({"type": "stdio", "url": "https://hunter2secret.example.com/mcp"}),
        json!({"type": "streamable-http", "url": "http://localhost:80@hunter2secret.example.com/"}),
        json!({"type": "streamable-http", "url": "http://localhost.hunter2secret.example.com/"}),
        // The placeholder may contain a host.
        json!({"type": "streamable-http", "url": "http://localhost:{port}/mcp"}),
        json!({"type": "streamable-http", "url": "http://{host}:3000/mcp"}),
        json!({"type": "streamable-http"}),
        json!({"type": "hunter2secret"}),
        json!([{"type": "streamable-http", "url": "https://hunter2secret.example.com/mcp"}]),
        json!("hunter2secret"),
    ] {
        assert_eq!(rate(&transport), 1, "{transport}");
    }
}

#[test]
fn errors_are_reported_in_the_requested_format() {
    let dir = dir_with_index();
    dir.write("bad.json", "{\"mcpServers\": hunter2secret");
    for (file, code) in [("bad.json", 1), ("nowhere.json", 2)] {
        let plain = dir.run(&["stack", file, "--json", "--index", "i.glx"]);
        let named = dir.run(&["stack", file, "--format", "json", "--index", "i.glx"]);
        assert_eq!((named.code, &named.stdout), (code, &plain.stdout));
        assert_eq!(json_output(&named)["error"]["exit_code"], code);
        let run = dir.run(&["stack", file, "--format", "sarif", "--index", "i.glx"]);
        let invocation = json_output(&run)["runs"][0]["invocations"][0].clone();
        assert_eq!((run.code, &invocation["executionSuccessful"]), (code, &json!(false)), "{invocation}");
        let message = invocation["toolExecutionNotifications"][0]["message"]["text"].as_str().unwrap().to_owned();
        assert!(message.contains(file) && !message.contains("hunter2"), "{message}");
    }
    for args in [&["stack", "--what", "--format", "json"][..], &["stack", "--what", "--format=json"]] {
        assert_eq!(json_output(&dir.run(args))["error"]["exit_code"], 2, "{args:?}");
    }
}

#[test]
fn a_file_of_another_client_or_an_empty_file_fails() {
    let dir = dir_with_index();
    let refused = |file: &str, client: &[&str], message: &str| {
        let run = dir.run(&[&["stack", file, "--index", "i.glx"], client].concat());
        assert!(run.code == 1 && run.stderr.contains(message), "{file} {client:?}: {}{}", run.stdout, run.stderr);
    };
    dir.write("c.json", &format!("{{\"mcpServers\": {NOTES}}}"));
    refused("c.json", &["--client", "vscode"], "not where vscode has them");
    refused("c.json", &["--client", "goose"], "not where goose has them");
    dir.write("v.json", &format!("{{\"servers\": {NOTES}}}"));
    refused("v.json", &["--client", "cursor"], "but where vscode has them");
    dir.write("only.json", &format!("{{\"projects\": {{\"/a\": {{\"mcpServers\": {NOTES}}}}}}}"));
    refused("only.json", &["--client", "cursor"], "but where claude-code has them");
    for text in ["", "\n ", "\u{feff}"] {
        dir.write("none.json", text);
        refused("none.json", &[], "it is empty");
        refused("none.json", &["--client", "cursor"], "it is empty");
    }
    // Settings without servers are valid.
    for text in ["{}", "{\"mcpServers\": {}}", "{\"extensions\": {\"disabled\": []}, \"servers\": 7}"] {
        dir.write("some.json", text);
        let run = dir.run(&["stack", "some.json", "--client", "gemini", "--index", "i.glx"]);
        assert_eq!(run.code, 0, "{text}: {}", run.stderr);
    }
}

#[test]
fn the_client_is_recognized_by_a_unique_file_name_or_key() {
    let dir = dir_with_index();
    let entry = r#"{"n": {"command": "uvx", "args": ["notes"], "disabled": true}}"#;
    for (file, client, is_off) in [
        ("claude_desktop_config.json", "claude-desktop", false),
        ("cline_mcp_settings.json", "cline", true),
        ("mcp_settings.json", "roo", true),
        ("sub/mcp_settings.json", "roo", true),
        // Several clients use these names.
        ("mcp.json", "a file", false),
        ("settings.json", "a file", false),
        ("c.json", "a file", false),
    ] {
        write_file(&dir, file, format!("{{\"mcpServers\": {entry}}}").as_bytes());
        let all = json_output(&dir.run(&["stack", file, "--json", "--index", "i.glx"]));
        let server = &all["servers"][0];
        assert_eq!((&server["clients"], &server["is_off"]), (&json!([client]), &json!(is_off)), "{file}");
    }
    // Only one client uses these keys.
    dir.write("v.json", &format!("{{\"servers\": {NOTES}}}"));
    dir.write("only.json", &format!("{{\"projects\": {{\"/a\": {{\"mcpServers\": {NOTES}}}}}}}"));
    for (file, client) in [("v.json", "vscode"), ("only.json", "claude-code")] {
        let all = json_output(&dir.run(&["stack", file, "--json", "--index", "i.glx"]));
        assert_eq!(all["servers"][0]["clients"], json!([client]), "{file}");
    }
}
