//! Ids and rows: what the traits take and return.

mod admin_log_entry;
mod call_id;
mod call_log_row;
mod call_record;
mod counter_charge;
mod grant;
mod grant_token;
mod id_digest;
mod reservation;
mod server_tools;
mod session_row;
mod state_change_number;
mod store_error;
mod stored_policy;
mod stored_server;
mod task_owner;
mod validated_name;

pub use admin_log_entry::AdminLogEntry;
pub use call_id::CallId;
pub use call_log_row::{CallLogFilter, CallLogRow};
pub(crate) use call_record::not_sent_record;
pub use call_record::{CallOutcome, CallRecord, CallTimings, RecordKind};
pub(crate) use counter_charge::{AppliedCharge, PeriodIndex};
pub use counter_charge::{CounterCharge, CounterKey, CounterOwner, CounterUsageRow};
pub use grant::{EnforcementMode, Grant, GrantId, GrantServerAttachment, NewGrant};
pub use grant_token::{GrantToken, GrantTokenError, TokenHash, TokenHashPair};
pub use id_digest::IdDigest;
pub use reservation::{ExhaustedCounter, Reservation, ReserveOutcome};
pub use server_tools::{CategoryOverride, PinnedDefinition, ServerTools, ToolDefinition};
pub use session_row::SessionRow;
pub use state_change_number::StateChangeNumber;
pub use store_error::StoreError;
pub use stored_policy::{PolicySummary, PolicyVersionNumber, StoredPolicy};
pub use stored_server::StoredServer;
pub use task_owner::{MAX_TASKS_PER_GRANT, TaskOwner};
pub use validated_name::{ParseNameError, PolicyName, ServerName};
