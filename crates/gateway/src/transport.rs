//! How clients reach the gateway: HTTP, HTTP+SSE and stdio.

pub(crate) mod http;
mod sse_server;
pub(crate) mod stdio;

use std::sync::Arc;

use self::sse_server::ClientSseConnections;
use crate::aggregate::AggregateCaches;
use crate::runtime::workers::WorkerRoundRobin;
use crate::services::GatewayServices;

/// State that the transports share, over all connections and requests.
pub(crate) struct TransportState {
    pub services: Arc<GatewayServices>,
    pub aggregate_caches: Arc<AggregateCaches>,
    pub sse_connections: ClientSseConnections,
    /// Threads that serve connections.
    pub workers: WorkerRoundRobin,
}

impl TransportState {
    pub fn new(services: Arc<GatewayServices>, workers: WorkerRoundRobin) -> Self {
        let (aggregate_caches, sse_connections) = (Arc::default(), ClientSseConnections::default());
        Self { services, aggregate_caches, sse_connections, workers }
    }
}
