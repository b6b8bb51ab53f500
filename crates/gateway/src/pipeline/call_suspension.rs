//! Suspends a call of a stateless client while a stateful server waits for client input, and delivers the input when the
//! client sends its request again.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::JsonKind;
use gatelodge_mcp::{ClientRequest, RequestId, ServerMessage, read_server_message, result_response};

use super::ForwardContext;
use crate::call_recorder::CallRecorder;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::suspended_calls::{ClientInputRequest, SuspendedCall, SuspendedCallBinding};
use crate::upstream::{Permit, UpstreamRequest, UpstreamResponse, UpstreamSendError, UpstreamSessionLink};
use crate::upstream_session::call_cancellation::{cancel_suspended_call, decline_server_requests};
use crate::upstream_session::upstream_exchange::send_one_way;

/// Builds the suspended call for an upstream that asks for client input.
pub(crate) fn build_suspended_call(
    forward_ctx: &ForwardContext<'_>,
    link_epoch: u64,
    requests: &[Bytes],
    exchange: UpstreamResponse,
    (binding, recorder): (SuspendedCallBinding, CallRecorder),
) -> Option<SuspendedCall> {
    let ForwardContext { gw, ctx, call, .. } = forward_ctx;
    let mut input_requests = Vec::new();
    for message in requests {
        let Ok(ServerMessage::Request(server_request)) = read_server_message(message, &gw.settings.reply_limits) else {
            return None;
        };
        input_requests.push(ClientInputRequest::new(&input_requests, &server_request, ctx.upstream.secret_redactor()));
    }
    Some(SuspendedCall {
        exchange,
        call: *call,
        input_requests,
        upstream: Arc::clone(&ctx.upstream),
        session: Arc::clone(ctx.upstream_session()?),
        link_epoch,
        _held: ctx.upstream_session()?.mark_in_use(),
        exclusive_session: ctx.exclusive_session().cloned(),
        in_flight: None,
        binding,
        recorder,
    })
}

/// Stores the call, and returns the result that asks its client for input.
///
/// # Errors
/// The call cannot be stored; it is cancelled.
pub(crate) fn suspend(gw: &GatewayServices, suspended: SuspendedCall) -> Result<String, UpstreamSendError> {
    gw.suspended_calls.suspend(suspended, gw.settings.client_input_timeout).map_err(|suspended| {
        cancel_suspended_call(gw, *suspended);
        UpstreamSendError::InvalidResponse("the client cannot be asked for input".to_owned())
    })
}

/// Declines server requests that were not passed on because their call has ended.
pub(crate) fn decline_unasked(forward_ctx: &ForwardContext<'_>, link: &UpstreamSessionLink, requests: &[Bytes]) {
    let ForwardContext { gw, ctx, .. } = forward_ctx;
    let (Some(gw), Some(session)) = (gw.arc_self(), ctx.upstream_session().cloned()) else { return };
    let id = |message: &Bytes| match read_server_message(message, &gw.settings.reply_limits) {
        Ok(ServerMessage::Request(server_request)) => Some(server_request.id().clone().into_owned()),
        _ => None,
    };
    let ids: Vec<RequestId<'static>> = requests.iter().filter_map(id).collect();
    let (task, link, ctx) = (Arc::clone(&gw), link.clone(), (*ctx).clone());
    // The context holds the exclusive session until the task ends.
    gw.tasks.spawn(async move { decline_server_requests(&task, &ctx.upstream, &session, &link, ids).await });
}

/// Returns whether the request already contains input responses.
pub(crate) fn has_input_responses(request: &ClientRequest<'_>) -> bool {
    request
        .params()
        .and_then(|params| params.get("inputResponses"))
        .is_some_and(|responses| responses.kind() == JsonKind::Object)
}

/// Sends the client's input responses upstream, and returns the upstream response that the call continues to read. If
/// input responses are missing, returns a reply that asks the client for them again.
pub(crate) async fn deliver_responses(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut suspended: SuspendedCall,
    responder: &mut Responder,
) -> Result<Result<UpstreamResponse, String>, UpstreamSendError> {
    let link = suspended.session.upstream_link.current();
    // After a reconnect the server has forgotten the requests, or uses their ids for others.
    if suspended.session.upstream_link.epoch() != suspended.link_epoch {
        cancel_suspended_call(gw, suspended);
        return Err(UpstreamSendError::SessionExpired);
    }
    let mut open = Vec::new();
    let mut input_requests = std::mem::take(&mut suspended.input_requests).into_iter();
    while let Some(input_request) = input_requests.next() {
        let Some(response) = input_request.response(request) else {
            open.push(input_request);
            continue;
        };
        let mut outgoing =
            ctx.message_for_upstream(UpstreamRequest::notification(result_response(&input_request.id, response)));
        outgoing.session_link = link.clone();
        if let Err(error) =
            send_one_way(gw, ctx, Permit::for_server_request_response(&input_request.id, outgoing)).await
        {
            // The server waits for a response that cannot be delivered, and the client cannot retry.
            suspended.input_requests = open.into_iter().chain([input_request]).chain(input_requests).collect();
            cancel_suspended_call(gw, suspended);
            return Err(error);
        }
    }
    if open.is_empty() {
        return Ok(Ok(suspended.exchange));
    }
    suspended.input_requests = open;
    suspended.in_flight = responder.take_in_flight_guard();
    Ok(Err(result_response(request.id(), &suspend(gw, suspended)?)))
}
