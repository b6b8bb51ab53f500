//! Sends the client the response to one request, or a stream that ends with the response. Finishing consumes the
//! responder.

mod resumable_stream;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::aggregate_names::{prefix_message, prefix_response};
use gatelodge_mcp::{MessageError, Method, RequestId, SSE_KEEP_ALIVE, http_headers, sse_event};
use gatelodge_mutants::mutant;
use gatelodge_store::{CallId, ServerName};
use http::header::HeaderValue;
use http::{Response, StatusCode};
use tokio::sync::{Notify, mpsc, oneshot};

use self::resumable_stream::{ResumableStream, bytes_with_guard};
use crate::body::MessageBody;
use crate::refusal::Refusal;
use crate::reply::{self, ReplyBody, http_response};
use crate::request_context::{RequestContext, RequestSubject};
use crate::runtime::InFlightGuard;
use crate::runtime::deadline_timer::DeadlineTimer;
use crate::session::{CancellableRequests, InFlightRequest, RequestRegistration, Session};
use crate::telemetry::ClientReplyCell;

/// How many events are queued for a slow client before the upstream has to wait.
const EVENT_QUEUE_LENGTH: usize = 32;

/// Destination of the response to one request.
#[derive(Debug)]
pub(crate) struct Responder {
    sink: ResponseSink,
    /// In-flight guard of the request, released when the client has received the response.
    in_flight_guard: Option<InFlightGuard>,
    /// Receives a copy of the reply for tracing.
    captured_reply: Option<ClientReplyCell>,
    /// Adds the server's prefix to names if the request came through the aggregate endpoint.
    name_prefixer: Option<Box<NamePrefixer>>,
    /// Registrations that let the client cancel the request (usually one), and the signal that fires when it does.
    registration: Option<RequestRegistration>,
    other_registrations: Vec<RequestRegistration>,
    cancel_signal: Option<Arc<Notify>>,
    /// Timer of the client's connection.
    deadline_timer: Option<Arc<DeadlineTimer>>,
}

/// Adds the server's prefix to names in replies and messages.
#[derive(Debug)]
struct NamePrefixer {
    server: ServerName,
    method: Method<'static>,
    limits: JsonLimits,
}

#[derive(Debug)]
enum ResponseSink {
    Http(HttpResponseSink),
    /// Queue of messages to a client with a single connection (stdio, HTTP+SSE), and the slot for its session.
    MessageQueue(mpsc::Sender<Bytes>, ClientSessionCell),
}

/// Holds the session of a client that can have only one session.
pub(crate) type ClientSessionCell = Arc<Mutex<Option<Arc<Session>>>>;

#[derive(Debug)]
struct HttpResponseSink {
    /// Passes the response to the connection's task; `None` once the response headers have been sent. If the receiver
    /// is closed, the client has disconnected.
    response_sender: Option<oneshot::Sender<Response<ReplyBody>>>,
    events: ResponseEventSink,
    session_header: Option<HeaderValue>,
    /// Session whose client may reconnect to fetch missed events.
    resumable_session: Option<Arc<Session>>,
    /// Whether the response is sent as a stream even if no message precedes it.
    is_streamed: bool,
}

/// Destination of stream events.
#[derive(Debug)]
enum ResponseEventSink {
    NotStarted,
    /// A stream that cannot be resumed.
    Plain(mpsc::Sender<Bytes>),
    /// A stream that the client may resume.
    Resumable(ResumableStream),
}

impl Responder {
    /// Creates a responder for an HTTP request.
    pub fn new() -> (Self, oneshot::Receiver<Response<ReplyBody>>) {
        let (head, receiver) = oneshot::channel();
        let http_sink = HttpResponseSink {
            response_sender: Some(head),
            events: ResponseEventSink::NotStarted,
            session_header: None,
            resumable_session: None,
            is_streamed: false,
        };
        (Self { deadline_timer: Some(Arc::default()), ..Self::with_sink(ResponseSink::Http(http_sink)) }, receiver)
    }

    fn with_sink(sink: ResponseSink) -> Self {
        let (registration, other_registrations) = (None, Vec::new());
        Self {
            sink,
            in_flight_guard: None,
            captured_reply: None,
            name_prefixer: None,
            registration,
            other_registrations,
            cancel_signal: None,
            deadline_timer: None,
        }
    }

    /// Makes the response stream resumable within a session.
    pub fn set_resumable_session(&mut self, session: &Arc<Session>) {
        if let ResponseSink::Http(http_sink) = &mut self.sink {
            http_sink.resumable_session = Some(Arc::clone(session));
        }
    }

    /// Sends the response as a stream, because the upstream does. A resumable stream starts at once, so that the client
    /// gets an event id.
    pub fn start_stream(&mut self) {
        if let ResponseSink::Http(http_sink) = &mut self.sink {
            http_sink.is_streamed = true;
            if http_sink.resumable_session.is_some() {
                http_sink.start_stream();
            }
        }
    }

    /// Closes the connection of a resumable stream so that the client polls, as the upstream requested.
    pub fn close_for_polling(&self) {
        if let ResponseSink::Http(HttpResponseSink { events: ResponseEventSink::Resumable(resumable), .. }) = &self.sink
        {
            resumable.close_for_polling();
        }
    }

    /// Creates a responder that writes to a message queue.
    pub fn to_message_queue(texts: mpsc::Sender<Bytes>, slot: ClientSessionCell) -> Self {
        Self::with_sink(ResponseSink::MessageQueue(texts, slot))
    }

    /// Registers the request so that its client can cancel it until it is finished. `call` is the id used upstream, if
    /// any. A request can be registered in several sessions.
    pub fn register_cancellable(&mut self, calls: &Arc<CancellableRequests>, id: &RequestId<'_>, call: Option<CallId>) {
        let cancelled = self.cancel_signal.clone().unwrap_or_default();
        if let Some(entry) = calls.register(id, InFlightRequest { call, cancel_signal: Arc::clone(&cancelled) }) {
            self.other_registrations.extend(self.registration.replace(entry));
            self.cancel_signal = Some(cancelled);
        }
    }

    fn unregister(&mut self) {
        self.registration = None;
        self.other_registrations.clear();
    }

    /// Returns the signal that fires when the client cancels; `None` if the client cannot cancel.
    pub fn cancel_signal(&self) -> Option<Arc<Notify>> {
        self.cancel_signal.clone()
    }

    /// Returns the timer of the request's task; `None` if separate timers are needed.
    pub fn deadline_timer(&self) -> Option<Arc<DeadlineTimer>> {
        self.deadline_timer.clone()
    }

    /// Prefixes the names in the response, and in all messages from now on, with the server's name.
    pub fn prefix_names_of(&mut self, server: &ServerName, method: &Method<'_>, limits: JsonLimits) {
        let method = Method::of(method.name().to_owned().into());
        self.name_prefixer = Some(Box::new(NamePrefixer { server: server.clone(), method, limits }));
    }

    /// Returns whether the request came through the aggregate endpoint.
    pub fn is_aggregate(&self) -> bool {
        self.name_prefixer.is_some()
    }

    /// Returns the subject under the name that the client uses, which has the server's prefix on the aggregate
    /// endpoint.
    pub fn with_client_names<'f>(&self, subject: &RequestSubject<'f>) -> RequestSubject<'f> {
        match &self.name_prefixer {
            Some(prefixer) => subject.with_server_prefix(prefixer.server.as_str()),
            None => subject.clone(),
        }
    }

    /// Holds the in-flight guard until the client has received the response.
    pub fn hold_in_flight_guard(&mut self, guard: InFlightGuard) {
        self.in_flight_guard = Some(guard);
    }

    /// Moves the in-flight guard out of the responder.
    pub fn take_in_flight_guard(&mut self) -> Option<InFlightGuard> {
        self.in_flight_guard.take()
    }

    /// Acquires a slot within the in-flight limits, unless the request already has one.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn acquire_in_flight(&mut self, ctx: &RequestContext, method: &Method<'_>) -> Result<(), Refusal> {
        if self.in_flight_guard.is_none() {
            self.in_flight_guard = Some(InFlightGuard::for_request(ctx, method)?);
        }
        Ok(())
    }

    /// Stores a copy of the reply in `captured`.
    pub fn capture_reply(&mut self, captured: Option<ClientReplyCell>) {
        self.captured_reply = captured;
    }

    /// Makes `session` the client's session. Over HTTP the id is sent in the response headers, so the response must not
    /// have started yet. Returns whether the client can use the session over another connection.
    pub fn set_session(&mut self, session: &Arc<Session>) -> bool {
        match &mut self.sink {
            ResponseSink::Http(http_sink) => {
                http_sink.session_header = HeaderValue::from_str(session.id()).ok();
                true
            }
            ResponseSink::MessageQueue(_, slot) => {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(session));
                false
            }
        }
    }

    /// Sends a message that precedes the response.
    pub async fn send(&mut self, text: &str) {
        let renamed = self
            .name_prefixer
            .as_ref()
            .map(|prefixer| prefix_message(prefixer.server.as_str(), text, &prefixer.limits));
        let text = renamed.as_deref().unwrap_or(text);
        // Sending fails if the client has disconnected; the message is dropped.
        match &mut self.sink {
            ResponseSink::Http(http_sink) => http_sink.send(text).await,
            ResponseSink::MessageQueue(texts, _) => drop(texts.send(Bytes::copy_from_slice(text.as_bytes())).await),
        }
    }

    pub async fn keep_alive(&mut self) {
        if let ResponseSink::Http(http_sink) = &mut self.sink {
            http_sink.keep_alive().await;
        }
    }

    /// Finishes with a response.
    pub async fn finish(self, text: Bytes) {
        self.finish_with_status(StatusCode::OK, text).await;
    }

    /// Finishes with a response and a status, which is ignored if a stream has started.
    pub async fn finish_with_status(self, status: StatusCode, text: Bytes) {
        self.finish_with_body(status, text.into()).await;
    }

    /// Like [`finish_with_status`](Self::finish_with_status), for a body that may consist of several segments.
    pub async fn finish_with_body(mut self, status: StatusCode, text: MessageBody) {
        // The client may reuse the id as soon as it has the response.
        self.unregister();
        if let Some(captured) = &self.captured_reply {
            let _ = captured.set(text.clone().into_bytes());
        }
        let text = match &self.name_prefixer {
            Some(prefixer) => prefixer.prefix_reply(&text.into_bytes()).into(),
            None => text,
        };
        match self.sink {
            ResponseSink::Http(http_sink) => http_sink.finish(status, text, self.in_flight_guard).await,
            ResponseSink::MessageQueue(texts, _) => drop(texts.send(text.into_bytes()).await),
        }
    }

    /// Finishes the handling of a notification or response with status 202.
    pub fn accept(self) {
        if let ResponseSink::Http(HttpResponseSink { response_sender: Some(head), .. }) = self.sink {
            let _ = head.send(http_response::empty_response(StatusCode::ACCEPTED));
        }
    }

    /// Finishes with the error of a rejected message, and the status that it has in the client's protocol. Unknown
    /// notifications are accepted and ignored.
    pub async fn reject(self, error: &MessageError, status: StatusCode) {
        match status {
            StatusCode::ACCEPTED => self.accept(),
            status => self.finish_with_status(status, reply::wire_error_reply(error).into()).await,
        }
    }

    /// Finishes without a response, because the client no longer wants one.
    pub fn hang_up(mut self) {
        self.unregister();
        if let ResponseSink::Http(HttpResponseSink { response_sender: Some(head), .. }) = self.sink {
            let _ = head.send(http_response::event_stream_response(mpsc::channel(1).1));
        }
    }

    /// Ends a notification stream. Over HTTP, closing it is enough; on a shared connection the final response ends it.
    pub async fn close_stream(self, final_response: String) {
        match &self.sink {
            ResponseSink::Http(_) => self.hang_up(),
            ResponseSink::MessageQueue(..) if mutant!("stdio-listener-closed-without-reply") => drop(final_response),
            ResponseSink::MessageQueue(..) => self.finish(final_response.into()).await,
        }
    }

    /// Waits until the client disconnects.
    pub async fn wait_for_disconnect(&mut self) {
        match &mut self.sink {
            ResponseSink::MessageQueue(texts, _) => texts.closed().await,
            ResponseSink::Http(http_sink) => match (&mut http_sink.response_sender, &http_sink.events) {
                (Some(head), _) => head.closed().await,
                (None, ResponseEventSink::Plain(events)) => events.closed().await,
                (None, ResponseEventSink::NotStarted | ResponseEventSink::Resumable(_)) => std::future::pending().await,
            },
        }
    }
}

impl NamePrefixer {
    fn prefix_reply(&self, text: &Bytes) -> Bytes {
        // INVARIANT: responses are UTF-8, because they were parsed or written as text.
        let text = str::from_utf8(text).unwrap_or_default();
        prefix_response(self.server.as_str(), &self.method, text, &self.limits).into()
    }
}

impl HttpResponseSink {
    async fn send(&mut self, text: &str) {
        self.start_stream();
        match &self.events {
            ResponseEventSink::NotStarted => {}
            ResponseEventSink::Plain(events) => drop(events.send(sse_event(text).into()).await),
            ResponseEventSink::Resumable(resumable) => resumable.send(text).await,
        }
    }

    async fn keep_alive(&mut self) {
        self.start_stream();
        match &self.events {
            ResponseEventSink::NotStarted => {}
            ResponseEventSink::Plain(events) => drop(events.send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes())).await),
            ResponseEventSink::Resumable(resumable) => resumable.keep_alive().await,
        }
    }

    fn start_stream(&mut self) {
        let Some(head) = self.response_sender.take() else { return };
        let (events, receiver) = mpsc::channel(EVENT_QUEUE_LENGTH);
        self.events = match &self.resumable_session {
            Some(session) => ResponseEventSink::Resumable(ResumableStream::begin(session, events)),
            None => ResponseEventSink::Plain(events),
        };
        let _ = head.send(self.with_session(http_response::event_stream_response(receiver)));
    }

    async fn finish(mut self, status: StatusCode, text: MessageBody, guard: Option<InFlightGuard>) {
        if self.is_streamed && status == StatusCode::OK {
            self.start_stream();
        }
        match self.response_sender.take() {
            Some(head) => {
                let mut response = self.with_session(http_response::json_response(status, text));
                response
                    .body_mut()
                    .hold_in_flight_guard(guard.filter(|_| !mutant!("gateway-answer-frees-slot-unread")));
                let _ = head.send(response);
            }
            None => {
                let text = text.into_bytes();
                // INVARIANT: responses are UTF-8, because they were parsed or written as text.
                let text = str::from_utf8(&text).unwrap_or_default();
                match self.events {
                    ResponseEventSink::NotStarted => {}
                    ResponseEventSink::Plain(events) => {
                        drop(events.send(bytes_with_guard(sse_event(text).into(), guard)).await)
                    }
                    ResponseEventSink::Resumable(resumable) => resumable.finish(text, guard).await,
                }
            }
        }
    }

    fn with_session(&mut self, mut response: Response<ReplyBody>) -> Response<ReplyBody> {
        if let Some(session) = self.session_header.take() {
            response.headers_mut().insert(http_headers::SESSION_ID, session);
        }
        response
    }
}
