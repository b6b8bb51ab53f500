//! `precheck` of MCP bundles, Docker catalogue files and registry servers.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::clients::SECRET;
use super::support::{Run, TestDir};
use super::test_registry::wheel;
use super::{dir_with_index, json_output};

fn precheck_bundle(dir: &TestDir, manifest: &Value) -> Run {
    dir.write_bytes("x.mcpb", &wheel(&[("manifest.json", &manifest.to_string()), ("server/index.js", "1")]));
    dir.run(&["precheck", "x.mcpb", "--json", "--index", "i.glx"])
}

fn manifest(config: Value, tools: Value) -> Value {
    json!({"manifest_version": "0.3", "name": "box", "version": "1.0.0", "tools": tools,
        "server": {"type": "node", "entry_point": "server/index.js", "mcp_config": config}})
}

#[test]
fn a_bundle_is_ask_first_and_its_manifest_tools_are_rated() {
    let dir = dir_with_index();
    let config = json!({"command": "node", "args": ["${__dirname}/server/index.js"], "env": {"KEY": SECRET}});
    let tools = json!([{"name": "delete_note", "description": "Deletes a note for good."}, {"name": "get\u{202e}_it"}]);
    let mut text = manifest(config.clone(), tools.clone());
    text["user_config"] =
        json!({"key": {"type": "string", "sensitive": true, "default": SECRET}, "folder": {"type": "directory"}});
    let run = precheck_bundle(&dir, &text);
    let all = json_output(&run);
    let server = &all["servers"][0];
    assert_eq!((run.code, &server["server"], &server["verdict"]), (1, &json!("box"), &json!("ask-first")));
    let reasons = server["reasons"].to_string();
    for message in [
        "`delete_note`: removes something permanently; the rule hides it",
        "were not read",
        "2 settings, 1 of them secret",
    ] {
        assert!(reasons.contains(message), "{message}: {reasons}");
    }
    assert!(server["rule"].as_str().unwrap().contains("\"hide\"") && server["grade"] == Value::Null, "{server}");
    assert!(!run.stdout.contains(SECRET) && !run.stdout.contains('\u{202e}'), "{}", run.stdout);
    assert!(!format!("{}{}", run.stdout, run.stderr).to_lowercase().contains("safe"));
    // Tools that cannot be rated are counted.
    let long = json!([{"name": "list_notes"}, {"name": "x".repeat(257)}, {"name": ""}, {"title": "?"}, {"name": "list_notes"}]);
    let run = precheck_bundle(&dir, &manifest(config.clone(), long));
    assert!(run.stdout.contains("3 tools in its list cannot be rated"), "{}", run.stdout);
    // A bundle is never trusted by its own description: even one that only reads is `ask-first`.
    let read_only = precheck_bundle(&dir, &manifest(config, json!([{"name": "list_notes"}])));
    assert_eq!((read_only.code, &json_output(&read_only)["verdict"]), (1, &json!("ask-first")));
}

#[test]
fn a_bundle_that_starts_an_indexed_package_is_rated_by_the_index() {
    let dir = dir_with_index();
    let files = json!({"command": "npx", "args": ["-y", "@example/files@1.0.0", "${user_config.folder}"]});
    let mut text = manifest(files.clone(), json!([{"name": "list_files"}]));
    let run = precheck_bundle(&dir, &text);
    let server = json_output(&run)["servers"][0].clone();
    assert_eq!((run.code, &server["verdict"]), (0, &json!("proceed")), "{server}");
    assert_eq!((&server["server"], &server["version"]), (&json!("box (npm:@example/files)"), &json!("1.0.0")));
    for (at, value, message) in [
        ("tools_generated", json!(true), "adds tools while it runs"),
        ("manifest_version", json!("9.0"), "manifest version is not supported"),
        ("tools", json!([{"name": "list_files"}, {"name": "send_files"}]), "lists tools that were not found"),
        ("tools", json!([{"name": "list_files"}, {"name": "x".repeat(257)}]), "lists tools that were not found"),
    ] {
        let before = text[at].clone();
        text[at] = value;
        let run = precheck_bundle(&dir, &text);
        assert!(run.code == 1 && run.stdout.contains(message), "{at}: {}", run.stdout);
        text[at] = before;
    }
    let mut platform_override = files.clone();
    platform_override["platform_overrides"] = json!({"win32": {"command": "evil.exe"}});
    let mut other_registry = files;
    other_registry["env"] = json!({"npm_config_registry": "https://a.example.com"});
    for config in [platform_override, other_registry, json!({"command": "npx", "args": ["-y", "mcp-remote@0.1.0"]})] {
        assert_eq!(precheck_bundle(&dir, &manifest(config, json!([]))).code, 1);
    }
    let case = precheck_bundle(&dir, &manifest(json!({"command": "npx", "args": ["mcp-remote@0.1.0"]}), json!([])));
    assert!(case.stdout.contains("public incident"), "{}", case.stdout);
}

#[test]
fn an_invalid_bundle_is_refused() {
    let dir = dir_with_index();
    let good = manifest(json!({"command": "node"}), json!([])).to_string();
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(2 << 20));
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for (bytes, message) in [
        (b"PK\x03\x04 no zip".to_vec(), "is not a complete zip"),
        (wheel(&[("package.json", "{}")]), "is not an MCP bundle"),
        (wheel(&[("../manifest.json", &good)]), "is not an MCP bundle"),
        (wheel(&[("manifest.json", &large)]), "at most 1 MiB"),
        (wheel(&[("manifest.json", &deep)]), "has an invalid `manifest.json`"),
        (wheel(&[("manifest.json", "7")]), "that is not an object"),
        (wheel(&[("manifest.json", &good), ("manifest.json", "{}")]), "more than one"),
        (wheel(&[("manifest.json", "{}"), ("manifest.json", &good)]), "more than one"),
        (wheel(&[("manifest.json", ""), ("manifest.json", &good)]), "more than one"),
        (wheel(&[("manifest.json", &large), ("manifest.json", &good)]), "more than one"),
    ] {
        dir.write_bytes("bad.mcpb", &bytes);
        let run = dir.run(&["precheck", "bad.mcpb", "--index", "i.glx"]);
        assert!(run.code == 2 && run.stderr.contains(message), "{message}: {}{}", run.stdout, run.stderr);
    }
    assert_eq!(dir.run(&["precheck", "none.mcpb", "--index", "i.glx"]).code, 2);
    // A byte order mark in front of the manifest is accepted.
    dir.write_bytes("marked.mcpb", &wheel(&[("manifest.json", &format!("\u{feff}{good}"))]));
    let run = dir.run(&["precheck", "marked.mcpb", "--index", "i.glx"]);
    assert_ne!(run.code, 2, "{}{}", run.stdout, run.stderr);
}

#[test]
fn each_server_of_a_docker_catalogue_is_listed_as_ask_first() {
    let dir = dir_with_index();
    dir.write(
        "c.yaml",
        "version: 3\nname: mine\nregistry:\n  wiki:\n    type: server\n    image: mcp/wiki@sha256:hunter2secret\n    tools:\n      - name: drop_page\n        arguments:\n          - name: title\n            type: string\n      - name: get_page\n    secrets:\n      - name: wiki.hunter2secret\n        env: WIKI_KEY\n  far:\n    type: remote\n    remote:\n      url: https://hunter2secret.example.com\n",
    );
    let run = dir.run(&["precheck", "c.yaml", "--json", "--index", "i.glx"]);
    let all = json_output(&run);
    let servers = all["servers"].as_array().unwrap();
    assert_eq!((run.code, servers.len(), &all["verdict"]), (1, 2, &json!("ask-first")));
    assert!(servers.iter().all(|server| server["verdict"] == "ask-first"), "{all}");
    let reasons = servers[0]["reasons"].to_string();
    assert!(reasons.contains("`drop_page`") && reasons.contains("it asks for 1 secret"), "{reasons}");
    assert!(servers[0]["rule"].as_str().unwrap().contains("drop_page") && servers[1]["rule"] == Value::Null, "{all}");
    assert!(!run.stdout.contains(SECRET), "{}", run.stdout);
    for (text, message) in [
        ("a: [b", "is not a catalogue"),
        ("registry: {}\n", "no servers"),
        ("a: &x [1]\nregistry: *x\n", "alias"),
        ("other: 1\n", "no servers"),
    ] {
        dir.write("bad.yaml", text);
        let run = dir.run(&["precheck", "bad.yaml", "--index", "i.glx"]);
        assert!(run.code == 2 && run.stderr.contains(message), "{text}: {}", run.stderr);
    }
}

/// Serves one request; joining the thread returns the request line.
fn serve_once(status: &'static str, body: String) -> (String, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let read = stream.read(&mut head).unwrap();
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        String::from_utf8_lossy(&head[..read]).lines().next().unwrap().to_owned()
    });
    (address, serve)
}

#[test]
fn a_registry_server_is_checked_by_its_url() {
    let dir = dir_with_index();
    let ask = |status: &'static str, body: String| {
        let (address, serve) = serve_once(status, body);
        let url = format!("http://{address}/v0.1/servers/io.example%2Ffiles/versions/latest");
        let run = dir.run(&["precheck", &url, "--json", "--index", "i.glx"]);
        assert_eq!(serve.join().unwrap(), "GET /v0.1/servers/io.example%2Ffiles/versions/latest HTTP/1.1");
        run
    };
    let body = |status: &str| {
        json!({"server": {"name": "io.example/files", "version": "1.0.0", "packages": [
            {"registryType": "npm", "identifier": "@example/files", "version": "1.0.0"}]},
            "_meta": {"io.modelcontextprotocol.registry/official": {"status": status}}})
        .to_string()
    };
    let run = ask("200 OK", body("active"));
    assert_eq!(
        (run.code, &json_output(&run)["servers"][0]["server"]),
        (0, &json!("npm:@example/files")),
        "{}",
        run.stderr
    );
    for (status, message) in
        [("deprecated", "deprecated"), ("deleted", "deleted"), ("hunter2secret", "an unknown status")]
    {
        let run = ask("200 OK", body(status));
        assert!(run.code == 1 && run.stdout.contains(message) && !run.stdout.contains(SECRET), "{}", run.stdout);
    }
    for (status, body, code) in [
        ("404 Not Found", String::new(), 4),
        ("302 Found", String::new(), 4),
        ("200 OK", "<html>".to_owned(), 4),
        ("200 OK", "{}".to_owned(), 2),
    ] {
        let run = ask(status, body.clone());
        assert_eq!(run.code, code, "{status} {body}: {}{}", run.stdout, run.stderr);
    }
    let run = dir.run(&["precheck", "http://a.example.com/v0.1/servers/x/versions/latest", "--index", "i.glx"]);
    assert!(run.code == 2 && run.stderr.contains("https://"), "{}", run.stderr);
}
