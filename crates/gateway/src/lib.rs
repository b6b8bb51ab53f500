//! The gateway: listeners, the request pipeline, sessions and upstream connections.
//!
//! A client's request reaches a server only with a `Permit`, which only a policy decision creates. The gateway itself
//! reads no clock, file or environment variable: its caller passes them in.

mod aggregate;
mod argument_redaction;
mod arguments_digest;
mod auth_failures;
mod body_buffer;
mod client_stdio_endpoint;
mod coalescing_stream;
mod config_snapshot;
mod confusables;
mod deadline_timer;
mod entropy;
mod http_server;
mod in_flight_limit;
mod list_changed;
mod message_body;
mod methods;
mod metrics;
mod minimum_revision;
mod pipeline;
mod request_context;
mod request_trace;
mod session;
mod settings;
mod single_session_client;
mod stream_revalidation;
mod telemetry;
mod tool_categories;
mod upstream;
mod workers;

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use gatelodge_store::{CallId, Clock, Ledger, Store, TaskOwners, ToolPins};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::aggregate::late_list_cache::LateListCache;
use crate::aggregate::tool_name_limit::WarnedNames;
use crate::auth_failures::AuthFailureCounter;
use crate::config_snapshot::ConcurrencyLimits;
use crate::http_server::listener::{ListenerRole, accept_connections};
use crate::http_server::sse_server::ClientSseConnections;
use crate::methods::session_pool::SessionPool;
use crate::metrics::Metrics;
use crate::pipeline::SuspendedCalls;
use crate::request_context::RequestContext;
use crate::session::SessionRegistry;
use crate::session::session_persistence::SessionPersistence;
use crate::telemetry::OtlpTraceExport;
use crate::upstream::UpstreamClient;

pub use aggregate::tool_name_limit::fits_tool_name_limit;
pub use config_snapshot::{ActiveGrant, ActivePolicy, ConfigSnapshot, GrantConfig, GrantServerAccess};
pub use confusables::confusable_names;
pub use pipeline::format_seconds;
pub use settings::GatewaySettings;
pub use telemetry::OtlpTraceConfig;
pub use tool_categories::{ToolCategorization, categorize_accepted_tools, categorize_tools};
pub use upstream::{
    InjectedHeader, MIN_SECRET_BYTES, PinningSettings, SecretRedactor, Upstream, UpstreamConfig, UpstreamHttpConfig,
    UpstreamProcessConfig, UpstreamTransport,
};
pub use workers::{WorkerRoundRobin, WorkerThreads};

/// Interval between housekeeping runs, which end idle sessions and write the counted authentication failures.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(60);

/// How long the gateway may take to reply to unfinished requests after a forced shutdown.
const FORCED_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// State shared by all requests.
pub struct Gateway {
    weak_self: Weak<Self>,
    config_snapshot: ArcSwap<ConfigSnapshot>,
    ledger: Arc<dyn Ledger>,
    tool_pins: Arc<dyn ToolPins>,
    clock: Arc<dyn Clock>,
    settings: GatewaySettings,
    sessions: SessionRegistry,
    session_persistence: SessionPersistence,
    task_owners: Arc<dyn TaskOwners>,
    sse_connections: ClientSseConnections,
    session_pool: SessionPool,
    late_lists: LateListCache,
    warned_names: WarnedNames,
    suspended_calls: SuspendedCalls,
    metrics: Metrics,
    telemetry: OtlpTraceExport,
    /// Threads that serve connections.
    workers: WorkerRoundRobin,
    upstream_client: UpstreamClient,
    auth_failures: AuthFailureCounter,
    /// Set to true once, when the gateway stops. Listeners, connections and streams watch it.
    shutdown: watch::Sender<bool>,
    /// Cancelled once, when the drain period is over. Unfinished calls then receive an error.
    forced_shutdown: CancellationToken,
    /// A child of `forced_shutdown` for each worker. Each call waits on its worker's child, so that workers do not
    /// contend for the parent.
    worker_shutdowns: Box<[CancellationToken]>,
    /// Number of running call and connection tasks. The last one to end notifies `tasks_idle`, on which `drain` waits.
    task_count: AtomicUsize,
    tasks_idle: Notify,
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
        let metrics = Metrics::new();
        let client = UpstreamClient::new(&settings, workers.count(), metrics.dropped_messages_counter());
        let telemetry = OtlpTraceExport::new(settings.telemetry.as_ref(), metrics.lost_spans.clone());
        let forced_shutdown = CancellationToken::new();
        Arc::new_cyclic(|own| Self {
            weak_self: Weak::clone(own),
            config_snapshot: ArcSwap::default(),
            ledger: store.ledger,
            tool_pins: store.tool_pins,
            session_persistence: SessionPersistence::new(store.sessions),
            task_owners: store.task_owners,
            clock,
            sessions: SessionRegistry::new(settings.max_sessions, settings.session_idle_timeout),
            sse_connections: ClientSseConnections::default(),
            session_pool: SessionPool::default(),
            late_lists: LateListCache::default(),
            warned_names: WarnedNames::default(),
            suspended_calls: SuspendedCalls::default(),
            upstream_client: client,
            worker_shutdowns: (0..workers.count()).map(|_| forced_shutdown.child_token()).collect(),
            forced_shutdown,
            workers,
            telemetry,
            metrics,
            auth_failures: AuthFailureCounter::default(),
            shutdown: watch::Sender::new(false),
            task_count: AtomicUsize::new(0),
            tasks_idle: Notify::new(),
            settings,
        })
    }

    /// Activates servers, grants and policies for every request that starts from now on. Also reloads the pinned tool
    /// definitions, which may have changed too.
    pub fn apply_config(&self, servers: Vec<UpstreamConfig>, grants: Vec<GrantConfig>) {
        let limits = ConcurrencyLimits {
            in_flight_per_grant: self.settings.in_flight_per_grant,
            in_flight_per_server: self.settings.in_flight_per_server,
            max_sessions_per_grant: self.settings.max_sessions_per_grant,
            processes_per_server: self.settings.processes_per_server,
        };
        self.upstream_client.prepare_tls_for(&servers);
        let next = self.config_snapshot.load().with_changes(servers, grants, &limits);
        self.config_snapshot.store(Arc::new(next));
        let snapshot = self.config_snapshot();
        self.sessions.drop_stale_links(|session, link| {
            let has_grant = snapshot.grants().any(|grant| grant.config.id == *session.grant());
            has_grant
                && session
                    .server()
                    .and_then(|server| snapshot.find_server(server.as_str()))
                    .is_some_and(|upstream| link.belongs_to(upstream))
        });
        self.reload_pins();
    }

    /// Returns the active configuration.
    pub fn config_snapshot(&self) -> arc_swap::Guard<Arc<ConfigSnapshot>> {
        self.config_snapshot.load()
    }

    /// Serves clients, and the admin listener if there is one, until [`Gateway::stop`] is called; then waits a limited
    /// time for running calls to finish.
    ///
    /// # Errors
    /// Accepting on a listener failed.
    pub async fn run(self: &Arc<Self>, clients: TcpListener, admin: Option<TcpListener>) -> std::io::Result<()> {
        self.telemetry.start();
        let stop = self.shutdown.subscribe();
        let housekeeping = self.run_housekeeping();
        let listening = async {
            let admin = async {
                match admin {
                    Some(admin) => accept_connections(Arc::clone(self), admin, ListenerRole::Admin, stop.clone()).await,
                    None => Ok(()),
                }
            };
            tokio::try_join!(accept_connections(Arc::clone(self), clients, ListenerRole::Mcp, stop.clone()), admin)
        };
        tokio::select! {
            ended = listening => ended?,
            () = housekeeping => ((), ()),
        };
        self.drain().await;
        Ok(())
    }

    /// Stops accepting connections. [`Gateway::run`] returns once all calls have ended.
    pub fn stop(&self) {
        self.shutdown.send_replace(true);
    }

    async fn run_housekeeping(&self) {
        loop {
            tokio::time::sleep(HOUSEKEEPING_INTERVAL).await;
            self.end_idle_sessions().await;
            self.persist_session_usage().await;
            self.delete_expired_tasks().await;
            self.expire_suspended_calls();
            self.end_spare_sessions();
            self.write_auth_failures().await;
        }
    }

    /// Runs the housekeeping needed for a stdio client.
    async fn run_stdio_housekeeping(&self) {
        loop {
            tokio::time::sleep(HOUSEKEEPING_INTERVAL).await;
            self.expire_suspended_calls();
            self.end_spare_sessions();
        }
    }

    async fn drain(&self) {
        if tokio::time::timeout(self.settings.drain_timeout, self.wait_for_tasks()).await.is_err() {
            // Unfinished calls are replied to and recorded now.
            self.forced_shutdown.cancel();
            if tokio::time::timeout(FORCED_SHUTDOWN_TIMEOUT, self.wait_for_tasks()).await.is_err() {
                let left = self.task_count.load(Ordering::Acquire);
                warn!(left, "stopped with {left} requests unfinished");
            }
        }
        self.write_auth_failures().await;
        self.persist_session_usage().await;
        if let Err(error) = self.ledger.flush().await {
            warn!(error = %error, "cannot flush the call log, its last rows may be missing: {error}");
        }
        self.telemetry.flush().await;
        info!("stopped");
    }

    async fn wait_for_tasks(&self) {
        loop {
            let idle = self.tasks_idle.notified();
            if self.task_count.load(Ordering::Acquire) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Waits until the drain period is over.
    pub(crate) async fn wait_for_forced_shutdown(&self) {
        let of_worker = self.worker_shutdowns.get(workers::current_worker());
        of_worker.unwrap_or(&self.forced_shutdown).cancelled().await;
    }

    pub(crate) fn is_forced_shutdown(&self) -> bool {
        self.forced_shutdown.is_cancelled()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.shutdown.borrow()
    }

    pub(crate) async fn wait_for_shutdown(&self) {
        let mut stop = self.shutdown.subscribe();
        // An error means that the gateway is gone, which is a stop too.
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// Returns whether the configuration under which a long-lived stream was opened is still active: its grant and
    /// labels, server, pinned definitions and policy version.
    pub(crate) fn is_context_current(&self, ctx: &RequestContext) -> bool {
        self.is_policy_current(ctx) && ctx.pins_epoch == ctx.upstream.pins_epoch()
    }

    /// Like [`Self::is_context_current`], but for a call that has already been evaluated: definitions pinned since then
    /// do not matter.
    pub(crate) fn is_policy_current(&self, ctx: &RequestContext) -> bool {
        let snapshot = self.config_snapshot();
        let config = &ctx.grant.config;
        let Some(grant) = snapshot.find_grant(&config.token).filter(|grant| !grant.is_expired(self.clock.now())) else {
            return false;
        };
        // Policies can refer to labels.
        if grant.config.label != config.label || grant.config.labels != config.labels {
            return false;
        }
        let access = grant.config.servers.get(ctx.upstream.name());
        let is_same = access.is_some_and(|access| access.has_same_rules(&ctx.server_access));
        is_same
            && snapshot
                .find_server(ctx.upstream.name().as_str())
                .is_some_and(|server| Arc::ptr_eq(server, &ctx.upstream))
    }

    /// Returns the shared gateway, for a task that outlives its request.
    pub(crate) fn arc_self(&self) -> Option<Arc<Self>> {
        self.weak_self.upgrade()
    }

    /// Starts a task that [`Gateway::run`] waits for before it returns.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(&Handle::current(), task);
    }

    /// Like [`Self::spawn`], on a given runtime.
    pub(crate) fn spawn_on(self: &Arc<Self>, on: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        self.task_count.fetch_add(1, Ordering::AcqRel);
        let counted = BackgroundTaskGuard(Arc::clone(self));
        on.spawn(async move {
            task.await;
            drop(counted);
        });
    }

    pub(crate) fn new_call_id(&self) -> CallId {
        self.new_call_id_at(self.clock.now())
    }

    pub(crate) fn new_call_id_at(&self, at: Timestamp) -> CallId {
        // Without randomness ids are still unique by time, but guessable. That is no reason to refuse the request, and
        // the operating system does not fail to provide randomness once it has started.
        CallId::new(at, entropy::call_id_entropy())
    }
}

/// Decrements the task count on drop, and therefore also after a panic.
struct BackgroundTaskGuard(Arc<Gateway>);

impl Drop for BackgroundTaskGuard {
    fn drop(&mut self) {
        if self.0.task_count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.tasks_idle.notify_one();
        }
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}
