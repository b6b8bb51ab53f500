//! An upstream that replies as fast as possible, over HTTP or stdio.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Text of every tool result.
pub const ANSWER_TEXT: &str = "the answer is forty-two";

/// Serves on a local port.
pub async fn serve_http(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(serve_connection(stream));
    }
}

/// Serves over stdio, one line per message.
pub async fn serve_stdio() {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut out = tokio::io::stdout();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(UpstreamReply { text, .. }) = reply_to(&line, "/mcp") {
            out.write_all(format!("{text}\n").as_bytes()).await.expect("a reader");
            out.flush().await.expect("a reader");
        }
    }
}

async fn serve_connection(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        buffer.clear();
        let Some((head, body)) = read_http_message(&mut stream, &mut buffer).await else { return };
        let path = head.split(' ').nth(1).unwrap_or_default();
        let bytes = match reply_to(body, path) {
            None => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
            Some(UpstreamReply { text, extra_headers: head }) if path == "/events" => {
                let text = format!("event: message\ndata: {text}\n\n");
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{head}transfer-encoding: chunked\r\n\r\n"
                );
                format!("{head}{:x}\r\n{text}\r\n0\r\n\r\n", text.len())
            }
            Some(UpstreamReply { text, extra_headers: head }) => format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{head}content-length: {}\r\n\r\n{text}",
                text.len()
            ),
        };
        if stream.write_all(bytes.as_bytes()).await.is_err() {
            return;
        }
    }
}

struct UpstreamReply {
    text: String,
    /// Headers in addition to the usual ones.
    extra_headers: &'static str,
}

/// Returns the reply to a message, or `None` for a notification.
fn reply_to(body: &str, path: &str) -> Option<UpstreamReply> {
    let id = text_between(body, "\"id\":", &[',', '}'])?;
    let (head, result) = match text_between(body, "\"method\":\"", &['"'])? {
        "initialize" => (
            "mcp-session-id: s\r\n",
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"}}"#
                .to_owned(),
        ),
        "server/discover" => (
            "",
            r#"{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"},"ttlMs":0,"cacheScope":"private"}"#.to_owned(),
        ),
        "tools/list" => ("", tool_list(path)),
        "tools/call" => {
            let text = if body.len() > 100_000 { format!("{ANSWER_TEXT}{}", "x".repeat(1 << 20)) } else { ANSWER_TEXT.to_owned() };
            ("", format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"resultType":"complete"}}"#))
        }
        _ => return None,
    };
    Some(UpstreamReply {
        text: format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
        extra_headers: head,
    })
}

/// Returns a list of as many tools as the path says: `/mcp` has one, `/tools/500` has 500.
fn tool_list(path: &str) -> String {
    let count = path.strip_prefix("/tools/").and_then(|count| count.parse().ok()).unwrap_or(1);
    let tools: Vec<String> = (0..count)
        .map(|at| {
            let at = if count == 1 { 50 } else { at };
            format!(
                r#"{{"name":"tool_{at}","description":"Enters an amount in the books, under its currency.","inputSchema":{{"type":"object","properties":{{"amount":{{"type":"number"}},"currency":{{"type":"string"}},"note":{{"type":"string"}}}}}}}}"#
            )
        })
        .collect();
    format!(r#"{{"tools":[{}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}}"#, tools.join(","))
}

/// Reads one HTTP message and returns headers and body. A chunked body includes the chunk lengths.
pub async fn read_http_message<'b>(stream: &mut TcpStream, buffer: &'b mut Vec<u8>) -> Option<(&'b str, &'b str)> {
    loop {
        if let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let length = content_length(str::from_utf8(&buffer[..head]).ok()?);
            let is_whole = |buffer: &[u8]| match length {
                Some(length) => buffer.len() >= head + 4 + length,
                None => buffer.ends_with(b"0\r\n\r\n"),
            };
            while !is_whole(buffer) {
                if stream.read_buf(buffer).await.ok()? == 0 {
                    return None;
                }
            }
            return Some((str::from_utf8(&buffer[..head]).ok()?, str::from_utf8(&buffer[head + 4..]).ok()?));
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// Returns the content length, or `None` for a chunked body.
pub fn content_length(head: &str) -> Option<usize> {
    let has = |name: &'static str| {
        move |line: &&str| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name)
    };
    if head.lines().any(|line| has("transfer-encoding:")(&line)) {
        return None;
    }
    let line = head.lines().find(has("content-length:"));
    Some(line.map_or(0, |line| line["content-length:".len()..].trim().parse().expect("a length")))
}

fn text_between<'t>(text: &'t str, before: &str, ends: &[char]) -> Option<&'t str> {
    let start = text.find(before)? + before.len();
    let rest = &text[start..];
    Some(&rest[..rest.find(ends)?])
}
