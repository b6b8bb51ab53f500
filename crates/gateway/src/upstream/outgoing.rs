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

use super::child::Child;
use super::sse::Sse;
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
    Gone(String),
    /// What came is no answer that can be passed on, in words of ours; the request may have been carried out.
    #[error("{0}")]
    Unusable(String),
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
    Forgotten,
    /// Nobody is to blame: the caller did not wait.
    #[error("the caller did not wait for the answer")]
    Left,
    /// It answered with what the client has not declared that it takes.
    #[error("the server {what}: {required}")]
    Undeclared { what: &'static str, required: &'static str },
}

impl SendError {
    /// What the log says of a message that ended so.
    pub fn outcome(&self) -> CallOutcome {
        match self {
            Self::NotSent(_) => CallOutcome::NotSent,
            Self::Timeout | Self::HandshakeTimeout(_) => CallOutcome::Timeout,
            Self::Left => CallOutcome::Cancelled,
            Self::Gone(_) | Self::Unusable(_) | Self::Status(_) | Self::Forgotten | Self::Undeclared { .. } => {
                CallOutcome::ConnectionLost
            }
        }
    }

    /// The same where the call itself was sent before: it may have been carried out, whatever was not sent now.
    pub fn behind_a_call(self) -> Self {
        match self {
            Self::NotSent(why) if !mutant!("follow-up-failure-counts-as-unsent") => Self::Gone(why),
            other => other,
        }
    }

    /// One word for it, for those who count.
    pub fn word(&self) -> String {
        match self {
            Self::NotSent(_) => "not_sent".to_owned(),
            Self::Gone(_) => "gone".to_owned(),
            Self::Unusable(_) => "unusable".to_owned(),
            Self::Timeout | Self::HandshakeTimeout(_) => "timeout".to_owned(),
            Self::Status(status) => status.to_string(),
            Self::Forgotten => "forgotten".to_owned(),
            Self::Left => "left".to_owned(),
            Self::Undeclared { .. } => "undeclared".to_owned(),
        }
    }

    /// Cuts what the upstream gave back of our secrets.
    pub fn cut(self, secrets: &SecretRedactor) -> Self {
        match self {
            Self::NotSent(why) => Self::NotSent(secrets.redact_text(&why)),
            Self::Gone(why) => Self::Gone(secrets.redact_text(&why)),
            Self::Unusable(why) => Self::Unusable(secrets.redact_text(&why)),
            other @ (Self::Timeout | Self::HandshakeTimeout(_) | Self::Status(_)) => other,
            other @ (Self::Forgotten | Self::Left | Self::Undeclared { .. }) => other,
        }
    }
}

/// The upstream's end of a session.
#[derive(Debug, Clone, Default)]
pub(crate) enum Link {
    /// There is none: before the handshake, for a server without sessions, or because requests stand alone.
    #[default]
    None,
    /// There was one in another life of the gateway. Nothing can be sent until it is opened anew.
    Unopened,
    /// A session over HTTP.
    Http(Arc<HttpSession>),
    /// A process of the session's own.
    Child(Arc<Child>),
    /// A connection of the session's own, by HTTP+SSE.
    Sse(Arc<Sse>),
}

/// A session over HTTP. Another address than the one where it was opened knows nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpSession {
    /// The id that the server gave; some give none.
    pub id: Option<HeaderValue>,
    pub at: Uri,
}

impl Link {
    /// A session over HTTP.
    pub fn http(id: Option<HeaderValue>, at: &Uri) -> Self {
        Self::Http(Arc::new(HttpSession { id, at: at.clone() }))
    }

    /// Whether it is a session over HTTP that the server gave no id.
    pub fn is_nameless(&self) -> bool {
        matches!(self, Self::Http(own) if own.id.is_none())
    }

    /// The same as what a server's handshake began.
    pub fn of_handshake(self, upstream: &Upstream) -> Self {
        match (self, &upstream.config().transport) {
            (Self::None, UpstreamTransport::Http(to)) => Self::http(None, &to.url),
            (Self::Http(own), _) => Self::http(own.id.as_ref().map(apart), &own.at),
            (own, _) => own,
        }
    }

    /// Whether it has ended, or was never opened.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Child(child) => child.is_over(),
            Self::Sse(connection) => connection.is_over() && !mutant!("lost-sse-stream-not-reopened"),
            Self::Unopened => true,
            Self::None | Self::Http(_) => false,
        }
    }

    /// Ends it where all that is said shares a line, a call was given up there that the server may ask something for yet,
    /// and nobody else waits.
    pub fn end_if_owed(&self) {
        match self {
            Self::Child(child) => child.inbox().end_if_owed(),
            Self::Sse(connection) => connection.inbox().end_if_owed(),
            Self::None | Self::Unopened | Self::Http(_) => {}
        }
    }

    /// Whether all that is said shares a line, and somebody waits there for the answer to a call.
    pub fn is_awaited(&self) -> bool {
        match self {
            Self::Child(child) => child.inbox().is_awaited(),
            Self::Sse(connection) => connection.inbox().is_awaited(),
            Self::None | Self::Unopened | Self::Http(_) => false,
        }
    }

    /// Whether it goes to the server as it is configured now.
    pub fn is_of(&self, upstream: &Upstream) -> bool {
        match self {
            Self::Child(child) => child.is_of(upstream),
            Self::Sse(connection) => connection.is_of(upstream),
            Self::Http(own) => match &upstream.config().transport {
                UpstreamTransport::Http(to) => {
                    is_same(&to.url, &own.at) || mutant!("session-kept-after-address-change")
                }
                _ => false,
            },
            Self::None | Self::Unopened => true,
        }
    }

    /// Whether it has to be opened before anything can be sent: it was in another life of the gateway, or is a session
    /// at another address.
    pub fn is_elsewhere(&self, upstream: &Upstream) -> bool {
        match self {
            Self::Unopened => true,
            Self::Http(_) => !self.is_of(upstream),
            Self::None | Self::Child(_) | Self::Sse(_) => false,
        }
    }
}

/// The same header in memory of its own. What comes from a connection is a piece of all that was read with it, and keeps
/// that for as long as it is kept.
fn apart(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
}

/// Whether two URLs are the same. Nearly always they are so to the letter, which is found out quickly.
fn is_same(one: &Uri, other: &Uri) -> bool {
    let to_the_letter = one.scheme() == other.scheme()
        && one.authority().map(|own| own.as_str()) == other.authority().map(|own| own.as_str())
        && one.path_and_query().map(|own| own.as_str()) == other.path_and_query().map(|own| own.as_str());
    to_the_letter || one == other
}

/// What is to be done at an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Take a message.
    Post,
    /// Let us hear what belongs to no request.
    Hear,
    /// Forget the session.
    End,
}

/// A message on its way to an upstream.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub verb: Verb,
    pub body: MessageBody,
    pub link: Link,
    pub revision: Option<Revision>,
    /// The id of a request, under which its answer comes. None for what wants no answer.
    pub call: Option<gatelodge_store::CallId>,
    /// What the stateless revision wants in the head: the method, and what it is about.
    pub modern: Option<ModernHead>,
    /// What it wants there of a call's arguments, if there is any.
    pub params: Option<Box<HeaderMap>>,
    /// The last event that we have of a stream that is to go on.
    pub last_event: Option<HeaderValue>,
    /// Our span, if it belongs to a trace.
    pub hop: Option<Box<UpstreamSpanContext>>,
    /// Whether an upstream may ask its client something before it answers: it is a call, and not a list.
    pub may_ask: bool,
}

/// The way back to a stream that answers a message.
#[derive(Debug)]
pub(crate) struct WayBack {
    pub link: Link,
    pub revision: Option<Revision>,
}

/// The head of a stateless request, made from the body that was judged.
#[derive(Debug, Clone)]
pub(crate) struct ModernHead {
    pub method: String,
    pub name: Option<String>,
}

impl Outgoing {
    /// A message that wants no answer.
    pub fn note(body: impl Into<MessageBody>) -> Self {
        let body = body.into();
        Self {
            verb: Verb::Post,
            body,
            link: Link::None,
            revision: None,
            call: None,
            modern: None,
            params: None,
            last_event: None,
            hop: None,
            may_ask: false,
        }
    }

    /// A request, whose id in the body is that of the call.
    pub fn request(body: impl Into<MessageBody>, call: gatelodge_store::CallId) -> Self {
        Self { call: Some(call), ..Self::note(body) }
    }

    /// The same in a span of ours, which the body names if the caller named one.
    pub fn within(self, hop: Option<UpstreamSpanContext>) -> Self {
        Self { hop: hop.map(Box::new), ..self }
    }

    /// Whether it begins a session.
    pub fn is_handshake(&self) -> bool {
        let may_be = self.verb == Verb::Post && self.call.is_some() && self.modern.is_none();
        may_be
            && matches!(read_client_message(&self.body.clone().into_bytes(), &JsonLimits::REQUEST),
                Ok(ClientMessage::Request(request)) if *request.method() == Method::Initialize)
    }

    pub fn empty(verb: Verb) -> Self {
        Self { verb, ..Self::note(Bytes::new()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_kept_does_not_keep_what_was_read_with_it() {
        let read = Bytes::from(vec![b'x'; 8 << 10]);
        let id = HeaderValue::from_maybe_shared(read.slice(100..132)).expect("a header");
        let kept = apart(&id);
        assert_eq!(kept, id);
        drop(id);
        assert!(read.is_unique());
    }
}
