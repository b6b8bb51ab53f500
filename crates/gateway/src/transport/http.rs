//! The client-facing HTTP server: listeners, header checks, bodies and replies.

mod aggregate_endpoint;
pub(crate) mod bearer_token;
mod cors;
pub(crate) mod health_endpoints;
pub(crate) mod listener;
pub(crate) mod mcp_endpoint;
pub(crate) mod request_body;
mod request_task;
pub(crate) mod smuggling_guard;
