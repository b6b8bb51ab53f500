//! Sessions of clients, so that they survive a restart. They are no authority, and the ids themselves are not kept.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::StoreError;
use crate::grants::GrantId;
use crate::id_hash::IdHash;
use crate::validated_name::ServerName;

/// What it takes to go on with a session. The server's own session is not in it: it is opened anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The hash of its id.
    pub id: IdHash,
    /// Whose it is.
    pub grant: GrantId,
    /// At which server; none for all of the grant's together.
    pub server: Option<ServerName>,
    /// The revision that was agreed.
    pub revision: String,
    /// The client's name, as it claims.
    pub client_name: Option<String>,
    /// The client's version, as it claims.
    pub client_version: Option<String>,
    /// The client's handshake, as it wrote it.
    pub handshake: String,
    /// Whether the server knows of no session, so that there is none to be opened.
    pub is_upstream_stateless: bool,
    /// The URIs of the resources that its client wants to hear of, as it named them.
    pub subscribed_uris: Vec<String>,
    /// The least severe log message that its client wants, if it has said so.
    pub log_level: Option<String>,
    /// When it was used last, or a little earlier.
    pub last_used_at: Timestamp,
}

/// Keeps sessions. What is kept survives the death of the process; a power cut may take the last of it.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Keeps a session.
    async fn put(&self, session: SessionRow) -> Result<(), StoreError>;
    /// Finds a session, whosever it is.
    async fn find(&self, id: IdHash) -> Result<Option<SessionRow>, StoreError>;
    /// Notes which resources the client of a session wants to hear of. What is not kept is passed over.
    async fn set_subscriptions(&self, id: IdHash, uris: Vec<String>) -> Result<(), StoreError>;
    /// Notes which log messages the client of a session wants. What is not kept is passed over.
    async fn set_log_level(&self, id: IdHash, level: String) -> Result<(), StoreError>;
    /// Notes that sessions were used. A time before the one that is kept changes nothing, and what is not kept is
    /// passed over.
    async fn touch(&self, ids: Vec<IdHash>, at: Timestamp) -> Result<(), StoreError>;
    /// Forgets sessions. What is not kept is passed over.
    async fn delete(&self, ids: Vec<IdHash>) -> Result<(), StoreError>;
    /// Forgets sessions that were last used before a time, and says how many.
    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError>;
}
