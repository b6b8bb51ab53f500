//! Bodies of replies: a single message, or an event stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::body::MessageBody;
use crate::runtime::InFlightGuard;

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
