//! Streamable HTTP at `/mcp`, with both protocol generations at one URL.
//!
//! A session is only an id that links cancellations to their requests. It has no state that could be lost.

mod mcp_reply_body;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ::http::{Method as Verb, Request, Response, StatusCode};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::http_headers::{
    self, HostOriginGuard, ProtocolError, check_post, check_stateless, error_status, has_stateless_header,
};
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, ProtocolGeneration, Revision, code, error_response, sse_event,
};
use gatelodge_mutants::mutant;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use crate::active_requests::ActiveRequest;
use crate::mcp_server::{
    McpOperation, PharoServer, is_unknown_notification, parse_error_reply, protocol_error_reply, read,
};
use mcp_reply_body::McpReplyBody;

/// Time limit for reading a request's headers, and for reading its body.
const REQUEST_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between keep-alive comments on an idle stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const MAX_CONNECTIONS: usize = 256;
const MAX_QUEUED_EVENTS: usize = 32;
const MCP_PATH: &str = "/mcp";

/// Serves until the future is dropped. Requests are accepted if their host is the listener's address (see
/// [`HostOriginGuard`]) or one of `names`.
///
/// # Errors
/// The listener has no address.
pub async fn serve_http(pharo: Arc<PharoServer>, listener: TcpListener, names: &[String]) -> std::io::Result<()> {
    let guard = Arc::new(HostOriginGuard::new(listener.local_addr()?, names, &[]));
    let slot = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, or the client has disconnected: both pass.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&slot).try_acquire_owned() else { continue };
        let (pharo, guard) = (Arc::clone(&pharo), Arc::clone(&guard));
        tokio::spawn(async move {
            serve_connection(pharo, stream, guard).await;
            drop(permit);
        });
    }
}

async fn serve_connection(pharo: Arc<PharoServer>, stream: TcpStream, guard: Arc<HostOriginGuard>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request: Request<Incoming>| {
        let (pharo, guard) = (Arc::clone(&pharo), Arc::clone(&guard));
        async move { Ok::<_, Infallible>(handle_request(pharo, &guard, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // A connection error concerns only the client.
    let _ = connection.await;
}

async fn handle_request(
    pharo: Arc<PharoServer>,
    guard: &HostOriginGuard,
    request: Request<Incoming>,
) -> Response<McpReplyBody> {
    if let Err(rejected) = guard.check(&request) {
        // The guard's own messages refer to the configuration of a gateway.
        let message = match rejected.status {
            StatusCode::MISDIRECTED_REQUEST => {
                "the `Host` is not a name of this server; if it should be one, start the server with --known-as"
            }
            StatusCode::FORBIDDEN => "web pages of other origins may not call this server",
            _ => &rejected.message,
        };
        return error_reply(rejected.status, message);
    }
    if request.uri().path().trim_end_matches('/') != MCP_PATH {
        return error_reply(StatusCode::NOT_FOUND, "not found; the server is at /mcp");
    }
    let (parts, incoming) = request.into_parts();
    match parts.method {
        Verb::POST => handle_post(pharo, parts.headers, incoming).await,
        // Stateless clients have no sessions to end.
        Verb::DELETE
            if !has_stateless_header(&parts.headers)
                && let Some(session) = session_id(&parts.headers) =>
        {
            pharo.active_requests.cancel_all(session);
            empty_reply(StatusCode::NO_CONTENT)
        }
        // INVARIANT: no reply, OPTIONS included, has an `Access-Control-Allow` header. The guard accepts pages of this
        // machine; the preflight request that a browser sends for JSON fails.
        _ => {
            let mut response = error_reply(StatusCode::METHOD_NOT_ALLOWED, "this URL accepts only POST");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            response
        }
    }
}

async fn handle_post(pharo: Arc<PharoServer>, headers: HeaderMap, incoming: Incoming) -> Response<McpReplyBody> {
    if let Err((status, what)) = check_post(&headers) {
        return error_reply(status, what);
    }
    let body = match tokio::time::timeout(
        REQUEST_READ_TIMEOUT,
        Limited::new(incoming, JsonLimits::REQUEST.max_bytes).collect(),
    )
    .await
    {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return error_reply(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large");
        }
        Ok(Err(_)) => return error_reply(StatusCode::BAD_REQUEST, "the request body is incomplete"),
        Err(_) => return error_reply(StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time"),
    };
    match read(&body) {
        Err(wire_error) if is_unknown_notification(&wire_error) => accept_one_way(&headers, || ()),
        Err(wire_error) => {
            let generation = if has_stateless_header(&headers) {
                ProtocolGeneration::Stateless
            } else {
                ProtocolGeneration::Stateful
            };
            json_reply(error_status(&wire_error, generation), parse_error_reply(&wire_error))
        }
        Ok(ClientMessage::Response(_)) => accept_one_way(&headers, || ()),
        Ok(ClientMessage::Notification(said)) => accept_one_way(&headers, || {
            if let (Method::Cancelled, Some(session), Ok(Some(id))) =
                (said.method(), session_id(&headers), said.reference())
            {
                pharo.active_requests.cancel(session, &id);
            }
        }),
        Ok(ClientMessage::Request(request)) => match request_generation(&headers, &request) {
            Err(why) => json_reply(why.status, protocol_error_reply(Some(request.id()), &why)),
            Ok(generation) => start_request(pharo, &request, generation, &headers, &body).await,
        },
    }
}

/// Replies to a message that has no JSON-RPC response. If the headers are valid, calls `done` and replies with status
/// 202; otherwise replies with an error.
fn accept_one_way(headers: &HeaderMap, done: impl FnOnce()) -> Response<McpReplyBody> {
    match http_headers::revision(headers, || Revision::ALL.to_vec()) {
        Err(why) => json_reply(why.status, protocol_error_reply(None, &why)),
        Ok(_) => {
            done();
            empty_reply(StatusCode::ACCEPTED)
        }
    }
}

async fn start_request(
    pharo: Arc<PharoServer>,
    request: &ClientRequest<'_>,
    generation: ProtocolGeneration,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response<McpReplyBody> {
    // A stateless request is cancelled by disconnecting, not by a message.
    let session = if generation == ProtocolGeneration::Stateless { None } else { session_id(headers) };
    let (operation, active_request) = match pharo.begin(request, generation, session) {
        Err((status, answer)) => return json_reply(status, answer),
        Ok(started) => started,
    };
    let is_stream = operation == McpOperation::Listen
        || operation == McpOperation::CallTool && request.meta().progress_token().is_some();
    let ask = HttpRequestTask { pharo, body: body.clone(), operation, generation, active_request };
    let response = if is_stream { ask.stream_response() } else { ask.json_response().await };
    if operation == McpOperation::Initialize { with_session_id(response) } else { response }
}

/// Returns the protocol generation, which is determined separately for each request.
fn request_generation(headers: &HeaderMap, request: &ClientRequest<'_>) -> Result<ProtocolGeneration, ProtocolError> {
    if http_headers::is_stateless(headers, request) {
        check_stateless(headers, request, &Revision::ALL).map(Revision::generation)
    } else {
        http_headers::revision(headers, || Revision::ALL.to_vec()).map(|_| ProtocolGeneration::Stateful)
    }
}

/// A request in progress.
struct HttpRequestTask {
    pharo: Arc<PharoServer>,
    body: Bytes,
    operation: McpOperation,
    generation: ProtocolGeneration,
    active_request: ActiveRequest,
}

impl HttpRequestTask {
    /// Handles the request and frees its id. The slot is held until the client has read the reply.
    async fn respond(self, events: &mpsc::Sender<String>) -> Option<String> {
        let Ok(ClientMessage::Request(request)) = read(&self.body) else { return None };
        self.pharo.respond(&request, (self.operation, self.generation), &self.active_request, events).await
    }

    /// Replies with one JSON message. If the client disconnects, a stateless call ends, but a stateful call continues.
    async fn json_response(self) -> Response<McpReplyBody> {
        let slot = Arc::clone(&self.active_request.slot);
        let (events, _) = mpsc::channel(1);
        let answer = match self.generation {
            ProtocolGeneration::Stateful if !mutant!("legacy-call-cancelled-by-disconnect") => {
                tokio::spawn(async move { self.respond(&events).await }).await.unwrap_or_default()
            }
            ProtocolGeneration::Stateful | ProtocolGeneration::Stateless => self.respond(&events).await,
        };
        match answer {
            Some(text) => json_reply(StatusCode::OK, text).map(|body| body.holding_slot(slot)),
            None => empty_reply(StatusCode::ACCEPTED),
        }
    }

    /// Replies with a stream of events, the last of which is the response.
    fn stream_response(self) -> Response<McpReplyBody> {
        let (texts, mut queue) = mpsc::channel::<String>(MAX_QUEUED_EVENTS);
        let (events, body) = mpsc::channel::<Bytes>(MAX_QUEUED_EVENTS);
        let disconnected = events.clone();
        let slot = Arc::clone(&self.active_request.slot);
        tokio::spawn(async move {
            let is_stateless = self.generation == ProtocolGeneration::Stateless;
            let asking = async move {
                if let Some(answer) = self.respond(&texts).await {
                    let _ = texts.send(answer).await;
                }
            };
            tokio::select! {
                () = asking => {}
                () = disconnected.closed(), if is_stateless && !mutant!("stateless-call-outlives-client") => {}
            }
        });
        tokio::spawn(async move {
            loop {
                let next = match tokio::time::timeout(KEEP_ALIVE_INTERVAL, queue.recv()).await {
                    Ok(Some(text)) => sse_event(&text),
                    Ok(None) => break,
                    Err(_) => gatelodge_mcp::SSE_KEEP_ALIVE.to_owned(),
                };
                if events.send(next.into()).await.is_err() {
                    // Drains the queue of a stateful call, so that it can end.
                    while queue.recv().await.is_some() {}
                    break;
                }
            }
        });
        let mut response = Response::new(McpReplyBody::events(body).holding_slot(slot));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }
}

/// Returns the session id of a request, if it has the format of our session ids.
fn session_id(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get(http_headers::SESSION_ID)?.to_str().ok()?;
    (id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))).then_some(id)
}

fn with_session_id(mut response: Response<McpReplyBody>) -> Response<McpReplyBody> {
    let mut id = [0; 16];
    if getrandom::fill(&mut id).is_ok()
        && let Ok(value) = HeaderValue::try_from(HEXLOWER.encode(&id))
    {
        response.headers_mut().insert(http_headers::SESSION_ID, value);
    }
    response
}

fn json_reply(status: StatusCode, text: impl Into<Bytes>) -> Response<McpReplyBody> {
    let mut response = Response::new(McpReplyBody::from_text(Some(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn error_reply(status: StatusCode, message: &str) -> Response<McpReplyBody> {
    json_reply(status, error_response(None, code::INVALID_REQUEST, message, None))
}

fn empty_reply(status: StatusCode) -> Response<McpReplyBody> {
    let mut response = Response::new(McpReplyBody::from_text(None));
    *response.status_mut() = status;
    response
}
