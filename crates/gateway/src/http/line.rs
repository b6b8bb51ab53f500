//! The line to one caller: one answer, or a stream that ends with it. It answers once.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gatelodge_mcp::{KEEP_ALIVE, event, head};
use http::header::HeaderValue;
use http::{Response, StatusCode};
use tokio::sync::{mpsc, oneshot};

use super::body::Body;
use super::reply;
use crate::call::Room;
use crate::session::Session;
use crate::telemetry::AnswerSlot;

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
    events: Option<mpsc::Sender<Bytes>>,
    session: Option<HeaderValue>,
}

impl Line {
    /// To one request over HTTP.
    pub fn new() -> (Self, oneshot::Receiver<Response<Body>>) {
        let (head, receiver) = oneshot::channel();
        (
            Self { to: To::Http(HttpLine { head: Some(head), events: None, session: None }), room: None, shown: None },
            receiver,
        )
    }

    /// To a client that reads texts.
    pub fn of_texts(texts: mpsc::Sender<Bytes>, slot: Slot) -> Self {
        Self { to: To::Lines(texts, slot), room: None, shown: None }
    }

    /// Keeps the request's place until its answer is taken.
    pub fn hold(&mut self, room: Room) {
        self.room = Some(room);
    }

    /// Whether the request has its place.
    pub fn has_room(&self) -> bool {
        self.room.is_some()
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
        // A caller that hung up misses what it no longer waits for.
        match &mut self.to {
            To::Http(line) => line.push(event(text).into()).await,
            To::Lines(texts, _) => drop(texts.send(Bytes::copy_from_slice(text.as_bytes())).await),
        }
    }

    /// Shows that we are still there.
    pub async fn keep_alive(&mut self) {
        if let To::Http(line) = &mut self.to {
            line.push(Bytes::from_static(KEEP_ALIVE.as_bytes())).await;
        }
    }

    /// Ends with the answer.
    pub async fn finish(self, text: Bytes) {
        self.finish_with(StatusCode::OK, text).await;
    }

    /// Ends with an answer that has a status of its own, if the status can still be chosen.
    pub async fn finish_with(self, status: StatusCode, text: Bytes) {
        if let Some(shown) = &self.shown {
            let _ = shown.set(text.clone());
        }
        match self.to {
            To::Http(line) => line.finish_with(status, text, self.room).await,
            To::Lines(texts, _) => drop(texts.send(text).await),
        }
    }

    /// Ends by saying that a message was taken which wants no answer.
    pub fn accept(self) {
        if let To::Http(HttpLine { head: Some(head), .. }) = self.to {
            let _ = head.send(reply::empty(StatusCode::ACCEPTED));
        }
    }

    /// Ends without an answer: the caller does not want one any more.
    pub fn hang_up(self) {
        if let To::Http(mut line) = self.to {
            line.begin_stream();
        }
    }

    /// Waits until the caller hangs up.
    pub async fn gone(&mut self) {
        match &mut self.to {
            To::Lines(texts, _) => texts.closed().await,
            To::Http(line) => match (&mut line.head, &line.events) {
                (Some(head), _) => head.closed().await,
                (None, Some(events)) => events.closed().await,
                (None, None) => std::future::pending().await,
            },
        }
    }
}

impl HttpLine {
    async fn push(&mut self, event: Bytes) {
        self.begin_stream();
        if let Some(events) = &self.events {
            let _ = events.send(event).await;
        }
    }

    fn begin_stream(&mut self) {
        let Some(head) = self.head.take() else { return };
        let (events, receiver) = mpsc::channel(WAITING_EVENTS);
        self.events = Some(events);
        let _ = head.send(self.with_session(reply::stream(receiver)));
    }

    async fn finish_with(mut self, status: StatusCode, text: Bytes, room: Option<Room>) {
        match self.head.take() {
            Some(head) => {
                let mut response = self.with_session(reply::json(status, text));
                response.body_mut().hold(room);
                let _ = head.send(response);
            }
            None => {
                if let Some(events) = &self.events {
                    // INVARIANT: answers are UTF-8; they were read or written as text.
                    let _ = events.send(event(str::from_utf8(&text).unwrap_or_default()).into()).await;
                }
            }
        }
    }

    fn with_session(&mut self, mut response: Response<Body>) -> Response<Body> {
        if let Some(session) = self.session.take() {
            response.headers_mut().insert(head::SESSION, session);
        }
        response
    }
}

/// The address of a caller as logs write it.
pub(crate) fn address_words(address: std::net::IpAddr) -> Arc<str> {
    address.to_canonical().to_string().into()
}
