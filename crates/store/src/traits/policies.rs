//! Policies, stored as numbered versions. A version is never changed or removed.

use async_trait::async_trait;

use crate::model::{AdminLogEntry, PolicyName, PolicySummary, PolicyVersionNumber, StoreError, StoredPolicy};

/// Stores policies. The caller must check that the document is a valid policy.
///
/// Each version is written together with its admin log entry in one atomic step.
#[async_trait]
pub trait Policies: Send + Sync {
    /// Adds a version with the next number and returns that number; `policy.version` is ignored. The store adds the
    /// number to the entry's details as `version`. Concurrent calls get different numbers.
    async fn put(&self, policy: StoredPolicy, entry: AdminLogEntry) -> Result<PolicyVersionNumber, StoreError>;
    /// Returns the active version of each policy, ordered by name.
    async fn list(&self) -> Result<Vec<PolicySummary>, StoreError>;
    /// Returns the given version, or the active one, which is the newest, if `version` is `None`. Returns `NotFound` if
    /// there is no such policy or version.
    async fn get(&self, name: &PolicyName, version: Option<PolicyVersionNumber>) -> Result<StoredPolicy, StoreError>;
    /// Returns all versions of a policy, newest first. Returns `NotFound` if there is no such policy.
    async fn versions(&self, name: &PolicyName) -> Result<Vec<StoredPolicy>, StoreError>;
}

/// Returns the error for a policy or a version of it that does not exist.
pub(crate) fn no_policy_error(name: &PolicyName, version: Option<PolicyVersionNumber>) -> StoreError {
    StoreError::NotFound(match version {
        Some(version) => format!("version {version} of policy `{name}`"),
        None => format!("policy `{name}`"),
    })
}
