//! Methods other than the calls, reads and gets that have rule blocks.

use std::sync::Arc;

use crate::compiled_policy::{ClientRequest, Default, MethodRule, Policy};
use crate::decision::{Code, Reason, Terms};

/// Methods that pass under every policy; lists and subscriptions are filtered.
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

/// Whether a method passes under every policy.
pub fn is_always_allowed(method: &str) -> bool {
    ALWAYS_ALLOWED.contains(&method)
}

/// Methods that are judged by what they are about; by their name alone they cannot be.
pub(crate) const METHODS_DECIDED_BY_TARGET: [&str; 6] = [
    "tools/call",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/get",
    "completion/complete",
];

/// What the methods of tasks begin with: they are under the rule of the call that made the task.
pub(crate) const TASK_METHOD_PREFIX: &str = "tasks/";

pub(crate) fn decide_method(policy: &Policy, name: &str) -> Result<Terms, Reason> {
    if ALWAYS_ALLOWED.contains(&name) {
        return Ok(Terms::default());
    }
    if METHODS_DECIDED_BY_TARGET.contains(&name) || name.starts_with(TASK_METHOD_PREFIX) {
        return Err(Reason::new(Code::NotListed, None, "the method cannot be judged without what it is about"));
    }
    if let Some(request) = ClientRequest::of_method(name) {
        let requests = policy.client_requests.as_ref();
        let found = requests.map(|list| list.iter().find(|(own, _)| *own == request).map(|(_, verdict)| verdict));
        return apply_method_rule(policy, found);
    }
    apply_method_rule(policy, policy.methods.as_ref().map(|methods| methods.find(name)))
}

/// `found` is none where the policy has no such field at all.
fn apply_method_rule(policy: &Policy, found: Option<Option<&MethodRule>>) -> Result<Terms, Reason> {
    let allowed = |rule: &Arc<str>| Terms { rule: Some(Arc::clone(rule)), ..Terms::default() };
    match (found, policy.default) {
        (Some(Some(verdict)), _) if verdict.allows => Ok(allowed(&verdict.pointer)),
        (Some(Some(verdict)), _) => {
            Err(Reason::new(Code::Denied, Some(&verdict.pointer), "the policy denies this method"))
        }
        (None, Default::Allow) => Ok(allowed(&policy.default_pointer)),
        (Some(None), _) | (None, Default::Deny) => {
            Err(Reason::new(Code::NotListed, None, "the policy does not name this method"))
        }
    }
}
