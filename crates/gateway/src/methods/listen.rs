//! `subscriptions/listen`: a stateless client's stream of notifications, filtered by what it may see.

pub(crate) mod filter;
mod session;

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, RequestId, ServerMessage as Said, code, error_response, read_client_message,
    read_server_message, result_response,
};
use gatelodge_mutants::mutant;
use gatelodge_policy::Reason;
use gatelodge_store::{CallId, CallOutcome};
use http::StatusCode;

use self::filter::Filter;
use super::pass::fail;
use super::server::{MayHear, may_hear_of};
use super::stream::LOOK;
use super::tasks::{self, not_to_hear};
use crate::Gateway;
use crate::http_server::reply;
use crate::http_server::responder::Responder;
use crate::list_changed::{ListChangedSet, SUBSCRIPTION_ID_KEY, list_changed_notification_for};
use crate::pipeline::{CallRecorder, Permit, Refusal, RequestSubject, response_for_client, response_status};
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::revalidation::Revalidation;
use crate::session::wait_for_cancel;
use crate::telemetry::ClientSpan;
use crate::upstream::{SendError, UpstreamRequest, UpstreamResponse};

/// Resources that one request may name, as many as a session may. Each that is denied is written in a row of its own.
const MOST_NAMED: usize = 256;

/// How a stream ends.
enum End {
    /// With the server's answer, as the caller gets it.
    Answered(StatusCode, Bytes, CallOutcome),
    /// The client wants to hear nothing more.
    Unwanted,
    /// The server has no more to say, or we do not pass it on any more.
    Over,
}

/// Holds the stream open until either side ends it.
pub(crate) async fn listen(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    mut trail: CallRecorder,
    mut line: Responder,
) {
    if let Err(refusal) = bounded(request) {
        return tasks::refuse(gw, request, trail, line, &refusal).await;
    }
    let honoured = honoured(gw, visit, request);
    record(gw, visit, request, &honoured).await;
    // Read anew: what was judged is what is sent.
    let text = honoured.only_heard(request);
    let heard = honoured.heard;
    let Ok(ClientMessage::Request(own)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
        return fail(gw, request.id(), &mut trail, SendError::NotSent("it cannot be read".to_owned()), line).await;
    };
    if visit.translation() == ProtocolTranslation::ToStateful {
        return match session::listen(gw, visit, request, heard, &mut line).await {
            Ok(end) => ended(gw, visit, request, trail, line, end).await,
            Err(fault) => fail(gw, request.id(), &mut trail, fault, line).await,
        };
    }
    let unheard = match not_to_hear(gw, visit, request, &mut line).await {
        Ok(unheard) => unheard,
        Err(fault) => return tasks::refuse(gw, request, trail, line, &Refusal::Store(fault)).await,
    };
    if let Some(task) = unheard {
        trail.set_subject(visit, Some(&task), None);
        let facts = line.with_client_names(&RequestSubject::Task { id: task.into(), tool: String::new() });
        line.finish(reply::not_found_reply(visit.generation(), &facts, request.id()).into()).await;
        return gw.record_refusal(&mut trail, &Refusal::UnknownReference).await;
    }
    let method = request.method().name();
    let hop = visit.upstream_span(method, None);
    let text =
        own.page_request(&RequestId::string(trail.call_id().as_str()), None, hop.as_ref().map(|hop| &hop.context));
    let outgoing =
        visit.request_for_upstream(UpstreamRequest::request(text, trail.call_id()), method, None).with_span(hop);
    let end = match Permit::for_always_allowed(method, outgoing) {
        Some(permit) => {
            let span = ClientSpan::begin(visit, permit.span_context(), trail.call_id(), &*gw.clock);
            let end = opened(gw, visit, request, (trail.call_id(), permit), &heard, &mut line).await;
            if let Some(span) = span {
                span.end_stream(end.as_ref().err());
            }
            end
        }
        None => Err(SendError::NotSent("the method has to be judged".to_owned())),
    };
    match end {
        Ok(end) => ended(gw, visit, request, trail, line, end).await,
        Err(fault) => fail(gw, request.id(), &mut trail, fault, line).await,
    }
}

async fn ended(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    mut trail: CallRecorder,
    line: Responder,
    end: End,
) {
    let outcome = match end {
        End::Answered(status, text, outcome) => {
            line.finish_with_status(status, text).await;
            outcome
        }
        End::Unwanted => {
            line.hang_up();
            CallOutcome::Ok
        }
        End::Over => {
            line.close_stream(last_word(gw, visit, request.id())).await;
            CallOutcome::Ok
        }
    };
    gw.write_row(trail.outcome_row(outcome, None)).await;
}

/// What a client is told that has to listen anew, or may not.
fn last_word(gw: &Gateway, visit: &RequestContext, id: &RequestId<'_>) -> String {
    match gw.revalidate(visit) {
        Revalidation::Revoked => {
            let what = "the grant, or its way to the server, is not in force any more";
            error_response(Some(id), code::INVALID_REQUEST, what, None)
        }
        Revalidation::Unchanged | Revalidation::Replaced(_) => {
            result_response(id, &format!(r#"{{"resultType":"complete","_meta":{{"{SUBSCRIPTION_ID_KEY}":{id}}}}}"#))
        }
    }
}

/// Waits until the client wants to hear nothing more: it hangs up, or cancels the request where it can name it.
async fn unwanted(line: &mut Responder) {
    let told = line.cancel_signal();
    tokio::select! {
        () = line.wait_for_disconnect() => {}
        () = wait_for_cancel(told.as_deref()) => {}
    }
}

/// The resources that a request names: those of which the grant may hear, and the others with the reason.
pub(crate) struct Honoured {
    pub heard: Vec<MayHear>,
    denied: Vec<(String, Reason)>,
}

impl Honoured {
    /// The request, with just those of the resources that may be heard of.
    pub fn only_heard(&self, request: &ClientRequest<'_>) -> String {
        request.with_allowed_resources(|uri| self.heard.iter().any(|heard| heard.uri() == uri))
    }
}

/// The URIs of what may be heard of.
pub(crate) fn uris(heard: &[MayHear]) -> Vec<String> {
    heard.iter().map(|heard| heard.uri().to_owned()).collect()
}

/// Holds that a request names no more resources than one listens for.
///
/// # Errors
/// It names more.
pub(crate) fn bounded(request: &ClientRequest<'_>) -> Result<(), Refusal> {
    if named(request).iter().flat_map(|named| named.elements()).count() <= MOST_NAMED
        || mutant!("subscription-count-unlimited")
    {
        return Ok(());
    }
    let what = format!("`resourceSubscriptions` names more than {MOST_NAMED} resources");
    Err(Refusal::Protocol(ProtocolError::new(StatusCode::OK, code::INVALID_PARAMS, &what)))
}

fn named<'r>(request: &'r ClientRequest<'_>) -> Option<JsonValue<'r>> {
    request.params()?.get("notifications")?.get("resourceSubscriptions")
}

/// What of the resources that a request names the grant may hear of. Of the others the server does not learn.
pub(crate) fn honoured(gw: &Gateway, visit: &RequestContext, request: &ClientRequest<'_>) -> Honoured {
    let (mut heard, mut denied) = (Vec::new(), Vec::new());
    for uri in named(request).iter().flat_map(|named| named.elements()).filter_map(|uri| uri.as_str()) {
        match may_hear_of(gw, visit, &uri) {
            Ok(own) => heard.push(own),
            Err(reason) => denied.push((uri.into_owned(), reason)),
        }
    }
    if mutant!("one-denied-resource-denies-all") && !denied.is_empty() {
        heard.clear();
    }
    Honoured { heard, denied }
}

/// Writes of what a client is not told though it asked.
pub(crate) async fn record(gw: &Gateway, visit: &RequestContext, request: &ClientRequest<'_>, honoured: &Honoured) {
    for (uri, reason) in &honoured.denied {
        let mut trail = CallRecorder::start(visit, request, gw.new_call_id(), gw.clock.now());
        trail.set_subject(visit, Some(uri), None);
        gw.record_refusal(&mut trail, &Refusal::Denied(reason.clone())).await;
    }
}

async fn opened(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    (call, permit): (CallId, Permit),
    heard: &[MayHear],
    line: &mut Responder,
) -> Result<End, SendError> {
    let opening = tokio::time::timeout(gw.settings.call_time, gw.upstream_client.send(&visit.upstream, permit));
    let mut exchange = opening.await.unwrap_or(Err(SendError::Timeout))?;
    pump(gw, visit, request, (call, heard), &mut exchange, line).await
}

async fn pump(
    gw: &Gateway,
    visit: &RequestContext,
    request: &ClientRequest<'_>,
    (call, heard): (CallId, &[MayHear]),
    exchange: &mut UpstreamResponse,
    line: &mut Responder,
) -> Result<End, SendError> {
    let period = gw.settings.keep_alive;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    let mut look = tokio::time::interval(LOOK);
    let mut listener = Listener::new(visit, uris(heard), None);
    let (mut asked, mut filter) = (Some(Filter::asked(request, heard)), Filter::default());
    loop {
        let message = {
            let mut next = std::pin::pin!(exchange.next_message());
            loop {
                tokio::select! {
                    message = &mut next => break message?,
                    _ = keep_alive.tick() => line.keep_alive().await,
                    _ = look.tick() => {
                        if !listener.look(gw, request, line).await {
                            return Ok(End::Over);
                        }
                    }
                    () = unwanted(line) => return Ok(End::Unwanted),
                    () = gw.wait_for_shutdown() => return Ok(End::Over),
                }
            }
        };
        let Some(message) = message else { return Ok(End::Over) };
        let visit = &listener.visit;
        match read_server_message(&message, &gw.settings.reply_limits) {
            Ok(Said::Response(_)) => {
                let (text, outcome) = response_for_client(visit, &message, request.id(), &gw.settings.reply_limits)
                    .ok_or_else(|| SendError::InvalidResponse("the answer cannot be read".to_owned()))?;
                let status = response_status(
                    visit.generation(),
                    &message.clone().into(),
                    call,
                    exchange.status,
                    &gw.settings.reply_limits,
                );
                let tagged =
                    str::from_utf8(&text).ok().and_then(|text| retagged(text, request.id(), &gw.settings.reply_limits));
                return Ok(End::Answered(status, tagged.map_or(text, Bytes::from), outcome));
            }
            Ok(Said::Notification(said)) if *said.method() == Method::SubscriptionsAcknowledged => {
                let Some(asked) = asked.take() else { continue };
                let text = asked.only_asked(said.text()).unwrap_or_else(|| said.text().to_owned());
                pass_on(visit, request, text, line).await;
                filter = asked.acknowledged(said.params().unwrap_or_default());
                listener.promised = Some(filter.lists);
                listener.tell(request, line).await;
            }
            // What was not asked for, nobody is told, whatever the server says.
            Ok(Said::Notification(said)) => {
                let passed = filter.passes(gw, visit, &said).await;
                let forced = || mutant!("unrequested-notification-forwarded").then(|| said.text().to_owned());
                if let Some(text) = passed.or_else(forced) {
                    pass_on(visit, request, text, line).await;
                }
            }
            Ok(Said::Request(_)) | Err(_) => gw.metrics.count_dropped_message(),
        }
    }
}

/// Passes on what a server says, under the client's own id.
async fn pass_on(visit: &RequestContext, request: &ClientRequest<'_>, text: String, line: &mut Responder) {
    let text = retagged(&text, request.id(), &JsonLimits::REPLY).unwrap_or(text);
    line.send(&visit.upstream.secret_redactor().redact_json(text)).await;
}

/// By what is in force somebody listens, and of what they hear.
struct Listener {
    visit: RequestContext,
    /// The resources that were named and of which they may hear.
    uris: Vec<String>,
    /// None until they were told of which.
    promised: Option<ListChangedSet>,
    /// Whether the lists are others by now, and nobody has said so.
    is_due: bool,
}

impl Listener {
    fn new(visit: &RequestContext, uris: Vec<String>, promised: Option<ListChangedSet>) -> Self {
        Self { visit: visit.clone(), uris, promised, is_due: false }
    }

    /// Looks whether something else is in force, tells the client, and goes on by that. False where the stream has to
    /// end: where the server is another one, or the grant may hear of other things that the client named than before, the
    /// client listens anew, and is told.
    async fn look(&mut self, gw: &Gateway, request: &ClientRequest<'_>, line: &mut Responder) -> bool {
        let next = match gw.revalidate(&self.visit) {
            Revalidation::Unchanged => return true,
            Revalidation::Revoked => return false,
            // Whoever listens to all servers is told once for all of them.
            Revalidation::Replaced(_) if line.is_aggregate() => return false,
            Revalidation::Replaced(next) => *next,
        };
        self.is_due = true;
        self.tell(request, line).await;
        let before = std::mem::replace(&mut self.visit, next);
        Arc::ptr_eq(&before.upstream, &self.visit.upstream)
            && uris(&honoured(gw, &self.visit, request).heard) == self.uris
            && self.hears_of_tasks(gw, request, line).await
    }

    /// Whether the client may hear of all tasks that it named. With what is in force, what the server offers is to be
    /// asked for anew, and without that nothing is said of a task.
    async fn hears_of_tasks(&self, gw: &Gateway, request: &ClientRequest<'_>, line: &mut Responder) -> bool {
        self.visit.translation() != ProtocolTranslation::None
            || matches!(not_to_hear(gw, &self.visit, request, line).await, Ok(None))
    }

    /// Tells the client that its lists are others now, if that is to be said.
    async fn tell(&mut self, request: &ClientRequest<'_>, line: &mut Responder) {
        let Some(promised) = self.promised.filter(|_| std::mem::take(&mut self.is_due)) else { return };
        for method in promised.methods() {
            line.send(&list_changed_notification_for(&method, request.id())).await;
        }
    }
}

/// A notification, or the answer, tagged with the caller's own id of the request; the upstream's tag is our id.
fn retagged(text: &str, id: &RequestId<'_>, limits: &JsonLimits) -> Option<String> {
    let document = read(text.as_bytes(), limits).ok()?;
    let said = document.root().get("params").or_else(|| document.root().get("result"))?;
    let tag: JsonValue<'_> = said.get("_meta")?.get(SUBSCRIPTION_ID_KEY)?;
    let (start, end) = tag.span();
    Some(format!("{}{}{}", text.get(..start)?, id.raw(), text.get(end..)?))
}
