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
pub(crate) mod sse_server;

use std::sync::Arc;

use self::sse_server::ClientSseConnections;
use crate::aggregate::AggregateCaches;
use crate::runtime::workers::WorkerRoundRobin;
use crate::services::GatewayServices;

/// The client end of the gateway: what its transports share.
pub(crate) struct ClientLeg {
    pub services: Arc<GatewayServices>,
    pub aggregate_caches: Arc<AggregateCaches>,
    pub sse_connections: ClientSseConnections,
    /// Threads that serve connections.
    pub workers: WorkerRoundRobin,
}

impl ClientLeg {
    pub fn new(services: Arc<GatewayServices>, workers: WorkerRoundRobin) -> Self {
        let (aggregate_caches, sse_connections) = (Arc::default(), ClientSseConnections::default());
        Self { services, aggregate_caches, sse_connections, workers }
    }
}
