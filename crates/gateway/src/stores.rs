//! What outlives a request, as far as the gateway uses it.

use std::fmt;
use std::sync::Arc;

use gatelodge_store::{Ledger, Sessions, TaskOwners, ToolPins};

/// The parts of a store that a gateway runs on.
#[derive(Clone)]
pub struct GatewayStores {
    /// Counters and the call log.
    pub ledger: Arc<dyn Ledger>,
    /// What was accepted of servers' definitions.
    pub tool_pins: Arc<dyn ToolPins>,
    /// Sessions of clients.
    pub sessions: Arc<dyn Sessions>,
    /// Whose tasks are.
    pub task_owners: Arc<dyn TaskOwners>,
}

impl fmt::Debug for GatewayStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stores")
    }
}
