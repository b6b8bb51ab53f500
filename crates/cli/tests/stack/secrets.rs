//! Secrets, paths and addresses appear in no output.

use std::io::{Read, Write};

use super::clients::{write_client_configs, write_file};
use super::{dir_with_index, json_output, stack};

#[test]
fn no_secret_path_address_variable_or_header_is_in_any_output() {
    let dir = dir_with_index();
    write_client_configs(&dir);
    let marked = r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "--token", "hunter2secret-1", "@example/files", "/srv/hunter2secret-2"],
        "env": {"HUNTER2NAME": "hunter2secret-3"}, "cwd": "/hunter2secret-4"},
        "b": {"url": "https://hunter2secret-5.example.com/hunter2secret-6?k=hunter2secret-7", "headers": {"X-Hunter2name": "hunter2secret-8"}},
        "c": {"command": "/opt/hunter2secret-9/mcp-run", "args": ["hunter2secret-10"]},
        "d": {"command": "uvx", "args": ["hunter2secret-11"]},
        "e": {"command": "docker", "args": ["run", "-e", "K=hunter2secret-12", "hunter2secret-13/mcp"]}}}"#;
    write_file(&dir, "marked.json", marked.as_bytes());
    for format in ["text", "json", "markdown", "sarif"] {
        for run in [
            stack(&dir, &["--format", format]),
            dir.run(&["stack", "marked.json", "--format", format, "--index", "i.glx", "--policies", "policies"]),
        ] {
            let all = format!("{}{}", run.stdout, run.stderr);
            for forbidden in [
                "hunter2",
                "HUNTER2",
                "/srv",
                "/opt",
                "example.com",
                "GITHUB_TOKEN",
                "PGPASSWORD",
                "Bearer",
                "X-Api-Key",
                "/home/",
                "/tmp/",
            ] {
                assert!(!all.contains(forbidden), "{format}: {forbidden} in {all}");
            }
            assert!(!run.stdout.is_empty() && run.code == 0, "{all}");
        }
    }
    let run = dir.run(&["stack", "marked.json", "--json", "--index", "i.glx"]);
    assert_eq!(json_output(&run)["servers"].as_array().unwrap().len(), 5);
}

#[test]
fn an_unreadable_file_is_named_by_client_and_without_its_full_path() {
    let dir = dir_with_index();
    write_file(&dir, "home/.cursor/mcp.json", b"{\"mcpServers\": hunter2secret");
    write_file(&dir, "project/.mcp.json", b"[hunter2secret]");
    for format in ["text", "json", "markdown", "sarif"] {
        let run = stack(&dir, &["--format", format]);
        let all = format!("{}{}", run.stdout, run.stderr);
        assert!(run.code == 1 && run.stderr.contains("cursor (`~/.cursor/mcp.json`): "), "{all}");
        assert!(run.stderr.contains("claude-code-project (`.mcp.json`): "), "{all}");
        // The report itself also names the file, for readers without the standard error.
        assert!(run.stdout.contains("/.cursor/mcp.json") && run.stdout.contains("claude-code-project"), "{all}");
        for forbidden in ["hunter2", "/tmp/", "/home/", &dir.path("").display().to_string()] {
            assert!(!all.contains(forbidden), "{format}: {forbidden} in {all}");
        }
    }
}

#[test]
fn a_secret_in_a_given_url_is_in_no_output() {
    let dir = dir_with_index();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap();
    });
    let foreign = format!("http://{host}/i?token=hunter2secret");
    let run = dir.run(&["catalogue", "update", "--from", &foreign, "--data", "d"]);
    serve.join().unwrap();
    assert!(run.code == 1 && run.stderr.contains(&host) && !run.stderr.contains("hunter2"), "{}", run.stderr);
    for args in [
        &["catalogue", "update", "--from", "http://127.0.0.1:1/x?token=hunter2secret", "--data", "d"][..],
        &["catalogue", "update", "--from", "https://ada:hunter2secret@a.example.com/x", "--data", "d"],
        &["catalogue", "update", "--from", "https://a.example.com/x#hunter2secret", "--data", "d"],
        &["precheck", "a.example.com/mcp?key=hunter2secret", "--index", "i.glx"],
        &["precheck", "https://a.example.com/mcp?key=hunter2secret", "--index", "i.glx"],
        &["catalogue", "show", "https://a.example.com/?key=hunter2secret", "--index", "i.glx"],
    ] {
        let run = dir.run(args);
        assert!(
            run.code != 0 && !format!("{}{}", run.stdout, run.stderr).contains("hunter2"),
            "{args:?}: {}",
            run.stderr
        );
    }
}
