//! `precheck` of what is at hand: MCP bundles, Docker's catalogue files, and servers of a registry.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::clients::SECRET;
use super::index::wheel;
use super::support::{House, Run};
use super::{told, with_index};

fn bundled(house: &House, manifest: &Value) -> Run {
    house.write_bytes("x.mcpb", &wheel(&[("manifest.json", &manifest.to_string()), ("server/index.js", "1")]));
    house.run(&["precheck", "x.mcpb", "--json", "--index", "i.glx"])
}

fn manifest(config: Value, tools: Value) -> Value {
    json!({"manifest_version": "0.3", "name": "box", "version": "1.0.0", "tools": tools,
        "server": {"type": "node", "entry_point": "server/index.js", "mcp_config": config}})
}

#[test]
fn a_bundle_is_asked_about_first_and_the_tools_of_its_manifest_are_judged() {
    let house = with_index();
    let own = json!({"command": "node", "args": ["${__dirname}/server/index.js"], "env": {"KEY": SECRET}});
    let tools = json!([{"name": "delete_note", "description": "Deletes a note for good."}, {"name": "get\u{202e}_it"}]);
    let mut text = manifest(own.clone(), tools.clone());
    text["user_config"] =
        json!({"key": {"type": "string", "sensitive": true, "default": SECRET}, "folder": {"type": "directory"}});
    let run = bundled(&house, &text);
    let all = told(&run);
    let server = &all["servers"][0];
    assert_eq!((run.code, &server["server"], &server["verdict"]), (1, &json!("box"), &json!("ask-first")));
    let reasons = server["reasons"].to_string();
    for says in ["`delete_note`: take something away for good", "were not read", "2 settings, 1 of them secret"] {
        assert!(reasons.contains(says), "{says}: {reasons}");
    }
    assert!(server["rule"].as_str().unwrap().contains("\"hide\"") && server["grade"] == Value::Null, "{server}");
    assert!(!run.stdout.contains(SECRET) && !run.stdout.contains('\u{202e}'), "{}", run.stdout);
    assert!(!format!("{}{}", run.stdout, run.stderr).to_lowercase().contains("safe"));
    // What cannot be judged is told by its number.
    let long = json!([{"name": "list_notes"}, {"name": "x".repeat(257)}, {"name": ""}, {"title": "?"}, {"name": "list_notes"}]);
    let odd = bundled(&house, &manifest(own.clone(), long));
    assert!(odd.stdout.contains("3 tools in its list cannot be rated"), "{}", odd.stdout);
    // What only reads by its own words is asked about all the same.
    let mild = bundled(&house, &manifest(own, json!([{"name": "list_notes"}])));
    assert_eq!((mild.code, &told(&mild)["verdict"]), (1, &json!("ask-first")));
}

#[test]
fn a_bundle_that_starts_a_known_package_is_told_by_that_unless_it_says_more() {
    let house = with_index();
    let files = json!({"command": "npx", "args": ["-y", "@example/files@1.0.0", "${user_config.folder}"]});
    let mut text = manifest(files.clone(), json!([{"name": "list_files"}]));
    let run = bundled(&house, &text);
    let server = told(&run)["servers"][0].clone();
    assert_eq!((run.code, &server["verdict"]), (0, &json!("proceed")), "{server}");
    assert_eq!((&server["server"], &server["version"]), (&json!("box (npm:@example/files)"), &json!("1.0.0")));
    for (at, value, says) in [
        ("tools_generated", json!(true), "adds tools while it runs"),
        ("manifest_version", json!("9.0"), "manifest version is not supported"),
        ("tools", json!([{"name": "list_files"}, {"name": "send_files"}]), "lists tools that were not found"),
        ("tools", json!([{"name": "list_files"}, {"name": "x".repeat(257)}]), "lists tools that were not found"),
    ] {
        let before = text[at].clone();
        text[at] = value;
        let run = bundled(&house, &text);
        assert!(run.code == 1 && run.stdout.contains(says), "{at}: {}", run.stdout);
        text[at] = before;
    }
    let mut elsewhere = files.clone();
    elsewhere["platform_overrides"] = json!({"win32": {"command": "evil.exe"}});
    let mut bent = files;
    bent["env"] = json!({"npm_config_registry": "https://a.example.com"});
    for config in [elsewhere, bent, json!({"command": "npx", "args": ["-y", "mcp-remote@0.1.0"]})] {
        assert_eq!(bundled(&house, &manifest(config, json!([]))).code, 1);
    }
    let case = bundled(&house, &manifest(json!({"command": "npx", "args": ["mcp-remote@0.1.0"]}), json!([])));
    assert!(case.stdout.contains("public case"), "{}", case.stdout);
}

#[test]
fn a_bundle_that_is_none_is_refused_and_never_unpacked() {
    let house = with_index();
    let good = manifest(json!({"command": "node"}), json!([])).to_string();
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(2 << 20));
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for (bytes, says) in [
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
        house.write_bytes("bad.mcpb", &bytes);
        let run = house.run(&["precheck", "bad.mcpb", "--index", "i.glx"]);
        assert!(run.code == 2 && run.stderr.contains(says), "{says}: {}{}", run.stdout, run.stderr);
    }
    assert_eq!(house.run(&["precheck", "none.mcpb", "--index", "i.glx"]).code, 2);
    // A mark before its first letter is no second one.
    house.write_bytes("marked.mcpb", &wheel(&[("manifest.json", &format!("\u{feff}{good}"))]));
    let run = house.run(&["precheck", "marked.mcpb", "--index", "i.glx"]);
    assert_ne!(run.code, 2, "{}{}", run.stdout, run.stderr);
}

#[test]
fn each_server_of_a_docker_catalogue_is_told_and_asked_about_first() {
    let house = with_index();
    house.write(
        "c.yaml",
        "version: 3\nname: mine\nregistry:\n  wiki:\n    type: server\n    image: mcp/wiki@sha256:hunter2secret\n    tools:\n      - name: drop_page\n        arguments:\n          - name: title\n            type: string\n      - name: get_page\n    secrets:\n      - name: wiki.hunter2secret\n        env: WIKI_KEY\n  far:\n    type: remote\n    remote:\n      url: https://hunter2secret.example.com\n",
    );
    let run = house.run(&["precheck", "c.yaml", "--json", "--index", "i.glx"]);
    let all = told(&run);
    let servers = all["servers"].as_array().unwrap();
    assert_eq!((run.code, servers.len(), &all["verdict"]), (1, 2, &json!("ask-first")));
    assert!(servers.iter().all(|own| own["verdict"] == "ask-first"), "{all}");
    let reasons = servers[0]["reasons"].to_string();
    assert!(reasons.contains("`drop_page`") && reasons.contains("it asks for 1 secret"), "{reasons}");
    assert!(servers[0]["rule"].as_str().unwrap().contains("drop_page") && servers[1]["rule"] == Value::Null, "{all}");
    assert!(!run.stdout.contains(SECRET), "{}", run.stdout);
    for (text, says) in [
        ("a: [b", "is not a catalogue"),
        ("registry: {}\n", "no servers"),
        ("a: &x [1]\nregistry: *x\n", "alias"),
        ("other: 1\n", "no servers"),
    ] {
        house.write("bad.yaml", text);
        let run = house.run(&["precheck", "bad.yaml", "--index", "i.glx"]);
        assert!(run.code == 2 && run.stderr.contains(says), "{text}: {}", run.stderr);
    }
}

/// Answers one request, and gives its first line.
fn answer_once(status: &'static str, body: String) -> (String, std::thread::JoinHandle<String>) {
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
fn a_server_of_a_registry_is_told_by_its_address() {
    let house = with_index();
    let ask = |status: &'static str, body: String| {
        let (address, serve) = answer_once(status, body);
        let url = format!("http://{address}/v0.1/servers/io.example%2Ffiles/versions/latest");
        let run = house.run(&["precheck", &url, "--json", "--index", "i.glx"]);
        assert_eq!(serve.join().unwrap(), "GET /v0.1/servers/io.example%2Ffiles/versions/latest HTTP/1.1");
        run
    };
    let answer = |status: &str| {
        json!({"server": {"name": "io.example/files", "version": "1.0.0", "packages": [
            {"registryType": "npm", "identifier": "@example/files", "version": "1.0.0"}]},
            "_meta": {"io.modelcontextprotocol.registry/official": {"status": status}}})
        .to_string()
    };
    let run = ask("200 OK", answer("active"));
    assert_eq!((run.code, &told(&run)["servers"][0]["server"]), (0, &json!("npm:@example/files")), "{}", run.stderr);
    for (status, says) in [("deprecated", "deprecated"), ("deleted", "deleted"), ("hunter2secret", "an unknown status")]
    {
        let run = ask("200 OK", answer(status));
        assert!(run.code == 1 && run.stdout.contains(says) && !run.stdout.contains(SECRET), "{}", run.stdout);
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
    let run = house.run(&["precheck", "http://a.example.com/v0.1/servers/x/versions/latest", "--index", "i.glx"]);
    assert!(run.code == 2 && run.stderr.contains("https://"), "{}", run.stderr);
}
