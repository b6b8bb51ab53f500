//! Client sessions as they are stored.

use jiff::Timestamp;

use super::{GrantId, IdDigest, ServerName};

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
