//! Persistent state: servers, grants, policies, tool pins, sessions, counters, and the two hash-chained logs.
//!
//! Each has its own small trait, and all backends pass the same conformance suite. The crate knows nothing about HTTP
//! or MCP. A gateway cannot run without a store: if the store fails, calls are refused.

mod audit_chain;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod counters;
mod memory;
mod model;
mod sqlite;
mod traits;

pub use audit_chain::{ChainBreak, ChainHead, ChainedRow, ParseChainHeadError, RowHash};
pub use clock::{Clock, ManualClock};
pub use counters::{CounterCharge, CounterKey, CounterOwner};
pub use memory::MemoryStore;
pub use model::{
    CallId, CallOutcome, CallRecord, CallTimings, GrantToken, GrantTokenError, IdDigest, ParseNameError, PolicyName,
    RecordKind, ServerName, TokenHash, TokenHashPair,
};
pub use sqlite::{Durability, OpenStoreError, SqliteLedger, SqliteStateStore};
pub use traits::{
    AdminLog, AdminLogEntry, CallLogFilter, CallLogRow, CategoryOverride, ChainReport, ChangeFeed, CounterUsage,
    EnforcementMode, ExhaustedCounter, Grant, GrantId, GrantServerAttachment, Grants, Ledger, MAX_TASKS_PER_GRANT,
    NewGrant, PinnedDefinition, Policies, PolicySummary, PolicyVersionNumber, Reservation, ReserveOutcome, ServerTools,
    Servers, SessionRow, Sessions, SharedLedger, StateChangeNumber, StoredPolicy, StoredServer, TaskOwner, TaskOwners,
    ToolDefinition, ToolPins,
};

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
