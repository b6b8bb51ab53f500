//! The answer of an upstream: one message, or a stream of them, over HTTP or on a connection that carries many.

use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::RequestId;
use http::{HeaderValue, StatusCode};

use super::http::HttpAnswer;
use super::peer::PeerAnswer;
use super::{Earlier, Link, SendError, WayBack};
use crate::Gateway;
use crate::body_buffer::ReceivedBody;

/// Servers end a stream at once after the answer; one that does not is not worth waiting for.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// An answer that is being read.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub status: StatusCode,
    /// The session that the upstream opened, or goes on in.
    pub link: Link,
    /// How the rest of a stream is asked for that ended too early; none where it cannot be.
    pub back: Option<WayBack>,
    pub(super) source: Source,
}

#[derive(Debug)]
pub(super) enum Source {
    Http(HttpAnswer),
    Peer(PeerAnswer),
    /// There is nothing to read.
    Nothing,
}

impl Exchange {
    /// Whether the answer may hold more than the one message.
    pub fn is_stream(&self) -> bool {
        match &self.source {
            Source::Http(answer) => answer.is_stream(),
            Source::Peer(_) => true,
            Source::Nothing => false,
        }
    }

    /// Whether the upstream itself chose a stream.
    pub fn is_event_stream(&self) -> bool {
        matches!(&self.source, Source::Http(answer) if answer.is_stream())
    }

    /// The last event of a stream, and how long the upstream wants to be left alone before it is asked for more.
    pub fn left_at(&self) -> (Option<HeaderValue>, Option<Duration>) {
        match &self.source {
            Source::Http(answer) => answer.left_at(),
            Source::Peer(_) | Source::Nothing => (None, None),
        }
    }

    /// The next message; none at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SendError> {
        Ok(self.next_taken().await?.map(ReceivedBody::into_bytes))
    }

    /// The same as it came: a long one need not be in one piece.
    pub async fn next_taken(&mut self) -> Result<Option<ReceivedBody>, SendError> {
        match &mut self.source {
            Source::Http(answer) => answer.next().await,
            Source::Peer(answer) => Ok(answer.next().await?.map(ReceivedBody::Whole)),
            Source::Nothing => Ok(None),
        }
    }

    /// Whether the answer is that of an earlier request in the same words, under this id; then it is read. If it is another,
    /// or is not one text of a length that is known, it is still to be read.
    pub async fn is_again(&mut self, earlier: &Earlier, id: &RequestId<'_>) -> Result<bool, SendError> {
        match &mut self.source {
            Source::Http(answer) if self.status.is_success() => answer.is_again(earlier, id).await,
            Source::Http(_) | Source::Peer(_) | Source::Nothing => Ok(false),
        }
    }

    /// Whether what the upstream asks here can only be for this call: over HTTP each has a stream
    /// of its own.
    pub fn is_only_call(&self) -> bool {
        match &self.source {
            Source::Peer(answer) => answer.is_only_one(),
            Source::Http(_) | Source::Nothing => true,
        }
    }

    /// Whether what came last was said before the call was there, and so for another one or none.
    pub fn is_early(&self) -> bool {
        matches!(&self.source, Source::Peer(answer) if answer.is_early())
    }

    /// Leaves it without a word: the upstream is told by somebody else that nobody waits.
    pub fn leave(&mut self) {
        if let Source::Peer(answer) = &mut self.source {
            answer.leave();
        }
    }

    /// Reads what follows the answer, so that the connection can be used again. A second answer is dropped.
    pub async fn drain(&mut self, gw: &Gateway) {
        let Source::Http(answer) = &mut self.source else { return };
        if answer.is_over() {
            return;
        }
        let rest = async {
            while let Ok(Some(_)) = answer.next().await {
                gw.metrics.count_dropped_message();
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIME, rest).await;
    }
}
