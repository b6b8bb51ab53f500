//! The steps of a call, from the client's request to the upstream request: subject, reservation, permit, forwarding and
//! call record.

mod argument_redaction;
pub(crate) mod authorize;
pub(crate) mod call_cancellation;
mod call_log;
mod call_recorder;
pub(crate) mod client_capability_check;
pub(crate) mod client_input;
mod client_response;
mod forward;
mod own_request;
mod reserve;
pub(crate) mod resource_subscription;
mod response_status;
pub(crate) mod server_message_filter;
mod suspended_calls;
pub(crate) mod task_ownership;
mod upstream_param_headers;
pub(crate) mod upstream_session;
mod upstream_stream_resumption;

use self::upstream_stream_resumption::UpstreamStreamResumption;

pub(crate) use call_recorder::CallRecorder;
pub(crate) use client_response::{
    RESULT_TYPE_COMPLETE, parsed_response_for_client, response_for_client, without_result_type,
};
pub(crate) use forward::{
    ForwardContext, ForwardOutcome, MAX_SERVER_REQUESTS_PER_ROUND, abandoned_outcome, can_request_input, forward,
    relay_until_response, rewrite_for_upstream, wait_or_cancel,
};
pub(crate) use own_request::{await_own_response, result_text};
pub(crate) use reserve::{CallReservation, reserve};
pub(crate) use response_status::response_status;
pub(crate) use suspended_calls::{
    ClientInputRequest, SuspendedCall, SuspendedCallBinding, SuspendedCalls, TOO_MANY_SUSPENDED_CALLS_MESSAGE,
};
pub(crate) use upstream_param_headers::upstream_param_headers;
