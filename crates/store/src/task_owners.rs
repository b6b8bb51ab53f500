//! Whose tasks are: which grant's call of which tool made a task at a server. The ids themselves are not kept.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::StoreError;
use crate::grants::GrantId;
use crate::id_hash::IdHash;
use crate::validated_name::ServerName;

/// The most tasks of one grant that are kept; beyond that, those that end first are forgotten.
pub const MAX_TASKS_PER_GRANT: usize = 10_000;

/// A task, as far as it has to be known whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOwner {
    /// The hash of its id, and of what tells it from others of that id.
    pub id: IdHash,
    /// Whose it is.
    pub grant: GrantId,
    /// At which server.
    pub server: ServerName,
    /// The tool whose call made it.
    pub tool: String,
    /// From when on nobody asks for it any more.
    pub expires_at: Timestamp,
}

/// Keeps whose tasks are. What is kept survives the death of the process; a power cut may take the last of it.
#[async_trait]
pub trait TaskOwners: Send + Sync {
    /// Keeps a task. `Conflict` if another grant has one of this id that has not expired by `now`: it stays theirs.
    async fn put(&self, task: TaskOwner, now: Timestamp) -> Result<(), StoreError>;
    /// Finds a task, whosever it is, expired or not.
    async fn find(&self, id: IdHash) -> Result<Option<TaskOwner>, StoreError>;
    /// All tasks of a grant at a server, in no order.
    async fn list_for_grant(&self, grant: &GrantId, server: &ServerName) -> Result<Vec<TaskOwner>, StoreError>;
    /// Forgets tasks that have expired before a time, and says how many.
    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError>;
}

/// The refusal to take a task from another grant.
pub(crate) fn other_owner_error() -> StoreError {
    StoreError::Conflict("a task of this id belongs to another grant".to_owned())
}
