//! Fetches the tool listing for a call if there is no fresh one.

use std::sync::Arc;

use crate::call_recorder::CallRecorder;
use crate::methods::tool_listing_refresh::listing_for_tool;
use crate::pipeline::authorize::hidden_reason;
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream::{ToolListing, UpstreamSendError};

/// Fetches the tool listing for a call. If the policy hides the tool regardless of the listing, the call is refused
/// without asking the server.
pub(super) async fn fetch_tool_listing(
    gw: &GatewayServices,
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    name: &str,
    (recorder, responder): (&CallRecorder, &mut Responder),
) -> Result<Arc<ToolListing>, Refusal> {
    let is_known = ctx.tool_registry().current().is_some_and(|listing| listing.find_tool(name).is_some());
    if !is_known && let Some(reason) = hidden_reason(ctx, subject, recorder) {
        return Err(Refusal::Denied(reason));
    }
    listing_for_tool(gw, ctx, name, responder).await.map_err(as_unsent_refusal)
}

/// Classifies an error that occurred before the call was sent.
pub(super) fn as_unsent_refusal(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Upstream(fault @ (UpstreamSendError::NotSent(_) | UpstreamSendError::ClientGone)) => {
            Refusal::Upstream(fault)
        }
        Refusal::Upstream(fault) => Refusal::ToolListUnavailable(fault),
        other => other,
    }
}
