//! Fetches a server's tool listing through the client's own session when the listing is not known, and compares it with
//! the pinned definitions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{Method, ServerMessage, code, read_server_message};
use gatelodge_mutants::mutant;
use gatelodge_store::{AdminLogEntry, ServerName, ServerTools, StoreError, ToolDefinition};
use tracing::warn;

use super::list_requests::{ListFetchResult, ListRequest, fetch_list_within};
use crate::pipeline::{ForwardContext, wait_or_cancel};
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream::{
    ListResponseBaseline, ServerToolCategories, ToolListing, Upstream, UpstreamSendError, confusable_names,
};

/// Minimum age of a listing before it is fetched again for an unknown tool name.
const UNKNOWN_TOOL_REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for fetching the listing for a call, unless the server is busy with another call.
const TOOL_LISTING_TIMEOUT: Duration = Duration::from_secs(5);
/// Actor named in the admin log when tools are pinned automatically.
const GATEWAY_ACTOR: &str = "gateway";

/// Returns a current listing that is recent enough to decide on a call to the tool `name`.
pub(crate) async fn listing_for_tool(
    gw: &GatewayServices,
    ctx: &RequestContext,
    name: &str,
    responder: &mut Responder,
) -> Result<Arc<ToolListing>, Refusal> {
    if let Some(listing) = find_usable_listing(ctx, name) {
        return Ok(listing);
    }
    // Many servers process one request at a time, so on a shared connection the listing waits for the running call.
    let timeout = if ctx.has_pending_call() { gw.settings.call_timeout } else { TOOL_LISTING_TIMEOUT };
    let fetching = async {
        let registry = ctx.tool_registry();
        let forward_ctx = ForwardContext {
            gw,
            ctx,
            call: gw.new_call_id(),
            progress: None,
            cancels_on_disconnect: false,
            is_client_request: false,
            can_suspend: false,
            previous_response: None,
            deadline_timer: None,
        };
        let waiting = wait_or_cancel(&forward_ctx, responder, std::pin::pin!(registry.refresh_lock.lock())).await;
        let Some(_one_at_a_time) = waiting else { return Err(Refusal::Upstream(UpstreamSendError::ClientGone)) };
        match find_usable_listing(ctx, name) {
            Some(listing) => Ok(listing),
            None => refresh_listing(gw, ctx, timeout, responder).await,
        }
    };
    tokio::time::timeout(timeout, Box::pin(fetching))
        .await
        .unwrap_or(Err(Refusal::Upstream(UpstreamSendError::Timeout)))
}

/// Returns the current listing if it is fresh enough to decide on a call to the tool, even if it does not contain the
/// tool.
fn find_usable_listing(ctx: &RequestContext, name: &str) -> Option<Arc<ToolListing>> {
    let listing = ctx.tool_registry().current()?;
    let age = listing.listed_at.elapsed();
    let fresh = ctx.upstream.config().pinning.check_definitions;
    let is_usable =
        if listing.find_tool(name).is_some() { age < fresh } else { age < UNKNOWN_TOOL_REFRESH_INTERVAL.min(fresh) };
    is_usable.then_some(listing)
}

async fn refresh_listing(
    gw: &GatewayServices,
    ctx: &RequestContext,
    timeout: Duration,
    responder: &mut Responder,
) -> Result<Arc<ToolListing>, Refusal> {
    let changes = ctx.tool_registry().change_count();
    let wanted = ListRequest { method: &Method::ToolsList, member: "tools", progress: None, is_client_request: false };
    let fetching =
        fetch_list_within(timeout, gw, ctx, &wanted, responder, |id, cursor, _| ctx.tools_list_request(id, cursor));
    let (pages, first) = match fetching.await? {
        ListFetchResult::Whole(pages, first) => (pages, Some(first)),
        // A server without tools does not know the method. Any other error says nothing about its tools, and the
        // listing is shared by all grants.
        ListFetchResult::Error(message, _)
            if is_method_not_found(&message) || mutant!("tool-list-error-read-as-empty") =>
        {
            (Vec::new(), None)
        }
        ListFetchResult::Error(..) => {
            return Err(UpstreamSendError::InvalidResponse("the server does not list its tools".to_owned()).into());
        }
    };
    apply_listing(gw, ctx, &pages, first.as_ref(), changes).await
}

/// Compares a fetched listing with the pinned definitions and stores it. `first` is the response with the first page;
/// `changes` is the change count from before the request.
pub(crate) async fn apply_listing(
    gw: &GatewayServices,
    ctx: &RequestContext,
    pages: &[Bytes],
    first: Option<&ListResponseBaseline>,
    changes: u64,
) -> Result<Arc<ToolListing>, Refusal> {
    let (upstream, registry) = (&ctx.upstream, ctx.tool_registry());
    let current = registry.current().filter(|listing| listing.is_from_pages(pages));
    let is_known = current.is_some();
    if let Some(listing) =
        current.filter(|listing| listing.listed_at.elapsed() < upstream.config().pinning.check_definitions)
    {
        return Ok(listing);
    }
    let mut listing = ToolListing::from_pages(pages, &gw.settings.reply_limits).with_first_response(first.cloned());
    if upstream.takes_param_headers() {
        for (tool, why) in listing.tools_without_param_headers() {
            let (name, tool) =
                (upstream.name(), gatelodge_mcp::quote_excerpt(&upstream.secret_redactor().redact_text(tool)));
            warn!(server.name = %name, "the tool {tool} of `{name}` is left out for clients of 2026-07-28: {why}");
        }
    }
    let (known, is_first) = store_and_pin(gw, upstream, listing.definitions()).await.map_err(Refusal::Store)?;
    upstream.note_pins(&known, is_first);
    let categories = ServerToolCategories::of(upstream.tool_categories.load_full(), upstream.name(), &known).await;
    upstream.tool_categories.store(Some(Arc::clone(&categories)));
    listing.compare_with_pins(&known, categories);
    let listing = Arc::new(listing);
    registry.store(Arc::clone(&listing), changes);
    if !is_known {
        warn_of_unlisted_policy_tools(ctx, &listing);
        warn_of_unusual_names(upstream, &listing);
    }
    Ok(listing)
}

/// Logs a warning about names that some clients do not accept.
fn warn_of_unusual_names(upstream: &Upstream, listing: &ToolListing) {
    for tool in listing.unconventional_names() {
        // A name can be any text and may contain a secret.
        let (server, tool) =
            (upstream.name(), gatelodge_mcp::quote_excerpt(&upstream.secret_redactor().redact_text(tool)));
        warn!(server.name = %server, "the tool {tool} of `{server}` is listed, but some clients reject its name: use 1 to 128 letters, digits, `_`, `-` and `.`");
    }
}

/// Reloads the pins of all servers in the background, and notifies listeners of changes.
pub(crate) fn reload_pins(gw: &GatewayServices) {
    let is_watched = |server: &&Arc<Upstream>| {
        !mutant!("pin-change-ignored-before-first-list") || server.tool_registry.current().is_some()
    };
    let servers = gw.config.snapshot().servers().filter(is_watched).cloned().collect::<Vec<_>>();
    let Some(gw) = gw.arc_self().filter(|_| !servers.is_empty()) else { return };
    let task = Arc::clone(&gw);
    gw.tasks.spawn(async move {
        for server in servers {
            match task.tool_pins.server_tools(server.name()).await {
                Ok(Some(known)) => server.note_pins(&known, false),
                Ok(None) => server.note_no_pins(),
                Err(error) => {
                    let name = server.name();
                    warn!(server.name = %name, error = %error, "cannot read the pinned tools of `{name}`: {error}");
                }
            }
        }
    });
}

/// Warns about tools that the policy names but the server does not list, usually because a name is misspelled.
fn warn_of_unlisted_policy_tools(ctx: &RequestContext, listing: &ToolListing) {
    let Some(policy) = &ctx.server_access.policy else { return };
    for name in policy.policy.named_tools().into_iter().filter(|name| listing.find_tool(name).is_none()) {
        let (policy, server, tool) = (&policy.name, ctx.upstream.name(), gatelodge_mcp::quote_excerpt(name));
        warn!(policy.name = %policy, server.name = %server, "policy `{policy}` names the tool {tool}, which `{server}` does not list");
    }
}

/// Stores the listed definitions and pins those that are to be pinned automatically. Returns the stored tools, and
/// whether the server was unknown before.
async fn store_and_pin(
    gw: &GatewayServices,
    upstream: &Upstream,
    offered: Vec<ToolDefinition>,
) -> Result<(ServerTools, bool), StoreError> {
    let name = upstream.name();
    let pinning = upstream.config().pinning;
    let plain = without_confusables(upstream, &offered);
    let before = gw.tool_pins.server_tools(name).await?;
    if before.as_ref().is_none_or(|known| known.offered != offered) {
        let first = if pinning.review { Vec::new() } else { plain.iter().map(|tool| tool.name.clone()).collect() };
        let entry = admin_log_entry(gw, name, first.len());
        gw.tool_pins.record_offered(name, offered.clone(), first, entry).await?;
    }
    let known = match before {
        Some(known) => ServerTools { offered: offered.clone(), ..known },
        None => return Ok((gw.tool_pins.server_tools(name).await?.unwrap_or_default(), true)),
    };
    let is_new = |tool: &&&ToolDefinition| !known.pinned.iter().any(|pin| pin.definition.name == tool.name);
    let new: Vec<(String, String)> =
        plain.iter().filter(is_new).map(|tool| (tool.name.clone(), tool.fingerprint.clone())).collect();
    if new.is_empty() || !(pinning.accept_new || mutant!("new-tool-always-pinned")) {
        return Ok((known, false));
    }
    let entry = admin_log_entry(gw, name, new.len());
    match gw.tool_pins.accept(name, new, entry).await {
        // A concurrent refresh saw other definitions. Tools that are still withheld are checked at the next refresh.
        Ok(()) | Err(StoreError::Conflict(_)) => {
            Ok((gw.tool_pins.server_tools(name).await?.unwrap_or_default(), false))
        }
        Err(error) => Err(error),
    }
}

/// Returns the tools whose names are not confusable, and logs a warning if there are others.
fn without_confusables<'o>(upstream: &Upstream, offered: &'o [ToolDefinition]) -> Vec<&'o ToolDefinition> {
    let confusable = confusable_names(offered.iter().map(|tool| tool.name.as_str()));
    if let Some(tool) = confusable.first() {
        // A name can be any text and may contain a secret.
        let (server, tool) =
            (upstream.name(), gatelodge_mcp::quote_excerpt(&upstream.secret_redactor().redact_text(tool)));
        warn!(server.name = %server, "tools of `{server}` with confusable names are not pinned, among them {tool}");
    }
    let is_plain =
        |tool: &&ToolDefinition| !confusable.contains(tool.name.as_str()) || mutant!("confusable-tool-names-accepted");
    offered.iter().filter(is_plain).collect()
}

fn admin_log_entry(gw: &GatewayServices, server: &ServerName, tools: usize) -> AdminLogEntry {
    AdminLogEntry {
        at: gw.clock.now(),
        by: GATEWAY_ACTOR.to_owned(),
        action: "server.accept".to_owned(),
        subject: server.to_string(),
        detail: format!("{tools} tools, as they were offered").into(),
    }
}

fn is_method_not_found(message: &[u8]) -> bool {
    let Ok(ServerMessage::Response(reply)) = read_server_message(message, &JsonLimits::REPLY) else { return false };
    reply.error().is_some_and(|error| error.code == code::METHOD_NOT_FOUND.to_string())
}
