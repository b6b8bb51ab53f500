//! Client sessions, stored so that they survive a restart. They grant no access, and only hashes of their ids are stored.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::StoreError;
use crate::grants::GrantId;
use crate::id_hash::IdHash;
use crate::validated_name::ServerName;

/// State needed to resume a session. The upstream session is not stored: it is opened again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Hash of the session id.
    pub id: IdHash,
    /// The grant that the session belongs to.
    pub grant: GrantId,
    /// The server; `None` for the aggregate endpoint.
    pub server: Option<ServerName>,
    /// The negotiated revision.
    pub revision: String,
    /// The client's name, as it claims.
    pub client_name: Option<String>,
    /// The client's version, as it claims.
    pub client_version: Option<String>,
    /// The client's `initialize` request, as written.
    pub handshake: String,
    /// Whether the upstream is stateless, so that there is no upstream session to open.
    pub is_upstream_stateless: bool,
    /// URIs of the subscribed resources, as the client named them.
    pub subscribed_uris: Vec<String>,
    /// The minimum severity of log messages for the client, if it set one.
    pub log_level: Option<String>,
    /// Time of last use, or a little earlier.
    pub last_used_at: Timestamp,
}

/// Stores sessions. Rows survive a killed process; a power failure may lose the latest ones.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Adds or replaces a session.
    async fn put(&self, session: SessionRow) -> Result<(), StoreError>;
    /// Finds a session of any grant.
    async fn find(&self, id: IdHash) -> Result<Option<SessionRow>, StoreError>;
    /// Sets the subscribed resources of a session. Unknown ids are ignored.
    async fn set_subscriptions(&self, id: IdHash, uris: Vec<String>) -> Result<(), StoreError>;
    /// Sets the log level of a session. Unknown ids are ignored.
    async fn set_log_level(&self, id: IdHash, level: String) -> Result<(), StoreError>;
    /// Sets the time of last use. Earlier times and unknown ids are ignored.
    async fn touch(&self, ids: Vec<IdHash>, at: Timestamp) -> Result<(), StoreError>;
    /// Deletes sessions. Unknown ids are ignored.
    async fn delete(&self, ids: Vec<IdHash>) -> Result<(), StoreError>;
    /// Deletes sessions that were last used before a time, and returns their number.
    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError>;
}
