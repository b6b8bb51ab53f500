//! The endpoint of a request: `/mcp/<server>`, one server, or `/mcp`, all servers of a grant.

use std::sync::Arc;

use gatelodge_mcp::{ClientMessage, ClientRequest, ProtocolGeneration, Revision};
use gatelodge_store::ServerName;
use http::Response;

use super::protocol_detection::SessionLookupScope;
use super::request_handler::handle_request;
use crate::aggregate::{AggregateRequest, merged_stream, router};
use crate::body::ReceivedBody;
use crate::call_recorder::CallRecorder;
use crate::methods::{initialize, policy_exempt_messages, standalone_stream};
use crate::reply::ReplyBody;
use crate::request_context::{ClientContext, ClientProtocol, RequestContext};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::telemetry::RequestTrace;

/// Endpoint of a request, with the client that sent it.
#[derive(Debug)]
pub(crate) enum RequestEndpoint {
    Server(RequestContext),
    Aggregate(Box<AggregateRequest>),
}

impl RequestEndpoint {
    pub fn client(&self) -> ClientContext<'_> {
        match self {
            Self::Server(ctx) => ctx.client(),
            Self::Aggregate(aggregate) => aggregate.client(),
        }
    }

    pub fn set_client_protocol(&mut self, client_protocol: ClientProtocol) {
        match self {
            Self::Server(ctx) => ctx.client_protocol = client_protocol,
            Self::Aggregate(aggregate) => aggregate.client_protocol = client_protocol,
        }
    }

    pub fn set_trace(&mut self, trace: Option<Box<RequestTrace>>) {
        match self {
            Self::Server(ctx) => ctx.trace = trace,
            Self::Aggregate(aggregate) => aggregate.trace = trace,
        }
    }

    /// Keeps the parts of a body that a request to one server forwards or records without copying.
    pub fn keep_body(&mut self, body: &ReceivedBody) {
        match (self, body) {
            (Self::Server(ctx), ReceivedBody::Whole(body)) => ctx.request_body = body.clone(),
            (Self::Server(ctx), ReceivedBody::Segmented(_, digest)) => ctx.streaming_digest = digest.clone(),
            (Self::Aggregate(_), _) => {}
        }
    }

    /// Returns the server; `None` for all servers.
    fn server(&self) -> Option<&ServerName> {
        match self {
            Self::Server(ctx) => Some(ctx.upstream.name()),
            Self::Aggregate(_) => None,
        }
    }

    pub fn session_scope(&self) -> SessionLookupScope<'_> {
        SessionLookupScope { grant: self.client().grant, server: self.server() }
    }

    /// Returns the revisions of a generation that the client may use here.
    pub fn supported_revisions(&self, generation: ProtocolGeneration) -> Vec<Revision> {
        match self {
            Self::Server(ctx) => ctx.supported_revisions(generation),
            // The gateway translates for servers of the other generation.
            Self::Aggregate(aggregate) => aggregate.grant.allowed_revisions(&Revision::ALL),
        }
    }

    /// Starts a record that contains the client, and the server if there is one, but no request.
    pub fn new_recorder(&self, gw: &GatewayServices) -> CallRecorder {
        match self {
            Self::Server(ctx) => gw.new_recorder(ctx),
            Self::Aggregate(aggregate) => {
                CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now())
            }
        }
    }

    /// Handles a request.
    // A request to one server is handled inline; the other future is boxed so that it does not enlarge this one.
    pub async fn handle_request(self, gw: &Arc<GatewayServices>, request: &ClientRequest<'_>, responder: Responder) {
        match self {
            Self::Server(ctx) => handle_request(gw, ctx, request, responder).await,
            Self::Aggregate(aggregate) => {
                Box::pin(router::route_request(gw, &aggregate, request, responder)).await;
            }
        }
    }

    /// Delivers a notification or response.
    pub async fn forward_one_way(&self, gw: &GatewayServices, message: &ClientMessage<'_>) {
        match self {
            Self::Server(ctx) => policy_exempt_messages::forward_one_way(gw, ctx, message).await,
            Self::Aggregate(aggregate) => router::route_one_way(gw, aggregate, message).await,
        }
    }

    /// Opens the standalone stream of the client's session.
    pub async fn open_stream(self, gw: &Arc<GatewayServices>) -> Response<ReplyBody> {
        match self {
            Self::Server(ctx) => standalone_stream::open_stream(gw, ctx, None).await,
            Self::Aggregate(aggregate) => merged_stream::open_stream(gw, *aggregate, None).await,
        }
    }

    /// Resumes a stream after the event that the client received last.
    pub async fn resume_stream(self, gw: &Arc<GatewayServices>, last_event: &str) -> Response<ReplyBody> {
        match self {
            Self::Server(ctx) => standalone_stream::resume_stream(gw, ctx, last_event).await,
            Self::Aggregate(aggregate) => merged_stream::resume_stream(gw, *aggregate, last_event).await,
        }
    }

    /// Ends the client's session, in the gateway and at the servers.
    pub async fn end_session(self, gw: &GatewayServices) {
        match self {
            Self::Server(ctx) => initialize::end_session(gw, &ctx).await,
            Self::Aggregate(aggregate) => router::end_session(gw, &aggregate).await,
        }
    }
}
