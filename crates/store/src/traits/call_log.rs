//! The call log of a store, for those who read it.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::audit_chain::{ChainHead, ChainReport, ChainedRow};
use crate::model::{CallLogFilter, CallLogRow, StoreError};

/// Reads, verifies and prunes the rows that the [`Ledger`](super::Ledger) writes.
///
/// A method sees every row that was confirmed before its call. It may take time in proportion to the number of rows,
/// but no call waits for it. Pruned rows are not returned.
#[async_trait]
pub trait CallLog: Send + Sync {
    /// Returns the newest matching rows, oldest first.
    async fn rows(&self, filter: CallLogFilter) -> Result<Vec<CallLogRow>, StoreError>;

    /// Returns the next page of stored rows after a sequence number, oldest first. Pages are limited in size; an empty
    /// page means that there are no more rows.
    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError>;

    /// Returns the head of the chain; [`ChainHead::EMPTY`] if the log never had a row.
    async fn head(&self) -> Result<ChainHead, StoreError>;

    /// Verifies the whole chain from its anchor, against the head that the store keeps apart from the rows, if it does,
    /// and against the given heads. A break, or a row that cannot be read, is in the report and not an error.
    async fn verify(&self, known: Vec<ChainHead>) -> Result<ChainReport, StoreError>;

    /// Removes the rows that precede the first one that is not older than `before`, keeps the hash of the last removed
    /// row as the anchor, and writes a row that records the pruning. Returns the number of removed rows; if it is 0,
    /// nothing was written. After an error the rows may be removed nevertheless; the chain verifies in either case.
    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;
}
