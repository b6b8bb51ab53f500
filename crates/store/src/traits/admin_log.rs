//! The log of administrative changes, hash-chained like the call log.

use async_trait::async_trait;

use crate::audit_chain::{ChainHead, ChainReport, ChainedRow};
use crate::model::{AdminLogEntry, StoreError};

/// Stores the admin log.
#[async_trait]
pub trait AdminLog: Send + Sync {
    /// Durably adds an entry for an event that does not change the state. The methods that change the state write their
    /// entries themselves.
    async fn append(&self, entry: AdminLogEntry) -> Result<(), StoreError>;
    /// Returns the newest entries, newest first.
    async fn recent(&self, limit: usize) -> Result<Vec<AdminLogEntry>, StoreError>;
    /// Returns the next page of stored entries after a sequence number, oldest first; like
    /// [`CallLog::page_after`](crate::CallLog::page_after).
    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError>;
    /// Returns the head of the chain.
    async fn head(&self) -> Result<ChainHead, StoreError>;
    /// Verifies the whole chain against the head file and against `head`, if one is given.
    async fn verify(&self, head: Option<ChainHead>) -> Result<ChainReport, StoreError>;
}
