//! Task requests. Knowing a task's id is not enough: a task is visible only to the grant whose call created it, and
//! only if the active policy's rule for the called tool allows it. All other tasks appear not to exist.

mod hidden_task;
mod tasks_list;

use gatelodge_mcp::{ClientRequest, MessageError, Method, TASKS_CAPABILITY_JSON, code, error_response};
use http::StatusCode;

use self::tasks_list::handle_tasks_list;
use super::call_handler;
use crate::call_recorder::CallRecorder;
use crate::pipeline::task_ownership::is_unowned_and_observed;
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream_session::handshake;

pub(crate) use self::hidden_task::find_hidden_task;

/// Handles a request about tasks.
pub(crate) async fn handle_task_request(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    if let Err(refusal) = responder.acquire_in_flight(ctx, request.method()) {
        return reply_refusal(gw, request, recorder, responder, &refusal).await;
    }
    handshake::reopen_if_closed(gw, ctx).await;
    let method = RequestSubject::Method { name: request.method().name() };
    if let Err(refusal) = ctx.check_tasks_usable() {
        return call_handler::refuse(gw, ctx, request, &method, recorder, responder, refusal).await;
    }
    if !ctx.has_task_method(request.method()) {
        return call_handler::handle_call(gw, ctx, request, &method, recorder, responder).await;
    }
    if ctx.lacks_task_extension() {
        let what = "the client has not declared the extension for tasks";
        let data = format!(r#"{{"requiredCapabilities":{TASKS_CAPABILITY_JSON}}}"#);
        let text = error_response(Some(request.id()), code::MISSING_CLIENT_CAPABILITY, what, Some(&data));
        responder.finish_with_status(StatusCode::BAD_REQUEST, text.into()).await;
        return gw.write_row(recorder.rejection_row(code::MISSING_CLIENT_CAPABILITY, what)).await;
    }
    if *request.method() == Method::TasksList {
        return handle_tasks_list(gw, ctx, request, recorder, responder).await;
    }
    let id = match request.task_id() {
        Ok(id) => id,
        Err(error) => return reject(gw, ctx, recorder, responder, &error).await,
    };
    let own = match gw.owned_task_tool(ctx, &id).await {
        Ok(None) => is_unowned_and_observed(gw, ctx, &id).await.map(|is_shown| is_shown.then_some(None)),
        own => own.map(|tool| tool.map(Some)),
    };
    match own {
        Ok(Some(Some(tool))) => {
            call_handler::handle_call(gw, ctx, request, &RequestSubject::Task { id, tool }, recorder, responder).await
        }
        Ok(Some(None)) => call_handler::handle_call(gw, ctx, request, &method, recorder, responder).await,
        Ok(None) => {
            recorder.set_subject(ctx, Some(&id), None);
            let subject = responder.with_client_names(&RequestSubject::Task { id, tool: String::new() });
            responder.finish(reply::not_found_reply(&ctx.client_protocol, &subject, request.id()).into()).await;
            gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
        }
        Err(error) => reply_refusal(gw, request, recorder, responder, &Refusal::Store(error)).await,
    }
}

pub(crate) async fn reply_refusal(
    gw: &GatewayServices,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
    refusal: &Refusal,
) {
    responder.finish(reply::internal_error_reply(request.id(), recorder.call_id(), refusal)).await;
    gw.record_refusal(&mut recorder, refusal).await;
}

async fn reject(
    gw: &GatewayServices,
    ctx: &RequestContext,
    mut recorder: CallRecorder,
    responder: Responder,
    error: &MessageError,
) {
    responder.reject(error, ctx.client_protocol.rejection_status(error)).await;
    gw.write_row(recorder.rejection_row(error.code, &error.message)).await;
}
