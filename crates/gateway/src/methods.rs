//! Handlers for client messages, one file per kind of message.

pub(crate) mod call_handler;
pub(crate) mod capability_check;
pub(crate) mod client_input;
pub(crate) mod initialize;
pub(crate) mod list_requests;
pub(crate) mod passthrough;
pub(crate) mod protocol_probe;
pub(crate) mod removed_methods;
pub(crate) mod resources_subscribe;
pub(crate) mod session_pool;
pub(crate) mod session_recovery;
pub(crate) mod standalone_stream;
pub(crate) mod subscriptions_listen;
pub(crate) mod task_requests;
pub(crate) mod tool_listing_refresh;
pub(crate) mod translation_gaps;
pub(crate) mod unsolicited_messages;
