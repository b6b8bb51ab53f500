//! Looks at the bytes of a connection on their way in.
//!
//! A request that says both how long it is and that it comes in chunks is read in two ways by two servers. The HTTP
//! library reads it in the right one and hides that it said the other; here it can be seen, and is refused.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// The most of a head that is looked at; the library takes no longer one.
const MAX_SEEN: usize = super::listener::MAX_HEAD_BYTES;

/// What is kept ready for the next head. Connections may be many, and idle for long.
const USUAL_HEAD: usize = 1 << 10;

/// A connection whose bytes since our last answer can be looked at.
#[derive(Debug)]
pub(crate) struct Tap {
    stream: TcpStream,
    seen: Seen,
    /// How long the caller may take for the next piece of an answer, and the end of that time while we wait. One that
    /// does not read holds its answer in our memory.
    patience: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

/// What came since our last answer: the head of the request under way, and perhaps more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<u8>>>);

impl Tap {
    pub fn new(stream: TcpStream, patience: Duration) -> (Self, Seen) {
        let seen = Seen::default();
        (Self { stream, seen: seen.clone(), patience, deadline: None }, seen)
    }

    /// Ends waiting for a caller that takes nothing.
    fn in_time<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.deadline = None;
            return polled;
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Seen {
    /// Whether the request in chunks also gave a length, or its head cannot be found in what came.
    pub fn has_length(&self) -> bool {
        let seen = self.lock();
        let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") else { return true };
        let head = String::from_utf8_lossy(seen.get(..end).unwrap_or_default()).to_ascii_lowercase();
        // Something before the head means that requests were sent without waiting for answers.
        !head.starts_with("post ") || head.lines().any(|line| line.starts_with("content-length"))
    }

    fn clear(&self) {
        let mut seen = self.lock();
        seen.clear();
        seen.shrink_to(USUAL_HEAD);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Tap {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut own.stream).poll_read(cx, buffer);
        let came = buffer.filled().get(before..).unwrap_or_default();
        if !came.is_empty() {
            let mut seen = own.seen.lock();
            let room = MAX_SEEN.saturating_sub(seen.len()).min(came.len());
            seen.extend_from_slice(came.get(..room).unwrap_or_default());
        }
        polled
    }
}

impl AsyncWrite for Tap {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        own.seen.clear();
        let polled = Pin::new(&mut own.stream).poll_write(cx, bytes);
        own.in_time(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        own.seen.clear();
        let polled = Pin::new(&mut own.stream).poll_write_vectored(cx, slices);
        own.in_time(cx, polled)
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
