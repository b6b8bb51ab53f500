//! The servers of a store.

use async_trait::async_trait;

use crate::model::{AdminLogEntry, ServerName, StoreError, StoredServer};

/// Stores servers. Each change is written together with its admin log entry in one atomic step.
#[async_trait]
pub trait Servers: Send + Sync {
    /// Adds a server. Returns `Conflict` if there is a server with this name.
    async fn add(&self, server: StoredServer, entry: AdminLogEntry) -> Result<(), StoreError>;
    /// Removes a server, its attachments in all grants, and its listed and pinned tools with their category overrides:
    /// a later server with the same name is a different one. Returns `NotFound` if there is no such server.
    async fn remove(&self, name: &ServerName, entry: AdminLogEntry) -> Result<(), StoreError>;
    /// Returns all servers, ordered by name.
    async fn list(&self) -> Result<Vec<StoredServer>, StoreError>;
}
