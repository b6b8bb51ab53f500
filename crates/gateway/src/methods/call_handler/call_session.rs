//! What happens before a call is evaluated: it gets its slots and a session in which it can be sent.

use gatelodge_mcp::ClientRequest;

use super::resumed_call::{find_suspended_context, request_state};
use crate::call_recorder::CallRecorder;
use crate::pipeline::authorize::early_denial;
use crate::pipeline::{ForwardContext, abandoned_outcome, wait_or_cancel};
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream::UpstreamSendError;
use crate::upstream_session::{handshake, pooled_session};

/// Message recorded for a call whose client disconnected while the call waited for an exclusive session.
const CLIENT_LEFT_MESSAGE: &str = "the client disconnected while the call was queued; the call was not sent";

/// Acquires the in-flight slots of a call, and opens its session again if that has ended. Returns the context to use if
/// it is not the given one: with the session of a suspended call that the request resumes, or with a session that is
/// exclusive to this call.
pub(super) async fn prepare_session(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: &CallRecorder,
    responder: &mut Responder,
) -> Result<Option<RequestContext>, Refusal> {
    let suspended_ctx = find_suspended_context(gw, ctx, request, subject, responder);
    responder.acquire_in_flight(ctx, request.method())?;
    let call_ctx = match suspended_ctx {
        None if request_state(ctx, request).is_none() && pooled_session::needs_exclusive_session(ctx, request) => {
            // Denied calls must not evict a session or start a process. The policy is evaluated again afterwards, with
            // the listing of the exclusive session; only that evaluation takes charges.
            if let Some(reason) = early_denial(ctx, subject, recorder) {
                return Err(Refusal::Denied(reason));
            }
            Some(Box::pin(with_exclusive_session(gw, ctx, request, recorder, responder)).await?)
        }
        back => back,
    };
    handshake::reopen_if_closed(gw, call_ctx.as_ref().unwrap_or(ctx)).await;
    Ok(call_ctx)
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
        None if abandoned_outcome(gw).is_err() => {
            Err(UpstreamSendError::NotSent("the gateway was stopped".to_owned()).into())
        }
        None => Err(Refusal::CapacityReached(CLIENT_LEFT_MESSAGE)),
    }
}
