//! The parts of a store, one trait each.

mod admin_log;
mod change_feed;
mod grants;
mod ledger;
mod policies;
mod servers;
mod sessions;
mod task_owners;
mod tool_pins;

pub use admin_log::{AdminLog, AdminLogEntry};
pub use change_feed::{ChangeFeed, StateChangeNumber};
pub use grants::{EnforcementMode, Grant, GrantId, GrantServerAttachment, Grants, NewGrant};
pub use ledger::{
    CallLogFilter, CallLogRow, ChainReport, CounterUsage, ExhaustedCounter, Ledger, Reservation, ReserveOutcome,
    SharedLedger,
};
pub use policies::{Policies, PolicySummary, PolicyVersionNumber, StoredPolicy};
pub use servers::{Servers, StoredServer};
pub use sessions::{SessionRow, Sessions};
pub(crate) use task_owners::other_owner_error;
pub use task_owners::{MAX_TASKS_PER_GRANT, TaskOwner, TaskOwners};
pub use tool_pins::{CategoryOverride, PinnedDefinition, ServerTools, ToolDefinition, ToolPins};
