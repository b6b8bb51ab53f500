//! The line to one caller: one answer, or a stream that ends with it. It answers once.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::aggregate_names::{prefix_message, prefix_response};
use gatelodge_mcp::{MessageError, Method, ProtocolGeneration, RequestId, SSE_KEEP_ALIVE, http_headers, sse_event};
use gatelodge_mutants::mutant;
use gatelodge_store::{CallId, ServerName};
use http::header::HeaderValue;
use http::{Response, StatusCode};
use tokio::sync::{Notify, mpsc, oneshot};

use super::http_bodies::ReplyBody;
use super::reply;
use super::resumable_stream::{ResumableStream, bytes_with_guard};
use crate::deadline_timer::DeadlineTimer;
use crate::message_body::MessageBody;
use crate::pipeline::{InFlightGuard, Refusal, RequestSubject};
use crate::request_context::RequestContext;
use crate::session::{CancellableRequests, InFlightRequest, RequestRegistration, Session};
use crate::telemetry::CapturedReply;

/// Events that wait for a slow caller; beyond that the upstream waits.
const EVENT_QUEUE_LENGTH: usize = 32;

/// Where the answer to one request goes.
#[derive(Debug)]
pub(crate) struct Responder {
    sink: ResponseSink,
    /// The request's place among those in flight. It is given back when the caller has taken the answer.
    in_flight_guard: Option<InFlightGuard>,
    /// Where the answer is shown to whoever records the request.
    captured_reply: Option<CapturedReply>,
    /// Whose words they are, where the client speaks to many servers as one.
    name_prefixer: Option<Box<NamePrefixer>>,
    /// Where the client finds the request to cancel it, mostly one place, and what is told then.
    registration: Option<RequestRegistration>,
    other_registrations: Vec<RequestRegistration>,
    cancel_signal: Option<Arc<Notify>>,
    /// How whoever carries the request hears that it takes too long.
    deadline_timer: Option<Arc<DeadlineTimer>>,
}

/// One of many servers, and what it was asked.
#[derive(Debug)]
struct NamePrefixer {
    server: ServerName,
    method: Method<'static>,
    limits: JsonLimits,
}

#[derive(Debug)]
enum ResponseSink {
    Http(HttpResponseSink),
    /// Texts, one to a line, and where the client's session is kept.
    MessageQueue(mpsc::Sender<Bytes>, SessionSlot),
}

/// The session of a client that has but one.
pub(crate) type SessionSlot = Arc<Mutex<Option<Arc<Session>>>>;

#[derive(Debug)]
struct HttpResponseSink {
    /// Taken by the answer's head. The connection's task holds the other end; closed means that the caller hung up.
    response_sender: Option<oneshot::Sender<Response<ReplyBody>>>,
    events: ResponseEventSink,
    session_header: Option<HeaderValue>,
    /// The session whose client may come back for what it missed.
    resumable_session: Option<Arc<Session>>,
    /// Whether the answer goes out as a stream though nothing comes before it.
    is_streamed: bool,
}

/// Where the events of a stream go.
#[derive(Debug)]
enum ResponseEventSink {
    /// It has not begun.
    NotStarted,
    /// To a client that does not come back.
    Plain(mpsc::Sender<Bytes>),
    /// To one that may.
    Resumable(ResumableStream),
}

impl Responder {
    /// To one request over HTTP.
    pub fn new(timer: Arc<DeadlineTimer>) -> (Self, oneshot::Receiver<Response<ReplyBody>>) {
        let (head, receiver) = oneshot::channel();
        let http_sink = HttpResponseSink {
            response_sender: Some(head),
            events: ResponseEventSink::NotStarted,
            session_header: None,
            resumable_session: None,
            is_streamed: false,
        };
        (Self { deadline_timer: Some(timer), ..Self::with_sink(ResponseSink::Http(http_sink)) }, receiver)
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

    /// The client has a session, and may come back to a stream of it.
    pub fn set_resumable_session(&mut self, session: &Arc<Session>) {
        if let ResponseSink::Http(http_sink) = &mut self.sink {
            http_sink.resumable_session = Some(Arc::clone(session));
        }
    }

    /// The upstream answers as a stream, so we do. A client that may come back gets its place in it at once.
    pub fn start_stream(&mut self) {
        if let ResponseSink::Http(http_sink) = &mut self.sink {
            http_sink.is_streamed = true;
            if http_sink.resumable_session.is_some() {
                http_sink.start_stream();
            }
        }
    }

    /// The upstream hung up to be polled, so we do.
    pub fn close_for_polling(&self) {
        if let ResponseSink::Http(HttpResponseSink { events: ResponseEventSink::Resumable(resumable), .. }) = &self.sink
        {
            resumable.close_for_polling();
        }
    }

    /// To a client that reads texts.
    pub fn to_message_queue(texts: mpsc::Sender<Bytes>, slot: SessionSlot) -> Self {
        Self::with_sink(ResponseSink::MessageQueue(texts, slot))
    }

    /// Enters the request among those that its client can cancel, until it is answered. `call` is what the server knows
    /// it by, if it does. It may be entered in several places, and is cancelled in whichever.
    pub fn register_cancellable(&mut self, calls: &Arc<CancellableRequests>, id: &RequestId<'_>, call: Option<CallId>) {
        let cancelled = self.cancel_signal.clone().unwrap_or_default();
        if let Some(entry) = calls.register(id, InFlightRequest { call, cancel_signal: Arc::clone(&cancelled) }) {
            self.other_registrations.extend(self.registration.replace(entry));
            self.cancel_signal = Some(cancelled);
        }
    }

    /// The client finds it no more.
    fn unregister(&mut self) {
        self.registration = None;
        self.other_registrations.clear();
    }

    /// What is told when the client cancels the request; none where the client cannot.
    pub fn cancel_signal(&self) -> Option<Arc<Notify>> {
        self.cancel_signal.clone()
    }

    /// How whoever carries the request hears that it takes too long; none where that needs a timer of its own.
    pub fn deadline_timer(&self) -> Option<Arc<DeadlineTimer>> {
        self.deadline_timer.clone()
    }

    /// What is said from now on is said by one of many servers: the client gets it under the names that it knows.
    pub fn prefix_names_of(&mut self, server: &ServerName, method: &Method<'_>, limits: JsonLimits) {
        let method = Method::of(method.name().to_owned().into());
        self.name_prefixer = Some(Box::new(NamePrefixer { server: server.clone(), method, limits }));
    }

    /// Whether one of many servers speaks.
    pub fn is_aggregate(&self) -> bool {
        self.name_prefixer.is_some()
    }

    /// What a request is about, under the names that the client knows.
    pub fn with_client_names<'f>(&self, subject: &RequestSubject<'f>) -> RequestSubject<'f> {
        match &self.name_prefixer {
            Some(prefixer) => subject.with_server_prefix(prefixer.server.as_str()),
            None => subject.clone(),
        }
    }

    /// Keeps the request's place until its answer is taken.
    pub fn hold_in_flight_guard(&mut self, room: InFlightGuard) {
        self.in_flight_guard = Some(room);
    }

    /// Gives the request's place to somebody else.
    pub fn take_in_flight_guard(&mut self) -> Option<InFlightGuard> {
        self.in_flight_guard.take()
    }

    /// Takes a place among the requests in flight, unless the request has one.
    ///
    /// # Errors
    /// There is none.
    pub fn acquire_in_flight(&mut self, ctx: &RequestContext, method: &Method<'_>) -> Result<(), Refusal> {
        if self.in_flight_guard.is_none() {
            self.in_flight_guard = Some(InFlightGuard::for_request(ctx, method)?);
        }
        Ok(())
    }

    /// Shows the answer to somebody else, too.
    pub fn capture_reply(&mut self, captured: Option<CapturedReply>) {
        self.captured_reply = captured;
    }

    /// Tells the client which session it has, with an answer that has not begun. Gives whether the client can come
    /// back to it over another connection.
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

    /// Sends a message before the answer.
    pub async fn send(&mut self, text: &str) {
        let renamed = self
            .name_prefixer
            .as_ref()
            .map(|prefixer| prefix_message(prefixer.server.as_str(), text, &prefixer.limits));
        let text = renamed.as_deref().unwrap_or(text);
        // A caller that hung up misses what it no longer waits for.
        match &mut self.sink {
            ResponseSink::Http(http_sink) => http_sink.send(text).await,
            ResponseSink::MessageQueue(texts, _) => drop(texts.send(Bytes::copy_from_slice(text.as_bytes())).await),
        }
    }

    /// Shows that we are still there.
    pub async fn keep_alive(&mut self) {
        if let ResponseSink::Http(http_sink) = &mut self.sink {
            http_sink.keep_alive().await;
        }
    }

    /// Ends with the answer.
    pub async fn finish(self, text: Bytes) {
        self.finish_with_status(StatusCode::OK, text).await;
    }

    /// Ends with an answer that has a status of its own, if the status can still be chosen.
    pub async fn finish_with_status(self, status: StatusCode, text: Bytes) {
        self.finish_with_body(status, text.into()).await;
    }

    /// The same with a text that may be in pieces.
    pub async fn finish_with_body(mut self, status: StatusCode, text: MessageBody) {
        // Whoever has the answer may use the id again.
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

    /// Ends by saying that a message was taken which wants no answer.
    pub fn accept(self) {
        if let ResponseSink::Http(HttpResponseSink { response_sender: Some(head), .. }) = self.sink {
            let _ = head.send(reply::empty_response(StatusCode::ACCEPTED));
        }
    }

    /// Ends with why a message is not taken. One that is only unknown, and wants no answer, gets none.
    pub async fn reject(self, error: &MessageError, generation: ProtocolGeneration) {
        match reply::wire_error_reply(error, generation) {
            (StatusCode::ACCEPTED, _) => self.accept(),
            (status, text) => self.finish_with_status(status, text.into()).await,
        }
    }

    /// Ends without an answer: the caller does not want one any more.
    pub fn hang_up(mut self) {
        self.unregister();
        if let ResponseSink::Http(HttpResponseSink { response_sender: Some(head), .. }) = self.sink {
            let _ = head.send(reply::event_stream_response(mpsc::channel(1).1));
        }
    }

    /// Ends a stream of notifications. Over HTTP its end says all; where many share a line, nothing ends but by a word.
    pub async fn close_stream(self, last_word: String) {
        match &self.sink {
            ResponseSink::Http(_) => self.hang_up(),
            ResponseSink::MessageQueue(..) if mutant!("stdio-listener-closed-without-reply") => drop(last_word),
            ResponseSink::MessageQueue(..) => self.finish(last_word.into()).await,
        }
    }

    /// Waits until the caller hangs up.
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
        // INVARIANT: answers are UTF-8; they were read or written as text.
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
        let _ = head.send(self.with_session(reply::event_stream_response(receiver)));
    }

    async fn finish(mut self, status: StatusCode, text: MessageBody, room: Option<InFlightGuard>) {
        if self.is_streamed && status == StatusCode::OK {
            self.start_stream();
        }
        match self.response_sender.take() {
            Some(head) => {
                let mut response = self.with_session(reply::json_response(status, text));
                response.body_mut().hold_in_flight_guard(room.filter(|_| !mutant!("gateway-answer-frees-slot-unread")));
                let _ = head.send(response);
            }
            None => {
                let text = text.into_bytes();
                // INVARIANT: answers are UTF-8; they were read or written as text.
                let text = str::from_utf8(&text).unwrap_or_default();
                match self.events {
                    ResponseEventSink::NotStarted => {}
                    ResponseEventSink::Plain(events) => {
                        drop(events.send(bytes_with_guard(sse_event(text).into(), room)).await)
                    }
                    ResponseEventSink::Resumable(resumable) => resumable.finish(text, room).await,
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
