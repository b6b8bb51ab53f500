//! Policies, stored as numbered versions. A version is never changed or removed.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::model::PolicyName;
use crate::traits::AdminLogEntry;

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

/// Stores policies. The caller must check that the document is a valid policy.
///
/// Each version is written together with its admin log entry in one atomic step.
#[async_trait]
pub trait Policies: Send + Sync {
    /// Adds a version with the next number and returns that number; `policy.version` is ignored. The store adds the
    /// number to the entry's details as `version`.
    async fn put(&self, policy: StoredPolicy, entry: AdminLogEntry) -> Result<PolicyVersionNumber, StoreError>;
    /// Returns the active version of each policy, ordered by name.
    async fn list(&self) -> Result<Vec<PolicySummary>, StoreError>;
    /// Returns the given version, or the active one if `version` is `None`. Returns `NotFound` if it does not exist.
    async fn get(&self, name: &PolicyName, version: Option<PolicyVersionNumber>) -> Result<StoredPolicy, StoreError>;
    /// Returns all versions of a policy, newest first. Returns `NotFound` if there are none.
    async fn versions(&self, name: &PolicyName) -> Result<Vec<StoredPolicy>, StoreError>;
}
