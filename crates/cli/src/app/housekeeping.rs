//! What is done now and then: rows of the call log that are older than they are kept are removed.

use std::sync::Arc;
use std::time::Duration;

use gatelodge_store::{Clock, Ledger, SqliteLedger};
use tracing::{error, info, warn};

const PRUNE_INTERVAL: Duration = Duration::from_secs(3_600);

/// How often it is asked whether the ledger lost something.
const LEDGER_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Tells when the ledger has lost something or left it undone. Never ends.
pub async fn watch_ledger(ledger: Arc<SqliteLedger>) {
    let mut looks = tokio::time::interval(LEDGER_POLL_INTERVAL);
    let mut known = 0;
    loop {
        looks.tick().await;
        let faults = ledger.error_count();
        if faults > known {
            let new = faults - known;
            error!(faults, "the ledger lost {new} rows or could not sync; see whether the disk is full or broken");
            known = faults;
        }
    }
}

/// Removes old rows at the start and each hour. Never ends.
pub async fn prune_periodically(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, retention: Option<Duration>) {
    let Some(retention) = retention else { return std::future::pending().await };
    let mut hours = tokio::time::interval(PRUNE_INTERVAL);
    loop {
        hours.tick().await;
        let Ok(before) = clock.now().checked_sub(retention) else { continue };
        match ledger.prune(before).await {
            Ok(0) => {}
            Ok(rows) => info!(rows, "removed {rows} rows of the call log from before {before}"),
            Err(fault) => warn!(error = %fault, "cannot remove old rows of the call log: {fault}"),
        }
    }
}
