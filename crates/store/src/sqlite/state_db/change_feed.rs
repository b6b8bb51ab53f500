//! The change feed of `state.db`: a version number that each change increments, polled to detect changes by other
//! processes.

use std::time::Duration;

use async_trait::async_trait;

use super::SqliteStateStore;
use crate::model::{StateChangeNumber, StoreError};
use crate::traits::ChangeFeed;

/// How often `wait_for_change` polls for changes by other processes, which it must report within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

#[async_trait]
impl ChangeFeed for SqliteStateStore {
    async fn version(&self) -> Result<StateChangeNumber, StoreError> {
        let version = self.run(|db| {
            let mut statement = db.prepare_cached("SELECT number FROM version")?;
            Ok(StateChangeNumber(statement.query_row([], |row| row.get(0))?))
        });
        version.await
    }

    async fn wait_for_change(&self, seen: StateChangeNumber) -> Result<StateChangeNumber, StoreError> {
        loop {
            let version = self.version().await?;
            if version != seen {
                return Ok(version);
            }
            // Check again after a notification or the interval. A missed notification costs one interval.
            let _ = tokio::time::timeout(POLL_INTERVAL, self.changed.notified()).await;
        }
    }
}
