//! A message on its way to an upstream, and the upstream's end of a session.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{ClientMessage, Method, Revision, read_client_message};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use http::Uri;
use http::header::{HeaderMap, HeaderValue};

use super::server_process::ServerProcess;
use super::sse_client::UpstreamSseConnection;
use super::{SecretRedactor, Upstream, UpstreamTransport};
use crate::message_body::MessageBody;
use crate::request_trace::UpstreamSpanContext;

/// Why an upstream gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    /// No connection; not one byte of the request was written.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The connection broke; the request may have been carried out.
    #[error("{0}")]
    ConnectionLost(String),
    /// What came is no answer that can be passed on, in words of ours; the request may have been carried out.
    #[error("{0}")]
    InvalidResponse(String),
    /// It took too long; the request may have been carried out.
    #[error("no answer in time")]
    Timeout,
    /// It did not say in this time how it speaks, or did not shake hands; nothing of a call was sent.
    #[error("the server did not answer the handshake within {0:?}")]
    HandshakeTimeout(Duration),
    /// It answered with an HTTP status that says no.
    #[error("HTTP status {0}")]
    Status(u16),
    /// It had forgotten the session, which was opened anew. It has most likely not looked at the request, but who knows.
    #[error("the server had forgotten the session")]
    SessionExpired,
    /// Nobody is to blame: the caller did not wait.
    #[error("the caller did not wait for the answer")]
    ClientGone,
    /// It answered with what the client has not declared that it takes.
    #[error("the server {action}: {required_capability}")]
    MissingCapability { action: &'static str, required_capability: &'static str },
}

impl SendError {
    /// What the log says of a message that ended so.
    pub fn outcome(&self) -> CallOutcome {
        match self {
            Self::NotSent(_) => CallOutcome::NotSent,
            Self::Timeout | Self::HandshakeTimeout(_) => CallOutcome::Timeout,
            Self::ClientGone => CallOutcome::Cancelled,
            Self::ConnectionLost(_)
            | Self::InvalidResponse(_)
            | Self::Status(_)
            | Self::SessionExpired
            | Self::MissingCapability { .. } => CallOutcome::ConnectionLost,
        }
    }

    /// The same where the call itself was sent before: it may have been carried out, whatever was not sent now.
    pub fn after_call_sent(self) -> Self {
        match self {
            Self::NotSent(why) if !mutant!("follow-up-failure-counts-as-unsent") => Self::ConnectionLost(why),
            other => other,
        }
    }

    /// One word for it, for those who count.
    pub fn metric_label(&self) -> String {
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

    /// Cuts what the upstream gave back of our secrets.
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

/// The upstream's end of a session.
#[derive(Debug, Clone, Default)]
pub(crate) enum UpstreamLink {
    /// There is none: before the handshake, for a server without sessions, or because requests stand alone.
    #[default]
    NoSession,
    /// There was one in another life of the gateway. Nothing can be sent until it is opened anew.
    NotOpened,
    /// A session over HTTP.
    Http(Arc<UpstreamHttpSession>),
    /// A process of the session's own.
    Process(Arc<ServerProcess>),
    /// A connection of the session's own, by HTTP+SSE.
    Sse(Arc<UpstreamSseConnection>),
}

/// A session over HTTP. Another address than the one where it was opened knows nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamHttpSession {
    /// The id that the server gave; some give none.
    pub id: Option<HeaderValue>,
    pub url: Uri,
}

impl UpstreamLink {
    /// A session over HTTP.
    pub fn http(id: Option<HeaderValue>, at: &Uri) -> Self {
        Self::Http(Arc::new(UpstreamHttpSession { id, url: at.clone() }))
    }

    /// Whether it is a session over HTTP that the server gave no id.
    pub fn has_no_session_id(&self) -> bool {
        matches!(self, Self::Http(own) if own.id.is_none())
    }

    /// The same as what a server's handshake began.
    pub fn after_handshake(self, upstream: &Upstream) -> Self {
        match (self, &upstream.config().transport) {
            (Self::NoSession, UpstreamTransport::Http(to)) => Self::http(None, &to.url),
            (Self::Http(own), _) => Self::http(own.id.as_ref().map(unshared_header), &own.url),
            (own, _) => own,
        }
    }

    /// Whether it has ended, or was never opened.
    pub fn is_ended(&self) -> bool {
        match self {
            Self::Process(process) => process.is_ended(),
            Self::Sse(connection) => connection.is_ended() && !mutant!("lost-sse-stream-not-reopened"),
            Self::NotOpened => true,
            Self::NoSession | Self::Http(_) => false,
        }
    }

    /// Ends it where all that is said shares a line, a call was given up there that the server may ask something for yet,
    /// and nobody else waits.
    pub fn close_if_abandoned(&self) {
        match self {
            Self::Process(process) => process.demux().close_if_abandoned(),
            Self::Sse(connection) => connection.demux().close_if_abandoned(),
            Self::NoSession | Self::NotOpened | Self::Http(_) => {}
        }
    }

    /// Whether all that is said shares a line, and somebody waits there for the answer to a call.
    pub fn has_pending_call(&self) -> bool {
        match self {
            Self::Process(process) => process.demux().has_pending_call(),
            Self::Sse(connection) => connection.demux().has_pending_call(),
            Self::NoSession | Self::NotOpened | Self::Http(_) => false,
        }
    }

    /// Whether it goes to the server as it is configured now.
    pub fn belongs_to(&self, upstream: &Upstream) -> bool {
        match self {
            Self::Process(process) => process.belongs_to(upstream),
            Self::Sse(connection) => connection.belongs_to(upstream),
            Self::Http(own) => match &upstream.config().transport {
                UpstreamTransport::Http(to) => {
                    is_same_url(&to.url, &own.url) || mutant!("session-kept-after-address-change")
                }
                _ => false,
            },
            Self::NoSession | Self::NotOpened => true,
        }
    }

    /// Whether it has to be opened before anything can be sent: it was in another life of the gateway, or is a session
    /// at another address.
    pub fn needs_reopen(&self, upstream: &Upstream) -> bool {
        match self {
            Self::NotOpened => true,
            Self::Http(_) => !self.belongs_to(upstream),
            Self::NoSession | Self::Process(_) | Self::Sse(_) => false,
        }
    }
}

/// The same header in memory of its own. What comes from a connection is a piece of all that was read with it, and keeps
/// that for as long as it is kept.
fn unshared_header(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
}

/// Whether two URLs are the same. Nearly always they are so to the letter, which is found out quickly.
fn is_same_url(one: &Uri, other: &Uri) -> bool {
    let to_the_letter = one.scheme() == other.scheme()
        && one.authority().map(|own| own.as_str()) == other.authority().map(|own| own.as_str())
        && one.path_and_query().map(|own| own.as_str()) == other.path_and_query().map(|own| own.as_str());
    to_the_letter || one == other
}

/// What is to be done at an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamRequestKind {
    /// Take a message.
    SendMessage,
    /// Let us hear what belongs to no request.
    OpenStream,
    /// Forget the session.
    EndSession,
}

/// A message on its way to an upstream.
#[derive(Debug, Clone)]
pub(crate) struct UpstreamRequest {
    pub kind: UpstreamRequestKind,
    pub body: MessageBody,
    pub session_link: UpstreamLink,
    pub revision: Option<Revision>,
    /// The id of a request, under which its answer comes. None for what wants no answer.
    pub call: Option<gatelodge_store::CallId>,
    /// What the stateless revision wants in the head: the method, and what it is about.
    pub stateless_headers: Option<StatelessHeaders>,
    /// What it wants there of a call's arguments, if there is any.
    pub param_headers: Option<Box<HeaderMap>>,
    /// The last event that we have of a stream that is to go on.
    pub last_event_id: Option<HeaderValue>,
    /// Our span, if it belongs to a trace.
    pub span: Option<Box<UpstreamSpanContext>>,
    /// Whether an upstream may ask its client something before it answers: it is a call, and not a list.
    pub may_send_requests: bool,
}

/// The way back to a stream that answers a message.
#[derive(Debug)]
pub(crate) struct ResumeTarget {
    pub session_link: UpstreamLink,
    pub revision: Option<Revision>,
}

/// The head of a stateless request, made from the body that was judged.
#[derive(Debug, Clone)]
pub(crate) struct StatelessHeaders {
    pub method: String,
    pub name: Option<String>,
}

impl UpstreamRequest {
    /// A message that wants no answer.
    pub fn notification(body: impl Into<MessageBody>) -> Self {
        let body = body.into();
        Self {
            kind: UpstreamRequestKind::SendMessage,
            body,
            session_link: UpstreamLink::NoSession,
            revision: None,
            call: None,
            stateless_headers: None,
            param_headers: None,
            last_event_id: None,
            span: None,
            may_send_requests: false,
        }
    }

    /// A request, whose id in the body is that of the call.
    pub fn request(body: impl Into<MessageBody>, call: gatelodge_store::CallId) -> Self {
        Self { call: Some(call), ..Self::notification(body) }
    }

    /// The same in a span of ours, which the body names if the caller named one.
    pub fn with_span(self, span: Option<UpstreamSpanContext>) -> Self {
        Self { span: span.map(Box::new), ..self }
    }

    /// Whether it begins a session.
    pub fn is_handshake(&self) -> bool {
        let may_be =
            self.kind == UpstreamRequestKind::SendMessage && self.call.is_some() && self.stateless_headers.is_none();
        may_be
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
    fn an_id_that_is_kept_does_not_keep_what_was_read_with_it() {
        let read = Bytes::from(vec![b'x'; 8 << 10]);
        let id = HeaderValue::from_maybe_shared(read.slice(100..132)).expect("a header");
        let kept = unshared_header(&id);
        assert_eq!(kept, id);
        drop(id);
        assert!(read.is_unique());
    }
}
