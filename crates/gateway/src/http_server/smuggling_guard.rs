//! Looks at the bytes of a connection on their way in.
//!
//! A request that says both how long it is and that it comes in chunks is read in two ways by two servers. The HTTP
//! library reads it in the right one and hides that it said the other; here it can be seen, and is refused.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use gatelodge_mutants::mutant;
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::coalescing_stream::CoalescingStream;

/// The most of a head that is looked at; the library takes no longer one.
const MAX_INSPECTED_BYTES: usize = super::listener::MAX_HEAD_BYTES;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// What is kept ready for the next head. Connections may be many, and idle for long.
const TYPICAL_HEAD_BYTES: usize = 1 << 10;

/// A connection whose bytes since our last answer can be looked at.
#[derive(Debug)]
pub(crate) struct InspectedStream {
    stream: CoalescingStream,
    head_bytes: RequestHeadBytes,
    /// How long the caller may take for the next piece of an answer, and the end of that time while we wait. One that
    /// does not read holds its answer in our memory.
    write_timeout: Duration,
    write_deadline: Option<Pin<Box<Sleep>>>,
}

/// What came since our last answer: the head of the request under way, and perhaps more.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestHeadBytes(Arc<Mutex<Vec<u8>>>);

impl InspectedStream {
    pub fn new(stream: TcpStream, patience: Duration) -> (Self, RequestHeadBytes) {
        let head_bytes = RequestHeadBytes::default();
        (
            Self {
                stream: CoalescingStream(stream),
                head_bytes: head_bytes.clone(),
                write_timeout: patience,
                write_deadline: None,
            },
            head_bytes,
        )
    }

    /// Ends waiting for a caller that takes nothing.
    fn check_write_timeout<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.write_deadline = None;
            return polled;
        }
        let patience = self.write_timeout;
        let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) if !mutant!("slow-reader-never-dropped") => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Ready(()) | Poll::Pending => Poll::Pending,
        }
    }
}

impl RequestHeadBytes {
    /// Whether the request in chunks also gave a length, or its head cannot be found in what came.
    pub fn has_content_length(&self) -> bool {
        let head_bytes = self.lock();
        let Some(end) = memmem::find(&head_bytes, HEAD_END) else { return true };
        let head = String::from_utf8_lossy(head_bytes.get(..end).unwrap_or_default()).to_ascii_lowercase();
        // Something before the head means that requests were sent without waiting for answers.
        !head.starts_with("post ") || head.lines().any(|line| line.starts_with("content-length"))
    }

    fn record(&self, received: &[u8]) {
        let mut head_bytes = self.lock();
        let room = MAX_INSPECTED_BYTES.saturating_sub(head_bytes.len());
        // Nothing behind a head is looked at, and a long body need not be copied.
        let received =
            if received.len() > TYPICAL_HEAD_BYTES { up_to_head_end(&head_bytes, received) } else { received };
        head_bytes.extend_from_slice(received.get(..room).unwrap_or(received));
    }

    fn clear(&self) {
        let mut head_bytes = self.lock();
        head_bytes.clear();
        head_bytes.shrink_to(TYPICAL_HEAD_BYTES);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came, as far as it belongs to the head that was begun.
fn up_to_head_end<'c>(head_bytes: &[u8], received: &'c [u8]) -> &'c [u8] {
    if memmem::find(head_bytes, HEAD_END).is_some() {
        return &[];
    }
    let end = memmem::find(received, HEAD_END).map_or(received.len(), |at| at + HEAD_END.len());
    received.get(..end).unwrap_or(received)
}

impl AsyncRead for InspectedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut own.stream).poll_read(cx, buffer);
        let received = buffer.filled().get(before..).unwrap_or_default();
        if !received.is_empty() {
            own.head_bytes.record(received);
        }
        polled
    }
}

impl AsyncWrite for InspectedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        own.head_bytes.clear();
        let polled = Pin::new(&mut own.stream).poll_write(cx, bytes);
        own.check_write_timeout(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        own.head_bytes.clear();
        let polled = Pin::new(&mut own.stream).poll_write_vectored(cx, slices);
        own.check_write_timeout(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_body_nothing_is_kept_but_its_head_and_that_is_read_as_before() {
        let long = "\r\n\r\ncontent-length: 5\r\n\r\n".repeat(1_000);
        for (head, has_length) in [
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked", false),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", true),
            ("0\r\n", true),
        ] {
            let received = format!("{head}{long}");
            for piece in [1, 7, head.len() + 2, TYPICAL_HEAD_BYTES + 1, received.len()] {
                let head_bytes = RequestHeadBytes::default();
                received.as_bytes().chunks(piece).for_each(|piece| head_bytes.record(piece));
                assert_eq!(head_bytes.has_content_length(), has_length, "{head} by {piece}");
                let kept = head_bytes.lock().len();
                assert!(piece <= TYPICAL_HEAD_BYTES || kept <= TYPICAL_HEAD_BYTES, "{kept} bytes by {piece}");
            }
        }
    }
}
