//! Task ownership: which grant created a task on a server, and with which tool. Only hashes of task ids are stored.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::model::{GrantId, IdDigest, ServerName, StoreError, TaskOwner};

/// Stores task ownership. Rows survive a killed process, but a power failure may lose the latest ones.
///
/// A change writes no admin log entry and does not change the version of the change feed.
#[async_trait]
pub trait TaskOwners: Send + Sync {
    /// Adds or replaces a task. Beyond [`MAX_TASKS_PER_GRANT`](crate::MAX_TASKS_PER_GRANT) tasks of its grant, removes
    /// those that expire first. Returns `Conflict` if another grant owns a task with this id that has not expired by
    /// `now`.
    async fn put(&self, task: TaskOwner, now: Timestamp) -> Result<(), StoreError>;
    /// Finds a task by the hash of its id, regardless of which grant owns it and whether it has expired.
    async fn find(&self, id: IdDigest) -> Result<Option<TaskOwner>, StoreError>;
    /// Returns all tasks that a grant has on a server, in no particular order.
    async fn list_for_grant(&self, grant: &GrantId, server: &ServerName) -> Result<Vec<TaskOwner>, StoreError>;
    /// Deletes tasks that expired before the given time, and returns how many were deleted.
    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError>;
}

/// Returns the error for a task id that another grant owns.
pub(crate) fn other_owner_error() -> StoreError {
    StoreError::Conflict("a task with this id belongs to another grant".to_owned())
}
