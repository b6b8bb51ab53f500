//! The servers of a store.

use async_trait::async_trait;

use crate::model::{AdminLogEntry, ServerName, StoreError, StoredServer};

/// Stores servers. Each change is written together with its admin log entry in one atomic step.
#[async_trait]
pub trait Servers: Send + Sync {
    /// Adds a server. Returns `Conflict` if the name is taken.
    async fn add(&self, server: StoredServer, entry: AdminLogEntry) -> Result<(), StoreError>;
    /// Removes a server and its attachments. Returns `NotFound` if it does not exist.
    async fn remove(&self, name: &ServerName, entry: AdminLogEntry) -> Result<(), StoreError>;
    /// Returns all servers, ordered by name.
    async fn list(&self) -> Result<Vec<StoredServer>, StoreError>;
}
