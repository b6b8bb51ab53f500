//! Client sessions, stored so that they survive a restart. They grant no access, and only hashes of their ids are stored.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::StoreError;
use crate::model::{IdDigest, ServerName};
use crate::traits::GrantId;

/// The state needed to resume a session. The upstream session is not stored; it is opened again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Hash of the session id.
    pub id: IdDigest,
    /// The grant that the session belongs to.
    pub grant: GrantId,
    /// The server; `None` for the aggregate endpoint.
    pub server: Option<ServerName>,
    /// The negotiated protocol revision.
    pub revision: String,
    /// The client's name, as reported by the client.
    pub client_name: Option<String>,
    /// The client's version, as reported by the client.
    pub client_version: Option<String>,
    /// The client's `initialize` request, as received.
    pub handshake: String,
    /// Whether the upstream is stateless, in which case there is no upstream session to open.
    pub is_upstream_stateless: bool,
    /// URIs of the resources that the client is subscribed to, as the client wrote them.
    pub subscribed_uris: Vec<String>,
    /// The minimum severity of log messages sent to the client, if it set one.
    pub log_level: Option<String>,
    /// Approximate time of the last use; it is updated only at intervals.
    pub last_used_at: Timestamp,
}

/// Stores sessions. Rows survive a killed process, but a power failure may lose the latest ones.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Adds or replaces a session.
    async fn put(&self, session: SessionRow) -> Result<(), StoreError>;
    /// Finds a session by the hash of its id, regardless of which grant it belongs to.
    async fn find(&self, id: IdDigest) -> Result<Option<SessionRow>, StoreError>;
    /// Sets the resources that a session is subscribed to. Unknown ids are ignored.
    async fn set_subscriptions(&self, id: IdDigest, uris: Vec<String>) -> Result<(), StoreError>;
    /// Sets the log level of a session. Unknown ids are ignored.
    async fn set_log_level(&self, id: IdDigest, level: String) -> Result<(), StoreError>;
    /// Sets the time of the last use. Earlier times and unknown ids are ignored.
    async fn touch(&self, ids: Vec<IdDigest>, at: Timestamp) -> Result<(), StoreError>;
    /// Deletes sessions. Unknown ids are ignored.
    async fn delete(&self, ids: Vec<IdDigest>) -> Result<(), StoreError>;
    /// Deletes sessions that were last used before the given time, and returns how many were deleted.
    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError>;
}
