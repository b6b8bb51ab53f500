//! Leave to send one message upstream. Sending takes one and uses it up.

use gatelodge_mcp::{Method, RequestId, code, error_response};
use gatelodge_policy::is_always_allowed;

use http::HeaderValue;

use super::Refusal;
use super::reserve::CallReservation;
use crate::methods::unsolicited_messages::AllowedResource;
use crate::request_context::RequestContext;
use crate::request_trace::UpstreamSpanContext;
use crate::upstream::{ResumeTarget, UpstreamLink, UpstreamRequest, UpstreamRequestKind};

/// Leave to send one message. There is no other way to an upstream.
#[derive(Debug)]
pub(crate) struct Permit {
    // In a box: it is handed on often before it is sent.
    outgoing: Box<UpstreamRequest>,
}

impl Permit {
    /// For a call whose charges are taken and whose intent is written. The reservation is spent when it is sent, so
    /// it stays with whoever may have to give it back.
    pub fn for_reserved_call(_: &CallReservation, outgoing: UpstreamRequest) -> Self {
        Self::new(outgoing)
    }

    /// For a message whose method passes under every policy: handshakes, lists, notifications. None for any other.
    pub fn for_always_allowed(method: &str, outgoing: UpstreamRequest) -> Option<Self> {
        is_always_allowed(method).then(|| Self::new(outgoing))
    }

    /// For asking for one of the lists, each of which is filtered. That of tasks is no list of what there is to use, so
    /// the policy does not name it; of what is in it the grant gets its own.
    pub fn for_list(method: &Method<'_>, outgoing: UpstreamRequest) -> Option<Self> {
        match method {
            Method::TasksList => Some(Self::new(outgoing)),
            _ => Self::for_always_allowed(method.name(), outgoing),
        }
    }

    /// For subscribing to a resource, or ending that, of which the policy lets the grant hear.
    pub fn for_subscription(_heard: &AllowedResource, outgoing: UpstreamRequest) -> Self {
        Self::new(outgoing)
    }

    /// For the client's answer to what the upstream asked under `_asked`, which the policy allowed when it was asked.
    pub fn for_server_request_response(_asked: &RequestId<'_>, outgoing: UpstreamRequest) -> Self {
        Self::new(outgoing)
    }

    /// For telling an upstream that the client is not asked.
    pub fn for_declined_server_request(ctx: &RequestContext, asked: &RequestId<'_>, why: &Refusal) -> Self {
        let (code, words) = match why {
            // It would take the request, but not now, or not so.
            Refusal::CapacityReached(words) => (code::INTERNAL_ERROR, *words),
            _ => (code::METHOD_NOT_FOUND, "the client does not take this request"),
        };
        let answer = error_response(Some(asked), code, words, None);
        Self::new(ctx.message_for_upstream(UpstreamRequest::notification(answer)))
    }

    /// For hearing what belongs to no request of the session, from where it was left.
    pub fn for_event_stream(visit: &RequestContext, last_event: Option<HeaderValue>) -> Self {
        Self::new(UpstreamRequest {
            last_event_id: last_event,
            ..visit.message_for_upstream(UpstreamRequest::empty(UpstreamRequestKind::OpenStream))
        })
    }

    /// The way back to a stream that answers what this sends; none for requests that stand alone.
    pub fn resume_target(&self) -> Option<ResumeTarget> {
        let UpstreamRequest { session_link: link, revision, stateless_headers: stateless, .. } = &*self.outgoing;
        stateless.is_none().then(|| ResumeTarget { session_link: link.clone(), revision: *revision })
    }

    /// For hearing the rest of a stream that answers what was permitted before.
    pub fn for_stream_resumption(way_back: &ResumeTarget, last_event: HeaderValue) -> Self {
        let ResumeTarget { session_link: link, revision } = way_back;
        let (link, last_event) = (link.clone(), Some(last_event));
        Self::new(UpstreamRequest {
            session_link: link,
            revision: *revision,
            last_event_id: last_event,
            ..UpstreamRequest::empty(UpstreamRequestKind::OpenStream)
        })
    }

    /// For ending the upstream's own session.
    pub fn for_session_end(link: UpstreamLink) -> Self {
        Self::new(UpstreamRequest { session_link: link, ..UpstreamRequest::empty(UpstreamRequestKind::EndSession) })
    }

    fn new(outgoing: UpstreamRequest) -> Self {
        Self { outgoing: Box::new(outgoing) }
    }

    /// The span it is sent in.
    pub fn span_context(&self) -> Option<&UpstreamSpanContext> {
        self.outgoing.span.as_deref()
    }

    pub fn into_request(self) -> UpstreamRequest {
        *self.outgoing
    }
}
