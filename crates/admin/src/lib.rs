//! Changes that administrators make to what is stored (policies, grants, servers, accepted tools, the call log), with the
//! rules for them.
//!
//! Each operation of [`Administration`] checks the change, makes it together with its admin log entry, and returns what it
//! did. Front ends parse input and show results. The crate does not know the gateway: the two meet in the store, where the
//! gateway notices the change.

pub mod header_template;
pub mod server_url;

mod administration;
mod call_log_pruning;
mod file_entry_names;
mod grant_changes;
mod name_suggestion;
mod policy_versions;
mod server_changes;
mod tool_changes;

pub use administration::Administration;
pub use call_log_pruning::{PruneCallsError, PrunedCalls};
pub use file_entry_names::{FileEntryNames, FileGrantName};
pub use grant_changes::{ChangeGrantError, CreatedGrant, EditableGrant, GrantRequest, check_grant_label};
pub use name_suggestion::suggest_name;
pub use policy_versions::{CounterChange, CounterDifference, NewPolicyVersion, PutPolicyError, PutPolicyOutcome};
pub use server_changes::{ChangeServerError, NewServer, NewServerError};
pub use tool_changes::{NewCategoryOverride, OverrideCategoryError};
