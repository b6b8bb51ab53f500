//! What people changed, hash-chained like the call log.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::hash_chain::ChainHead;
use crate::ledger::ChainReport;
use crate::log_page::ChainedRow;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminEntry {
    /// When.
    pub at: Timestamp,
    /// Who, as the operating system says.
    pub by: String,
    /// What was done, as a noun and a verb: `grant.create`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// Further facts; never a secret.
    pub detail: serde_json::Value,
}

impl AdminEntry {
    /// Adds a fact that only the store knows.
    pub(crate) fn add_detail(&mut self, name: &str, fact: impl Serialize) -> Result<(), StoreError> {
        let fact = serde_json::to_value(fact).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        if let Some(detail) = self.detail.as_object_mut() {
            detail.insert(name.to_owned(), fact);
        }
        Ok(())
    }

    /// The entry as the log keeps it.
    pub(crate) fn to_body(&self) -> Result<String, StoreError> {
        serde_json::to_string(self).map_err(|error| StoreError::Corrupt(error.to_string()))
    }
}

/// Keeps what was changed.
#[async_trait]
pub trait AdminLog: Send + Sync {
    /// Adds an entry, durably, on something that was not a change of the state: those bring their entry with them.
    async fn append(&self, entry: AdminEntry) -> Result<(), StoreError>;
    /// The newest entries, newest first.
    async fn recent(&self, limit: usize) -> Result<Vec<AdminEntry>, StoreError>;
    /// The next entries behind a number, oldest first, as they are kept; like [`Ledger::kept`](crate::Ledger::kept).
    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError>;
    /// The end of the chain.
    async fn head(&self) -> Result<ChainHead, StoreError>;
    /// Walks the whole chain, against the head that is kept apart and the one that is given.
    async fn verify(&self, head: Option<ChainHead>) -> Result<ChainReport, StoreError>;
}
