//! A server that records every byte it receives and responds with prepared texts.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::cases::{Generation, ID, PARENT, TOKEN, TRACE};

/// Messages to send for one request, with placeholders for the gateway's id and token. The last one is the response.
#[derive(Clone)]
pub struct Script {
    pub texts: Vec<String>,
    pub is_stream: bool,
}

/// A request as the server received it.
#[derive(Clone)]
pub struct ReceivedRequest {
    pub text: String,
    traceparent: Option<String>,
}

impl ReceivedRequest {
    /// Returns the id that the gateway gave the request, as a JSON text.
    pub fn gateway_id(&self) -> String {
        id_of(&self.text).expect("a gateway id")
    }

    /// Returns the gateway's span, after checking that it belongs to the client's trace, differs from the client's span,
    /// and equals the `traceparent` header.
    pub fn span(&self) -> String {
        let message: Value = serde_json::from_str(&self.text).expect("JSON");
        let span = message["params"]["_meta"]["traceparent"].as_str().expect("a span").to_owned();
        assert!(span.starts_with(&format!("00-{TRACE}-")) && span.ends_with("-01") && span.len() == PARENT.len());
        assert!(span != PARENT && self.traceparent.as_deref() == Some(&span), "{span}");
        span
    }
}

fn id_of(text: &str) -> Option<String> {
    let message: Value = serde_json::from_str(text).ok()?;
    message["id"].as_str().map(|id| format!("\"{id}\""))
}

#[derive(Default)]
struct ServerState {
    scripts: HashMap<String, Script>,
    received: HashMap<String, ReceivedRequest>,
    ids: HashSet<String>,
}

pub struct ScriptedServer {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
}

impl ScriptedServer {
    pub async fn start(generation: Generation) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = Self { address: listener.local_addr().expect("an address"), state: Arc::default() };
        let state = Arc::clone(&server.state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&state);
                let service = service_fn(move |request| respond(Arc::clone(&state), generation, request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Sets the script for the request with the `x-case` key `key`.
    pub fn set_script(&self, key: &str, script: Script) {
        self.state.lock().unwrap().scripts.insert(key.to_owned(), script);
    }

    /// Returns the request with this key, and panics with `context` if it did not arrive.
    pub fn take_received(&self, key: &str, context: &str) -> ReceivedRequest {
        let received = self.state.lock().unwrap().received.remove(key);
        received.unwrap_or_else(|| panic!("{key} did not reach the server\n{context}"))
    }
}

async fn respond(
    state: Arc<Mutex<ServerState>>,
    generation: Generation,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_get = request.method() == http::Method::GET;
    let traceparent = request.headers().get("traceparent").map(|value| value.to_str().expect("text").to_owned());
    let body = request.into_body().collect().await.expect("the whole request").to_bytes();
    let text = String::from_utf8(body.to_vec()).expect("UTF-8");
    let message: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    // The gateway's own streams have no key: the GET of a session, or a stateless `subscriptions/listen`.
    let is_gateway_listen = message["method"] == "subscriptions/listen" && message["x-case"].is_null();
    let key = if is_get || is_gateway_listen {
        "GET".to_owned()
    } else {
        message["x-case"].as_str().unwrap_or_default().to_owned()
    };
    if key.is_empty() {
        return Ok(default_response(&message, generation));
    }
    let mut state = state.lock().unwrap();
    if let Some(id) = id_of(&text).filter(|_| !message["method"].is_null()) {
        assert!(state.ids.insert(id), "two requests have the same id");
    }
    state.received.insert(key.clone(), ReceivedRequest { text: text.clone(), traceparent });
    Ok(match state.scripts.remove(&key) {
        Some(script) => script_response(&script, &id_of(&text).unwrap_or_default()),
        None if is_get || is_gateway_listen => http_response(405, "text/plain", String::new()),
        None => http_response(202, "text/plain", String::new()),
    })
}

fn script_response(script: &Script, id: &str) -> Response<Full<Bytes>> {
    let texts = script.texts.iter().map(|text| text.replace(ID, id).replace(TOKEN, id));
    if script.is_stream {
        let events: String = texts.map(|text| format!("event: message\ndata: {text}\n\n")).collect();
        http_response(200, "text/event-stream", events)
    } else {
        http_response(200, "application/json", texts.collect())
    }
}

/// Responds to requests of the gateway itself.
fn default_response(message: &Value, generation: Generation) -> Response<Full<Bytes>> {
    let capabilities = json!({"prompts": {"listChanged": true}});
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" if generation == Generation::Stateless => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
        }
        "initialize" if generation == Generation::Stateful => {
            let info = json!({"name": "e", "version": "1"});
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
        }
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}], "ttlMs": 0}),
        _ if message["id"].is_null() => return http_response(202, "text/plain", String::new()),
        _ => {
            return http_response(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}"#.to_owned(),
            );
        }
    };
    let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    http_response(200, "application/json", text)
}

fn http_response(status: u16, kind: &str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status).header("content-type", kind);
    if body.contains("protocolVersion") {
        response = response.header("mcp-session-id", "theirs");
    }
    response.body(Full::new(body.into())).expect("a response")
}
