//! The line to one caller: one answer, or a stream that ends with it. It answers once.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::{KEEP_ALIVE, event};
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::sync::{mpsc, oneshot};

use super::body::Body;
use super::reply;

/// Events that wait for a slow caller; beyond that the upstream waits.
const WAITING_EVENTS: usize = 32;

/// Where the answer to one request goes.
#[derive(Debug)]
pub(crate) struct Line {
    /// Taken by the answer's head. The connection's task holds the other end; closed means that the caller hung up.
    head: Option<oneshot::Sender<Response<Body>>>,
    events: Option<mpsc::Sender<Bytes>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Line {
    pub fn new() -> (Self, oneshot::Receiver<Response<Body>>) {
        let (head, receiver) = oneshot::channel();
        (Self { head: Some(head), events: None, headers: Vec::new() }, receiver)
    }

    /// Adds a header to an answer that has not begun.
    pub fn header(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.push((name, value));
    }

    /// Sends a message before the answer.
    pub async fn send(&mut self, text: &str) {
        self.push(event(text).into()).await;
    }

    /// Shows that we are still there.
    pub async fn keep_alive(&mut self) {
        self.push(Bytes::from_static(KEEP_ALIVE.as_bytes())).await;
    }

    async fn push(&mut self, event: Bytes) {
        self.begin_stream();
        if let Some(events) = &self.events {
            // A caller that hung up misses what it no longer waits for.
            let _ = events.send(event).await;
        }
    }

    fn begin_stream(&mut self) {
        let Some(head) = self.head.take() else { return };
        let (events, receiver) = mpsc::channel(WAITING_EVENTS);
        self.events = Some(events);
        let _ = head.send(self.with_headers(reply::stream(receiver)));
    }

    /// Ends with the answer.
    pub async fn finish(self, text: Bytes) {
        self.finish_with(StatusCode::OK, text).await;
    }

    /// Ends with an answer that has a status of its own, if the status can still be chosen.
    pub async fn finish_with(mut self, status: StatusCode, text: Bytes) {
        match self.head.take() {
            Some(head) => {
                let _ = head.send(self.with_headers(reply::json(status, text)));
            }
            None => {
                if let Some(events) = &self.events {
                    // INVARIANT: answers are UTF-8; they were read or written as text.
                    let _ = events.send(event(str::from_utf8(&text).unwrap_or_default()).into()).await;
                }
            }
        }
    }

    /// Ends by saying that a message was taken which wants no answer.
    pub fn accept(mut self) {
        if let Some(head) = self.head.take() {
            let _ = head.send(reply::empty(StatusCode::ACCEPTED));
        }
    }

    /// Ends without an answer: the caller does not want one any more.
    pub fn hang_up(mut self) {
        self.begin_stream();
    }

    /// Waits until the caller hangs up.
    pub async fn gone(&mut self) {
        match (&mut self.head, &self.events) {
            (Some(head), _) => head.closed().await,
            (None, Some(events)) => events.closed().await,
            (None, None) => std::future::pending().await,
        }
    }

    fn with_headers(&mut self, mut response: Response<Body>) -> Response<Body> {
        response.headers_mut().extend(self.headers.drain(..).map(|(name, value)| (Some(name), value)));
        response
    }
}

/// The address of a caller as logs write it.
pub(crate) fn address_words(address: std::net::IpAddr) -> Arc<str> {
    address.to_canonical().to_string().into()
}
