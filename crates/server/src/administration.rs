//! Changes that administrators make to policies, grants and servers in the store, with the rules for them.
//!
//! Each operation checks the change, makes it together with its admin log entry, and returns what it did. Front ends parse
//! input and show results.

mod grant_changes;
mod policy_versions;
mod server_changes;

use std::sync::Arc;

use gatelodge_store::{AdminLogEntry, Clock, Store};
use serde_json::Value;

use crate::config::ConfigFileEntries;

pub use grant_changes::{ChangeGrantError, CreatedGrant, EditableGrant, GrantRequest, check_grant_label};
pub use policy_versions::{CounterChange, CounterDifference, NewPolicyVersion, PutPolicyError, PutPolicyOutcome};
pub use server_changes::{ChangeServerError, NewServer, NewServerError};

/// The store and the configuration file, as an administrator sees them.
pub struct Administration {
    /// The stores to change.
    pub stores: Store,
    /// Clock for the times that are stored with changes.
    pub clock: Arc<dyn Clock>,
    /// Entries of the configuration file. They cannot be changed here, and no stored entry may have the name of one.
    pub file_entries: ConfigFileEntries,
    /// The administrator's name, for the admin log.
    pub author: String,
}

impl Administration {
    /// Builds an admin log entry for a change. `detail` must not contain secrets.
    pub fn log_entry(&self, action: &str, subject: &str, detail: Value) -> AdminLogEntry {
        AdminLogEntry {
            at: self.clock.now(),
            by: self.author.clone(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            detail,
        }
    }
}
