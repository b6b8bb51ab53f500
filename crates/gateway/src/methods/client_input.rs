//! Questions of an upstream to a client of the other era: asked by the answer to its request, or in the middle of it.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::translate::{RetryInput, to_json_string, with_members, without_members};
use gatelodge_mcp::{
    ClientMessage, ClientRequest, ClientResponsePayload, Method, ProtocolGeneration, RequestId, ServerMessage as Said,
    code, error_response, read_client_message, read_server_message, result_response,
};
use gatelodge_mutants::mutant;
use gatelodge_store::CallId;
use http::StatusCode;
use tokio::sync::oneshot;

use super::capability_check::{
    INPUT_FINDER, UNDECLARED_SERVER_REQUEST_MESSAGE, missing_capability, undeclared_refusal,
};
use super::unsolicited_messages::{may_be_answered, may_be_asked, send_one_way};
use crate::Gateway;
use crate::body_buffer::ReceivedBody;
use crate::http_server::responder::Responder;
use crate::pipeline::{
    Bond, CallRecorder, ForwardContext, MAX_SERVER_REQUESTS_PER_ROUND, Paused, Permit, Question, Refusal, result_text,
    rewrite_for_upstream, wait_or_cancel,
};
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::session::{ServerRequestOrigin, Session};
use crate::upstream::{SendError, Upstream, UpstreamLink, UpstreamRequest, UpstreamResponse};

/// A call in whose middle the upstream asks its client.
pub(crate) fn build_suspended_call(
    forward_ctx: &ForwardContext<'_>,
    link_epoch: u64,
    asked: &[Bytes],
    exchange: UpstreamResponse,
    (bond, trail): (Bond, CallRecorder),
) -> Option<Paused> {
    let ForwardContext { gw, ctx, call, .. } = forward_ctx;
    let mut questions = Vec::new();
    for message in asked {
        let Ok(Said::Request(question)) = read_server_message(message, &gw.settings.reply_limits) else { return None };
        questions.push(Question::new(&questions, &question, ctx.upstream.secret_redactor()));
    }
    Some(Paused {
        exchange,
        call: *call,
        questions,
        upstream: Arc::clone(&ctx.upstream),
        session: Arc::clone(ctx.upstream_session()?),
        links: link_epoch,
        _held: ctx.upstream_session()?.mark_in_use(),
        turn: ctx.exclusive_session().cloned(),
        room: None,
        bond,
        trail,
    })
}

/// Keeps it, and gives the result that asks its client.
///
/// # Errors
/// It cannot be kept, and was cancelled.
pub(crate) fn suspend(gw: &Gateway, suspended: Paused) -> Result<String, SendError> {
    gw.suspended_calls.keep(suspended, gw.settings.client_answer_time).map_err(|suspended| {
        gw.cancel_suspended_call(*suspended);
        SendError::InvalidResponse("the client cannot be asked".to_owned())
    })
}

/// Declines questions that the client was to be asked, had its call not ended before.
pub(crate) fn decline_unasked(forward_ctx: &ForwardContext<'_>, link: &UpstreamLink, asked: &[Bytes]) {
    let ForwardContext { gw, ctx, .. } = forward_ctx;
    let (Some(gw), Some(session)) = (gw.arc_self(), ctx.upstream_session().cloned()) else { return };
    let id = |message: &Bytes| match read_server_message(message, &gw.settings.reply_limits) {
        Ok(Said::Request(question)) => Some(question.id().clone().into_owned()),
        _ => None,
    };
    let ids: Vec<RequestId<'static>> = asked.iter().filter_map(id).collect();
    let (task, link, ctx) = (Arc::clone(&gw), link.clone(), (*ctx).clone());
    // With the visit its turn is kept until then.
    gw.spawn(async move { task.decline_server_requests(&ctx.upstream, &session, &link, ids).await });
}

/// Whether a client answers before it is asked.
pub(crate) fn has_input_responses(request: &ClientRequest<'_>) -> bool {
    request.params().and_then(|params| params.get("inputResponses")).is_some_and(|said| said.kind() == JsonKind::Object)
}

/// Judges what a client answers by the policy in force: it may be another one than when it was asked.
///
/// # Errors
/// What it was asked must not be asked any more.
pub(crate) fn authorize_responses(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    suspended: Option<&Paused>,
    recorder: &mut CallRecorder,
) -> Result<(), Refusal> {
    if let Some(suspended) = suspended {
        if !Arc::ptr_eq(&suspended.upstream, &ctx.upstream) {
            let what = "the server is another one than when it asked; send the request without its state";
            return Err(Refusal::Protocol(ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, what)));
        }
        let mut questions = suspended.questions.iter().filter(|_| !mutant!("resumed-answers-skip-policy"));
        return questions.try_for_each(|own| may_be_answered(gw, ctx, &own.method, recorder));
    }
    let brings_answers = matches!(
        request.method(),
        Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::TasksUpdate
    );
    if !brings_answers
        || ctx.generation() != ProtocolGeneration::Stateless
        || ctx.translation() != ProtocolTranslation::None
    {
        return Ok(());
    }
    let answers = request.params().and_then(|params| params.get("inputResponses"));
    let mut methods =
        answers.iter().flat_map(|answers| answers.members()).flat_map(|(_, answer)| possible_methods(answer));
    methods.try_for_each(|method| may_be_answered(gw, ctx, method, recorder))
}

/// What a client can be asked, with what tells its answer.
const INPUT_METHODS: [(&str, &str); 3] =
    [("elicitation/create", "action"), ("roots/list", "roots"), ("sampling/createMessage", "role")];

/// Whether a method asks the client for input.
pub(super) fn is_input_method(method: &str) -> bool {
    INPUT_METHODS.iter().any(|(known, _)| *known == method)
}

/// By which methods a client may have been asked that answers so: answers do not say it. What could be several has to be
/// allowed by each, and what could be any by all.
fn possible_methods(answer: JsonValue<'_>) -> Vec<&'static str> {
    let fits = |(_, mark): &&(&str, &str)| answer.get(mark).is_some();
    let matching: Vec<&str> = INPUT_METHODS.iter().filter(fits).map(|(method, _)| *method).collect();
    if matching.is_empty() { INPUT_METHODS.map(|(method, _)| method).to_vec() } else { matching }
}

/// Whether an answer of an upstream without sessions asks its client only what the policy lets it ask.
pub(crate) async fn are_all_server_requests_allowed(
    gw: &Gateway,
    ctx: &RequestContext,
    message: &ReceivedBody,
) -> bool {
    if ctx.generation() != ProtocolGeneration::Stateless || mutant!("stateless-server-question-skips-policy") {
        return true;
    }
    // Most answers do not have the word in them at all.
    if !INPUT_FINDER.can_occur_in(message.outline()) {
        return true;
    }
    match result_text(&message.to_bytes(), &gw.settings.reply_limits) {
        Ok(Some(result)) => are_input_requests_allowed(gw, ctx, &result).await,
        // An error asks nothing.
        Ok(None) => true,
        // What we cannot read, the client might.
        Err(_) => false,
    }
}

/// Whether what an upstream says, a result or a task, asks the client only what it can be asked and the policy lets it.
pub(super) async fn are_input_requests_allowed(gw: &Gateway, ctx: &RequestContext, said: &[u8]) -> bool {
    let Ok(document) = read(said, &gw.settings.reply_limits) else { return false };
    let Some(wanted) = document.root().get("inputRequests") else { return true };
    let lacking = missing_capability(ctx, document.root());
    for (count, (_, wanted)) in wanted.members().enumerate() {
        let method = wanted.get("method").and_then(|method| method.as_str()).unwrap_or_default();
        // A name that is none of these may be anything, our secret, too.
        let known = INPUT_METHODS.iter().map(|(method, _)| *method).find(|known| *known == method.as_ref());
        let why_not = match known.filter(|_| count < MAX_SERVER_REQUESTS_PER_ROUND) {
            Some(_) if let Some(required) = lacking => undeclared_refusal(required),
            Some(known) if may_be_asked(gw, ctx, known).await => continue,
            Some(_) => return false,
            None => Refusal::UnknownReference,
        };
        let mut recorder = CallRecorder::for_request(ctx, gw.new_call_id(), gw.clock.now());
        recorder.set_method(&ctx.upstream.secret_redactor().redact_text(&method));
        gw.record_refusal(&mut recorder, &why_not).await;
        return false;
    }
    true
}

/// Tells the upstream what the client says, and gives the exchange to go on with. What the client does not answer, it is
/// asked again, by the text that is given then.
pub(crate) async fn deliver_responses(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut suspended: Paused,
    responder: &mut Responder,
) -> Result<Result<UpstreamResponse, String>, SendError> {
    let link = suspended.session.upstream_link();
    // Another opening has asked nothing, or something else by the same ids.
    if suspended.session.link_epoch() != suspended.links {
        gw.cancel_suspended_call(suspended);
        return Err(SendError::SessionExpired);
    }
    let mut open = Vec::new();
    let mut questions = std::mem::take(&mut suspended.questions).into_iter();
    while let Some(question) = questions.next() {
        let Some(said) = question.answer(request) else {
            open.push(question);
            continue;
        };
        let mut outgoing = ctx.message_for_upstream(UpstreamRequest::notification(result_response(&question.id, said)));
        outgoing.session_link = link.clone();
        if let Err(error) = send_one_way(gw, ctx, Permit::for_server_request_response(&question.id, outgoing)).await {
            // Its server waits for what it cannot be told, and nobody can come again.
            suspended.questions = open.into_iter().chain([question]).chain(questions).collect();
            gw.cancel_suspended_call(suspended);
            return Err(error);
        }
    }
    if open.is_empty() {
        return Ok(Ok(suspended.exchange));
    }
    suspended.questions = open;
    suspended.room = responder.take_in_flight_guard();
    Ok(Err(result_response(request.id(), &suspend(gw, suspended)?)))
}

/// What an upstream wants to know before it answers, where the client is asked by us; none for an answer.
///
/// # Errors
/// It wants something and does not say what: sending the same again would only repeat the call.
pub(crate) fn required_input(
    ctx: &RequestContext,
    message: &ReceivedBody,
    limits: &JsonLimits,
) -> Result<Option<String>, SendError> {
    if ctx.translation() != ProtocolTranslation::ToStateless {
        return Ok(None);
    }
    let Ok(Some(result)) = result_text(&message.to_bytes(), limits) else { return Ok(None) };
    let Ok(document) = read(&result, limits) else { return Ok(None) };
    let root = document.root();
    if !root.get("resultType").is_some_and(|kind| kind.is_str("input_required")) {
        return Ok(None);
    }
    let asks = root.get("inputRequests").is_some_and(|asked| asked.members().next().is_some());
    let has_state = root.get("requestState").is_some_and(|state| state.kind() == JsonKind::String);
    if !asks && !has_state {
        let what = "the server wants something of the client and does not say what";
        return Err(SendError::InvalidResponse(what.to_owned()));
    }
    Ok(Some(ctx.upstream.secret_redactor().redact_json(document.text().to_owned())))
}

/// What an upstream with a session says of pages that the user has to visit before the call is repeated, as the result
/// that asks a client without one; none for any other answer, and where the policy does not let it ask.
///
/// # Errors
/// The client has not declared that it can be asked so.
pub(crate) async fn url_elicitation_result(
    gw: &Gateway,
    ctx: &RequestContext,
    message: &ReceivedBody,
) -> Result<Option<String>, SendError> {
    if ctx.translation() != ProtocolTranslation::ToStateful {
        return Ok(None);
    }
    let Some(result) = parse_url_elicitations(message.as_bytes(), &gw.settings.reply_limits) else { return Ok(None) };
    let lacks = read(result.as_bytes(), &gw.settings.reply_limits)
        .ok()
        .and_then(|result| missing_capability(ctx, result.root()));
    if let Some(required) = lacks {
        return Err(SendError::MissingCapability {
            action: UNDECLARED_SERVER_REQUEST_MESSAGE,
            required_capability: required,
        });
    }
    let may_ask = may_be_asked(gw, ctx, Method::Elicit.name()).await;
    Ok(may_ask.then(|| ctx.upstream.secret_redactor().redact_json(result)))
}

/// The pages that an error names, as a result asks for them.
fn parse_url_elicitations(message: &[u8], limits: &JsonLimits) -> Option<String> {
    let Ok(Said::Response(reply)) = read_server_message(message, limits) else { return None };
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

/// What a client answers, as the upstream wants it.
pub(crate) struct InputResponses {
    responses: String,
    request_state: Option<String>,
}

/// Asks the client everything that the upstream wants to know, one after the other.
///
/// None if the client wants no answer any more.
///
/// # Errors
/// The policy or the client will not have it.
pub(crate) async fn ask_client(
    gw: &Gateway,
    ctx: &RequestContext,
    result: &str,
    responder: &mut Responder,
) -> Result<Option<InputResponses>, SendError> {
    let unusable = |what: &str| SendError::InvalidResponse(what.to_owned());
    let document =
        read(result.as_bytes(), &gw.settings.reply_limits).map_err(|_| unusable("the answer cannot be read"))?;
    let state = document.root().get("requestState").map(|state| state.raw().to_owned());
    let forward_ctx = ForwardContext {
        gw,
        ctx,
        call: gw.new_call_id(),
        // Nothing is heard of the server meanwhile.
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
        if !is_input_method(&method) || !may_be_asked(gw, ctx, &method).await {
            return Err(unusable("the server asks what the client is not asked"));
        }
        let Some(said) = send_server_request(&forward_ctx, &method, wanted.get("params"), responder).await? else {
            return Ok(None);
        };
        responses.push(format!("{}:{said}", key.raw()));
    }
    Ok(Some(InputResponses { responses: format!("{{{}}}", responses.join(",")), request_state: state }))
}

/// Asks one thing in the middle of a call, and gives the result as JSON.
async fn send_server_request(
    forward_ctx: &ForwardContext<'_>,
    method: &str,
    params: Option<JsonValue<'_>>,
    responder: &mut Responder,
) -> Result<Option<String>, SendError> {
    let unusable = |what: &str| SendError::InvalidResponse(what.to_owned());
    let session = forward_ctx.ctx.session().ok_or_else(|| unusable("the client has no session"))?;
    let (waiting, answer) = oneshot::channel();
    let id = session
        .server_requests
        .register(ServerRequestOrigin::Call(waiting))
        .ok_or_else(|| unusable("the client cannot be asked"))?;
    let params = params.map(|params| format!(r#","params":{}"#, to_stateful_params(params, &id))).unwrap_or_default();
    responder.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}"{params}}}"#)).await;
    let Some(answer) = wait_or_cancel(forward_ctx, responder, std::pin::pin!(answer)).await else { return Ok(None) };
    let answer = answer.map_err(|_| unusable("the client did not answer"))?;
    let read = read_client_message(&answer, &forward_ctx.gw.settings.request_limits);
    match read {
        Ok(ClientMessage::Response(said)) => match said.payload() {
            ClientResponsePayload::Result(result) => Ok(Some(result.raw().to_owned())),
            // What a client says that will not be asked.
            ClientResponsePayload::Error(_) if method == "elicitation/create" => {
                Ok(Some(r#"{"action":"cancel"}"#.to_owned()))
            }
            ClientResponsePayload::Error(_) => Err(unusable("the client will not be asked")),
        },
        _ => Err(unusable("the client's answer cannot be read")),
    }
}

/// A question as one with a session is asked: there, a page that the user has to visit has an id.
fn to_stateful_params(params: JsonValue<'_>, id: &str) -> String {
    let is_page = params.get("mode").is_some_and(|mode| mode.is_str("url"));
    if is_page {
        with_members(params.raw(), &[("elicitationId", &to_json_string(id))])
    } else {
        params.raw().to_owned()
    }
}

/// The request once more, with what the client answers.
pub(crate) fn rebuild_with_responses(
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    call: CallId,
    about: Option<&str>,
    answers: &InputResponses,
) -> Option<UpstreamRequest> {
    let retry = RetryInput { input_responses: &answers.responses, request_state: answers.request_state.as_deref() };
    let mut outgoing = rewrite_for_upstream(ctx, request, call, about);
    let text = std::mem::take(&mut outgoing.body).into_bytes();
    let text = ctx.session()?.to_stateless_request(str::from_utf8(&text).ok()?, Some(&retry))?;
    outgoing.body = text.into();
    Some(outgoing)
}

impl Gateway {
    /// Ends the calls whose clients did not come again.
    pub(crate) fn expire_suspended_calls(&self) {
        self.suspended_calls.overdue().into_iter().for_each(|suspended| self.cancel_suspended_call(suspended));
    }

    /// Whether one more call of a grant may wait for its client. Where as many wait as may, the one that waits for longest
    /// gives way, if most likely nobody comes.
    pub(crate) fn can_suspend_call(&self, ctx: &RequestContext) -> bool {
        if !self.suspended_calls.has_room(ctx) {
            self.evict_suspended_call(|suspended| suspended.is_of(&ctx.grant.config.id));
        }
        self.suspended_calls.has_room(ctx)
    }

    /// Ends the call that waits for longest among some, if it has waited long enough. Whether there is one.
    pub(crate) fn evict_suspended_call(&self, is_one: impl Fn(&Paused) -> bool) -> bool {
        let suspended = self.suspended_calls.give_way(self.settings.client_answer_time, is_one);
        suspended.map(|suspended| self.cancel_suspended_call(suspended)).is_some()
    }

    /// Ends a call that nobody goes on with, and writes that down. Nobody waits until its server has heard of it.
    pub(crate) fn cancel_suspended_call(&self, suspended: Paused) {
        let Some(gw) = self.arc_self() else { return };
        let task = Arc::clone(&gw);
        gw.spawn(async move {
            let Paused {
                call,
                upstream,
                session,
                links: link_epoch,
                exchange,
                questions,
                turn: exclusive_session,
                mut trail,
                ..
            } = suspended;
            task.write_row(trail.abandoned_row()).await;
            let link = exchange.session_link.clone();
            drop(exchange);
            if session.link_epoch() == link_epoch {
                task.notify_cancelled(&upstream, &session, call).await;
            }
            let ids = questions.into_iter().map(|question| question.id).collect();
            task.decline_server_requests(&upstream, &session, &link, ids).await;
            drop(exclusive_session);
        });
    }

    /// Tells an upstream that nobody answers what it asked, where it asked it. One that does not heed that its call was
    /// cancelled would wait for ever, and where all share a line, others are asked for in the same place.
    async fn decline_server_requests(
        &self,
        upstream: &Upstream,
        session: &Session,
        link: &UpstreamLink,
        ids: Vec<RequestId<'static>>,
    ) {
        if !matches!(link, UpstreamLink::Process(_) | UpstreamLink::Sse(_)) {
            return;
        }
        for id in ids {
            let words = "nobody answers this any more; its call has ended";
            let mut outgoing =
                UpstreamRequest::notification(error_response(Some(&id), code::INTERNAL_ERROR, words, None));
            outgoing.session_link = link.clone();
            outgoing.revision = session.protocol_version_header();
            let sending = self.upstream_client.send(upstream, Permit::for_server_request_response(&id, outgoing));
            let _ = tokio::time::timeout(self.settings.connect_time, sending).await;
        }
    }

    /// Tells an upstream with a session that nobody waits for a call any more.
    pub(crate) async fn notify_cancelled(&self, upstream: &Upstream, session: &Session, call: CallId) {
        // The others hear it when the exchange is dropped; over HTTP that is a bad line.
        if !matches!(session.upstream_link(), UpstreamLink::Http(_) | UpstreamLink::NoSession) {
            return;
        }
        let mut outgoing = UpstreamRequest::notification(cancelled_notification(call.as_str()));
        outgoing.session_link = session.upstream_link();
        outgoing.revision = session.protocol_version_header();
        if let Some(permit) = Permit::for_always_allowed(Method::Cancelled.name(), outgoing) {
            let sending = self.upstream_client.send(upstream, permit);
            let _ = tokio::time::timeout(self.settings.connect_time, sending).await;
        }
    }
}

/// The client hung up, which is how requests that stand alone are cancelled.
pub(crate) async fn cancel_after_hang_up(gw: &Gateway, ctx: &RequestContext, call: CallId) {
    if let (ProtocolTranslation::ToStateful, Some(session)) = (ctx.translation(), ctx.upstream_session()) {
        gw.notify_cancelled(&ctx.upstream, session, call).await;
    }
}

/// Nobody waits any more for what was sent, though the client did not say so. Nor does anybody wait until an upstream with
/// a session has heard of it.
pub(crate) fn cancel_in_background(gw: &Gateway, ctx: &RequestContext, call: CallId) {
    let (Some(gw), Some(session)) = (gw.arc_self(), ctx.upstream_session().cloned()) else { return };
    let (task, upstream) = (Arc::clone(&gw), Arc::clone(&ctx.upstream));
    gw.spawn(async move { task.notify_cancelled(&upstream, &session, call).await });
}

/// What is said to an upstream that need not go on with a call.
pub(crate) fn cancelled_notification(call: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{call}"}}}}"#)
}
