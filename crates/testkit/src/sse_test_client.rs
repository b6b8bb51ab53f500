//! A client for the HTTP+SSE transport (2024-11-05): it opens one event stream, and sends messages to the URL that the
//! stream announces.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;

use crate::raw_http::{TestResponse, exchange};
use crate::test_gateway::TestGateway;

/// A test client connected over HTTP+SSE.
pub struct SseTestClient {
    /// URL to send messages to, which the server announces in its first event.
    pub endpoint: String,
    address: SocketAddr,
    token: String,
    lines: Lines<BufReader<TcpStream>>,
}

impl SseTestClient {
    /// Connects with the token of the gateway's first grant, and waits for the `endpoint` event.
    pub async fn open(gw: &TestGateway) -> Self {
        Self::open_with(gw.address, gw.token.reveal()).await
    }

    /// Connects with a token.
    pub async fn open_with(address: SocketAddr, token: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let head = format!(
            "GET /mcp/desk HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let lines = BufReader::new(stream).lines();
        let mut client = Self { endpoint: String::new(), address, token: token.to_owned(), lines };
        let (kind, data) = client.next_event().await.expect("a first event");
        assert_eq!(kind, "endpoint");
        client.endpoint = data;
        client
    }

    /// Connects and performs the `initialize` handshake.
    pub async fn open_initialized(gw: &TestGateway, revision: &str) -> Self {
        let mut client = Self::open(gw).await;
        let params = json!({"protocolVersion": revision, "capabilities": {"sampling": {}, "elicitation": {}, "roots": {}}, "clientInfo": {"name": "sse", "version": "1"}});
        let response = client.request("hello", "initialize", params).await;
        assert_eq!(response["result"]["protocolVersion"], revision, "{response}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    /// Sends a message, and checks that the gateway accepts it.
    pub async fn send(&self, message: &Value) {
        let response = self.post(&message.to_string()).await;
        assert_eq!((response.status, response.body.as_str()), (202, ""));
    }

    /// Posts a message body.
    pub async fn post(&self, body: &str) -> TestResponse {
        self.post_with(&[], body).await
    }

    /// Posts a message body with additional headers.
    pub async fn post_with(&self, headers: &[(&str, &str)], body: &str) -> TestResponse {
        let more_headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{more_headers}Content-Length: {}\r\n\r\n",
            self.endpoint,
            self.address,
            self.token,
            body.len()
        );
        exchange(self.address, format!("{head}{body}").as_bytes()).await
    }

    /// Sends a request and returns its response. Messages that arrive before the response are dropped.
    pub async fn request(&mut self, id: &str, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        loop {
            let message = self.next_message().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Calls a tool.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("call", "tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Returns the next message.
    pub async fn next_message(&mut self) -> Value {
        let (kind, data) = self.next_event().await.expect("a message");
        assert_eq!(kind, "message");
        serde_json::from_str(&data).expect("JSON")
    }

    /// Returns the type and data of the next event, or `None` at the end of the stream.
    pub async fn next_event(&mut self) -> Option<(String, String)> {
        let mut kind = String::new();
        loop {
            let line = self.next_line().await?;
            if let Some(name) = line.strip_prefix("event: ") {
                kind = name.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((kind, data.to_owned()));
            }
        }
    }

    /// Returns the next line, which may be a chunk header, or `None` at the end of the stream.
    pub async fn next_line(&mut self) -> Option<String> {
        let next = tokio::time::timeout(Duration::from_secs(5), self.lines.next_line()).await;
        // The last chunk is empty; the connection may stay open.
        next.expect("a line in time").ok().flatten().filter(|line| line != "0")
    }

    /// Waits until the stream ends.
    pub async fn wait_for_end(mut self) {
        while self.next_line().await.is_some() {}
    }
}
