//! Persistent state: servers, grants, policies, tool pins, sessions, counters, and the two hash-chained logs.
//!
//! Each has its own small trait, and all backends pass the same conformance suite. The crate knows nothing about HTTP
//! or MCP. A gateway cannot run without a store: if the store fails, calls are refused.

mod admin_log;
mod call_record;
mod chain_verification;
mod change_feed;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod counter;
mod counter_map;
mod counter_window;
mod grant_token;
mod grants;
mod hash_chain;
mod id_digest;
mod ledger;
mod log_page;
mod memory;
mod policies;
mod servers;
mod sessions;
mod sqlite;
mod task_owners;
mod tool_pins;
mod validated_name;

pub use admin_log::{AdminLog, AdminLogEntry};
pub use call_record::{CallId, CallOutcome, CallRecord, CallTimings, RecordKind};
pub use change_feed::{ChangeFeed, StateChangeNumber};
pub use clock::{Clock, ManualClock};
pub use counter::{CounterCharge, CounterKey, CounterOwner};
pub use grant_token::{GrantToken, GrantTokenError, TokenHash, TokenHashPair};
pub use grants::{EnforcementMode, Grant, GrantId, GrantServerAttachment, Grants, NewGrant};
pub use hash_chain::{ChainBreak, ChainHead, ParseChainHeadError, RowHash};
pub use id_digest::IdDigest;
pub use ledger::{
    CallLogFilter, CallLogRow, ChainReport, CounterUsage, ExhaustedCounter, Ledger, Reservation, ReserveOutcome,
    SharedLedger,
};
pub use log_page::ChainedRow;
pub use memory::MemoryStore;
pub use policies::{Policies, PolicySummary, PolicyVersionNumber, StoredPolicy};
pub use servers::{Servers, StoredServer};
pub use sessions::{SessionRow, Sessions};
pub use sqlite::{Durability, OpenStoreError, SqliteLedger, SqliteStateStore};
pub use task_owners::{MAX_TASKS_PER_GRANT, TaskOwner, TaskOwners};
pub use tool_pins::{CategoryOverride, PinnedDefinition, ServerTools, ToolDefinition, ToolPins};
pub use validated_name::{ParseNameError, PolicyName, ServerName};

/// An error from a store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, or is full, locked or read-only. A retry may succeed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The object does not exist.
    #[error("there is no {0}")]
    NotFound(String),
    /// The object already exists, or another object refers to it.
    #[error("{0}")]
    Conflict(String),
    /// Stored data cannot be read. An operator must repair it.
    #[error("stored data is corrupt: {0}")]
    Corrupt(String),
}
