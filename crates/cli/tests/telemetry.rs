//! Spans go only to the collector that is set in the environment or in the configuration file.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use support::{RunningGateway, TestDir, wait_until};

/// Starts a collector; returns its address and the bytes it receives.
fn collector() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let received = Arc::new(Mutex::new(Vec::new()));
    let buffered = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, buffered) = (stream.expect("a connection"), Arc::clone(&buffered));
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    buffered.lock().unwrap().extend_from_slice(buffer.get(..read).unwrap_or_default());
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                }
            });
        }
    });
    (address, received)
}

fn contains(received: &Mutex<Vec<u8>>, words: &str) -> bool {
    received.lock().unwrap().windows(words.len()).any(|window| window.eq_ignore_ascii_case(words.as_bytes()))
}

const UP: &[&str] = &["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

/// Calls a tool of the demo server.
fn call(dir: &TestDir, running: &RunningGateway) {
    let printed = running.stdout();
    let token = printed.lines().find_map(|line| line.trim().strip_prefix("token  ")).expect("a token");
    let run = dir.run_with(&[("AGENT", token)], &["call", "--token-env", "AGENT", &running.url("demo"), "list_notes"]);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn standard_otel_variables_set_the_collector() {
    let (address, received) = collector();
    let dir = TestDir::new();
    let endpoint = format!("http://{address}");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=seven"),
        ("OTEL_SERVICE_NAME", "front-gate"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let running = dir.start("data", &variables, UP);
    call(&dir, &running);
    wait_until("spans come", || contains(&received, "tools/call list_notes"));
    for words in ["POST /v1/traces HTTP/1.1\r\n", "x-tenant: seven\r\n", "front-gate", "gatelodge.decision"] {
        assert!(contains(&received, words), "{words}");
    }
    assert_eq!(running.stop(), 0);
}

#[test]
fn an_unsupported_variable_is_logged_and_nothing_is_sent() {
    let (address, received) = collector();
    let dir = TestDir::new();
    let endpoint = format!("http://{address}");
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let running = dir.start("data", &variables, UP);
    call(&dir, &running);
    assert!(
        running.log().contains("spans are not exported: OTEL_EXPORTER_OTLP_PROTOCOL must be `http/protobuf`"),
        "{}",
        running.log()
    );
    assert_eq!(running.stop(), 0);
    assert!(received.lock().unwrap().is_empty());
}

#[test]
fn the_telemetry_section_is_checked_like_the_rest_of_the_file() {
    let dir = TestDir::new();
    let check = |text: &str| {
        dir.write("gatelodge.toml", &format!("[store]\ndata = \"data\"\n[telemetry]\n{text}\n"));
        dir.run_with(&[("KEY", "hunter2secret")], &["serve", "--check", "--config", "gatelodge.toml"])
    };
    let good = check("endpoint = \"http://127.0.0.1:4318\"\nheaders = { X-Key = \"${KEY}\" }\nservice_name = \"gate\"");
    assert_eq!((good.code, good.stderr.contains("no errors")), (0, true), "{}", good.stderr);
    for (text, words) in [
        ("endpoint = \"collector:4318\"", "bad-value"),
        ("endpointt = \"http://127.0.0.1:4318\"", "did you mean `endpoint`?"),
        ("headers = { X-Key = \"${NONE}\" }", "missing-variable"),
        ("endpoint = \"http://c.example.com\"\nheaders = { X-Key = \"${KEY}\" }", "clear-text"),
    ] {
        let run = check(text);
        assert!(run.stderr.contains(words), "{text}: {}", run.stderr);
        assert!(!run.stderr.contains("hunter2secret"), "{}", run.stderr);
    }
}
