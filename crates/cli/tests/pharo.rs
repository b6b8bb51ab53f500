//! `gatelodge pharo`: refused options, and serving over stdio and HTTP.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Run, TestDir, gatelodge};

/// Asserts that the program refuses to start with this message.
#[track_caller]
fn assert_usage(run: &Run, words: &str) {
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains(words), "{}", run.stderr);
    assert_eq!(run.stdout, "");
}

/// Fake Pharo image that serves one HTTP request with `body`; joining the thread returns the request line.
fn fake_image(body: &'static str) -> (u16, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut line = String::new();
        let mut request = BufReader::new(stream.try_clone().expect("a stream"));
        request.read_line(&mut line).expect("a line");
        let mut rest = String::new();
        while request.read_line(&mut rest).expect("a header") > 2 {}
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).expect("a reader");
        line
    });
    (port, server)
}

fn list_packages() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_packages"}}).to_string()
}

#[test]
fn an_invalid_timeout_is_refused() {
    for time in ["soon", "0s", "5", "-1s", "1.5s", ""] {
        assert_usage(&gatelodge(&["pharo", &format!("--timeout={time}")]), "--timeout");
    }
    assert_usage(&gatelodge(&["pharo", "--timeout", "25h"]), "the maximum is `24h`");
    assert_usage(&gatelodge(&["pharo", "--long-timeout", "2d"]), "the maximum is `24h`");
    assert_usage(&gatelodge(&["pharo", "--compat", "--long-timeout", "5m"]), "cannot be used with");
}

#[test]
fn an_invalid_port_is_refused_as_flag_and_as_variable() {
    for port in ["0", "65536", "-1", "http"] {
        assert_usage(&gatelodge(&["pharo", &format!("--port={port}")]), "--port");
        assert_usage(
            &TestDir::new().run_with(&[("PHARO_SIS_PORT", port)], &["pharo"]),
            "the variable `PHARO_SIS_PORT`",
        );
    }
}

#[test]
fn a_remote_image_needs_beyond_loopback() {
    for host in ["192.0.2.1", "0.0.0.0", "[2001:db8::1]", "::ffff:192.0.2.1"] {
        assert_usage(&gatelodge(&["pharo", "--host", host]), "use --beyond-loopback to allow it");
    }
    for host in ["127.0.0.2", "::1", "[::1]", "::ffff:127.0.0.1", "localhost"] {
        assert_eq!(gatelodge(&["pharo", "--host", host]).code, 0, "{host}");
    }
    assert_eq!(gatelodge(&["pharo", "--host", "192.0.2.1", "--beyond-loopback"]).code, 0);
}

#[test]
fn listening_on_other_interfaces_needs_beyond_loopback() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8090"] {
        assert_usage(&gatelodge(&["pharo", "--http", address]), "or use --beyond-loopback");
    }
    assert_usage(&gatelodge(&["pharo", "--http", "localhost"]), "--http");
    assert_usage(&gatelodge(&["pharo", "--known-as", "pharo"]), "--http");
}

#[test]
fn an_address_in_use_is_an_internal_error() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let run = gatelodge(&["pharo", "--http", &address]);
    assert_eq!(run.code, 5, "{}", run.stderr);
    assert!(run.stderr.contains(&format!("cannot listen on {address}")), "{}", run.stderr);
}

#[test]
fn a_stdio_client_is_served_by_the_image_at_the_port_of_the_environment() {
    let (port, request) = fake_image(r#"{"success":true,"result":["Kernel"]}"#);
    let dir = TestDir::new();
    dir.write("lines", &format!("{}\n", list_packages()));
    let line = format!("PHARO_SIS_PORT={port} {} pharo < lines", env!("CARGO_BIN_EXE_gatelodge"));
    let run = dir.run_shell(&line);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let response: Value = serde_json::from_str(&run.stdout).expect("one line of JSON");
    assert_eq!(response["result"]["structuredContent"], json!({"success": true, "result": ["Kernel"]}));
    assert_eq!(request.join().expect("a request"), "GET /list-packages HTTP/1.1\r\n");
}

#[test]
fn it_exits_when_its_output_is_closed_though_its_input_stays_open() {
    let mut child = KilledOnDrop(
        Command::new(env!("CARGO_BIN_EXE_gatelodge"))
            .arg("pharo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts"),
    );
    drop(child.0.stdout.take());
    let mut input = child.0.stdin.take().expect("a pipe");
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).expect("a reader");
    let start = Instant::now();
    let status = loop {
        match child.0.try_wait().expect("a child") {
            Some(status) => break status,
            None => assert!(start.elapsed() < Duration::from_secs(20), "it hangs"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(5));
}

#[test]
fn a_screenshot_is_returned_only_for_a_local_image() {
    let dir = TestDir::new();
    dir.write_bytes("screen.png", b"\x89PNG\r\n\x1a\n");
    let path = dir.path("screen.png").display().to_string();
    let body: &'static str = json!({"success": true, "result": {"screenshot": path}}).to_string().leak();
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_screen"}});
    // `--beyond-loopback` alone does not make the image remote. `127.1` does not parse as an address, so it is treated
    // as a host name.
    let elsewhere = ["--beyond-loopback", "--host", "127.1"];
    for (flag, blocks) in
        [(&[][..], 2), (&["--beyond-loopback"], 2), (&["--host", "127.1"], 2), (&elsewhere, 1), (&["--compat"], 1)]
    {
        let (port, _request) = fake_image(body);
        let port = port.to_string();
        let args = [&["pharo", "--port", &port][..], flag].concat();
        let run = dir.run_with_input(&args, &format!("{line}\n"));
        let response: Value = serde_json::from_str(&run.stdout).expect("one line of JSON");
        assert_eq!(response["result"]["content"].as_array().map(Vec::len), Some(blocks), "{flag:?}: {response}");
    }
}

/// A process that is killed when this is dropped.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn over_http_it_prints_its_address_serves_and_stops_on_sigterm() {
    let (port, _request) = fake_image(r#"{"success":true,"result":["Kernel"]}"#);
    let mut child = KilledOnDrop(
        Command::new(env!("CARGO_BIN_EXE_gatelodge"))
            .args(["pharo", "--http", "127.0.0.1:0", "--port", &port.to_string()])
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts"),
    );
    let mut line = String::new();
    BufReader::new(child.0.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let address =
        line.split("http://").nth(1).and_then(|rest| rest.split("/mcp").next()).expect("an address").to_owned();

    let body = list_packages();
    let head = "POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\naccept: */*\r\nconnection: close\r\n";
    let mut stream = TcpStream::connect(&address).expect("a listener");
    write!(stream, "{head}host: {address}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).expect("a reader");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    assert!(response.starts_with("HTTP/1.1 200 OK") && response.contains("Kernel"), "{response}");

    assert!(Command::new("kill").args(["-TERM", &child.0.id().to_string()]).status().expect("kill runs").success());
    assert_eq!(child.0.wait().expect("it ends").code(), Some(0));
}
