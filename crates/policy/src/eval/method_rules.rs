//! Decides whether to allow methods that have no rule blocks of their own.

use std::sync::Arc;

use crate::compile::compiled_policy::{ClientRequestKind, DefaultAction, MethodRule, Policy};
use crate::compile::method_names::{ALWAYS_ALLOWED, METHODS_DECIDED_BY_TARGET, TASK_METHOD_PREFIX};
use crate::eval::decision::{AllowTerms, Reason, ReasonCode};

pub(crate) fn decide_method(policy: &Policy, name: &str) -> Result<AllowTerms, Reason> {
    if ALWAYS_ALLOWED.contains(&name) {
        return Ok(AllowTerms::default());
    }
    if METHODS_DECIDED_BY_TARGET.contains(&name) || name.starts_with(TASK_METHOD_PREFIX) {
        return Err(Reason::new(ReasonCode::NotListed, None, "the method cannot be decided without its target"));
    }
    if let Some(request) = ClientRequestKind::of_method(name) {
        let requests = policy.client_requests.as_ref();
        let found = requests.map(|list| list.iter().find(|(own, _)| *own == request).map(|(_, rule)| rule));
        return apply_method_rule(policy, found);
    }
    apply_method_rule(policy, policy.methods.as_ref().map(|methods| methods.find(name)))
}

/// Allows or denies a method by the rule that was found for it. `found` is `None` if the policy does not have the field
/// in which the method would be listed, and `Some(None)` if it has the field but does not list the method.
fn apply_method_rule(policy: &Policy, found: Option<Option<&MethodRule>>) -> Result<AllowTerms, Reason> {
    let allowed = |rule: &Arc<str>| AllowTerms { rule: Some(Arc::clone(rule)), ..AllowTerms::default() };
    match (found, policy.default) {
        (Some(Some(rule)), _) if rule.allows => Ok(allowed(&rule.pointer)),
        (Some(Some(rule)), _) => {
            Err(Reason::new(ReasonCode::Denied, Some(&rule.pointer), "the policy denies this method"))
        }
        (None, DefaultAction::Allow) => Ok(allowed(&policy.default_pointer)),
        (Some(None), _) | (None, DefaultAction::Deny) => {
            Err(Reason::new(ReasonCode::NotListed, None, "the policy does not name this method"))
        }
    }
}
