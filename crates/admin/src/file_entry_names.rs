//! The names that the configuration file has taken.

use gatelodge_store::{FILE_GRANT_ID_PREFIX, GrantId, PolicyName, ServerName};

/// Names of the servers, policies and grants that the configuration file defines.
#[derive(Debug, Clone, Default)]
pub struct FileEntryNames {
    /// Names of its servers.
    pub servers: Vec<ServerName>,
    /// Names of its policies.
    pub policies: Vec<PolicyName>,
    /// Its grants.
    pub grants: Vec<FileGrantName>,
}

/// What identifies a grant in the configuration file.
#[derive(Debug, Clone)]
pub struct FileGrantName {
    /// Id of the grant.
    pub id: GrantId,
    /// Label of the grant.
    pub label: String,
}

impl FileEntryNames {
    /// Returns whether the file has a grant with this label.
    pub(crate) fn has_grant_label(&self, label: &str) -> bool {
        self.grants.iter().any(|grant| grant.label == label)
    }

    /// Returns whether an id or label belongs to a grant of the file, now or at an earlier time.
    pub(crate) fn has_grant(&self, name: &str) -> bool {
        let is_id = self.grants.iter().any(|grant| *grant.id.0 == *name);
        is_id || self.has_grant_label(name) || name.starts_with(FILE_GRANT_ID_PREFIX)
    }
}
