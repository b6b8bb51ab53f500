//! The client side of HTTP+SSE, the transport of protocol revision 2024-11-05.

use std::collections::VecDeque;

use bytes::Bytes;
use gatelodge_mcp::{SseDecoder, SseEventKind, http_headers};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::McpClientError;
use super::client_http_transport::{ClientHttpTransport, MAX_RESPONSE_BYTES, is_response};
use super::rpc_message::TransportResponse;

/// A connection: the server's event stream, and the URL for our messages.
pub struct ClientSseTransport {
    endpoint: Uri,
    body: Incoming,
    decoder: SseDecoder,
    pending_events: VecDeque<(SseEventKind, Bytes)>,
}

impl ClientSseTransport {
    /// Opens the event stream and waits for the `endpoint` event. Returns `None` if the server does not offer a stream.
    pub async fn open(transport: &ClientHttpTransport, headers: &HeaderMap) -> Result<Option<Self>, McpClientError> {
        let opening = async {
            let response = transport.send(transport.url(), Method::GET, Bytes::new(), headers).await?;
            let (head, body) = response.into_parts();
            let content_type =
                head.headers.get(CONTENT_TYPE).and_then(|content_type| content_type.to_str().ok()).unwrap_or_default();
            if head.status != StatusCode::OK || !content_type.starts_with("text/event-stream") {
                return Ok(None);
            }
            let (endpoint, decoder) = (transport.url().clone(), SseDecoder::new(MAX_RESPONSE_BYTES));
            let mut connection = Self { endpoint, body, decoder, pending_events: VecDeque::new() };
            let (SseEventKind::Endpoint, endpoint) = connection.next_event().await? else { return Ok(None) };
            let endpoint = String::from_utf8_lossy(&endpoint).into_owned();
            let foreign = || McpClientError::Protocol("the server's message endpoint has another origin".to_owned());
            connection.endpoint = http_headers::resolve_endpoint(transport.url(), &endpoint).ok_or_else(foreign)?;
            Ok(Some(connection))
        };
        transport.with_timeout(opening).await
    }

    /// Sends a request, and reads events until its response arrives.
    pub async fn request(
        &mut self,
        transport: &ClientHttpTransport,
        body: String,
        headers: &HeaderMap,
    ) -> Result<TransportResponse, McpClientError> {
        self.notify(transport, body, headers).await?;
        transport
            .with_timeout(async {
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

    /// Sends a message without waiting for a response.
    pub async fn notify(
        &self,
        transport: &ClientHttpTransport,
        body: String,
        headers: &HeaderMap,
    ) -> Result<(), McpClientError> {
        transport.notify_at(&self.endpoint, body, headers).await
    }

    async fn next_event(&mut self) -> Result<(SseEventKind, Bytes), McpClientError> {
        loop {
            if let Some(event) = self.pending_events.pop_front() {
                return Ok(event);
            }
            let broken = || McpClientError::Protocol("the event stream ended unexpectedly".to_owned());
            let frame = self.body.frame().await.ok_or_else(broken)?.map_err(|_| broken())?;
            let Ok(data) = frame.into_data() else { continue };
            let ready = &mut self.pending_events;
            let pushed = self.decoder.push_all_kinds(&data, |kind, data| ready.push_back((kind, data.into())));
            pushed.map_err(|error| McpClientError::Protocol(error.to_string()))?;
        }
    }
}
