//! Streamable HTTP at `/mcp`, both eras on one URL.
//!
//! A session is a name and nothing more: it ties a cancellation to the request it means. So there is none to lose.

mod body;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ::http::{Method as Verb, Request, Response, StatusCode};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_json::Limits;
use gatelodge_mcp::head::{self, Guard, Misfit, check_post, check_stateless};
use gatelodge_mcp::{Era, Message, Method, Request as Asked, Revision, code, error, event};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use crate::server::{Pharo, era_of, knows, read, unknown_method, unreadable};
use body::Body;

/// Time for a request's head and for its body.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// A quiet stream says this often that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const CONNECTIONS: usize = 256;
const WAITING: usize = 32;
const PATH: &str = "/mcp";

/// Serves until the listener fails. It is known by its address (see [`Guard`]) and by these names.
///
/// # Errors
/// The listener has no address.
pub async fn serve_http(pharo: Arc<Pharo>, listener: TcpListener, names: &[String]) -> std::io::Result<()> {
    let guard = Arc::new(Guard::new(listener.local_addr()?, names, &[]));
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, or the caller has gone: either passes.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let (pharo, guard) = (Arc::clone(&pharo), Arc::clone(&guard));
        tokio::spawn(async move {
            serve(pharo, stream, guard).await;
            drop(permit);
        });
    }
}

async fn serve(pharo: Arc<Pharo>, stream: TcpStream, guard: Arc<Guard>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request: Request<Incoming>| {
        let (pharo, guard) = (Arc::clone(&pharo), Arc::clone(&guard));
        async move { Ok::<_, Infallible>(answer(pharo, &guard, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .serve_connection(TokioIo::new(stream), service);
    // A connection that breaks off is the client's affair.
    let _ = connection.await;
}

async fn answer(pharo: Arc<Pharo>, guard: &Guard, request: Request<Incoming>) -> Response<Body> {
    if let Err(rejected) = guard.check(&request) {
        // The guard's own words are about the configuration of a gateway.
        let message = match rejected.status {
            StatusCode::MISDIRECTED_REQUEST => {
                "the `Host` is no name of this server; start it with --known-as if it is one"
            }
            StatusCode::FORBIDDEN => "a web page of another machine may not call this server",
            _ => &rejected.message,
        };
        return refuse(rejected.status, message);
    }
    if request.uri().path().trim_end_matches('/') != PATH {
        return refuse(StatusCode::NOT_FOUND, "there is nothing here; the server is at /mcp");
    }
    let (parts, incoming) = request.into_parts();
    match parts.method {
        Verb::POST => post(pharo, parts.headers, incoming).await,
        Verb::DELETE if let Some(session) = session(&parts.headers) => {
            pharo.running.cancel_all(session);
            empty(StatusCode::NO_CONTENT)
        }
        _ => {
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "this address takes POST");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            response
        }
    }
}

async fn post(pharo: Arc<Pharo>, headers: HeaderMap, incoming: Incoming) -> Response<Body> {
    if let Err((status, what)) = check_post(&headers) {
        return refuse(status, what);
    }
    let body = match tokio::time::timeout(REQUEST_TIME, Limited::new(incoming, Limits::REQUEST.bytes).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large");
        }
        Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "the message broke off"),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the message did not come in time"),
    };
    match read(&body) {
        Err(fault) => json(StatusCode::BAD_REQUEST, unreadable(&fault)),
        Ok(Message::Response(_)) => empty(StatusCode::ACCEPTED),
        Ok(Message::Notification(said)) => {
            if let (Method::Cancelled, Some(session), Ok(Some(id))) =
                (said.method(), session(&headers), said.reference())
            {
                pharo.running.cancel(session, &id);
            }
            empty(StatusCode::ACCEPTED)
        }
        Ok(Message::Request(request)) => match era(&headers, &request) {
            Err(misfit) => {
                let text = error(Some(request.id()), misfit.code, &misfit.message, misfit.data.as_deref());
                json(misfit.status, text)
            }
            // A stateless client tells by the status that the method, not the server, is missing.
            Ok(Era::Modern) if !knows(request.method(), Era::Modern) => {
                json(StatusCode::NOT_FOUND, unknown_method(&request))
            }
            Ok(era) => {
                let is_stream = *request.method() == Method::Listen || request.meta().progress_token().is_some();
                let is_handshake = *request.method() == Method::Initialize;
                let ask = Ask { pharo, body: body.clone(), era, session: session(&headers).map(str::to_owned) };
                let response = if is_stream { ask.stream() } else { ask.whole().await };
                if is_handshake { with_session(response) } else { response }
            }
        },
    }
}

/// How the client speaks, by this request alone.
fn era(headers: &HeaderMap, request: &Asked<'_>) -> Result<Era, Misfit> {
    if head::says_stateless(headers) || request.meta().protocol_version().is_some() {
        check_stateless(headers, request, &Revision::ALL)?;
    } else {
        head::revision(headers, &Revision::ALL)?;
    }
    era_of(request)
}

/// A request that is being answered.
struct Ask {
    pharo: Arc<Pharo>,
    body: Bytes,
    era: Era,
    session: Option<String>,
}

impl Ask {
    async fn answer(&self, events: &mpsc::Sender<String>) -> Option<String> {
        let Ok(Message::Request(request)) = read(&self.body) else { return None };
        // Stateless requests are cancelled by hanging up, not by a message.
        let session = if self.era == Era::Modern { None } else { self.session.as_deref() };
        match self.pharo.begin(&request, session) {
            Err(answer) => Some(answer),
            Ok(entry) => self.pharo.answer(&request, self.era, &entry, events).await,
        }
    }

    /// One JSON text. A stateless caller that hangs up ends the call; for a legacy one it goes on.
    async fn whole(self) -> Response<Body> {
        let (events, _) = mpsc::channel(1);
        let answer = match self.era {
            Era::Modern => self.answer(&events).await,
            Era::Legacy => tokio::spawn(async move { self.answer(&events).await }).await.unwrap_or_default(),
        };
        match answer {
            Some(text) => json(StatusCode::OK, text),
            None => empty(StatusCode::ACCEPTED),
        }
    }

    /// Events, of which the last is the answer.
    fn stream(self) -> Response<Body> {
        let (texts, mut queue) = mpsc::channel::<String>(WAITING);
        let (events, body) = mpsc::channel::<Bytes>(WAITING);
        let hung_up = events.clone();
        tokio::spawn(async move {
            let is_modern = self.era == Era::Modern;
            let asking = async move {
                if let Some(answer) = self.answer(&texts).await {
                    let _ = texts.send(answer).await;
                }
            };
            tokio::select! {
                () = asking => {}
                () = hung_up.closed(), if is_modern => {}
            }
        });
        tokio::spawn(async move {
            loop {
                let next = match tokio::time::timeout(KEEP_ALIVE, queue.recv()).await {
                    Ok(Some(text)) => event(&text),
                    Ok(None) => break,
                    Err(_) => gatelodge_mcp::KEEP_ALIVE.to_owned(),
                };
                if events.send(next.into()).await.is_err() {
                    // What a legacy call still says is read, so that it can end.
                    while queue.recv().await.is_some() {}
                    break;
                }
            }
        });
        let mut response = Response::new(Body::Events(body));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }
}

/// The session that the client names, if it is one that we could have given.
fn session(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get(head::SESSION)?.to_str().ok()?;
    (id.len() == 32).then_some(id)
}

fn with_session(mut response: Response<Body>) -> Response<Body> {
    let mut id = [0; 16];
    if getrandom::fill(&mut id).is_ok()
        && let Ok(value) = HeaderValue::try_from(HEXLOWER.encode(&id))
    {
        response.headers_mut().insert(head::SESSION, value);
    }
    response
}

fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn refuse(status: StatusCode, message: &str) -> Response<Body> {
    json(status, error(None, code::INVALID_REQUEST, message, None))
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = status;
    response
}
