//! A text on its way out, to a caller or to an upstream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// Shorter ones are copied: that costs less than another piece.
const SHORT: usize = 16 << 10;
/// The most that goes out at once: what was taken can be let go.
const PIECE: usize = 256 << 10;

/// A text in pieces, each behind the one before: a long one need not be copied for what changes at its beginning. Most are
/// one piece or two.
#[derive(Debug, Clone, Default)]
pub(crate) struct Text {
    head: Bytes,
    rest: Bytes,
    more: VecDeque<Bytes>,
}

impl Text {
    pub fn in_two(head: String, rest: Bytes) -> Self {
        if rest.len() >= SHORT {
            return Self { head: head.into(), rest, more: VecDeque::new() };
        }
        let mut whole = head.into_bytes();
        whole.extend_from_slice(&rest);
        Bytes::from(whole).into()
    }

    /// A text whose middle stands apart, with what stands before it and behind it now.
    pub fn around(before: String, middle: &[Bytes], behind: String) -> Self {
        let more = middle.iter().cloned().chain([behind.into()]).collect();
        Self { head: before.into(), rest: Bytes::new(), more }
    }

    pub fn len(&self) -> usize {
        self.head.len() + self.rest.len() + self.more.iter().map(Bytes::len).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.rest.is_empty() && self.more.iter().all(Bytes::is_empty)
    }

    /// All of it but the middle that stands apart, which is inside one long string.
    pub fn outline(&self) -> impl Iterator<Item = &[u8]> {
        [&self.head, &self.rest].into_iter().chain(self.more.back()).map(AsRef::as_ref)
    }

    /// A text with another beginning: what of it is kept stands in `kept`, which is not copied. If it stands elsewhere, it
    /// is.
    pub fn rebegun(head: String, rest: &str, kept: &Bytes) -> Self {
        let start = rest.as_ptr().addr().checked_sub(kept.as_ptr().addr());
        let own = start.and_then(|start| Some(start..start.checked_add(rest.len())?));
        match own.filter(|own| own.end <= kept.len()) {
            Some(own) => Self::in_two(head, kept.slice(own)),
            None => (head + rest).into(),
        }
    }

    /// Changes each of its pieces.
    pub fn each(self, change: impl Fn(Bytes) -> Bytes) -> Self {
        let more = self.more.into_iter().map(&change).collect();
        Self { head: change(self.head), rest: change(self.rest), more }
    }

    /// The whole of it in one piece.
    pub fn whole(self) -> Bytes {
        match (self.head.is_empty(), self.rest.is_empty()) {
            _ if !self.more.is_empty() => {
                let mut whole = Vec::with_capacity(self.len());
                [self.head, self.rest].iter().chain(&self.more).for_each(|piece| whole.extend_from_slice(piece));
                whole.into()
            }
            (true, _) => self.rest,
            (_, true) => self.head,
            (false, false) => [self.head, self.rest].concat().into(),
        }
    }

    /// Takes from its beginning; none at the end.
    fn next(&mut self) -> Option<Bytes> {
        while self.head.is_empty() {
            let next = if self.rest.is_empty() { self.more.pop_front()? } else { std::mem::take(&mut self.rest) };
            self.head = next;
        }
        let length = self.head.len().min(PIECE);
        (length > 0).then(|| self.head.split_to(length))
    }
}

impl http_body::Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.get_mut().next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}

impl From<Bytes> for Text {
    fn from(head: Bytes) -> Self {
        Self { head, rest: Bytes::new(), more: VecDeque::new() }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}
