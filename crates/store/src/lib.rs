//! Persistent state: servers, grants, policies, tool pins, sessions, counters, and the two hash-chained logs.
//!
//! Each has its own small trait, and all backends pass the same conformance suite. The crate knows nothing about HTTP
//! or MCP. A gateway cannot run without a store: if the store fails, calls are refused.
//!
//! The modules form layers, lowest first. Each uses only modules of lower layers, which `checks/layering.py` checks:
//!
//! 1. `model`: ids and rows; `clock`.
//! 2. `audit_chain`: the hash chain of both logs; `counters`: windows, and charging all or none.
//! 3. `traits`: what a backend owes, one file per trait.
//! 4. `memory` and `sqlite`: the backends, which do not use each other.
//! 5. `store`: the handle that lists the parts of a store, and opens a backend.
//! 6. `conformance`: the suite that every backend passes.

mod audit_chain;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod counters;
mod memory;
mod model;
mod sqlite;
mod store;
mod traits;

pub use audit_chain::{ChainBreak, ChainHead, ChainReport, ChainedRow, ParseChainHeadError, RowHash};
pub use clock::{Clock, ManualClock};
pub use memory::MemoryStore;
pub use model::{
    AdminLogEntry, CallId, CallLogFilter, CallLogRow, CallOutcome, CallRecord, CallTimings, CategoryOverride,
    CounterCharge, CounterKey, CounterOwner, CounterUsageRow, Durability, EnforcementMode, ExhaustedCounter,
    FILE_GRANT_ID_PREFIX, Grant, GrantId, GrantServerAttachment, GrantToken, GrantTokenError, IdDigest,
    MAX_GRANT_LABEL_CHARS, MAX_TASKS_PER_GRANT, NewGrant, OpenStoreError, ParseNameError, PinnedDefinition, PolicyName,
    PolicySummary, PolicyVersionNumber, RecordKind, Reservation, ReserveOutcome, ServerName, ServerTools, SessionRow,
    StateChangeNumber, StoreError, StoredPolicy, StoredServer, TaskOwner, TokenHash, TokenHashPair, ToolDefinition,
    is_valid_grant_label,
};
pub use sqlite::{SqliteLedger, SqliteStateStore};
pub use store::Store;
pub use traits::{
    AdminLog, CallLog, ChangeFeed, CounterUsage, Grants, Ledger, Policies, Servers, Sessions, TaskOwners, ToolPins,
};
