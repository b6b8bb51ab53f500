//! Policies as versions. A version is never changed and never removed.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::admin_log::AdminEntry;
use crate::validated_name::PolicyName;

/// A version of a policy: 1, 2, 3, …
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PolicyVersion(pub u32);

impl std::fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One version of a policy, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPolicy {
    /// The policy's name.
    pub name: PolicyName,
    /// Which version.
    pub version: PolicyVersion,
    /// The document.
    pub text: String,
    /// Whether the document is YAML; else it is JSON.
    pub is_yaml: bool,
    /// The version that this one puts back, if it does.
    pub restores: Option<PolicyVersion>,
    /// When it was put.
    pub created_at: Timestamp,
    /// Who put it, as the operating system says.
    pub created_by: String,
}

/// A policy without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySummary {
    /// The policy's name.
    pub name: PolicyName,
    /// The version in force.
    pub version: PolicyVersion,
    /// When that was put.
    pub created_at: Timestamp,
    /// Who put it.
    pub created_by: String,
}

/// Keeps policies. That a text is a good policy is for the caller to see to.
///
/// A version and its entry in the admin log are one step: both are kept, or neither.
#[async_trait]
pub trait Policies: Send + Sync {
    /// Puts a new version, whose number is one above the last, and gives that number.
    /// What `policy.version` says is not looked at. The entry's detail gets the number as `version`.
    async fn put(&self, policy: StoredPolicy, entry: AdminEntry) -> Result<PolicyVersion, StoreError>;
    /// All policies, by name, at their versions in force.
    async fn list(&self) -> Result<Vec<PolicySummary>, StoreError>;
    /// One version, or the one in force. `NotFound` if there is none.
    async fn get(&self, name: &PolicyName, version: Option<PolicyVersion>) -> Result<StoredPolicy, StoreError>;
    /// All versions of a policy, newest first. `NotFound` if there is none.
    async fn versions(&self, name: &PolicyName) -> Result<Vec<StoredPolicy>, StoreError>;
}
