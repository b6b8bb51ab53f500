//! Builds and connects the parts of a running gateway: clock, store, gateway and active configuration.

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

use gatelodge_store::{Clock, OpenStoreError, Store};

use crate::config::StoreSection;

pub use effective_config::{
    EffectiveConfig, StoredConfig, expired_grants, load_stored_config, merge_config, missing_server_text,
};
pub use gateway_status_file::{GatewayStatusFile, find_running_gateway, find_status_file};
pub use logging::{LoggingArgs, start_logging};
pub use run_gateway::{GatewayStartup, run_gateway};
pub use stdio_gateway::{StdioGateway, run_stdio_gateway, wait_for_stop_signal};
pub use system_clock::system_clock;

/// Returns whether there is a store.
pub fn has_store(config: &StoreSection) -> bool {
    Store::sqlite_exists(&config.data)
}

/// Opens the store, creating what is missing.
pub fn open(config: &StoreSection, clock: &Arc<dyn Clock>) -> Result<Store, OpenStoreError> {
    Store::open_sqlite(&config.data, config.durability, Arc::clone(clock))
}

/// Opens an existing store. Creates nothing.
pub fn open_existing(config: &StoreSection, clock: &Arc<dyn Clock>) -> Result<Store, OpenStoreError> {
    Store::open_existing_sqlite(&config.data, config.durability, Arc::clone(clock))
}
