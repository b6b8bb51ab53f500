//! Opens the stores, and hands them out by trait.

use std::sync::Arc;

use gatelodge_store::{
    AdminLog, ChangeFeed, Clock, Grants, Ledger, OpenStoreError, Policies, Servers, Sessions, SqliteLedger,
    SqliteStateStore, TaskOwners, ToolPins,
};

use crate::config::StoreSection;

/// Handles to the stores, one for each trait.
#[derive(Clone)]
pub struct StoreHandles {
    /// Servers that operators added with commands.
    pub servers: Arc<dyn Servers>,
    /// Grants that operators created with commands.
    pub grants: Arc<dyn Grants>,
    /// Policies that operators stored with commands, in all their versions.
    pub policies: Arc<dyn Policies>,
    /// Log of the changes that operators make.
    pub admin_log: Arc<dyn AdminLog>,
    /// Reports changes to the state database.
    pub changes: Arc<dyn ChangeFeed>,
    /// Pinned tool definitions.
    pub tool_pins: Arc<dyn ToolPins>,
    /// Client sessions.
    pub sessions: Arc<dyn Sessions>,
    /// The grant that owns each task.
    pub task_owners: Arc<dyn TaskOwners>,
    /// Counters and the call log.
    pub ledger: Arc<dyn Ledger>,
    /// The same ledger with its concrete type, which also provides the ledger's error count.
    pub sqlite_ledger: Arc<SqliteLedger>,
}

impl StoreHandles {
    /// Returns the stores that a gateway needs.
    pub fn gateway_stores(&self) -> gatelodge_gateway::GatewayStores {
        gatelodge_gateway::GatewayStores {
            ledger: Arc::clone(&self.ledger),
            tool_pins: Arc::clone(&self.tool_pins),
            sessions: Arc::clone(&self.sessions),
            task_owners: Arc::clone(&self.task_owners),
        }
    }
}

/// Opens the stores, creating any that are missing.
pub fn open_stores(config: &StoreSection, clock: &Arc<dyn Clock>) -> Result<StoreHandles, OpenStoreError> {
    let state = SqliteStateStore::open(&config.data)?;
    let ledger = SqliteLedger::open(&config.data, config.durability, Arc::clone(clock))?;
    Ok(build_stores(state, ledger))
}

/// Opens existing stores. Creates nothing.
pub fn open_existing_stores(config: &StoreSection, clock: &Arc<dyn Clock>) -> Result<StoreHandles, OpenStoreError> {
    let state = SqliteStateStore::open_existing(&config.data)?;
    let ledger = SqliteLedger::open_existing(&config.data, config.durability, Arc::clone(clock))?;
    Ok(build_stores(state, ledger))
}

fn build_stores(state: SqliteStateStore, ledger: SqliteLedger) -> StoreHandles {
    let (state, ledger) = (Arc::new(state), Arc::new(ledger));
    StoreHandles {
        servers: Arc::clone(&state) as Arc<dyn Servers>,
        grants: Arc::clone(&state) as Arc<dyn Grants>,
        policies: Arc::clone(&state) as Arc<dyn Policies>,
        admin_log: Arc::clone(&state) as Arc<dyn AdminLog>,
        tool_pins: Arc::clone(&state) as Arc<dyn ToolPins>,
        sessions: Arc::clone(&state) as Arc<dyn Sessions>,
        task_owners: Arc::clone(&state) as Arc<dyn TaskOwners>,
        changes: state,
        ledger: Arc::clone(&ledger) as Arc<dyn Ledger>,
        sqlite_ledger: ledger,
    }
}
