//! Builds the parts and ties them together: the clock, the stores, the gateway, and what is in force.

mod config_reload;
mod effective_config;
mod gateway_status_file;
mod housekeeping;
mod logging;
pub mod open_file_limit;
mod run_gateway;
mod stdio_gateway;
mod system_clock;

use std::sync::Arc;

use gatelodge_store::{
    AdminLog, ChangeFeed, Clock, Grants, Ledger, OpenStoreError, Policies, Servers, Sessions, SqliteLedger,
    SqliteState, TaskOwners, ToolPins,
};

use crate::config::StoreSection;

pub use effective_config::{EffectiveConfig, StoredConfig, expired_grants, load_stored_config, merge_config};
pub use gateway_status_file::{GatewayStatusFile, find_running_gateway as running_note, find_status_file as find_note};
pub use logging::{LogArgs, start_logging as start_log};
pub use run_gateway::{GatewayStartup, run_gateway};
pub use stdio_gateway::{StdioGateway, run_stdio_gateway as run_local, wait_for_stop_signal};
pub use system_clock::system_clock;

/// Everything that outlives a request, by what it is for.
#[derive(Clone)]
pub struct StoreHandles {
    /// Servers that were added.
    pub servers: Arc<dyn Servers>,
    /// Grants that were made.
    pub grants: Arc<dyn Grants>,
    /// Policies that were put.
    pub policies: Arc<dyn Policies>,
    /// What people changed.
    pub admin_log: Arc<dyn AdminLog>,
    /// That something changed.
    pub notices: Arc<dyn ChangeFeed>,
    /// What was accepted of servers' definitions.
    pub tool_pins: Arc<dyn ToolPins>,
    /// Sessions of clients.
    pub sessions: Arc<dyn Sessions>,
    /// Whose tasks are.
    pub tasks: Arc<dyn TaskOwners>,
    /// Counters and the call log.
    pub ledger: Arc<dyn Ledger>,
    /// The same, for what only this backend tells.
    pub sqlite_ledger: Arc<SqliteLedger>,
}

impl StoreHandles {
    /// Those that a gateway runs on.
    pub fn gateway_stores(&self) -> gatelodge_gateway::GatewayStores {
        gatelodge_gateway::GatewayStores {
            ledger: Arc::clone(&self.ledger),
            tool_pins: Arc::clone(&self.tool_pins),
            sessions: Arc::clone(&self.sessions),
            task_owners: Arc::clone(&self.tasks),
        }
    }
}

/// Opens the stores; what is missing is made.
pub fn open(config: &StoreSection, clock: &Arc<dyn Clock>) -> Result<StoreHandles, OpenStoreError> {
    let state = SqliteState::open(&config.data)?;
    let ledger = SqliteLedger::open(&config.data, config.durability, Arc::clone(clock))?;
    Ok(build_stores(state, ledger))
}

/// Opens the stores as they are; nothing is made.
pub fn open_existing(config: &StoreSection, clock: &Arc<dyn Clock>) -> Result<StoreHandles, OpenStoreError> {
    let state = SqliteState::open_existing(&config.data)?;
    let ledger = SqliteLedger::open_existing(&config.data, config.durability, Arc::clone(clock))?;
    Ok(build_stores(state, ledger))
}

fn build_stores(state: SqliteState, ledger: SqliteLedger) -> StoreHandles {
    let (state, ledger) = (Arc::new(state), Arc::new(ledger));
    StoreHandles {
        servers: Arc::clone(&state) as Arc<dyn Servers>,
        grants: Arc::clone(&state) as Arc<dyn Grants>,
        policies: Arc::clone(&state) as Arc<dyn Policies>,
        admin_log: Arc::clone(&state) as Arc<dyn AdminLog>,
        tool_pins: Arc::clone(&state) as Arc<dyn ToolPins>,
        sessions: Arc::clone(&state) as Arc<dyn Sessions>,
        tasks: Arc::clone(&state) as Arc<dyn TaskOwners>,
        notices: state,
        ledger: Arc::clone(&ledger) as Arc<dyn Ledger>,
        sqlite_ledger: ledger,
    }
}
