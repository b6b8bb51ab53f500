//! Periodic work: prunes call log rows that are older than the retention period, and reports ledger errors.

use std::sync::Arc;
use std::time::Duration;

use gatelodge_store::{CallLog, Clock, Ledger};
use tracing::{error, info, warn};

const PRUNE_INTERVAL: Duration = Duration::from_secs(3_600);

/// How often the ledger's error count is checked.
const LEDGER_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Logs a message when the ledger has lost rows or could not sync. Never returns.
pub async fn watch_ledger(ledger: Arc<dyn Ledger>) {
    let mut interval = tokio::time::interval(LEDGER_POLL_INTERVAL);
    let mut known = 0;
    loop {
        interval.tick().await;
        let faults = ledger.error_count();
        if faults > known {
            let new = faults - known;
            error!(faults, "the ledger lost {new} rows or could not sync; check whether the disk is full or broken");
            known = faults;
        }
    }
}

/// Removes old call log rows at startup and then once per hour. Never returns.
pub async fn prune_periodically(call_log: Arc<dyn CallLog>, clock: Arc<dyn Clock>, retention: Option<Duration>) {
    let Some(retention) = retention else { return std::future::pending().await };
    let mut interval = tokio::time::interval(PRUNE_INTERVAL);
    loop {
        interval.tick().await;
        let Ok(before) = clock.now().checked_sub(retention) else { continue };
        match call_log.prune(before).await {
            Ok(0) => {}
            Ok(rows) => info!(rows, "removed {rows} rows of the call log from before {before}"),
            Err(error) => warn!(error = %error, "cannot remove old rows of the call log: {error}"),
        }
    }
}
