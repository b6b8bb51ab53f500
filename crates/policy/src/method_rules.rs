//! Decides whether methods are allowed that have no rule blocks of their own.

use std::sync::Arc;

use crate::compiled_policy::{ClientRequestKind, DefaultAction, MethodRule, Policy};
use crate::decision::{AllowTerms, Reason, ReasonCode};

/// Methods that every policy allows. The results of list requests and subscriptions are filtered instead.
pub(crate) const ALWAYS_ALLOWED: [&str; 13] = [
    "initialize",
    "notifications/initialized",
    "ping",
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "logging/setLevel",
    "subscriptions/listen",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
];

/// Returns whether every policy allows a method.
pub fn is_policy_exempt(method: &str) -> bool {
    ALWAYS_ALLOWED.contains(&method)
}

/// Methods that are allowed or denied by their target, not by name alone.
pub(crate) const METHODS_DECIDED_BY_TARGET: [&str; 6] = [
    "tools/call",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/get",
    "completion/complete",
];

/// Prefix of task methods, to which the rule for the call that created the task applies.
pub(crate) const TASK_METHOD_PREFIX: &str = "tasks/";

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

/// Applies a method rule. `found` is `None` if the policy lacks the field that lists such methods, and `Some(None)` if
/// the field does not list the method.
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
