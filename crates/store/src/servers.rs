//! Servers that were added with the command line or in the console.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::admin_log::AdminEntry;
use crate::validated_name::ServerName;

/// An upstream server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredServer {
    /// Name of the server, the last part of its URL at the gateway.
    pub name: ServerName,
    /// URL at which it listens.
    pub url: String,
    /// Headers for each request, as written: `${NAME}` refers to an environment variable, so that no secret is stored.
    pub headers: BTreeMap<String, String>,
    /// Whether the call log keeps the redacted arguments of its calls.
    pub log_arguments: bool,
    /// Whether its tool definitions are pinned only after a review.
    pub review: bool,
    /// Whether new tools are pinned automatically.
    pub accept_new: bool,
    /// Time at which it was added.
    pub created_at: Timestamp,
}

/// Stores servers. Each change and its entry in the admin log are one atomic step.
#[async_trait]
pub trait Servers: Send + Sync {
    /// Adds a server. `Conflict` if the name is taken.
    async fn add(&self, server: StoredServer, entry: AdminEntry) -> Result<(), StoreError>;
    /// Removes a server and its attachments. `NotFound` if it does not exist.
    async fn remove(&self, name: &ServerName, entry: AdminEntry) -> Result<(), StoreError>;
    /// All servers, ordered by name.
    async fn list(&self) -> Result<Vec<StoredServer>, StoreError>;
}
