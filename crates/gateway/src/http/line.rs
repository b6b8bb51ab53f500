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

use super::body::Body;
use super::outlet::{Outlet, held};
use super::reply;
use crate::call::{Facts, Refusal, Room};
use crate::deadline_timer::DeadlineTimer;
use crate::request_context::RequestContext;
use crate::session::{Calls, Entry, Session, UnderWay};
use crate::telemetry::AnswerSlot;
use crate::text::Text;

/// Events that wait for a slow caller; beyond that the upstream waits.
const WAITING_EVENTS: usize = 32;

/// Where the answer to one request goes.
#[derive(Debug)]
pub(crate) struct Line {
    to: To,
    /// The request's place among those in flight. It is given back when the caller has taken the answer.
    room: Option<Room>,
    /// Where the answer is shown to whoever records the request.
    shown: Option<AnswerSlot>,
    /// Whose words they are, where the client speaks to many servers as one.
    speaker: Option<Box<Speaker>>,
    /// Where the client finds the request to cancel it, mostly one place, and what is told then.
    entry: Option<Entry>,
    other_entries: Vec<Entry>,
    cancelled: Option<Arc<Notify>>,
    /// How whoever carries the request hears that it takes too long.
    alarm: Option<Arc<DeadlineTimer>>,
}

/// One of many servers, and what it was asked.
#[derive(Debug)]
struct Speaker {
    server: ServerName,
    method: Method<'static>,
    limits: JsonLimits,
}

#[derive(Debug)]
enum To {
    Http(HttpLine),
    /// Texts, one to a line, and where the client's session is kept.
    Lines(mpsc::Sender<Bytes>, Slot),
}

/// The session of a client that has but one.
pub(crate) type Slot = Arc<Mutex<Option<Arc<Session>>>>;

#[derive(Debug)]
struct HttpLine {
    /// Taken by the answer's head. The connection's task holds the other end; closed means that the caller hung up.
    head: Option<oneshot::Sender<Response<Body>>>,
    events: Events,
    session: Option<HeaderValue>,
    /// The session whose client may come back for what it missed.
    back: Option<Arc<Session>>,
    /// Whether the answer goes out as a stream though nothing comes before it.
    is_streamed: bool,
}

/// Where the events of a stream go.
#[derive(Debug)]
enum Events {
    /// It has not begun.
    None,
    /// To a client that does not come back.
    Once(mpsc::Sender<Bytes>),
    /// To one that may.
    Lasting(Outlet),
}

impl Line {
    /// To one request over HTTP.
    pub fn new(alarm: Arc<DeadlineTimer>) -> (Self, oneshot::Receiver<Response<Body>>) {
        let (head, receiver) = oneshot::channel();
        let line = HttpLine { head: Some(head), events: Events::None, session: None, back: None, is_streamed: false };
        (Self { alarm: Some(alarm), ..Self::to(To::Http(line)) }, receiver)
    }

    fn to(to: To) -> Self {
        let (entry, other_entries) = (None, Vec::new());
        Self { to, room: None, shown: None, speaker: None, entry, other_entries, cancelled: None, alarm: None }
    }

    /// The client has a session, and may come back to a stream of it.
    pub fn of_session(&mut self, session: &Arc<Session>) {
        if let To::Http(line) = &mut self.to {
            line.back = Some(Arc::clone(session));
        }
    }

    /// The upstream answers as a stream, so we do. A client that may come back gets its place in it at once.
    pub fn be_stream(&mut self) {
        if let To::Http(line) = &mut self.to {
            line.is_streamed = true;
            if line.back.is_some() {
                line.begin_stream();
            }
        }
    }

    /// The upstream hung up to be polled, so we do.
    pub fn let_go(&self) {
        if let To::Http(HttpLine { events: Events::Lasting(outlet), .. }) = &self.to {
            outlet.let_go();
        }
    }

    /// To a client that reads texts.
    pub fn of_texts(texts: mpsc::Sender<Bytes>, slot: Slot) -> Self {
        Self::to(To::Lines(texts, slot))
    }

    /// Enters the request among those that its client can cancel, until it is answered. `call` is what the server knows
    /// it by, if it does. It may be entered in several places, and is cancelled in whichever.
    pub fn enter(&mut self, calls: &Arc<Calls>, id: &RequestId<'_>, call: Option<CallId>) {
        let cancelled = self.cancelled.clone().unwrap_or_default();
        if let Some(entry) = calls.begin(id, UnderWay { call, cancelled: Arc::clone(&cancelled) }) {
            self.other_entries.extend(self.entry.replace(entry));
            self.cancelled = Some(cancelled);
        }
    }

    /// The client finds it no more.
    fn leave(&mut self) {
        self.entry = None;
        self.other_entries.clear();
    }

    /// What is told when the client cancels the request; none where the client cannot.
    pub fn cancelled(&self) -> Option<Arc<Notify>> {
        self.cancelled.clone()
    }

    /// How whoever carries the request hears that it takes too long; none where that needs a timer of its own.
    pub fn alarm(&self) -> Option<Arc<DeadlineTimer>> {
        self.alarm.clone()
    }

    /// What is said from now on is said by one of many servers: the client gets it under the names that it knows.
    pub fn speak_for(&mut self, server: &ServerName, method: &Method<'_>, limits: JsonLimits) {
        let method = Method::of(method.name().to_owned().into());
        self.speaker = Some(Box::new(Speaker { server: server.clone(), method, limits }));
    }

    /// Whether one of many servers speaks.
    pub fn is_of_many(&self) -> bool {
        self.speaker.is_some()
    }

    /// What a request is about, under the names that the client knows.
    pub fn as_known<'f>(&self, facts: &Facts<'f>) -> Facts<'f> {
        match &self.speaker {
            Some(speaker) => facts.among_many(speaker.server.as_str()),
            None => facts.clone(),
        }
    }

    /// Keeps the request's place until its answer is taken.
    pub fn hold(&mut self, room: Room) {
        self.room = Some(room);
    }

    /// Gives the request's place to somebody else.
    pub fn give_room(&mut self) -> Option<Room> {
        self.room.take()
    }

    /// Takes a place among the requests in flight, unless the request has one.
    ///
    /// # Errors
    /// There is none.
    pub fn take_room(&mut self, visit: &RequestContext, method: &Method<'_>) -> Result<(), Refusal> {
        if self.room.is_none() {
            self.room = Some(Room::for_request(visit, method)?);
        }
        Ok(())
    }

    /// Shows the answer to somebody else, too.
    pub fn show_to(&mut self, shown: Option<AnswerSlot>) {
        self.shown = shown;
    }

    /// Tells the client which session it has, with an answer that has not begun. Gives whether the client can come
    /// back to it over another connection.
    pub fn open(&mut self, session: &Arc<Session>) -> bool {
        match &mut self.to {
            To::Http(line) => {
                line.session = HeaderValue::from_str(session.id()).ok();
                true
            }
            To::Lines(_, slot) => {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(session));
                false
            }
        }
    }

    /// Sends a message before the answer.
    pub async fn send(&mut self, text: &str) {
        let renamed =
            self.speaker.as_ref().map(|speaker| prefix_message(speaker.server.as_str(), text, &speaker.limits));
        let text = renamed.as_deref().unwrap_or(text);
        // A caller that hung up misses what it no longer waits for.
        match &mut self.to {
            To::Http(line) => line.send(text).await,
            To::Lines(texts, _) => drop(texts.send(Bytes::copy_from_slice(text.as_bytes())).await),
        }
    }

    /// Shows that we are still there.
    pub async fn keep_alive(&mut self) {
        if let To::Http(line) = &mut self.to {
            line.keep_alive().await;
        }
    }

    /// Ends with the answer.
    pub async fn finish(self, text: Bytes) {
        self.finish_with(StatusCode::OK, text).await;
    }

    /// Ends with an answer that has a status of its own, if the status can still be chosen.
    pub async fn finish_with(self, status: StatusCode, text: Bytes) {
        self.finish_with_text(status, text.into()).await;
    }

    /// The same with a text that may be in pieces.
    pub async fn finish_with_text(mut self, status: StatusCode, text: Text) {
        // Whoever has the answer may use the id again.
        self.leave();
        if let Some(shown) = &self.shown {
            let _ = shown.set(text.clone().whole());
        }
        let text = match &self.speaker {
            Some(speaker) => speaker.answer(&text.whole()).into(),
            None => text,
        };
        match self.to {
            To::Http(line) => line.finish_with(status, text, self.room).await,
            To::Lines(texts, _) => drop(texts.send(text.whole()).await),
        }
    }

    /// Ends by saying that a message was taken which wants no answer.
    pub fn accept(self) {
        if let To::Http(HttpLine { head: Some(head), .. }) = self.to {
            let _ = head.send(reply::empty(StatusCode::ACCEPTED));
        }
    }

    /// Ends with why a message is not taken. One that is only unknown, and wants no answer, gets none.
    pub async fn reject(self, fault: &MessageError, era: ProtocolGeneration) {
        match reply::wire_error(fault, era) {
            (StatusCode::ACCEPTED, _) => self.accept(),
            (status, text) => self.finish_with(status, text.into()).await,
        }
    }

    /// Ends without an answer: the caller does not want one any more.
    pub fn hang_up(mut self) {
        self.leave();
        if let To::Http(HttpLine { head: Some(head), .. }) = self.to {
            let _ = head.send(reply::stream(mpsc::channel(1).1));
        }
    }

    /// Ends a stream of notifications. Over HTTP its end says all; where many share a line, nothing ends but by a word.
    pub async fn close(self, last_word: String) {
        match &self.to {
            To::Http(_) => self.hang_up(),
            To::Lines(..) if mutant!("stdio-listener-closed-without-reply") => drop(last_word),
            To::Lines(..) => self.finish(last_word.into()).await,
        }
    }

    /// Waits until the caller hangs up.
    pub async fn gone(&mut self) {
        match &mut self.to {
            To::Lines(texts, _) => texts.closed().await,
            To::Http(line) => match (&mut line.head, &line.events) {
                (Some(head), _) => head.closed().await,
                (None, Events::Once(events)) => events.closed().await,
                (None, Events::None | Events::Lasting(_)) => std::future::pending().await,
            },
        }
    }
}

impl Speaker {
    fn answer(&self, text: &Bytes) -> Bytes {
        // INVARIANT: answers are UTF-8; they were read or written as text.
        let text = str::from_utf8(text).unwrap_or_default();
        prefix_response(self.server.as_str(), &self.method, text, &self.limits).into()
    }
}

impl HttpLine {
    async fn send(&mut self, text: &str) {
        self.begin_stream();
        match &self.events {
            Events::None => {}
            Events::Once(events) => drop(events.send(sse_event(text).into()).await),
            Events::Lasting(outlet) => outlet.send(text).await,
        }
    }

    async fn keep_alive(&mut self) {
        self.begin_stream();
        match &self.events {
            Events::None => {}
            Events::Once(events) => drop(events.send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes())).await),
            Events::Lasting(outlet) => outlet.keep_alive().await,
        }
    }

    fn begin_stream(&mut self) {
        let Some(head) = self.head.take() else { return };
        let (events, receiver) = mpsc::channel(WAITING_EVENTS);
        self.events = match &self.back {
            Some(session) => Events::Lasting(Outlet::begin(session, events)),
            None => Events::Once(events),
        };
        let _ = head.send(self.with_session(reply::stream(receiver)));
    }

    async fn finish_with(mut self, status: StatusCode, text: Text, room: Option<Room>) {
        if self.is_streamed && status == StatusCode::OK {
            self.begin_stream();
        }
        match self.head.take() {
            Some(head) => {
                let mut response = self.with_session(reply::json(status, text));
                response.body_mut().hold(room.filter(|_| !mutant!("gateway-answer-frees-slot-unread")));
                let _ = head.send(response);
            }
            None => {
                let text = text.whole();
                // INVARIANT: answers are UTF-8; they were read or written as text.
                let text = str::from_utf8(&text).unwrap_or_default();
                match self.events {
                    Events::None => {}
                    Events::Once(events) => drop(events.send(held(sse_event(text).into(), room)).await),
                    Events::Lasting(outlet) => outlet.finish(text, room).await,
                }
            }
        }
    }

    fn with_session(&mut self, mut response: Response<Body>) -> Response<Body> {
        if let Some(session) = self.session.take() {
            response.headers_mut().insert(http_headers::SESSION_ID, session);
        }
        response
    }
}
