//! The steps of a call, from the client's request to the upstream request: subject, reservation, permit, forwarding and
//! call record.

mod argument_redaction;
pub(crate) mod authorize;
mod call_log;
mod call_recorder;
pub(crate) mod client_capability_check;
pub(crate) mod client_input;
mod forward;
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
pub(crate) use forward::{
    ForwardContext, ForwardOutcome, MAX_SERVER_REQUESTS_PER_ROUND, RESULT_TYPE_COMPLETE, abandoned_outcome,
    await_own_response, can_request_input, forward, parsed_response_for_client, relay_until_response,
    response_for_client, result_text, rewrite_for_upstream, wait_or_cancel, without_result_type,
};
pub(crate) use reserve::{CallReservation, reserve};
pub(crate) use response_status::response_status;
pub(crate) use suspended_calls::{
    ClientInputRequest, SuspendedCall, SuspendedCallBinding, SuspendedCalls, TOO_MANY_SUSPENDED_CALLS_MESSAGE,
};
pub(crate) use upstream_param_headers::upstream_param_headers;
