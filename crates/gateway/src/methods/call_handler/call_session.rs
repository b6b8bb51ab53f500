//! Sessions of their own for calls of stateless clients whose stateful server may ask for client input.

use gatelodge_mcp::ClientRequest;

use super::PolicyCall;
use super::resumed_call::{find_suspended_context, request_state};
use crate::call_recorder::CallRecorder;
use crate::pipeline::authorize::early_denial;
use crate::pipeline::{ForwardContext, abandoned_outcome, wait_or_cancel};
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream::UpstreamSendError;
use crate::upstream_session::pooled_session;

/// Message recorded for a call whose client disconnected while the call waited for an exclusive session.
const CLIENT_LEFT_MESSAGE: &str = "the client disconnected while the call was queued; the call was not sent";

/// Returns the context to use for a call if it is not the given one: with the session of a suspended call that the
/// request resumes, or with a session that is exclusive to this call.
pub(super) async fn prepare_call_session(
    call: PolicyCall<'_>,
    recorder: &CallRecorder,
    responder: &mut Responder,
) -> Result<Option<RequestContext>, Refusal> {
    let PolicyCall { gw, ctx, request, subject } = call;
    if let Some(suspended_ctx) = find_suspended_context(call, responder) {
        return Ok(Some(suspended_ctx));
    }
    if request_state(ctx, request).is_some() || !pooled_session::needs_exclusive_session(ctx, request) {
        return Ok(None);
    }
    responder.acquire_in_flight(ctx, request.method())?;
    // Denied calls must not evict a session or start a process. The policy is evaluated again afterwards, with the
    // listing of the exclusive session; only that evaluation takes charges.
    if let Some(reason) = early_denial(ctx, subject, recorder) {
        return Err(Refusal::Denied(reason));
    }
    with_exclusive_session(gw, ctx, request, recorder, responder).await.map(Some)
}

/// Returns a context with a session that is exclusive to this call.
async fn with_exclusive_session(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    recorder: &CallRecorder,
    responder: &mut Responder,
) -> Result<RequestContext, Refusal> {
    let forward_ctx = ForwardContext {
        gw,
        ctx,
        call: recorder.call_id(),
        progress: None,
        cancels_on_disconnect: false,
        is_client_request: true,
        can_suspend: false,
        previous_response: None,
        deadline_timer: None,
    };
    match wait_or_cancel(
        &forward_ctx,
        responder,
        std::pin::pin!(pooled_session::acquire_exclusive_session(gw, ctx, request)),
    )
    .await
    {
        Some(exclusive_ctx) => exclusive_ctx,
        None if abandoned_outcome(&gw.shutdown).is_err() => {
            Err(UpstreamSendError::NotSent("the gateway was stopped".to_owned()).into())
        }
        None => Err(Refusal::CapacityReached(CLIENT_LEFT_MESSAGE)),
    }
}
