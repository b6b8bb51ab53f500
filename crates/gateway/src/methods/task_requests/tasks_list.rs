//! `tasks/list`: the server's list, reduced to the grant's own tasks.

use bytes::Bytes;
use gatelodge_json::read;
use gatelodge_mcp::{ClientRequest, ServerResponse, code, error_response, replace_list_items};
use gatelodge_store::CallOutcome;
use http::StatusCode;

use super::hidden_task::ensure_tool_listing;
use super::{reject, reply_refusal};
use crate::call_recorder::CallRecorder;
use crate::methods::list_requests::{ListFetchResult, ListRequest, UNKNOWN_CURSOR_MESSAGE, fetch_list};
use crate::methods::policy_exempt_messages::reply_failure;
use crate::pipeline::response_for_client;
use crate::pipeline::task_ownership::{is_task_visible, is_unowned_and_observed, owned_tasks, task_id_hash};
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::ProgressRelay;
use crate::upstream::UpstreamSendError;

/// Handles `tasks/list`.
pub(super) async fn handle_tasks_list(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    match request.cursor() {
        Ok(None) => {}
        Ok(Some(_)) => {
            let what = UNKNOWN_CURSOR_MESSAGE;
            responder.finish(error_response(Some(request.id()), code::INVALID_PARAMS, what, None).into()).await;
            return gw.write_row(recorder.rejection_row(code::INVALID_PARAMS, what)).await;
        }
        Err(error) => return reject(gw, ctx, recorder, responder, &error).await,
    }
    match fetch_own_tasks(gw, ctx, request, &mut responder).await {
        Ok((status, text, outcome)) => {
            responder.finish_with_status(status, ctx.upstream.secret_redactor().redact(text)).await;
            gw.write_row(recorder.outcome_row(outcome, None)).await;
        }
        Err(Refusal::Upstream(error)) => reply_failure(gw, request.id(), &mut recorder, error, responder).await,
        Err(refusal) => reply_refusal(gw, request, recorder, responder, &refusal).await,
    }
}

async fn fetch_own_tasks(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    responder: &mut Responder,
) -> Result<(StatusCode, Bytes, CallOutcome), Refusal> {
    let unreadable = || Refusal::Upstream(UpstreamSendError::InvalidResponse("the list cannot be read".to_owned()));
    let progress = ProgressRelay::of(request);
    let wanted =
        ListRequest { method: request.method(), member: "tasks", progress: progress.as_ref(), is_client_request: true };
    let (pages, first) =
        match fetch_list(gw, ctx, &wanted, responder, |id, cursor, trace| request.page_request(id, cursor, trace))
            .await?
        {
            ListFetchResult::Whole(pages, first) => (pages, first),
            ListFetchResult::Error(message, status) => {
                let (text, outcome) = response_for_client(ctx, &message, request.id(), &gw.settings.reply_limits)
                    .ok_or_else(unreadable)?;
                return Ok((status, text, outcome));
            }
        };
    let own = owned_tasks(gw, ctx).await.map_err(Refusal::Store)?;
    if let Some(tool) = own.values().next() {
        ensure_tool_listing(gw, ctx, tool, responder).await;
    }
    let documents: Option<Vec<_>> = pages.iter().map(|page| read(page, &gw.settings.reply_limits).ok()).collect();
    let documents = documents.ok_or_else(unreadable)?;
    let mut entries = Vec::new();
    for entry in documents.iter().filter_map(|page| page.root().get("tasks")).flat_map(|tasks| tasks.elements()) {
        let Some(id) = entry.get("taskId").and_then(|id| id.as_str()) else { continue };
        let is_shown = match own.get(&task_id_hash(ctx, &id)) {
            Some(tool) => is_task_visible(gw, ctx, tool),
            None => is_unowned_and_observed(gw, ctx, &id).await.map_err(Refusal::Store)?,
        };
        if is_shown {
            entries.push(entry.raw());
        }
    }
    let page = documents.first().ok_or_else(unreadable)?;
    let result = replace_list_items(page.root(), "tasks", &entries, ctx.list_caching()).ok_or_else(unreadable)?;
    let first = ServerResponse::from_spans(&first.text, &first.spans).ok_or_else(unreadable)?;
    Ok((StatusCode::OK, first.with_payload(request.id(), &result).into(), CallOutcome::Ok))
}
