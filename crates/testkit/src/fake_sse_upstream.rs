//! A fake upstream with the HTTP+SSE transport: responses are sent on the client's event stream.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::fake_upstream::{
    RecordedRequest, ResponseScript, ScriptStep, default_response, default_script, read_request, tool_definition,
};

/// How the upstream handles one message.
#[derive(Debug, Clone)]
pub struct SsePostReply {
    /// HTTP status of the response to the POST request.
    pub status: &'static str,
    /// Script that runs on the event stream.
    pub script: ResponseScript,
    /// Whether the status is sent only after the script has run.
    pub status_after_script: bool,
}

impl SsePostReply {
    /// Accepts the message and runs a script on the stream.
    pub fn accept_then(script: ResponseScript) -> Self {
        Self { status: "202 Accepted", script, status_after_script: false }
    }

    /// Rejects the message.
    pub fn reject(status: &'static str) -> Self {
        Self { status, script: Vec::new(), status_after_script: false }
    }
}

type SsePostHandler = dyn Fn(&RecordedRequest) -> Option<SsePostReply> + Send + Sync;

/// A fake MCP server for protocol revision 2024-11-05.
#[derive(Clone)]
pub struct FakeSseUpstream {
    address: SocketAddr,
    state: Arc<FakeSseState>,
}

struct FakeSseState {
    requests: Mutex<Vec<RecordedRequest>>,
    streams: Mutex<HashMap<String, mpsc::UnboundedSender<ScriptStep>>>,
    opened_streams: AtomicUsize,
    is_streamable: AtomicBool,
    /// Data of the `endpoint` event, in which `ID` is replaced with the stream's id.
    endpoint: Option<String>,
    tools: Value,
    handler: Box<SsePostHandler>,
}

impl FakeSseUpstream {
    /// Starts a server that offers tools with the given names. `handler` may replace the default behavior for each
    /// message.
    pub async fn start(
        names: &[&str],
        handler: impl Fn(&RecordedRequest) -> Option<SsePostReply> + Send + Sync + 'static,
    ) -> Self {
        Self::start_at(Some("/message?sessionId=ID"), names, handler).await
    }

    /// Like [`Self::start`], but with a different `endpoint` event, or without one.
    pub async fn start_at(
        endpoint: Option<&str>,
        names: &[&str],
        handler: impl Fn(&RecordedRequest) -> Option<SsePostReply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(FakeSseState {
            requests: Mutex::default(),
            streams: Mutex::default(),
            opened_streams: AtomicUsize::new(0),
            is_streamable: AtomicBool::new(false),
            endpoint: endpoint.map(str::to_owned),
            tools: json!(names.iter().map(|name| tool_definition(name)).collect::<Vec<_>>()),
            handler: Box::new(handler),
        });
        let accepting = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&accepting);
                tokio::spawn(async move { state.serve(stream).await });
            }
        });
        Self { address, state }
    }

    /// Returns the URL of the event stream.
    pub fn url(&self) -> String {
        format!("http://{}/sse", self.address)
    }

    /// Returns all requests in the order in which they arrived.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Returns the messages with the given method.
    pub fn messages(&self, method: &str) -> Vec<RecordedRequest> {
        self.requests()
            .into_iter()
            .filter(|hit| hit.method() == method && hit.request_line.contains("/message"))
            .collect()
    }

    /// Returns the number of open streams.
    pub fn open_streams(&self) -> usize {
        self.state.streams.lock().unwrap().len()
    }

    /// Runs a script step on every open stream.
    pub fn run_on_streams(&self, step: &ScriptStep) {
        self.state.streams.lock().unwrap().values().for_each(|stream| drop(stream.send(step.clone())));
    }

    /// Makes the upstream accept messages at the stream's URL from now on, as servers have done since revision
    /// 2025-03-26.
    pub fn become_streamable(&self) {
        self.state.is_streamable.store(true, Ordering::SeqCst);
    }
}

impl FakeSseState {
    async fn serve(&self, mut stream: TcpStream) {
        while let Some(hit) = read_request(&mut stream).await {
            self.requests.lock().unwrap().push(hit.clone());
            let is_streamable = self.is_streamable.load(Ordering::SeqCst);
            let written = match hit.request_line.split(' ').take(2).collect::<Vec<_>>()[..] {
                ["GET", "/sse"] if !is_streamable => return self.serve_stream(stream).await,
                ["POST", path] if path.contains("sessionId=") => self.handle_post(&mut stream, &hit, path).await,
                ["POST", "/sse"] if is_streamable => write_script(&mut stream, default_script(&hit, &self.tools)).await,
                _ => stream.write_all(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n").await.is_ok(),
            };
            if !written {
                return;
            }
        }
    }

    /// Serves a stream until either side ends it.
    async fn serve_stream(&self, mut stream: TcpStream) {
        let id = self.opened_streams.fetch_add(1, Ordering::SeqCst).to_string();
        let (steps, mut queue) = mpsc::unbounded_channel();
        self.streams.lock().unwrap().insert(id.clone(), steps);
        let mut head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n".to_owned();
        if let Some(endpoint) = &self.endpoint {
            head += &format!("event: endpoint\ndata: {}\n\n", endpoint.replace("ID", &id));
        }
        let _ = stream.write_all(head.as_bytes()).await;
        let mut byte = [0];
        loop {
            let step = tokio::select! {
                step = queue.recv() => step,
                _ = stream.read(&mut byte) => None,
            };
            match step {
                Some(ScriptStep::Write(bytes)) if stream.write_all(&bytes).await.is_ok() => {}
                Some(ScriptStep::Pause(time)) => tokio::time::sleep(time).await,
                _ => break,
            }
        }
        self.streams.lock().unwrap().remove(&id);
    }

    async fn handle_post(&self, stream: &mut TcpStream, hit: &RecordedRequest, path: &str) -> bool {
        let id = path.rsplit('=').next().unwrap_or_default();
        let event_stream = self.streams.lock().unwrap().get(id).cloned();
        let default_reply = || {
            let event =
                default_response(hit, &self.tools).map(|message| format!("event: message\ndata: {message}\n\n"));
            SsePostReply::accept_then(event.into_iter().map(|event| ScriptStep::Write(event.into_bytes())).collect())
        };
        let mut reply = (self.handler)(hit).unwrap_or_else(default_reply);
        if event_stream.is_none() {
            reply = SsePostReply::reject("404 Not Found");
        }
        let status = format!("HTTP/1.1 {}\r\ncontent-length: 8\r\n\r\nAccepted", reply.status);
        if !reply.status_after_script && stream.write_all(status.as_bytes()).await.is_err() {
            return false;
        }
        for step in reply.script {
            match step {
                ScriptStep::Pause(time) => tokio::time::sleep(time).await,
                step => drop(event_stream.as_ref().map(|stream| stream.send(step))),
            }
        }
        !reply.status_after_script || stream.write_all(status.as_bytes()).await.is_ok()
    }
}

async fn write_script(stream: &mut TcpStream, script: ResponseScript) -> bool {
    for step in script {
        if let ScriptStep::Write(bytes) = step
            && stream.write_all(&bytes).await.is_err()
        {
            return false;
        }
    }
    true
}
