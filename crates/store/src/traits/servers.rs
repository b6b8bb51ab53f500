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

/// Returns the error for a server whose name is taken.
pub(crate) fn server_exists_error(name: &ServerName) -> StoreError {
    StoreError::Conflict(format!("there is already a server `{name}`"))
}

/// Returns the error for a server that does not exist.
pub(crate) fn no_server_error(name: &ServerName) -> StoreError {
    StoreError::NotFound(format!("server `{name}`"))
}
