//! Reads the response of an HTTP upstream, within size limits.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::{RequestId, SseDecoder, http_headers};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::body::{BodyBuffer, ReceivedBody};
use crate::upstream::upstream_response::UpstreamResponseSource;
use crate::upstream::{ListResponseBaseline, UpstreamResponse, UpstreamSendError, UpstreamSessionLink};

/// A response being read.
#[derive(Debug)]
pub(crate) struct HttpResponseReader {
    body: Incoming,
    format: UpstreamBodyState,
    /// Maximum size of a message.
    max_bytes: usize,
}

#[derive(Debug)]
enum UpstreamBodyState {
    /// A single JSON message; contains the part read so far.
    Json(BodyBuffer),
    Events {
        decoder: Box<SseDecoder>,
        /// Decoded messages, each with its event id.
        decoded: VecDeque<(Bytes, Option<String>)>,
        /// Event id of the last message that was returned.
        last_id: Option<String>,
    },
    /// The response has ended. For an event stream, contains its decoder, which knows the last event id.
    Ended(Option<Box<SseDecoder>>),
}

/// Returns the error for an unexpected content type. The type itself is not quoted: a server could put the gateway's
/// secrets there.
fn unexpected_content_type(content_type: &str) -> UpstreamSendError {
    let detail = match content_type {
        "" => " and has no content type",
        "text/html" => " but a web page",
        "text/plain" => " but plain text",
        _ => "",
    };
    UpstreamSendError::InvalidResponse(format!("the response is neither JSON nor an event stream{detail}"))
}

impl HttpResponseReader {
    pub fn begin(
        response: Response<Incoming>,
        url: &Uri,
        max_bytes: usize,
    ) -> Result<UpstreamResponse, UpstreamSendError> {
        let (head, body) = response.into_parts();
        if head.headers.contains_key(CONTENT_ENCODING) {
            return Err(UpstreamSendError::InvalidResponse(
                "the response is compressed, which was not requested".to_owned(),
            ));
        }
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = content_type.split(';').next().unwrap_or_default().trim();
        let is = |other: &str| content_type.eq_ignore_ascii_case(other);
        let (is_success, is_empty) = (head.status.is_success(), body.is_end_stream());
        let format = if is_success && is_empty {
            UpstreamBodyState::Ended(None)
        } else if is_success && is("text/event-stream") {
            UpstreamBodyState::Events {
                decoder: Box::new(SseDecoder::new(max_bytes)),
                decoded: VecDeque::new(),
                last_id: None,
            }
        } else if is("application/json") {
            UpstreamBodyState::Json(BodyBuffer::for_upstream())
        } else if head.status == StatusCode::ACCEPTED {
            // Some servers send 202 without a content length.
            UpstreamBodyState::Ended(None)
        } else if is_success {
            return Err(unexpected_content_type(&content_type.to_ascii_lowercase()));
        } else {
            return Err(UpstreamSendError::Status(head.status.as_u16()));
        };
        let session = |id: &HeaderValue| UpstreamSessionLink::http(Some(id.clone()), url);
        let link = head.headers.get(http_headers::SESSION_ID).map_or(UpstreamSessionLink::NoSession, session);
        let source = UpstreamResponseSource::Http(Self { body, format, max_bytes });
        Ok(UpstreamResponse { status: head.status, session_link: link, resume_target: None, source })
    }

    /// Returns whether the response is a stream that may contain several messages.
    pub fn is_stream(&self) -> bool {
        matches!(self.format, UpstreamBodyState::Events { .. })
    }

    /// Returns whether there is nothing more to read.
    pub fn is_ended(&self) -> bool {
        matches!(self.format, UpstreamBodyState::Ended(_))
    }

    /// Returns the id of the last event returned from a stream, and the delay before reconnecting.
    pub fn last_event(&self) -> (Option<HeaderValue>, Option<Duration>) {
        let (id, decoder) = match &self.format {
            UpstreamBodyState::Events { decoder, decoded, last_id } if !decoded.is_empty() => {
                (last_id.as_deref(), decoder)
            }
            UpstreamBodyState::Events { decoder, .. } | UpstreamBodyState::Ended(Some(decoder)) => {
                (decoder.last_id(), decoder)
            }
            UpstreamBodyState::Json(_) | UpstreamBodyState::Ended(None) => return (None, None),
        };
        (id.and_then(|id| HeaderValue::from_str(id).ok()), decoder.retry())
    }

    /// Returns the next message; `None` at the end.
    pub async fn next_message(&mut self) -> Result<Option<ReceivedBody>, UpstreamSendError> {
        match std::mem::replace(&mut self.format, UpstreamBodyState::Ended(None)) {
            UpstreamBodyState::Json(partial) => self.read_json(partial).await.map(Some),
            format => {
                self.format = format;
                Ok(self.next_event().await?.map(ReceivedBody::Whole))
            }
        }
    }

    /// Returns whether the response equals an earlier one except for its id. Compares chunk by chunk without buffering;
    /// if they differ, the response can still be read from its start.
    pub async fn matches_previous(
        &mut self,
        previous: &ListResponseBaseline,
        id: &RequestId<'_>,
    ) -> Result<bool, UpstreamSendError> {
        let length: usize = previous.with_id(id).iter().map(|part| part.len()).sum();
        if !matches!(self.format, UpstreamBodyState::Json(_)) || self.body.size_hint().exact() != Some(length as u64) {
            return Ok(false);
        }
        let mut at = 0;
        while let Some(chunk) = self.next_chunk().await? {
            if !previous.matches_at(at, &chunk, id) {
                let mut partial = BodyBuffer::for_upstream();
                let same = previous.with_id(id).concat().get(..at).map(Bytes::copy_from_slice);
                partial.push(same.unwrap_or_default(), length);
                partial.push(chunk, length);
                self.format = UpstreamBodyState::Json(partial);
                return Ok(false);
            }
            at += chunk.len();
        }
        self.format = UpstreamBodyState::Ended(None);
        Ok(true)
    }

    async fn read_json(&mut self, partial: BodyBuffer) -> Result<ReceivedBody, UpstreamSendError> {
        let mut buffer = partial;
        while let Some(chunk) = self.next_chunk().await? {
            let left = usize::try_from(self.body.size_hint().lower()).unwrap_or(usize::MAX);
            let expected = left.saturating_add(buffer.len() + chunk.len());
            self.check_length(expected)?;
            buffer.push(chunk, expected);
        }
        match buffer.len() {
            0 => Err(UpstreamSendError::InvalidResponse("the response is empty".to_owned())),
            _ => Ok(buffer.finish()),
        }
    }

    fn check_length(&self, bytes: usize) -> Result<(), UpstreamSendError> {
        let max = self.max_bytes;
        if bytes > max {
            Err(UpstreamSendError::InvalidResponse(format!("the response has more than {max} bytes")))
        } else {
            Ok(())
        }
    }

    async fn next_event(&mut self) -> Result<Option<Bytes>, UpstreamSendError> {
        loop {
            let UpstreamBodyState::Events { decoded, last_id, .. } = &mut self.format else {
                return Ok(None);
            };
            if let Some((message, id)) = decoded.pop_front() {
                *last_id = id;
                return Ok(Some(message));
            }
            let Some(chunk) = self.next_chunk().await? else {
                if let UpstreamBodyState::Events { decoder, .. } =
                    std::mem::replace(&mut self.format, UpstreamBodyState::Ended(None))
                {
                    self.format = UpstreamBodyState::Ended(Some(decoder));
                }
                return Ok(None);
            };
            let UpstreamBodyState::Events { decoder, decoded, .. } = &mut self.format else { return Ok(None) };
            let each = |data: Vec<u8>, id: Option<&str>| decoded.push_back((data.into(), id.map(str::to_owned)));
            let pushed = decoder.push_with_ids(&chunk, each);
            pushed.map_err(|error| UpstreamSendError::InvalidResponse(error.to_string()))?;
        }
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, UpstreamSendError> {
        loop {
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame
                .map_err(|error| UpstreamSendError::ConnectionLost(format!("the response ended early: {error}")))?;
            // Trailers are ignored.
            let Ok(data) = frame.into_data() else { continue };
            return Ok(Some(data));
        }
    }
}
