//! The log of administrative changes, hash-chained like the call log.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::audit_chain::{ChainHead, ChainedRow};
use crate::traits::ChainReport;

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

/// Stores the admin log.
#[async_trait]
pub trait AdminLog: Send + Sync {
    /// Durably adds an entry for an event that does not change the state. The methods that change the state write their
    /// entries themselves.
    async fn append(&self, entry: AdminLogEntry) -> Result<(), StoreError>;
    /// Returns the newest entries, newest first.
    async fn recent(&self, limit: usize) -> Result<Vec<AdminLogEntry>, StoreError>;
    /// Returns the next page of stored entries after a sequence number, oldest first; like
    /// [`Ledger::page_after`](crate::Ledger::page_after).
    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError>;
    /// Returns the head of the chain.
    async fn head(&self) -> Result<ChainHead, StoreError>;
    /// Verifies the whole chain against the head file and against `head`, if one is given.
    async fn verify(&self, head: Option<ChainHead>) -> Result<ChainReport, StoreError>;
}
