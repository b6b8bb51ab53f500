//! The steps that `methods/call_handler.rs` runs in order: authorize, reserve, forward, and the response for the client;
//! and what servers send meanwhile.

pub(crate) mod authorize;
pub(crate) mod call_suspension;
pub(crate) mod client_capability_check;
pub(crate) mod client_input;
mod client_response;
mod forward;
pub(crate) mod input_policy;
mod reserve;
pub(crate) mod server_message_filter;
mod task_cancellation;
pub(crate) mod task_ownership;
mod upstream_stream_resumption;

use self::upstream_stream_resumption::UpstreamStreamResumption;

pub(crate) use client_response::{can_hold_task_or_input, parsed_response_for_client, response_for_client};
pub(crate) use forward::{
    ForwardContext, ForwardOutcome, MAX_SERVER_REQUESTS_PER_ROUND, abandoned_outcome, forward, relay_until_response,
    rewrite_for_upstream, wait_or_cancel,
};
pub(crate) use reserve::{CallReservation, reserve};
