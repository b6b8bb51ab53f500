//! Computes a call's charges: how much the call adds to each counter, and which limit on that counter is the strictest.

use std::sync::Arc;

use gatelodge_json::{JsonKind, JsonValue};
use gatelodge_mutants::mutant;

use crate::call::Call;
use crate::call::call_path::{CallPath, CallPathSegment};
use crate::compile::limit::{Amount, Charge, Limit, LimitScope};
use crate::eval::decide::ApplicableRuleBlocks;
use crate::eval::decision::{Reason, ReasonCode};

/// Returns a call's charges. All amounts are validated before any of them is compared with a limit.
pub(crate) fn compute_charges(
    blocks: ApplicableRuleBlocks<'_>,
    call: &Call<'_>,
    name: &str,
) -> Result<Vec<Charge>, Reason> {
    for limit in applicable_limits(blocks) {
        charged_amount(limit, call).ok_or_else(|| invalid_amount_reason(limit, name))?;
    }
    let mut charges = Vec::new();
    for (at, limit) in applicable_limits(blocks).enumerate() {
        if !is_strictest_limit(limit, at, blocks, name) {
            continue;
        }
        let amount = charged_amount(limit, call).ok_or_else(|| invalid_amount_reason(limit, name))?;
        if amount > limit.max {
            return Err(above_max_reason(limit, amount, name));
        }
        let scope = match (limit.scope, call.session) {
            // A call without a session is charged to the grant's counter.
            (LimitScope::Session, None) if !mutant!("session-limit-without-session") => LimitScope::Grant,
            (scope, _) => scope,
        };
        charges.push(Charge { limit: Arc::clone(limit), counter: limit.counter.name(name), scope, amount });
    }
    Ok(charges)
}

pub(crate) fn applicable_limits(blocks: ApplicableRuleBlocks<'_>) -> impl Iterator<Item = &Arc<Limit>> {
    blocks.iter().flat_map(|block| &block.limits)
}

/// Returns whether `limit` is the strictest limit on its counter: the smallest or, among equal ones, the first in the
/// policy.
pub(crate) fn is_strictest_limit(limit: &Limit, at: usize, blocks: ApplicableRuleBlocks<'_>, name: &str) -> bool {
    applicable_limits(blocks).enumerate().all(|(other_at, other)| {
        let is_smaller = if mutant!("larger-limit-wins") { other.max > limit.max } else { other.max < limit.max };
        let is_stricter = is_smaller || (other.max == limit.max && other_at < at);
        !(is_stricter && other.counter.is_same(&limit.counter, name))
    })
}

/// Returns the amount that the call adds to the limit's counter. `None` if the argument is missing or is not a valid
/// amount.
pub(crate) fn charged_amount(limit: &Limit, call: &Call<'_>) -> Option<Amount> {
    match &limit.amount {
        None => Some(Amount::ONE),
        Some(path)
            if mutant!("missing-amount-counts-as-one") && find_argument(call.arguments_object()?, path).is_none() =>
        {
            Some(Amount::ONE)
        }
        Some(path) => Amount::new(find_argument(call.arguments_object()?, path)?.as_number()?),
    }
}

fn find_argument<'a>(arguments: JsonValue<'a>, path: &CallPath) -> Option<JsonValue<'a>> {
    path.segments.iter().try_fold(arguments, |value, segment| match (segment, value.kind()) {
        (CallPathSegment::Name(name), JsonKind::Object) => value.get(name),
        (CallPathSegment::Index(index), JsonKind::Array) => value.elements().nth(*index),
        _ => None,
    })
}

fn invalid_amount_reason(limit: &Limit, name: &str) -> Reason {
    let path = limit.amount.as_ref().map(ToString::to_string).unwrap_or_default();
    let message =
        format!("`{path}` must be a non-negative number with at most 18 digits before and 9 after the decimal point");
    Reason::new(ReasonCode::Amount, Some(&limit.pointer), message).with_counter(limit.counter.name(name))
}

fn above_max_reason(limit: &Limit, amount: Amount, name: &str) -> Reason {
    let engine = || {
        let counter = limit.counter.name(name);
        format!("limit `{counter}`: {amount} is more than the maximum of {} per {}", limit.max, limit.window).into()
    };
    let message = limit.on_deny.clone().unwrap_or_else(engine);
    Reason::new(ReasonCode::Limit, Some(&limit.pointer), message).with_counter(limit.counter.name(name))
}
