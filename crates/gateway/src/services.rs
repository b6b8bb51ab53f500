//! What all requests of a gateway share. Each part belongs to a lower layer, and functions that need one part take only
//! that.

mod call_log;

use std::fmt;
use std::sync::{Arc, Weak};

use gatelodge_store::{CallId, Clock, Ledger, Store, TaskOwners, ToolPins};
use jiff::Timestamp;

use crate::config_snapshot::ActiveConfig;
use crate::runtime::{Shutdown, TaskTracker, entropy};
use crate::session::SessionManager;
use crate::settings::GatewaySettings;
use crate::suspended_calls::SuspendedCalls;
use crate::telemetry::{AuthFailureCounter, Metrics, OtlpTraceExport};
use crate::upstream::UpstreamClient;

/// The parts that requests share.
pub(crate) struct GatewayServices {
    weak_self: Weak<Self>,
    pub settings: GatewaySettings,
    pub clock: Arc<dyn Clock>,
    pub config: Arc<ActiveConfig>,
    pub ledger: Arc<dyn Ledger>,
    pub tool_pins: Arc<dyn ToolPins>,
    pub task_owners: Arc<dyn TaskOwners>,
    pub upstream_client: Arc<UpstreamClient>,
    pub sessions: SessionManager,
    pub suspended_calls: SuspendedCalls,
    pub metrics: Metrics,
    pub telemetry: OtlpTraceExport,
    pub auth_failures: AuthFailureCounter,
    pub shutdown: Shutdown,
    /// Call and connection tasks, which the end of the gateway waits for.
    pub tasks: TaskTracker,
}

impl GatewayServices {
    pub fn new(store: Store, clock: Arc<dyn Clock>, settings: GatewaySettings, workers: usize) -> Arc<Self> {
        let metrics = Metrics::new();
        let upstream_client = UpstreamClient::new(&settings, workers, metrics.dropped_messages_counter());
        let upstream_client = Arc::new(upstream_client);
        let telemetry = OtlpTraceExport::new(settings.telemetry.as_ref(), metrics.lost_spans.clone());
        let config = Arc::new(ActiveConfig::new(Arc::clone(&clock)));
        let sessions =
            SessionManager::new(store.sessions, Arc::clone(&config), Arc::clone(&upstream_client), &settings);
        Arc::new_cyclic(|own| Self {
            weak_self: Weak::clone(own),
            clock,
            config,
            ledger: store.ledger,
            tool_pins: store.tool_pins,
            task_owners: store.task_owners,
            upstream_client,
            sessions,
            suspended_calls: SuspendedCalls::default(),
            metrics,
            telemetry,
            auth_failures: AuthFailureCounter::default(),
            shutdown: Shutdown::new(workers),
            tasks: TaskTracker::default(),
            settings,
        })
    }

    /// Returns the shared services, for a task that outlives its request.
    pub fn arc_self(&self) -> Option<Arc<Self>> {
        self.weak_self.upgrade()
    }

    pub fn new_call_id(&self) -> CallId {
        self.new_call_id_at(self.clock.now())
    }

    pub fn new_call_id_at(&self, at: Timestamp) -> CallId {
        // Without randomness ids are still unique by time, but guessable. That is no reason to refuse the request, and
        // the operating system does not fail to provide randomness once it has started.
        CallId::new(at, entropy::call_id_entropy())
    }
}

impl fmt::Debug for GatewayServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayServices").field("sessions", &self.sessions.registry).finish_non_exhaustive()
    }
}
