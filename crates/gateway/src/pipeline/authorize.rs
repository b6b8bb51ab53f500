//! Evaluates the policy for a call, using the tool listing of its server.

use std::sync::Arc;

use gatelodge_policy::{AllowTerms, CallTarget, Decision, DefinitionStatus, Reason, ReasonCode, decide};
use gatelodge_store::EnforcementMode;

use crate::call_recorder::CallRecorder;
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::upstream::ToolListing;

/// Returns the reason why the policy hides a tool, if that does not depend on the server's listing.
pub(crate) fn hidden_reason(
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    recorder: &CallRecorder,
) -> Option<Reason> {
    if ctx.server_access.policy.as_ref().is_some_and(|policy| policy.policy.has_category_rules()) {
        return None;
    }
    match subject.decide(ctx, None, recorder.started_at()) {
        Decision::Deny(reason) if ctx.server_access.mode == EnforcementMode::Enforce => {
            matches!(reason.code, ReasonCode::Hidden | ReasonCode::NotListed | ReasonCode::NoPolicy).then_some(reason)
        }
        _ => None,
    }
}

/// Returns the reason for the denial if it is already certain that the policy denies the call. Does not ask the server
/// and reserves no charges.
pub(crate) fn early_denial(
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    recorder: &CallRecorder,
) -> Option<Reason> {
    let listing = subject.tool().and_then(|name| find_fresh_listing(ctx, name));
    let decision = match (subject.tool(), &listing) {
        // The policy does not depend on the definitions of resources and prompts.
        (None, _) | (_, Some(_)) => subject.decide(ctx, listing.as_deref(), recorder.started_at()),
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

/// Returns the terms under which the policy allows the call, or the reason for the denial.
pub(crate) fn authorize(
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    listing: Option<&ToolListing>,
    recorder: &mut CallRecorder,
) -> Result<AllowTerms, Refusal> {
    match subject.decide(ctx, listing, recorder.started_at()) {
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

/// Returns the current listing if it is fresh and contains the tool.
pub(crate) fn find_fresh_listing(ctx: &RequestContext, name: &str) -> Option<Arc<ToolListing>> {
    let is_fresh =
        |listing: &Arc<ToolListing>| listing.listed_at.elapsed() < ctx.upstream.config().pinning.check_definitions;
    ctx.current_tool_listing().filter(|listing| is_fresh(listing) && listing.find_tool(name).is_some())
}
