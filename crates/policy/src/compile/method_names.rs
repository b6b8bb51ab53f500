//! Methods that a policy does not list under `methods`, because they are always allowed or decided elsewhere.

/// Methods that every policy allows. Instead of denying list requests and subscriptions, the gateway filters their
/// results.
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
///
/// ```
/// assert!(gatelodge_policy::is_policy_exempt("ping"));
/// assert!(!gatelodge_policy::is_policy_exempt("tools/call"));
/// ```
pub fn is_policy_exempt(method: &str) -> bool {
    ALWAYS_ALLOWED.contains(&method)
}

/// Methods that are allowed or denied depending on the tool, resource or prompt that they request.
pub(crate) const METHODS_DECIDED_BY_TARGET: [&str; 6] = [
    "tools/call",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/get",
    "completion/complete",
];

/// Prefix of the methods for tasks. These methods follow the rule for the call that created the task.
pub(crate) const TASK_METHOD_PREFIX: &str = "tasks/";
