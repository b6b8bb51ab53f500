//! Evaluates client input: what servers ask for in results and notifications, and what clients answer.

use std::sync::Arc;

use gatelodge_json::{JsonValue, read};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, Method, code, find_confusable_result_member};
use gatelodge_mutants::mutant;
use http::StatusCode;

use super::MAX_SERVER_REQUESTS_PER_ROUND;
use super::client_capability_check::{MISSING_CAPABILITY_ACTION, missing_capability, missing_capability_refusal};
use super::server_message_filter::{check_input_response_allowed, is_server_request_allowed};
use crate::body::ReceivedBody;
use crate::body::json_word_finder::INPUT_FINDER;
use crate::call_recorder::CallRecorder;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::suspended_calls::SuspendedCall;
use crate::upstream::UpstreamSendError;
use crate::upstream_session::upstream_exchange::result_text;

/// Evaluates the input responses under the active policy, which may have changed since the client was asked.
///
/// # Errors
/// The policy no longer allows what the client was asked for.
pub(crate) fn authorize_responses(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    suspended: Option<&SuspendedCall>,
    recorder: &mut CallRecorder,
) -> Result<(), Refusal> {
    if let Some(suspended) = suspended {
        if !Arc::ptr_eq(&suspended.upstream, &ctx.upstream) {
            let what = "the server was replaced after it asked; send the request without `requestState`";
            return Err(Refusal::Protocol(ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, what)));
        }
        let mut input_requests = suspended.input_requests.iter().filter(|_| !mutant!("resumed-answers-skip-policy"));
        return input_requests.try_for_each(|own| check_input_response_allowed(gw, ctx, &own.method, recorder));
    }
    let has_responses = matches!(
        request.method(),
        Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::TasksUpdate
    );
    if !has_responses || !ctx.forwards_input_responses() {
        return Ok(());
    }
    let answers = request.params().and_then(|params| params.get("inputResponses"));
    let mut methods =
        answers.iter().flat_map(|answers| answers.members()).flat_map(|(_, answer)| possible_methods(answer));
    methods.try_for_each(|method| check_input_response_allowed(gw, ctx, method, recorder))
}

/// Methods that ask for client input, each with a member by which its result can be recognized.
const INPUT_METHODS: [(&str, &str); 3] =
    [("elicitation/create", "action"), ("roots/list", "roots"), ("sampling/createMessage", "role")];

pub(crate) fn is_input_method(method: &str) -> bool {
    INPUT_METHODS.iter().any(|(known, _)| *known == method)
}

/// Returns all methods that an input response could belong to, since responses do not name their method. The policy
/// must allow all of them.
fn possible_methods(answer: JsonValue<'_>) -> Vec<&'static str> {
    let fits = |(_, mark): &&(&str, &str)| answer.get(mark).is_some();
    let matching: Vec<&str> = INPUT_METHODS.iter().filter(fits).map(|(method, _)| *method).collect();
    if matching.is_empty() { INPUT_METHODS.map(|(method, _)| method).to_vec() } else { matching }
}

/// Returns whether the policy allows all input requests in a stateless upstream's response.
pub(crate) async fn are_all_server_requests_allowed(
    gw: &GatewayServices,
    ctx: &RequestContext,
    message: &ReceivedBody,
) -> bool {
    if !ctx.reads_input_requests_in_results() || mutant!("stateless-server-question-skips-policy") {
        return true;
    }
    // Shortcut: most responses do not contain the words.
    if !INPUT_FINDER.can_occur_in(message.outline()) {
        return true;
    }
    match result_text(&message.to_bytes(), &gw.settings.reply_limits) {
        Ok(Some(result)) => are_input_requests_allowed(gw, ctx, &result).await,
        // An error response contains no input requests.
        Ok(None) => true,
        // The client might be able to read what we cannot.
        Err(_) => false,
    }
}

/// Returns whether the client supports, and the policy allows, all input requests in a result or a task.
pub(crate) async fn are_input_requests_allowed(gw: &GatewayServices, ctx: &RequestContext, json: &[u8]) -> bool {
    let Ok(document) = read(json, &gw.settings.reply_limits) else { return false };
    if find_confusable_result_member(document.root()).is_some() {
        return false;
    }
    let Some(wanted) = document.root().get("inputRequests") else { return true };
    let missing = missing_capability(ctx, document.root());
    for (count, (_, wanted)) in wanted.members().enumerate() {
        let method = wanted.get("method").and_then(|method| method.as_str()).unwrap_or_default();
        // An unknown method name is arbitrary text and may contain a secret.
        let known = INPUT_METHODS.iter().map(|(method, _)| *method).find(|known| *known == method.as_ref());
        let why_not = match known.filter(|_| count < MAX_SERVER_REQUESTS_PER_ROUND) {
            Some(_) if let Some(required) = missing => missing_capability_refusal(required),
            Some(known) if is_server_request_allowed(gw, ctx, known).await => continue,
            Some(_) => return false,
            None => Refusal::UnknownReference,
        };
        let mut recorder = gw.new_recorder(ctx);
        recorder.set_method(&ctx.upstream.secret_redactor().redact_text(&method));
        gw.record_refusal(&mut recorder, &why_not).await;
        return false;
    }
    true
}

/// Turns a stateful upstream's error "URL elicitation required" into a result that asks a stateless client to open the
/// URLs. Returns `None` for any other response, or if the policy does not allow elicitation.
///
/// # Errors
/// The client has not declared the capability for URL elicitation.
pub(crate) async fn url_elicitation_result(
    gw: &GatewayServices,
    ctx: &RequestContext,
    message: &ReceivedBody,
) -> Result<Option<String>, UpstreamSendError> {
    let Some(result) = ctx.translate_url_elicitations(message.as_bytes(), &gw.settings.reply_limits) else {
        return Ok(None);
    };
    let lacks = read(result.as_bytes(), &gw.settings.reply_limits)
        .ok()
        .and_then(|result| missing_capability(ctx, result.root()));
    if let Some(required) = lacks {
        return Err(UpstreamSendError::MissingCapability {
            action: MISSING_CAPABILITY_ACTION,
            required_capability: required,
        });
    }
    let may_ask = is_server_request_allowed(gw, ctx, Method::Elicit.name()).await;
    Ok(may_ask.then(|| ctx.upstream.secret_redactor().redact_json(result)))
}
