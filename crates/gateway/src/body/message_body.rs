//! Body of an outgoing message to a client or an upstream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// If the part after the head is shorter than this, it is copied into the same segment, which costs less than a second
/// segment.
const MAX_COPIED_BYTES: usize = 16 << 10;
/// Maximum frame size. A body is sent in frames so that memory is freed as each frame leaves.
const MAX_FRAME_BYTES: usize = 256 << 10;

/// A message body in segments, so that changing its beginning does not require copying the rest. Most bodies have one
/// or two segments.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageBody {
    head: Bytes,
    tail: Bytes,
    further_segments: VecDeque<Bytes>,
}

impl MessageBody {
    pub fn from_head_and_tail(head: String, rest: Bytes) -> Self {
        if rest.len() >= MAX_COPIED_BYTES {
            return Self { head: head.into(), tail: rest, further_segments: VecDeque::new() };
        }
        let mut whole = head.into_bytes();
        whole.extend_from_slice(&rest);
        Bytes::from(whole).into()
    }

    /// Creates a body from the middle chunks of a segmented message, with a new beginning and end.
    pub fn from_segments(before: String, middle: &[Bytes], after: String) -> Self {
        let further_segments = middle.iter().cloned().chain([after.into()]).collect();
        Self { head: before.into(), tail: Bytes::new(), further_segments }
    }

    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len() + self.further_segments.iter().map(Bytes::len).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.further_segments.iter().all(Bytes::is_empty)
    }

    /// Creates a body from a new head and `rest`. If `rest` is part of `source`, it is not copied.
    pub fn with_new_prefix(head: String, rest: &str, source: &Bytes) -> Self {
        let start = rest.as_ptr().addr().checked_sub(source.as_ptr().addr());
        let own = start.and_then(|start| Some(start..start.checked_add(rest.len())?));
        match own.filter(|own| own.end <= source.len()) {
            Some(own) => Self::from_head_and_tail(head, source.slice(own)),
            None => (head + rest).into(),
        }
    }

    /// Applies `change` to each segment.
    pub fn map_segments(self, change: impl Fn(Bytes) -> Bytes) -> Self {
        let more = self.further_segments.into_iter().map(&change).collect();
        Self { head: change(self.head), tail: change(self.tail), further_segments: more }
    }

    /// Returns the body as contiguous bytes.
    pub fn into_bytes(self) -> Bytes {
        match (self.head.is_empty(), self.tail.is_empty()) {
            _ if !self.further_segments.is_empty() => {
                let mut whole = Vec::with_capacity(self.len());
                [self.head, self.tail]
                    .iter()
                    .chain(&self.further_segments)
                    .for_each(|piece| whole.extend_from_slice(piece));
                whole.into()
            }
            (true, _) => self.tail,
            (_, true) => self.head,
            (false, false) => [self.head, self.tail].concat().into(),
        }
    }

    /// Removes and returns the next frame; `None` at the end.
    fn next_frame(&mut self) -> Option<Bytes> {
        while self.head.is_empty() {
            let next =
                if self.tail.is_empty() { self.further_segments.pop_front()? } else { std::mem::take(&mut self.tail) };
            self.head = next;
        }
        let length = self.head.len().min(MAX_FRAME_BYTES);
        (length > 0).then(|| self.head.split_to(length))
    }
}

impl http_body::Body for MessageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.get_mut().next_frame().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}

impl From<Bytes> for MessageBody {
    fn from(head: Bytes) -> Self {
        Self { head, tail: Bytes::new(), further_segments: VecDeque::new() }
    }
}

impl From<String> for MessageBody {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for MessageBody {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}
