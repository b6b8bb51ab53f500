//! One HTTP exchange over a socket, in which the test controls every byte.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response, as the test received it.
#[derive(Debug, Clone)]
pub struct TestResponse {
    /// The HTTP status, or 0 if there was no response.
    pub status: u16,
    /// Headers with lower-case names.
    pub headers: Vec<(String, String)>,
    /// The body, after decoding chunks.
    pub body: String,
}

impl TestResponse {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns all JSON-RPC messages: the body itself, or the data of each event in it.
    pub fn messages(&self) -> Vec<Value> {
        if self.header("content-type") != Some("text/event-stream") {
            return vec![serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))];
        }
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).expect("JSON in an event")).collect()
    }

    /// Returns the last message, which is the response to the request.
    pub fn message(&self) -> Value {
        self.messages().pop().expect("a message")
    }

    /// Returns the text content of a tool result.
    pub fn text(&self) -> String {
        let message = self.message();
        let text = &message["result"]["content"][0]["text"];
        text.as_str().unwrap_or_else(|| panic!("no text in {message}")).to_owned()
    }

    /// Returns the code of a JSON-RPC error.
    pub fn code(&self) -> i64 {
        let message = self.message();
        message["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error in {message}"))
    }
}

/// Time limit for each wait for data.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the whole response. A large response can be slow while many tests are running.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends bytes and reads until the other side closes the connection or `IDLE_TIMEOUT` passes.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> TestResponse {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    // A server that refuses the headers may close before it has read the rest.
    let _ = stream.write_all(bytes).await;
    let mut raw = Vec::new();
    let reading =
        async { while let Ok(Ok(1..)) = tokio::time::timeout(IDLE_TIMEOUT, stream.read_buf(&mut raw)).await {} };
    let _ = tokio::time::timeout(TOTAL_TIMEOUT, reading).await;
    parse(&raw)
}

fn parse(raw: &[u8]) -> TestResponse {
    let text = String::from_utf8_lossy(raw).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return TestResponse { status: 0, headers: Vec::new(), body: text };
    };
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if is_chunked { decode_chunked(body) } else { body.to_owned() };
    TestResponse { status: status.unwrap_or(0), headers, body }
}

fn decode_chunked(mut rest: &str) -> String {
    let mut out = String::new();
    while let Some((size, chunk)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        out.push_str(chunk.get(..size).unwrap_or(chunk));
        rest = chunk.get(size + 2..).unwrap_or_default();
    }
    out
}
