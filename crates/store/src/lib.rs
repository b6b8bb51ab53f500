//! What outlives a request: servers, grants, policies, counters, and the two logs.
//!
//! One small trait for each, and backends behind them that pass one suite. Nothing here knows of HTTP or of MCP.
//! There is no gateway without a store: where one cannot answer, the call is refused.

mod admin_log;
mod call_record;
mod chain_inspection;
mod change_feed;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod counter;
mod counter_map;
mod counter_window;
mod grants;
mod hash_chain;
mod id_hash;
mod ledger;
mod log_page;
mod memory;
mod policies;
mod servers;
mod sessions;
mod sqlite;
mod task_owners;
mod token;
mod tool_pins;
mod validated_name;

pub use admin_log::{AdminEntry, AdminLog};
pub use call_record::{CallId, CallOutcome, CallRecord, CallTimings, RecordKind};
pub use change_feed::{ChangeFeed, StateVersion};
pub use clock::{Clock, ManualClock};
pub use counter::{CounterCharge, CounterKey, CounterOwner};
pub use grants::{EnforcementMode, Grant, GrantAttachment, GrantId, Grants, NewGrant};
pub use hash_chain::{ChainBreak, ChainHead, ParseChainHeadError, RowHash};
pub use id_hash::IdHash;
pub use ledger::{
    CallLogFilter, CallLogRow, ChainReport, CounterUsage, ExhaustedCounter, Ledger, Reservation, ReserveOutcome,
    SharedLedger,
};
pub use log_page::ChainedRow;
pub use memory::MemoryStore;
pub use policies::{Policies, PolicySummary, PolicyVersion, StoredPolicy};
pub use servers::{Servers, StoredServer};
pub use sessions::{SessionRow, Sessions};
pub use sqlite::{Durability, OpenStoreError, SqliteLedger, SqliteState};
pub use task_owners::{MAX_TASKS_PER_GRANT, TaskOwner, TaskOwners};
pub use token::{GrantToken, HashedToken, TokenError, TokenHash};
pub use tool_pins::{CategoryOverride, PinnedDefinition, ServerTools, ToolDefinition, ToolPins};
pub use validated_name::{ParseNameError, PolicyName, ServerName};

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, is full, locked or read-only. The same may succeed later.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// There is no such thing.
    #[error("there is no {0}")]
    NotFound(String),
    /// There is one already, or something else refers to it.
    #[error("{0}")]
    Conflict(String),
    /// What is stored cannot be read; somebody has to look.
    #[error("the store holds what cannot be read: {0}")]
    Corrupt(String),
}
