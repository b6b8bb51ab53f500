//! What the changes have in common: the store, the clock, and the entries of the admin log.

use std::sync::Arc;

use gatelodge_store::{AdminLogEntry, Clock, Store};
use serde_json::Value;

use crate::file_entry_names::FileEntryNames;

/// The store and the names in the configuration file, as an administrator sees them.
pub struct Administration {
    /// The stores to change.
    pub stores: Store,
    /// Clock for the times that are stored with changes.
    pub clock: Arc<dyn Clock>,
    /// Entries of the configuration file. They cannot be changed here, and no stored entry may have the name of one.
    pub file_entries: FileEntryNames,
    /// The administrator's name, for the admin log.
    pub author: String,
}

impl Administration {
    /// Builds an admin log entry for a change. `detail` must not contain secrets.
    pub(crate) fn log_entry(&self, action: &str, subject: &str, detail: Value) -> AdminLogEntry {
        AdminLogEntry {
            at: self.clock.now(),
            by: self.author.clone(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            detail,
        }
    }
}
