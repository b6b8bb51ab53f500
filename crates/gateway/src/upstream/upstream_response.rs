//! An upstream's response: one message or a stream, over HTTP or on a multiplexed connection.

use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::RequestId;
use http::{HeaderValue, StatusCode};

use super::http::HttpResponseReader;
use super::multiplexed_peer::MultiplexedResponse;
use super::{ListResponseBaseline, UpstreamSendError, UpstreamSessionLink, UpstreamStreamResumeTarget};
use crate::body::ReceivedBody;
use crate::telemetry::Metrics;

/// How long to wait for the end of a stream after the reply. Servers usually end it immediately.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// A response being read.
#[derive(Debug)]
pub(crate) struct UpstreamResponse {
    pub status: StatusCode,
    /// The session that the upstream opened or continues.
    pub session_link: UpstreamSessionLink,
    /// How to resume an event stream that ended early; `None` if that is not possible.
    pub resume_target: Option<UpstreamStreamResumeTarget>,
    pub(super) source: UpstreamResponseSource,
}

#[derive(Debug)]
pub(super) enum UpstreamResponseSource {
    Http(HttpResponseReader),
    Multiplexed(MultiplexedResponse),
    /// No body.
    Empty,
}

impl UpstreamResponse {
    /// Returns whether the response may contain several messages.
    pub fn is_stream(&self) -> bool {
        match &self.source {
            UpstreamResponseSource::Http(response) => response.is_stream(),
            UpstreamResponseSource::Multiplexed(_) => true,
            UpstreamResponseSource::Empty => false,
        }
    }

    /// Returns whether the upstream chose an event stream.
    pub fn is_event_stream(&self) -> bool {
        matches!(&self.source, UpstreamResponseSource::Http(response) if response.is_stream())
    }

    /// Returns the last event id of a stream, and the delay that the upstream requests before reconnecting.
    pub fn last_event(&self) -> (Option<HeaderValue>, Option<Duration>) {
        match &self.source {
            UpstreamResponseSource::Http(response) => response.last_event(),
            UpstreamResponseSource::Multiplexed(_) | UpstreamResponseSource::Empty => (None, None),
        }
    }

    /// Returns the next message; `None` at the end.
    pub async fn next_message(&mut self) -> Result<Option<Bytes>, UpstreamSendError> {
        Ok(self.next_body().await?.map(ReceivedBody::into_bytes))
    }

    /// Like [`Self::next_message`], but a long message may stay segmented.
    pub async fn next_body(&mut self) -> Result<Option<ReceivedBody>, UpstreamSendError> {
        match &mut self.source {
            UpstreamResponseSource::Http(response) => response.next_message().await,
            UpstreamResponseSource::Multiplexed(response) => {
                Ok(response.next_message().await?.map(ReceivedBody::Whole))
            }
            UpstreamResponseSource::Empty => Ok(None),
        }
    }

    /// Returns whether the response has the id `id` and is identical to an earlier one apart from the id. If so, it is
    /// consumed. A response that differs, or is not a single message of known length, can still be read.
    pub async fn matches_previous(
        &mut self,
        previous: &ListResponseBaseline,
        id: &RequestId<'_>,
    ) -> Result<bool, UpstreamSendError> {
        match &mut self.source {
            UpstreamResponseSource::Http(response) if self.status.is_success() => {
                response.matches_previous(previous, id).await
            }
            UpstreamResponseSource::Http(_)
            | UpstreamResponseSource::Multiplexed(_)
            | UpstreamResponseSource::Empty => Ok(false),
        }
    }

    /// Returns whether an upstream request received with this response can belong only to this call. Over HTTP each
    /// call has its own stream.
    pub fn is_only_call(&self) -> bool {
        match &self.source {
            UpstreamResponseSource::Multiplexed(response) => response.is_single_call(),
            UpstreamResponseSource::Http(_) | UpstreamResponseSource::Empty => true,
        }
    }

    /// Returns whether the last message arrived before the call was registered, and therefore belongs to another call
    /// or to none.
    pub fn is_before_call(&self) -> bool {
        matches!(&self.source, UpstreamResponseSource::Multiplexed(response) if response.is_before_call())
    }

    /// Stops waiting without sending a cancellation, because the client's own cancellation is forwarded.
    pub fn abandon(&mut self) {
        if let UpstreamResponseSource::Multiplexed(response) = &mut self.source {
            response.abandon();
        }
    }

    /// Reads to the end after the reply, so that the connection can be reused. A second reply is dropped.
    pub async fn drain(&mut self, metrics: &Metrics) {
        let UpstreamResponseSource::Http(response) = &mut self.source else { return };
        if response.is_ended() {
            return;
        }
        let rest = async {
            while let Ok(Some(_)) = response.next_message().await {
                metrics.count_dropped_message();
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
    }
}
