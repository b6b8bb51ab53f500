//! Handles the list requests for tools, resources, resource templates and prompts: fetches all pages, and removes
//! entries that the grant cannot use.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::{JsonValue, read};
use gatelodge_mcp::{
    ClientRequest, Method, RequestId, ServerResponse, ServerResponseOffsets, TraceParent, code, error_response,
    replace_list_items,
};
use gatelodge_mutants::mutant;
use gatelodge_policy::{CalledTool, Category, DefinitionStatus};
use gatelodge_store::{CallOutcome, EnforcementMode};
use http::StatusCode;

use super::policy_exempt_messages::reply_failure;
use super::tool_listing_refresh::apply_listing;
use crate::body::MessageBody;
use crate::call_recorder::CallRecorder;
use crate::pipeline::{ForwardContext, ForwardOutcome, forward, response_for_client};
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{ClientContext, RequestContext};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::ProgressRelay;
use crate::upstream::{
    CachedToolList, ListResponseBaseline, Permit, ServerToolCategories, ToolListing, UpstreamRequest, UpstreamResponse,
    UpstreamSendError,
};
use crate::upstream_session::own_request::result_text;

/// Maximum number of pages. Real servers have a few; a list with more pages than this is assumed to be endless.
const MAX_PAGES: usize = 200;
/// Time limit for all pages of a list.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Result of fetching a list.
#[derive(Debug)]
pub(crate) enum ListFetchResult {
    /// The results of all pages, and the first response, whose id was assigned by the gateway.
    Whole(Vec<Bytes>, ListResponseBaseline),
    /// The upstream's error response, with the id that the gateway assigned, and the status for the client.
    Error(Bytes, StatusCode),
}

/// A list request to the upstream.
#[derive(Debug)]
pub(crate) struct ListRequest<'a> {
    pub method: &'a Method<'a>,
    pub member: &'a str,
    pub progress: Option<&'a ProgressRelay>,
    /// Whether the request comes from the client rather than the gateway itself.
    pub is_client_request: bool,
}

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
                let list = filter_entries(gw, ctx, request.method(), pages, listing.as_deref())?;
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

/// Fetches all pages of a list. `build_page_request` builds the request for the page that a cursor refers to.
pub(crate) async fn fetch_list(
    gw: &GatewayServices,
    ctx: &RequestContext,
    wanted: &ListRequest<'_>,
    responder: &mut Responder,
    build_page_request: impl Fn(&RequestId<'_>, Option<&str>, Option<&TraceParent>) -> String,
) -> Result<ListFetchResult, UpstreamSendError> {
    fetch_list_within(LIST_TIMEOUT.min(gw.settings.call_timeout), gw, ctx, wanted, responder, build_page_request).await
}

/// Like [`fetch_list`], with a time limit. Listing has no side effects, so it is retried once from the first page if
/// the session has expired.
pub(crate) async fn fetch_list_within(
    time: Duration,
    gw: &GatewayServices,
    ctx: &RequestContext,
    wanted: &ListRequest<'_>,
    responder: &mut Responder,
    build_page_request: impl Fn(&RequestId<'_>, Option<&str>, Option<&TraceParent>) -> String,
) -> Result<ListFetchResult, UpstreamSendError> {
    let fetching = async {
        match fetch_pages(gw, ctx, wanted, responder, &build_page_request).await {
            Err(UpstreamSendError::SessionExpired) if !mutant!("list-not-retried-after-lost-session") => {
                fetch_pages(gw, ctx, wanted, responder, &build_page_request)
                    .await
                    .map_err(UpstreamSendError::after_call_sent)
            }
            fetched => fetched,
        }
    };
    tokio::time::timeout(time, fetching).await.unwrap_or(Err(UpstreamSendError::Timeout))
}

/// Detects servers whose pages repeat, which would otherwise be followed forever.
#[derive(Default)]
struct PageLoopDetector {
    cursors: HashSet<String>,
    names: HashSet<String>,
}

impl PageLoopDetector {
    /// Returns the cursor of the next page as JSON, or `None` at the end of the list: no cursor, or one that was seen
    /// before.
    ///
    /// # Errors
    /// The cursor is new, but the page contains nothing new.
    fn next_cursor(&mut self, page: JsonValue<'_>, method: &Method<'_>) -> Result<Option<String>, UpstreamSendError> {
        let (member, key) = list_member_names(method);
        let names = page.get(member).into_iter().flat_map(|list| list.elements());
        let names: Vec<String> = names.filter_map(|entry| Some(entry.get(key)?.as_str()?.into_owned())).collect();
        let (is_empty, before) = (names.is_empty(), self.names.len());
        self.names.extend(names);
        let has_new = self.names.len() > before;
        let next = page.get("nextCursor").and_then(|next| Some((next, next.as_str()?)));
        let Some((next, text)) = next.filter(|(_, text)| !text.is_empty()) else { return Ok(None) };
        if !self.cursors.insert(text.into_owned()) {
            return Ok(None);
        }
        if has_new || is_empty {
            return Ok(Some(next.raw().to_owned()));
        }
        Err(UpstreamSendError::InvalidResponse("the list does not end: a page contains nothing new".to_owned()))
    }
}

async fn fetch_pages(
    gw: &GatewayServices,
    ctx: &RequestContext,
    wanted: &ListRequest<'_>,
    responder: &mut Responder,
    build_page_request: impl Fn(&RequestId<'_>, Option<&str>, Option<&TraceParent>) -> String,
) -> Result<ListFetchResult, UpstreamSendError> {
    let member = wanted.member;
    let mut pages = Vec::new();
    let mut first = None;
    let mut seen = PageLoopDetector::default();
    let mut cursor: Option<String> = None;
    let mut total = 0;
    let known = ctx.tool_registry().current().filter(|_| *wanted.method == Method::ToolsList);
    let max_bytes = gw.settings.reply_limits.max_bytes;
    while pages.len() < MAX_PAGES && total < max_bytes {
        let call = gw.new_call_id();
        let method = wanted.method.name();
        let span = ctx.upstream_span(method, None);
        let text = build_page_request(
            &RequestId::string(call.as_str()),
            cursor.as_deref(),
            span.as_ref().map(|span| &span.context),
        );
        let outgoing = ctx.request_for_upstream(UpstreamRequest::request(text, call), method, None).with_span(span);
        let permit = Permit::for_list(wanted.method, outgoing)
            .ok_or_else(|| UpstreamSendError::NotSent("the method is subject to the policy".to_owned()))?;
        let forward_ctx = ForwardContext {
            gw,
            ctx,
            call,
            progress: wanted.progress,
            // A listing that is fetched for a call continues when the client disconnects, as the call would.
            cancels_on_disconnect: wanted.is_client_request,
            is_client_request: wanted.is_client_request,
            can_suspend: false,
            previous_response: known
                .as_ref()
                .and_then(|listing| listing.single_response())
                .filter(|_| pages.is_empty()),
            deadline_timer: None,
        };
        let sent = forward(&forward_ctx, permit, responder).await;
        // After the first page, an error must not claim that nothing was sent.
        let sent = if pages.is_empty() { sent } else { sent.map_err(UpstreamSendError::after_call_sent) };
        let (ForwardOutcome::Response(message, spans), exchange) = sent? else {
            if let Some(session) = ctx.upstream_session() {
                gw.notify_cancelled(&ctx.upstream, session, call).await;
            }
            return Err(UpstreamSendError::ClientGone);
        };
        let message = message.into_bytes();
        let upstream_status = exchange.as_ref().map_or(StatusCode::OK, |exchange| exchange.status);
        drain(gw, exchange).await;
        if pages.is_empty()
            && let Some(page) = known.as_ref().and_then(|listing| unchanged_page(listing, &message, &spans))
        {
            return Ok(ListFetchResult::Whole(vec![page], ListResponseBaseline { text: message, spans }));
        }
        let page = match result_text(&message, &gw.settings.reply_limits) {
            Err(_) if mutant!("unreadable-list-forwarded") => None,
            page => page?,
        };
        let Some(page) = page else {
            let status = ctx.response_status(&message.clone().into(), call, upstream_status, &gw.settings.reply_limits);
            return Ok(ListFetchResult::Error(message, status));
        };
        total += page.len();
        let document = read(&page, &gw.settings.reply_limits)
            .map_err(|_| UpstreamSendError::InvalidResponse("a page cannot be read".to_owned()))?;
        if document.root().get(member).is_none() {
            return Err(UpstreamSendError::InvalidResponse(format!("a page has no `{member}`")));
        }
        pages.push(page.clone());
        let first = first.get_or_insert(ListResponseBaseline { text: message, spans });
        cursor = seen.next_cursor(document.root(), wanted.method)?;
        if cursor.is_none() {
            return Ok(ListFetchResult::Whole(pages, first.clone()));
        }
    }
    Err(UpstreamSendError::InvalidResponse(format!("the list has more than {MAX_PAGES} pages or {max_bytes} bytes")))
}

/// Returns the only page of a tool list if it is byte for byte the page that the current listing was parsed from, so
/// that it need not be parsed again.
fn unchanged_page(listing: &ToolListing, message: &Bytes, spans: &ServerResponseOffsets) -> Option<Bytes> {
    let page = message.slice(spans.result()?);
    listing.is_from_pages(std::slice::from_ref(&page)).then_some(page)
}

async fn drain(gw: &GatewayServices, exchange: Option<UpstreamResponse>) {
    if let Some(mut exchange) = exchange {
        exchange.drain(&gw.metrics).await;
    }
}

/// Builds a single page of all entries that the grant may see, each unchanged.
fn filter_entries(
    gw: &GatewayServices,
    ctx: &RequestContext,
    method: &Method<'_>,
    pages: &[Bytes],
    listing: Option<&ToolListing>,
) -> Option<String> {
    let (member, key) = list_member_names(method);
    let documents: Vec<_> =
        pages.iter().map(|page| read(page, &gw.settings.reply_limits).ok()).collect::<Option<_>>()?;
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
