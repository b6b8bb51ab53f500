//! The log of administrative changes, hash-chained like the call log. Entries are never removed.

use async_trait::async_trait;

use crate::audit_chain::{ChainHead, ChainReport, ChainedRow};
use crate::model::{AdminLogEntry, StoreError};

/// Stores the admin log.
#[async_trait]
pub trait AdminLog: Send + Sync {
    /// Durably adds an entry for an event that does not change the state, and leaves the version of the change feed as
    /// it is. The methods that change the state write their entries themselves.
    async fn append(&self, entry: AdminLogEntry) -> Result<(), StoreError>;
    /// Returns the newest entries, newest first.
    async fn recent(&self, limit: usize) -> Result<Vec<AdminLogEntry>, StoreError>;
    /// Returns the next page of stored entries after a sequence number, oldest first; like
    /// [`CallLog::page_after`](super::CallLog::page_after).
    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError>;
    /// Returns the head of the chain; [`ChainHead::EMPTY`] if there is no entry.
    async fn head(&self) -> Result<ChainHead, StoreError>;
    /// Verifies the whole chain, against the head that the store keeps apart from the entries, if it does, and against
    /// `head`, if one is given. A break, or an entry that cannot be read, is in the report and not an error.
    async fn verify(&self, head: Option<ChainHead>) -> Result<ChainReport, StoreError>;
}
