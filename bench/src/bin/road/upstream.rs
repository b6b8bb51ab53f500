//! An upstream that does nothing but answer, as fast as it can.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub async fn serve(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        buffer.clear();
        let Some(body) = read(&mut stream, &mut buffer).await else { return };
        let id = between(body, "\"id\":", &[',', '}']).unwrap_or("null");
        let (head, result) = match between(body, "\"method\":\"", &['"']) {
            Some("initialize") => (
                "mcp-session-id: s\r\n",
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"}}"#,
            ),
            Some("tools/list") => ("", r#"{"tools":[{"name":"tool_50","inputSchema":{"type":"object"}}]}"#),
            Some("tools/call") => ("", r#"{"content":[{"type":"text","text":"the answer is forty-two"}]}"#),
            _ => {
                if stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await.is_err() {
                    return;
                }
                continue;
            }
        };
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{head}content-length: {}\r\n\r\n{text}",
            text.len()
        );
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads one request and gives its body.
pub async fn read<'b>(stream: &mut TcpStream, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
    loop {
        if let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let length = length_of(str::from_utf8(&buffer[..head]).ok()?);
            while buffer.len() < head + 4 + length {
                if stream.read_buf(buffer).await.ok()? == 0 {
                    return None;
                }
            }
            return str::from_utf8(&buffer[head + 4..]).ok();
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

fn length_of(head: &str) -> usize {
    let line = head.lines().find(|line| line.len() > 15 && line[..15].eq_ignore_ascii_case("content-length:"));
    line.map_or(0, |line| line[15..].trim().parse().expect("a length"))
}

fn between<'t>(text: &'t str, before: &str, ends: &[char]) -> Option<&'t str> {
    let start = text.find(before)? + before.len();
    let rest = &text[start..];
    Some(&rest[..rest.find(ends)?])
}
