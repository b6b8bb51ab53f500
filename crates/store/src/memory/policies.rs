//! Policies, stored in memory.

use async_trait::async_trait;

use super::MemoryStore;
use crate::model::{AdminLogEntry, PolicyName, PolicySummary, PolicyVersionNumber, StoreError, StoredPolicy};
use crate::traits::{Policies, no_policy_error};

#[async_trait]
impl Policies for MemoryStore {
    async fn put(&self, mut policy: StoredPolicy, entry: AdminLogEntry) -> Result<PolicyVersionNumber, StoreError> {
        self.change(entry, |state, entry| {
            let last = state.policies.get(&policy.name).and_then(|versions| versions.last());
            let version = PolicyVersionNumber(last.map_or(0, |last| last.version.0) + 1);
            entry.add_detail("version", version)?;
            policy.version = version;
            state.policies.entry(policy.name.clone()).or_default().push(policy);
            Ok(version)
        })
    }

    async fn list(&self) -> Result<Vec<PolicySummary>, StoreError> {
        let state = self.state();
        let active = state.policies.values().filter_map(|versions| versions.last());
        let summary = |policy: &StoredPolicy| PolicySummary {
            name: policy.name.clone(),
            version: policy.version,
            created_at: policy.created_at,
            created_by: policy.created_by.clone(),
        };
        Ok(active.map(summary).collect())
    }

    async fn get(&self, name: &PolicyName, version: Option<PolicyVersionNumber>) -> Result<StoredPolicy, StoreError> {
        let versions = self.versions(name).await?;
        let is_wanted = |policy: &StoredPolicy| version.is_none_or(|version| policy.version == version);
        versions.into_iter().find(is_wanted).ok_or_else(|| no_policy_error(name, version))
    }

    async fn versions(&self, name: &PolicyName) -> Result<Vec<StoredPolicy>, StoreError> {
        let state = self.state();
        let versions = state.policies.get(name).ok_or_else(|| no_policy_error(name, None))?;
        Ok(versions.iter().rev().cloned().collect())
    }
}
