//! Blocks tasks and input requests for which the client has not declared support. Servers that respect the declared
//! capabilities are not affected.

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{
    ClientRequest, ServerMessage, ServerRequest, ServerResponsePayload, code, find_confusable_result_member,
    quote_excerpt, read_server_message,
};
use gatelodge_mutants::mutant;
use http::StatusCode;

use super::task_cancellation::cancel_task;
use crate::body::ReceivedBody;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::upstream::UpstreamSendError;

/// Checks that the client has declared the capability for a request from a stateful server.
///
/// # Errors
/// The client has not declared the capability.
pub(crate) fn check_server_request_declared(
    ctx: &RequestContext,
    server_request: &ServerRequest<'_>,
) -> Result<(), Refusal> {
    let document = server_request.params().and_then(|params| read(params.as_bytes(), &JsonLimits::REPLY).ok());
    let params = document.as_ref().map(|document| document.root());
    let missing = ctx.client_capabilities().missing_capability(server_request.method().name(), params);
    let missing = missing.filter(|_| !mutant!("undeclared-question-forwarded"));
    missing.map_or(Ok(()), |required| Err(missing_capability_refusal(required)))
}

/// Builds the refusal for a server request that needs a capability the client has not declared.
pub(crate) fn missing_capability_refusal(required: &str) -> Refusal {
    let what = format!("the client has not declared the capability for this request: {required}");
    Refusal::Protocol(ProtocolError::new(StatusCode::OK, code::METHOD_NOT_FOUND, &what))
}

/// Checks that a response contains no task or input request for which the client has not declared support. If the
/// response creates a task that the client does not support, the task is cancelled.
///
/// # Errors
/// The response contains such a task or input request, or cannot be read reliably.
pub(crate) fn check_response(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    message: &ReceivedBody,
) -> Result<(), UpstreamSendError> {
    let Ok(ServerMessage::Response(reply)) = read_server_message(message.as_bytes(), &gw.settings.reply_limits) else {
        return Ok(());
    };
    let ServerResponsePayload::Result(result) = reply.payload() else { return Ok(()) };
    let unreadable = |_| UpstreamSendError::InvalidResponse("the server's response cannot be read".to_owned());
    if let Some(task) = ctx.find_unaccepted_task(request, result).map_err(unreadable)? {
        if task.can_cancel {
            cancel_task(gw, ctx, &task.id);
        }
        return Err(ctx.unaccepted_task_error());
    }
    if !ctx.uses_input_requests_in_results() {
        return Ok(());
    }
    let document = read(result.as_bytes(), &gw.settings.reply_limits).map_err(unreadable)?;
    check_input_members(document.root())?;
    match missing_capability(ctx, document.root()) {
        Some(required) => Err(UpstreamSendError::MissingCapability {
            action: MISSING_CAPABILITY_ACTION,
            required_capability: required,
        }),
        None => Ok(()),
    }
}

/// Checks the members of a result that ask for client input.
///
/// # Errors
/// A lenient client could find other members than the gateway, or the result asks for input without naming it, so that
/// repeating the request would only repeat the call.
fn check_input_members(result: JsonValue<'_>) -> Result<(), UpstreamSendError> {
    if let Some(name) = find_confusable_result_member(result) {
        let name = quote_excerpt(&name);
        let what = format!("the member {name} of the result could be mistaken for a member of the protocol");
        return Err(UpstreamSendError::InvalidResponse(what));
    }
    let requires_input = result.get("resultType").is_some_and(|kind| kind.is_str("input_required"));
    let has_requests = result.get("inputRequests").is_some_and(|asked| asked.members().next().is_some());
    let has_state = result.get("requestState").is_some_and(|state| state.kind() == JsonKind::String);
    if requires_input && !has_requests && !has_state {
        let what = "the server asks for client input and does not say which";
        return Err(UpstreamSendError::InvalidResponse(what.to_owned()));
    }
    Ok(())
}

/// Says what the server did wrong, in the error message about an undeclared capability.
pub(crate) const MISSING_CAPABILITY_ACTION: &str = "asked the client for input that it has not declared";

/// Returns a capability that the input requests in a result or task require but the client lacks.
pub(crate) fn missing_capability(ctx: &RequestContext, json: JsonValue<'_>) -> Option<&'static str> {
    let input_requests = json.get("inputRequests");
    input_requests.iter().flat_map(|input_requests| input_requests.members()).find_map(|(_, input_request)| {
        let method = input_request.get("method").and_then(|method| method.as_str()).unwrap_or_default();
        ctx.client_capabilities().missing_capability(&method, input_request.get("params"))
    })
}
