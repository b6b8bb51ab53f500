//! Tasks whose visibility depends on the tool listing, which may have to be fetched first.

use gatelodge_mcp::ClientRequest;
use gatelodge_store::{EnforcementMode, StoreError};

use crate::methods::tool_listing_refresh::listing_for_tool;
use crate::pipeline::task_ownership::{is_task_visible, is_unowned_and_observed, task_ids};
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;

/// Fetches the tool listing if it is not known. A server that does not list its tools counts as having none.
pub(crate) async fn ensure_tool_listing(
    gw: &GatewayServices,
    ctx: &RequestContext,
    tool: &str,
    responder: &mut Responder,
) {
    if ctx.server_access.mode == EnforcementMode::Enforce {
        let _ = listing_for_tool(gw, ctx, tool, responder).await;
    }
}

/// Returns the first task in a listen request that the grant must not see.
///
/// # Errors
/// The store fails.
pub(crate) async fn find_hidden_task(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    responder: &mut Responder,
) -> Result<Option<String>, StoreError> {
    for value in task_ids(request).iter().flat_map(|named| named.elements()) {
        let id = value.as_str().unwrap_or(value.raw().into());
        let is_visible = match gw.owned_task_tool(ctx, &id).await? {
            Some(tool) => {
                ensure_tool_listing(gw, ctx, &tool, responder).await;
                is_task_visible(gw, ctx, &tool)
            }
            None => is_unowned_and_observed(gw, ctx, &id).await?,
        };
        if !is_visible {
            return Ok(Some(id.into_owned()));
        }
    }
    Ok(None)
}
