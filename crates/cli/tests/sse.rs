//! A server that speaks only HTTP+SSE is reached like any other.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};
use support::{Run, house};

/// Reads one request: its first line and its body.
fn request(stream: &mut TcpStream) -> Option<(String, String)> {
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

fn answer(body: &str) -> Option<Value> {
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

/// A server with one stream at a time.
fn server(endpoint: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (said, queue) = mpsc::channel::<TcpStream>();
    let queue = std::sync::Arc::new(std::sync::Mutex::new((queue, None::<TcpStream>)));
    let endpoint = endpoint.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (said, queue, endpoint) = (said.clone(), queue.clone(), endpoint.clone());
            thread::spawn(move || {
                let mut stream = stream.expect("a connection");
                while let Some((line, body)) = request(&mut stream) {
                    if line.starts_with("GET /sse") {
                        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                        let _ = write!(stream, "{head}event: endpoint\ndata: {endpoint}\n\n");
                        let _ = said.send(stream);
                        return;
                    }
                    let is_message = line.starts_with("POST /message");
                    let status = if is_message { "202 Accepted" } else { "404 Not Found" };
                    let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    if let Some(answer) = answer(&body).filter(|_| is_message) {
                        let mut streams = queue.lock().expect("streams");
                        if let Some(latest) = streams.0.try_iter().last() {
                            streams.1 = Some(latest);
                        }
                        let _ = write!(streams.1.as_mut().expect("a stream"), "data: {answer}\n\n");
                    }
                }
            });
        }
    });
    address
}

fn tested(endpoint: &str) -> Run {
    let house = house();
    let servers = format!("[[servers]]\nname = \"old\"\nurl = \"http://{}/sse\"\n", server(endpoint));
    house.write("gatelodge.toml", &servers);
    house.run(&["server", "test", "old", "--config", "gatelodge.toml"])
}

#[test]
fn server_test_reaches_a_server_that_speaks_only_http_sse() {
    let run = tested("/message?sessionId=1");
    assert_eq!((run.code, run.stdout.as_str()), (0, "old 1, revision 2024-11-05, 1 tool\n  read\n"), "{}", run.stderr);
}

#[test]
fn server_test_sends_nothing_to_another_origin() {
    let run = tested("http://127.0.0.1:9/message");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("another origin"), "{}", run.stderr);
}
