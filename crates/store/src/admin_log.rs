//! What people changed, hash-chained like the call log.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::chain::Head;
use crate::ledger::Verified;

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

/// Keeps what was changed.
#[async_trait]
pub trait AdminLog: Send + Sync {
    /// Adds an entry, durably.
    async fn append(&self, entry: AdminEntry) -> Result<(), StoreError>;
    /// The newest entries, newest first.
    async fn recent(&self, limit: usize) -> Result<Vec<AdminEntry>, StoreError>;
    /// The end of the chain.
    async fn head(&self) -> Result<Head, StoreError>;
    /// Walks the whole chain, and further to `head` if one is given.
    async fn verify(&self, head: Option<Head>) -> Result<Verified, StoreError>;
}
