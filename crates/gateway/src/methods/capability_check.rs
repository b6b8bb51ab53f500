//! What a server gives or asks though its client has not declared that it takes it: it goes no further than here. A
//! server that goes by what clients declare never meets this.

use std::sync::LazyLock;

use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{
    ClientCapabilities, ClientRequest, CreatedTask, Method, ProtocolGeneration, Revision, ServerMessage as Said,
    ServerRequest, ServerResponsePayload, ServerResponseSpans, TASKS_CAPABILITY_JSON, code, find_created_task,
    read_server_message,
};
use gatelodge_mutants::mutant;
use gatelodge_policy::Terms;
use gatelodge_store::CallOutcome;
use http::StatusCode;
use memchr::memmem::Finder;

use super::protocol_probe::GATEWAY_META_WITH_TASKS;
use crate::Gateway;
use crate::body_buffer::ReceivedBody;
use crate::pipeline::{CallRecorder, Permit, Refusal, await_own_response, reserve};
use crate::request_context::{ClientProtocol, ProtocolTranslation, RequestContext};
use crate::session::Session;
use crate::upstream::{SendError, StatelessHeaders, UpstreamRequest};

impl RequestContext {
    /// What the client has declared.
    fn client_capabilities(&self) -> ClientCapabilities {
        match &self.client_protocol {
            ClientProtocol::Stateful(session) => {
                session.as_ref().map(|session| Session::client_capabilities(session)).unwrap_or_default()
            }
            ClientProtocol::Stateless(stateless) => stateless.client_capabilities,
        }
    }
}

/// Whether the client has declared that it can be asked what a server with a session asks.
///
/// # Errors
/// It has not.
pub(super) fn check_server_request_declared(ctx: &RequestContext, asked: &ServerRequest<'_>) -> Result<(), Refusal> {
    let document = asked.params().and_then(|params| read(params.as_bytes(), &JsonLimits::REPLY).ok());
    let params = document.as_ref().map(|document| document.root());
    let lacking = ctx.client_capabilities().missing_capability(asked.method().name(), params);
    let lacking = lacking.filter(|_| !mutant!("undeclared-question-forwarded"));
    lacking.map_or(Ok(()), |required| Err(undeclared_refusal(required)))
}

/// What is written of a question that goes no further.
pub(super) fn undeclared_refusal(required: &str) -> Refusal {
    let what = format!("the client has not declared that it can be asked so: {required}");
    Refusal::Protocol(ProtocolError::new(StatusCode::OK, code::METHOD_NOT_FOUND, &what))
}

/// Holds that an answer gives no task and asks nothing that the client has not declared. A task that nobody can ask for
/// is cancelled.
///
/// # Errors
/// It does.
pub(super) fn check_response(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    message: &ReceivedBody,
    places: &ServerResponseSpans,
) -> Result<(), SendError> {
    // Most answers do not have the words in them at all.
    let has_words = match message {
        ReceivedBody::Whole(text) => {
            places.without_longest_string(text).iter().any(|part| TASK_OR_INPUT_FINDER.can_occur_in(part))
        }
        ReceivedBody::Segmented(..) => TASK_OR_INPUT_FINDER.can_occur_in(message.outline()),
    };
    if !has_words {
        return Ok(());
    }
    let Ok(Said::Response(reply)) = read_server_message(message.as_bytes(), &gw.settings.reply_limits) else {
        return Ok(());
    };
    let ServerResponsePayload::Result(result) = reply.payload() else { return Ok(()) };
    if let Some((generation, task)) =
        find_task_in_reply(ctx, request, result).filter(|(era, _)| !accepts_task(ctx, request, *era))
    {
        let is_known_there = (generation == ProtocolGeneration::Stateful) == ctx.upstream_session().is_some();
        if is_known_there {
            gw.cancel_task(ctx, &task.id);
        }
        if ctx.translation() != ProtocolTranslation::None && !mutant!("untranslatable-task-unexplained") {
            return Err(SendError::InvalidResponse(TASK_NOT_TRANSLATED_MESSAGE.to_owned()));
        }
        return Err(SendError::MissingCapability {
            action: "gives a task to a client that has not declared it",
            required_capability: TASKS_CAPABILITY_JSON,
        });
    }
    if ctx.generation() == ProtocolGeneration::Stateful && ctx.translation() == ProtocolTranslation::None {
        // It asks by requests of its own.
        return Ok(());
    }
    let document = read(result.as_bytes(), &gw.settings.reply_limits)
        .map_err(|_| SendError::InvalidResponse("the server's answer cannot be read".to_owned()))?;
    match missing_capability(ctx, document.root()) {
        Some(required) => Err(SendError::MissingCapability {
            action: UNDECLARED_SERVER_REQUEST_MESSAGE,
            required_capability: required,
        }),
        None => Ok(()),
    }
}

/// Of a server that gives a task though nobody who could be given one was named to it.
const TASK_NOT_TRANSLATED_MESSAGE: &str =
    "the server gives a task, and tasks are not carried between revisions with sessions and those without";

/// The task that a call of a tool has made, and of which era it is. Results of other methods may call anything so, and
/// so may sessions of before there were tasks.
fn find_task_in_reply(
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    result: &str,
) -> Option<(ProtocolGeneration, CreatedTask)> {
    if *request.method() != Method::ToolsCall && !mutant!("any-result-creates-task") {
        return None;
    }
    let is_before = ctx.upstream_session().is_some_and(|session| session.revision() < Revision::R2025_11_25);
    let eras = [ProtocolGeneration::Stateful, ProtocolGeneration::Stateless]
        .into_iter()
        .filter(|generation| *generation == ProtocolGeneration::Stateless || !is_before);
    eras.into_iter().find_map(|generation| Some((generation, find_created_task(result, generation)?)))
}

/// What such a server does, in words.
pub(super) const UNDECLARED_SERVER_REQUEST_MESSAGE: &str = "asks the client for what it has not declared";

/// What of the client it would take to be asked all that a result, or a task, asks; none if it has declared that.
pub(super) fn missing_capability(ctx: &RequestContext, said: JsonValue<'_>) -> Option<&'static str> {
    let wanted = said.get("inputRequests");
    wanted.iter().flat_map(|wanted| wanted.members()).find_map(|(_, question)| {
        let method = question.get("method").and_then(|method| method.as_str()).unwrap_or_default();
        ctx.client_capabilities().missing_capability(&method, question.get("params"))
    })
}

/// What an answer says that gives a task, or asks something.
static TASK_OR_INPUT_FINDER: LazyLock<JsonWordFinder> =
    LazyLock::new(|| JsonWordFinder::new(&["taskId", "input_required"]));
/// What one says that asks something.
pub(super) static INPUT_FINDER: LazyLock<JsonWordFinder> = LazyLock::new(|| JsonWordFinder::new(&["input_required"]));

/// Words that are looked for in many texts.
pub(super) struct JsonWordFinder {
    words: Vec<Finder<'static>>,
    /// Letters that are not written plainly begin so.
    escape: Finder<'static>,
}

impl JsonWordFinder {
    fn new(words: &[&'static str]) -> Self {
        Self { words: words.iter().map(|word| Finder::new(*word)).collect(), escape: Finder::new("\\u00") }
    }

    /// Whether a text may have one of the words, in plain letters or written otherwise.
    pub fn can_occur_in(&self, text: &[u8]) -> bool {
        let is_letter = |at: usize| text.get(at + 4).is_some_and(|digit| (b'2'..=b'7').contains(digit));
        self.words.iter().any(|word| word.find(text).is_some()) || self.escape.find_iter(text).any(is_letter)
    }
}

/// Whether the client takes a task as an era has them: in a session it says so with the call, and tasks of one era are
/// none in the other.
fn accepts_task(ctx: &RequestContext, request: &ClientRequest<'_>, generation: ProtocolGeneration) -> bool {
    let has_asked = match generation {
        ProtocolGeneration::Stateful => request.params().and_then(|params| params.get("task")).is_some(),
        ProtocolGeneration::Stateless => ctx.client_capabilities().has_tasks(),
    };
    (has_asked || mutant!("undeclared-task-forwarded"))
        && generation == ctx.generation()
        && ctx.translation() == ProtocolTranslation::None
}

impl Gateway {
    /// Tells a server that nobody wants what a task does. Nobody waits until it has heard.
    fn cancel_task(&self, ctx: &RequestContext, task: &str) {
        let Some(gw) = self.arc_self() else { return };
        let (own, ctx, task) = (std::sync::Arc::clone(&gw), ctx.clone(), task.to_owned());
        gw.spawn(async move {
            let mut recorder = CallRecorder::for_request(&ctx, own.new_call_id(), own.clock.now());
            recorder.set_method(Method::TasksCancel.name());
            recorder.set_subject(&ctx, Some(&task), None);
            // What is not written down is not sent, though nobody asked for it.
            let reserved = match reserve(&own, &ctx, &Terms::default(), &mut recorder).await {
                Ok(reserved) => reserved,
                Err(refusal) => return own.record_refusal(&mut recorder, &refusal).await,
            };
            let call = recorder.call_id();
            let permit = Permit::for_reserved_call(&reserved, cancel_request(&ctx, &task, call));
            let telling = async {
                let mut exchange = own.upstream_client.send(&ctx.upstream, permit).await?;
                await_own_response(&own, &mut exchange, call).await
            };
            let sent = tokio::time::timeout(own.settings.connect_time * 2, telling).await;
            match sent.unwrap_or(Err(SendError::Timeout)) {
                Ok(_) => own.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await,
                Err(error) => {
                    let outcome = error.outcome();
                    own.write_row(recorder.failure_row(&Refusal::Upstream(error), outcome)).await;
                }
            }
        });
    }
}

/// The request that cancels a task, in the words of the server's era. It is ours, so it says what we can do.
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
