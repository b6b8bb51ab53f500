//! Reply bodies: a single message, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use gatelodge_mutants::mutant;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::active_requests::RequestSlot;

/// Size of the chunks in which a large message is sent. The request slot is released only when the client has read the
/// last chunk.
const CHUNK_BYTES: usize = 256 << 10;

/// A reply body together with the request slot it holds.
#[derive(Debug)]
pub(crate) struct McpReplyBody {
    content: McpReplyBodySource,
    _slot: Option<RequestSlot>,
}

#[derive(Debug)]
enum McpReplyBodySource {
    /// A single message, or an empty body.
    Whole(Option<Bytes>),
    /// A stream of events. The body ends when all senders are dropped.
    Events(mpsc::Receiver<Bytes>),
}

impl McpReplyBody {
    pub fn from_text(text: Option<Bytes>) -> Self {
        Self { content: McpReplyBodySource::Whole(text), _slot: None }
    }

    pub fn events(events: mpsc::Receiver<Bytes>) -> Self {
        Self { content: McpReplyBodySource::Events(events), _slot: None }
    }

    /// Makes the body hold a request slot until the client has read everything.
    pub fn holding_slot(self, slot: RequestSlot) -> Self {
        Self { _slot: (!mutant!("http-answer-frees-slot-unread")).then_some(slot), ..self }
    }
}

impl http_body::Body for McpReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().content {
            McpReplyBodySource::Whole(text) => Poll::Ready(next_chunk(text).map(|piece| Ok(Frame::data(piece)))),
            McpReplyBodySource::Events(events) => {
                events.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, McpReplyBodySource::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            McpReplyBodySource::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            McpReplyBodySource::Events(_) => SizeHint::default(),
        }
    }
}

fn next_chunk(text: &mut Option<Bytes>) -> Option<Bytes> {
    let mut piece = text.take()?;
    if piece.len() > CHUNK_BYTES {
        *text = Some(piece.split_off(CHUNK_BYTES));
    }
    Some(piece)
}
