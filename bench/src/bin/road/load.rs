//! A closed loop: each connection sends its next call when the last one is answered, and looks at every answer.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::target::Target;
use super::upstream::read;

/// What one target did in one slice.
pub struct Slice {
    pub calls: usize,
    pub seconds: f64,
    pub cpu: u64,
    times: Vec<u32>,
}

impl Slice {
    /// Microseconds below which so many answers came.
    pub fn percentile(&self, share: f64) -> f64 {
        let at = (self.times.len() as f64 * share) as usize;
        f64::from(self.times[at.min(self.times.len() - 1)])
    }
}

/// Calls from so many connections for so long.
pub async fn storm(target: &Target, connections: usize, time: Duration) -> Slice {
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let caller = Caller::open(target).await;
        tasks.push(tokio::spawn(caller.call_for(time)));
    }
    let since = Instant::now();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a caller"));
    }
    let seconds = since.elapsed().as_secs_f64();
    times.sort_unstable();
    Slice { calls: times.len(), seconds, cpu: 0, times }
}

/// Opens sessions that stay open without a connection.
pub async fn open_sessions(target: &Target, count: usize) -> usize {
    for _ in 0..count {
        Caller::open(target).await;
    }
    count
}

struct Caller {
    stream: TcpStream,
    head: String,
}

impl Caller {
    async fn open(target: &Target) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", target.port)).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let token = target.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\n{token}content-type: application/json\r\naccept: application/json, text/event-stream\r\n",
            target.path
        );
        let mut caller = Self { stream, head };
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
        let (head, _) = caller.send(hello).await;
        let session =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("mcp-session-id: ").map(str::to_owned));
        caller.head.push_str(&format!("mcp-session-id: {}\r\n", session.expect("a session")));
        caller
    }

    async fn call_for(mut self, time: Duration) -> Vec<u32> {
        let end = Instant::now() + time;
        let mut times = Vec::new();
        let mut at = 0_u64;
        while Instant::now() < end {
            at += 1;
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{at},"method":"tools/call","params":{{"name":"tool_50","arguments":{{"amount":5,"currency":"eur","note":"for the books"}}}}}}"#
            );
            let since = Instant::now();
            let (_, answer) = self.send(&body).await;
            times.push(u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX));
            let expected = format!("\"id\":{at},");
            assert!(answer.contains(&expected) && answer.contains("the answer is forty-two"), "{answer}");
        }
        times
    }

    async fn send(&mut self, body: &str) -> (String, String) {
        let request = format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.write_all(request.as_bytes()).await.expect("sent");
        let mut buffer = Vec::with_capacity(4 << 10);
        let body = read(&mut self.stream, &mut buffer).await.expect("an answer").to_owned();
        let head = String::from_utf8_lossy(&buffer[..buffer.len() - body.len()]).into_owned();
        (head, body)
    }
}
