//! How much of the counters is used, for those who look at limits.

use async_trait::async_trait;

use crate::model::{CounterUsageRow, StoreError};

/// Reads the counters that the [`Ledger`](super::Ledger) charges.
#[async_trait]
pub trait CounterUsage: Send + Sync {
    /// Returns all counters, ordered by key. Sees every charge that was confirmed before the call. Returns `Corrupt` if
    /// one of them cannot be read.
    async fn usage(&self) -> Result<Vec<CounterUsageRow>, StoreError>;
}
