//! The stores that a gateway uses.

use std::fmt;
use std::sync::Arc;

use gatelodge_store::{Ledger, Sessions, TaskOwners, ToolPins};

/// Handles to the stores.
#[derive(Clone)]
pub struct GatewayStores {
    /// Counters and the call log.
    pub ledger: Arc<dyn Ledger>,
    /// Pinned tool definitions and category overrides.
    pub tool_pins: Arc<dyn ToolPins>,
    /// Client sessions.
    pub sessions: Arc<dyn Sessions>,
    /// Task ownership.
    pub task_owners: Arc<dyn TaskOwners>,
}

impl fmt::Debug for GatewayStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayStores")
    }
}
