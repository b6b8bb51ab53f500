//! The client-facing HTTP server: listeners, header checks and request bodies.

mod authentication;
mod cors;
mod health_endpoints;
pub(crate) mod listener;
pub(crate) mod mcp_endpoint;
pub(crate) mod rejection;
pub(crate) mod request_body;
mod smuggling_guard;
