//! Client sessions, stored so that they survive a restart. They grant no access, and only hashes of their ids are
//! stored.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::model::{IdDigest, SessionRow, StoreError};

/// Stores sessions. Rows survive a killed process, but a power failure may lose the latest ones.
///
/// A change writes no admin log entry and does not change the version of the change feed.
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
