//! Stores new versions of policies, and finds out which counters they reset.

use gatelodge_policy::{CounterIdentity, DocumentFormat, Policy, parse};
use gatelodge_store::{PolicyName, PolicyVersionNumber, StoreError, StoredPolicy};
use serde_json::json;

use crate::administration::Administration;

/// A policy version that is about to be stored.
#[derive(Debug)]
pub struct NewPolicyVersion {
    /// Name of the policy.
    pub name: PolicyName,
    /// The document.
    pub text: String,
    /// Format of the document.
    pub format: DocumentFormat,
    /// The earlier version that this one restores, if any.
    pub restores: Option<PolicyVersionNumber>,
}

/// Result of storing a policy version.
#[derive(Debug, PartialEq, Eq)]
pub enum PutPolicyOutcome {
    /// The active version has the same text, and stays active.
    Unchanged(PolicyVersionNumber),
    /// A new version is active.
    Stored {
        /// Its number.
        version: PolicyVersionNumber,
        /// How its counters differ from those of the version before it.
        counters: Vec<CounterChange>,
    },
}

/// Difference between the counters of two versions of a policy.
#[derive(Debug, PartialEq, Eq)]
pub enum CounterChange {
    /// The counter starts at zero, because parts of its identity changed.
    Reset {
        /// Name of the counter.
        counter: String,
        /// The parts that changed.
        differences: Vec<CounterDifference>,
    },
    /// The version before it had no counter of this name.
    New(String),
    /// The counter is no longer used.
    Unused(String),
}

/// A part of a counter's identity that changed.
#[derive(Debug, PartialEq, Eq)]
pub struct CounterDifference {
    /// Name of the part, as in the policy.
    pub part: &'static str,
    /// Its old value.
    pub old: String,
    /// Its new value.
    pub new: String,
}

/// Why a policy version was not stored.
#[derive(Debug, thiserror::Error)]
pub enum PutPolicyError {
    /// The configuration file defines the policy.
    #[error("policy `{0}` is defined in the configuration file; change it there")]
    DefinedInFile(PolicyName),
    /// The document has errors.
    #[error("policy `{0}` does not load with this build; nothing was stored")]
    Invalid(PolicyName),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Administration {
    /// Stores a policy version and activates it, unless the active version has the same text. `action` names the change
    /// in the admin log.
    pub async fn put_policy(
        &self,
        new_version: NewPolicyVersion,
        action: &str,
    ) -> Result<PutPolicyOutcome, PutPolicyError> {
        let NewPolicyVersion { name, text, format, restores } = new_version;
        if self.file_entries.policies.contains(&name) {
            return Err(PutPolicyError::DefinedInFile(name));
        }
        let Ok(new) = parse(text.as_bytes(), format) else { return Err(PutPolicyError::Invalid(name)) };
        let is_yaml = format == DocumentFormat::Yaml;
        let old = match self.stores.policies.get(&name, None).await {
            Ok(old) => Some(old),
            Err(StoreError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(same) = old.as_ref().filter(|old| old.text == text && old.is_yaml == is_yaml) {
            return Ok(PutPolicyOutcome::Unchanged(same.version));
        }
        let counters = old.as_ref().map(|old| compare_counters(old, &new)).unwrap_or_default();
        let entry = self.log_entry(action, name.as_str(), json!({"restores": restores}));
        let policy = StoredPolicy {
            name,
            version: PolicyVersionNumber(0),
            text,
            is_yaml,
            restores,
            created_at: self.clock.now(),
            created_by: self.author.clone(),
        };
        let version = self.stores.policies.put(policy, entry).await?;
        Ok(PutPolicyOutcome::Stored { version, counters })
    }
}

fn compare_counters(old: &StoredPolicy, new: &Policy) -> Vec<CounterChange> {
    let format = if old.is_yaml { DocumentFormat::Yaml } else { DocumentFormat::Json };
    let Ok(old) = parse(old.text.as_bytes(), format) else { return Vec::new() };
    let (old, new) = (old.counters(), new.counters());
    let mut changes = Vec::new();
    for counter in new.iter().filter(|counter| !old.contains(counter)) {
        let name = counter.name.to_string();
        changes.push(match old.iter().find(|old| old.name == counter.name) {
            Some(before) => CounterChange::Reset { counter: name, differences: compare_identities(before, counter) },
            None => CounterChange::New(name),
        });
    }
    for counter in old.iter().filter(|counter| !new.iter().any(|new| new.name == counter.name)) {
        changes.push(CounterChange::Unused(counter.name.to_string()));
    }
    changes
}

fn compare_identities(old: &CounterIdentity, new: &CounterIdentity) -> Vec<CounterDifference> {
    let parts = [
        ("window", old.window.to_string(), new.window.to_string()),
        ("scope", old.scope.as_str().to_owned(), new.scope.as_str().to_owned()),
        ("align", old.align.as_str().to_owned(), new.align.as_str().to_owned()),
    ];
    let changed = parts.into_iter().filter(|(_, old, new)| old != new);
    changed.map(|(part, old, new)| CounterDifference { part, old, new }).collect()
}
