//! Asks a stateful client for the input that a stateless server requires in its result, and repeats the request with it.

use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::translate::ClientInputResponses;
use gatelodge_mcp::{ClientMessage, ClientRequest, ClientResponsePayload, read_client_message};
use gatelodge_store::CallId;
use tokio::sync::oneshot;

use super::input_policy::is_input_method;
use super::server_message_filter::is_server_request_allowed;
use super::{ForwardContext, rewrite_for_upstream, wait_or_cancel};
use crate::body::ReceivedBody;
use crate::request_context::{RequestContext, input_params_for_client};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::ClientResponseDestination;
use crate::upstream::{UpstreamRequest, UpstreamSendError};
use crate::upstream_session::upstream_exchange::result_text;

/// Returns the result of a stateless upstream that asks a stateful client for input, or `None` for any other response.
pub(crate) fn required_input(ctx: &RequestContext, message: &ReceivedBody, limits: &JsonLimits) -> Option<String> {
    if !ctx.repeats_request_with_input() {
        return None;
    }
    let result = result_text(&message.to_bytes(), limits).ok()??;
    let document = read(&result, limits).ok()?;
    document.root().get("resultType").filter(|kind| kind.is_str("input_required"))?;
    Some(ctx.upstream.secret_redactor().redact_json(document.text().to_owned()))
}

/// The client's responses to input requests, in the form that the upstream expects.
pub(crate) struct InputResponses {
    responses: String,
    request_state: Option<String>,
}

/// Asks a stateful client for each requested input, one after the other. Returns `None` if the client cancelled.
///
/// # Errors
/// The policy denies an input request, the client declines it, or the result cannot be read.
pub(crate) async fn ask_client(
    gw: &GatewayServices,
    ctx: &RequestContext,
    result: &str,
    responder: &mut Responder,
) -> Result<Option<InputResponses>, UpstreamSendError> {
    let unusable = |what: &str| UpstreamSendError::InvalidResponse(what.to_owned());
    let document =
        read(result.as_bytes(), &gw.settings.reply_limits).map_err(|_| unusable("the response cannot be read"))?;
    let state = document.root().get("requestState").map(|state| state.raw().to_owned());
    let forward_ctx = ForwardContext {
        gw,
        ctx,
        call: gw.new_call_id(),
        // The upstream is not connected while the client is asked, so there is no progress to relay.
        progress: None,
        cancels_on_disconnect: false,
        is_client_request: true,
        can_suspend: false,
        previous_response: None,
        deadline_timer: None,
    };
    let mut responses = Vec::new();
    for (key, wanted) in document.root().get("inputRequests").iter().flat_map(|wanted| wanted.members()) {
        let method = wanted.get("method").and_then(|method| method.as_str()).unwrap_or_default();
        if !is_input_method(&method) || !is_server_request_allowed(gw, ctx, &method).await {
            return Err(unusable("the server asks for input that the policy or the client does not allow"));
        }
        let Some(response) = send_server_request(&forward_ctx, &method, wanted.get("params"), responder).await? else {
            return Ok(None);
        };
        responses.push(format!("{}:{response}", key.raw()));
    }
    Ok(Some(InputResponses { responses: format!("{{{}}}", responses.join(",")), request_state: state }))
}

/// Sends one server request to the client during a call, and returns the client's result as JSON.
async fn send_server_request(
    forward_ctx: &ForwardContext<'_>,
    method: &str,
    params: Option<JsonValue<'_>>,
    responder: &mut Responder,
) -> Result<Option<String>, UpstreamSendError> {
    let unusable = |what: &str| UpstreamSendError::InvalidResponse(what.to_owned());
    let session = forward_ctx.ctx.session().ok_or_else(|| unusable("the client has no session"))?;
    let (waiting, answer) = oneshot::channel();
    let id = session
        .server_requests
        .register(ClientResponseDestination::Call(waiting))
        .ok_or_else(|| unusable("the client cannot be asked for input"))?;
    let params =
        params.map(|params| format!(r#","params":{}"#, input_params_for_client(params, &id))).unwrap_or_default();
    responder.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}"{params}}}"#)).await;
    let Some(answer) = wait_or_cancel(forward_ctx, responder, std::pin::pin!(answer)).await else { return Ok(None) };
    let answer = answer.map_err(|_| unusable("the client did not answer"))?;
    let read = read_client_message(&answer, &forward_ctx.gw.settings.request_limits);
    match read {
        Ok(ClientMessage::Response(response)) => match response.payload() {
            ClientResponsePayload::Result(result) => Ok(Some(result.raw().to_owned())),
            // Elicitation has a result that means "declined"; the other methods do not.
            ClientResponsePayload::Error(_) if method == "elicitation/create" => {
                Ok(Some(r#"{"action":"cancel"}"#.to_owned()))
            }
            ClientResponsePayload::Error(_) => Err(unusable("the client declined the server's request")),
        },
        _ => Err(unusable("the client's answer cannot be read")),
    }
}

/// Rebuilds the request with the client's input responses.
pub(crate) fn rebuild_with_responses(
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    call: CallId,
    about: Option<&str>,
    answers: &InputResponses,
) -> Option<UpstreamRequest> {
    let retry =
        ClientInputResponses { input_responses: &answers.responses, request_state: answers.request_state.as_deref() };
    ctx.with_client_input(rewrite_for_upstream(ctx, request, call, about), &retry)
}
