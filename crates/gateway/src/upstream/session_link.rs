//! The upstream end of a session: what a request needs to reach it.

use std::sync::Arc;

use gatelodge_mutants::mutant;
use http::Uri;
use http::header::HeaderValue;

use super::sse::UpstreamSseConnection;
use super::{ServerProcess, Upstream, UpstreamTransport};

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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

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
