//! Tasks and their owners.

use jiff::Timestamp;

use super::{GrantId, IdDigest, ServerName};

/// Maximum number of tasks stored per grant. Beyond it, the tasks that expire first are removed.
pub const MAX_TASKS_PER_GRANT: usize = 10_000;

/// A task and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOwner {
    /// Hash of the task id, combined with other values that are needed to make it unique, such as the server.
    pub id: IdDigest,
    /// The grant that owns the task.
    pub grant: GrantId,
    /// The server that runs the task.
    pub server: ServerName,
    /// The tool that created the task.
    pub tool: String,
    /// Time from which the row is no longer needed.
    pub expires_at: Timestamp,
}
