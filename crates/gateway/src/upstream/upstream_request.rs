//! A request to an upstream.

use bytes::Bytes;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{ClientMessage, Method, Revision, read_client_message};
use http::header::{HeaderMap, HeaderValue};

use super::UpstreamSessionLink;
use crate::body::MessageBody;
use crate::telemetry::UpstreamSpanContext;

/// Kind of a request to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamRequestKind {
    /// Send a message.
    SendMessage,
    /// Open the standalone stream.
    OpenStream,
    /// End the session.
    EndSession,
}

/// A request to an upstream.
#[derive(Debug, Clone)]
pub(crate) struct UpstreamRequest {
    pub kind: UpstreamRequestKind,
    pub body: MessageBody,
    pub session_link: UpstreamSessionLink,
    pub revision: Option<Revision>,
    /// JSON-RPC id of a request; `None` for a notification or response.
    pub call: Option<gatelodge_store::CallId>,
    /// Headers of the stateless protocol: method and subject.
    pub stateless_headers: Option<StatelessHeaders>,
    /// `Mcp-Param-*` headers of a call, if any.
    pub param_headers: Option<Box<HeaderMap>>,
    /// Id of the last event received from the stream that is resumed.
    pub last_event_id: Option<HeaderValue>,
    /// The gateway's span, if the request belongs to a trace.
    pub span: Option<Box<UpstreamSpanContext>>,
    /// Whether the upstream may send requests to the client before it responds. True for calls, not for lists.
    pub may_send_requests: bool,
}

/// What is needed to resume the event stream of a response.
#[derive(Debug)]
pub(crate) struct UpstreamStreamResumeTarget {
    pub session_link: UpstreamSessionLink,
    pub revision: Option<Revision>,
}

/// Headers of a stateless request, derived from the body that was evaluated.
#[derive(Debug, Clone)]
pub(crate) struct StatelessHeaders {
    pub method: String,
    pub name: Option<String>,
}

impl UpstreamRequest {
    /// Creates a message that gets no response.
    pub fn notification(body: impl Into<MessageBody>) -> Self {
        let body = body.into();
        Self {
            kind: UpstreamRequestKind::SendMessage,
            body,
            session_link: UpstreamSessionLink::NoSession,
            revision: None,
            call: None,
            stateless_headers: None,
            param_headers: None,
            last_event_id: None,
            span: None,
            may_send_requests: false,
        }
    }

    /// Creates a request whose JSON-RPC id is the call id.
    pub fn request(body: impl Into<MessageBody>, call: gatelodge_store::CallId) -> Self {
        Self { call: Some(call), ..Self::notification(body) }
    }

    /// Sets the trace context that is sent to the server. A trace context in the client's message must already have
    /// been replaced by this one.
    pub fn with_span(self, span: Option<UpstreamSpanContext>) -> Self {
        Self { span: span.map(Box::new), ..self }
    }

    /// Returns whether the request is `initialize`.
    pub fn is_handshake(&self) -> bool {
        let may_be_handshake =
            self.kind == UpstreamRequestKind::SendMessage && self.call.is_some() && self.stateless_headers.is_none();
        may_be_handshake
            && matches!(read_client_message(&self.body.clone().into_bytes(), &JsonLimits::REQUEST),
                Ok(ClientMessage::Request(request)) if *request.method() == Method::Initialize)
    }

    pub fn empty(kind: UpstreamRequestKind) -> Self {
        Self { kind, ..Self::notification(Bytes::new()) }
    }
}
