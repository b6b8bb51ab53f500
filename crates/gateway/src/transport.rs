//! How clients reach the gateway: HTTP, HTTP+SSE and stdio.

pub(crate) mod http;
mod sse_server;
pub(crate) mod stdio;

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
