//! Reads the events of an HTTP+SSE stream, within size limits.

use std::collections::VecDeque;

use bytes::Bytes;
use gatelodge_mcp::{SseDecoder, SseEventKind};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::upstream::UpstreamSendError;

/// A stream being read.
#[derive(Debug)]
pub(super) struct UpstreamEventStream {
    body: Incoming,
    decoder: SseDecoder,
    decoded: VecDeque<(SseEventKind, Bytes)>,
}

impl UpstreamEventStream {
    /// Creates a reader for a response that is an event stream.
    ///
    /// # Errors
    /// The response is not an event stream.
    pub fn from_response(response: Response<Incoming>, max_bytes: usize) -> Result<Self, UpstreamSendError> {
        let (head, body) = response.into_parts();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_stream =
            content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"));
        if head.status != StatusCode::OK || !is_stream || head.headers.contains_key(CONTENT_ENCODING) {
            return Err(UpstreamSendError::Status(head.status.as_u16()));
        }
        Ok(Self { body, decoder: SseDecoder::new(max_bytes), decoded: VecDeque::new() })
    }

    /// Returns the next event; `None` at the end.
    pub async fn next_event(&mut self) -> Result<Option<(SseEventKind, Bytes)>, UpstreamSendError> {
        loop {
            if let Some(event) = self.decoded.pop_front() {
                return Ok(Some(event));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame =
                frame.map_err(|error| UpstreamSendError::ConnectionLost(format!("the stream ended early: {error}")))?;
            // Trailers are ignored.
            let Ok(data) = frame.into_data() else { continue };
            let decoded = &mut self.decoded;
            let pushed = self.decoder.push_all_kinds(&data, |kind, data| decoded.push_back((kind, data.into())));
            pushed.map_err(|error| UpstreamSendError::InvalidResponse(error.to_string()))?;
        }
    }
}
