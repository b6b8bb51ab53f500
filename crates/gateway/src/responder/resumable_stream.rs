//! Response stream of a request within a session. If the client loses its connection, the call and the stream continue,
//! and the client can resume the stream.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::SSE_KEEP_ALIVE;
use tokio::sync::mpsc;

use crate::runtime::InFlightGuard;
use crate::session::Session;

/// A resumable stream. Dropping it ends the stream.
#[derive(Debug)]
pub(super) struct ResumableStream {
    session: Arc<Session>,
    stream: u64,
}

impl ResumableStream {
    /// Starts a stream on a new connection. Its queue `events` must be empty, so that there is room for the priming
    /// event.
    pub fn begin(session: &Arc<Session>, events: mpsc::Sender<Bytes>) -> Self {
        let stream = session.streams.replay_buffers.begin_stream(events.clone());
        if session.has_priming_events() {
            let _ = events.try_send(session.streams.replay_buffers.priming_event(stream));
        }
        Self { session: Arc::clone(session), stream }
    }

    /// Sends a message. A disconnected client gets it when it resumes.
    pub async fn send(&self, text: &str) {
        let (event, to) = self.session.streams.replay_buffers.append_event_for_connection(self.stream, text);
        send_if_connected(to, event).await;
    }

    /// Sends the last message. The in-flight guard is released once the message is written.
    pub async fn finish(self, text: &str, guard: Option<InFlightGuard>) {
        let (event, to) = self.session.streams.replay_buffers.append_event_for_connection(self.stream, text);
        send_if_connected(to, bytes_with_guard(event, guard)).await;
    }

    /// Closes the connection, so that the client polls for the rest. A client that has received no priming event keeps
    /// its connection.
    pub fn close_for_polling(&self) {
        if self.session.has_priming_events() {
            self.session.streams.replay_buffers.disconnect(self.stream);
        }
    }

    pub async fn keep_alive(&self) {
        send_if_connected(
            self.session.streams.replay_buffers.find_connection(self.stream),
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
        self.session.streams.replay_buffers.end_stream(self.stream);
    }
}

/// Attaches an in-flight guard to bytes, to be released once they are written.
pub(super) fn bytes_with_guard(event: Bytes, guard: Option<InFlightGuard>) -> Bytes {
    struct BytesWithGuard(Bytes, #[expect(dead_code, reason = "it is there to be dropped")] InFlightGuard);
    impl AsRef<[u8]> for BytesWithGuard {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    match guard {
        Some(guard) => Bytes::from_owner(BytesWithGuard(event, guard)),
        None => event,
    }
}
