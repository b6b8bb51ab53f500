//! Handlers for client messages, one file per kind of message.

pub(crate) mod call_handler;
pub(crate) mod dispatch;
pub(crate) mod initialize;
pub(crate) mod list_requests;
pub(crate) mod policy_exempt_messages;
pub(crate) mod resources_subscribe;
pub(crate) mod standalone_stream;
pub(crate) mod subscriptions_listen;
pub(crate) mod task_requests;
pub(crate) mod tool_listing_refresh;
pub(crate) mod unknown_method_reply;
