//! Notification of a running gateway about changes of servers, grants and policies, made by this or another process.

use async_trait::async_trait;

use crate::StoreError;

/// A number that changes with every change of the state. Only equality is meaningful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateVersion(pub u64);

/// Reports changes of the state.
#[async_trait]
pub trait ChangeFeed: Send + Sync {
    /// The current version of the state.
    async fn version(&self) -> Result<StateVersion, StoreError>;
    /// Waits until the version differs from `seen` and returns it. Reports a change within a second.
    async fn wait_for_change(&self, seen: StateVersion) -> Result<StateVersion, StoreError>;
}
