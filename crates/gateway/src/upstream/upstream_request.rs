//! A request to an upstream, and the upstream end of a session.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{ClientMessage, Method, Revision, read_client_message};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use http::Uri;
use http::header::{HeaderMap, HeaderValue};

use super::upstream_sse_client::UpstreamSseConnection;
use super::{SecretRedactor, ServerProcess, Upstream, UpstreamTransport};
use crate::body::MessageBody;
use crate::telemetry::UpstreamSpanContext;

/// Why a request got no usable response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamSendError {
    /// Not connected; no byte of the request was written.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The connection was lost; the request may have been executed.
    #[error("{0}")]
    ConnectionLost(String),
    /// The response cannot be forwarded; the request may have been executed. The error message was written by the
    /// gateway, not the server.
    #[error("{0}")]
    InvalidResponse(String),
    /// The deadline passed; the request may have been executed.
    #[error("no response in time")]
    Timeout,
    /// Probing the protocol or performing the handshake took too long; the call itself was not sent.
    #[error("the server did not answer the handshake within {0:?}")]
    HandshakeTimeout(Duration),
    /// The HTTP status is an error.
    #[error("HTTP status {0}")]
    Status(u16),
    /// The server had lost the session, which was reopened. It has probably not executed the request, but that is not
    /// certain.
    #[error("the server no longer knew the session")]
    SessionExpired,
    /// The client disconnected or cancelled.
    #[error("the client did not wait for the response")]
    ClientGone,
    /// The server used a capability that the client has not declared.
    #[error("the server {action}: {required_capability}")]
    MissingCapability { action: &'static str, required_capability: &'static str },
}

impl UpstreamSendError {
    /// Returns the outcome for the call record.
    pub fn outcome(&self) -> CallOutcome {
        match self {
            Self::NotSent(_) => CallOutcome::NotSent,
            Self::Timeout | Self::HandshakeTimeout(_) => CallOutcome::Timeout,
            Self::ClientGone => CallOutcome::Cancelled,
            Self::ConnectionLost(_)
            | Self::InvalidResponse(_)
            | Self::Status(_)
            | Self::SessionExpired
            | Self::MissingCapability { .. } => CallOutcome::NoValidResponse,
        }
    }

    /// Converts the error of a follow-up request: the call itself was sent, so it may have been executed.
    pub fn after_call_sent(self) -> Self {
        match self {
            Self::NotSent(why) if !mutant!("follow-up-failure-counts-as-unsent") => Self::ConnectionLost(why),
            other => other,
        }
    }

    /// Returns the error type for spans.
    pub fn error_type(&self) -> String {
        match self {
            Self::NotSent(_) => "not_sent".to_owned(),
            Self::ConnectionLost(_) => "gone".to_owned(),
            Self::InvalidResponse(_) => "unusable".to_owned(),
            Self::Timeout | Self::HandshakeTimeout(_) => "timeout".to_owned(),
            Self::Status(status) => status.to_string(),
            Self::SessionExpired => "forgotten".to_owned(),
            Self::ClientGone => "left".to_owned(),
            Self::MissingCapability { .. } => "undeclared".to_owned(),
        }
    }

    /// Redacts secrets that the upstream has returned.
    pub fn redact(self, secrets: &SecretRedactor) -> Self {
        match self {
            Self::NotSent(why) => Self::NotSent(secrets.redact_text(&why)),
            Self::ConnectionLost(why) => Self::ConnectionLost(secrets.redact_text(&why)),
            Self::InvalidResponse(why) => Self::InvalidResponse(secrets.redact_text(&why)),
            other @ (Self::Timeout | Self::HandshakeTimeout(_) | Self::Status(_)) => other,
            other @ (Self::SessionExpired | Self::ClientGone | Self::MissingCapability { .. }) => other,
        }
    }
}

/// The upstream end of a session.
#[derive(Debug, Clone, Default)]
pub(crate) enum UpstreamSessionLink {
    /// No session: before the handshake, for a server without sessions, or with the stateless protocol.
    #[default]
    NoSession,
    /// A restored session. It must be reopened before anything is sent.
    NotOpened,
    /// A session over HTTP.
    Http(Arc<UpstreamHttpSession>),
    /// A process that belongs to the session.
    Process(Arc<ServerProcess>),
    /// An HTTP+SSE connection that belongs to the session.
    Sse(Arc<UpstreamSseConnection>),
}

/// A session over HTTP. It is valid only at the URL where it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamHttpSession {
    /// The session id; some servers assign none.
    pub id: Option<HeaderValue>,
    pub url: Uri,
}

impl UpstreamSessionLink {
    /// Creates a session over HTTP.
    pub fn http(id: Option<HeaderValue>, url: &Uri) -> Self {
        Self::Http(Arc::new(UpstreamHttpSession { id, url: url.clone() }))
    }

    /// Returns whether this is an HTTP session without an id.
    pub fn has_no_session_id(&self) -> bool {
        matches!(self, Self::Http(own) if own.id.is_none())
    }

    /// Returns the link that a session keeps after a handshake. Over HTTP, it contains the URL even if the server
    /// assigned no session id.
    pub fn after_handshake(self, upstream: &Upstream) -> Self {
        match (self, &upstream.config().transport) {
            (Self::NoSession, UpstreamTransport::Http(http)) => Self::http(None, &http.url),
            (Self::Http(own), _) => Self::http(own.id.as_ref().map(unshared_header), &own.url),
            (own, _) => own,
        }
    }

    /// Returns whether the link has ended or was never opened.
    pub fn is_ended(&self) -> bool {
        match self {
            Self::Process(process) => process.is_ended(),
            Self::Sse(connection) => connection.is_ended() && !mutant!("lost-sse-stream-not-reopened"),
            Self::NotOpened => true,
            Self::NoSession | Self::Http(_) => false,
        }
    }

    /// Closes a multiplexed connection on which the server may still send requests for an abandoned call, if nothing
    /// else is pending.
    pub fn close_if_abandoned(&self) {
        match self {
            Self::Process(process) => process.demux().close_if_abandoned(),
            Self::Sse(connection) => connection.demux().close_if_abandoned(),
            Self::NoSession | Self::NotOpened | Self::Http(_) => {}
        }
    }

    /// Returns whether a call is pending on a multiplexed connection.
    pub fn has_pending_call(&self) -> bool {
        match self {
            Self::Process(process) => process.demux().has_pending_call(),
            Self::Sse(connection) => connection.demux().has_pending_call(),
            Self::NoSession | Self::NotOpened | Self::Http(_) => false,
        }
    }

    /// Returns whether the link was opened for the current configuration of a server.
    pub fn belongs_to(&self, upstream: &Upstream) -> bool {
        match self {
            Self::Process(process) => process.belongs_to(upstream),
            Self::Sse(connection) => connection.belongs_to(upstream),
            Self::Http(own) => match &upstream.config().transport {
                UpstreamTransport::Http(http) => {
                    is_same_url(&http.url, &own.url) || mutant!("session-kept-after-address-change")
                }
                _ => false,
            },
            Self::NoSession | Self::NotOpened => true,
        }
    }

    /// Returns whether the link must be reopened before sending: the session was restored, or belongs to another URL.
    pub fn needs_reopen(&self, upstream: &Upstream) -> bool {
        match self {
            Self::NotOpened => true,
            Self::Http(_) => !self.belongs_to(upstream),
            Self::NoSession | Self::Process(_) | Self::Sse(_) => false,
        }
    }
}

/// Copies a header value. A received value shares the read buffer and would keep it alive.
fn unshared_header(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
}

/// Returns whether two URLs are equal. Compares them as strings first, which is fast and nearly always sufficient.
fn is_same_url(one: &Uri, other: &Uri) -> bool {
    let is_same_text = one.scheme() == other.scheme()
        && one.authority().map(|own| own.as_str()) == other.authority().map(|own| own.as_str())
        && one.path_and_query().map(|own| own.as_str()) == other.path_and_query().map(|own| own.as_str());
    is_same_text || one == other
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_session_id_does_not_keep_the_read_buffer() {
        let read = Bytes::from(vec![b'x'; 8 << 10]);
        let id = HeaderValue::from_maybe_shared(read.slice(100..132)).expect("a header");
        let kept = unshared_header(&id);
        assert_eq!(kept, id);
        drop(id);
        assert!(read.is_unique());
    }
}
