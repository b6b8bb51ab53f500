//! Entries of the admin log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// One administrative change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminLogEntry {
    /// Time of the change.
    pub at: Timestamp,
    /// The operating system user who made the change.
    pub by: String,
    /// The kind of change, as noun and verb: `grant.create`.
    pub action: String,
    /// The server, grant or other object that was changed.
    pub subject: String,
    /// Further details; never a secret.
    pub detail: serde_json::Value,
}

impl AdminLogEntry {
    /// Adds a detail that only the store knows, such as a newly assigned id.
    pub(crate) fn add_detail(&mut self, name: &str, value: impl Serialize) -> Result<(), StoreError> {
        let value = serde_json::to_value(value).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        if let Some(detail) = self.detail.as_object_mut() {
            detail.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// Returns the entry as it is stored in the log.
    pub(crate) fn to_body(&self) -> Result<String, StoreError> {
        serde_json::to_string(self).map_err(|error| StoreError::Corrupt(error.to_string()))
    }
}
