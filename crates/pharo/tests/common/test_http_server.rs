//! Clients over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use gatelodge_pharo::{PharoServer, serve_http};
use gatelodge_testkit::{TestResponse, exchange};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{FakeImage, server, settings};

/// A listening server.
pub struct TestHttpServer(pub SocketAddr);

impl TestHttpServer {
    /// Starts a server for this image, with default settings.
    pub async fn of(image: &FakeImage) -> Self {
        Self::to(server(image.port(), settings())).await
    }

    pub async fn to(pharo: Arc<PharoServer>) -> Self {
        Self::at("127.0.0.1:0", pharo, &[]).await
    }

    /// Starts a server at an address, with additional host names.
    pub async fn at(address: &str, pharo: Arc<PharoServer>, names: &'static [&str]) -> Self {
        Self::on(TcpListener::bind(address).await.expect("a port"), pharo, names)
    }

    /// Starts a server with small socket buffers.
    pub fn narrow(pharo: Arc<PharoServer>) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // Connections inherit the buffer sizes of their listener.
        socket.set_send_buffer_size(1 << 16).and_then(|()| socket.set_recv_buffer_size(1 << 16)).expect("buffers");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        Self::on(socket.listen(128).expect("a listener"), pharo, &[])
    }

    fn on(listener: TcpListener, pharo: Arc<PharoServer>, names: &'static [&str]) -> Self {
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            serve_http(pharo, listener, &names).await
        });
        Self(([127, 0, 0, 1], port).into())
    }

    /// Posts a message as a client of its protocol generation does. `headers` are added or replace the usual ones.
    pub async fn post(&self, message: &Value, headers: &[(&str, &str)]) -> TestResponse {
        exchange(self.0, &posted(message, headers)).await
    }

    /// Sends a message and returns the open connection.
    pub async fn begin(&self, message: &Value, headers: &[(&str, &str)]) -> TcpStream {
        let mut stream = TcpStream::connect(self.0).await.expect("a connection");
        stream.write_all(&posted(message, headers)).await.expect("an open connection");
        stream
    }

    /// Like [`Self::begin`], with a small receive buffer.
    pub async fn begin_narrow(&self, message: &Value) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(1 << 16).expect("a buffer");
        let mut stream = socket.connect(self.0).await.expect("a connection");
        stream.write_all(&posted(message, &[])).await.expect("an open connection");
        stream
    }

    /// Sends a request without a body.
    pub async fn plain(&self, verb: &str, headers: &[(&str, &str)]) -> TestResponse {
        exchange(self.0, head(verb, headers).as_bytes()).await
    }

    /// Initializes as a stateful client and returns the session id.
    pub async fn session(&self) -> String {
        let answer = self.post(&initialize("2025-11-25"), &[]).await;
        answer.header("mcp-session-id").expect("a session").to_owned()
    }
}

pub fn initialize(revision: &str) -> Value {
    let info = serde_json::json!({"name": "test", "version": "1"});
    let params = serde_json::json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info});
    super::request("hello", "initialize", params)
}

fn posted(message: &Value, headers: &[(&str, &str)]) -> Vec<u8> {
    let body = message.to_string();
    let length = body.len().to_string();
    let mut all = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("content-length", &length),
    ];
    let meta = &message["params"]["_meta"];
    if let Some(revision) = meta["io.modelcontextprotocol/protocolVersion"].as_str() {
        all.push(("mcp-protocol-version", revision));
        all.push(("mcp-method", message["method"].as_str().expect("a method")));
        if let Some(name) = message["params"]["name"].as_str() {
            all.push(("mcp-name", name));
        }
    }
    // Headers of the test replace the usual ones.
    all.retain(|(name, _)| headers.iter().all(|(own, _)| own != name));
    all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
    (head("POST", &all) + &body).into_bytes()
}

fn head(verb: &str, headers: &[(&str, &str)]) -> String {
    let mut out = format!("{verb} /mcp HTTP/1.1\r\nconnection: close\r\n");
    if headers.iter().all(|(name, _)| *name != "host") {
        out.push_str("host: 127.0.0.1\r\n");
    }
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out + "\r\n"
}
