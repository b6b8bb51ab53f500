//! What is done now and then: rows of the call log that are older than they are kept are removed.

use std::sync::Arc;
use std::time::Duration;

use gatelodge_store::{Clock, Ledger};
use tracing::{info, warn};

const HOUR: Duration = Duration::from_secs(3_600);

/// Removes old rows at the start and each hour. Never ends.
pub async fn prune(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, retention: Option<Duration>) {
    let Some(retention) = retention else { return std::future::pending().await };
    let mut hours = tokio::time::interval(HOUR);
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
