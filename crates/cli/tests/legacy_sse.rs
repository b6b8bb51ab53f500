//! `server test` with a server that speaks only the legacy HTTP+SSE transport.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};
use support::{Run, TestDir};

/// Reads one request; returns its request line and body.
fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut raw, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&raw).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_ascii_lowercase();
            let length =
                lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Some((head.lines().next()?.to_owned(), body.to_owned()));
            }
        }
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        raw.extend_from_slice(&buffer[..read]);
    }
}

fn response_to(body: &str) -> Option<Value> {
    let message: Value = serde_json::from_str(body).ok()?;
    let result = match message["method"].as_str()? {
        "initialize" => {
            json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}})
        }
        "tools/list" => json!({"tools": [{"name": "read", "inputSchema": {}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "it was read"}]}),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

/// Starts an HTTP+SSE server; responses go to the stream that was opened last.
fn start_server(endpoint: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (opened, streams) = mpsc::channel::<TcpStream>();
    let streams = std::sync::Arc::new(std::sync::Mutex::new((streams, None::<TcpStream>)));
    let endpoint = endpoint.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (opened, streams, endpoint) = (opened.clone(), streams.clone(), endpoint.clone());
            thread::spawn(move || {
                let mut stream = stream.expect("a connection");
                while let Some((line, body)) = read_request(&mut stream) {
                    if line.starts_with("GET /sse") {
                        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                        let _ = write!(stream, "{head}event: endpoint\ndata: {endpoint}\n\n");
                        let _ = opened.send(stream);
                        return;
                    }
                    let is_message = line.starts_with("POST /message");
                    let status = if is_message { "202 Accepted" } else { "404 Not Found" };
                    let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    if let Some(response) = response_to(&body).filter(|_| is_message) {
                        let mut streams = streams.lock().expect("streams");
                        if let Some(latest) = streams.0.try_iter().last() {
                            streams.1 = Some(latest);
                        }
                        let _ = write!(streams.1.as_mut().expect("a stream"), "data: {response}\n\n");
                    }
                }
            });
        }
    });
    address
}

fn run_server_test(endpoint: &str) -> Run {
    let dir = TestDir::new();
    let servers = format!("[[servers]]\nname = \"old\"\nurl = \"http://{}/sse\"\n", start_server(endpoint));
    dir.write("gatelodge.toml", &servers);
    dir.run(&["server", "test", "old", "--config", "gatelodge.toml"])
}

#[test]
fn server_test_reaches_a_server_that_speaks_only_http_sse() {
    let run = run_server_test("/message?sessionId=1");
    assert_eq!((run.code, run.stdout.as_str()), (0, "old 1, revision 2024-11-05, 1 tool\n  read\n"), "{}", run.stderr);
}

#[test]
fn server_test_sends_nothing_to_another_origin() {
    let run = run_server_test("http://127.0.0.1:9/message");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("another origin"), "{}", run.stderr);
}
