//! The MCP protocol: parses messages from clients and upstreams, and replaces single values without changing the rest
//! of the text.
//!
//! Client messages are parsed completely. Upstream messages are only split into an envelope and an unparsed payload.
//! Unknown members pass unchanged, and input that two parsers could interpret differently is refused. The crate knows
//! nothing about sockets or policies.

pub mod aggregate_names;
mod client_capabilities;
mod client_message;
mod confusable_members;
mod created_task;
mod encode_response;
pub mod http_headers;
mod list_page;
mod message_error;
mod message_rewrite;
mod method;
mod params;
mod request_id;
mod request_meta;
mod revision;
mod server_message;
mod sse_codec;
mod trace_context;
pub mod translate;

pub use client_capabilities::ClientCapabilities;
pub use client_message::{
    ClientMessage, ClientNotification, ClientRequest, ClientResponse, ClientResponsePayload, read_client_message,
    read_segmented_client_message,
};
pub use confusable_members::find_confusable_result_member;
pub use created_task::{CreatedTask, TASKS_CAPABILITY_JSON, find_created_task, has_task_capability};
pub use encode_response::{error_response, result_response, tool_error_result};
pub use list_page::{ListCaching, replace_list_items};
pub use message_error::{MessageError, code, quote_excerpt};
pub use message_rewrite::{RequestRewrite, RequestRewriteError, to_single_line};
pub use method::{Method, MethodDirection, MethodKind};
pub use params::{CompletionRequest, CompletionTarget, MAX_NAME_BYTES, PromptRequest, ToolCall};
pub use request_id::RequestId;
pub use request_meta::RequestMeta;
pub use revision::{ParseRevisionError, ProtocolGeneration, Revision};
pub use server_message::{
    RpcErrorObject, ServerMessage, ServerNotification, ServerRequest, ServerResponse, ServerResponseOffsets,
    ServerResponsePayload, read_segmented_result, read_server_message,
};
pub use sse_codec::{
    SSE_KEEP_ALIVE, SseDecoder, SseEventKind, SseEventTooLargeError, sse_endpoint_event, sse_event, sse_event_with_id,
    sse_priming_event,
};
pub use trace_context::{BAGGAGE, TRACEPARENT, TRACESTATE, TraceContext, TraceParent};
