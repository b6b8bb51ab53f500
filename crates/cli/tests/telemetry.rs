//! Spans go to the collector that the environment or the file names, and to nobody else.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use support::{House, Running, house, until};

/// A collector that keeps the bytes it gets.
fn collector() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let got = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&got);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, kept) = (stream.expect("a connection"), Arc::clone(&kept));
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    kept.lock().unwrap().extend_from_slice(buffer.get(..read).unwrap_or_default());
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                }
            });
        }
    });
    (address, got)
}

fn has(got: &Mutex<Vec<u8>>, words: &str) -> bool {
    got.lock().unwrap().windows(words.len()).any(|window| window.eq_ignore_ascii_case(words.as_bytes()))
}

const UP: &[&str] = &["up", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

/// Calls a tool of the demonstration.
fn call(house: &House, running: &Running) {
    let printed = running.printed();
    let token = printed.lines().find_map(|line| line.trim().strip_prefix("token  ")).expect("a token");
    let run =
        house.run_with(&[("AGENT", token)], &["call", "--token-env", "AGENT", &running.url("demo"), "list_notes"]);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn the_environment_names_a_collector_as_it_does_for_other_programs() {
    let (address, got) = collector();
    let house = house();
    let endpoint = format!("http://{address}");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=seven"),
        ("OTEL_SERVICE_NAME", "front-gate"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let running = house.start("data", &variables, UP);
    call(&house, &running);
    until("spans come", || has(&got, "tools/call list_notes"));
    for words in ["POST /v1/traces HTTP/1.1\r\n", "x-tenant: seven\r\n", "front-gate", "gatelodge.decision"] {
        assert!(has(&got, words), "{words}");
    }
    assert_eq!(running.stop(), 0);
}

#[test]
fn a_variable_that_cannot_be_used_is_told_and_changes_nothing() {
    let (address, got) = collector();
    let house = house();
    let endpoint = format!("http://{address}");
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let running = house.start("data", &variables, UP);
    call(&house, &running);
    assert!(
        running.log().contains("spans are not exported: OTEL_EXPORTER_OTLP_PROTOCOL must be `http/protobuf`"),
        "{}",
        running.log()
    );
    assert_eq!(running.stop(), 0);
    assert!(got.lock().unwrap().is_empty());
}

#[test]
fn the_file_names_a_collector_and_its_faults_are_told_as_others() {
    let house = house();
    let check = |text: &str| {
        house.write("gatelodge.toml", &format!("[store]\ndata = \"data\"\n[telemetry]\n{text}\n"));
        house.run_with(&[("KEY", "hunter2secret")], &["serve", "--check", "--config", "gatelodge.toml"])
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
