//! The handle to a whole store: the one place that lists its parts.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::clock::Clock;
use crate::memory::MemoryStore;
use crate::model::{Durability, OpenStoreError};
use crate::sqlite::{SqliteLedger, SqliteStateStore};
use crate::traits::{
    AdminLog, CallLog, ChangeFeed, CounterUsage, Grants, Ledger, Policies, Servers, Sessions, TaskOwners, ToolPins,
};

/// The parts of a store, one for each trait. Clones share the parts.
///
/// A test can replace a part by one that fails:
///
/// ```
/// use std::sync::Arc;
///
/// use gatelodge_store::{Clock, ManualClock, Sessions, Store};
///
/// fn with_sessions(clock: Arc<dyn Clock>, sessions: Arc<dyn Sessions>) -> Store {
///     Store { sessions, ..Store::memory(clock) }
/// }
/// ```
#[derive(Clone)]
pub struct Store {
    /// Servers that operators added.
    pub servers: Arc<dyn Servers>,
    /// Grants that operators created.
    pub grants: Arc<dyn Grants>,
    /// Policies in all their versions.
    pub policies: Arc<dyn Policies>,
    /// Pinned tool definitions and category overrides.
    pub tool_pins: Arc<dyn ToolPins>,
    /// Log of the changes that operators make.
    pub admin_log: Arc<dyn AdminLog>,
    /// Reports changes to servers, grants, policies and pinned definitions.
    pub change_feed: Arc<dyn ChangeFeed>,
    /// Client sessions.
    pub sessions: Arc<dyn Sessions>,
    /// The grant that owns each task.
    pub task_owners: Arc<dyn TaskOwners>,
    /// Charges counters and writes the call log.
    pub ledger: Arc<dyn Ledger>,
    /// Reads and prunes the call log.
    pub call_log: Arc<dyn CallLog>,
    /// Reads the counters.
    pub counter_usage: Arc<dyn CounterUsage>,
}

impl Store {
    /// Combines a backend's state with its ledger, which may be the same object.
    pub fn new<S, L>(state: Arc<S>, ledger: Arc<L>) -> Self
    where
        S: Servers + Grants + Policies + ToolPins + AdminLog + ChangeFeed + Sessions + TaskOwners + 'static,
        L: Ledger + CallLog + CounterUsage + 'static,
    {
        Self {
            servers: state.clone(),
            grants: state.clone(),
            policies: state.clone(),
            tool_pins: state.clone(),
            admin_log: state.clone(),
            change_feed: state.clone(),
            sessions: state.clone(),
            task_owners: state,
            ledger: ledger.clone(),
            call_log: ledger.clone(),
            counter_usage: ledger,
        }
    }

    /// Creates an empty store in memory, which uses `clock` for the windows of its counters.
    pub fn memory(clock: Arc<dyn Clock>) -> Self {
        let store = Arc::new(MemoryStore::new(clock));
        Self::new(Arc::clone(&store), store)
    }

    /// Returns whether there is a SQLite database in a directory.
    pub fn sqlite_exists(dir: &Path) -> bool {
        SqliteStateStore::exists(dir)
    }

    /// Opens the SQLite databases in a directory. Creates missing files and upgrades an older schema.
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open_sqlite(dir: &Path, durability: Durability, clock: Arc<dyn Clock>) -> Result<Self, OpenStoreError> {
        let state = SqliteStateStore::open(dir)?;
        let ledger = SqliteLedger::open(dir, durability, clock)?;
        Ok(Self::new(Arc::new(state), Arc::new(ledger)))
    }

    /// Opens the existing SQLite databases in a directory without creating files or changing a schema, for use next to
    /// a running gateway.
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open_existing_sqlite(
        dir: &Path,
        durability: Durability,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenStoreError> {
        let state = SqliteStateStore::open_existing(dir)?;
        let ledger = SqliteLedger::open_existing(dir, durability, clock)?;
        Ok(Self::new(Arc::new(state), Arc::new(ledger)))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}
