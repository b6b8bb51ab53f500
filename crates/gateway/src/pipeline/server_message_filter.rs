//! Handles notifications and requests from servers.

use gatelodge_json::read;
use gatelodge_mcp::{Method, RequestId, ServerNotification, ServerRequest, code, error_response, result_response};
use gatelodge_policy::{Decision, Reason, ReasonCode};
use gatelodge_store::{CallOutcome, EnforcementMode};

use super::input_policy::are_input_requests_allowed;
use super::{ForwardContext, client_capability_check, task_ownership};
use crate::call_recorder::CallRecorder;
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::services::GatewayServices;
use crate::session::ClientResponseDestination;
use crate::suspended_calls::TOO_MANY_SUSPENDED_CALLS_MESSAGE;
use crate::upstream::{Permit, UpstreamRequest};
use crate::upstream_session::call_cancellation::can_suspend_call;
use crate::upstream_session::resource_subscription::authorize_resource;
use crate::upstream_session::upstream_exchange::send_one_way;

/// Returns the part of a notification that the client of a call may receive; `None` if it is not for this client.
pub(crate) async fn filter_call_notification(
    forward_ctx: &ForwardContext<'_>,
    notification: &ServerNotification<'_>,
) -> Option<String> {
    let is_own = notification.reference().is_some_and(|token| token == RequestId::string(forward_ctx.call.as_str()));
    if *notification.method() == Method::Progress && is_own {
        return forward_ctx.progress.and_then(|progress| progress.rewrite_if_advanced(notification));
    }
    if !forward_ctx.ctx.belongs_on_response_stream(notification.method()) {
        if *notification.method() == Method::ToolsListChanged {
            forward_ctx.ctx.tool_registry().invalidate();
        }
        forward_ctx.gw.metrics.count_dropped_message();
        return None;
    }
    let text = filter_standalone_notification(forward_ctx.gw, forward_ctx.ctx, notification).await?;
    if forward_ctx.ctx.is_for_listeners(notification.method()) {
        // Stateless clients receive changes only through `subscriptions/listen`.
        let text = forward_ctx.ctx.upstream.secret_redactor().redact_json(text);
        forward_ctx.ctx.upstream_session()?.notification_hub.broadcast(text.into());
        return None;
    }
    Some(text)
}

/// Like [`filter_call_notification`], for notifications outside of a call.
pub(crate) async fn filter_standalone_notification(
    gw: &GatewayServices,
    ctx: &RequestContext,
    notification: &ServerNotification<'_>,
) -> Option<String> {
    let text = authorize_notification(gw, ctx, notification).await?;
    Some(ctx.translate_notification(text, &gw.settings.reply_limits))
}

async fn authorize_notification(
    gw: &GatewayServices,
    ctx: &RequestContext,
    notification: &ServerNotification<'_>,
) -> Option<String> {
    match notification.method() {
        method if !ctx.can_translate_notification(method) => None,
        // Progress of a call that created a task continues until the task is done.
        Method::Progress => {
            ctx.session()?.tasks.find_progress(&notification.reference()?)?.rewrite_if_advanced(notification)
        }
        Method::TaskStatus | Method::TaskChanged => {
            let params = notification.params()?;
            // A task that waits for client input contains the input requests.
            let may_pass = task_ownership::is_notification_visible(gw, ctx, params).await
                && are_input_requests_allowed(gw, ctx, params.as_bytes()).await;
            may_pass.then(|| notification.text().to_owned())
        }
        Method::Cancelled => {
            // The upstream withdraws a server request.
            let request_id = ctx.session()?.server_requests.withdraw(&notification.reference()?)?;
            notification.with_reference(&RequestId::string(&request_id))
        }
        Method::LogMessage
            if ctx.upstream_session().is_some_and(|session| !session.negotiated.accepts_log_messages) =>
        {
            None
        }
        Method::ToolsListChanged => {
            ctx.tool_registry().invalidate();
            Some(notification.text().to_owned())
        }
        Method::ResourceUpdated => {
            let document = read(notification.params()?.as_bytes(), &gw.settings.reply_limits).ok()?;
            let uri = document.root().get("uri")?.as_str()?;
            authorize_resource(gw, ctx, &uri).is_ok().then(|| notification.text().to_owned())
        }
        _ => Some(notification.text().to_owned()),
    }
}

/// Evaluates a server request. If it is allowed, returns the message for the client; otherwise declines it.
pub(crate) async fn relay_server_request(
    gw: &GatewayServices,
    ctx: &RequestContext,
    server_request: &ServerRequest<'_>,
) -> Option<String> {
    if respond_to_ping(gw, ctx, server_request).await {
        return None;
    }
    let id = admit_server_request(gw, ctx, server_request, || register_server_request(ctx, server_request)).await?;
    Some(server_request.with_id(&RequestId::string(&id)))
}

/// Error message for a server request that cannot be passed to a stateless client at the moment.
pub(crate) const CLIENT_NOT_WAITING_MESSAGE: &str =
    "the client can be asked for input only during `tools/call`, `prompts/get` and `resources/read`";
/// Error message for a server request that cannot be attributed to a call.
pub(crate) const AMBIGUOUS_CALL_MESSAGE: &str = "several calls are running in this session, and the request cannot be attributed to one of them; \
    ask again when only one call is running";

/// Like [`relay_server_request`], for server requests that are passed on in the response to the client's own request.
/// Returns whether the server request is accepted; if `why_not` is given, it is declined for that reason.
pub(crate) async fn accept_as_client_input(
    gw: &GatewayServices,
    ctx: &RequestContext,
    server_request: &ServerRequest<'_>,
    why_not: Option<&'static str>,
) -> bool {
    if respond_to_ping(gw, ctx, server_request).await {
        return false;
    }
    let is_input = matches!(server_request.method(), Method::Elicit | Method::CreateMessage | Method::RootsList);
    let can_wait = || match why_not {
        _ if !is_input => Err(Refusal::UnknownReference),
        Some(why_not) => Err(Refusal::CapacityReached(why_not)),
        None if can_suspend_call(gw, ctx) => Ok(()),
        None => Err(Refusal::CapacityReached(TOO_MANY_SUSPENDED_CALLS_MESSAGE)),
    };
    admit_server_request(gw, ctx, server_request, can_wait).await.is_some()
}

/// Responds to a ping in a session that the gateway itself has opened. Returns whether the request was such a ping.
async fn respond_to_ping(gw: &GatewayServices, ctx: &RequestContext, server_request: &ServerRequest<'_>) -> bool {
    let is_own_ping = ctx.is_own_ping(server_request.method());
    if is_own_ping {
        let answer =
            ctx.message_for_upstream(UpstreamRequest::notification(result_response(server_request.id(), "{}")));
        let _ = send_one_way(gw, ctx, Permit::for_server_request_response(server_request.id(), answer)).await;
    }
    is_own_ping
}

pub(crate) async fn is_server_request_allowed(gw: &GatewayServices, ctx: &RequestContext, name: &str) -> bool {
    let mut recorder = gw.new_recorder(ctx);
    recorder.set_method(name);
    match authorize_server_request(gw, ctx, name, &mut recorder) {
        Ok(()) => {
            gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
            true
        }
        Err(refusal) => {
            gw.record_refusal(&mut recorder, &refusal).await;
            false
        }
    }
}

/// Checks that the active policy still allows the response to an earlier server request.
pub(crate) fn check_input_response_allowed(
    gw: &GatewayServices,
    ctx: &RequestContext,
    name: &str,
    recorder: &mut CallRecorder,
) -> Result<(), Refusal> {
    let method = RequestSubject::Method { name };
    let Decision::Deny(reason) = method.decide(ctx, None, gw.clock.now()) else {
        return Ok(());
    };
    // The client knows of the call, so the denial need not be disguised as "not found".
    let message = format!("the policy does not let the server ask `{name}`; your response was not sent").into();
    let refusal = Refusal::Denied(Reason { code: ReasonCode::Denied, message, ..reason });
    if ctx.server_access.mode == EnforcementMode::Observe {
        recorder.record_observed_denial(&refusal);
        return Ok(());
    }
    Err(refusal)
}

async fn admit_server_request<T>(
    gw: &GatewayServices,
    ctx: &RequestContext,
    server_request: &ServerRequest<'_>,
    register: impl FnOnce() -> Result<T, Refusal>,
) -> Option<T> {
    let mut recorder = gw.new_recorder(ctx);
    let name = server_request.method().name();
    // A method name can be any text and may contain a secret.
    recorder.set_method(&ctx.upstream.secret_redactor().redact_text(name));
    let may_ask = client_capability_check::check_server_request_declared(ctx, server_request).and_then(|()| {
        match task_ownership::client_task_method(gw, ctx, server_request) {
            Some(asked_for) => asked_for.and_then(|method| authorize_server_request(gw, ctx, &method, &mut recorder)),
            None => authorize_server_request(gw, ctx, name, &mut recorder),
        }
    });
    match may_ask.and_then(|()| register()) {
        Ok(registered) => {
            gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
            Some(registered)
        }
        Err(refusal) => {
            gw.record_refusal(&mut recorder, &refusal).await;
            // Best effort: the server waits for a response, but may not receive this one.
            let _ = send_one_way(gw, ctx, decline_permit(ctx, server_request.id(), &refusal)).await;
            None
        }
    }
}

/// Returns the permit for declining a server request that is not passed on to the client.
pub(crate) fn decline_permit(ctx: &RequestContext, asked: &RequestId<'_>, why: &Refusal) -> Permit {
    let (code, message) = match why {
        // The client supports the request, but cannot take it at the moment.
        Refusal::CapacityReached(message) => (code::INTERNAL_ERROR, *message),
        _ => (code::METHOD_NOT_FOUND, "the client does not support this request"),
    };
    let answer = error_response(Some(asked), code, message, None);
    Permit::for_server_request_response(asked, ctx.message_for_upstream(UpstreamRequest::notification(answer)))
}

/// Registers a server request and returns the id under which the client receives it.
fn register_server_request(ctx: &RequestContext, server_request: &ServerRequest<'_>) -> Result<String, Refusal> {
    let to = ClientResponseDestination::Upstream(
        server_request.id().clone().into_owned(),
        server_request.method().name().to_owned(),
    );
    let id = ctx.session().and_then(|session| session.server_requests.register(to));
    id.ok_or(Refusal::UnknownReference)
}

/// Checks that the policy allows a server request.
fn authorize_server_request(
    gw: &GatewayServices,
    ctx: &RequestContext,
    name: &str,
    recorder: &mut CallRecorder,
) -> Result<(), Refusal> {
    let method = RequestSubject::Method { name };
    match method.decide(ctx, None, gw.clock.now()) {
        Decision::Allow(terms) => recorder.record_allowed(terms.rule.as_ref()),
        Decision::Deny(reason) if ctx.server_access.mode == EnforcementMode::Observe => {
            recorder.record_observed_denial(&Refusal::Denied(reason))
        }
        Decision::Deny(reason) => return Err(Refusal::Denied(reason)),
    }
    Ok(())
}
