//! The in-memory change feed.

use async_trait::async_trait;

use super::MemoryStore;
use crate::model::{StateChangeNumber, StoreError};
use crate::traits::ChangeFeed;

#[async_trait]
impl ChangeFeed for MemoryStore {
    async fn version(&self) -> Result<StateChangeNumber, StoreError> {
        Ok(StateChangeNumber(*self.version.borrow()))
    }

    async fn wait_for_change(&self, seen: StateChangeNumber) -> Result<StateChangeNumber, StoreError> {
        let mut listener = self.version.subscribe();
        let version = listener.wait_for(|version| *version != seen.0).await;
        version.map(|version| StateChangeNumber(*version)).map_err(|error| StoreError::Unavailable(error.to_string()))
    }
}
