//! Versions of policies.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::PolicyName;

/// A version of a policy: 1, 2, 3, …
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PolicyVersionNumber(pub u32);

impl std::fmt::Display for PolicyVersionNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One version of a policy, as written by its author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPolicy {
    /// The policy's name.
    pub name: PolicyName,
    /// The version number.
    pub version: PolicyVersionNumber,
    /// The policy document.
    pub text: String,
    /// Whether the document is YAML; otherwise it is JSON.
    pub is_yaml: bool,
    /// The version that this one restores, if any.
    pub restores: Option<PolicyVersionNumber>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// The operating system user who created it.
    pub created_by: String,
}

/// A policy without its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySummary {
    /// The policy's name.
    pub name: PolicyName,
    /// The active version.
    pub version: PolicyVersionNumber,
    /// Time at which that version was created.
    pub created_at: Timestamp,
    /// The user who created that version.
    pub created_by: String,
}
