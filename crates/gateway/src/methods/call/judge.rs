//! What the policy says of a call, by what its server offers.

use std::sync::Arc;

use gatelodge_policy::{Code, Decision, Reason, Terms, decide};
use gatelodge_store::Mode;

use crate::Gateway;
use crate::call::{Facts, Refusal, Trail};
use crate::http::line::Line;
use crate::methods::offer::offer_for;
use crate::upstream::{Offer, SendError};
use crate::visit::Visit;

/// Why the policy does not show a tool, whatever its server says of it.
pub(super) fn hidden(visit: &Visit, facts: &Facts<'_>, trail: &Trail) -> Option<Reason> {
    if visit.door.policy.as_ref().is_some_and(|policy| policy.policy.goes_by_category()) {
        return None;
    }
    match judged(visit, facts, None, trail) {
        Decision::Deny(reason) if visit.door.mode == Mode::Enforce => {
            matches!(reason.code, Code::Hidden | Code::NotListed | Code::NoPolicy).then_some(reason)
        }
        _ => None,
    }
}

/// Why a call is refused whatever its server says: what the policy does not show, and of resources and prompts, whose
/// definitions it does not go by, all that it denies.
pub(super) fn denied_anyway(visit: &Visit, facts: &Facts<'_>, trail: &Trail) -> Option<Reason> {
    if facts.tool().is_some() {
        return hidden(visit, facts, trail);
    }
    match judged(visit, facts, None, trail) {
        Decision::Deny(reason) if visit.door.mode == Mode::Enforce => Some(reason),
        _ => None,
    }
}

/// What the server offers, for tools. A tool that the policy does not show, whatever it can do, is refused without
/// asking the server.
pub(super) async fn offered(
    gw: &Gateway,
    visit: &Visit,
    facts: &Facts<'_>,
    trail: &Trail,
    line: &mut Line,
) -> Result<Option<Arc<Offer>>, Refusal> {
    let Some(name) = facts.tool() else { return Ok(None) };
    let is_known = visit.offers().current().is_some_and(|offer| offer.tool(name).is_some());
    if !is_known && let Some(reason) = hidden(visit, facts, trail) {
        return Err(Refusal::Denied(reason));
    }
    offer_for(gw, visit, name, line).await.map(Some).map_err(not_sent)
}

/// What went wrong before the call was sent.
pub(super) fn not_sent(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Upstream(fault @ (SendError::NotSent(_) | SendError::Left)) => Refusal::Upstream(fault),
        Refusal::Upstream(fault) => Refusal::Unlisted(fault),
        other => other,
    }
}

/// The terms of the policy, or its reason to refuse.
pub(super) fn judge(
    visit: &Visit,
    facts: &Facts<'_>,
    offer: Option<&Offer>,
    trail: &mut Trail,
) -> Result<Terms, Refusal> {
    match judged(visit, facts, offer, trail) {
        Decision::Allow(terms) => {
            trail.allowed(terms.rule.as_ref());
            Ok(terms)
        }
        Decision::Deny(reason) => {
            let refusal = Refusal::Denied(reason);
            if visit.door.mode == Mode::Enforce {
                return Err(refusal);
            }
            trail.observed(&refusal);
            Ok(Terms::default())
        }
    }
}

fn judged(visit: &Visit, facts: &Facts<'_>, offer: Option<&Offer>, trail: &Trail) -> Decision {
    match &visit.door.policy {
        Some(policy) => decide(&policy.policy, &facts.call(visit, offer), trail.at()),
        None => Decision::Deny(Reason::no_policy()),
    }
}
