//! Calls that wait for client input, and the request that resumes one of them.

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, code};
use http::StatusCode;

use crate::call_recorder::CallRecorder;
use crate::pipeline::client_input;
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::suspended_calls::{SuspendedCall, SuspendedCallBinding};
use crate::upstream_session::call_cancellation::cancel_suspended_call;

/// Finds the suspended call that the request resumes, and returns a context with that call's session. The call's
/// in-flight guard moves to the responder.
pub(super) fn find_suspended_context(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    responder: &mut Responder,
) -> Option<RequestContext> {
    let resumed = gw
        .suspended_calls
        .resume_context(&request_state(ctx, request)?, &SuspendedCallBinding::of(ctx, request, subject))?;
    if let Some(in_flight) = resumed.in_flight {
        responder.hold_in_flight_guard(in_flight);
    }
    Some(ctx.with_upstream_session(resumed.session, resumed.exclusive_session))
}

/// Returns the request state that resumes a suspended call.
pub(super) fn request_state(ctx: &RequestContext, request: &ClientRequest<'_>) -> Option<String> {
    // The state of a stateless upstream is its own, and is passed on.
    if !ctx.passes_server_requests_in_response() {
        return None;
    }
    Some(request.params()?.get("requestState")?.as_str().unwrap_or_default().into_owned())
}

/// Removes and returns the suspended call that a request resumes; `None` if the request starts a new call.
pub(super) fn take_suspended(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
) -> Result<Option<Box<SuspendedCall>>, Refusal> {
    let Some(state) = request_state(ctx, request) else { return Ok(None) };
    let suspended = gw.suspended_calls.take(&state, &SuspendedCallBinding::of(ctx, request, subject));
    suspended.map(|suspended| Some(Box::new(suspended))).ok_or_else(|| {
        let what = "the request state belongs to another request, was already used, has expired, or its call was evicted; \
            send the request without it";
        Refusal::Protocol(ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, what))
    })
}

/// Like [`take_suspended`], but ends the call if the active policy no longer allows the input responses.
pub(super) fn recheck_suspended(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: &mut CallRecorder,
) -> Result<Option<Box<SuspendedCall>>, Refusal> {
    let resumed = take_suspended(gw, ctx, request, subject)?;
    if let Err(refusal) = client_input::authorize_responses(gw, ctx, request, resumed.as_deref(), recorder) {
        resumed.into_iter().for_each(|suspended| cancel_suspended_call(gw, *suspended));
        return Err(refusal);
    }
    Ok(resumed)
}
