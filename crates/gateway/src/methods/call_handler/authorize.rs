//! Evaluates the policy for a call, using the tool listing of its server.

use std::sync::Arc;

use gatelodge_policy::{AllowTerms, CallTarget, Decision, DefinitionStatus, Reason, ReasonCode, decide};
use gatelodge_store::EnforcementMode;

use crate::methods::tool_listing_refresh::{find_fresh_listing, listing_for_tool};
use crate::pipeline::CallRecorder;
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream::{ToolListing, UpstreamSendError};

/// Returns the reason why the policy hides a tool, if that does not depend on the server's listing.
pub(super) fn hidden_reason(
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    recorder: &CallRecorder,
) -> Option<Reason> {
    if ctx.server_access.policy.as_ref().is_some_and(|policy| policy.policy.has_category_rules()) {
        return None;
    }
    match evaluate_policy(ctx, subject, None, recorder) {
        Decision::Deny(reason) if ctx.server_access.mode == EnforcementMode::Enforce => {
            matches!(reason.code, ReasonCode::Hidden | ReasonCode::NotListed | ReasonCode::NoPolicy).then_some(reason)
        }
        _ => None,
    }
}

/// Returns the reason for the denial if it is already certain that the policy denies the call. Does not ask the server
/// and reserves no charges.
pub(super) fn early_denial(
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    recorder: &CallRecorder,
) -> Option<Reason> {
    let listing = subject.tool().and_then(|name| find_fresh_listing(ctx, name));
    let decision = match (subject.tool(), &listing) {
        // The policy does not depend on the definitions of resources and prompts.
        (None, _) | (_, Some(_)) => evaluate_policy(ctx, subject, listing.as_deref(), recorder),
        (Some(_), None) => evaluate_as_pinned(ctx, subject, recorder)?,
    };
    match decision {
        Decision::Deny(reason) if ctx.server_access.mode == EnforcementMode::Enforce => Some(reason),
        _ => None,
    }
}

/// Evaluates a tool as if its definition were pinned. Returns `None` if the decision depends on the listing.
fn evaluate_as_pinned(ctx: &RequestContext, subject: &RequestSubject<'_>, recorder: &CallRecorder) -> Option<Decision> {
    let Some(policy) = &ctx.server_access.policy else { return Some(Decision::Deny(Reason::no_policy())) };
    let mut call = subject.to_policy_call(ctx, None);
    if let CallTarget::Tool(tool) = &mut call.target {
        tool.definition = DefinitionStatus::Accepted;
    }
    match decide(&policy.policy, &call, recorder.started_at()) {
        _ if policy.policy.has_category_rules() => None,
        Decision::Deny(Reason { code: ReasonCode::InvalidArguments, .. }) => None,
        decision => Some(decision),
    }
}

/// Returns the tool listing for a tool call, fetching it if necessary, and records the definition in it. If the policy
/// hides the tool regardless of the listing, the call is refused without asking the server.
pub(super) async fn load_tool_listing(
    gw: &GatewayServices,
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    recorder: &mut CallRecorder,
    responder: &mut Responder,
) -> Result<Option<Arc<ToolListing>>, Refusal> {
    let Some(name) = subject.tool() else { return Ok(None) };
    let listing = match find_fresh_listing(ctx, name) {
        Some(listing) => listing,
        None => fetch_tool_listing(gw, ctx, subject, name, (recorder, responder)).await?,
    };
    let (fingerprint, category) = subject.definition(Some(&listing));
    recorder.set_definition(fingerprint, category);
    Ok(Some(listing))
}

async fn fetch_tool_listing(
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

/// Returns the terms under which the policy allows the call, or the reason for the denial.
pub(super) fn authorize(
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    listing: Option<&ToolListing>,
    recorder: &mut CallRecorder,
) -> Result<AllowTerms, Refusal> {
    match evaluate_policy(ctx, subject, listing, recorder) {
        Decision::Allow(terms) => {
            recorder.record_allowed(terms.rule.as_ref());
            Ok(terms)
        }
        Decision::Deny(reason) => {
            let refusal = Refusal::Denied(reason);
            if ctx.server_access.mode == EnforcementMode::Enforce {
                return Err(refusal);
            }
            recorder.record_observed_denial(&refusal);
            Ok(AllowTerms::default())
        }
    }
}

fn evaluate_policy(
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    listing: Option<&ToolListing>,
    recorder: &CallRecorder,
) -> Decision {
    match &ctx.server_access.policy {
        Some(policy) => decide(&policy.policy, &subject.to_policy_call(ctx, listing), recorder.started_at()),
        None => Decision::Deny(Reason::no_policy()),
    }
}
