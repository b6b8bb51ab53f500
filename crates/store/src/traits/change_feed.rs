//! Notifies a running gateway of changes to servers, grants and policies, whether made by this or another process.

use async_trait::async_trait;

use crate::model::{StateChangeNumber, StoreError};

/// Reports changes to the state.
#[async_trait]
pub trait ChangeFeed: Send + Sync {
    /// Returns the current version of the state. Two calls return the same number if nothing changed in between.
    async fn version(&self) -> Result<StateChangeNumber, StoreError>;
    /// Waits until the version differs from `seen` and returns the new one. A change by any process is reported within
    /// a second; several changes may be reported as one.
    async fn wait_for_change(&self, seen: StateChangeNumber) -> Result<StateChangeNumber, StoreError>;
}
