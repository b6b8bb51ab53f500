//! Fetches all pages of a list.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::{JsonValue, read};
use gatelodge_mcp::{Method, RequestId, ServerResponseOffsets, TraceParent};
use gatelodge_mutants::mutant;
use gatelodge_store::CallId;
use http::StatusCode;

use super::list_member_names;
use crate::pipeline::{ForwardContext, ForwardOutcome, forward};
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::ProgressRelay;
use crate::upstream::{ListResponseBaseline, Permit, ToolListing, UpstreamRequest, UpstreamSendError};
use crate::upstream_session::call_cancellation;
use crate::upstream_session::upstream_exchange::result_text;

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

/// Builds the request for the page that a cursor refers to, under an id and in a trace.
pub(crate) trait PageRequestBuilder: Fn(&RequestId<'_>, Option<&str>, Option<&TraceParent>) -> String {}

impl<F: Fn(&RequestId<'_>, Option<&str>, Option<&TraceParent>) -> String> PageRequestBuilder for F {}

/// Fetches all pages of a list. `build_page_request` builds the request for the page that a cursor refers to.
pub(crate) async fn fetch_list(
    gw: &GatewayServices,
    ctx: &RequestContext,
    wanted: &ListRequest<'_>,
    responder: &mut Responder,
    build_page_request: impl PageRequestBuilder,
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
    build_page_request: impl PageRequestBuilder,
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
    build_page_request: impl PageRequestBuilder,
) -> Result<ListFetchResult, UpstreamSendError> {
    let limits = &gw.settings.reply_limits;
    let (mut pages, mut first, mut cursor) = (Vec::new(), None, None::<String>);
    let mut seen = PageLoopDetector::default();
    let mut total = 0;
    let known = ctx.tool_registry().current().filter(|_| *wanted.method == Method::ToolsList);
    while pages.len() < MAX_PAGES && total < limits.max_bytes {
        let previous = known.as_ref().and_then(|listing| listing.single_response()).filter(|_| pages.is_empty());
        let own = PageRequest { gw, ctx, wanted, cursor: cursor.as_deref(), previous };
        let PageResponse { call, message, spans, status } = own.send(responder, &build_page_request).await?;
        if pages.is_empty()
            && let Some(page) = known.as_ref().and_then(|listing| unchanged_page(listing, &message, &spans))
        {
            return Ok(ListFetchResult::Whole(vec![page], ListResponseBaseline { text: message, spans }));
        }
        let page = match result_text(&message, limits) {
            Err(_) if mutant!("unreadable-list-forwarded") => None,
            page => page?,
        };
        let Some(page) = page else {
            let status = ctx.response_status(&message.clone().into(), call, status, limits);
            return Ok(ListFetchResult::Error(message, status));
        };
        total += page.len();
        let document =
            read(&page, limits).map_err(|_| UpstreamSendError::InvalidResponse("a page cannot be read".to_owned()))?;
        if document.root().get(wanted.member).is_none() {
            return Err(UpstreamSendError::InvalidResponse(format!("a page has no `{}`", wanted.member)));
        }
        pages.push(page.clone());
        let first = first.get_or_insert(ListResponseBaseline { text: message, spans });
        cursor = seen.next_cursor(document.root(), wanted.method)?;
        if cursor.is_none() {
            return Ok(ListFetchResult::Whole(pages, first.clone()));
        }
    }
    let max_bytes = limits.max_bytes;
    Err(UpstreamSendError::InvalidResponse(format!("the list has more than {MAX_PAGES} pages or {max_bytes} bytes")))
}

/// The request for one page.
struct PageRequest<'a> {
    gw: &'a GatewayServices,
    ctx: &'a RequestContext,
    wanted: &'a ListRequest<'a>,
    /// Refers to the page; `None` for the first.
    cursor: Option<&'a str>,
    /// The upstream's last response to the same request.
    previous: Option<&'a ListResponseBaseline>,
}

/// The upstream's response to the request for one page.
struct PageResponse {
    call: CallId,
    message: Bytes,
    spans: ServerResponseOffsets,
    status: StatusCode,
}

impl PageRequest<'_> {
    async fn send(
        &self,
        responder: &mut Responder,
        build: impl PageRequestBuilder,
    ) -> Result<PageResponse, UpstreamSendError> {
        let Self { gw, ctx, wanted, cursor, previous } = *self;
        let (call, method) = (gw.new_call_id(), wanted.method.name());
        let span = ctx.upstream_span(method, None);
        let text = build(&RequestId::string(call.as_str()), cursor, span.as_ref().map(|span| &span.context));
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
            previous_response: previous,
            deadline_timer: None,
        };
        let sent = forward(&forward_ctx, permit, responder).await;
        // After the first page, an error must not claim that nothing was sent.
        let sent = if cursor.is_none() { sent } else { sent.map_err(UpstreamSendError::after_call_sent) };
        let (ForwardOutcome::Response(message, spans), exchange) = sent? else {
            if let Some(session) = ctx.upstream_session() {
                call_cancellation::notify_cancelled(gw, &ctx.upstream, session, call).await;
            }
            return Err(UpstreamSendError::ClientGone);
        };
        let message = message.into_bytes();
        let status = exchange.as_ref().map_or(StatusCode::OK, |exchange| exchange.status);
        if let Some(mut exchange) = exchange {
            exchange.drain(&gw.metrics).await;
        }
        Ok(PageResponse { call, message, spans, status })
    }
}

/// Returns the only page of a tool list if it is byte for byte the page that the current listing was parsed from, so
/// that it need not be parsed again.
fn unchanged_page(listing: &ToolListing, message: &Bytes, spans: &ServerResponseOffsets) -> Option<Bytes> {
    let page = message.slice(spans.result()?);
    listing.is_from_pages(std::slice::from_ref(&page)).then_some(page)
}
