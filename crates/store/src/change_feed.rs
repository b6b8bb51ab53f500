//! How a running gateway hears that servers, grants or policies have changed, in this process or in another.

use async_trait::async_trait;

use crate::StoreError;

/// A number that changes whenever anything in the state changes. Only equality means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateVersion(pub u64);

/// Tells of changes.
#[async_trait]
pub trait ChangeFeed: Send + Sync {
    /// The state as it is now.
    async fn version(&self) -> Result<StateVersion, StoreError>;
    /// Waits until the state is another one than `seen`, and gives it. It hears of a change within a second.
    async fn wait_for_change(&self, seen: StateVersion) -> Result<StateVersion, StoreError>;
}
