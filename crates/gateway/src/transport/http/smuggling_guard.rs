//! Inspects the incoming bytes of a connection to prevent request smuggling.
//!
//! A request with both `Content-Length` and chunked encoding is interpreted differently by different servers. hyper
//! interprets it correctly but removes the length header, so the conflict is only visible in the raw bytes. Such
//! requests are refused.

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

use crate::runtime::coalescing_stream::CoalescingStream;

/// Maximum number of header bytes to inspect; hyper accepts no more.
const MAX_INSPECTED_BYTES: usize = crate::transport::http::listener::MAX_HEAD_BYTES;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// Buffer capacity kept between requests. It is small because there can be many idle connections.
const TYPICAL_HEAD_BYTES: usize = 1 << 10;

/// A connection that records the bytes received since the last write.
#[derive(Debug)]
pub(crate) struct SmugglingGuardStream {
    stream: CoalescingStream,
    head_bytes: SmugglingCheckBytes,
    /// Time limit for a write, and the deadline of the pending write. Without the limit, a client that does not read
    /// its response would keep it in memory.
    write_timeout: Duration,
    write_deadline: Option<Pin<Box<Sleep>>>,
}

/// Bytes received since the last write: the headers of the current request, and perhaps more.
#[derive(Debug, Clone, Default)]
pub(crate) struct SmugglingCheckBytes(Arc<Mutex<Vec<u8>>>);

impl SmugglingGuardStream {
    pub fn new(stream: TcpStream, timeout: Duration) -> (Self, SmugglingCheckBytes) {
        let head_bytes = SmugglingCheckBytes::default();
        (
            Self {
                stream: CoalescingStream(stream),
                head_bytes: head_bytes.clone(),
                write_timeout: timeout,
                write_deadline: None,
            },
            head_bytes,
        )
    }

    /// Fails a write that has been pending for too long.
    fn check_write_timeout<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.write_deadline = None;
            return polled;
        }
        let timeout = self.write_timeout;
        let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) if !mutant!("slow-reader-never-dropped") => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Ready(()) | Poll::Pending => Poll::Pending,
        }
    }
}

impl SmugglingCheckBytes {
    /// Returns whether a chunked request also has a `Content-Length`. Also returns true if its headers cannot be found
    /// in the recorded bytes.
    pub fn has_content_length(&self) -> bool {
        let head_bytes = self.lock();
        let Some(end) = memmem::find(&head_bytes, HEAD_END) else { return true };
        let head = String::from_utf8_lossy(head_bytes.get(..end).unwrap_or_default()).to_ascii_lowercase();
        // Bytes in front of the request line mean that the client pipelines requests.
        !head.starts_with("post ") || head.lines().any(|line| line.starts_with("content-length"))
    }

    fn record(&self, received: &[u8]) {
        let mut head_bytes = self.lock();
        let capacity = MAX_INSPECTED_BYTES.saturating_sub(head_bytes.len());
        // Only headers are inspected, so a long body is not copied.
        let received =
            if received.len() > TYPICAL_HEAD_BYTES { up_to_head_end(&head_bytes, received) } else { received };
        head_bytes.extend_from_slice(received.get(..capacity).unwrap_or(received));
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

/// Returns the part of the received bytes that belongs to the headers.
fn up_to_head_end<'c>(head_bytes: &[u8], received: &'c [u8]) -> &'c [u8] {
    if memmem::find(head_bytes, HEAD_END).is_some() {
        return &[];
    }
    let end = memmem::find(received, HEAD_END).map_or(received.len(), |at| at + HEAD_END.len());
    received.get(..end).unwrap_or(received)
}

impl AsyncRead for SmugglingGuardStream {
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

impl AsyncWrite for SmugglingGuardStream {
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
    fn only_headers_of_a_long_request_are_kept_and_the_result_is_the_same() {
        let long = "\r\n\r\ncontent-length: 5\r\n\r\n".repeat(1_000);
        for (head, has_length) in [
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked", false),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", true),
            ("0\r\n", true),
        ] {
            let received = format!("{head}{long}");
            for piece in [1, 7, head.len() + 2, TYPICAL_HEAD_BYTES + 1, received.len()] {
                let head_bytes = SmugglingCheckBytes::default();
                received.as_bytes().chunks(piece).for_each(|piece| head_bytes.record(piece));
                assert_eq!(head_bytes.has_content_length(), has_length, "{head} by {piece}");
                let kept = head_bytes.lock().len();
                assert!(piece <= TYPICAL_HEAD_BYTES || kept <= TYPICAL_HEAD_BYTES, "{kept} bytes by {piece}");
            }
        }
    }
}
