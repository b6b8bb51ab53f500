//! Opens the store that the configuration names.
//!
//! The functions are async, because a backend may connect to another machine. Commands use a store on the runtime on which
//! they opened it; the workers of a running gateway call it from runtimes of their own.

use std::sync::Arc;

use gatelodge_store::{Clock, OpenStoreError, Store};

use crate::config::StoreSection;

/// Returns whether there is a store.
pub async fn has_store(config: &StoreSection) -> bool {
    Store::sqlite_exists(&config.data)
}

/// Opens the store, creating what is missing.
///
/// # Errors
/// See [`OpenStoreError`].
pub async fn open_store(config: &StoreSection, clock: &Arc<dyn Clock>) -> Result<Store, OpenStoreError> {
    Store::open_sqlite(&config.data, config.durability, Arc::clone(clock))
}

/// Opens an existing store. Creates nothing.
///
/// # Errors
/// See [`OpenStoreError`].
pub async fn open_existing_store(config: &StoreSection, clock: &Arc<dyn Clock>) -> Result<Store, OpenStoreError> {
    Store::open_existing_sqlite(&config.data, config.durability, Arc::clone(clock))
}
