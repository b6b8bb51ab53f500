//! HTTP bodies: request bodies, which are read within limits, and reply bodies, which are a single message or an event
//! stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::body::{BodyBuffer, MessageBody, ReceivedBody};
use crate::runtime::InFlightGuard;

/// How many bytes of an oversized body are read and discarded, so that the client receives the error.
const MAX_DISCARDED_BYTES: usize = 64 << 20;
/// A client that sends nothing for this long is assumed to be waiting for the response.
const DISCARD_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Body of a reply.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// A complete body, possibly empty, and the in-flight guard of its request.
    Whole(MessageBody, Option<InFlightGuard>),
    /// A stream of events. It ends when all senders are dropped.
    EventStream(mpsc::Receiver<Bytes>),
}

impl ReplyBody {
    pub fn empty() -> Self {
        Self::Whole(MessageBody::default(), None)
    }

    /// Holds the in-flight guard until the body is sent.
    pub fn hold_in_flight_guard(&mut self, held: Option<InFlightGuard>) {
        if let Self::Whole(_, in_flight) = self {
            *in_flight = held;
        }
    }

    pub fn from_message(text: impl Into<MessageBody>) -> Self {
        Self::Whole(text.into(), None)
    }
}

impl http_body::Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            // A large text is sent in pieces, so that its memory and its in-flight guard are released soon after the
            // client has read it, except for one piece and the connection's buffer.
            Self::Whole(text, _) => Pin::new(text).poll_frame(cx),
            Self::EventStream(events) => events.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(text, _) if text.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(text, _) => text.size_hint(),
            Self::EventStream(_) => SizeHint::default(),
        }
    }
}

/// Reads a request body.
///
/// # Errors
/// The body is too large, arrives too slowly or is truncated. The error contains the status and message for the client.
pub(crate) async fn read_request_body(
    mut body: Incoming,
    limit: usize,
    time: Duration,
) -> Result<ReceivedBody, (StatusCode, String)> {
    let until = Instant::now() + time;
    match tokio::time::timeout_at(until, collect(&mut body, limit)).await {
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, format!("the message did not arrive within {} s", time.as_secs()))),
        Ok(BodyReadOutcome::Complete(taken)) => Ok(taken),
        Ok(BodyReadOutcome::TooLarge) => {
            let _ = tokio::time::timeout_at(until, discard(body)).await;
            Err((StatusCode::PAYLOAD_TOO_LARGE, format!("the message is larger than {limit} bytes")))
        }
        Ok(BodyReadOutcome::Truncated) => Err((StatusCode::BAD_REQUEST, "the request body is incomplete".to_owned())),
    }
}

enum BodyReadOutcome {
    Complete(ReceivedBody),
    TooLarge,
    Truncated,
}

async fn collect(body: &mut Incoming, limit: usize) -> BodyReadOutcome {
    if body.size_hint().lower() > limit as u64 {
        return BodyReadOutcome::TooLarge;
    }
    let mut buffer = BodyBuffer::for_client();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return BodyReadOutcome::Truncated };
        // Trailers are ignored.
        let Ok(piece) = frame.into_data() else { continue };
        let left = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let expected = left.saturating_add(buffer.len() + piece.len());
        if expected > limit {
            return BodyReadOutcome::TooLarge;
        }
        buffer.push(piece, expected);
    }
    BodyReadOutcome::Complete(buffer.finish())
}

/// Reads and discards the rest of a body: many clients do not read the response until they have sent everything.
async fn discard(mut body: Incoming) {
    let mut left = MAX_DISCARDED_BYTES;
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(DISCARD_IDLE_TIMEOUT, body.frame()).await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(less) => left = less,
            None => return,
        }
    }
}
