//! The ledger: counters and the call log, which change in one step.

use async_trait::async_trait;

use crate::model::{CallRecord, CounterCharge, Reservation, ReserveOutcome, StoreError};

/// Charges counters and writes the call log: what a call waits for.
///
/// Windows are based on the time of the ledger's clock. Each method returns within two seconds. A method that fails has
/// had no effect, and returns [`StoreError::Unavailable`] unless its comment names another error.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Reserves either all charges or none, and writes the intent row, in one atomic step. Once
    /// confirmed, a reservation is not lost if the process is killed.
    ///
    /// Reports the first charge, in the given order, that does not fit. No two charges may have the same key. If the
    /// caller stops waiting, any charges already reserved are refunded. Returns `Corrupt` if a counter cannot be read.
    async fn reserve(&self, charges: Vec<CounterCharge>, intent: &CallRecord) -> Result<ReserveOutcome, StoreError>;

    /// Refunds the charges of a call that was not sent, and writes its outcome. The request is only queued: this method
    /// may wait for space in the queue, but not for the disk. Charges that no longer count towards their limits are not
    /// refunded. After an error, the charges stay taken.
    async fn release(&self, reservation: Reservation, outcome: &CallRecord) -> Result<(), StoreError>;

    /// Writes a row. As with [`Ledger::release`], the request is only queued.
    async fn write(&self, record: &CallRecord) -> Result<(), StoreError>;

    /// Waits until everything queued so far has been written and is as durable as a confirmed reservation.
    async fn flush(&self) -> Result<(), StoreError>;

    /// Returns the number of errors since the start: rows that were lost, and heads or logs that could not be written
    /// or synced. None of them weakens a limit, but each needs attention.
    fn error_count(&self) -> u64;
}
