//! The same for a server that speaks only HTTP+SSE, the transport of 2024-11-05.

use std::collections::VecDeque;

use bytes::Bytes;
use gatelodge_mcp::{SseDecoder, SseEventKind, http_headers};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::McpClientError;
use super::http_transport::{HttpTransport, MAX_RESPONSE_BYTES, is_response};
use super::rpc_message::TransportResponse;

/// A connection: the stream of what the server says, and where our messages go.
pub struct SseTransport {
    endpoint: Uri,
    body: Incoming,
    decoder: SseDecoder,
    pending_events: VecDeque<(SseEventKind, Bytes)>,
}

impl SseTransport {
    /// Opens the stream and waits for the address; none if the server has no such stream.
    pub async fn open(wire: &HttpTransport, headers: &HeaderMap) -> Result<Option<Self>, McpClientError> {
        let opening = async {
            let response = wire.send(wire.url(), Method::GET, Bytes::new(), headers).await?;
            let (head, body) = response.into_parts();
            let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            if head.status != StatusCode::OK || !kind.starts_with("text/event-stream") {
                return Ok(None);
            }
            let (endpoint, decoder) = (wire.url().clone(), SseDecoder::new(MAX_RESPONSE_BYTES));
            let mut own = Self { endpoint, body, decoder, pending_events: VecDeque::new() };
            let (SseEventKind::Endpoint, named) = own.next_event().await? else { return Ok(None) };
            let named = String::from_utf8_lossy(&named).into_owned();
            let foreign = || McpClientError::Protocol("it wants messages at an address of another origin".to_owned());
            own.endpoint = http_headers::resolve_endpoint(wire.url(), &named).ok_or_else(foreign)?;
            Ok(Some(own))
        };
        wire.with_timeout(opening).await
    }

    /// Sends a request, and reads until its answer.
    pub async fn request(
        &mut self,
        wire: &HttpTransport,
        body: String,
        headers: &HeaderMap,
    ) -> Result<TransportResponse, McpClientError> {
        self.notify(wire, body, headers).await?;
        wire.with_timeout(async {
            let mut messages = Vec::new();
            loop {
                let (SseEventKind::Message, message) = self.next_event().await? else { continue };
                let is_last = is_response(&message);
                messages.push(message);
                if is_last {
                    return Ok(TransportResponse { session_id: None, messages });
                }
            }
        })
        .await
    }

    /// Sends what has no answer.
    pub async fn notify(&self, wire: &HttpTransport, body: String, headers: &HeaderMap) -> Result<(), McpClientError> {
        wire.notify_at(&self.endpoint, body, headers).await
    }

    async fn next_event(&mut self) -> Result<(SseEventKind, Bytes), McpClientError> {
        loop {
            if let Some(event) = self.pending_events.pop_front() {
                return Ok(event);
            }
            let broken = || McpClientError::Protocol("the stream broke off".to_owned());
            let frame = self.body.frame().await.ok_or_else(broken)?.map_err(|_| broken())?;
            let Ok(data) = frame.into_data() else { continue };
            let ready = &mut self.pending_events;
            let pushed = self.decoder.push_all_kinds(&data, |kind, data| ready.push_back((kind, data.into())));
            pushed.map_err(|error| McpClientError::Protocol(error.to_string()))?;
        }
    }
}
