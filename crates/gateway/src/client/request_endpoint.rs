//! The endpoint of a request: `/mcp/<server>`, one server, or `/mcp`, all servers of a grant. Hands a request whose client
//! protocol is known to the handler of its method.

use std::sync::Arc;

use gatelodge_mcp::{ClientMessage, ClientRequest, ProtocolGeneration, Revision};
use gatelodge_store::ServerName;
use http::{Response, StatusCode};

use super::protocol_detection::SessionLookupScope;
use crate::aggregate::{AggregateRequest, merged_stream, router};
use crate::body::ReceivedBody;
use crate::call_recorder::CallRecorder;
use crate::methods::dispatch::{dispatch, is_policy_checked, is_task_method};
use crate::methods::{call_handler, initialize, policy_exempt_messages, standalone_stream};
use crate::refusal::Refusal;
use crate::reply::{self, ReplyBody};
use crate::request_context::{ClientContext, ClientProtocol, RequestContext, parse_subject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::wait_for_cancel;
use crate::telemetry::RequestTrace;
use crate::upstream::UpstreamSendError;
use crate::upstream_session::pooled_session;

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

    /// Dispatches a request to its server, or to the servers that it concerns.
    // A request to one server is handled inline; the other future is boxed so that it does not enlarge this one.
    pub async fn dispatch_request(self, gw: &Arc<GatewayServices>, request: &ClientRequest<'_>, responder: Responder) {
        match self {
            Self::Server(ctx) => dispatch_to_server(gw, ctx, request, responder).await,
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

/// Dispatches a request to one server. Opens a pooled session first if the client is stateless and the server is not;
/// the client can cancel meanwhile.
pub(crate) async fn dispatch_to_server(
    gw: &GatewayServices,
    mut ctx: RequestContext,
    request: &ClientRequest<'_>,
    responder: Responder,
) {
    if let ClientProtocol::Stateless(client) = &ctx.client_protocol {
        let cancel_signal = responder.cancel_signal();
        let opening = Box::pin(pooled_session::with_pooled_session(gw, &ctx, request, client.clone()));
        let opened = tokio::select! {
            biased;
            () = wait_for_cancel(cancel_signal.as_deref()) => Err(Refusal::Upstream(UpstreamSendError::ClientGone)),
            opened = opening => opened,
        };
        match opened {
            Ok(client) => ctx.client_protocol = ClientProtocol::Stateless(client),
            Err(refusal) => {
                return Box::pin(reply_handshake_failed(
                    gw,
                    &ctx,
                    request,
                    refusal.into_handshake_failure(),
                    responder,
                ))
                .await;
            }
        }
    }
    dispatch(gw, &ctx, request, responder).await;
}

/// Replies to a request that cannot be sent because the handshake with its server failed.
async fn reply_handshake_failed(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    refusal: Refusal,
    responder: Responder,
) {
    if is_policy_checked(request.method())
        && !is_task_method(request.method())
        && let Ok(subject) = parse_subject(request)
    {
        return call_handler::handle_unreachable(gw, ctx, request, &subject, refusal, responder).await;
    }
    let mut recorder = CallRecorder::start(ctx, request, gw.new_call_id(), gw.clock.now());
    if matches!(refusal, Refusal::Upstream(UpstreamSendError::ClientGone)) {
        responder.hang_up();
        return gw.write_row(recorder.cancelled_row()).await;
    }
    responder
        .finish_with_status(
            StatusCode::BAD_GATEWAY,
            reply::internal_error_reply(request.id(), recorder.call_id(), &refusal),
        )
        .await;
    gw.record_refusal(&mut recorder, &refusal).await;
}
