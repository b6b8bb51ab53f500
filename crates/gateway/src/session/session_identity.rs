//! Who a session belongs to, and the keys under which it is found and counted.

use std::sync::Arc;

use gatelodge_store::{GrantId, IdDigest, ServerName};

/// Identity of a session.
#[derive(Debug)]
pub(super) struct SessionIdentity {
    pub id: Arc<str>,
    /// The key under which the session is stored and counted. The id itself is never written to disk.
    pub id_hash: IdDigest,
    /// The key under which limits count the session. For a server session that belongs to an aggregate session, it is
    /// derived from both sessions, so that reopening the server session does not reset its limits.
    pub limit_key: IdDigest,
    pub grant: GrantId,
    /// The server; `None` for the aggregate endpoint.
    pub server: Option<ServerName>,
}

impl SessionIdentity {
    pub fn new(id: &str, grant: GrantId, server: Option<ServerName>) -> Self {
        let hash = IdDigest::of(&[id]);
        Self { id: id.into(), id_hash: hash, limit_key: hash, grant, server }
    }
}
