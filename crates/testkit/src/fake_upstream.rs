//! A fake upstream that records every request and replies with scripted bytes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request that reached the upstream.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The request line.
    pub request_line: String,
    /// Headers with lower-case names.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl RecordedRequest {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the message, or null if the request has no body.
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// Returns the method of the message.
    pub fn method(&self) -> String {
        self.message()["method"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the name of the called tool.
    pub fn tool(&self) -> String {
        self.message()["params"]["name"].as_str().unwrap_or_default().to_owned()
    }
}

/// One step of a response script.
#[derive(Debug, Clone)]
pub enum ScriptStep {
    /// Writes bytes.
    Write(Vec<u8>),
    /// Waits for a duration.
    Pause(Duration),
    /// Waits until the `Notify` is signaled. Does not wait if that has already happened.
    WaitFor(Arc<tokio::sync::Notify>),
    /// Waits until the other side disconnects, and then sets the flag to true.
    WaitForHangUp(Arc<AtomicBool>),
    /// Closes the connection immediately.
    Close,
}

/// The script for the response to one request.
pub type ResponseScript = Vec<ScriptStep>;

type UpstreamHandler = Arc<dyn Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync>;

/// A fake MCP server for protocol revision 2025-11-25, with sessions and tools.
#[derive(Clone)]
pub struct FakeUpstream {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    stop: Arc<tokio::sync::Notify>,
}

impl FakeUpstream {
    /// Starts a server that offers tools with the given names, which echo their arguments.
    pub async fn with_tools(names: &[&str]) -> Self {
        let tools: Vec<Value> = names.iter().map(|name| tool_definition(name)).collect();
        Self::start(json!(tools), |_| None).await
    }

    /// Starts a server with a list of tools. `handler` may replace the default response for each request.
    pub async fn start(
        tools: Value,
        handler: impl Fn(&RecordedRequest) -> Option<ResponseScript> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (handler, tools): (UpstreamHandler, _) = (Arc::new(handler), Arc::new(tools));
        let stop = Arc::new(tokio::sync::Notify::new());
        let upstream = Self { address, requests: Arc::clone(&requests), stop: Arc::clone(&stop) };
        let accepting = async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, tools, requests) = (Arc::clone(&handler), Arc::clone(&tools), Arc::clone(&requests));
                connections.spawn(async move { serve_connection(stream, &handler, &tools, &requests).await });
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = accepting => {}
                () = stop.notified() => {}
            }
        });
        upstream
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Stops listening and closes all connections.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// Returns all requests in the order in which they arrived.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the calls to a tool.
    pub fn calls_to(&self, tool: &str) -> Vec<RecordedRequest> {
        self.requests().into_iter().filter(|hit| hit.method() == "tools/call" && hit.tool() == tool).collect()
    }

    /// Returns all tool calls.
    pub fn calls(&self) -> Vec<RecordedRequest> {
        self.requests().into_iter().filter(|hit| hit.method() == "tools/call").collect()
    }
}

/// Returns a tool definition with the given name.
pub fn tool_definition(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"), "inputSchema": {"type": "object"}})
}

/// Returns a complete JSON response.
pub fn json_response(status: &str, headers: &str, body: &str) -> ResponseScript {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    vec![ScriptStep::Write([head.as_bytes(), body.as_bytes()].concat())]
}

/// Returns a complete event stream response.
pub fn event_response(events: &str) -> ResponseScript {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = format!("{:x}\r\n{events}\r\n0\r\n\r\n", events.len());
    vec![ScriptStep::Write(format!("{head}{body}").into_bytes())]
}

async fn serve_connection(
    mut stream: TcpStream,
    handler: &UpstreamHandler,
    tools: &Value,
    requests: &Mutex<Vec<RecordedRequest>>,
) {
    while let Some(hit) = read_request(&mut stream).await {
        requests.lock().unwrap().push(hit.clone());
        let script = handler(&hit).unwrap_or_else(|| default_script(&hit, tools));
        for step in script {
            let ended = match step {
                ScriptStep::Write(bytes) => stream.write_all(&bytes).await.is_err(),
                ScriptStep::Pause(time) => {
                    tokio::time::sleep(time).await;
                    false
                }
                ScriptStep::WaitFor(notify) => {
                    notify.notified().await;
                    false
                }
                ScriptStep::WaitForHangUp(hung_up) => {
                    while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
                    hung_up.store(true, Ordering::Release);
                    true
                }
                ScriptStep::Close => true,
            };
            if ended {
                return;
            }
        }
    }
}

pub(crate) fn default_script(hit: &RecordedRequest, tools: &Value) -> ResponseScript {
    if !hit.request_line.starts_with("POST") {
        return json_response("405 Method Not Allowed", "", "{}");
    }
    if hit.method() == "server/discover" {
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no session"}}"#;
        return json_response("400 Bad Request", "", body);
    }
    let Some(response) = default_response(hit, tools) else {
        return vec![ScriptStep::Write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec())];
    };
    let session = if hit.method() == "initialize" { "mcp-session-id: upstream-session\r\n" } else { "" };
    json_response("200 OK", session, &response.to_string())
}

/// Returns the default response to a message, or `None` for a notification.
pub(crate) fn default_response(hit: &RecordedRequest, tools: &Value) -> Option<Value> {
    let message = hit.message();
    let id = &message["id"];
    let result = match hit.method().as_str() {
        "initialize" => {
            let revision = &message["params"]["protocolVersion"];
            let revision = if revision == "2026-07-28" { &json!("2025-11-25") } else { revision };
            json!({"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": {"name": "fake", "version": "1"}})
        }
        "tools/list" => json!({"tools": tools}),
        "tools/call" => json!({"content": [{"type": "text", "text": message["params"]["arguments"].to_string()}]}),
        "resources/read" => json!({"contents": [{"uri": message["params"]["uri"], "text": "contents"}]}),
        "prompts/get" => json!({"messages": []}),
        _ if id.is_null() || !message["method"].is_string() => return None,
        _ => json!({}),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<RecordedRequest> {
    let mut raw = Vec::new();
    let mut buffer = [0; 16_384];
    loop {
        if let Some(end) = raw.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&raw[..end]).into_owned();
            let mut lines = head.split("\r\n");
            let line = lines.next()?.to_owned();
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let length: usize = length.map_or(0, |(_, value)| value.parse().expect("a length"));
            while raw.len() < end + 4 + length {
                let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
                raw.extend_from_slice(&buffer[..read]);
            }
            let body = String::from_utf8_lossy(&raw[end + 4..]).into_owned();
            return Some(RecordedRequest { request_line: line, headers, body });
        }
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        raw.extend_from_slice(&buffer[..read]);
    }
}
