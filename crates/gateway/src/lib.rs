//! The gateway: listeners, the request pipeline, sessions and upstream connections.
//!
//! A client's request reaches a server only with a `Permit`, which only a policy decision creates. The gateway itself
//! reads no clock, file or environment variable: its caller passes them in.

mod active_policy;
mod aggregate;
mod body;
mod call_recorder;
mod client;
mod config_snapshot;
mod housekeeping;
mod methods;
mod pipeline;
mod refusal;
mod reply;
mod request_context;
mod responder;
mod runtime;
mod services;
mod session;
mod settings;
mod suspended_calls;
mod telemetry;
mod transport;
mod upstream;
mod upstream_session;

use std::fmt;
use std::sync::Arc;

use gatelodge_store::{Clock, ServerName, Store, TokenHash};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::config_snapshot::ConcurrencyLimits;
use crate::methods::tool_listing_refresh::reload_pins;
use crate::services::GatewayServices;
use crate::transport::TransportState;
use crate::transport::http::listener::{ListenerRole, accept_connections};

pub use active_policy::{ActivePolicy, GrantServerAccess};
pub use aggregate::tool_name_limit::fits_tool_name_limit;
pub use config_snapshot::{ActiveGrant, ConfigSnapshot, GrantConfig};
pub use runtime::workers::{WorkerRoundRobin, WorkerThreads};
pub use settings::{GatewaySettings, InjectedHeader, OtlpTraceConfig};
pub use upstream::{
    MIN_SECRET_BYTES, PinningSettings, SecretRedactor, ToolCategorization, Upstream, UpstreamConfig,
    UpstreamHttpConfig, UpstreamProcessConfig, UpstreamTransport, categorize_accepted_tools, categorize_tools,
    confusable_names,
};

/// A gateway: serves clients over HTTP or stdio under the active configuration.
pub struct Gateway {
    transport_state: Arc<TransportState>,
}

impl Gateway {
    /// Creates a gateway without a configuration. It refuses every request until [`Gateway::apply_config`] is called.
    pub fn new(store: Store, clock: Arc<dyn Clock>, settings: GatewaySettings) -> Arc<Self> {
        Self::with_workers(WorkerRoundRobin::default(), store, clock, settings)
    }

    /// Like [`Gateway::new`], with worker threads that serve connections.
    pub fn with_workers(
        workers: WorkerRoundRobin,
        store: Store,
        clock: Arc<dyn Clock>,
        settings: GatewaySettings,
    ) -> Arc<Self> {
        let services = GatewayServices::new(store, clock, settings, workers.count());
        Arc::new(Self { transport_state: Arc::new(TransportState::new(services, workers)) })
    }

    /// Activates servers, grants and policies for every request that starts from now on. Also reloads the pinned tool
    /// definitions, which may have changed too.
    pub fn apply_config(&self, servers: Vec<UpstreamConfig>, grants: Vec<GrantConfig>) {
        let services = self.services();
        let limits = ConcurrencyLimits::of(&services.settings);
        services.upstream_client.prepare_tls_for(&servers);
        services.config.activate(services.config.snapshot().with_changes(servers, grants, &limits));
        services.sessions.drop_stale_links();
        reload_pins(services);
    }

    /// Returns the active configuration.
    pub fn config_snapshot(&self) -> arc_swap::Guard<Arc<ConfigSnapshot>> {
        self.services().config.snapshot()
    }

    /// Serves clients, and health and metrics if there is a listener for them, until [`Gateway::stop`] is called; then
    /// waits a limited time for running calls to finish.
    ///
    /// # Errors
    /// Accepting on a listener failed.
    pub async fn run(self: &Arc<Self>, clients: TcpListener, monitoring: Option<TcpListener>) -> std::io::Result<()> {
        let services = self.services();
        services.start_telemetry();
        let accept = |listener, role| accept_connections(Arc::clone(&self.transport_state), listener, role);
        let listening = async {
            let monitoring = async {
                match monitoring {
                    Some(monitoring) => accept(monitoring, ListenerRole::Monitoring).await,
                    None => Ok(()),
                }
            };
            tokio::try_join!(accept(clients, ListenerRole::Mcp), monitoring)
        };
        tokio::select! {
            ended = listening => ended?,
            () = services.run_housekeeping() => ((), ()),
        };
        services.drain().await;
        Ok(())
    }

    /// Stops accepting connections. [`Gateway::run`] returns once all calls have ended.
    pub fn stop(&self) {
        self.services().shutdown.stop();
    }

    /// Serves one client for one grant and one server until its input ends or the gateway stops; then waits a limited
    /// time for running calls to finish.
    ///
    /// # Errors
    /// The grant or the server is not in the active configuration, or writing the output failed.
    pub async fn serve_stdio(
        self: &Arc<Self>,
        grant: &TokenHash,
        server: &ServerName,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> std::io::Result<()> {
        transport::stdio::serve_stdio(self.services(), grant, server, input, output).await
    }

    fn services(&self) -> &Arc<GatewayServices> {
        &self.transport_state.services
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("sessions", &self.services().sessions.registry).finish_non_exhaustive()
    }
}
