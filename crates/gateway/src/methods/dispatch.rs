//! Selects the handler of a request by its method. Requests at `/mcp` that name one server come here, too.

use gatelodge_mcp::{ClientRequest, Method};
use gatelodge_policy::is_policy_exempt;

use super::call_handler::PolicyCall;
use super::{
    call_handler, initialize, list_requests, policy_exempt_messages, resources_subscribe, subscriptions_listen,
    task_requests, unknown_method_reply,
};
use crate::call_recorder::CallRecorder;
use crate::reply;
use crate::request_context::{RequestContext, parse_subject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream_session::handshake;
use crate::upstream_session::local_session::local_response;

/// Hands a request to the handler of its method.
// Calls are handled inline; the other futures are boxed so that they do not enlarge the future of a call.
pub(crate) async fn dispatch(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut responder: Responder,
) {
    let at = gw.clock.now();
    let mut recorder = CallRecorder::start(ctx, request, gw.new_call_id_at(at), at);
    responder.capture_reply(recorder.captured_reply());
    if let Some(session) = ctx.session() {
        // Each page of a list is requested under an id of its own.
        let call = Some(recorder.call_id()).filter(|_| !is_list_method(request.method()));
        responder.register_cancellable(session.cancellable_requests(), request.id(), call);
    }
    if !ctx.has_method(request.method()) {
        return Box::pin(unknown_method_reply::reply_method_not_found(
            gw,
            ctx.client_protocol.unknown_method_status(),
            Some(request.id()),
            request.method(),
            recorder,
            responder,
        ))
        .await;
    }
    if is_task_method(request.method()) {
        return Box::pin(task_requests::handle_task_request(gw, ctx, request, recorder, responder)).await;
    }
    if is_policy_checked(request.method()) {
        return match parse_subject(request) {
            Ok(subject) if resources_subscribe::is_subscription_method(request.method()) => {
                let call = PolicyCall { gw, ctx, request, subject: &subject };
                Box::pin(resources_subscribe::handle_subscription(call, recorder, responder)).await
            }
            Ok(subject) => call_handler::handle_call(gw, ctx, request, &subject, recorder, responder).await,
            Err(cause) => {
                responder.reject(&cause, ctx.client_protocol.rejection_status(&cause)).await;
                gw.record_rejection(gw.new_recorder(ctx), cause.code, &cause.message).await;
            }
        };
    }
    if let Err(refusal) = responder.acquire_in_flight(ctx, request.method()) {
        responder.finish(reply::internal_error_reply(request.id(), recorder.call_id(), &refusal)).await;
        return gw.record_refusal(&mut recorder, &refusal).await;
    }
    if let Some((text, outcome)) = Box::pin(local_response(&gw.sessions, ctx, request)).await {
        responder.finish(text.into()).await;
        return gw.write_row(recorder.outcome_row(outcome, None)).await;
    }
    handshake::reopen_if_closed(gw, ctx).await;
    match request.method() {
        Method::Initialize => Box::pin(initialize::handle_initialize(gw, ctx, request, recorder, responder)).await,
        method if is_list_method(method) => {
            Box::pin(list_requests::handle_list(gw, ctx, request, recorder, responder)).await
        }
        Method::Listen => Box::pin(subscriptions_listen::handle_listen(gw, ctx, request, recorder, responder)).await,
        _ => Box::pin(policy_exempt_messages::forward_request(gw, ctx, request, recorder, responder)).await,
    }
}

/// Returns whether a method is subject to the policy. All other methods are allowed by every policy.
pub(crate) fn is_policy_checked(method: &Method<'_>) -> bool {
    !is_policy_exempt(method.name())
}

fn is_list_method(method: &Method<'_>) -> bool {
    use Method::{PromptsList, ResourceTemplatesList, ResourcesList, TasksList, ToolsList};
    matches!(method, ToolsList | ResourcesList | ResourceTemplatesList | PromptsList | TasksList)
}

pub(crate) fn is_task_method(method: &Method<'_>) -> bool {
    use Method::{TasksCancel, TasksGet, TasksList, TasksResult, TasksUpdate};
    matches!(method, TasksGet | TasksResult | TasksList | TasksCancel | TasksUpdate)
}
