//! Builds the parts and ties them together: the clock, the stores, the gateway, and what is in force.

mod clock;
pub mod files;
mod follow;
mod housekeeping;
mod local;
mod log;
mod note;
mod picture;
mod run;

use std::sync::Arc;

use gatelodge_store::{
    AdminLog, ChangeFeed, Clock, Grants, Ledger, OpenStoreError, Policies, Servers, Sessions, SqliteLedger,
    SqliteState, TaskOwners, ToolPins,
};

use crate::config::StoreConfig;

pub use clock::system as system_clock;
pub use local::{Local, run as run_local, told_to_stop};
pub use log::{LogArgs, start as start_log};
pub use note::{Note, find as find_note, running as running_note};
pub use picture::{Picture, Stored, expired, merge, stored};
pub use run::{Plan, run};

/// Everything that outlives a request, by what it is for.
#[derive(Clone)]
pub struct Stores {
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
    pub sqlite: Arc<SqliteLedger>,
}

impl Stores {
    /// Those that a gateway runs on.
    pub fn of_gateway(&self) -> gatelodge_gateway::GatewayStores {
        gatelodge_gateway::GatewayStores {
            ledger: Arc::clone(&self.ledger),
            tool_pins: Arc::clone(&self.tool_pins),
            sessions: Arc::clone(&self.sessions),
            task_owners: Arc::clone(&self.tasks),
        }
    }
}

/// Opens the stores; what is missing is made.
pub fn open(config: &StoreConfig, clock: &Arc<dyn Clock>) -> Result<Stores, OpenStoreError> {
    let state = SqliteState::open(&config.data)?;
    let ledger = SqliteLedger::open(&config.data, config.durability, Arc::clone(clock))?;
    Ok(tied(state, ledger))
}

/// Opens the stores as they are; nothing is made.
pub fn open_existing(config: &StoreConfig, clock: &Arc<dyn Clock>) -> Result<Stores, OpenStoreError> {
    let state = SqliteState::open_existing(&config.data)?;
    let ledger = SqliteLedger::open_existing(&config.data, config.durability, Arc::clone(clock))?;
    Ok(tied(state, ledger))
}

fn tied(state: SqliteState, ledger: SqliteLedger) -> Stores {
    let (state, ledger) = (Arc::new(state), Arc::new(ledger));
    Stores {
        servers: Arc::clone(&state) as Arc<dyn Servers>,
        grants: Arc::clone(&state) as Arc<dyn Grants>,
        policies: Arc::clone(&state) as Arc<dyn Policies>,
        admin_log: Arc::clone(&state) as Arc<dyn AdminLog>,
        tool_pins: Arc::clone(&state) as Arc<dyn ToolPins>,
        sessions: Arc::clone(&state) as Arc<dyn Sessions>,
        tasks: Arc::clone(&state) as Arc<dyn TaskOwners>,
        notices: state,
        ledger: Arc::clone(&ledger) as Arc<dyn Ledger>,
        sqlite: ledger,
    }
}
