//! The ledger: counters and the call log, which are updated together.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::audit_chain::{ChainHead, ChainReport, ChainedRow};
use crate::model::{
    CallLogFilter, CallLogRow, CallRecord, CounterCharge, CounterUsage, Reservation, ReserveOutcome, StoreError,
};

/// Counters and the call log.
///
/// Windows are based on the time of the ledger's clock. The methods that a call has to wait for (`reserve`, `release`,
/// `write`, `flush`) return within two seconds; if they fail, they return [`StoreError::Unavailable`] and have had no
/// effect. Methods that read or remove rows take time in proportion to the number of rows, but do not block other
/// methods.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Reserves either all charges or none, and writes the intent row, in one atomic step. Once
    /// confirmed, a reservation is not lost if the process is killed.
    ///
    /// Reports the first charge, in the given order, that does not fit. No two charges may have the same key. If the
    /// caller stops waiting, any charges already reserved are refunded.
    async fn reserve(&self, charges: Vec<CounterCharge>, intent: &CallRecord) -> Result<ReserveOutcome, StoreError>;

    /// Refunds the charges of a call that was not sent, and writes its outcome. The request is only queued: this method
    /// may wait for space in the queue, but not for the disk. Charges that no longer count towards their limits are not
    /// refunded.
    async fn release(&self, reservation: Reservation, outcome: &CallRecord) -> Result<(), StoreError>;

    /// Writes a row. As with [`Ledger::release`], the request is only queued.
    async fn write(&self, record: &CallRecord) -> Result<(), StoreError>;

    /// Waits until everything queued so far has been written and is as durable as a confirmed reservation.
    async fn flush(&self) -> Result<(), StoreError>;

    /// Returns the number of errors since the start: rows that were lost, and heads or logs that could not be written
    /// or synced. None of them weakens a limit, but each needs attention.
    fn error_count(&self) -> u64;

    /// Returns the newest matching rows, oldest first.
    async fn rows(&self, filter: CallLogFilter) -> Result<Vec<CallLogRow>, StoreError>;

    /// Returns the next page of stored rows after a sequence number, oldest first. Pages are limited in size; an empty
    /// page means that there are no more rows.
    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError>;

    /// Returns the head of the chain.
    async fn head(&self) -> Result<ChainHead, StoreError>;

    /// Verifies the whole chain from its anchor, against the head file and the given heads.
    async fn verify(&self, known: Vec<ChainHead>) -> Result<ChainReport, StoreError>;

    /// Removes rows older than `before`, keeps the hash of the last removed row as the anchor, and writes a row that
    /// records the pruning. Returns the number of removed rows.
    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Returns all counters, ordered by key.
    async fn usage(&self) -> Result<Vec<CounterUsage>, StoreError>;
}
