//! Passes input requests of a server to a client of another protocol generation. A stateless client receives them in
//! the response to its own request, a stateful client during the call.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::translate::{ClientInputResponses, to_json_string, with_members, without_members};
use gatelodge_mcp::{
    ClientMessage, ClientRequest, ClientResponsePayload, Method, RequestId, ServerMessage, code,
    find_confusable_result_member, read_client_message, read_server_message, result_response,
};
use gatelodge_mutants::mutant;
use gatelodge_store::CallId;
use http::StatusCode;
use tokio::sync::oneshot;

use super::client_capability_check::{MISSING_CAPABILITY_ACTION, missing_capability, missing_capability_refusal};
use super::server_message_filter::{check_input_response_allowed, is_server_request_allowed};
use super::{ForwardContext, MAX_SERVER_REQUESTS_PER_ROUND, rewrite_for_upstream, wait_or_cancel};
use crate::body::ReceivedBody;
use crate::body::json_word_finder::INPUT_FINDER;
use crate::call_recorder::CallRecorder;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::ClientResponseDestination;
use crate::suspended_calls::{ClientInputRequest, SuspendedCall, SuspendedCallBinding};
use crate::upstream::{Permit, UpstreamRequest, UpstreamResponse, UpstreamSendError, UpstreamSessionLink};
use crate::upstream_session::call_cancellation::{cancel_suspended_call, decline_server_requests};
use crate::upstream_session::own_request::{result_text, send_one_way};

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
    if !ctx.passes_server_requests_in_response() {
        return Ok(None);
    }
    let Some(result) = parse_url_elicitations(message.as_bytes(), &gw.settings.reply_limits) else { return Ok(None) };
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

/// Returns the elicitations in the error, as a result with input requests.
fn parse_url_elicitations(message: &[u8], limits: &JsonLimits) -> Option<String> {
    let Ok(ServerMessage::Response(reply)) = read_server_message(message, limits) else { return None };
    let error = reply.error().filter(|error| error.code == code::URL_ELICITATION_REQUIRED.to_string())?;
    let document = read(error.data?.as_bytes(), limits).ok()?;
    let pages = document.root().get("elicitations")?;
    let pages: Vec<String> = pages
        .elements()
        .enumerate()
        .map(|(at, page)| {
            let params = without_members(page, &["elicitationId"]);
            format!(r#""page-{}":{{"method":"{}","params":{params}}}"#, at + 1, Method::Elicit.name())
        })
        .collect();
    let result = format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, pages.join(","));
    (!pages.is_empty()).then_some(result)
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
    let params = params.map(|params| format!(r#","params":{}"#, to_stateful_params(params, &id))).unwrap_or_default();
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

/// Adapts parameters to the stateful protocol, in which a URL elicitation has an id.
fn to_stateful_params(params: JsonValue<'_>, id: &str) -> String {
    let is_page = params.get("mode").is_some_and(|mode| mode.is_str("url"));
    if is_page {
        with_members(params.raw(), &[("elicitationId", &to_json_string(id))])
    } else {
        params.raw().to_owned()
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
    let mut outgoing = rewrite_for_upstream(ctx, request, call, about);
    let text = std::mem::take(&mut outgoing.body).into_bytes();
    let text = ctx.session()?.negotiated.to_stateless_request(str::from_utf8(&text).ok()?, Some(&retry))?;
    outgoing.body = text.into();
    Some(outgoing)
}
