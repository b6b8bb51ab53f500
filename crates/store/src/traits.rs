//! The parts of a store, one trait each, with what an implementation owes.
//!
//! Any method may return [`StoreError::Unavailable`](crate::StoreError::Unavailable) if the store cannot be reached or
//! written, and [`StoreError::Corrupt`](crate::StoreError::Corrupt) if stored data cannot be read. The comment of a
//! method names its other errors: after `NotFound` or `Conflict` nothing has changed, and no entry was written to the
//! admin log.
//!
//! Each change of servers, grants, policies and pinned definitions is durable when the method returns, and changes the
//! version of the [`ChangeFeed`], unless its comment says otherwise. A row may name a server or policy that does not
//! exist.

mod admin_log;
mod call_log;
mod change_feed;
mod counter_usage;
mod grants;
mod ledger;
mod policies;
mod servers;
mod sessions;
mod task_owners;
mod tool_pins;

pub use admin_log::AdminLog;
pub use call_log::CallLog;
pub use change_feed::ChangeFeed;
pub use counter_usage::CounterUsage;
pub use grants::Grants;
pub(crate) use grants::{
    already_revoked_error, label_taken_error, no_attachment_error, no_grant_error, revoked_error, token_taken_error,
};
pub use ledger::Ledger;
pub use policies::Policies;
pub(crate) use policies::no_policy_error;
pub use servers::Servers;
pub(crate) use servers::{no_server_error, server_exists_error};
pub use sessions::Sessions;
pub use task_owners::TaskOwners;
pub(crate) use task_owners::other_owner_error;
pub use tool_pins::ToolPins;
pub(crate) use tool_pins::{no_override_error, stale_definition_error, tools_unknown_error};
