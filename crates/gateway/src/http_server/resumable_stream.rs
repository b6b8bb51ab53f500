//! The stream that answers one request of a session. The client may lose its connection and come back; the call goes
//! on, and so does the stream.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::{Revision, SSE_KEEP_ALIVE};
use tokio::sync::mpsc;

use crate::pipeline::InFlightGuard;
use crate::session::Session;

/// A stream that can be come back to. It is over when this is dropped.
#[derive(Debug)]
pub(super) struct ResumableStream {
    session: Arc<Session>,
    stream: u64,
}

impl ResumableStream {
    /// Begins one to a connection whose queue is empty.
    pub fn begin(session: &Arc<Session>, events: mpsc::Sender<Bytes>) -> Self {
        let stream = session.replay_buffers().begin_stream(events.clone());
        // Older clients take an event without data for a broken message.
        if session.revision() >= Revision::R2025_11_25 {
            let _ = events.try_send(session.replay_buffers().priming_event(stream));
        }
        Self { session: Arc::clone(session), stream }
    }

    /// Sends a message. A client that is away finds it when it comes back.
    pub async fn send(&self, text: &str) {
        let (event, to) = self.session.replay_buffers().append_event_for_connection(self.stream, text);
        send_if_connected(to, event).await;
    }

    /// Sends the last message; the request's place is given back when it is taken.
    pub async fn finish(self, text: &str, room: Option<InFlightGuard>) {
        let (event, to) = self.session.replay_buffers().append_event_for_connection(self.stream, text);
        send_if_connected(to, bytes_with_guard(event, room)).await;
    }

    /// Ends the connection, so that the client comes back for the rest; one that was given no place to come back to
    /// keeps it.
    pub fn close_for_polling(&self) {
        if self.session.revision() >= Revision::R2025_11_25 {
            self.session.replay_buffers().disconnect(self.stream);
        }
    }

    /// Shows that we are still there.
    pub async fn keep_alive(&self) {
        send_if_connected(
            self.session.replay_buffers().find_connection(self.stream),
            Bytes::from_static(SSE_KEEP_ALIVE.as_bytes()),
        )
        .await;
    }
}

async fn send_if_connected(to: Option<mpsc::Sender<Bytes>>, event: Bytes) {
    if let Some(events) = to {
        let _ = events.send(event).await;
    }
}

impl Drop for ResumableStream {
    fn drop(&mut self) {
        self.session.replay_buffers().end_stream(self.stream);
    }
}

/// Bytes that keep a place until they are written.
pub(super) fn bytes_with_guard(event: Bytes, room: Option<InFlightGuard>) -> Bytes {
    struct BytesWithGuard(Bytes, #[expect(dead_code, reason = "it is there to be dropped")] InFlightGuard);
    impl AsRef<[u8]> for BytesWithGuard {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    match room {
        Some(room) => Bytes::from_owner(BytesWithGuard(event, room)),
        None => event,
    }
}
