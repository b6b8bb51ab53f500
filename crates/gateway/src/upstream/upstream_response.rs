//! The answer of an upstream: one message, or a stream of them, over HTTP or on a connection that carries many.

use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::RequestId;
use http::{HeaderValue, StatusCode};

use super::http_client::HttpResponseReader;
use super::multiplexed_peer::MultiplexedResponse;
use super::{PreviousResponse, ResumeTarget, SendError, UpstreamLink};
use crate::Gateway;
use crate::body_buffer::ReceivedBody;

/// Servers end a stream at once after the answer; one that does not is not worth waiting for.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// An answer that is being read.
#[derive(Debug)]
pub(crate) struct UpstreamResponse {
    pub status: StatusCode,
    /// The session that the upstream opened, or goes on in.
    pub session_link: UpstreamLink,
    /// How the rest of a stream is asked for that ended too early; none where it cannot be.
    pub resume_target: Option<ResumeTarget>,
    pub(super) source: ResponseSource,
}

#[derive(Debug)]
pub(super) enum ResponseSource {
    Http(HttpResponseReader),
    Multiplexed(MultiplexedResponse),
    /// There is nothing to read.
    Empty,
}

impl UpstreamResponse {
    /// Whether the answer may hold more than the one message.
    pub fn is_stream(&self) -> bool {
        match &self.source {
            ResponseSource::Http(answer) => answer.is_stream(),
            ResponseSource::Multiplexed(_) => true,
            ResponseSource::Empty => false,
        }
    }

    /// Whether the upstream itself chose a stream.
    pub fn is_event_stream(&self) -> bool {
        matches!(&self.source, ResponseSource::Http(answer) if answer.is_stream())
    }

    /// The last event of a stream, and how long the upstream wants to be left alone before it is asked for more.
    pub fn last_event(&self) -> (Option<HeaderValue>, Option<Duration>) {
        match &self.source {
            ResponseSource::Http(answer) => answer.last_event(),
            ResponseSource::Multiplexed(_) | ResponseSource::Empty => (None, None),
        }
    }

    /// The next message; none at the end.
    pub async fn next_message(&mut self) -> Result<Option<Bytes>, SendError> {
        Ok(self.next_body().await?.map(ReceivedBody::into_bytes))
    }

    /// The same as it came: a long one need not be in one piece.
    pub async fn next_body(&mut self) -> Result<Option<ReceivedBody>, SendError> {
        match &mut self.source {
            ResponseSource::Http(answer) => answer.next_message().await,
            ResponseSource::Multiplexed(answer) => Ok(answer.next_message().await?.map(ReceivedBody::Whole)),
            ResponseSource::Empty => Ok(None),
        }
    }

    /// Whether the answer is that of an earlier request in the same words, under this id; then it is read. If it is another,
    /// or is not one text of a length that is known, it is still to be read.
    pub async fn matches_previous(
        &mut self,
        previous: &PreviousResponse,
        id: &RequestId<'_>,
    ) -> Result<bool, SendError> {
        match &mut self.source {
            ResponseSource::Http(answer) if self.status.is_success() => answer.matches_previous(previous, id).await,
            ResponseSource::Http(_) | ResponseSource::Multiplexed(_) | ResponseSource::Empty => Ok(false),
        }
    }

    /// Whether what the upstream asks here can only be for this call: over HTTP each has a stream
    /// of its own.
    pub fn is_only_call(&self) -> bool {
        match &self.source {
            ResponseSource::Multiplexed(answer) => answer.is_single_call(),
            ResponseSource::Http(_) | ResponseSource::Empty => true,
        }
    }

    /// Whether what came last was said before the call was there, and so for another one or none.
    pub fn is_before_call(&self) -> bool {
        matches!(&self.source, ResponseSource::Multiplexed(answer) if answer.is_before_call())
    }

    /// Leaves it without a word: the upstream is told by somebody else that nobody waits.
    pub fn abandon(&mut self) {
        if let ResponseSource::Multiplexed(answer) = &mut self.source {
            answer.abandon();
        }
    }

    /// Reads what follows the answer, so that the connection can be used again. A second answer is dropped.
    pub async fn drain(&mut self, gw: &Gateway) {
        let ResponseSource::Http(answer) = &mut self.source else { return };
        if answer.is_ended() {
            return;
        }
        let rest = async {
            while let Ok(Some(_)) = answer.next_message().await {
                gw.metrics.count_dropped_message();
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
    }
}
