//! The servers that were added by people at the command line or in the console.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::admin_log::AdminEntry;
use crate::validated_name::ServerName;

/// One upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredServer {
    /// Its name, the last part of its URL at the gateway.
    pub name: ServerName,
    /// Where it listens.
    pub url: String,
    /// Headers to send with each request, as they were written: `${NAME}` stands for a variable of the environment,
    /// so that no secret is stored.
    pub headers: BTreeMap<String, String>,
    /// Whether the call log keeps the arguments of its calls, redacted.
    pub log_arguments: bool,
    /// Whether nothing of what it offers is accepted before a person has looked.
    pub review: bool,
    /// Whether new tools are accepted as they come.
    pub accept_new: bool,
    /// When it was added.
    pub created_at: Timestamp,
}

/// Keeps servers. Each change and its entry in the admin log are one step: both are kept, or neither.
#[async_trait]
pub trait Servers: Send + Sync {
    /// Adds a server. `Conflict` if there is one of that name.
    async fn add(&self, server: StoredServer, entry: AdminEntry) -> Result<(), StoreError>;
    /// Removes a server and what grants have for it. `NotFound` if there is none.
    async fn remove(&self, name: &ServerName, entry: AdminEntry) -> Result<(), StoreError>;
    /// All servers, by name.
    async fn list(&self) -> Result<Vec<StoredServer>, StoreError>;
}
