//! What a gateway does besides serving requests: recurring clean-up, and the steps of its end.

use std::time::Duration;

use tracing::{info, warn};

use crate::services::GatewayServices;
use crate::upstream::CollectorClient;
use crate::upstream_session::call_cancellation::expire_suspended_calls;

/// Interval between housekeeping runs, which end idle sessions and write the counted authentication failures.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(60);

/// How long the gateway may take to reply to unfinished requests after a forced shutdown.
const FORCED_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

impl GatewayServices {
    /// Starts exporting spans, if a collector is configured.
    pub fn start_telemetry(&self) {
        self.telemetry.start(|config| {
            let collector = CollectorClient::new(config);
            move |batch| collector.clone().post(batch)
        });
    }

    /// Cleans up at intervals, until it is dropped.
    pub async fn run_housekeeping(&self) {
        loop {
            tokio::time::sleep(HOUSEKEEPING_INTERVAL).await;
            self.sessions.end_idle().await;
            self.sessions.persist_usage().await;
            self.delete_expired_tasks().await;
            expire_suspended_calls(self);
            self.sessions.end_spare();
            self.write_auth_failures().await;
        }
    }

    /// Runs the housekeeping needed for a stdio client.
    pub async fn run_stdio_housekeeping(&self) {
        loop {
            tokio::time::sleep(HOUSEKEEPING_INTERVAL).await;
            expire_suspended_calls(self);
            self.sessions.end_spare();
        }
    }

    /// Waits a limited time for running calls to finish, ends the rest, and writes what is left to write.
    pub async fn drain(&self) {
        if tokio::time::timeout(self.settings.drain_timeout, self.tasks.wait_until_idle()).await.is_err() {
            // Unfinished calls are replied to and recorded now.
            self.shutdown.force();
            if tokio::time::timeout(FORCED_SHUTDOWN_TIMEOUT, self.tasks.wait_until_idle()).await.is_err() {
                let left = self.tasks.count();
                warn!(left, "stopped with {left} requests unfinished");
            }
        }
        self.write_auth_failures().await;
        self.sessions.persist_usage().await;
        if let Err(error) = self.ledger.flush().await {
            warn!(error = %error, "cannot flush the call log, its last rows may be missing: {error}");
        }
        self.telemetry.flush().await;
        info!("stopped");
    }
}
