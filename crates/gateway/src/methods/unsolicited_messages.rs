//! What upstreams say beside answers: notifications, and questions to the client.

use std::sync::Arc;

use gatelodge_json::{JsonLimits, read};
use gatelodge_mcp::translate::without_members;
use gatelodge_mcp::{Method, RequestId, ServerNotification, ServerRequest, result_response};
use gatelodge_mutants::mutant;
use gatelodge_policy::{Code, Decision, Reason, decide};
use gatelodge_store::{CallOutcome, EnforcementMode};

use super::client_input::are_input_requests_allowed;
use super::{capability_check, task_requests};
use crate::Gateway;
use crate::list_changed::SUBSCRIPTION_ID_KEY;
use crate::pipeline::{
    CallRecorder, ForwardContext, Permit, Refusal, RequestSubject, TOO_MANY_SUSPENDED_CALLS_MESSAGE,
};
use crate::request_context::{ClientProtocol, ProtocolTranslation, RequestContext};
use crate::session::ServerRequestOrigin;
use crate::upstream::{SendError, UpstreamRequest};

/// What of a notification goes to the caller; none if it is not for them.
pub(crate) async fn filter_call_notification(
    forward_ctx: &ForwardContext<'_>,
    said: &ServerNotification<'_>,
) -> Option<String> {
    let is_own = said.reference().is_some_and(|token| token == RequestId::string(forward_ctx.call.as_str()));
    if *said.method() == Method::Progress && is_own {
        return forward_ctx.progress.and_then(|progress| progress.rewrite_if_advanced(said));
    }
    if is_misplaced(forward_ctx.ctx, said.method()) {
        if *said.method() == Method::ToolsListChanged {
            forward_ctx.ctx.tool_registry().invalidate();
        }
        forward_ctx.gw.metrics.count_dropped_message();
        return None;
    }
    let text = filter_standalone_notification(forward_ctx.gw, forward_ctx.ctx, said).await?;
    if forward_ctx.ctx.translation() == ProtocolTranslation::ToStateful && is_subscription_notification(said.method()) {
        // Whose requests stand alone hears of changes where it listens for them.
        let text = forward_ctx.ctx.upstream.secret_redactor().redact_json(text);
        forward_ctx.ctx.upstream_session()?.notification_hub.broadcast(text.into());
        return None;
    }
    Some(text)
}

fn is_subscription_notification(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged | Method::ResourceUpdated
    )
}

/// Whether it does not belong where a request that stands alone is answered: whoever wants to hear of changes and tasks
/// listens for them, and whoever wants log messages says so with the request.
fn is_misplaced(ctx: &RequestContext, method: &Method<'_>) -> bool {
    let ClientProtocol::Stateless(stateless) = &ctx.client_protocol else { return false };
    let is_astray = match method {
        Method::TaskStatus | Method::TaskChanged | Method::SubscriptionsAcknowledged => true,
        Method::LogMessage => !stateless.wants_log_messages,
        method => is_subscription_notification(method) && !mutant!("list-change-sent-on-call-stream"),
    };
    is_astray && ctx.translation() == ProtocolTranslation::None
}

/// The same for what comes outside of a call.
pub(crate) async fn filter_standalone_notification(
    gw: &Gateway,
    ctx: &RequestContext,
    said: &ServerNotification<'_>,
) -> Option<String> {
    let text = authorize_notification(gw, ctx, said).await?;
    if ctx.translation() != ProtocolTranslation::ToStateless {
        return Some(text);
    }
    Some(without_subscription_id(&text, &gw.settings.reply_limits).unwrap_or(text))
}

/// The notification without the id that a server without sessions puts to it: the request to listen was ours.
fn without_subscription_id(text: &str, limits: &JsonLimits) -> Option<String> {
    let document = read(text.as_bytes(), limits).ok()?;
    let meta = document.root().get("params")?.get("_meta")?;
    meta.get(SUBSCRIPTION_ID_KEY)?;
    let (start, end) = meta.span();
    Some(format!("{}{}{}", text.get(..start)?, without_members(meta, &[SUBSCRIPTION_ID_KEY]), text.get(end..)?))
}

async fn authorize_notification(gw: &Gateway, ctx: &RequestContext, said: &ServerNotification<'_>) -> Option<String> {
    match said.method() {
        // Of what the client's era does not have.
        Method::ElicitationComplete | Method::TaskStatus if ctx.translation() == ProtocolTranslation::ToStateful => {
            None
        }
        Method::TaskChanged if ctx.translation() == ProtocolTranslation::ToStateless => None,
        // Of a call that has made a task one hears until that is done.
        Method::Progress => ctx.session()?.tasks.find_progress(&said.reference()?)?.rewrite_if_advanced(said),
        Method::TaskStatus | Method::TaskChanged => {
            let params = said.params()?;
            // A task that waits for the client says what it asks.
            let may_pass = task_requests::is_notification_visible(gw, ctx, params).await
                && are_input_requests_allowed(gw, ctx, params.as_bytes()).await;
            may_pass.then(|| said.text().to_owned())
        }
        Method::Cancelled => {
            // The upstream takes back what it asked.
            let asked = ctx.session()?.server_requests.withdraw(&said.reference()?)?;
            said.with_reference(&RequestId::string(&asked))
        }
        Method::LogMessage if ctx.upstream_session().is_some_and(|session| !session.accepts_log_messages) => None,
        // It answers what we asked, not the client.
        Method::SubscriptionsAcknowledged if ctx.translation() == ProtocolTranslation::ToStateless => None,
        Method::ToolsListChanged => {
            ctx.tool_registry().invalidate();
            Some(said.text().to_owned())
        }
        Method::ResourceUpdated => {
            let document = read(said.params()?.as_bytes(), &gw.settings.reply_limits).ok()?;
            let uri = document.root().get("uri")?.as_str()?;
            authorize_resource(gw, ctx, &uri).is_ok().then(|| said.text().to_owned())
        }
        _ => Some(said.text().to_owned()),
    }
}

/// Whether the grant may hear that a resource changed: whoever may not read it, may not.
pub(crate) fn authorize_resource(gw: &Gateway, ctx: &RequestContext, uri: &str) -> Result<AllowedResource, Reason> {
    if ctx.server_access.mode == EnforcementMode::Enforce && !mutant!("resource-update-skips-policy") {
        evaluate_policy(gw, ctx, &RequestSubject::Resource { uri: uri.into() })?;
    }
    Ok(AllowedResource { uri: uri.to_owned() })
}

/// A resource of which the policy lets the grant hear. Made only by [`authorize_resource`].
#[derive(Debug)]
pub(crate) struct AllowedResource {
    uri: String,
}

impl AllowedResource {
    pub fn uri(&self) -> &str {
        &self.uri
    }
}

/// Judges what an upstream asks of the client. What may pass comes back as the text for the client; anything else is
/// answered here.
pub(crate) async fn relay_server_request(
    gw: &Gateway,
    ctx: &RequestContext,
    asked: &ServerRequest<'_>,
) -> Option<String> {
    if is_ours(gw, ctx, asked).await {
        return None;
    }
    let id = admit_server_request(gw, ctx, asked, || register_server_request(ctx, asked)).await?;
    Some(asked.with_id(&RequestId::string(&id)))
}

/// What a server is told that asks a client without a session where it cannot be asked.
pub(crate) const CLIENT_NOT_WAITING_MESSAGE: &str =
    "the client is asked only while it waits for a tool, a prompt or a resource; this is none of those requests";
/// The same where nobody can say whom.
pub(crate) const AMBIGUOUS_CALL_MESSAGE: &str = "several calls are open in this session, and nothing says which of them this is for; \
    ask again when one call is open";

/// The same where the client is asked by the answer to its request, unless something speaks against it.
pub(crate) async fn input(
    gw: &Gateway,
    visit: &RequestContext,
    asked: &ServerRequest<'_>,
    why_not: Option<&'static str>,
) -> bool {
    if is_ours(gw, visit, asked).await {
        return false;
    }
    let is_input = matches!(asked.method(), Method::Elicit | Method::CreateMessage | Method::RootsList);
    let can_wait = || match why_not {
        _ if !is_input => Err(Refusal::UnknownReference),
        Some(why_not) => Err(Refusal::CapacityReached(why_not)),
        None if gw.can_suspend_call(visit) => Ok(()),
        None => Err(Refusal::CapacityReached(TOO_MANY_SUSPENDED_CALLS_MESSAGE)),
    };
    admit_server_request(gw, visit, asked, can_wait).await.is_some()
}

/// Answers for a client without a session whether anybody is there: the session is ours, and so are we.
async fn is_ours(gw: &Gateway, visit: &RequestContext, asked: &ServerRequest<'_>) -> bool {
    let is_ours = *asked.method() == Method::Ping && visit.translation() == ProtocolTranslation::ToStateful;
    if is_ours {
        let answer = visit.message_for_upstream(UpstreamRequest::notification(result_response(asked.id(), "{}")));
        let _ = send_one_way(gw, visit, Permit::for_server_request_response(asked.id(), answer)).await;
    }
    is_ours
}

pub(super) async fn may_be_asked(gw: &Gateway, visit: &RequestContext, name: &str) -> bool {
    let mut trail = CallRecorder::for_request(visit, gw.new_call_id(), gw.clock.now());
    trail.set_method(name);
    match authorize_server_request(gw, visit, name, &mut trail) {
        Ok(()) => {
            gw.write_row(trail.outcome_row(CallOutcome::Ok, None)).await;
            true
        }
        Err(refusal) => {
            gw.record_refusal(&mut trail, &refusal).await;
            false
        }
    }
}

/// Whether the policy in force lets an upstream have the answer to what it asked before.
pub(super) fn may_be_answered(
    gw: &Gateway,
    visit: &RequestContext,
    name: &str,
    trail: &mut CallRecorder,
) -> Result<(), Refusal> {
    let Err(reason) = evaluate_policy(gw, visit, &RequestSubject::Method { name }) else { return Ok(()) };
    // The call itself may be made: that is no secret, as it is of what is not listed.
    let message = format!("the policy does not let the server ask `{name}`; what you answer was not sent").into();
    let refusal = Refusal::Denied(Reason { code: Code::Denied, message, ..reason });
    if visit.server_access.mode == EnforcementMode::Observe {
        trail.record_observed_denial(&refusal);
        return Ok(());
    }
    Err(refusal)
}

async fn admit_server_request<T>(
    gw: &Gateway,
    ctx: &RequestContext,
    asked: &ServerRequest<'_>,
    place: impl FnOnce() -> Result<T, Refusal>,
) -> Option<T> {
    let mut recorder = CallRecorder::for_request(ctx, gw.new_call_id(), gw.clock.now());
    let name = asked.method().name();
    // What a server calls its question may be anything, our secret, too.
    recorder.set_method(&ctx.upstream.secret_redactor().redact_text(name));
    let may_ask = capability_check::check_server_request_declared(ctx, asked).and_then(|()| {
        match task_requests::client_task_method(gw, ctx, asked) {
            Some(asked_for) => asked_for.and_then(|method| authorize_server_request(gw, ctx, &method, &mut recorder)),
            None => authorize_server_request(gw, ctx, name, &mut recorder),
        }
    });
    match may_ask.and_then(|()| place()) {
        Ok(placed) => {
            gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
            Some(placed)
        }
        Err(refusal) => {
            gw.record_refusal(&mut recorder, &refusal).await;
            // It waits for an answer; one that cannot be told will have to find out by itself.
            let _ = send_one_way(gw, ctx, Permit::for_declined_server_request(ctx, asked.id(), &refusal)).await;
            None
        }
    }
}

/// A place among what the client is asked, and the id to ask it under.
fn register_server_request(ctx: &RequestContext, asked: &ServerRequest<'_>) -> Result<String, Refusal> {
    let to = ServerRequestOrigin::Upstream(asked.id().clone().into_owned(), asked.method().name().to_owned());
    let asked_as = ctx.session().and_then(|session| session.server_requests.register(to));
    asked_as.ok_or(Refusal::UnknownReference)
}

/// Whether the policy lets an upstream ask this.
fn authorize_server_request(
    gw: &Gateway,
    ctx: &RequestContext,
    name: &str,
    recorder: &mut CallRecorder,
) -> Result<(), Refusal> {
    match evaluate_policy(gw, ctx, &RequestSubject::Method { name }) {
        Ok(rule) => recorder.record_allowed(rule.as_ref()),
        Err(reason) if ctx.server_access.mode == EnforcementMode::Observe => {
            recorder.record_observed_denial(&Refusal::Denied(reason))
        }
        Err(reason) => return Err(Refusal::Denied(reason)),
    }
    Ok(())
}

/// What the policy says of something that no caller asks for; the rule that lets it pass.
fn evaluate_policy(
    gw: &Gateway,
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
) -> Result<Option<Arc<str>>, Reason> {
    let Some(policy) = &ctx.server_access.policy else { return Err(Reason::no_policy()) };
    match decide(&policy.policy, &subject.to_policy_call(ctx, None), gw.clock.now()) {
        Decision::Allow(terms) => Ok(terms.rule),
        Decision::Deny(reason) => Err(reason),
    }
}

/// Sends a message that wants no answer; gives the status that it was taken with.
pub(crate) async fn send_one_way(gw: &Gateway, ctx: &RequestContext, permit: Permit) -> Result<u16, SendError> {
    let sending = gw.upstream_client.send(&ctx.upstream, permit);
    let sent = tokio::time::timeout(gw.settings.connect_time * 2, sending).await;
    let mut exchange = sent.unwrap_or(Err(SendError::Timeout))?;
    let status = exchange.status;
    // The end of the answer makes the connection free for the next.
    let _ = tokio::time::timeout(gw.settings.connect_time, exchange.next_message()).await;
    if status.is_success() { Ok(status.as_u16()) } else { Err(SendError::Status(status.as_u16())) }
}
