//! A server that keeps every byte it gets and says what it was told to say.

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

use super::said::{Era, ID, PARENT, TOKEN, TRACE};

/// What it says to one request: messages with our id and token in their places, the last of them the answer.
#[derive(Clone)]
pub struct Script {
    pub texts: Vec<String>,
    pub is_stream: bool,
}

/// What it got.
#[derive(Clone)]
pub struct Seen {
    pub text: String,
    traceparent: Option<String>,
}

impl Seen {
    /// The gateway's id for the request, as it is written.
    pub fn own_id(&self) -> String {
        id_of(&self.text).expect("an id of the gateway's")
    }

    /// The gateway's span: of the same trace, another than the caller's, and the same in the head.
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
struct Book {
    scripts: HashMap<String, Script>,
    seen: HashMap<String, Seen>,
    ids: HashSet<String>,
}

pub struct Echo {
    address: SocketAddr,
    book: Arc<Mutex<Book>>,
}

impl Echo {
    pub async fn start(era: Era) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let own = Self { address: listener.local_addr().expect("an address"), book: Arc::default() };
        let book = Arc::clone(&own.book);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let book = Arc::clone(&book);
                let service = service_fn(move |request| answer(Arc::clone(&book), era, request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        own
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// What it is to say to the request with this key.
    pub fn will(&self, key: &str, script: Script) {
        self.book.lock().unwrap().scripts.insert(key.to_owned(), script);
    }

    /// What it got under this key.
    pub fn seen(&self, key: &str, context: &str) -> Seen {
        let seen = self.book.lock().unwrap().seen.remove(key);
        seen.unwrap_or_else(|| panic!("{key} did not reach the server\n{context}"))
    }
}

async fn answer(
    book: Arc<Mutex<Book>>,
    era: Era,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_get = request.method() == http::Method::GET;
    let traceparent = request.headers().get("traceparent").map(|value| value.to_str().expect("text").to_owned());
    let body = request.into_body().collect().await.expect("the whole request").to_bytes();
    let text = String::from_utf8(body.to_vec()).expect("UTF-8");
    let message: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    // Where the gateway listens on its own, it is by the stream of a session or by a request that stands alone.
    let is_own_ear = message["method"] == "subscriptions/listen" && message["x-case"].is_null();
    let key =
        if is_get || is_own_ear { "GET".to_owned() } else { message["x-case"].as_str().unwrap_or_default().to_owned() };
    if key.is_empty() {
        return Ok(usual(&message, era));
    }
    let mut book = book.lock().unwrap();
    if let Some(id) = id_of(&text).filter(|_| !message["method"].is_null()) {
        assert!(book.ids.insert(id), "two requests have one id");
    }
    book.seen.insert(key.clone(), Seen { text: text.clone(), traceparent });
    Ok(match book.scripts.remove(&key) {
        Some(script) => told(&script, &id_of(&text).unwrap_or_default()),
        None if is_get || is_own_ear => reply(405, "text/plain", String::new()),
        None => reply(202, "text/plain", String::new()),
    })
}

fn told(script: &Script, id: &str) -> Response<Full<Bytes>> {
    let texts = script.texts.iter().map(|text| text.replace(ID, id).replace(TOKEN, id));
    if script.is_stream {
        let events: String = texts.map(|text| format!("event: message\ndata: {text}\n\n")).collect();
        reply(200, "text/event-stream", events)
    } else {
        reply(200, "application/json", texts.collect())
    }
}

/// What it says to what the gateway asks on its own.
fn usual(message: &Value, era: Era) -> Response<Full<Bytes>> {
    let able = json!({"prompts": {"listChanged": true}});
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" if era == Era::Modern => json!({"supportedVersions": ["2026-07-28"], "capabilities": able}),
        "initialize" if era == Era::Legacy => {
            let info = json!({"name": "e", "version": "1"});
            json!({"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info})
        }
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}], "ttlMs": 0}),
        _ if message["id"].is_null() => return reply(202, "text/plain", String::new()),
        _ => {
            return reply(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}"#.to_owned(),
            );
        }
    };
    let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    reply(200, "application/json", text)
}

fn reply(status: u16, kind: &str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status).header("content-type", kind);
    if body.contains("protocolVersion") {
        response = response.header("mcp-session-id", "theirs");
    }
    response.body(Full::new(body.into())).expect("a response")
}
