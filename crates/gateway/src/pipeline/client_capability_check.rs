//! Blocks tasks and input requests for which the client has not declared support. Servers that respect the declared
//! capabilities are not affected.

use std::sync::LazyLock;

use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{
    ClientCapabilities, ClientRequest, CreatedTask, Method, ProtocolGeneration, Revision, ServerMessage, ServerRequest,
    ServerResponseOffsets, ServerResponsePayload, TASKS_CAPABILITY_JSON, code, find_created_task, read_server_message,
};
use gatelodge_mutants::mutant;
use gatelodge_policy::AllowTerms;
use gatelodge_store::CallOutcome;
use http::StatusCode;
use memchr::memmem::Finder;

use super::reserve;
use crate::body::ReceivedBody;
use crate::refusal::Refusal;
use crate::request_context::{ClientProtocol, ProtocolTranslation, RequestContext};
use crate::services::GatewayServices;
use crate::upstream::{Permit, StatelessHeaders, UpstreamRequest, UpstreamSendError};
use crate::upstream_session::own_request::await_own_response;
use crate::upstream_session::protocol_probe::GATEWAY_META_WITH_TASKS;

impl RequestContext {
    fn client_capabilities(&self) -> ClientCapabilities {
        match &self.client_protocol {
            ClientProtocol::Stateful(session) => {
                session.as_ref().map(|session| session.negotiated.client_capabilities).unwrap_or_default()
            }
            ClientProtocol::Stateless(stateless) => stateless.client_capabilities,
        }
    }
}

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
/// The response contains such a task or input request.
pub(crate) fn check_response(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    message: &ReceivedBody,
    spans: &ServerResponseOffsets,
) -> Result<(), UpstreamSendError> {
    // Shortcut: most responses do not contain the words.
    let has_words = match message {
        ReceivedBody::Whole(text) => {
            spans.without_longest_string(text).iter().any(|part| TASK_OR_INPUT_FINDER.can_occur_in(part))
        }
        ReceivedBody::Segmented(..) => TASK_OR_INPUT_FINDER.can_occur_in(message.outline()),
    };
    if !has_words {
        return Ok(());
    }
    let Ok(ServerMessage::Response(reply)) = read_server_message(message.as_bytes(), &gw.settings.reply_limits) else {
        return Ok(());
    };
    let ServerResponsePayload::Result(result) = reply.payload() else { return Ok(()) };
    if let Some((generation, task)) =
        find_task_in_reply(ctx, request, result).filter(|(generation, _)| !accepts_task(ctx, request, *generation))
    {
        let is_known_there = (generation == ProtocolGeneration::Stateful) == ctx.upstream_session().is_some();
        if is_known_there {
            gw.cancel_task(ctx, &task.id);
        }
        if ctx.translation() != ProtocolTranslation::None && !mutant!("untranslatable-task-unexplained") {
            return Err(UpstreamSendError::InvalidResponse(TASK_NOT_TRANSLATED_MESSAGE.to_owned()));
        }
        return Err(UpstreamSendError::MissingCapability {
            action: "returned a task to a client that has not declared tasks",
            required_capability: TASKS_CAPABILITY_JSON,
        });
    }
    if ctx.generation() == ProtocolGeneration::Stateful && ctx.translation() == ProtocolTranslation::None {
        // A stateful server sends requests instead.
        return Ok(());
    }
    let document = read(result.as_bytes(), &gw.settings.reply_limits)
        .map_err(|_| UpstreamSendError::InvalidResponse("the server's response cannot be read".to_owned()))?;
    match missing_capability(ctx, document.root()) {
        Some(required) => Err(UpstreamSendError::MissingCapability {
            action: MISSING_CAPABILITY_ACTION,
            required_capability: required,
        }),
        None => Ok(()),
    }
}

/// Error message for a server that returns a task although the gateway declared no support for tasks.
const TASK_NOT_TRANSLATED_MESSAGE: &str =
    "the server returned a task; tasks are not translated between the stateful and the stateless protocol";

/// Returns the task that a tool call created, and its protocol generation. Results of other methods, and of sessions
/// with a revision that has no tasks, may use the same member names with other meanings.
fn find_task_in_reply(
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    result: &str,
) -> Option<(ProtocolGeneration, CreatedTask)> {
    if *request.method() != Method::ToolsCall && !mutant!("any-result-creates-task") {
        return None;
    }
    let is_before = ctx.upstream_session().is_some_and(|session| session.revision() < Revision::R2025_11_25);
    let generations = [ProtocolGeneration::Stateful, ProtocolGeneration::Stateless]
        .into_iter()
        .filter(|generation| *generation == ProtocolGeneration::Stateless || !is_before);
    generations.into_iter().find_map(|generation| Some((generation, find_created_task(result, generation)?)))
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

/// Finds `taskId` and `input_required`. A response that contains neither creates no task and asks for no input.
static TASK_OR_INPUT_FINDER: LazyLock<JsonWordFinder> =
    LazyLock::new(|| JsonWordFinder::new(&["taskId", "input_required"]));
/// Finds `input_required`. A response that does not contain it asks for no input.
pub(crate) static INPUT_FINDER: LazyLock<JsonWordFinder> = LazyLock::new(|| JsonWordFinder::new(&["input_required"]));

/// Searches JSON messages for words, which may be written with escapes.
pub(crate) struct JsonWordFinder {
    words: Vec<Finder<'static>>,
    /// Start of an escaped ASCII character.
    escape: Finder<'static>,
}

impl JsonWordFinder {
    fn new(words: &[&'static str]) -> Self {
        Self { words: words.iter().map(|word| Finder::new(*word)).collect(), escape: Finder::new("\\u00") }
    }

    /// Returns whether a message may contain one of the words, with or without escapes.
    pub fn can_occur_in(&self, text: &[u8]) -> bool {
        let is_letter = |at: usize| text.get(at + 4).is_some_and(|digit| (b'2'..=b'7').contains(digit));
        self.words.iter().any(|word| word.find(text).is_some()) || self.escape.find_iter(text).any(is_letter)
    }
}

/// Returns whether the client accepts a task of this protocol generation. A stateful client asks for a task in the
/// call. Tasks are not translated between generations.
fn accepts_task(ctx: &RequestContext, request: &ClientRequest<'_>, generation: ProtocolGeneration) -> bool {
    let has_asked = match generation {
        ProtocolGeneration::Stateful => request.params().and_then(|params| params.get("task")).is_some(),
        ProtocolGeneration::Stateless => ctx.client_capabilities().has_tasks(),
    };
    (has_asked || mutant!("undeclared-task-forwarded"))
        && generation == ctx.generation()
        && ctx.translation() == ProtocolTranslation::None
}

impl GatewayServices {
    /// Cancels a task upstream, in the background.
    fn cancel_task(&self, ctx: &RequestContext, task: &str) {
        let Some(gw) = self.arc_self() else { return };
        let (own, ctx, task) = (std::sync::Arc::clone(&gw), ctx.clone(), task.to_owned());
        gw.tasks.spawn(async move {
            let mut recorder = own.new_recorder(&ctx);
            recorder.set_method(Method::TasksCancel.name());
            recorder.set_subject(&ctx, Some(&task), None);
            // Nothing is sent without an intent row, not even requests of our own.
            let reserved = match reserve(&own, &ctx, &AllowTerms::default(), &mut recorder).await {
                Ok(reserved) => reserved,
                Err(refusal) => return own.record_refusal(&mut recorder, &refusal).await,
            };
            let call = recorder.call_id();
            let permit = Permit::with_proof(&reserved, cancel_request(&ctx, &task, call));
            let sending = async {
                let mut exchange = own.upstream_client.send(&ctx.upstream, permit).await?;
                await_own_response(&own, &mut exchange, call).await
            };
            let sent = tokio::time::timeout(own.settings.connect_timeout * 2, sending).await;
            match sent.unwrap_or(Err(UpstreamSendError::Timeout)) {
                Ok(_) => own.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await,
                Err(error) => {
                    let outcome = error.outcome();
                    own.write_row(recorder.failure_row(&Refusal::Upstream(error), outcome)).await;
                }
            }
        });
    }
}

/// Builds `tasks/cancel` for the server's protocol generation, with the gateway's own metadata.
fn cancel_request(ctx: &RequestContext, task: &str, call: gatelodge_store::CallId) -> UpstreamRequest {
    let (method, id) = (Method::TasksCancel.name(), to_json_string(task));
    let is_in_session = ctx.upstream_session().is_some();
    let meta = if is_in_session { String::new() } else { format!(",\"_meta\":{GATEWAY_META_WITH_TASKS}") };
    let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{method}","params":{{"taskId":{id}{meta}}}}}"#);
    let outgoing = UpstreamRequest::request(text, call);
    if is_in_session {
        return ctx.message_for_upstream(outgoing);
    }
    UpstreamRequest {
        revision: Some(Revision::R2026_07_28),
        stateless_headers: Some(StatelessHeaders { method: method.to_owned(), name: Some(task.to_owned()) }),
        ..outgoing
    }
}
