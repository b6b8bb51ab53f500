//! Permission to send one message upstream. Sending consumes it.

use gatelodge_mcp::{Method, RequestId, Revision};
use gatelodge_policy::is_policy_exempt;
use http::HeaderValue;

use super::{UpstreamRequest, UpstreamRequestKind, UpstreamSessionLink, UpstreamStreamResumeTarget};
use crate::telemetry::UpstreamSpanContext;

/// Proof that the policy allows a message. Only the values that a step of the request path returns implement it: the
/// reservation of a call, and a resource that the grant may watch.
pub(crate) trait PermitProof {}

/// Permission to send one message. Nothing can be sent upstream without it.
#[derive(Debug)]
pub(crate) struct Permit {
    // Boxed because a permit is moved often before it is sent.
    outgoing: Box<UpstreamRequest>,
}

impl Permit {
    /// Creates a permit for a message that a step of the request path has allowed. The proof is only borrowed: a
    /// reservation must be released if its call is not sent, and a resource can be subscribed to again.
    pub fn with_proof(_: &impl PermitProof, outgoing: UpstreamRequest) -> Self {
        Self::new(outgoing)
    }

    /// Creates a permit for a method that every policy allows: handshakes, lists, notifications. Returns `None` for
    /// other methods.
    pub fn for_policy_exempt(method: &str, outgoing: UpstreamRequest) -> Option<Self> {
        is_policy_exempt(method).then(|| Self::new(outgoing))
    }

    /// Creates a permit for a list request, whose response is always filtered. Policies have no rules for `tasks/list`,
    /// because it does not list capabilities; its response is reduced to the grant's own tasks.
    pub fn for_list(method: &Method<'_>, outgoing: UpstreamRequest) -> Option<Self> {
        match method {
            Method::TasksList => Some(Self::new(outgoing)),
            _ => Self::for_policy_exempt(method.name(), outgoing),
        }
    }

    /// Creates a permit for the response to the server request `_asked`: the client's own, which was checked against the
    /// policy when the request arrived, or the gateway's, which declines it.
    pub fn for_server_request_response(_asked: &RequestId<'_>, outgoing: UpstreamRequest) -> Self {
        Self::new(outgoing)
    }

    /// Creates a permit for the standalone stream of a session, optionally resumed after `last_event`.
    pub fn for_event_stream(
        session_link: UpstreamSessionLink,
        revision: Option<Revision>,
        last_event: Option<HeaderValue>,
    ) -> Self {
        Self::new(UpstreamRequest {
            session_link,
            revision,
            last_event_id: last_event,
            ..UpstreamRequest::empty(UpstreamRequestKind::OpenStream)
        })
    }

    /// Returns the target for resuming the response stream of this request; `None` for stateless requests.
    pub fn resume_target(&self) -> Option<UpstreamStreamResumeTarget> {
        let UpstreamRequest { session_link: link, revision, stateless_headers: stateless, .. } = &*self.outgoing;
        stateless.is_none().then(|| UpstreamStreamResumeTarget { session_link: link.clone(), revision: *revision })
    }

    /// Creates a permit for resuming a response stream after `last_event`. The request itself has already been
    /// permitted.
    pub fn for_stream_resumption(target: &UpstreamStreamResumeTarget, last_event: HeaderValue) -> Self {
        let UpstreamStreamResumeTarget { session_link: link, revision } = target;
        let (link, last_event) = (link.clone(), Some(last_event));
        Self::new(UpstreamRequest {
            session_link: link,
            revision: *revision,
            last_event_id: last_event,
            ..UpstreamRequest::empty(UpstreamRequestKind::OpenStream)
        })
    }

    /// Creates a permit for ending an upstream session.
    pub fn for_session_end(link: UpstreamSessionLink) -> Self {
        Self::new(UpstreamRequest { session_link: link, ..UpstreamRequest::empty(UpstreamRequestKind::EndSession) })
    }

    fn new(outgoing: UpstreamRequest) -> Self {
        Self { outgoing: Box::new(outgoing) }
    }

    /// Returns the context of the span in which the message is sent.
    pub fn span_context(&self) -> Option<&UpstreamSpanContext> {
        self.outgoing.span.as_deref()
    }

    pub fn into_request(self) -> UpstreamRequest {
        *self.outgoing
    }
}
