//! The change feed in memory.

use async_trait::async_trait;

use super::MemoryStore;
use crate::StoreError;
use crate::change_feed::{ChangeFeed, StateVersion};

#[async_trait]
impl ChangeFeed for MemoryStore {
    async fn version(&self) -> Result<StateVersion, StoreError> {
        Ok(StateVersion(*self.version.borrow()))
    }

    async fn wait_for_change(&self, seen: StateVersion) -> Result<StateVersion, StoreError> {
        let mut listener = self.version.subscribe();
        let version = listener.wait_for(|version| *version != seen.0).await;
        version.map(|version| StateVersion(*version)).map_err(|error| StoreError::Unavailable(error.to_string()))
    }
}
