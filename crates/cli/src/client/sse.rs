//! The same for a server that speaks only HTTP+SSE, the transport of 2024-11-05.

use std::collections::VecDeque;

use bytes::Bytes;
use gatelodge_mcp::{SseDecoder, SseEventKind, http_headers};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::ClientError;
use super::http::{MAX_BYTES, Wire, is_answer};
use super::message::Answer;

/// A connection: the stream of what the server says, and where our messages go.
pub struct Sse {
    endpoint: Uri,
    body: Incoming,
    decoder: SseDecoder,
    ready: VecDeque<(SseEventKind, Bytes)>,
}

impl Sse {
    /// Opens the stream and waits for the address; none if the server has no such stream.
    pub async fn open(wire: &Wire, headers: &HeaderMap) -> Result<Option<Self>, ClientError> {
        let opening = async {
            let response = wire.send(wire.url(), Method::GET, Bytes::new(), headers).await?;
            let (head, body) = response.into_parts();
            let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            if head.status != StatusCode::OK || !kind.starts_with("text/event-stream") {
                return Ok(None);
            }
            let (endpoint, decoder) = (wire.url().clone(), SseDecoder::new(MAX_BYTES));
            let mut own = Self { endpoint, body, decoder, ready: VecDeque::new() };
            let (SseEventKind::Endpoint, named) = own.next().await? else { return Ok(None) };
            let named = String::from_utf8_lossy(&named).into_owned();
            let foreign = || ClientError::NotMcp("it wants messages at an address of another origin".to_owned());
            own.endpoint = http_headers::resolve_endpoint(wire.url(), &named).ok_or_else(foreign)?;
            Ok(Some(own))
        };
        wire.within(opening).await
    }

    /// Sends a request, and reads until its answer.
    pub async fn ask(&mut self, wire: &Wire, body: String, headers: &HeaderMap) -> Result<Answer, ClientError> {
        self.tell(wire, body, headers).await?;
        wire.within(async {
            let mut messages = Vec::new();
            loop {
                let (SseEventKind::Message, message) = self.next().await? else { continue };
                let is_last = is_answer(&message);
                messages.push(message);
                if is_last {
                    return Ok(Answer { session: None, messages });
                }
            }
        })
        .await
    }

    /// Sends what has no answer.
    pub async fn tell(&self, wire: &Wire, body: String, headers: &HeaderMap) -> Result<(), ClientError> {
        wire.tell_at(&self.endpoint, body, headers).await
    }

    async fn next(&mut self) -> Result<(SseEventKind, Bytes), ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            let broken = || ClientError::NotMcp("the stream broke off".to_owned());
            let frame = self.body.frame().await.ok_or_else(broken)?.map_err(|_| broken())?;
            let Ok(data) = frame.into_data() else { continue };
            let ready = &mut self.ready;
            let pushed = self.decoder.push_all_kinds(&data, |kind, data| ready.push_back((kind, data.into())));
            pushed.map_err(|error| ClientError::NotMcp(error.to_string()))?;
        }
    }
}
