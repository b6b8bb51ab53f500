//! The client-facing HTTP server: listeners, header checks and request bodies.

mod authentication;
mod bearer_token;
mod cors;
mod health_endpoints;
pub(crate) mod listener;
mod mcp_endpoint;
pub(crate) mod rejection;
pub(crate) mod request_body;
mod request_task;
mod smuggling_guard;
