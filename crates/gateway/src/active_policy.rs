//! A compiled policy, and how a grant applies it to a server.

use std::sync::Arc;

use gatelodge_policy::Policy;
use gatelodge_store::{EnforcementMode, PolicyName, PolicyVersionNumber};

/// A compiled policy with the name and version shown in logs.
#[derive(Debug)]
pub struct ActivePolicy {
    /// Name of the policy.
    pub name: PolicyName,
    /// Version number; 0 for a policy that is not in the store.
    pub version: PolicyVersionNumber,
    /// The compiled rules.
    pub policy: Policy,
}

/// A grant's policy and enforcement mode for one server.
#[derive(Debug, Clone)]
pub struct GrantServerAccess {
    /// The policy. Without one, every call is refused.
    pub policy: Option<Arc<ActivePolicy>>,
    /// Whether the policy is enforced or only observed.
    pub mode: EnforcementMode,
}

impl GrantServerAccess {
    /// Returns whether `self` and `other` apply the same rules. A policy that is not in the store has no version, so
    /// both must refer to the same object.
    pub(crate) fn has_same_rules(&self, other: &Self) -> bool {
        let is_same_policy = match (&self.policy, &other.policy) {
            (Some(own), Some(other)) => {
                let has_versions = own.version != PolicyVersionNumber(0);
                Arc::ptr_eq(own, other) || (has_versions && own.name == other.name && own.version == other.version)
            }
            (None, None) => true,
            _ => false,
        };
        is_same_policy && self.mode == other.mode
    }
}
