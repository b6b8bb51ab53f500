//! Handles the list requests for tools, resources, resource templates and prompts: fetches all pages, and removes
//! entries that the grant cannot use.

mod page_fetch;

use std::collections::HashSet;

use bytes::Bytes;
use gatelodge_json::{JsonLimits, read};
use gatelodge_mcp::{ClientRequest, Method, ServerResponse, code, error_response, replace_list_items};
use gatelodge_mutants::mutant;
use gatelodge_policy::{CalledTool, Category, DefinitionStatus};
use gatelodge_store::{CallOutcome, EnforcementMode};
use http::StatusCode;

use super::policy_exempt_messages::reply_failure;
use super::tool_listing_refresh::apply_listing;
use crate::body::MessageBody;
use crate::call_recorder::CallRecorder;
use crate::pipeline::response_for_client;
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{ClientContext, RequestContext};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::ProgressRelay;
use crate::upstream::{CachedToolList, ServerToolCategories, ToolListing, UpstreamSendError};

pub(crate) use self::page_fetch::{ListFetchResult, ListRequest, fetch_list, fetch_list_within};

/// Returns two member names: the member that contains a list's entries, and the member that names each entry.
pub(crate) fn list_member_names(method: &Method<'_>) -> (&'static str, &'static str) {
    match method {
        Method::TasksList => ("tasks", "taskId"),
        Method::ResourcesList => ("resources", "uri"),
        Method::ResourceTemplatesList => ("resourceTemplates", "uriTemplate"),
        Method::PromptsList => ("prompts", "name"),
        _ => ("tools", "name"),
    }
}

/// Handles a list request.
pub(crate) async fn handle_list(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    let id = request.id();
    let Some(mut responder) = reject_cursor(gw, request, ctx.client(), &mut recorder, responder).await else {
        return;
    };
    let (member, _) = list_member_names(request.method());
    let progress = ProgressRelay::of(request);
    let wanted = ListRequest { method: request.method(), member, progress: progress.as_ref(), is_client_request: true };
    let changes = ctx.tool_registry().change_count();
    let pages =
        fetch_list(gw, ctx, &wanted, &mut responder, |id, cursor, trace| request.page_request(id, cursor, trace)).await;
    let pages = match pages {
        Ok(pages) => pages,
        Err(error) => return reply_failure(gw, id, &mut recorder, error, responder).await,
    };
    match build_response(gw, ctx, request, &pages, changes).await {
        Ok((status, text, outcome)) => {
            responder.finish_with_body(status, text).await;
            gw.write_row(recorder.outcome_row(outcome, None)).await;
        }
        Err(Refusal::Upstream(error)) => reply_failure(gw, id, &mut recorder, error, responder).await,
        Err(refusal) => {
            responder.finish(reply::internal_error_reply(id, recorder.call_id(), &refusal)).await;
            gw.record_refusal(&mut recorder, &refusal).await;
        }
    }
}

/// Error message for a client that sends a cursor.
pub(crate) const UNKNOWN_CURSOR_MESSAGE: &str =
    "unknown `params.cursor`: this gateway returns lists as a whole; send the request without it";

/// Rejects a cursor: lists are returned whole, so the gateway never issues one. Returns the responder if there is no
/// cursor.
pub(crate) async fn reject_cursor(
    gw: &GatewayServices,
    request: &ClientRequest<'_>,
    client: ClientContext<'_>,
    recorder: &mut CallRecorder,
    responder: Responder,
) -> Option<Responder> {
    let (status, text, code, what) = match request.cursor() {
        Ok(None) => return Some(responder),
        Ok(Some(_)) => {
            let what = if mutant!("cursor-refusal-unexplained") { "unknown cursor" } else { UNKNOWN_CURSOR_MESSAGE }
                .to_owned();
            let text = error_response(Some(request.id()), code::INVALID_PARAMS, &what, None);
            (StatusCode::OK, text, code::INVALID_PARAMS, what)
        }
        Err(error) => {
            let status = client.protocol.rejection_status(&error);
            (status, reply::wire_error_reply(&error), error.code, error.message)
        }
    };
    responder.finish_with_status(status, text.into()).await;
    gw.write_row(recorder.rejection_row(code, &what)).await;
    None
}

/// Builds the response from the pages.
async fn build_response(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    pages: &ListFetchResult,
    changes: u64,
) -> Result<(StatusCode, MessageBody, CallOutcome), Refusal> {
    let unreadable = || Refusal::Upstream(UpstreamSendError::InvalidResponse("the list cannot be read".to_owned()));
    match pages {
        ListFetchResult::Whole(pages, first) => {
            let listing = match request.method() {
                Method::ToolsList => Some(apply_listing(gw, ctx, pages, Some(first), changes).await?),
                _ => None,
            };
            let secrets = ctx.upstream.secret_redactor();
            let build_list = || {
                let list = filter_entries(ctx, request.method(), pages, listing.as_deref(), &gw.settings.reply_limits)?;
                // Members that the server adds to the response are kept.
                let (before, after) = if mutant!("list-envelope-rewritten") {
                    (r#"{"jsonrpc":"2.0","id":"#.to_owned(), format!(r#","result":{list}}}"#))
                } else {
                    ServerResponse::from_spans(&first.text, &first.spans)?.template_around_id(&list)?
                };
                Some(CachedToolList::new(before, after, secrets))
            };
            let listed = match &listing {
                Some(listing) if listing.starts_with_response(&first.text) => {
                    listing.list_cache.get_or_build(ctx.tool_list_cache_key(), build_list)
                }
                _ => build_list(),
            };
            Ok((StatusCode::OK, listed.ok_or_else(unreadable)?.with_id(request.id(), secrets), CallOutcome::Ok))
        }
        ListFetchResult::Error(message, status) => {
            let (text, outcome) =
                response_for_client(ctx, message, request.id(), &gw.settings.reply_limits).ok_or_else(unreadable)?;
            Ok((*status, text.into(), outcome))
        }
    }
}

/// Returns the pinned tools from the server's last listing that the grant may see.
pub(crate) async fn pinned_tools(gw: &GatewayServices, ctx: &RequestContext) -> Vec<String> {
    // Tools that cannot be looked up are not shown.
    let Ok(Some(known)) = gw.tool_pins.server_tools(ctx.upstream.name()).await else { return Vec::new() };
    let texts: Vec<&str> = known.offered.iter().map(|tool| tool.text.as_str()).collect();
    let page = Bytes::from(format!(r#"{{"tools":[{}]}}"#, texts.join(",")));
    let mut listing = ToolListing::from_pages(std::slice::from_ref(&page), &gw.settings.reply_limits);
    let categories =
        ServerToolCategories::of(ctx.upstream.tool_categories.load_full(), ctx.upstream.name(), &known).await;
    listing.compare_with_pins(&known, categories);
    let is_listed = |name: &str| is_listed(ctx, &Method::ToolsList, name, Some(&listing));
    let listed = known.offered.iter().filter(|tool| is_listed(&tool.name));
    listed.map(|tool| tool.text.clone()).collect()
}

/// Builds a single page of all entries that the grant may see, each unchanged.
fn filter_entries(
    ctx: &RequestContext,
    method: &Method<'_>,
    pages: &[Bytes],
    listing: Option<&ToolListing>,
    limits: &JsonLimits,
) -> Option<String> {
    let (member, key) = list_member_names(method);
    let documents: Vec<_> = pages.iter().map(|page| read(page, limits).ok()).collect::<Option<_>>()?;
    let mut entries = Vec::new();
    let mut names = HashSet::new();
    for document in &documents {
        for entry in document.root().get(member)?.elements() {
            let Some(name) = entry.get(key).and_then(|name| name.as_str()) else { continue };
            // Of entries with the same name only the first is kept; which one a call would reach is ambiguous.
            let is_listed = is_listed(ctx, method, &name, listing) || mutant!("list-not-filtered-by-policy");
            if is_listed && names.insert(name.into_owned()) {
                entries.push(entry.raw());
            }
        }
    }
    let list = replace_list_items(documents.first()?.root(), member, &entries, ctx.list_caching())?;
    Some(ctx.translate_list(list))
}

fn is_listed(ctx: &RequestContext, method: &Method<'_>, name: &str, listing: Option<&ToolListing>) -> bool {
    let tool = ctx.find_tool(listing, name);
    // Tools with invalid parameter headers are hidden: stateless clients have to send these headers and could not call
    // them.
    if *method == Method::ToolsList && tool.is_none() {
        return false;
    }
    if ctx.server_access.mode == EnforcementMode::Observe {
        return true;
    }
    let Some(policy) = &ctx.server_access.policy else { return false };
    let policy = &policy.policy;
    match method {
        Method::ResourcesList => policy.is_resource_visible(name),
        Method::ResourceTemplatesList => policy.is_template_visible(name),
        Method::PromptsList => policy.is_prompt_visible(name),
        _ => {
            let definition = tool.map_or(DefinitionStatus::NotOffered, |tool| tool.pin_state);
            let category = listing.map_or(Category::Unknown, |listing| listing.category(name));
            policy.is_tool_visible(&CalledTool { name, category, definition, schema: None })
        }
    }
}
